/* SPDX-License-Identifier: Apache-2.0
 *
 * What the firmware keeps in flash (storage.c), on this machine: the key does not stay on the
 * stack, what is damaged is told, and a start erases one sector. */
#include "gossip_node.h"

#include "faulty_flash.h"
#include "test_support.h"

#include <pthread.h>

#define SECTOR_BYTES 4096u
#define SECTORS_N 16u
#define STACK_BYTES (2048u * 1024u)     /* the thread sanitizer takes one of them */
#define KEY "00112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100"
#define PARAMETERS_N 100u

static struct faulty_flash flash;
static struct uw_flash_ops counted;     /* its operations, with erasures counted */
static int (*erase)(struct uw_flash *f, uint32_t sector);
static uint32_t erased_n;
static struct uw_firmware firmware;
static char said[1000];
static char arguments[200];
static float parameters[PARAMETERS_N];

/* ---- the rest of the firmware, and the board ---- */

const struct uw_machine uw_machine = {.name = "test", .flash = &flash.base};

void uw_console_line(const char *format, ...)
{
    size_t used = strlen(said);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(said + used, sizeof said - used, format, args);
    va_end(args);
}

int uw_machine_arguments(char *text, size_t bytes)
{
    assert_true(strlen(arguments) < bytes);
    strcpy(text, arguments);
    return UW_OK;
}

int uw_machine_flash_file(const char *path)
{
    (void)path;
    return UW_OK;
}

uint64_t uw_machine_now_us(void)
{
    return 0;
}

uint64_t uw_firmware_trained_us(const struct uw_firmware *f)
{
    return f->trained_us;
}

void uw_firmware_poll(struct uw_firmware *f)
{
    (void)f;
}

void uw_model_init_weights(struct uw_model *m, uint64_t seed)
{
    (void)seed;
    memset(m->params.x, 0, sizeof parameters);
}

static bool all_finite(const struct uw_exec *e, size_t n, const float *x)
{
    (void)e;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
    }
    return true;
}

static const struct uw_kernels kernels = {.name = "test", .all_finite = all_finite};
static struct uw_dataset dataset = {.samples_n = 10};

/* ---- what is tested ---- */

/* The board starts anew: all but its flash is as it was made. */
static int start(const char *words)
{
    firmware = (struct uw_firmware){.step = 0};
    firmware.model.params = (struct uw_params){.x = parameters, .size_n = PARAMETERS_N,
                                               .hash = 5};
    firmware.model.config.kernels = &kernels;
    firmware.loader.config.dataset = &dataset;
    strcpy(arguments, words);
    said[0] = '\0';
    int rc = uw_firmware_open_settings(&firmware);
    return rc < 0 ? rc : uw_firmware_open_checkpoint(&firmware);
}

static int count_erase(struct uw_flash *f, uint32_t sector)
{
    erased_n++;
    return erase(f, sector);
}

static int new_flash(void **state)
{
    static uint8_t memory[3u * SECTORS_N * SECTOR_BYTES];
    (void)state;
    assert_true(faulty_flash_bytes(SECTOR_BYTES, SECTORS_N, 1) <= sizeof memory);
    faulty_flash_init(&flash, memory, SECTOR_BYTES, SECTORS_N, 1, 1);
    counted = *flash.base.ops;
    erase = counted.erase;
    counted.erase = count_erase;
    flash.base.ops = &counted;
    return 0;
}

/* Spoil what two sectors hold, each in its first bytes or in the data behind the header. */
static void damage(uint32_t first_sector, uint32_t offset)
{
    for (uint32_t i = 0; i < 2; i++) {
        flash.now[(first_sector + i) * SECTOR_BYTES + offset] ^= 1u;
        flash.then[(first_sector + i) * SECTOR_BYTES + offset] ^= 1u;
    }
}

static void *open_settings(void *arg)
{
    (void)arg;
    return uw_firmware_open_settings(&firmware) == UW_OK ? &firmware : NULL;
}

static bool holds(const uint8_t *memory, size_t bytes, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= bytes; i++) {
        if (memcmp(memory + i, text, n) == 0) {
            return true;
        }
    }
    return false;
}

static void test_key_does_not_stay_on_the_stack(void **state)
{
    static _Alignas(4096) uint8_t stack[STACK_BYTES];
    (void)state;
    assert_int_equal(start("key=" KEY), UW_OK);
    firmware.kept = firmware.settings;
    assert_int_equal(uw_firmware_save_settings(&firmware), UW_OK);
    for (int from_flash = 0; from_flash < 2; from_flash++) {
        pthread_t thread;
        pthread_attr_t attributes;
        void *opened = NULL;
        memset(stack, 0, sizeof stack);
        firmware = (struct uw_firmware){.step = 0};
        strcpy(arguments, from_flash ? "" : "name=board key=" KEY);
        assert_int_equal(pthread_attr_init(&attributes), 0);
        assert_int_equal(pthread_attr_setstack(&attributes, stack, sizeof stack), 0);
        assert_int_equal(pthread_create(&thread, &attributes, open_settings, NULL), 0);
        assert_int_equal(pthread_join(thread, &opened), 0);
        assert_int_equal(pthread_attr_destroy(&attributes), 0);
        assert_non_null(opened);
        assert_string_equal(firmware.settings.key, KEY);
        assert_false(holds(stack, sizeof stack, "2233445566778899aabb"));
    }
}

static void test_damaged_settings_are_told(void **state)
{
    (void)state;
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "");
    firmware.kept.batch = 5;
    assert_int_equal(uw_firmware_save_settings(&firmware), UW_OK);
    assert_int_equal(uw_firmware_save_settings(&firmware), UW_OK);
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "");
    assert_int_equal(firmware.settings.batch, 5);
    damage(0, 100);
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "settings in flash: the data is damaged or malformed");
    assert_int_equal(firmware.settings.batch, 8);
}

/* Sectors 0 to 3 are those of the settings and of the count. */
static void damaged_checkpoint(uint32_t offset)
{
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "");
    for (uint32_t i = 0; i < 2; i++) {
        firmware.step = 7 + i;
        parameters[0] = 2.0f;
        assert_int_equal(uw_firmware_save_checkpoint(&firmware), UW_OK);
    }
    parameters[0] = 0.0f;
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "");
    assert_int_equal(firmware.step, 8);
    assert_true(parameters[0] == 2.0f);
    damage(4, offset);
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "checkpoint: the data is damaged or malformed; starting afresh");
    assert_int_equal(firmware.step, 0);
    assert_true(parameters[0] == 0.0f);
}

static void test_checkpoint_damaged_in_both_slots_is_told(void **state)
{
    (void)state;
    damaged_checkpoint(300);
}

static void test_checkpoint_without_a_readable_header_is_told(void **state)
{
    (void)state;
    damaged_checkpoint(0);
}

static void test_checkpoint_that_was_forgotten_is_no_damage(void **state)
{
    (void)state;
    assert_int_equal(start(""), UW_OK);
    firmware.step = 7;
    assert_int_equal(uw_firmware_save_checkpoint(&firmware), UW_OK);
    assert_int_equal(uw_firmware_forget_checkpoint(&firmware), UW_OK);
    assert_int_equal(start(""), UW_OK);
    assert_string_equal(said, "");
    assert_int_equal(firmware.step, 0);
}

static void test_checkpoint_that_diverged_is_told(void **state)
{
    (void)state;
    assert_int_equal(start(""), UW_OK);
    parameters[0] = NAN;
    assert_int_equal(uw_firmware_save_checkpoint(&firmware), UW_OK);
    assert_int_equal(start(""), UW_OK);
    assert_non_null(strstr(said, "starting afresh"));
    assert_true(parameters[0] == 0.0f);
}

static void test_start_is_counted_with_one_erasure(void **state)
{
    (void)state;
    for (uint32_t boot = 1; boot <= 5; boot++) {
        uint32_t before = erased_n;
        assert_int_equal(start(""), UW_OK);
        assert_int_equal(firmware.boots, boot);
        assert_int_equal(erased_n - before, 1);
    }
}

static void test_settings_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    assert_int_equal(start("elapsed=5"), UW_ERR_INVALID);
    assert_string_equal(firmware.err.text, "elapsed: needs seconds");
    assert_int_equal(start("elapsed=5 seconds=5"), UW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_key_does_not_stay_on_the_stack, new_flash),
        cmocka_unit_test_setup(test_damaged_settings_are_told, new_flash),
        cmocka_unit_test_setup(test_checkpoint_damaged_in_both_slots_is_told, new_flash),
        cmocka_unit_test_setup(test_checkpoint_without_a_readable_header_is_told, new_flash),
        cmocka_unit_test_setup(test_checkpoint_that_was_forgotten_is_no_damage, new_flash),
        cmocka_unit_test_setup(test_checkpoint_that_diverged_is_told, new_flash),
        cmocka_unit_test_setup(test_start_is_counted_with_one_erasure, new_flash),
        cmocka_unit_test_setup(test_settings_that_do_not_go_together_are_refused, new_flash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
