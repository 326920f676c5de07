/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "uwasa/digits.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#define N UW_DIGITS_PIXELS_N

static int read_one(struct uw_digits *d, uint64_t index, float *x, uint32_t *label)
{
    return d->base.ops->read(&d->base, index, x, label);
}

static struct uw_digits make(uint64_t seed, uint32_t mask, bool test)
{
    struct uw_digits d;
    struct uw_digits_config config = {.seed = seed, .classes_mask = mask, .test = test};
    assert_int_equal(uw_digits_init(&d, &config), UW_OK);
    return d;
}

/* FNV-1a over the bits of pixels and labels. */
static uint64_t hash_samples(struct uw_digits *d, uint64_t first, uint32_t samples_n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    float x[N];
    uint32_t label;
    for (uint32_t i = 0; i < samples_n; i++) {
        assert_int_equal(read_one(d, first + i, x, &label), UW_OK);
        for (uint32_t k = 0; k < N; k++) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            hash = (hash ^ bits) * 0x100000001b3u;
        }
        hash = (hash ^ label) * 0x100000001b3u;
    }
    return hash;
}

/* The same number on every device and compiler. A change of the drawing changes it: then every
 * accuracy that somebody measured on `digits` changes meaning too. */
static void test_digits_first_samples_have_the_known_bits(void **state)
{
    (void)state;
    struct uw_digits train = make(1, 0, false), test = make(1, 0, true);
    assert_int_equal(hash_samples(&train, 0, 100), 0x5aed53c87f979cbdu);
    assert_int_equal(hash_samples(&test, 0, 100), 0xfcbe6d458822e353u);
}

static void test_digits_order_of_reading_does_not_matter(void **state)
{
    (void)state;
    struct uw_digits a = make(7, 0, false), b = make(7, 0, false);
    uint64_t forward[20];
    for (uint64_t i = 0; i < 20; i++) {
        forward[i] = hash_samples(&a, i, 1);
    }
    for (uint64_t i = 20; i-- > 0;) {
        assert_int_equal(hash_samples(&b, i, 1), forward[i]);
    }
}

static void test_digits_seeds_and_streams_share_no_sample(void **state)
{
    (void)state;
    struct uw_digits sets[3] = {make(1, 0, false), make(1, 0, true), make(2, 0, false)};
    uint64_t hash[150];
    for (uint32_t i = 0; i < 150; i++) {
        hash[i] = hash_samples(&sets[i / 50], i % 50, 1);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(hash[k] != hash[i]);
        }
    }
}

static void test_digits_pixels_are_finite_and_inside_the_buffer(void **state)
{
    (void)state;
    struct uw_digits d = make(uw_test_seed(3), 0, false);
    for (uint32_t i = 0; i < 3000; i++) {
        float *x = uw_test_floats(N);
        uint32_t label;
        double ink = 0;
        assert_int_equal(read_one(&d, (uint64_t)i << 32 | i, x, &label), UW_OK);
        assert_true(label < 10);
        for (uint32_t k = 0; k < N; k++) {
            assert_true(x[k] >= 0.0f && x[k] <= 1.0f);
            ink += (double)x[k];
        }
        assert_true(ink > 10.0 && ink < 400.0);
        uw_test_release(x);
    }
}

static void test_digits_mask_gives_only_its_classes_and_all_of_them(void **state)
{
    (void)state;
    static const uint32_t masks[] = {0, 1u << 9, 1u | 1u << 5, 0x3ff, 0x0e0};
    for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
        struct uw_digits d = make(1, masks[m], m % 2 == 1);
        uint32_t seen = 0, classes = masks[m] == 0 ? 0x3ff : masks[m];
        uint32_t count[10] = {0}, classes_n = 0;
        float x[N];
        for (uint32_t i = 0; i < 2000; i++) {
            uint32_t label;
            assert_int_equal(read_one(&d, i, x, &label), UW_OK);
            seen |= 1u << label;
            count[label]++;
        }
        assert_int_equal(seen, classes);
        assert_int_equal(d.base.classes, 10);
        for (uint32_t c = 0; c < 10; c++) {
            classes_n += classes >> c & 1u;
        }
        for (uint32_t c = 0; c < 10; c++) {
            if ((classes >> c & 1u) != 0) { /* six standard deviations */
                double share = 1.0 / classes_n, mean = 2000 * share;
                assert_true(fabs(count[c] - mean) <= 6 * sqrt(mean * (1 - share)));
            }
        }
    }
}

static void test_digits_sizes_and_bad_arguments(void **state)
{
    (void)state;
    struct uw_digits d = make(1, 0, false);
    float x[N];
    uint32_t label;
    assert_int_equal(d.base.samples_n, 60000);
    assert_true(d.base.endless);
    assert_int_equal(read_one(&d, UINT64_MAX, x, &label), UW_OK);
    d = make(1, 0, true);
    assert_int_equal(d.base.samples_n, 10000);
    assert_false(d.base.endless);
    assert_int_equal(read_one(&d, 9999, x, &label), UW_OK);
    assert_int_equal(read_one(&d, 10000, x, &label), UW_ERR_INVALID);
    struct uw_digits_config config = {.classes_mask = 1u << 10};
    assert_int_equal(uw_digits_init(&d, &config), UW_ERR_INVALID);
    config = (struct uw_digits_config){.samples_n = 77};
    assert_int_equal(uw_digits_init(&d, &config), UW_OK);
    assert_int_equal(d.base.samples_n, 77);
}

/* Softmax regression, plain SGD. */
struct linear {
    float w[10][N + 1];
};

static void scores(const struct linear *m, const float *x, float *y)
{
    for (uint32_t c = 0; c < 10; c++) {
        float s = m->w[c][N];
        for (uint32_t k = 0; k < N; k++) {
            s += m->w[c][k] * x[k];
        }
        y[c] = s;
    }
}

static uint32_t largest(const float *y)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < 10; c++) {
        best = y[c] > y[best] ? c : best;
    }
    return best;
}

static void learn(struct linear *m, const float *x, uint32_t label, float lr)
{
    float y[10], sum = 0;
    scores(m, x, y);
    float top = y[largest(y)];
    for (uint32_t c = 0; c < 10; c++) {
        y[c] = expf(y[c] - top);
        sum += y[c];
    }
    for (uint32_t c = 0; c < 10; c++) {
        float g = lr * (y[c] / sum - (c == label ? 1.0f : 0.0f));
        for (uint32_t k = 0; k < N; k++) {
            m->w[c][k] -= g * x[k];
        }
        m->w[c][N] -= g;
    }
}

static void test_digits_linear_model_learns_but_stays_under_93_percent(void **state)
{
    (void)state;
    struct uw_digits train = make(1, 0, false), test = make(1, 0, true);
    struct linear *m = calloc(1, sizeof *m);
    float x[N], y[10];
    uint32_t label, correct = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        assert_int_equal(read_one(&train, i, x, &label), UW_OK);
        learn(m, x, label, 0.01f);
    }
    for (uint32_t i = 0; i < 2000; i++) {
        assert_int_equal(read_one(&test, i, x, &label), UW_OK);
        scores(m, x, y);
        correct += largest(y) == label;
    }
    printf("linear model: %.1f %%\n", correct / 20.0);
    assert_in_range(correct, 1400, 1859);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_first_samples_have_the_known_bits),
        cmocka_unit_test(test_digits_order_of_reading_does_not_matter),
        cmocka_unit_test(test_digits_seeds_and_streams_share_no_sample),
        cmocka_unit_test(test_digits_pixels_are_finite_and_inside_the_buffer),
        cmocka_unit_test(test_digits_mask_gives_only_its_classes_and_all_of_them),
        cmocka_unit_test(test_digits_sizes_and_bad_arguments),
        cmocka_unit_test(test_digits_linear_model_learns_but_stays_under_93_percent),
    };
    return cmocka_run_group_tests_name("digits", tests, NULL, NULL);
}
