/* SPDX-License-Identifier: Apache-2.0
 *
 * The promises of uwasa/flash.h over a partition of Zephyr's flash map: a device in memory that
 * stands for its driver, with another partition before and after. */
#include "test_support.h"

#include "uwasa/flash_zephyr.h"

#include <zephyr/storage/flash_map.h>

#define PAGE 512u
#define PAGES 12u
#define FIRST 3u                        /* pages of the partition under test */
#define SIZE 6u
#define PARTITION 4u

struct device {
    uint8_t bytes[PAGE * PAGES];
    bool ready, broken, worn;
    size_t large_from;                  /* pages from here on are twice as large */
    uint32_t unit;
    uint8_t erased;
};

static struct device device;
static struct flash_area area;

bool device_is_ready(const struct device *dev)
{
    return dev->ready;
}

int flash_get_page_info_by_offs(const struct device *dev, off_t offset,
                                struct flash_pages_info *info)
{
    size_t at = (size_t)offset, size = at >= dev->large_from ? 2 * PAGE : PAGE;
    *info = (struct flash_pages_info){.start_offset = (off_t)(at / size * size), .size = size};
    return at < sizeof dev->bytes ? 0 : -22;
}

int flash_area_open(uint8_t id, const struct flash_area **fa)
{
    *fa = &area;
    return id == PARTITION ? 0 : -2;
}

static uint8_t *inside(const struct flash_area *fa, off_t off, size_t len)
{
    assert_true(off >= 0 && (size_t)off + len <= fa->fa_size);
    return &device.bytes[(size_t)(fa->fa_off + off)];
}

int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len)
{
    memcpy(dst, inside(fa, off, len), len);
    return device.broken ? -5 : 0;
}

int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len)
{
    uint8_t *to = inside(fa, off, len);
    const uint8_t *from = src;
    assert_int_equal((size_t)off % device.unit, 0);
    assert_int_equal(len % device.unit, 0);
    for (size_t i = 0; i < len; i++) {
        to[i] &= device.worn && i + 1 == len ? from[i] & 0x7f : from[i];
    }
    return device.broken ? -5 : 0;
}

int flash_area_erase(const struct flash_area *fa, off_t off, size_t len)
{
    assert_int_equal((size_t)off % PAGE, 0);
    memset(inside(fa, off, len), 0xff, len);
    return device.broken ? -5 : 0;
}

uint32_t flash_area_align(const struct flash_area *fa)
{
    (void)fa;
    return device.unit;
}

uint8_t flash_area_erased_val(const struct flash_area *fa)
{
    (void)fa;
    return device.erased;
}

static int setup(void **state)
{
    (void)state;
    memset(&device, 0, sizeof device);
    memset(device.bytes, 0x55, sizeof device.bytes);
    device.ready = true;
    device.unit = 8;
    device.erased = 0xff;
    device.large_from = SIZE_MAX;
    area = (struct flash_area){.fa_off = FIRST * PAGE, .fa_size = SIZE * PAGE, .fa_dev = &device};
    return 0;
}

static struct uw_flash *opened(struct uw_flash_zephyr *f)
{
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_flash_zephyr_init(f, PARTITION, &err), UW_OK);
    assert_int_equal(f->flash.sector_bytes, PAGE);
    assert_int_equal(f->flash.sectors_n, SIZE);
    assert_int_equal(f->flash.program_bytes, 8);
    return &f->flash;
}

static void test_flash_programs_and_erases_its_own_sectors_only(void **state)
{
    (void)state;
    struct uw_flash_zephyr z;
    struct uw_flash *f = opened(&z);
    uint8_t out[200], in[200];
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (uint8_t)(i * 7u + 1u);
    }
    for (uint32_t sector = 0; sector < SIZE; sector++) {
        assert_int_equal(f->ops->erase(f, sector), UW_OK);
        assert_int_equal(f->ops->read(f, sector * PAGE + 100, in, 200), UW_OK);
        for (size_t i = 0; i < sizeof in; i++) {
            assert_int_equal(in[i], 0xff);
        }
    }
    for (size_t i = 0; i < sizeof device.bytes; i++) {
        bool own = i >= FIRST * PAGE && i < (FIRST + SIZE) * PAGE;
        assert_int_equal(device.bytes[i], own ? 0xff : 0x55);
    }
    assert_int_equal(f->ops->program(f, SIZE * PAGE - 200, out, 200), UW_OK);
    assert_int_equal(f->ops->program(f, 8, out, 64), UW_OK);
    assert_int_equal(f->ops->program(f, 16, out, 0), UW_OK);
    assert_int_equal(f->ops->read(f, SIZE * PAGE - 200, in, 200), UW_OK);
    assert_memory_equal(in, out, 200);
    assert_int_equal(f->ops->read(f, 9, in, 63), UW_OK);
    assert_memory_equal(in, out + 1, 63);
}

static void test_flash_beyond_the_end_or_off_its_units_is_invalid(void **state)
{
    (void)state;
    struct uw_flash_zephyr z;
    struct uw_flash *f = opened(&z);
    uint8_t buf[16] = {0};
    const struct {
        uint32_t at, bytes;
    } bad[] = {{SIZE * PAGE, 8}, {SIZE * PAGE - 8, 16}, {UINT32_MAX - 7, 16}, {4, 8}, {8, 4}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(f->ops->program(f, bad[i].at, buf, bad[i].bytes), UW_ERR_INVALID);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->ops->read(f, bad[i].at, buf, bad[i].bytes), UW_ERR_INVALID);
    }
    assert_int_equal(f->ops->read(f, SIZE * PAGE, buf, 0), UW_OK);
    assert_int_equal(f->ops->erase(f, SIZE), UW_ERR_INVALID);
}

static void test_flash_that_fails_or_reads_otherwise_is_an_error(void **state)
{
    (void)state;
    struct uw_flash_zephyr z;
    struct uw_flash *f = opened(&z);
    uint8_t buf[80];
    memset(buf, 0xf0, sizeof buf);
    assert_int_equal(f->ops->erase(f, 0), UW_OK);
    device.worn = true;
    assert_int_equal(f->ops->program(f, 0, buf, 80), UW_ERR_IO);
    device.worn = false;
    device.broken = true;
    assert_int_equal(f->ops->read(f, 0, buf, 8), UW_ERR_IO);
    assert_int_equal(f->ops->program(f, 128, buf, 8), UW_ERR_IO);
    assert_int_equal(f->ops->erase(f, 1), UW_ERR_IO);
}

static void test_flash_partition_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct uw_flash_zephyr f;
    struct uw_error err;
    assert_int_equal(uw_flash_zephyr_init(&f, PARTITION + 1, &err), UW_ERR_NOTFOUND);
    assert_non_null(strstr(err.text, "partition 5"));
    device.ready = false;
    assert_int_equal(uw_flash_zephyr_init(&f, PARTITION, NULL), UW_ERR_NOTFOUND);
    setup(NULL);
    device.large_from = (FIRST + SIZE - 1) * PAGE;
    assert_int_equal(uw_flash_zephyr_init(&f, PARTITION, &err), UW_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "one size"));
    setup(NULL);
    area.fa_off += PAGE / 2;
    assert_int_equal(uw_flash_zephyr_init(&f, PARTITION, &err), UW_ERR_UNSUPPORTED);
    setup(NULL);
    area.fa_size -= 8;
    assert_int_equal(uw_flash_zephyr_init(&f, PARTITION, &err), UW_ERR_UNSUPPORTED);
    const uint32_t units[] = {0, 3, 64};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        setup(NULL);
        device.unit = units[i];
        assert_int_equal(uw_flash_zephyr_init(&f, PARTITION, &err), UW_ERR_UNSUPPORTED);
        assert_null(f.flash.ops);
    }
    setup(NULL);
    device.erased = 0;
    assert_int_equal(uw_flash_zephyr_init(&f, PARTITION, &err), UW_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_flash_programs_and_erases_its_own_sectors_only, setup),
        cmocka_unit_test_setup(test_flash_beyond_the_end_or_off_its_units_is_invalid, setup),
        cmocka_unit_test_setup(test_flash_that_fails_or_reads_otherwise_is_an_error, setup),
        cmocka_unit_test_setup(test_flash_partition_that_does_not_fit_is_refused, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
