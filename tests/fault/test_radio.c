/* SPDX-License-Identifier: Apache-2.0
 *
 * Gossip over 802.15.4 frames that all share: what a pull costs, and that it ends. */
#include "fault/radio_world.h"

#include <float.h>

static bool is_pulled(struct world *w)
{
    return world_counters(w, 1).pulls_done != 0;
}

#define MODEL_N 10000u
#define FRAMES 400u                 /* of 25 floats */
#define RUNS 6u                     /* that a cost with losses is the mean of */

/* All know each other, show their vectors, and do nothing. */
static void start_still(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].trains = false;
    }
    world_start(w);
    for (uint32_t i = 0; i < w->n; i++) {
        assert_int_equal(uw_gossip_publish(&w->nodes[i].node.state->gossip, 1, true), UW_OK);
    }
    world_until(w, world_all_know_all, 60000000);
    world_run(w, 10000000);
}

/* What one pull of 40 kB by node 1 took, seven others there. */
struct cost {
    double share;                       /* of the bytes that the air could have carried */
    uint64_t frames_n, data_n;
};

static struct cost pull_once(float loss, uint32_t run)
{
    struct radio_world *r = radio_world_new(8, MODEL_N, loss);
    struct world *w = r->w;
    w->seed += run;
    start_still(w);
    w->nodes[1].trains = true;
    w->nodes[1].progress.lr = 0.0f;
    uint64_t began_us = w->now_us, frames_n = r->medium.messages_n;
    world_until(w, is_pulled, 60000000);
    const struct cost c = {
        .share = MODEL_N * 4.0 / radio_capacity_bytes(w->now_us - began_us),
        .frames_n = r->medium.messages_n - frames_n,
        .data_n = FRAMES + world_counters(w, 1).chunks_again};
    printf("loss %.2f: %.3f of the air, %u frames in %.2f s\n", (double)loss, c.share,
           (unsigned)c.frames_n, (double)(w->now_us - began_us) / 1e6);
    world_run(w, 20000);
    for (uint32_t k = 0; k < MODEL_N; k++) {
        assert_true(w->nodes[1].x[k] != 2.0f);      /* every element was mixed with a peer's */
    }
    radio_world_free(r);
    return c;
}

static void test_a_pull_takes_little_more_than_its_bytes(void **state)
{
    (void)state;
    struct cost clear = pull_once(0.0f, 0);
    uint64_t lossy_n = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        lossy_n += pull_once(0.2f, run).frames_n;
    }
    assert_true(clear.share >= 0.77);
    assert_true((double)lossy_n / RUNS <= 1.33 * (double)clear.frames_n);
    (void)pull_once(0.4f, 0);
}

/* Four of eight pull all the time. Of what is served, what comes of it, and how fast. */
struct flow {
    double served, bytes_per_s;         /* of each byte that is mixed; of all four */
};

static struct flow pull_at_once(float loss, uint32_t runs)
{
    uint64_t served = 0, pulled = 0;
    for (uint32_t run = 0; run < runs; run++) {
        struct radio_world *r = radio_world_new(8, MODEL_N, loss);
        struct world *w = r->w;
        w->seed += run;
        start_still(w);
        for (uint32_t i = 0; i < 4; i++) {
            w->nodes[i].trains = true;
            w->nodes[i].progress.lr = 0.0f;
            w->nodes[i].train_at_us = w->now_us;
        }
        world_run(w, 30000000);
        for (uint32_t i = 0; i < w->n; i++) {
            served += world_counters(w, i).served_bytes;
            pulled += world_counters(w, i).pulled_bytes;
        }
        radio_world_free(r);
    }
    const struct flow f = {(double)served / (double)pulled, (double)pulled / 30.0 / runs};
    printf("four pull at once, loss %.2f: %.4f bytes served for one that is mixed, %.0f a second\n",
           (double)loss, f.served, f.bytes_per_s);
    return f;
}

/* Who waits for its turn on the air, or at a peer whom others ask as well, has lost nothing, and
 * what is lost is soon asked for again. The air carries 23496 bytes of parameters a second. */
static void test_pulls_that_share_the_air_send_little_twice(void **state)
{
    (void)state;
    struct flow clear = pull_at_once(0.0f, 3), lossy = pull_at_once(0.05f, 3);
    assert_true(clear.served <= 1.005 && clear.bytes_per_s >= 22900.0);
    assert_true(lossy.served <= 1.065 && lossy.bytes_per_s >= 21600.0);
}

static bool all_averaged(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        struct uw_node_counters c = world_counters(w, i);
        if (c.averages_done + c.averages_cut == 0 || w->nodes[i].rounds == 0) {
            return false;
        }
    }
    return true;
}

static void stop_after_a_round(struct world_node *n, int flags)
{
    n->trains = (flags & UW_NODE_ROUND) == 0;
}

/* What one turn of eight nodes made of 1 .. 8. */
struct turn {
    double ratio;                       /* its airtime to that of eight models sent once */
    double data;                        /* parameters that were sent, to those of eight models */
    bool exact;
    float low, high;                    /* of all elements */
    double means[8];                    /* of each node's */
};

static void look(struct world *w, struct turn *t)
{
    t->exact = true;
    t->data = 0.0;
    t->low = FLT_MAX;
    t->high = -FLT_MAX;
    for (uint32_t i = 0; i < w->n; i++) {
        t->exact = t->exact && world_counters(w, i).averages_cut == 0;
        t->means[i] = 0.0;
        t->data += (double)world_counters(w, i).served_bytes / (8.0 * 4.0 * MODEL_N);
        for (uint32_t k = 0; k < MODEL_N; k++) {
            t->low = fminf(t->low, w->nodes[i].x[k]);
            t->high = fmaxf(t->high, w->nodes[i].x[k]);
            t->means[i] += (double)w->nodes[i].x[k] / MODEL_N;
        }
    }
}

static struct turn average_once(float loss)
{
    struct radio_world *r = radio_world_new(8, MODEL_N, loss);
    struct world *w = r->w;
    w->config.mode = UW_NODE_BROADCAST;
    start_still(w);
    uint64_t began_us = w->now_us, busy_us = r->medium.busy_us, frames_n = r->medium.messages_n;
    for (uint32_t i = 0; i < w->n; i++) {
        w->nodes[i].trains = true;
        w->nodes[i].progress.lr = 0.0f;
        w->nodes[i].after = stop_after_a_round;
        w->nodes[i].train_at_us = w->now_us;
    }
    world_until(w, all_averaged, 120000000);
    double frame_us = (RADIO_FRAME_BYTES + RADIO_PHY_BYTES) * 8e6 / RADIO_BITS_PER_S;
    struct turn t = {.ratio = (double)(r->medium.busy_us - busy_us) / (8.0 * FRAMES * frame_us)};
    look(w, &t);
    printf("broadcast, loss %.2f: %.4f of eight models sent, %.3f of their air, %u frames in "
           "%.2f s, busy %.3f, %s, %.7f .. %.7f\n",
           (double)loss, t.data, t.ratio, (unsigned)(r->medium.messages_n - frames_n),
           (double)(w->now_us - began_us) / 1e6,
           (double)(r->medium.busy_us - busy_us) / (double)(w->now_us - began_us),
           t.exact ? "exact" : "not all", (double)t.low, (double)t.high);
    radio_world_free(r);
    return t;
}

#define MEMBERSHIP (1.0 / 64.0)     /* of the air, of all */
#define ROUNDING (4.0f * FLT_EPSILON * 4.5f)

static void test_a_broadcast_average_costs_a_model_a_node(void **state)
{
    (void)state;
    struct turn t = average_once(0.0f);
    /* a frame of each may come twice */
    assert_true(t.exact && t.ratio >= 1.0 && t.ratio <= 1.0 + MEMBERSHIP + 1.0 / FRAMES);
    assert_true(t.data <= 1.0 + 1.0 / FRAMES);
    assert_true(t.high - t.low <= ROUNDING);
    /* Until 7 others have a frame it goes out sum over k of 1 - (1 - 0.02^k)^7 = 1.135 times, give
     * or take 3 * 0.0065 for 3200 of them. Each asks each other for each 64 frames, 8 * 7 * 7 times
     * 1.73 ms: 0.050. */
    t = average_once(0.02f);
    assert_true(t.exact && t.ratio >= 1.115 && t.ratio <= 1.155 + 0.050 + MEMBERSHIP * 1.2);
    assert_true(t.high - t.low <= ROUNDING);
}

/* By the same sum 2.11 and 3.33 times; questions and what is sent in vain come on top. Repairs end
 * at three times the pass: a parameter that lacks one chunk, with the node's own in place of
 * it, is off by 7/8 at most. Hardly any is. */
static void test_a_broadcast_average_that_loses_much_is_exact_as_well(void **state)
{
    (void)state;
    struct turn t = average_once(0.2f);
    assert_true(t.exact && t.ratio >= 2.0 && t.ratio <= 2.4);
    assert_true(t.high - t.low <= ROUNDING);
    t = average_once(0.4f);
    assert_true(t.ratio >= 3.0 && t.ratio <= 4.2);
    assert_true(t.high <= 4.5f + 0.875f + ROUNDING && t.low >= 4.5f - 0.875f - ROUNDING);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(fabs(t.means[i] - 4.5) <= 0.875 * 4.0 / FRAMES);
    }
}

/* One of them starts late, and steps are the longer part of a round: all come into step. */
static void test_broadcast_averages_come_into_step(void **state)
{
    (void)state;
    struct radio_world *r = radio_world_new(4, 1000, 0.0f);
    struct world *w = r->w;
    w->config.mode = UW_NODE_BROADCAST;
    w->config.period_steps = 200;
    w->train_us = 20000;
    w->nodes[2].trains = false;
    world_start(w);
    world_run(w, 9700000);
    w->nodes[2].trains = true;
    w->nodes[2].train_at_us = w->now_us;
    world_run(w, 20000000);
    uint32_t done = 0, cut = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        done -= world_counters(w, i).averages_done;
        cut -= world_counters(w, i).averages_cut;
    }
    world_run(w, 100000000);
    for (uint32_t i = 0; i < w->n; i++) {
        done += world_counters(w, i).averages_done;
        cut += world_counters(w, i).averages_cut;
    }
    printf("%u exact averages, %u not\n", (unsigned)done, (unsigned)cut);
    assert_true(done >= 80 && cut * 10 < done);
    radio_world_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast_averages_come_into_step),
        cmocka_unit_test(test_a_broadcast_average_costs_a_model_a_node),
        cmocka_unit_test(test_a_broadcast_average_that_loses_much_is_exact_as_well),
        cmocka_unit_test(test_pulls_that_share_the_air_send_little_twice),
        cmocka_unit_test(test_a_pull_takes_little_more_than_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
