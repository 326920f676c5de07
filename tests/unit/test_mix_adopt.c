/* SPDX-License-Identifier: Apache-2.0
 *
 * A newcomer takes over another's model, whole or in part. */
#include "unit/mix_bench.h"

static void test_newcomer_copies_and_shows_nothing_before(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_qg, 1, true);
    b.m[0] = 0.25f;
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(b.snapshot.version, 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 1);
    push(&b, 1, 0, 30.0f, true);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), UW_NODE_MIXED | UW_NODE_ADOPTING);
    uw_gossip_ended(&b.g, 1, UW_GOSSIP_CUT);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), UW_NODE_ROUND | UW_NODE_ADOPTING);
    assert_int_equal(b.snapshot.version, 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 2);
    for (uint32_t c = 0; c < 4; c++) {
        push(&b, 2, c, 30.0f, true);
    }
    uw_gossip_ended(&b.g, 2, UW_GOSSIP_COMPLETE);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p),
                     UW_NODE_MIXED | UW_NODE_ROUND);
    assert_int_equal(b.snapshot.version, 1);
    for (uint32_t i = 0; i < N; i++) {
        assert_float_equal(b.x[i], 30.0f, 0.0);
    }
    assert_float_equal(b.m[0], 0.25f, 0.0);
    tear_down(&b);
}

/* A newcomer that found nobody and showed its own weights, then took over chunk 0 of a model of 30
 * and lost its peer. */
static void adopt_a_part(struct bench *b)
{
    set_up(b, &uw_mix_qg, 1, true);
    b->m[0] = 0.25f;
    assert_int_equal(uw_gossip_after_step(&b->g, &b->p), 0);
    uw_gossip_ended(&b->g, 1, UW_GOSSIP_NONE);
    assert_int_equal(uw_gossip_after_step(&b->g, &b->p), 0);
    assert_int_equal(b->snapshot.version, 1);
    assert_int_equal(uw_gossip_next_round(&b->g), 2);
    b->m[0] = 0.25f;
    b->p.lr = 0.0f;                     /* it holds still, as it is told to */
    push(b, 2, 0, 30.0f, true);
    uw_gossip_ended(&b->g, 2, UW_GOSSIP_CUT);
    assert_int_equal(uw_gossip_after_step(&b->g, &b->p),
                     UW_NODE_MIXED | UW_NODE_ROUND | UW_NODE_ADOPTING);
    assert_int_equal(uw_gossip_next_round(&b->g), 3);
    assert_int_equal(b->snapshot.version, 1);
}

/* What it has is no step from the snapshot: a difference to that would count the jump twice. */
static void test_model_half_taken_over_is_mixed_with_what_it_is_itself(void **state)
{
    (void)state;
    struct bench b;
    adopt_a_part(&b);
    push(&b, 3, 0, 10.0f, false);
    push(&b, 3, 1, 10.0f, false);
    uw_gossip_ended(&b.g, 3, UW_GOSSIP_CUT);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p),
                     UW_NODE_MIXED | UW_NODE_ROUND | UW_NODE_ADOPTING);
    for (uint32_t i = 0; i < N; i++) {
        float own = 1.0f + 0.1f * (float)i;
        float mixed = i < CHUNK ? 20.0f : i < 2u * CHUNK ? 0.5f * own + 5.0f : own;
        assert_float_equal(b.x[i], mixed, 1e-5);
    }
    /* All of somebody's model in it makes it whole, and it is shown. */
    for (uint32_t c = 0; c < 4; c++) {
        push(&b, 4, c, 10.0f, false);
    }
    uw_gossip_ended(&b.g, 4, UW_GOSSIP_COMPLETE);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p),
                     UW_NODE_MIXED | UW_NODE_ROUND);
    assert_int_equal(b.snapshot.version, 2);
    assert_float_equal(b.s[0], 15.0f, 1e-5);
    assert_float_equal(b.m[0], 0.25f, 0.0);
    tear_down(&b);
}

/* It trains on with what it has, which is what the next pull is a difference to. */
static void test_model_half_taken_over_is_shown_when_there_is_nobody_left(void **state)
{
    (void)state;
    struct bench b;
    adopt_a_part(&b);
    uw_gossip_ended(&b.g, 3, UW_GOSSIP_NONE);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(b.snapshot.version, 2);
    assert_float_equal(b.s[0], 30.0f, 0.0);
    b.x[0] += 1.0f;                     /* learned since */
    push(&b, 4, 0, 10.0f, false);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), UW_NODE_MIXED);
    assert_float_equal(b.x[0], 21.0f, 1e-5);
    assert_float_equal(b.x[1], 20.0f, 1e-5);
    assert_float_equal(b.m[0], 0.25f, 0.0);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newcomer_copies_and_shows_nothing_before),
        cmocka_unit_test(test_model_half_taken_over_is_mixed_with_what_it_is_itself),
        cmocka_unit_test(test_model_half_taken_over_is_shown_when_there_is_nobody_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
