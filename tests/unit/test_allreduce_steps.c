/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce with the test in the place of the network: in every step all messages are taken before
 * any is delivered. */
#include "test_support.h"

#include "base/base2.h"

#include "uwasa/allreduce_steps.h"
#include "uwasa/rng.h"

#include <math.h>
#include <stdlib.h>

#define RANKS_MAX 64u

struct bench {
    uint32_t p, n;
    float *x[RANKS_MAX], *message[RANKS_MAX];
    double *sum, *size;                     /* exact, and of absolute values */
};

static float values[2000000];            /* rank r's begin at 12345 r */

static void set_up(struct bench *b, uint32_t p, uint32_t n)
{
    *b = (struct bench){.p = p, .n = n};
    b->sum = calloc(n + 1, sizeof *b->sum);
    b->size = calloc(n + 1, sizeof *b->size);
    for (uint32_t r = 0; r < p; r++) {
        b->x[r] = malloc((n + 1) * sizeof(float));
        b->message[r] = malloc((n + 1) * sizeof(float));
        for (uint32_t i = 0; i < n; i++) {
            double x = (double)values[12345 * r + i];
            b->sum[i] += x;
            b->size[i] += fabs(x);
        }
        b->x[r][n] = -77.0f;
    }
}

static void tear_down(struct bench *b)
{
    for (uint32_t r = 0; r < b->p; r++) {
        assert_true(b->x[r][b->n] == -77.0f);
        free(b->x[r]);
        free(b->message[r]);
    }
    free(b->sum);
    free(b->size);
}

static void take(struct bench *b, uint32_t rank, const struct uw_allreduce_step *s)
{
    float *x = b->x[rank] + s->recv_at;
    const float *in = b->message[s->from];
    for (uint32_t i = 0; i < s->recv_n; i++) {
        x[i] = s->take == UW_TAKE_COPY  ? in[i]
               : s->take == UW_TAKE_ADD ? x[i] + in[i]
                                        : (1.0f - s->weight) * x[i] + s->weight * in[i];
    }
}

/* Floats of the largest message that any rank receives. */
static uint32_t largest_n(enum uw_allreduce_kind kind, uint32_t p, uint32_t n)
{
    bool halves = kind == UW_ALLREDUCE_HALVING && (p & (p - 1)) == 0;
    return kind == UW_ALLREDUCE_RING ? (n + p - 1) / p : halves ? n - n / 2 : n;
}

static void run_step(struct bench *b, enum uw_allreduce_kind kind, uint32_t k)
{
    struct uw_allreduce_step step[RANKS_MAX];
    for (uint32_t r = 0; r < b->p; r++) {
        const struct uw_allreduce_step *s = &step[r];
        step[r] = uw_allreduce_step(kind, b->p, r, b->n, k);
        assert_true(s->to == UW_RANK_NONE || (s->to < b->p && s->to != r));
        assert_true(s->send_at + s->send_n <= b->n && s->recv_at + s->recv_n <= b->n);
        assert_true(s->recv_n <= largest_n(kind, b->p, b->n));
        memcpy(b->message[r], b->x[r] + s->send_at, s->send_n * sizeof(float));
    }
    for (uint32_t r = 0; r < b->p; r++) {
        const struct uw_allreduce_step *s = &step[r];
        assert_true(s->to == UW_RANK_NONE || step[s->to].from == r);
        if (s->from != UW_RANK_NONE) {
            assert_int_equal(step[s->from].to, r);
            assert_int_equal(step[s->from].send_n, s->recv_n);
            take(b, r, s);
        }
    }
}

static void check(struct bench *b, enum uw_allreduce_kind kind)
{
    bool sweeps = kind == UW_ALLREDUCE_SWEEP;
    double share = sweeps ? 1.0 / b->p : 1.0;
    for (uint32_t r = 0; r < b->p; r++) {
        memcpy(b->x[r], values + 12345 * r, b->n * sizeof(float));
    }
    for (uint32_t k = 0; k < uw_allreduce_steps_n(kind, b->p); k++) {
        run_step(b, kind, k);
    }
    for (uint32_t r = 0; r < b->p; r++) {
        if (r > 0 && !sweeps) {
            assert_memory_equal(b->x[r], b->x[0], b->n * sizeof(float));
            continue;
        }
        for (uint32_t i = 0; i < b->n; i++) {
            double bound = 6e-8 * share * b->size[i] * (b->p + 1.0);
            assert_true(fabs((double)b->x[r][i] - share * b->sum[i]) <= bound);
        }
    }
}

static void check_all(uint32_t p, uint32_t n)
{
    struct bench b;
    set_up(&b, p, n);
    for (int kind = 0; kind < UW_ALLREDUCE_KINDS_N; kind++) {
        check(&b, (enum uw_allreduce_kind)kind);
    }
    tear_down(&b);
}

static void test_every_rank_has_the_sum(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 33; p++) {
        check_all(p, 0);
        check_all(p, 1);
        for (uint32_t n = p - 1; n <= p + 1; n++) {
            check_all(p, n);
        }
        check_all(p, 1000);
    }
}

static void test_large_vectors_of_an_odd_size(void **state)
{
    (void)state;
    uint32_t step = getenv("UWASA_TEST_QUICK") != NULL ? 4 : 1;
    for (uint32_t p = 1; p <= 33; p += step) {
        check_all(p, uw_test_slow() ? 100003 : 1000003);
    }
}

/* In whole numbers: node i's share of node j, over a common denominator. */
static void test_base2_averages_exactly(void **state)
{
    (void)state;
    for (uint32_t nodes = 2; nodes <= 64; nodes++) {
        static double x[64][64], y[64][64];     /* numbers of few bits: exact */
        uint32_t met = 0;
        for (uint32_t i = 0; i < nodes; i++) {
            for (uint32_t j = 0; j < nodes; j++) {
                x[i][j] = i == j ? 1.0 : 0.0;
            }
        }
        for (uint32_t k = 0; k < uw_base2_rounds_n(nodes); k++) {
            for (uint32_t i = 0; i < nodes; i++) {
                struct uw_base2_pair p = uw_base2_pair(nodes, i, k);
                double share = (double)p.part / p.whole;
                if (p.partner != UW_BASE2_IDLE) {
                    struct uw_base2_pair back = uw_base2_pair(nodes, p.partner, k);
                    assert_int_equal(back.partner, i);
                    assert_true(back.part == p.part && back.whole == p.whole);
                    met++;
                }
                for (uint32_t j = 0; j < nodes; j++) {
                    y[i][j] = p.partner == UW_BASE2_IDLE
                                  ? x[i][j]
                                  : (1.0 - share) * x[i][j] + share * x[p.partner][j];
                }
            }
            memcpy(x, y, sizeof x);
        }
        assert_true(met > 0);
        for (uint32_t i = 0; i < nodes; i++) {
            for (uint32_t j = 0; j < nodes; j++) {
                assert_true(fabs(x[i][j] - 1.0 / nodes) < 1e-15);
            }
        }
    }
}

static void test_base2_takes_as_many_rounds_as_published(void **state)
{
    static const uint32_t rounds[][2] = {{1, 0}, {2, 1}, {3, 3}, {4, 2}, {5, 5}, {6, 4}, {7, 5},
                                         {8, 3}, {9, 7}, {10, 6}, {12, 5}, {14, 6}, {16, 4},
                                         {20, 7}, {24, 6}, {28, 7}, {31, 9}, {32, 5}, {33, 11}};
    (void)state;
    for (uint32_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        assert_int_equal(uw_base2_rounds_n(rounds[i][0]), rounds[i][1]);
    }
}

static void test_steps_are_those_of_the_cost_formulas(void **state)
{
    (void)state;
    assert_int_equal(uw_allreduce_steps_n(UW_ALLREDUCE_TREE, 12), 8);
    assert_int_equal(uw_allreduce_steps_n(UW_ALLREDUCE_DOUBLING, 16), 4);
    assert_int_equal(uw_allreduce_steps_n(UW_ALLREDUCE_DOUBLING, 12), 5);
    assert_int_equal(uw_allreduce_steps_n(UW_ALLREDUCE_HALVING, 16), 8);
    assert_int_equal(uw_allreduce_steps_n(UW_ALLREDUCE_HALVING, 12), 9);
    assert_int_equal(uw_allreduce_steps_n(UW_ALLREDUCE_RING, 12), 22);
}

static void test_algorithms_are_found_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < UW_ALLREDUCE_KINDS_N; i++) {
        enum uw_allreduce_kind kind = UW_ALLREDUCE_KINDS_N;
        assert_true(uw_allreduce_find(uw_allreduce_name((enum uw_allreduce_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    enum uw_allreduce_kind kind = UW_ALLREDUCE_RING;
    assert_false(uw_allreduce_find("abacus", &kind));
    assert_int_equal(kind, UW_ALLREDUCE_RING);
}

int main(void)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(7));
    for (uint32_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        values[i] = uw_rng_uniform(&rng) - 0.3f;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_has_the_sum),
        cmocka_unit_test(test_large_vectors_of_an_odd_size),
        cmocka_unit_test(test_base2_averages_exactly),
        cmocka_unit_test(test_base2_takes_as_many_rounds_as_published),
        cmocka_unit_test(test_steps_are_those_of_the_cost_formulas),
        cmocka_unit_test(test_algorithms_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
