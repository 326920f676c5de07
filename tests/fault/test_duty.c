/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes on LoRa, where the law leaves each one hundredth of the time, behind secure frames and on
 * virtual time: what of it goes into models, and what happens when there is none of it left. */
#include "fault/radio_world.h"

#define S UINT64_C(1000000)
#define HOUR (3600u * S)
#define STARVED_PPM 300u           /* a frame in minutes */
#define MEMBERS_PARTS 8u           /* of what is sent, membership has one at most */

static struct radio_world *lora(const char *profile, uint32_t n, uint32_t size_n, float loss)
{
    struct radio_world *r = radio_world_of(profile, n, size_n, loss);
    r->w->train_us = 10u * S;
    for (uint32_t i = 0; i < n; i++) {
        r->w->nodes[i].progress.lr = 0.0f;
        r->w->nodes[i].pause_us = 20000;        /* a frame takes 70 ms and more */
    }
    world_start(r->w);
    return r;
}

static bool all_know_all(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (uw_membership_alive(&w->nodes[i].node.state->membership) != w->n - 1u) {
            return false;
        }
    }
    return true;
}

static uint64_t until_all_know_all(struct world *w, uint64_t limit_us)
{
    uint64_t began_us = w->now_us;
    world_until(w, all_know_all, limit_us);
    return w->now_us - began_us;
}

/* Of all nodes together. */
struct sums {
    uint64_t served_bytes, pulled_bytes, members_bytes, sent_bytes, used_us, waits_n;
    uint32_t pulls, cuts;
};

static struct sums sums_of(struct radio_world *r)
{
    struct sums sums = {0};
    for (uint32_t i = 0; i < r->w->n; i++) {
        struct uw_node_counters c = world_counters(r->w, i);
        struct uw_link_frame_air air;
        uw_link_frame_air(&r->links[i].frame, &air);
        sums.served_bytes += c.served_bytes;
        sums.pulled_bytes += c.pulled_bytes;
        sums.members_bytes += c.membership_bytes;
        sums.sent_bytes += c.sent_bytes;
        sums.used_us += air.used_us;
        sums.waits_n += air.waits_n;
        sums.pulls += c.pulls_done;
        sums.cuts += c.pulls_cut;
    }
    return sums;
}

/* Airtime goes into parameters that are mixed: not into beacons, nor into what is not wanted any
 * more. */
static void expect_models(const char *profile, uint32_t n, uint32_t size_n, uint32_t hours)
{
    struct radio_world *r = lora(profile, n, size_n, 0.0f);
    uint64_t met_us = until_all_know_all(r->w, 24u * HOUR);
    world_run(r->w, hours * HOUR);
    struct sums s = sums_of(r);
    double allowed_us = (double)r->w->now_us * (double)r->profile.duty_ppm / 1e6 * (double)n;
    printf("%s, %u nodes, %u floats: all met in %.0f s; of the %.0f s allowed %.2f used, of what "
           "was sent %.3f for members; %u pulls, %.3f of what was served was mixed\n",
           profile, (unsigned)n, (unsigned)size_n, (double)met_us / 1e6, allowed_us / 1e6,
           (double)s.used_us / allowed_us, (double)s.members_bytes / (double)s.sent_bytes,
           (unsigned)s.pulls, (double)s.pulled_bytes / (double)s.served_bytes);
    assert_true((double)s.used_us <= allowed_us);
    assert_true(s.members_bytes <= s.sent_bytes / MEMBERS_PARTS);
    assert_true(s.pulled_bytes >= s.served_bytes / 10u * 8u);
    assert_true(s.pulls >= n);
    radio_world_free(r);
}

static void test_the_budget_goes_into_models(void **state)
{
    (void)state;
    expect_models("lora:SF7", 4, 2000, 3);
    expect_models("lora:SF7", 8, 200, 1);
    expect_models("lora:SF12", 3, 60, 6);
}

/* So long as it takes until each node has made two pulls more. */
static uint64_t until_pulled(struct world *w, uint64_t limit_us)
{
    uint32_t pulls[WORLD_MAX];
    uint64_t began_us = w->now_us;
    for (uint32_t i = 0; i < w->n; i++) {
        pulls[i] = world_counters(w, i).pulls_done + 2u;
    }
    for (uint32_t i = 0; i < w->n; i++) {
        while (world_counters(w, i).pulls_done < pulls[i]) {
            if (w->now_us - began_us > limit_us) {
                fail_msg("node %u: no two pulls within %.0f s", (unsigned)i,
                         (double)limit_us / 1e6);
            }
            world_run(w, S);
        }
    }
    return w->now_us - began_us;
}

static void set_duty(struct radio_world *r, uint32_t i, uint32_t duty_ppm)
{
    r->links[i].radio.base.duty_ppm = duty_ppm;
}

/* In the middle of pulls there is no budget any more: of one node, of all. */
static void test_an_hour_without_budget_ends_nothing(void **state)
{
    (void)state;
    struct radio_world *r = lora("lora:SF7", 4, 400, 0.05f);
    struct world *w = r->w;
    (void)until_all_know_all(w, HOUR);
    (void)until_pulled(w, HOUR);
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < w->n; i++) {
            set_duty(r, i, k == 2 || i == k ? STARVED_PPM : r->profile.duty_ppm);
        }
        struct sums before = sums_of(r);
        world_run(w, HOUR);
        struct sums after = sums_of(r);
        assert_true(after.waits_n > before.waits_n);
        assert_true(k != 2 || after.used_us - before.used_us <= 4u * STARVED_PPM * 3600u);
        for (uint32_t i = 0; i < w->n; i++) {
            set_duty(r, i, r->profile.duty_ppm);
        }
        uint64_t met_us = until_all_know_all(w, HOUR), pulled_us = until_pulled(w, 2u * HOUR);
        printf("%s without budget for an hour: all met after %.0f s, two pulls each after %.0f s\n",
               k == 2 ? "all" : "one", (double)met_us / 1e6, (double)pulled_us / 1e6);
    }
    radio_world_free(r);
}

/* It says hello to three who may not send for ten minutes: their answers come afterwards. */
static void test_who_starts_while_nobody_may_send_is_answered_later(void **state)
{
    (void)state;
    struct radio_world *r = lora("lora:SF7", 4, 400, 0.0f);
    struct world *w = r->w;
    (void)until_all_know_all(w, HOUR);
    world_down(w, 0);
    for (uint32_t i = 1; i < w->n; i++) {
        set_duty(r, i, STARVED_PPM);
    }
    world_run(w, 60u * S);
    world_up(w, 0);
    world_run(w, 600u * S);
    for (uint32_t i = 1; i < w->n; i++) {
        set_duty(r, i, r->profile.duty_ppm);
    }
    uint64_t met_us = until_all_know_all(w, HOUR);
    printf("all met %.0f s after they might send\n", (double)met_us / 1e6);
    (void)until_pulled(w, 2u * HOUR);
    radio_world_free(r);
}

static void set_frames(struct radio_world *r, uint32_t frame_bytes)
{
    for (uint32_t i = 0; i < r->w->n; i++) {
        r->links[i].radio.base.frame_bytes = frame_bytes;
    }
}

/* What a pull may take, and what membership may cost, is of the rate there is, not of the one that
 * there was at the start. Each may send for a tenth of the time: all is done ten times sooner. */
static void expect_pulls_after(const char *before, const char *after, uint32_t frame_bytes)
{
    struct radio_world *r = lora(before, 2, 82, 0.0f);
    set_duty(r, 0, 100000);
    set_duty(r, 1, 100000);
    set_frames(r, frame_bytes);
    world_run(r->w, 600u * S);
    struct sums first = sums_of(r);
    radio_adapt(r, after);
    world_run(r->w, 7200u * S);
    struct sums last = sums_of(r);
    printf("%s, frames of %u: %u pulls, %u cut; then %s: %u pulls, %u cut\n", before,
           (unsigned)frame_bytes, (unsigned)first.pulls, (unsigned)first.cuts, after,
           (unsigned)(last.pulls - first.pulls), (unsigned)(last.cuts - first.cuts));
    assert_true(first.pulls >= 20u);
    assert_true(last.pulls >= first.pulls + 10u);
    assert_true(last.cuts <= first.cuts + 4u);      /* those that were under way, one more */
    radio_world_free(r);
}

static void test_pulls_go_on_where_the_data_rate_has_dropped(void **state)
{
    (void)state;
    expect_pulls_after("lora:SF7", "lora:SF12", 222);
    expect_pulls_after("lora:SF7", "lora:SF12", 51);
}

/* Of another one's rate this node only learns that pulls take longer. */
static void test_pulls_go_on_where_the_rate_of_one_peer_has_dropped(void **state)
{
    (void)state;
    struct radio_world *r = lora("lora:SF7", 2, 82, 0.0f);
    set_duty(r, 0, 100000);
    set_duty(r, 1, 100000);
    world_run(r->w, 1200u * S);
    set_duty(r, 1, 5000);
    world_run(r->w, 5400u * S);
    uint32_t pulls = world_counters(r->w, 0).pulls_done;
    world_run(r->w, 5400u * S);
    pulls = world_counters(r->w, 0).pulls_done - pulls;
    printf("from one with a twentieth of the rate: %u pulls in 5400 s\n", (unsigned)pulls);
    assert_true(pulls >= 15u);
    radio_world_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pulls_go_on_where_the_data_rate_has_dropped),
        cmocka_unit_test(test_pulls_go_on_where_the_rate_of_one_peer_has_dropped),
        cmocka_unit_test(test_the_budget_goes_into_models),
        cmocka_unit_test(test_an_hour_without_budget_ends_nothing),
        cmocka_unit_test(test_who_starts_while_nobody_may_send_is_answered_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
