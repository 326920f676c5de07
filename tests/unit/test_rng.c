/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "uwasa/dataset.h"
#include "uwasa/fmath.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

/* The first outputs of seed 1, as this project defined them: every target must agree. */
static void test_rng_seed_one_gives_the_recorded_stream(void **state)
{
    (void)state;
    struct uw_rng r;
    uint32_t first[4];

    uw_rng_seed(&r, 1);
    for (int i = 0; i < 4; i++) {
        first[i] = uw_rng_u32(&r);
    }
    uw_rng_seed(&r, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(uw_rng_u32(&r), first[i]);
    }
    /* xoshiro128++ from state {1, 2, 3, 4}, the values of the authors' algorithm by hand. */
    r = (struct uw_rng){{1, 2, 3, 4}};
    assert_int_equal(uw_rng_u32(&r), 641);
    assert_int_equal(uw_rng_u32(&r), 1573767);
}

static void test_rng_below_stays_below_and_is_even(void **state)
{
    (void)state;
    struct uw_rng r;
    uint32_t count[7] = {0};

    uw_rng_seed(&r, uw_test_seed(3));
    assert_int_equal(uw_rng_below(&r, 0), 0);
    assert_int_equal(uw_rng_below(&r, 1), 0);
    for (int i = 0; i < 70000; i++) {
        uint32_t v = uw_rng_below(&r, 7);
        assert_true(v < 7);
        count[v]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_true(count[i] > 9500 && count[i] < 10500); /* 5 standard deviations */
    }
}

static void test_rng_normal_has_its_moments(void **state)
{
    (void)state;
    struct uw_rng r;
    double sum = 0, square = 0, fourth = 0;
    int n = 200000;

    uw_rng_seed(&r, uw_test_seed(5));
    for (int i = 0; i < n; i++) {
        double v = (double)uw_rng_normal(&r);
        sum += v;
        square += v * v;
        fourth += v * v * v * v;
    }
    assert_true(fabs(sum / n) < 0.012);
    assert_true(fabs(square / n - 1.0) < 0.016);
    assert_true(fabs(fourth / n - 3.0) < 0.11);
}

static void test_rng_permute_every_size_is_a_bijection(void **state)
{
    (void)state;
    static uint8_t seen[70000];
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 255, 1000, 4096, 60000, 65537};
    uint64_t seed = uw_test_seed(7);

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint32_t n = sizes[s];
        uint32_t fixed = 0;
        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t p = uw_rng_permute(seed, n, i);
            assert_int_equal(uw_rng_permute_back(seed, n, p), i);
            assert_true(p < n);
            assert_int_equal(seen[p], 0);
            seen[p] = 1;
            fixed += p == i;
        }
        if (n >= 1000) {
            assert_true(fixed < 12); /* Poisson with mean 1 */
        }
    }
}

static double ulps(float got, double want)
{
    float w = (float)want;
    if (isnan(w) || isinf(w) || isnan(got) || isinf(got)) {
        return (isnan(w) && isnan(got)) || w == got ? 0.0 : HUGE_VAL;
    }
    return fabs((double)got - want) / (double)(nextafterf(fabsf(w), INFINITY) - fabsf(w));
}

static void test_fmath_random_arguments_stay_within_two_ulp(void **state)
{
    (void)state;
    struct uw_rng r;

    uw_rng_seed(&r, uw_test_seed(11));
    for (int i = 0; i < 300000; i++) {
        float u = 2.0f * uw_rng_uniform(&r) - 1.0f;
        float positive = uw_expf(u * 87.0f);
        assert_true(ulps(uw_expf(u * 104.0f), exp((double)(u * 104.0f))) < 2.0);
        assert_true(ulps(uw_logf(positive), log((double)positive)) < 2.0);
        assert_true(ulps(uw_tanhf(u * 10.0f), tanh((double)(u * 10.0f))) < 2.0);
        assert_true(ulps(uw_erff(u * 5.0f), erf((double)(u * 5.0f))) < 2.0);
        assert_true(ulps(uw_erff(u * 0.01f), erf((double)(u * 0.01f))) < 2.0);
        assert_true(ulps(uw_sqrtf(positive), sqrt((double)positive)) <= 0.5);
        assert_true(fabs((double)uw_sinf(u * 8192.0f) - sin((double)(u * 8192.0f))) < 2e-7);
        assert_true(fabs((double)uw_cosf(u * 8192.0f) - cos((double)(u * 8192.0f))) < 2e-7);
    }
}

static void test_fmath_special_values_behave_as_documented(void **state)
{
    (void)state;
    assert_true(isnan(uw_expf(NAN)) && isnan(uw_logf(NAN)) && isnan(uw_tanhf(NAN)));
    assert_true(isnan(uw_logf(-1.0f)) && isnan(uw_sqrtf(-1.0f)));
    assert_true(isnan(uw_sinf(INFINITY)) && isnan(uw_cosf(NAN)));
    assert_true(uw_expf(INFINITY) == INFINITY && uw_expf(-INFINITY) == 0.0f);
    assert_true(uw_expf(0.0f) == 1.0f && uw_logf(1.0f) == 0.0f && uw_cosf(0.0f) == 1.0f);
    assert_true(uw_logf(0.0f) == -INFINITY && uw_logf(INFINITY) == INFINITY);
    assert_true(uw_tanhf(100.0f) == 1.0f && uw_tanhf(-INFINITY) == -1.0f);
    assert_true(ulps(uw_logf(1e-42f), log((double)1e-42f)) < 2.0);
}

/* A dataset whose sample i holds i. */
static int read_index(struct uw_dataset *d, uint64_t index, float *x, uint32_t *label)
{
    (void)d;
    if (index == 13 && d->classes == 99) {
        return UW_ERR_IO;
    }
    x[0] = (float)index;
    *label = (uint32_t)(index % 10);
    return UW_OK;
}

static const struct uw_dataset_ops index_ops = {.name = "index", .read = read_index};

static struct uw_dataset index_dataset(uint32_t n, bool endless)
{
    return (struct uw_dataset){.ops = &index_ops, .channels = 1, .height = 1, .width = 1,
                               .classes = 10, .samples_n = n, .endless = endless};
}

static void test_loader_each_epoch_visits_every_sample_once(void **state)
{
    (void)state;
    struct uw_dataset d = index_dataset(103, false);
    struct uw_loader_config config = {.dataset = &d, .batch_n = 20, .seed = uw_test_seed(1)};
    struct uw_loader l;
    float x[20], first_epoch[103];
    uint32_t label[20];

    assert_int_equal(uw_loader_init(&l, &config), UW_OK);
    for (int epoch = 0; epoch < 3; epoch++) {
        uint8_t seen[103] = {0};
        uint32_t total = 0;
        int moved = 0;
        for (int b = 0; b < 6; b++) {
            int n = uw_loader_next(&l, x, label, NULL);
            assert_int_equal(n, b < 5 ? 20 : 3); /* the tail is not dropped */
            for (int i = 0; i < n; i++) {
                uint32_t s = (uint32_t)x[i];
                assert_int_equal(seen[s]++, 0);
                assert_int_equal(label[i], s % 10);
                moved += epoch > 0 && first_epoch[total] != x[i];
                first_epoch[total] = epoch == 0 ? x[i] : first_epoch[total];
                total++;
            }
        }
        assert_int_equal(total, 103);
        assert_true(epoch == 0 || moved > 50); /* another order each epoch */
        assert_int_equal(l.epoch, epoch + 1);
        assert_int_equal(l.position, 0);
    }
}

static void test_loader_cursor_restored_repeats_the_same_minibatches(void **state)
{
    (void)state;
    struct uw_dataset d = index_dataset(50, true);
    struct uw_loader_config config = {.dataset = &d, .batch_n = 7, .seed = uw_test_seed(2)};
    struct uw_loader a, b;
    float xa[7], xb[7];
    uint32_t label[7];

    assert_int_equal(uw_loader_init(&a, &config), UW_OK);
    for (int i = 0; i < 11; i++) {
        assert_true(uw_loader_next(&a, xa, label, NULL) > 0);
    }
    assert_int_equal(uw_loader_init(&b, &config), UW_OK);
    b.epoch = a.epoch;
    b.position = a.position;
    for (int i = 0; i < 20; i++) {
        int n = uw_loader_next(&a, xa, label, NULL);
        assert_int_equal(uw_loader_next(&b, xb, label, NULL), n);
        assert_memory_equal(xa, xb, (size_t)n * sizeof(float));
        assert_true(xa[0] >= (float)(50 * (i > 18 ? 1 : 0))); /* endless: new indexes later */
    }
}

static void count(void *arg)
{
    (*(uint32_t *)arg)++;
}

static void test_loader_calls_between_after_each_sample(void **state)
{
    (void)state;
    struct uw_dataset d = index_dataset(20, false);
    uint32_t calls = 0;
    struct uw_loader_config config = {.dataset = &d, .batch_n = 15, .between = count,
                                      .between_arg = &calls};
    struct uw_loader l;
    float x[15];
    uint32_t label[15];

    assert_int_equal(uw_loader_init(&l, &config), UW_OK);
    assert_int_equal(uw_loader_next(&l, x, label, NULL), 15);
    assert_int_equal(calls, 15);
    assert_int_equal(uw_loader_next(&l, x, label, NULL), 5);
    assert_int_equal(calls, 20);
}

static void test_loader_no_shuffle_goes_in_order_and_errors_keep_the_cursor(void **state)
{
    (void)state;
    struct uw_dataset d = index_dataset(20, false);
    struct uw_loader_config config = {.dataset = &d, .batch_n = 5, .no_shuffle = true};
    struct uw_loader l;
    float x[5];
    uint32_t label[5];

    assert_int_equal(uw_loader_init(&l, &config), UW_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uw_loader_next(&l, x, label, NULL), 5);
        assert_true(x[0] == (float)(5 * i) && x[4] == (float)(5 * i + 4));
    }
    d.classes = 99;
    assert_int_equal(uw_loader_next(&l, x, label, NULL), UW_ERR_IO);
    assert_int_equal(l.position, 10);
    config.batch_n = 0;
    assert_int_equal(uw_loader_init(&l, &config), UW_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng_seed_one_gives_the_recorded_stream),
        cmocka_unit_test(test_rng_below_stays_below_and_is_even),
        cmocka_unit_test(test_rng_normal_has_its_moments),
        cmocka_unit_test(test_rng_permute_every_size_is_a_bijection),
        cmocka_unit_test(test_fmath_random_arguments_stay_within_two_ulp),
        cmocka_unit_test(test_fmath_special_values_behave_as_documented),
        cmocka_unit_test(test_loader_each_epoch_visits_every_sample_once),
        cmocka_unit_test(test_loader_cursor_restored_repeats_the_same_minibatches),
        cmocka_unit_test(test_loader_calls_between_after_each_sample),
        cmocka_unit_test(test_loader_no_shuffle_goes_in_order_and_errors_keep_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
