/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of measured algorithms: written whole, read line by line; nothing in it does harm. */
#include "test_support.h"

#include "cuda/choices.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define CARD "NVIDIA Orin, 8.7, driver 13000, cuDNN 91900, fp32"
#define OTHER "NVIDIA H200, 9.0, driver 13000, cuDNN 91900, fp32"

static char folder[64], path[96];
static struct uw_cuda_choices h, back;

static int begin(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "choices-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/choices", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)unlink(path);
    (void)chmod(folder, 0700);
    return rmdir(folder);   /* fails where a temporary file is left */
}

static struct uw_cuda_choice choice(uint32_t part, uint32_t batch_n, uint32_t channels,
                                    int32_t algorithm)
{
    struct uw_cuda_choice c = {.part = part, .batch_n = batch_n, .algorithm = algorithm,
                               .us = 41.25};
    for (uint32_t i = 0; i < UW_CUDA_CHOICES_SHAPE; i++) {
        c.shape[i] = channels + i;
    }
    return c;
}

static void put(struct uw_cuda_choices *to, struct uw_cuda_choice c)
{
    uw_cuda_choices_put(to, &c);
}

static int32_t algorithm_of(const struct uw_cuda_choices *of, struct uw_cuda_choice like)
{
    const struct uw_cuda_choice *c =
        uw_cuda_choices_find(of, like.part, like.batch_n, like.shape);
    return c == NULL ? -1 : c->algorithm;
}

static void write_text(const char *text, size_t bytes)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static size_t read_text(char *text, size_t cap)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, cap - 1, f);
    text[n] = '\0';
    fclose(f);
    return n;
}

static void test_choices_come_back_from_the_file(void **state)
{
    (void)state;
    uw_cuda_choices_load(&h, path, CARD);
    assert_int_equal(h.n, 0);           /* there is none yet */
    for (uint32_t part = 0; part < 3; part++) {
        put(&h, choice(part, 64, 3, (int32_t)part + 8));
        put(&h, choice(part, 1, 3, 0));
    }
    put(&h, choice(1, 64, 3, 15));      /* in place of 9 */
    assert_int_equal(h.n, 6);
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    uw_cuda_choices_load(&back, path, CARD);
    assert_int_equal(back.n, 6);
    assert_int_equal(algorithm_of(&back, choice(0, 64, 3, 0)), 8);
    assert_int_equal(algorithm_of(&back, choice(1, 64, 3, 0)), 15);
    assert_int_equal(algorithm_of(&back, choice(2, 1, 3, 0)), 0);
    assert_int_equal(algorithm_of(&back, choice(2, 2, 3, 0)), -1);
    assert_int_equal(algorithm_of(&back, choice(2, 1, 4, 0)), -1);
    assert_true(back.at[0].us > 41.0 && back.at[0].us < 41.5);
}

static void test_choices_of_engines_come_back(void **state)
{
    (void)state;
    const uint64_t keys[] = {1, 0xfedcba9876543210u, UINT64_MAX};
    uw_cuda_choices_load(&h, path, CARD);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_cuda_choice c = choice(i, 64, 3, 2);
        c.engine = keys[i];
        put(&h, c);
    }
    put(&h, choice(0, 1, 3, 9));
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    uw_cuda_choices_load(&back, path, CARD);
    assert_int_equal(back.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(back.at[i].engine == (i < 3 ? keys[i] : 0));
    }
}

static void test_choice_that_is_gone_leaves_the_file(void **state)
{
    (void)state;
    const struct uw_cuda_choice stays = choice(1, 64, 8, 2), goes = choice(2, 64, 8, 2);
    uw_cuda_choices_load(&h, path, OTHER);
    put(&h, goes);
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    uw_cuda_choices_load(&h, path, CARD);
    put(&h, stays);
    put(&h, goes);
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    put(&h, choice(2, 64, 8, UW_CUDA_CHOICE_GONE));
    assert_int_equal(algorithm_of(&h, goes), -1);
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    uw_cuda_choices_load(&back, path, CARD);
    assert_int_equal(back.n, 1);
    assert_int_equal(algorithm_of(&back, stays), 2);
    uw_cuda_choices_load(&back, path, OTHER);       /* another machine's is its own */
    assert_int_equal(algorithm_of(&back, goes), 2);
    put(&h, goes);                                  /* measured after all */
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    uw_cuda_choices_load(&back, path, CARD);
    assert_int_equal(algorithm_of(&back, goes), 2);
}

/* A number too short, too long, of no digits, 0. */
static void test_choices_of_damaged_engines_are_not_there(void **state)
{
    (void)state;
    static const char *const engines[] = {"1", "00c0ffee123456789", "00c0ffee1234567G",
                                          "0000000000000000", ""};
    char text[512];
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        int n = snprintf(text, sizeof text,
                         "uwasa choices 1\nconv2d fw batch 64 shape 3 32 32 16 32 32 3 3 1 1 1 1 1 "
                         "1 1 algorithm 2 engine %s us 41.2 on " CARD "\n", engines[i]);
        write_text(text, (size_t)n);
        uw_cuda_choices_load(&back, path, CARD);
        assert_int_equal(back.n, 0);
    }
}

/* Whoever filled it: what is written anew has its lines of other machines, up to a number. */
static void test_choices_large_file_is_written_anew(void **state)
{
    (void)state;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("uwasa choices 1\n", file);
    for (uint32_t i = 0; i < 150000; i++) {
        fprintf(file, "conv2d fw batch %u shape 3 32 32 16 32 32 3 3 1 1 1 1 1 1 1 algorithm 9 "
                "us 41.2 on " OTHER "\n", (unsigned)i);
    }
    assert_true(ftell(file) > 16L << 20);
    assert_int_equal(fclose(file), 0);
    uw_cuda_choices_load(&h, path, CARD);
    assert_int_equal(h.n, 0);
    put(&h, choice(0, 64, 3, 9));
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_true(s.st_size < 1 << 20);
    uw_cuda_choices_load(&back, path, CARD);
    assert_int_equal(algorithm_of(&back, choice(0, 64, 3, 0)), 9);
}

static void test_choices_of_other_machines_and_programs_are_kept(void **state)
{
    (void)state;
    uw_cuda_choices_load(&h, path, OTHER);
    put(&h, choice(0, 64, 3, 14));
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    uw_cuda_choices_load(&h, path, CARD);
    assert_int_equal(h.n, 0);
    uw_cuda_choices_load(&back, path, CARD);
    put(&h, choice(0, 64, 3, 9));
    put(&back, choice(0, 64, 16, 10));  /* a second program, which has not seen the first one's */
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    assert_int_equal(uw_cuda_choices_save(&back), UW_OK);
    uw_cuda_choices_load(&h, path, CARD);
    assert_int_equal(h.n, 2);
    assert_int_equal(algorithm_of(&h, choice(0, 64, 3, 0)), 9);
    assert_int_equal(algorithm_of(&h, choice(0, 64, 16, 0)), 10);
    uw_cuda_choices_load(&h, path, OTHER);
    assert_int_equal(h.n, 1);
    assert_int_equal(algorithm_of(&h, choice(0, 64, 3, 0)), 14);
}

static void test_choices_foreign_file_is_ignored_and_replaced(void **state)
{
    (void)state;
    static const char *const foreign[] = {"", "{\"a\": 1}\n", "uwasa choices 2\nconv2d fw\n",
                                          "uwasa choices 1", "\n\n"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        write_text(foreign[i], strlen(foreign[i]));
        uw_cuda_choices_load(&h, path, CARD);
        assert_int_equal(h.n, 0);
        put(&h, choice(2, 8, 3, 9));
        assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
        uw_cuda_choices_load(&back, path, CARD);
        assert_int_equal(back.n, 1);
    }
}

/* Any byte changed, and the file cut after any byte: what is read is what was written, or a line
 * that says something else in the same form, never more lines than there were. */
static void test_choices_damage_costs_lines_only(void **state)
{
    (void)state;
    static char text[4096], bad[4096];
    struct uw_rng rng = {0};
    uw_rng_seed(&rng, uw_test_seed(9));
    uw_cuda_choices_load(&h, path, CARD);
    put(&h, choice(0, 64, 3, 9));
    put(&h, choice(1, 64, 3, 10));
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    size_t n = read_text(text, sizeof text);
    for (size_t i = 0; i < n; i++) {
        write_text(text, i);
        uw_cuda_choices_load(&back, path, CARD);
        assert_true(back.n <= 2);
        memcpy(bad, text, n);
        bad[i] = (char)uw_rng_u32(&rng);
        write_text(bad, n);
        uw_cuda_choices_load(&back, path, CARD);
        assert_true(back.n <= 2);
        for (uint32_t k = 0; k < back.n; k++) {
            assert_true(back.at[k].part < 6 && back.at[k].algorithm >= 0 &&
                        back.at[k].algorithm < UW_CUDA_CHOICES_ALGORITHMS);
        }
    }
}

static void test_choices_long_lines_do_not_hide_the_next(void **state)
{
    (void)state;
    static char text[8192];
    uw_cuda_choices_load(&h, path, CARD);
    put(&h, choice(0, 64, 3, 9));
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK);
    size_t n = read_text(text, sizeof text);
    const char *line = strchr(text, '\n') + 1;
    static char with[8192];
    int bytes = snprintf(with, sizeof with, "uwasa choices 1\n%04000d\n%s", 7, line);
    write_text(with, (size_t)bytes);
    uw_cuda_choices_load(&back, path, CARD);
    assert_int_equal(back.n, 1);
    assert_true(n > 0 && algorithm_of(&back, choice(0, 64, 3, 0)) == 9);
}

static void test_choices_more_than_there_is_room_for_replace_the_oldest(void **state)
{
    (void)state;
    uw_cuda_choices_load(&h, NULL, CARD);
    for (uint32_t i = 0; i < UW_CUDA_CHOICES_MAX + 10; i++) {
        put(&h, choice(0, i + 1, 3, 9));
    }
    assert_int_equal(h.n, UW_CUDA_CHOICES_MAX);
    assert_int_equal(algorithm_of(&h, choice(0, 10, 3, 0)), -1);
    assert_int_equal(algorithm_of(&h, choice(0, 11, 3, 0)), 9);
    assert_int_equal(algorithm_of(&h, choice(0, UW_CUDA_CHOICES_MAX + 10, 3, 0)), 9);
    assert_int_equal(uw_cuda_choices_save(&h), UW_OK); /* no path: nothing is written */
}

static void test_choices_unwritable_folder_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    uw_cuda_choices_load(&h, "no/such/folder/choices", CARD);
    put(&h, choice(0, 64, 3, 9));
    assert_int_equal(uw_cuda_choices_save(&h), UW_ERR_IO);
    assert_int_equal(algorithm_of(&h, choice(0, 64, 3, 0)), 9);
    uw_cuda_choices_load(&h, folder, CARD);     /* a folder in its place */
    put(&h, choice(0, 64, 3, 9));
    assert_int_equal(uw_cuda_choices_save(&h), UW_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_choices_come_back_from_the_file, begin, end),
        cmocka_unit_test_setup_teardown(test_choices_of_engines_come_back, begin, end),
        cmocka_unit_test_setup_teardown(test_choice_that_is_gone_leaves_the_file, begin, end),
        cmocka_unit_test_setup_teardown(test_choices_of_damaged_engines_are_not_there, begin, end),
        cmocka_unit_test_setup_teardown(test_choices_large_file_is_written_anew, begin, end),
        cmocka_unit_test_setup_teardown(test_choices_of_other_machines_and_programs_are_kept,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_choices_foreign_file_is_ignored_and_replaced, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_choices_damage_costs_lines_only, begin, end),
        cmocka_unit_test_setup_teardown(test_choices_long_lines_do_not_hide_the_next, begin, end),
        cmocka_unit_test_setup_teardown(
            test_choices_more_than_there_is_room_for_replace_the_oldest, begin, end),
        cmocka_unit_test_setup_teardown(
            test_choices_unwritable_folder_is_told_and_leaves_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
