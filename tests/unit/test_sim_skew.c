/* SPDX-License-Identifier: Apache-2.0
 *
 * Dealing a data set out to the nodes of a simulated run. */
#include "uwasa/sim_skew.h"
#include "test_support.h"

#include "uwasa/rng.h"

#define CLASSES 10u

/* A set whose sample i is the number i. */
struct numbers {
    struct uw_dataset base;
    uint32_t label[4000];
};

static int read_number(struct uw_dataset *d, uint64_t index, float *x, uint32_t *label)
{
    const struct numbers *s = (const struct numbers *)d;
    x[0] = (float)index;
    *label = s->label[index];
    return UW_OK;
}

static const struct uw_dataset_ops number_ops = {.name = "numbers", .read = read_number};

static void make(struct numbers *s, uint32_t n, struct uw_rng *rng)
{
    s->base = (struct uw_dataset){.ops = &number_ops, .channels = 1, .height = 1, .width = 1,
                                  .classes = CLASSES, .samples_n = n};
    for (uint32_t i = 0; i < n; i++) {
        s->label[i] = uw_rng_below(rng, CLASSES);
    }
}

static struct uw_skew skew_of(const char *text)
{
    struct uw_skew s;
    assert_int_equal(uw_skew_parse(text, &s), UW_OK);
    return s;
}

/* How many classes a node has, and how many samples of it are of its commonest one. */
static uint32_t classes_of(struct uw_share *s, uint32_t *most)
{
    uint32_t count[CLASSES] = {0}, n = 0;
    *most = 0;
    for (uint32_t i = 0; i < s->base.samples_n; i++) {
        float x;
        uint32_t label;
        assert_int_equal(s->base.ops->read(&s->base, i, &x, &label), UW_OK);
        n += count[label]++ == 0;
        *most = count[label] > *most ? count[label] : *most;
    }
    return n;
}

static void test_every_sample_is_on_exactly_one_node(void **state)
{
    (void)state;
    static const char *const kinds[] = {"even", "sorted", "dirichlet:0.1", "dirichlet:100"};
    static const uint32_t nodes[] = {1, 2, 3, 7, 16, 33};
    static const uint32_t sizes[] = {66, 67, 1000, 3999};
    struct uw_rng rng;
    struct uw_error err;
    static struct numbers set;
    static uint32_t seen[4000];
    uw_rng_seed(&rng, uw_test_seed(1));
    for (uint32_t t = 0; t < 4u * 6u * 4u; t++) {
        uint32_t n = sizes[t / 24u], k = nodes[t / 4u % 6u];
        const struct uw_skew skew = skew_of(kinds[t % 4u]);
        struct uw_deal deal;
        if (skew.kind == UW_SKEW_DIRICHLET && k > n / 66u) {
            k = n / 66u;                /* fewer samples a node may leave one without any */
        }
        make(&set, n, &rng);
        assert_int_equal(uw_deal_open(&deal, &set.base, &skew, k, uw_rng_u32(&rng), &err), UW_OK);
        memset(seen, 0, sizeof seen);
        uint32_t fewest = UINT32_MAX, most = 0;
        for (uint32_t i = 0; i < k; i++) {
            struct uw_share s;
            float x;
            uint32_t label;
            uw_share_init(&s, &set.base, &deal, i);
            for (uint32_t j = 0; j < s.base.samples_n; j++) {
                assert_int_equal(s.base.ops->read(&s.base, j, &x, &label), UW_OK);
                assert_int_equal(label, set.label[(uint32_t)x]);
                seen[(uint32_t)x]++;
            }
            assert_int_equal(s.base.ops->read(&s.base, s.base.samples_n, &x, &label),
                             UW_ERR_INVALID);
            fewest = s.base.samples_n < fewest ? s.base.samples_n : fewest;
            most = s.base.samples_n > most ? s.base.samples_n : most;
        }
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(seen[i], 1);
        }
        assert_true(fewest > 0);
        assert_true(skew.kind == UW_SKEW_DIRICHLET || most - fewest <= 2u);
        uw_deal_close(&deal);
        uw_deal_close(&deal);
    }
}

static void test_sorted_gives_two_shards_and_even_all_classes(void **state)
{
    (void)state;
    struct uw_rng rng;
    struct uw_error err;
    static struct numbers set;
    uw_rng_seed(&rng, uw_test_seed(2));
    make(&set, 4000, &rng);
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct uw_deal sorted, even;
        const struct uw_skew s = skew_of("sorted"), e = skew_of("even");
        assert_int_equal(uw_deal_open(&sorted, &set.base, &s, 16, seed, &err), UW_OK);
        assert_int_equal(uw_deal_open(&even, &set.base, &e, 16, seed, &err), UW_OK);
        uint32_t fours = 0;
        for (uint32_t i = 0; i < 16u; i++) {
            struct uw_share share;
            uint32_t most;
            uw_share_init(&share, &set.base, &sorted, i);
            uint32_t n = classes_of(&share, &most);
            assert_true(n >= 1u && n <= 4u);    /* a shard of 125 meets 2 of about 400 at most */
            fours += n == 4u;
            uw_share_init(&share, &set.base, &even, i);
            assert_int_equal(classes_of(&share, &most), CLASSES);
        }
        assert_true(fours <= 9u);               /* one for each place where a class ends */
        uw_deal_close(&sorted);
        uw_deal_close(&even);
    }
}

static void test_concentration_says_how_uneven_classes_are(void **state)
{
    (void)state;
    static const char *const kinds[] = {"dirichlet:0.05", "dirichlet:1", "dirichlet:1000"};
    struct uw_rng rng;
    struct uw_error err;
    static struct numbers set;
    double share_before = 1.0;
    uw_rng_seed(&rng, uw_test_seed(3));
    make(&set, 4000, &rng);
    for (size_t k = 0; k < 3; k++) {
        const struct uw_skew skew = skew_of(kinds[k]);
        double of_commonest = 0.0;
        struct uw_deal deal;
        assert_int_equal(uw_deal_open(&deal, &set.base, &skew, 8, 5, &err), UW_OK);
        for (uint32_t i = 0; i < 8u; i++) {
            struct uw_share share;
            uint32_t most;
            uw_share_init(&share, &set.base, &deal, i);
            (void)classes_of(&share, &most);
            of_commonest += (double)most / share.base.samples_n / 8.0;
        }
        assert_true(of_commonest < share_before - 0.1);
        share_before = of_commonest;
        uw_deal_close(&deal);
    }
    assert_true(share_before < 0.15);
}

static void test_what_cannot_be_dealt_is_said(void **state)
{
    (void)state;
    struct uw_rng rng;
    struct uw_error err = {.text = ""};
    struct uw_deal deal;
    static struct numbers set;
    const struct uw_skew even = skew_of("even"), few = skew_of("dirichlet:0.001");
    uw_rng_seed(&rng, 4);
    make(&set, 31, &rng);
    assert_int_equal(uw_deal_open(&deal, &set.base, &even, 16, 1, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "31 samples are too few for 16 nodes"));
    make(&set, 100, &rng);
    assert_int_equal(uw_deal_open(&deal, &set.base, &few, 40, 1, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "nodes without a sample"));
    set.label[7] = CLASSES;
    assert_int_equal(uw_deal_open(&deal, &set.base, &few, 2, 1, &err), UW_ERR_CORRUPT);
}

static void test_only_what_is_meant_is_a_skew(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "Even",          "sorted:2",     "dirichlet",
                                      "dirichlet:", "dirichlet:0",   "dirichlet:-1", "dirichlet:1x",
                                      "dirichlet:nan", "dirichlet:inf", "dirichlet: 1",
                                      "dirichlet:1001", "even "};
    struct uw_skew s;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (uw_skew_parse(bad[i], &s) != UW_ERR_INVALID) {
            fail_msg("%s was taken", bad[i]);
        }
    }
    assert_true(skew_of("dirichlet:.5").concentration == 0.5);
    assert_int_equal(skew_of("sorted").kind, UW_SKEW_SORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_sample_is_on_exactly_one_node),
        cmocka_unit_test(test_sorted_gives_two_shards_and_even_all_classes),
        cmocka_unit_test(test_concentration_says_how_uneven_classes_are),
        cmocka_unit_test(test_what_cannot_be_dealt_is_said),
        cmocka_unit_test(test_only_what_is_meant_is_a_skew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
