/* SPDX-License-Identifier: Apache-2.0
 *
 * What boards have in place of the C library's functions on text (boards/cortex_m/text.c, built
 * here under other names) against those. */
#include "test_support.h"

#include "uwasa/rng.h"

size_t uw_board_strlen(const char *text);
char *uw_board_strcpy(char *restrict to, const char *restrict from);
int uw_board_strncmp(const char *a, const char *b, size_t n);
int uw_board_strcmp(const char *a, const char *b);
void *uw_board_memchr(const void *bytes, int byte, size_t n);
void *uw_board_memmove(void *to, const void *from, size_t n);

#define N 12u

static int sign(int x)
{
    return (x > 0) - (x < 0);
}

/* Of few letters, some above 127, so that beginnings are often the same. */
static void any_text(struct uw_rng *rng, char text[N])
{
    static const char letters[] = "aab\xff";
    size_t n = uw_rng_below(rng, N);
    for (size_t i = 0; i < N; i++) {
        text[i] = i < n ? letters[uw_rng_below(rng, 4)] : '\0';
    }
}

static void test_board_text_is_as_the_c_library_says(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(1));
    for (uint32_t i = 0; i < 20000; i++) {
        char a[N], b[N], to[N] = "zzzzzzzzzzz", same[N] = "zzzzzzzzzzz";
        any_text(&rng, a);
        any_text(&rng, b);
        size_t n = uw_rng_below(&rng, N);
        assert_int_equal(uw_board_strlen(a), strlen(a));
        assert_int_equal(sign(uw_board_strcmp(a, b)), sign(strcmp(a, b)));
        assert_int_equal(sign(uw_board_strncmp(a, b, n)), sign(strncmp(a, b, n)));
        assert_ptr_equal(uw_board_memchr(a, 0xff, n), memchr(a, 0xff, n));
        assert_ptr_equal(uw_board_strcpy(to, a), to);
        assert_memory_equal(to, strcpy(same, a), N);
    }
}

static void test_board_memmove_overlaps_either_way(void **state)
{
    (void)state;
    for (size_t from = 0; from <= N; from++) {
        for (size_t to = 0; to <= N; to++) {
            for (size_t n = 0; n <= N; n++) {
                char a[2u * N] = "abcdefghijklmnopqrstuvw", b[2u * N];
                memcpy(b, a, sizeof a);
                memmove(b + to, b + from, n);
                assert_ptr_equal(uw_board_memmove(a + to, a + from, n), a + to);
                assert_memory_equal(a, b, sizeof a);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_board_text_is_as_the_c_library_says),
        cmocka_unit_test(test_board_memmove_overlaps_either_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
