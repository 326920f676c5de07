/* SPDX-License-Identifier: Apache-2.0
 *
 * What membership costs and how soon it notices, in worlds of many nodes that know each other and
 * exchange nothing else. */
#include "even_fleet.h"
#include "test_support.h"

#include "uwasa/sim_world.h"

#define SECOND 1000000u
#define NODES_MAX 72u
#define VICTIM 3u
#define RATE 4096u                      /* bytes a second that a node spends at most, the default */
#define THIN_BITS 9600u
#define THIN_RATE (THIN_BITS / 8u / 16u)

struct crowd {
    struct uw_sim_fleet fleet;
    struct uw_sim_absence absence;
    struct uw_params params;
    struct uw_world world;
    uint32_t nodes_n;
    uint32_t steps_n[NODES_MAX];
    uint64_t suspected_us[NODES_MAX];   /* when each node last began to suspect the victim; 0 */
    uint32_t suspicions_n;              /* of whomever, in all */
};

struct crowd_config {
    uint32_t nodes_n;
    uint32_t thin_n;                    /* nodes from VICTIM on that have a thin link */
    uint32_t away_s;                    /* the victim falls silent so long after the meeting; 0 */
    uint32_t rate;                      /* membership_rate */
};

static float x[4];
static struct uw_segment segment = {.name = "w", .size_n = 4};

static void on_event(void *arg, uint32_t place, const struct uw_node_event *event)
{
    struct crowd *c = arg;
    if (event->kind == UW_NODE_SUSPECT) {
        c->suspicions_n++;
        c->suspected_us[place] =
            event->station == VICTIM ? c->world.now_us : c->suspected_us[place];
    }
}

static void set_up(struct crowd *c, const struct crowd_config *config)
{
    const struct even_fleet even = {.devices_n = config->nodes_n, .up_bits_per_s = 10000000,
                                    .latency_us = 20000, .step_us = SECOND};
    struct uw_error err = {.text = ""};
    memset(c, 0, sizeof *c);
    c->nodes_n = config->nodes_n;
    even_fleet_open(&c->fleet, &even);
    for (uint32_t i = 0; i < config->thin_n; i++) {
        struct uw_sim_device *d = &c->fleet.devices[(VICTIM + i) % config->nodes_n];
        d->up_bits_per_s = d->down_bits_per_s = THIN_BITS;
    }
    if (config->away_s != 0) {
        c->absence = (struct uw_sim_absence){.from_us = config->away_s * (uint64_t)SECOND,
                                             .to_us = UINT64_MAX / 2u};
        c->fleet.devices[VICTIM].absences = &c->absence;
        c->fleet.devices[VICTIM].absences_n = 1;
    }
    c->params = (struct uw_params){
        .x = x, .size_n = 4, .segments = &segment, .segments_n = 1, .hash = 7};
    const struct uw_world_config world = {
        .fleet = &c->fleet, .params = &c->params, .mtu_bytes = 1232,
        .members_max = config->nodes_n, .on_event = on_event, .event_arg = c,
        .node = {.run = "crowd", .period_steps = 1000000, .membership_rate = config->rate,
                 .seed = uw_test_seed(1)}};
    if (uw_world_open(&c->world, &world, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(uw_world_meet(&c->world, 600u * (uint64_t)SECOND), UW_OK);
}

static void tear_down(struct crowd *c)
{
    uw_world_close(&c->world);
    even_fleet_close(&c->fleet);
}

/* Let so much time pass. */
static void live(struct crowd *c, uint32_t seconds)
{
    uint64_t until_us = c->world.now_us + seconds * (uint64_t)SECOND;
    struct uw_world_node *n;
    while (c->world.now_us < until_us && (n = uw_world_next(&c->world)) != NULL) {
        const struct uw_node_progress p = {.step = ++c->steps_n[n->place], .lr = 0.1f};
        assert_true(uw_world_trained(&c->world, n, &p, 0) >= 0);
    }
}

static struct uw_node_counters counters(const struct crowd *c, uint32_t place)
{
    struct uw_node_counters k;
    (void)uw_node_status(&c->world.nodes[place].node, c->world.now_us, NULL, 0, &k);
    return k;
}

struct load {
    double sent, received;              /* bytes a second, all of it membership */
};

/* Of a node over so many seconds. */
static struct load load_of(struct crowd *c, uint32_t place, uint32_t seconds)
{
    struct uw_node_counters before = counters(c, place);
    live(c, seconds);
    struct uw_node_counters after = counters(c, place);
    assert_int_equal(after.sent_bytes, after.membership_bytes);
    return (struct load){.sent = (double)(after.sent_bytes - before.sent_bytes) / seconds,
                         .received =
                             (double)(after.received_bytes - before.received_bytes) / seconds};
}

/* When the first, and the last, of the others began to suspect the victim; all must. */
static void found(const struct crowd *c, uint32_t away_s, double *first_s, double *last_s)
{
    uint64_t away_us = c->world.start_us + away_s * (uint64_t)SECOND;
    *first_s = 1e9;
    *last_s = 0.0;
    for (uint32_t i = 0; i < c->nodes_n; i++) {
        if (i != VICTIM) {
            assert_true(c->suspected_us[i] > away_us);
            double after_s = (double)(c->suspected_us[i] - away_us) / SECOND;
            *first_s = after_s < *first_s ? after_s : *first_s;
            *last_s = after_s > *last_s ? after_s : *last_s;
        }
    }
}

/* Emulated, 24 nodes: what 72 do depends on no processor, and natively they do it. */
static uint32_t largest(void)
{
    return uw_test_slow() ? NODES_MAX / 3u : NODES_MAX;
}

static void test_what_a_node_spends_does_not_grow_with_its_table(void **state)
{
    (void)state;
    static struct crowd c;
    for (uint32_t n = 8; n <= largest(); n *= 3u) {
        const struct crowd_config config = {.nodes_n = n};
        set_up(&c, &config);
        live(&c, 30);
        struct load load = load_of(&c, 0, 60);
        print_message("%u nodes: %.0f bytes/s sent, %.0f received\n", (unsigned)n, load.sent,
                      load.received);
        assert_true(load.sent < RATE && load.received < 1.25 * RATE);
        assert_int_equal(c.suspicions_n, 0);
        tear_down(&c);
    }
}

static void test_the_configured_rate_is_kept_to(void **state)
{
    (void)state;
    static struct crowd c;
    const struct crowd_config config = {.nodes_n = 32, .rate = 400};
    set_up(&c, &config);
    live(&c, 60);
    struct load load = load_of(&c, 0, 120);
    print_message("%.0f bytes/s of 400\n", load.sent);
    assert_true(load.sent < 400.0 && load.sent > 200.0);
    tear_down(&c);
}

static void test_silence_is_found_as_soon_in_a_large_table(void **state)
{
    (void)state;
    static struct crowd c;
    for (uint32_t n = 8; n <= largest(); n *= 3u) {
        const struct crowd_config config = {.nodes_n = n, .away_s = 60};
        double first_s, last_s;
        set_up(&c, &config);
        live(&c, 90);
        found(&c, config.away_s, &first_s, &last_s);
        print_message("%u nodes: first after %.1f s, last after %.1f s\n", (unsigned)n, first_s,
                      last_s);
        assert_true(first_s < 3.0 && last_s < 8.0);
        tear_down(&c);
    }
}

/* One among many that could drown it: what they send to it is bounded by what it can bear. */
static void test_a_thin_link_among_fast_ones_is_not_drowned(void **state)
{
    (void)state;
    static struct crowd c;
    const struct crowd_config config = {.nodes_n = 64, .thin_n = 1, .away_s = 500};
    double first_s, last_s;
    set_up(&c, &config);
    live(&c, 200);
    c.suspicions_n = 0;
    memset(c.suspected_us, 0, sizeof c.suspected_us);
    struct load load = load_of(&c, VICTIM, 290);
    print_message("%.0f bytes/s sent, %.0f received, of a link of %u\n", load.sent, load.received,
                  THIN_BITS / 8u);
    assert_true(load.sent < THIN_RATE && load.received < 1.25 * THIN_RATE);
    assert_int_equal(c.suspicions_n, 0);
    live(&c, 110);
    found(&c, config.away_s, &first_s, &last_s);
    print_message("silent: first after %.1f s, last after %.1f s\n", first_s, last_s);
    assert_true(first_s < 20.0 && last_s < 70.0);
    tear_down(&c);
}

static void test_thin_links_spend_a_small_share_and_still_find_silence(void **state)
{
    (void)state;
    static struct crowd c;
    const struct crowd_config config = {.nodes_n = 16, .thin_n = 16, .away_s = 400};
    double first_s, last_s;
    set_up(&c, &config);
    live(&c, 90);
    struct load load = load_of(&c, VICTIM, 300);
    print_message("%.0f bytes/s sent of a link of %u\n", load.sent, THIN_BITS / 8u);
    assert_true(load.sent < THIN_RATE && load.received < 1.25 * THIN_RATE);
    assert_int_equal(c.suspicions_n, 0);
    live(&c, 70);
    found(&c, config.away_s, &first_s, &last_s);
    print_message("silent: first after %.1f s, last after %.1f s\n", first_s, last_s);
    assert_true(first_s < 20.0 && last_s < 40.0);
    tear_down(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_node_spends_does_not_grow_with_its_table),
        cmocka_unit_test(test_the_configured_rate_is_kept_to),
        cmocka_unit_test(test_silence_is_found_as_soon_in_a_large_table),
        cmocka_unit_test(test_a_thin_link_among_fast_ones_is_not_drowned),
        cmocka_unit_test(test_thin_links_spend_a_small_share_and_still_find_silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
