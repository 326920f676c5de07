/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made of reports and of rounds, right and wrong ones. */
#include "test_support.h"

#include "netmodel/network_cost.h"

#include "uwasa/rng.h"

#define P_MAX 16u
#define CHUNK_N 343u
#define HEAD_BYTES 28u

static double at[2 * P_MAX];

static const struct uw_network_cost wide = {.latency_s = 20e-3, .byte_s = 8e-7, .access_s = 50e-6,
                                            .chunk_n = CHUNK_N, .head_bytes = HEAD_BYTES};

/* What a rank would measure, several times as slow when all send at once. */
static struct uw_network_report report_of(const struct uw_network_cost *c, double slowing)
{
    double small = uw_allreduce_wire_s(c, 1), large = uw_allreduce_wire_s(c, c->chunk_n);
    double question = c->access_s + (c->head_bytes + 16) * c->byte_s;
    return (struct uw_network_report){.rtt_s = (float)(2 * c->latency_s + question + small),
                                      .small_s = (float)small, .large_s = (float)large,
                                      .together_s = (float)(slowing * large)};
}

static void start(struct uw_network_fit *f, const struct uw_network_cost *c, uint32_t p,
                  double slowing)
{
    struct uw_network_report reports[P_MAX];
    for (uint32_t i = 0; i < p; i++) {
        reports[i] = report_of(c, slowing);
    }
    uw_network_fit_init(f, c->chunk_n, c->head_bytes, c->early_n);
    assert_true(uw_network_fit_reports(f, reports, p));
    f->cost.reduce_s = c->reduce_s;
}

static void assert_near(double got, double want, double share)
{
    if (!(fabs(got - want) <= share * want)) {
        fail_msg("%.6g, wanted %.6g", got, want);
    }
}

static void test_reports_give_back_the_costs_they_were_made_of(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= P_MAX; p++) {
        struct uw_network_fit f;
        start(&f, &wide, p, 1.0);
        assert_near(f.cost.latency_s, wide.latency_s, 1e-4);
        assert_near(f.cost.byte_s, wide.byte_s, 1e-4);
        assert_near(f.cost.access_s, wide.access_s, 1e-3);
        assert_false(f.cost.shared);
    }
}

static void test_a_shared_medium_shows_when_all_send_at_once(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= P_MAX; p++) {
        struct uw_network_fit f;
        start(&f, &wide, p, p);
        assert_true(f.cost.shared);
        assert_near(f.cost.byte_s, wide.byte_s, 1e-4);
        start(&f, &wide, p, 0.6 * p + 0.4);     /* some of them began late */
        assert_true(f.cost.shared);
        start(&f, &wide, p, 1.2);               /* a little in each other's way */
        assert_false(f.cost.shared);
        assert_near(uw_allreduce_wire_s(&f.cost, CHUNK_N),
                    1.2 * uw_allreduce_wire_s(&wide, CHUNK_N), 1e-3);
    }
}

static void test_reports_that_are_missing_or_odd_do_no_harm(void **state)
{
    struct uw_network_report reports[8];
    struct uw_network_fit f;
    (void)state;
    memset(reports, 0, sizeof reports);
    uw_network_fit_init(&f, CHUNK_N, HEAD_BYTES, 0);
    struct uw_network_cost guess = f.cost;
    assert_false(uw_network_fit_reports(&f, reports, 8));
    assert_memory_equal(&guess, &f.cost, sizeof guess);
    for (uint32_t i = 0; i < 5; i++) {
        reports[i] = report_of(&wide, 1.0);
    }
    reports[1].rtt_s *= 10.0f;
    reports[2].large_s *= 30.0f;
    reports[3].together_s = 0.0f;
    reports[4].small_s *= 5.0f;
    reports[5] = (struct uw_network_report){-1.0f, NAN, INFINITY, INFINITY};
    reports[6] = (struct uw_network_report){NAN, -INFINITY, 1e30f, NAN};
    assert_true(uw_network_fit_reports(&f, reports, 8));
    assert_near(f.cost.latency_s, wide.latency_s, 1e-4);
    assert_near(f.cost.byte_s, wide.byte_s, 1e-4);
    assert_false(f.cost.shared);
    assert_near(uw_network_predict(&f, UW_ALLREDUCE_RING, 8, 4096, at),
                uw_allreduce_seconds(UW_ALLREDUCE_RING, 8, 4096, &f.cost, at), 1e-6);
    /* A rank that saw small messages come slower than large ones: the mean byte, no access. */
    reports[0] = (struct uw_network_report){.rtt_s = 1e-3f, .small_s = 2e-4f, .large_s = 1e-4f};
    assert_true(uw_network_fit_reports(&f, reports, 1));
    assert_near(f.cost.byte_s, 1e-4 / (HEAD_BYTES + 4 * CHUNK_N), 1e-4);
    assert_true(f.cost.access_s >= 0.0 && f.cost.access_s < 1e-12);
}

static void test_who_sends_slowly_is_known_for_these_ranks(void **state)
{
    struct uw_network_report reports[8];
    float slower[8] = {1, 1, 1, 1, 1, 4, 1, 1};
    struct uw_network_cost real = wide;
    struct uw_network_fit f;
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        reports[i] = report_of(&wide, 1.0);
    }
    reports[4].together_s *= 4.0f;      /* what comes from rank 5 */
    uw_network_fit_init(&f, CHUNK_N, HEAD_BYTES, 0);
    assert_true(uw_network_fit_reports(&f, reports, 8));
    f.cost.reduce_s = 0.0;
    real.slower = slower;
    for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
        enum uw_allreduce_kind k = (enum uw_allreduce_kind)kind;
        assert_near(uw_network_predict(&f, k, 8, 1u << 18, at),
                    uw_allreduce_seconds(k, 8, 1u << 18, &real, at), 1e-3);
        assert_near(uw_network_predict(&f, k, 7, 1u << 18, at),     /* others: who knows */
                    uw_allreduce_seconds(k, 7, 1u << 18, &wide, at), 1e-3);
    }
}

/* Rounds of a network that is not the one believed in, chosen as they come, 5 % of noise, one in
 * ten a chance many times as slow. */
static void test_rounds_correct_what_was_measured_wrong(void **state)
{
    static const uint32_t sizes[] = {16, 2048, 65536, 1u << 20};
    struct uw_network_fit f;
    struct uw_network_cost real = wide;
    struct uw_rng rng;
    (void)state;
    uw_rng_seed(&rng, uw_test_seed(1));
    start(&f, &wide, 8, 1.0);
    real.byte_s *= 2.5;
    real.latency_s *= 0.4;
    for (uint32_t i = 0; i < 120; i++) {
        uint32_t n = sizes[i % 4];
        enum uw_allreduce_kind kind = uw_network_choose(&f, 8, n, true, at, NULL);
        double s = uw_allreduce_seconds(kind, 8, n, &real, at);
        s *= 0.95 + 0.1 * (double)uw_rng_uniform(&rng);
        s *= uw_rng_uniform(&rng) < 0.1f ? 6.0 : 1.0;
        uw_network_learn(&f, kind, 8, n, s, at);
    }
    for (uint32_t i = 0; i < 4; i++) {
        double predicted;
        enum uw_allreduce_kind kind =
            uw_network_choose(&f, 8, sizes[i], true, at, &predicted);
        double s = uw_allreduce_seconds(kind, 8, sizes[i], &real, at), best;
        assert_near(predicted, s, 0.15);
        uw_allreduce_choose(8, sizes[i], true, &real, at, &best);
        assert_true(s <= 1.1 * best);
    }
    assert_near(f.cost.byte_s, real.byte_s, 0.2);
    assert_near(f.cost.latency_s, real.latency_s, 0.2);
}

static void test_one_odd_round_is_chance_and_three_are_a_change(void **state)
{
    struct uw_network_fit f;
    struct uw_network_cost slow = wide;
    const uint32_t n = 1u << 20;
    double before, after;
    (void)state;
    slow.byte_s *= 4.0;
    start(&f, &wide, 8, 1.0);
    enum uw_allreduce_kind kind = uw_network_choose(&f, 8, n, true, at, &before);
    for (uint32_t i = 0; i < 20; i++) {
        uw_network_learn(&f, kind, 8, n, before, at);
    }
    assert_near(uw_network_predict(&f, kind, 8, n, at), before, 0.01);
    uw_network_learn(&f, kind, 8, n, 50.0 * before, at);
    assert_true(uw_network_predict(&f, kind, 8, n, at) < 1.25 * before);
    assert_false(uw_network_is_doubtful(&f));
    uw_network_learn(&f, kind, 8, n, before, at);
    after = uw_allreduce_seconds(kind, 8, n, &slow, at);
    bool doubtful = false;
    for (uint32_t i = 0; i < 6; i++) {
        uw_network_learn(&f, kind, 8, n, after, at);
        doubtful = doubtful || uw_network_is_doubtful(&f);
    }
    assert_true(doubtful);
    assert_near(uw_network_predict(&f, kind, 8, n, at), after, 0.1);
}

/* What the model knows nothing of goes to the algorithm, and another one is chosen. */
static void test_an_algorithm_that_is_slower_than_its_steps_is_left(void **state)
{
    struct uw_network_fit f;
    const uint32_t n = 1u << 16;
    (void)state;
    start(&f, &wide, 12, 1.0);
    enum uw_allreduce_kind first = uw_network_choose(&f, 12, n, true, at, NULL), kind = first;
    for (uint32_t i = 0; i < 30 && kind == first; i++) {
        for (int other = 0; other < UW_ALLREDUCE_SWEEP; other++) {
            enum uw_allreduce_kind k = (enum uw_allreduce_kind)other;
            double s = uw_allreduce_seconds(k, 12, n, &wide, at);
            uw_network_learn(&f, k, 12, n, k == first ? 3.0 * s : s, at);
        }
        kind = uw_network_choose(&f, 12, n, true, at, NULL);
    }
    assert_int_not_equal(kind, first);
}

static void test_another_rank_goes_on_from_the_summary(void **state)
{
    struct uw_network_fit f, g;
    uint64_t rtt_us;
    float floats_per_us;
    (void)state;
    start(&f, &wide, 8, 8.0);
    uw_network_fit_init(&g, CHUNK_N, HEAD_BYTES, 0);
    struct uw_network_summary s = uw_network_summary_of(&f);
    assert_int_equal(uw_network_apply(&g, &s), UW_OK);
    assert_true(g.cost.shared);
    for (uint32_t n = 16; n <= 1u << 20; n *= 4) {
        double a, b;
        g.cost.reduce_s = f.cost.reduce_s;
        assert_int_equal(uw_network_choose(&f, 8, n, true, at, &a),
                         uw_network_choose(&g, 8, n, true, at, &b));
        assert_near(a, b, 1e-4);
    }
    s.byte_s = NAN;
    assert_int_equal(uw_network_apply(&g, &s), UW_ERR_INVALID);
    s.byte_s = 1e-6f;
    s.latency_s = -1.0f;
    assert_int_equal(uw_network_apply(&g, &s), UW_ERR_INVALID);
    uw_network_path(&g, 8, &rtt_us, &floats_per_us);
    assert_near((double)floats_per_us, CHUNK_N / (1e6 * uw_allreduce_wire_s(&wide, CHUNK_N)), 1e-3);
    assert_true((double)rtt_us > 2e6 * wide.latency_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports_give_back_the_costs_they_were_made_of),
        cmocka_unit_test(test_a_shared_medium_shows_when_all_send_at_once),
        cmocka_unit_test(test_reports_that_are_missing_or_odd_do_no_harm),
        cmocka_unit_test(test_who_sends_slowly_is_known_for_these_ranks),
        cmocka_unit_test(test_rounds_correct_what_was_measured_wrong),
        cmocka_unit_test(test_one_odd_round_is_chance_and_three_are_a_change),
        cmocka_unit_test(test_an_algorithm_that_is_slower_than_its_steps_is_left),
        cmocka_unit_test(test_another_rank_goes_on_from_the_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
