/* SPDX-License-Identifier: Apache-2.0
 *
 * The training side of gossip: the test takes the network thread's place. */
#include "unit/mix_bench.h"

#include "uwasa/rng.h"

/* m = 0.9 m + 0.1 (s - x) / (sum of lr), over rounds with mixing and changing learning rate. */
static void test_quasi_global_momentum_follows_its_equation(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_qg, 4, false);
    double x[N], m[N], s[N];
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    for (uint32_t i = 0; i < N; i++) {
        x[i] = s[i] = (double)b.x[i];
        m[i] = 0.0;
    }
    for (uint32_t round = 1; round <= 20; round++) {
        assert_int_equal(uw_gossip_next_round(&b.g), round);
        double lr_sum = 0.0;
        int flags = 0;
        for (uint32_t t = 0; t < 4u; t++) {
            b.p.lr = 0.1f / (float)(round + t);
            lr_sum += (double)b.p.lr;
            for (uint32_t i = 0; i < N; i++) {      /* the frozen local step */
                float g = 0.01f * (float)(i + t);
                b.x[i] -= b.p.lr * (g + 0.9f * b.m[i]);
                x[i] -= (double)b.p.lr * ((double)g + 0.9 * m[i]);
            }
            if (t == 2u) {
                push(&b, round, round % 4u, (float)round, false);
                for (uint32_t i = round % 4u * CHUNK; i < N && i < (round % 4u + 1u) * CHUNK; i++) {
                    x[i] += 0.5 * ((double)round - s[i]);
                }
                uw_gossip_ended(&b.g, round, UW_GOSSIP_CUT);
            }
            b.p.step++;
            flags |= uw_gossip_after_step(&b.g, &b.p);
        }
        assert_int_equal(flags, UW_NODE_MIXED | UW_NODE_ROUND);
        for (uint32_t i = 0; i < N; i++) {
            m[i] = 0.9 * m[i] + 0.1 * (s[i] - x[i]) / lr_sum;
            s[i] = x[i];
            assert_true(fabs((double)b.x[i] - x[i]) < 1e-4 * (1.0 + fabs(x[i])));
            assert_true(fabs((double)b.m[i] - m[i]) < 1e-3 * (1.0 + fabs(m[i])));
            assert_float_equal(b.s[i], b.x[i], 0.0);
        }
    }
    tear_down(&b);
}

static void test_round_without_peers_or_steps_leaves_the_velocity_alone(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_qg, 1, false);
    b.p.lr = 0.0f;
    for (uint32_t i = 0; i < N; i++) {
        b.m[i] = 3.0f;
    }
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    for (uint32_t round = 1; round < 5; round++) {
        assert_int_equal(uw_gossip_next_round(&b.g), round);
        push(&b, round, 0, 2.0f, false);
        uw_gossip_ended(&b.g, round, UW_GOSSIP_COMPLETE);
        assert_int_equal(uw_gossip_after_step(&b.g, &b.p),
                         UW_NODE_MIXED | UW_NODE_ROUND);
    }
    for (uint32_t i = 0; i < N; i++) {
        assert_float_equal(b.m[i], 3.0f, 0.0);
    }
    tear_down(&b);
}

static void test_training_goes_on_while_the_pull_is_late(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_none, 3, false);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 1);
    for (uint32_t i = 1; i < 51; i++) {
        assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
        assert_int_equal(uw_gossip_next_round(&b.g), 0);
        assert_int_equal(b.snapshot.version, 1u + i / 3u);  /* others see what is learned */
    }
    /* A reader inside delays the publishing, not the training. */
    uw_gossip_ended(&b.g, 1, UW_GOSSIP_NONE);
    assert_false(atomic_flag_test_and_set(&b.snapshot.busy));
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 0);
    atomic_flag_clear(&b.snapshot.busy);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 2);
    assert_int_equal(b.snapshot.version, 18);
    tear_down(&b);
}

/* m follows its equation over every T steps, wherever in them a long pull begins and ends; what
 * comes late is compared with what was shown last. */
static void test_velocity_turns_every_period_of_a_long_pull(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_qg, 2, false);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 1);
    float m = 0.0f, s = b.x[0], x = s, recent = UW_MIX_RECENT_FIRST;
    for (uint32_t step = 1; step <= 7; step++) {
        bool ends = step == 6u, busy = step == 4u, comes = step == 5u;
        for (uint32_t i = 0; i < N; i++) {
            b.x[i] -= 0.25f;
        }
        x -= 0.25f;
        if (comes) {
            push(&b, 1, 0, 3.0f, false);
            x += 0.5f * (3.0f - s);
        }
        if (ends) {
            uw_gossip_ended(&b.g, 1, UW_GOSSIP_COMPLETE);
        }
        if (busy) {     /* a reader: shown a step later, and turned once */
            assert_false(atomic_flag_test_and_set(&b.snapshot.busy));
        }
        int flags = uw_gossip_after_step(&b.g, &b.p);
        assert_int_equal(flags, comes ? UW_NODE_MIXED : ends ? UW_NODE_ROUND : 0);
        if (step == 2u || step == 4u || step == 7u) {
            recent = 0.9f * recent + (step == 7u ? (float)CHUNK / N : 0.0f);
            m = 0.9f * (1.0f - 0.1f * (1.0f - recent)) * m + 0.1f * (s - x) / 0.2f;
        }
        if (step == 2u || step == 5u || step == 7u) {
            s = x;
        }
        atomic_flag_clear(&b.snapshot.busy);
        assert_float_equal(b.x[0], x, 1e-5);
        assert_float_equal(b.m[0], m, 1e-5);
        assert_float_equal(b.s[0], s, 1e-5);
    }
    assert_int_equal(uw_gossip_next_round(&b.g), 2);
    tear_down(&b);
}

static float seen_alone;
static uint32_t seen_n;

static void end_seen(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                     float *m, float lr_sum, float alone)
{
    (void)c, (void)n, (void)s, (void)x, (void)m, (void)lr_sum;
    seen_alone = alone;
    seen_n++;
}

/* A round of one step in which so many of four chunks come; busy: it is shown a step later. */
static void round_with(struct bench *b, uint32_t chunks_n, bool busy)
{
    uint32_t round = uw_gossip_next_round(&b->g);
    for (uint32_t i = 0; i < chunks_n; i++) {
        push(b, round, i, 0.0f, false);
    }
    uw_gossip_ended(&b->g, round, chunks_n == 4u ? UW_GOSSIP_COMPLETE : UW_GOSSIP_NONE);
    if (busy) {
        assert_false(atomic_flag_test_and_set(&b->snapshot.busy));
        (void)uw_gossip_after_step(&b->g, &b->p);
        atomic_flag_clear(&b->snapshot.busy);
    }
    (void)uw_gossip_after_step(&b->g, &b->p);
}

/* The rule is told how far the node has been alone: 1 - 0.9^r after r rounds of nothing, a whole
 * model makes up for it, and a turn counts once. */
static void test_rule_is_told_how_far_the_node_is_alone(void **state)
{
    (void)state;
    const struct uw_mix_rule seen = {.name = "seen", .end = end_seen};
    struct bench b;
    float recent = UW_MIX_RECENT_FIRST;
    set_up(&b, &seen, 1, false);
    seen_n = 0;
    (void)uw_gossip_after_step(&b.g, &b.p);
    for (uint32_t round = 1; round <= 30; round++) {
        uint32_t chunks_n = round == 11u ? 4u : round == 25u ? 1u : 0u;
        round_with(&b, chunks_n, round == 5u || round == 11u);
        recent = 0.9f * recent + (chunks_n == 4u ? 1.0f : chunks_n == 1u ? (float)CHUNK / N : 0.0f);
        assert_int_equal(seen_n, round);
        assert_float_equal(seen_alone, recent < 1.0f ? 1.0f - recent : 0.0f, 1e-5);
    }
    assert_true(seen_alone > 0.5f);
    uw_gossip_go_on(&b.g, &seen);
    assert_float_equal(b.g.recent, UW_MIX_RECENT_FIRST, 0.0f);
    uw_gossip_recall(&b.g, true);
    assert_float_equal(b.g.recent, 1.9f, 1e-6f);
    uw_gossip_recall(&b.g, false);
    assert_float_equal(b.g.recent, 1.71f, 1e-6f);
    tear_down(&b);
}

/* x += w (s_peer - s): a pull that is late undoes no step, however many there were. */
static void test_what_is_learned_during_a_pull_stays_whole(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_none, 2, false);
    struct uw_segment parts[] = {{.name = "w", .size_n = 10},
                                 {.name = "var", .offset_n = 10, .size_n = 9, .statistic = true},
                                 {.name = "b", .offset_n = 19, .size_n = N - 19}};
    b.params.segments = parts;
    b.params.segments_n = 3;
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 1);
    for (uint32_t i = 0; i < N; i++) {
        b.x[i] += 1.0f;
    }
    for (uint32_t chunk = 0; chunk * CHUNK < N; chunk++) {
        push(&b, 1, chunk, 5.0f, false);
    }
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), UW_NODE_MIXED);
    for (uint32_t i = 0; i < N; i++) {
        float s = b.s[i], x = s + 1.0f;
        bool statistic = i >= 10 && i < 19;
        float mixed = statistic ? 0.5f * x + 2.5f : x + 0.5f * (5.0f - s);
        assert_float_equal(b.x[i], mixed, 1e-5);
    }
    tear_down(&b);
}

/* A round in which all elements move by `step`, and a peer's model is `apart` from the start. */
static void round_apart(struct bench *b, float step, float apart)
{
    uint32_t round = uw_gossip_next_round(&b->g);
    assert_int_not_equal(round, 0);
    for (uint32_t i = 0; i < N; i++) {
        b->x[i] += step;
    }
    for (uint32_t chunk = 0; chunk * CHUNK < N; chunk++) {
        push(b, round, chunk, 0.0f, false);
        struct uw_gossip_slot *slot = (struct uw_gossip_slot *)(void *)
            (b->g.ring + (uw_load(&b->g.tail) + b->g.config.slots_n - 1u) % b->g.config.slots_n *
                         b->g.slot_bytes);
        for (uint32_t i = 0; i < slot->count_n; i++) {
            slot->x[i] = b->s[chunk * CHUNK + i] + apart;
        }
    }
    uw_gossip_ended(&b->g, round, UW_GOSSIP_COMPLETE);
    (void)uw_gossip_after_step(&b->g, &b->p);
}

static struct bench *untrusting(struct bench *b)
{
    set_up(b, &uw_mix_none, 1, false);
    b->g.guard = &b->guard->base;
    assert_int_equal(uw_gossip_after_step(&b->g, &b->p), 0);
    return b;
}

static void test_first_round_mixes_nothing_and_learns_from_movement(void **state)
{
    (void)state;
    struct bench b;
    round_apart(untrusting(&b), 0.5f, 30.0f);
    assert_float_equal(b.x[0], 1.5f, 1e-6);
    assert_float_equal(b.guard->usual[0].rms, 1.0f, 1e-5);
    round_apart(&b, 0.5f, 2.0f);        /* it adds the second movement, as nothing was learned */
    assert_float_equal(b.x[0], 3.0f, 1e-5);
    tear_down(&b);
}

static void test_far_pull_is_refused_unless_two_in_a_row_are_far(void **state)
{
    (void)state;
    struct bench b;
    round_apart(untrusting(&b), 0.5f, 0.0f);
    for (uint32_t i = 0; i < 10; i++) {
        round_apart(&b, 0.5f, 1.0f);
    }
    float usual = b.guard->usual[0].rms, x = b.x[0];
    assert_true(usual > 0.8f && usual < 1.2f);
    round_apart(&b, 0.0f, -40.0f);      /* a liar: alone, it moves nothing and nearly no limit */
    assert_float_equal(b.x[0], x, 0.0);
    assert_true(uw_gossip_rejected(&b.g, b.g.round - 1u) && !uw_gossip_doubts(&b.g));
    round_apart(&b, 0.0f, 1.0f);
    assert_float_equal(b.x[0], x + 0.5f, 1e-5);
    assert_true(b.guard->usual[0].rms < 1.4f);
    x = b.x[0];
    round_apart(&b, 0.0f, 40.0f);       /* now this node is apart from all: by 30 or more */
    for (uint32_t i = 0; i < 3; i++) {  /* each refusal doubles what is usual, at most */
        usual = b.guard->usual[0].rms;
        round_apart(&b, 0.0f, 30.0f + 0.01f * (float)i);
        assert_true(uw_gossip_doubts(&b.g));
        assert_true(b.guard->usual[0].rms <= 2.0f * usual);
        assert_float_equal(b.x[0], x, 0.0);
    }
    round_apart(&b, 0.0f, 30.1f);
    assert_float_equal(b.x[0], x + 15.05f, 1e-3);
    tear_down(&b);
}

/* Two liars in a row, whose models are absurd, do not open the door to a third one. */
static void test_absurd_pulls_in_a_row_are_all_refused(void **state)
{
    (void)state;
    struct bench b;
    round_apart(untrusting(&b), 0.5f, 0.0f);
    for (uint32_t i = 0; i < 10; i++) {
        round_apart(&b, 0.5f, 1.0f);
    }
    float x = b.x[0];
    for (uint32_t i = 0; i < 5; i++) {
        round_apart(&b, 0.0f, 1e6f + 100.0f * (float)i);
        assert_float_equal(b.x[0], x, 0.0);
    }
    round_apart(&b, 0.0f, 1.0f);
    assert_float_equal(b.x[0], x + 0.5f, 1e-5);
    tear_down(&b);
}

static void test_model_that_is_shown_twice_is_refused(void **state)
{
    (void)state;
    struct bench b;
    round_apart(untrusting(&b), 0.5f, 0.0f);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t round = uw_gossip_next_round(&b.g);
        for (uint32_t chunk = 0; chunk * CHUNK < N; chunk++) {
            push(&b, round, chunk, 1.25f, false);
        }
        uw_gossip_ended(&b.g, round, UW_GOSSIP_COMPLETE);
        b.x[0] += 0.125f;
        (void)uw_gossip_after_step(&b.g, &b.p);
        assert_int_equal(uw_gossip_rejected(&b.g, round), i > 0);
    }
    tear_down(&b);
}

/* Of several senders each one is judged by itself, and what is refused teaches nothing. */
static void test_of_several_senders_one_that_is_far_is_refused(void **state)
{
    (void)state;
    struct bench b;
    round_apart(untrusting(&b), 0.5f, 0.0f);
    for (uint32_t i = 0; i < 10; i++) {
        round_apart(&b, 0.5f, 1.0f);
    }
    float usual = b.guard->usual[0].rms, near[N], far[N];
    for (uint32_t i = 0; i < N; i++) {
        near[i] = b.x[i] + usual;
        far[i] = b.x[i] + 100.0f;
    }
    struct uw_guarded c = {.count_n = N, .rank = 0, .x = far, .own = b.x};
    assert_true(b.guard->base.share(&b.guard->base, &b.g, &c) < 0.0f);
    c.x = near;
    assert_float_equal(b.guard->base.share(&b.guard->base, &b.g, &c), 1.0f, 0.0);
    b.guard->base.ends(&b.guard->base, &b.g, false);
    assert_true(b.guard->usual[0].rms <= 1.11f * usual && !b.guard->base.doubts);
    c.x = far;                          /* refused by all: this node may be the one apart */
    assert_true(b.guard->base.share(&b.guard->base, &b.g, &c) < 0.0f);
    b.guard->base.ends(&b.guard->base, &b.g, false);
    assert_true(b.guard->base.doubts);
    tear_down(&b);
}

static void test_chunk_that_is_far_moves_its_elements_five_times_as_far_as_usual(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_none, 1, false);
    b.g.guard = &b.guard->base;
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    b.guard->usual[0].rms = 1.0f;
    b.params.size_n = 100u * N;         /* one chunk is less than an eighth */
    push(&b, uw_gossip_next_round(&b.g), 0, 1000.0f, false);
    b.g.config.period_steps = b.g.period_steps = 10u;
    (void)uw_gossip_after_step(&b.g, &b.p);
    double squares = 0.0;
    for (uint32_t i = 0; i < CHUNK; i++) {
        double moved = (double)(b.x[i] - b.s[i]);
        squares += moved * moved;
    }
    assert_float_equal(sqrt(squares / CHUNK), 0.5 * 5.0, 1e-3);
    b.params.size_n = N;
    tear_down(&b);
}

static void test_refused_chunk_ends_the_rest_of_its_pull(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_none, 1, false);
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    assert_int_equal(uw_gossip_next_round(&b.g), 1);
    push(&b, 1, 0, 5.0f, false);
    push(&b, 1, 1, 1e5f, false);
    push(&b, 1, 2, 5.0f, false);
    assert_false(uw_gossip_rejected(&b.g, 1));
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), UW_NODE_MIXED);
    assert_true(uw_gossip_rejected(&b.g, 1));
    for (uint32_t i = 0; i < N; i++) {
        float own = 1.0f + 0.1f * (float)i;
        assert_float_equal(b.x[i], i < CHUNK ? 0.5f * own + 2.5f : own, 1e-6);
    }
    assert_int_equal(uw_gossip_room(&b.g), 8);
    tear_down(&b);
}

/* Also where a number that only grows would wrap: places in the ring start over long before. */
static void test_ring_of_any_size_hands_over_every_chunk_in_order(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_none, 1000000u, false);
    b.g.config.slots_n = 5;             /* does not divide 2^32 */
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    uint32_t pushed = 0;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t n = i % 6u;
        float last = 0.0f;
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(uw_gossip_room(&b.g), 5u - k);
            last = (float)++pushed;
            push(&b, 1, 0, last, true);
        }
        assert_int_equal(uw_gossip_slot(&b.g) == NULL, n == 5u);
        (void)uw_gossip_after_step(&b.g, &b.p);
        assert_int_equal(uw_gossip_room(&b.g), 5);
        assert_true(n == 0 || b.x[0] == last);
        assert_int_equal(b.g.mixed_round, pushed);
        assert_true(atomic_load(&b.g.head) < 10u && atomic_load(&b.g.tail) < 10u);
    }
    tear_down(&b);
}

static void test_weights_of_all_zeros_let_no_absurd_chunk_in(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_none, 1, false);
    memset(b.x, 0, N * sizeof b.x[0]);
    b.g.guard = &b.guard->base;
    assert_int_equal(uw_gossip_after_step(&b.g, &b.p), 0);
    push(&b, 1, 0, 3e38f, false);
    push(&b, 1, 1, 1.0f, false);
    uw_gossip_ended(&b.g, 1, UW_GOSSIP_CUT);
    (void)uw_gossip_after_step(&b.g, &b.p);
    assert_true(uw_gossip_rejected(&b.g, 1));
    for (uint32_t i = 0; i < N; i++) {
        assert_float_equal(b.x[i], 0.0f, 0.0);
    }
    for (uint32_t round = 2; round <= 3; round++) {     /* learns, then mixes */
        push(&b, round, 1, 1.0f, false);
        uw_gossip_ended(&b.g, round, UW_GOSSIP_COMPLETE);
        (void)uw_gossip_after_step(&b.g, &b.p);
    }
    assert_float_equal(b.x[CHUNK], 0.5f, 0.0);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quasi_global_momentum_follows_its_equation),
        cmocka_unit_test(test_round_without_peers_or_steps_leaves_the_velocity_alone),
        cmocka_unit_test(test_training_goes_on_while_the_pull_is_late),
        cmocka_unit_test(test_velocity_turns_every_period_of_a_long_pull),
        cmocka_unit_test(test_what_is_learned_during_a_pull_stays_whole),
        cmocka_unit_test(test_rule_is_told_how_far_the_node_is_alone),
        cmocka_unit_test(test_first_round_mixes_nothing_and_learns_from_movement),
        cmocka_unit_test(test_far_pull_is_refused_unless_two_in_a_row_are_far),
        cmocka_unit_test(test_absurd_pulls_in_a_row_are_all_refused),
        cmocka_unit_test(test_of_several_senders_one_that_is_far_is_refused),
        cmocka_unit_test(test_model_that_is_shown_twice_is_refused),
        cmocka_unit_test(test_chunk_that_is_far_moves_its_elements_five_times_as_far_as_usual),
        cmocka_unit_test(test_refused_chunk_ends_the_rest_of_its_pull),
        cmocka_unit_test(test_ring_of_any_size_hands_over_every_chunk_in_order),
        cmocka_unit_test(test_weights_of_all_zeros_let_no_absurd_chunk_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
