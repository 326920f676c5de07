/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples lent among nodes: what is lent to whom, what a node that lends none does, what memory is
 * touched, and what broken messages do. Random trouble is in test_shuffle_faults.c. */
#include "fault/shuffle_world.h"

#include "uwasa/rng.h"

#define TERM_US 4000000u
#define HOLD_US 5000000u

static void test_samples_of_others_come_and_counts_stay(void **state)
{
    (void)state;
    struct shuffle_world *a = shuffle_world_new(3, 20, 100, 5, 300);
    for (uint32_t i = 0; i < 3; i++) {
        shuffle_world_up(a, i, true);
    }
    shuffle_world_run(a, HOLD_US - 100000u);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(a->foreign_n[i], 0);   /* what may be lent from before rests */
        assert_int_equal(world_counters(a->w, i).samples_out, 0);
    }
    shuffle_world_run(a, 20000000);
    for (uint32_t i = 0; i < 3; i++) {
        struct uw_node_counters c = world_counters(a->w, i);
        assert_true(a->foreign_n[i] >= 3u && a->foreign_n[i] <= 5u);
        assert_true(c.samples_in >= 15u);
        assert_true(c.samples_out - c.samples_in <= 1u);
        assert_true(c.sample_bytes >= c.samples_in * 400u);
        assert_true(c.sample_bytes < (c.samples_out + 4u) * 2u * 400u);
    }
    shuffle_world_free(a);
}

/* With a link that loses nothing, all samples are drawn at any moment but those under way. */
static void test_only_samples_under_way_are_drawn_by_nobody(void **state)
{
    (void)state;
    struct shuffle_world *a = shuffle_world_new(4, 16, 30, 4, 300);
    for (uint32_t i = 0; i < 4; i++) {
        shuffle_world_up(a, i, true);
    }
    shuffle_world_run(a, HOLD_US + 1000000u);
    uint32_t whole = 0, looks = 0;
    for (; looks < 4000u; looks++) {
        uint32_t drawn = 0;
        shuffle_world_run(a, 5000);
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t k = 0; k < 16; k++) {
                drawn += a->seen_by[i][k] != 0;
            }
        }
        assert_true(drawn + 4u * 4u >= 64u);
        whole += drawn == 64u;
    }
    assert_true(whole > looks / 2u);
    shuffle_world_free(a);
}

static void test_a_node_that_lends_nothing_sends_and_takes_nothing(void **state)
{
    (void)state;
    struct shuffle_world *a = shuffle_world_new(3, 20, 100, 5, 300);
    shuffle_world_up(a, 0, true);
    shuffle_world_up(a, 1, true);
    shuffle_world_up(a, 2, false);
    shuffle_world_run(a, HOLD_US + 10000000u);
    /* Even when it is asked by a node that thinks otherwise. */
    struct uw_node_state *s = a->w->nodes[0].node.state;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        s->membership.members[i].progress.shuffles = true;
    }
    shuffle_world_run(a, 500000);
    struct uw_node_counters c = world_counters(a->w, 2);
    assert_int_equal(c.samples_in + c.samples_out + c.sample_bytes, 0);
    assert_int_equal(a->foreign_n[2], 0);
    for (uint32_t k = 0; k < 20; k++) {
        assert_int_equal(a->seen_by[2][k], 4u);
    }
    assert_true(world_counters(a->w, 0).samples_in > 0);
    shuffle_world_free(a);
}

static void test_a_death_gives_the_samples_back_and_a_return_waits(void **state)
{
    (void)state;
    struct shuffle_world *a = shuffle_world_new(2, 20, 40, 10, 300);
    shuffle_world_up(a, 0, true);
    shuffle_world_up(a, 1, true);
    shuffle_world_run(a, HOLD_US + 4000000u);
    assert_true(a->foreign_n[0] > 0);
    shuffle_world_down(a, 1);
    shuffle_world_run(a, 500000);
    shuffle_world_up(a, 1, true);
    shuffle_world_run(a, HOLD_US - 1000000u);
    assert_int_equal(a->foreign_n[0], 0);
    for (uint32_t k = 0; k < 20; k += 2) {
        assert_int_equal(a->seen_by[1][k], 0);
    }
    shuffle_world_run(a, 6000000);
    assert_true(a->foreign_n[0] > 0 && a->foreign_n[1] > 0);
    shuffle_world_free(a);
}

static void test_who_leaves_gives_back_at_once(void **state)
{
    (void)state;
    struct shuffle_world *a = shuffle_world_new(2, 20, 40, 10, 300);
    shuffle_world_up(a, 0, true);
    shuffle_world_up(a, 1, true);
    shuffle_world_run(a, HOLD_US + 3000000u);
    assert_true(a->foreign_n[0] > 0);
    uw_node_leave(&a->w->nodes[1].node, a->w->now_us);
    shuffle_world_run(a, 50000);
    assert_int_equal(a->foreign_n[0], 0);
    for (uint32_t k = 0; k < 20; k++) {
        assert_int_equal(a->seen_by[0][k], 1u);
    }
    shuffle_world_free(a);
}

static void test_nodes_with_other_terms_or_other_samples_lend_nothing(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        struct shuffle_world *a = shuffle_world_new(2, 20, 40, 10, 300);
        shuffle_world_up(a, 0, true);
        a->loan_us += what == 0 ? 1000u : 0;
        a->nodes[1].source.base.classes += what == 1 ? 1u : 0;
        shuffle_world_up(a, 1, true);
        shuffle_world_run(a, HOLD_US + 3000000u);
        for (uint32_t i = 0; i < 2; i++) {
            struct uw_node_counters c = world_counters(a->w, i);
            assert_int_equal(c.samples_in + c.samples_out + c.sample_bytes, 0);
        }
        shuffle_world_free(a);
    }
}

static void test_broken_messages_are_refused(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(1));
    float floats[4] = {1.0f, -2.0f, 3.5f, 0.0f};
    for (uint32_t act = 0; act < 12; act++) {
        struct uw_shuffle_message m = {.act = (enum uw_shuffle_act)act, .chunk_n = 4, .count_n = 4,
                                       .to = {7, UINT64_MAX}, .from = {8, 3}, .label = 5};
        uint8_t buf[100], cut[100];
        uint32_t run = 0;
        if (act < UW_SHUFFLE_OFFER || act > UW_SHUFFLE_OVER) {
            memset(buf, 1, sizeof buf);
            buf[5] = (uint8_t)act;
            uw_wire_seal(buf, UW_WIRE_SHUFFLE, 52);
            assert_int_equal(uw_shuffle_decode(buf, 52, &run, &m), UW_ERR_CORRUPT);
            continue;
        }
        int bytes = uw_shuffle_encode(&m, 9, floats, buf, sizeof buf);
        assert_int_equal(uw_shuffle_encode(&m, 9, floats, buf, (uint32_t)bytes - 1u),
                         UW_ERR_TOOBIG);
        struct uw_shuffle_message got;
        assert_int_equal(uw_shuffle_decode(buf, (uint32_t)bytes, &run, &got), UW_OK);
        assert_int_equal(run, 9);
        assert_int_equal(got.act, act);
        assert_true(got.to.nonce == UINT64_MAX && got.to.slot == 7 && got.from.nonce == 3);
        for (uint32_t n = 0; n < (uint32_t)bytes; n++) {
            memcpy(cut, buf, n);
            assert_int_equal(uw_shuffle_decode(cut, n, &run, &got), UW_ERR_CORRUPT);
            bool data = act == UW_SHUFFLE_DATA;
            if (n >= 36u && !(data && n > 44u && n % 4u == 0)) {
                uw_wire_seal(cut, UW_WIRE_SHUFFLE, n);      /* cut before it was sealed */
                assert_int_equal(uw_shuffle_decode(cut, n, &run, &got), UW_ERR_CORRUPT);
            }
        }
        for (uint32_t i = 0; i < 200; i++) {
            memcpy(cut, buf, (size_t)bytes);
            cut[uw_rng_below(&rng, (uint32_t)bytes)] ^= (uint8_t)(1u << uw_rng_below(&rng, 8));
            assert_int_equal(uw_shuffle_decode(cut, (uint32_t)bytes, &run, &got), UW_ERR_CORRUPT);
        }
    }
}

/* Sound by the checksum, and nonsense: from a peer that has the run's key. */
static void test_nonsense_of_a_peer_does_no_harm(void **state)
{
    (void)state;
    struct shuffle_world *a = shuffle_world_new(2, 12, 40, 6, 300);
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(1));
    shuffle_world_up(a, 0, true);
    shuffle_world_up(a, 1, true);
    shuffle_world_run(a, HOLD_US + 1000000u);
    struct uw_node_state *s = a->w->nodes[0].node.state;
    float floats[64] = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t k = uw_rng_below(&rng, 8);
        const struct uw_lease *l = k < 6 ? &s->samples->leases.leases[k] : NULL;
        struct uw_shuffle_message m = {
            .act = (enum uw_shuffle_act)(1u + uw_rng_below(&rng, 5)),
            .to = {k, l != NULL && uw_rng_below(&rng, 4) != 0 ? l->nonce : uw_rng_u32(&rng)},
            .sample_n = 40, .classes = 2, .lease_ms = 4000,
            .chunk_n = 1u << uw_rng_below(&rng, 32), .base = uw_rng_below(&rng, 50),
            .wanted = uw_rng_u32(&rng), .offset_n = uw_rng_u32(&rng) >> uw_rng_below(&rng, 32),
            .label = uw_rng_below(&rng, 3), .count_n = 1u + uw_rng_below(&rng, 60),
            .floats = (const uint8_t *)floats};
        m.from = l != NULL && uw_rng_below(&rng, 4) != 0 ? l->theirs
                                                        : (struct uw_lease_ref){k, i + 1u};
        if (m.act == UW_SHUFFLE_OFFER || m.act == UW_SHUFFLE_WANT) {
            m.base = m.act == UW_SHUFFLE_OFFER ? 40 : m.base;
        }
        bool commits = m.act == UW_SHUFFLE_COMMIT || m.act == UW_SHUFFLE_DATA;
        if (l == NULL || !commits) {    /* these two would be lies about whose sample it is */
            uw_shuffle_receive(&s->samples->leases, uw_name_id("b"), &m, s->now_us);
        }
        if (i % 50u == 0) {
            world_tick(a->w);
        }
    }
    shuffle_world_run(a, 2u * HOLD_US);
    assert_true(world_counters(a->w, 0).samples_in > 0);
    shuffle_world_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_of_others_come_and_counts_stay),
        cmocka_unit_test(test_only_samples_under_way_are_drawn_by_nobody),
        cmocka_unit_test(test_a_node_that_lends_nothing_sends_and_takes_nothing),
        cmocka_unit_test(test_a_death_gives_the_samples_back_and_a_return_waits),
        cmocka_unit_test(test_who_leaves_gives_back_at_once),
        cmocka_unit_test(test_nodes_with_other_terms_or_other_samples_lend_nothing),
        cmocka_unit_test(test_broken_messages_are_refused),
        cmocka_unit_test(test_nonsense_of_a_peer_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
