/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is there, on a radio that all share: what beacons cost, how soon silence is noticed, and that
 * frames of 51 bytes are enough. */
#include "fault/radio_world.h"

#define S 1000000u
#define MODEL_N 200u
#define NARROWEST 51u

static struct radio_world *quiet_cell(uint32_t n, float loss)
{
    struct radio_world *r = radio_world_new(n, MODEL_N, loss);
    for (uint32_t i = 0; i < n; i++) {
        r->w->nodes[i].trains = false;
    }
    world_start(r->w);
    world_until(r->w, world_all_know_all, 30 * S);
    return r;
}

/* A node's beacons and pings are a 64th of the rate at most; all of them are an eighth. */
static void test_beacons_cost_little(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 5, 8, WORLD_MAX};
    for (uint32_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        for (uint32_t lossy = 0; lossy < 2; lossy++) {
            struct radio_world *r = quiet_cell(sizes[k], lossy ? 0.2f : 0.0f);
            struct world *w = r->w;
            world_run(w, 20 * S);
            uint64_t before[WORLD_MAX], busy_us = r->medium.busy_us, most = 0;
            for (uint32_t i = 0; i < w->n; i++) {
                before[i] = world_counters(w, i).membership_bytes;
            }
            world_run(w, 60 * S);
            for (uint32_t i = 0; i < w->n; i++) {
                uint64_t bytes = world_counters(w, i).membership_bytes - before[i];
                most = bytes > most ? bytes : most;
                assert_true(bytes != 0);
                assert_int_equal(w->nodes[i].events[UW_NODE_DEAD], 0);
            }
            double share = (double)(r->medium.busy_us - busy_us) / (60.0 * S);
            printf("%u nodes, loss %.1f: %.0f bytes/s a node, %.3f of the air\n",
                   (unsigned)w->n, lossy ? 0.2 : 0.0, (double)most / 60.0, share);
            assert_true(most / 60u <= r->links[0].frames.link.rate_bits_per_s / 8u / 64u);
            assert_true(share <= 0.125);
            radio_world_free(r);
        }
    }
}

static void test_who_falls_silent_is_given_up_within_half_a_minute(void **state)
{
    (void)state;
    static const float losses[] = {0.0f, 0.2f};
    for (uint32_t k = 0; k < 2; k++) {
        struct radio_world *r = quiet_cell(8, losses[k]);
        struct world *w = r->w;
        world_run(w, 20 * S);
        uint64_t began_us = w->now_us, first_us = 0, last_us = 0;
        w->nodes[3].paused = true;
        for (uint32_t left = 7; left != 0;) {
            world_run(w, S / 10u);
            uint32_t dead = 0;
            for (uint32_t i = 0; i < 8; i++) {
                dead += i != 3 && world_state(w, i, "d") == UW_MEMBER_DEAD;
            }
            first_us = first_us == 0 && dead != 0 ? w->now_us - began_us : first_us;
            left = 7u - dead;
            last_us = w->now_us - began_us;
            assert_true(last_us <= 30 * S);
        }
        printf("loss %.1f: given up after %.1f to %.1f s\n", (double)losses[k],
               (double)first_us / 1e6, (double)last_us / 1e6);
        w->nodes[3].paused = false;
        world_until(w, world_all_know_all, 20 * S);
        radio_world_free(r);
    }
}

static bool all_pulled(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (world_counters(w, i).pulls_done < 2u) {
            return false;
        }
    }
    return true;
}

/* 40 bytes are left for a message: pings leave out what does not fit, and a receiver keeps what it
 * was told before; chunks have eight floats. */
static void test_the_narrowest_frames_carry_all(void **state)
{
    (void)state;
    struct radio_world *r = radio_world_new(8, MODEL_N, 0.05f);
    struct world *w = r->w;
    w->train_us = 20000;
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].mtu_bytes = NARROWEST;
        w->nodes[i].progress.lr = 0.0f;
    }
    world_start(w);
    world_until(w, world_all_know_all, 30 * S);
    world_until(w, all_pulled, 120 * S);
    world_run(w, 10 * S);
    for (uint32_t i = 0; i < w->n; i++) {
        const struct uw_membership *m = &w->nodes[i].node.state->membership;
        for (uint32_t k = 1; k < m->members_n; k++) {
            const struct uw_member *it = &m->members[k];
            assert_true(it->same_model && it->progress.version != 0);
        }
        assert_int_equal(w->nodes[i].events[UW_NODE_DEAD], 0);
    }
    radio_world_free(r);
}

/* Others speak to it, and to all, in messages that it hears. */
static void test_who_has_become_narrower_still_hears_the_others(void **state)
{
    (void)state;
    struct radio_world *r = radio_world_new(4, MODEL_N, 0.0f);
    struct world *w = r->w;
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].progress = (struct uw_node_progress){
            .step = 100000, .loss = 1.0f, .accuracy = 0.5f, .samples_per_s = 1000.0f};
        w->train_us = S / 10u;
    }
    world_start(w);
    world_until(w, world_all_know_all, 30 * S);
    world_run(w, 10 * S);
    radio_narrow(r, 1, 62);
    world_run(w, 200 * S);
    assert_true(world_all_know_all(w));
    const struct uw_membership *m = &w->nodes[1].node.state->membership;
    for (uint32_t i = 0; i < w->n; i++) {
        assert_int_equal(w->nodes[i].events[UW_NODE_SUSPECT], 0);
        assert_true(i == 0 || m->members[i].progress.step > 100000u + 1900u);
    }
    assert_true(world_counters(w, 1).pulls_done > 100);
    radio_world_free(r);
}

/* One frame tells all, however many they are. */
static void test_who_leaves_is_not_missed(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n *= 2u) {
        struct radio_world *r = quiet_cell(n, 0.0f);
        struct world *w = r->w;
        uw_node_leave(&w->nodes[1].node, w->now_us);
        world_run(w, S);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(i == 1 || world_state(w, i, "b") == UW_MEMBER_LEFT);
        }
        radio_world_free(r);
    }
}

/* Chunks for each of the pulls that node 1 completes in so long. */
static double chunks_a_pull(struct world *w, uint64_t us)
{
    struct uw_node_counters before = world_counters(w, 1), after;
    world_run(w, us);
    after = world_counters(w, 1);
    assert_true(after.pulls_done > before.pulls_done + 10u);
    return (double)(after.chunks_mixed - before.chunks_mixed) /
           (double)(after.pulls_done - before.pulls_done);
}

/* Chunks grow again with the frames. */
static void test_a_pull_from_who_was_narrow_is_as_it_was(void **state)
{
    (void)state;
    struct radio_world *r = quiet_cell(2, 0.0f);
    struct world *w = r->w;
    w->train_us = S / 10u;
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].progress.lr = 0.0f;
        w->nodes[i].trains = true;
    }
    double wide = chunks_a_pull(w, 60 * S);
    radio_narrow(r, 0, 62);
    double narrow = chunks_a_pull(w, 60 * S);
    radio_narrow(r, 0, RADIO_FRAME_BYTES);
    world_run(w, 60 * S);
    double again = chunks_a_pull(w, 60 * S);
    printf("chunks a pull: %.1f, in small frames %.1f, and then %.1f\n", wide, narrow, again);
    assert_true(narrow > 2.0 * wide);
    assert_true(again < 1.1 * wide);
    radio_world_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beacons_cost_little),
        cmocka_unit_test(test_who_falls_silent_is_given_up_within_half_a_minute),
        cmocka_unit_test(test_the_narrowest_frames_carry_all),
        cmocka_unit_test(test_who_has_become_narrower_still_hears_the_others),
        cmocka_unit_test(test_who_leaves_is_not_missed),
        cmocka_unit_test(test_a_pull_from_who_was_narrow_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
