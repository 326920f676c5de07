/* SPDX-License-Identifier: Apache-2.0
 *
 * In an exact average a rank is refused that has moved against this node for two rounds or more.
 */
#include "gossip/heading.h"
#include "test_support.h"

#include "uwasa/rng.h"
#include "uwasa/status.h"

#include <math.h>

#define N 5000u
#define RANKS 4u
#define CHUNK 300u

struct world {
    struct uw_headings *h;
    struct uw_rng rng;
    float last[N], x[N], sent[N];
    uint8_t memory[1u << 16];
};

static struct world w;

static void set_up(void)
{
    struct uw_arena arena;
    memset(&w, 0, sizeof w);
    uw_arena_init(&arena, w.memory, sizeof w.memory);
    assert_int_equal(uw_headings_place(&w.h, &arena, RANKS), UW_OK);
    uw_rng_seed(&w.rng, 7);
    for (uint32_t i = 0; i < N; i++) {
        w.last[i] = uw_rng_normal(&w.rng);
    }
}

/* This node moves; all ranks are in the round. */
static bool meet(const uint32_t *ids, uint32_t ids_n)
{
    for (uint32_t i = 0; i < N; i++) {
        w.x[i] = w.last[i] + 0.01f * uw_rng_normal(&w.rng);
    }
    bool judged = uw_headings_meet(w.h, ids, ids_n, ids_n - 1u, false);
    uw_headings_begin(w.h, w.x, N);
    return judged;
}

static void begin(const uint32_t *ids, uint32_t ids_n)
{
    (void)meet(ids, ids_n);
}

/* A rank sends the last average, a part of this node's movement, and something of its own. Returns
 * how many of its chunks are refused. */
static uint32_t send(uint32_t rank, float part, float own)
{
    uint32_t refused = 0;
    for (uint32_t i = 0; i < N; i++) {
        w.sent[i] = w.last[i] + part * (w.x[i] - w.last[i]) + own * uw_rng_normal(&w.rng);
    }
    for (uint32_t at = 0; at < N; at += CHUNK) {
        uint32_t n = N - at < CHUNK ? N - at : CHUNK;
        refused += uw_headings_oppose(w.h, rank, at, w.sent + at, n) ? 1u : 0u;
    }
    return refused;
}

static void end(void)
{
    memcpy(w.last, w.x, sizeof w.last);
    uw_headings_end(w.h, w.last, N);
}

/* Rounds with three ranks, of which the last one moves against this node. Where most others learn
 * the same it is refused, and elsewhere only who moves far against it. */
static void rounds(float second, float third, uint32_t refused)
{
    const uint32_t ids[] = {11, 12, 13};
    set_up();
    begin(ids, 3);
    end();                              /* nobody's movement is known before */
    for (uint32_t round = 0; round < 12; round++) {
        begin(ids, 3);
        assert_int_equal(send(0, 0.5f, 0.01f), 0);
        assert_int_equal(send(1, second, 0.01f), 0);
        assert_int_equal(send(2, third, 0.01f), round < 2 ? 0 : refused);
        end();
        assert_true(fabsf(w.h->of[0].mean - 0.5f) < 0.15f);
        assert_true(fabsf(w.h->of[1].mean - second) < 0.15f);
        assert_true(fabsf(w.h->of[2].mean - third) < 0.15f);
    }
}

static void test_who_moves_against_this_node_is_refused_from_the_third_round_on(void **state)
{
    const uint32_t chunks = (N + CHUNK - 1u) / CHUNK;
    (void)state;
    rounds(0.4f, -0.6f, chunks);
    rounds(0.0f, -0.6f, 0);
    rounds(0.0f, -1.5f, chunks);
}

/* A node is known by its id, whatever its rank is, and although it was away. */
static void test_ranks_change_and_ids_stay(void **state)
{
    const uint32_t first[] = {11, 12, 13}, second[] = {13, 14, 11}, third[] = {12, 13};
    const uint32_t others[] = {21, 22, 23, 24};
    (void)state;
    set_up();
    begin(first, 3);
    end();
    for (uint32_t round = 0; round < 2; round++) {
        begin(first, 3);
        (void)send(1, 0.5f, 0.0f);
        (void)send(2, -2.0f, 0.0f);
        end();
    }
    begin(second, 3);
    assert_true(send(0, -2.0f, 0.0f) > 0);
    assert_int_equal(send(1, -1.0f, 0.0f), 0);          /* 14 is new */
    assert_int_equal(send(2, -1.0f, 0.0f), 0);
    end();
    begin(third, 2);
    assert_int_equal(send(0, 0.5f, 0.0f), 0);
    assert_true(send(1, 1.0f, 0.0f) > 0);
    end();
    begin(others, 4);                   /* no place is left for who is away: forgotten */
    end();
    begin(first, 3);
    assert_int_equal(send(2, -1.0f, 0.0f), 0);
    end();
}

/* Who learns the same again is mixed again; what is not finite, or far too large, counts little. */
static void test_means_are_bounded_and_recover(void **state)
{
    const uint32_t ids[] = {11, 12};
    (void)state;
    set_up();
    begin(ids, 2);
    end();
    for (uint32_t round = 0; round < 20; round++) {
        begin(ids, 2);
        (void)send(0, -1e30f, 0.0f);
        (void)send(1, NAN, 0.0f);
        end();
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_float_equal(w.h->of[i].mean, -3.0f, 1e-4f);
    }
    uint32_t rounds = 0;
    for (begin(ids, 2); send(0, 1.0f, 0.0f) > 0; begin(ids, 2)) {
        end();
        rounds++;
        assert_true(rounds < 12);
    }
    assert_true(rounds >= 3);
}

/* A round that was given up teaches nothing; nor does one in which this node did not move. */
static void test_aborted_rounds_do_not_count(void **state)
{
    const uint32_t ids[] = {11};
    (void)state;
    set_up();
    begin(ids, 1);
    end();
    for (uint32_t round = 0; round < 5; round++) {
        begin(ids, 1);
        assert_int_equal(send(0, -1.0f, 0.0f), 0);
    }
    (void)uw_headings_meet(w.h, ids, 1, 0, false);
    uw_headings_begin(w.h, w.last, N);
    assert_int_equal(send(0, -1.0f, 0.01f), 0);
    uw_headings_end(w.h, w.last, N);
    assert_int_equal(w.h->of[0].rounds_n, 0);
}

/* Nobody is judged where half of the ranks were apart from this node, or this node from all. */
static void test_nodes_that_meet_again_do_not_judge_each_other(void **state)
{
    const uint32_t four[] = {11, 12, 13, 20}, two[] = {11, 20}, three[] = {11, 12, 20};
    (void)state;
    set_up();
    for (uint32_t round = 0; round < 8; round++) {      /* newcomers */
        assert_true(round % 2u == 0 ? meet(two, 2) : meet(four, 4));
        end();
    }
    assert_true(meet(two, 2));
    end();
    assert_true(meet(three, 3));        /* one of three has come */
    end();
    assert_true(meet(two, 2));
    end();
    assert_false(meet(four, 4));        /* two of four */
    end();
    assert_true(meet(four, 4));
    end();
    assert_false(uw_headings_meet(w.h, four, 4, 3, true));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_moves_against_this_node_is_refused_from_the_third_round_on),
        cmocka_unit_test(test_ranks_change_and_ids_stay),
        cmocka_unit_test(test_means_are_bounded_and_recover),
        cmocka_unit_test(test_aborted_rounds_do_not_count),
        cmocka_unit_test(test_nodes_that_meet_again_do_not_judge_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
