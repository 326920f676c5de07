/* SPDX-License-Identifier: Apache-2.0
 *
 * Many member tables on one radio channel, on virtual time, without nodes above: what beacons take
 * of the air, how soon who is there and who is gone is known. A message takes its time on the
 * air, so much that all who speak at once would show, and each receiver loses it on its own. */
#include "test_support.h"

#include "membership/membership.h"

#include "uwasa/link_loopback.h"

#define SECOND 1000000u
#define NODES_MAX 129u
#define TABLE_MAX 32u
#define MESSAGE_BYTES 80u               /* with all headers */
#define AIR_BYTES_PER_S (250000u / 8u)
#define RATE (AIR_BYTES_PER_S / 64u)    /* what node_bind.c gives to all together */
#define TICK_US 10000u
#define PING_US 700000u

static struct cell {
    struct uw_loopback_hub hub;
    uint8_t *hub_memory;
    struct uw_link_loopback link;       /* for its facts only */
    struct uw_membership m[NODES_MAX];
    uint8_t *memory[NODES_MAX];
    char name[NODES_MAX][8];
    bool up[NODES_MAX];
    uint8_t group[NODES_MAX];           /* bits: who has one in common hears each other */
    uint32_t n;
    float loss;
    struct uw_rng rng;
    uint64_t now_us, bytes;
    uint32_t suspicions_n;
} cell;

static void on_change(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                      uint64_t silent_us)
{
    (void)arg;
    (void)m;
    (void)silent_us;
    cell.suspicions_n += kind == UW_NODE_SUSPECT;
}

static bool may_go(void *arg, const struct uw_member *m)
{
    (void)arg;
    return m->state == UW_MEMBER_ALIVE;
}

static void open_cell(uint32_t n, uint32_t table, float loss)
{
    struct cell *c = &cell;
    memset(c, 0, sizeof *c);
    c->n = n;
    c->loss = loss;
    c->now_us = SECOND;
    uw_rng_seed(&c->rng, uw_test_seed(1));
    struct uw_loopback_config hub = {.endpoints_n = (uint16_t)n, .queue_n = 1, .mtu_bytes = 64};
    hub.memory_bytes = uw_loopback_hub_bytes(&hub);
    hub.memory = c->hub_memory = malloc(hub.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&c->hub, &hub), UW_OK);
    assert_int_equal(uw_link_loopback_init(&c->link, &c->hub, 0), UW_OK);
    c->link.link.shared = true;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(c->name[i], sizeof c->name[i], "n%u", (unsigned)i);
        c->up[i] = true;
        c->group[i] = 1;
        const struct uw_membership_config config = {
            .name = c->name[i], .incarnation = 1, .model = 1, .members_max = table,
            .ping_us = PING_US, .suspect_us = 3u * PING_US, .dead_us = 10u * SECOND,
            .rate_mbytes_per_s = RATE * 1000u, .seed = i + 1u, .link = &c->link.link,
            .changed = on_change, .spares = may_go, .beacons = &uw_beacons};
        struct uw_arena arena;
        uw_arena_init(&arena, NULL, 0);
        assert_int_equal(uw_membership_place(&c->m[i], &arena, &config), UW_OK);
        size_t bytes = arena.used_bytes + uw_arena_slack_bytes();
        c->memory[i] = malloc(bytes);
        uw_arena_init(&arena, c->memory[i], bytes);
        assert_int_equal(uw_membership_place(&c->m[i], &arena, &config), UW_OK);
    }
}

static void close_cell(void)
{
    for (uint32_t i = 0; i < cell.n; i++) {
        free(cell.memory[i]);
    }
    uw_link_deinit(&cell.link.link);
    free(cell.hub_memory);
}

static bool hears(uint32_t to, uint32_t from)
{
    struct cell *c = &cell;
    return to != from && c->up[to] && (c->group[to] & c->group[from]) != 0 &&
           uw_rng_uniform(&c->rng) >= c->loss;
}

/* One message; the answer to a question goes back at once. */
static void say(uint32_t from, uint32_t first, uint32_t end, enum uw_wire_type type, uint32_t seq)
{
    struct cell *c = &cell;
    uwasa_Ping ping = {.model = 1, .seq = seq, .has_self = true, .has_progress = true};
    uw_membership_self(&c->m[from], &ping.self);
    uw_membership_sent(&c->m[from], MESSAGE_BYTES, 0);
    c->bytes += MESSAGE_BYTES;
    for (uint32_t to = first; to < end; to++) {
        struct uw_member *it = NULL;
        if (!hears(to, from)) {
            continue;
        }
        int rc = uw_membership_update(&c->m[to], (uint16_t)from, false, &ping, c->now_us, &it);
        if (type == UW_WIRE_ACK && rc == UW_OK) {
            uw_membership_acked(&c->m[to], it, seq, c->now_us);
        } else if (type != UW_WIRE_ACK && seq != 0) {
            say(to, from, from + 1u, UW_WIRE_ACK, seq);
        }
    }
}

static void live(double seconds)
{
    struct cell *c = &cell;
    uint64_t until_us = c->now_us + (uint64_t)(seconds * SECOND);
    for (; c->now_us < until_us; c->now_us += TICK_US) {
        for (uint32_t i = 0; i < c->n; i++) {
            uint16_t to;
            uint32_t seq;
            int type = 0;
            if (!c->up[i]) {
                continue;
            }
            (void)uw_membership_wake(&c->m[i], c->now_us, c->now_us);
            while ((type = uw_membership_next(&c->m[i], c->now_us, &to, &seq)) != 0) {
                bool all = to == UW_LINK_STATION_BROADCAST;
                say(i, all ? 0 : to, all ? c->n : to + 1u, (enum uw_wire_type)type, seq);
            }
        }
    }
}

/* Members alive of whom there could be in a table, over all nodes: 0 .. 1. */
static double known(uint32_t table)
{
    uint32_t sum = 0, others = cell.n - 1u < table - 1u ? cell.n - 1u : table - 1u;
    for (uint32_t i = 0; i < cell.n; i++) {
        sum += uw_membership_alive(&cell.m[i]);
    }
    return (double)sum / (cell.n * others);
}

/* Bytes a second on the air, of the share that is for all together. */
static double share_over(double seconds)
{
    uint64_t bytes = cell.bytes;
    live(seconds);
    return (double)(cell.bytes - bytes) / seconds / RATE;
}

static double seconds_to_know(uint32_t table, double part, double limit)
{
    uint64_t began_us = cell.now_us;
    while (known(table) < part) {
        live(0.1);
        if ((double)(cell.now_us - began_us) / SECOND > limit) {
            fail_msg("%.3f is known after %.0f s", known(table), limit);
        }
    }
    return (double)(cell.now_us - began_us) / SECOND;
}

static void test_beacons_of_many_keep_to_the_share_of_the_air(void **state)
{
    static const struct {
        uint32_t n, table;
    } sizes[] = {{8, 8}, {8, 32}, {32, 8}, {32, 32}, {128, 8}, {128, 32}};
    double worst = 0.0;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t lossy = 0; lossy < 2; lossy++) {
            open_cell(sizes[i].n, sizes[i].table, lossy != 0 ? 0.2f : 0.0f);
            double met_s = seconds_to_know(sizes[i].table, 0.99, 60.0);
            live(met_s < 10.0 ? 10.0 - met_s : 0.0);
            double first = (double)cell.bytes * SECOND / (double)cell.now_us / AIR_BYTES_PER_S;
            live(120.0);
            cell.suspicions_n = 0;
            double share = share_over(300.0);
            print_message("%3u nodes, tables of %2u, loss %.1f: met in %4.1f s, at first %.3f "
                          "of the air, then %.2f of the share, %u suspicions\n",
                          (unsigned)sizes[i].n, (unsigned)sizes[i].table, (double)cell.loss,
                          met_s, first, share, (unsigned)cell.suspicions_n);
            worst = share > worst ? share : worst;
            assert_true(first < 0.25);
            close_cell();
        }
    }
    assert_true(worst < 1.0);
}

/* When all who had it in their table know that it is silent, and then that it is dead. */
static uint32_t think_alive_n(const char *name)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < cell.n; i++) {
        for (uint32_t k = 1; cell.up[i] && k < cell.m[i].members_n; k++) {
            const struct uw_member *m = &cell.m[i].members[k];
            n += strcmp(m->name, name) == 0 && m->state == UW_MEMBER_ALIVE;
        }
    }
    return n;
}

static void test_who_dies_is_found_and_nobody_else(void **state)
{
    static const uint32_t sizes[] = {8, 32, 128};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        open_cell(sizes[i], TABLE_MAX, 0.2f);
        live(200.0);
        cell.up[3] = false;
        uint64_t began_us = cell.now_us;
        while (think_alive_n("n3") != 0) {
            live(0.5);
            assert_true(cell.now_us - began_us < 300u * (uint64_t)SECOND);
        }
        print_message("%3u nodes: found by all after %.1f s, %u suspicions in all\n",
                      (unsigned)sizes[i], (double)(cell.now_us - began_us) / SECOND,
                      (unsigned)cell.suspicions_n);
        assert_true((double)(cell.now_us - began_us) / SECOND < 10.0 + 1.6 * sizes[i]);
        close_cell();
    }
}

/* Two cells, and one node that hears both. Then all hear all. */
static void test_cells_with_one_node_in_both_merge_when_they_hear_each_other(void **state)
{
    (void)state;
    open_cell(17, TABLE_MAX, 0.1f);
    for (uint32_t i = 0; i < 17; i++) {
        cell.group[i] = i < 8 ? 1 : i < 16 ? 2 : 3;
    }
    live(120.0);
    for (uint32_t i = 0; i < 17; i++) {
        assert_int_equal(uw_membership_alive(&cell.m[i]), i < 16 ? 8 : 16);
    }
    cell.suspicions_n = 0;
    double share = share_over(120.0);
    for (uint32_t i = 0; i < 17; i++) {
        cell.group[i] = 1;
    }
    double met_s = seconds_to_know(17, 1.0, 60.0);
    print_message("apart %.2f of the share, %u suspicions; together after %.1f s\n", share,
                  (unsigned)cell.suspicions_n, met_s);
    assert_true(share < 2.0 && met_s < 20.0);
    assert_true(share_over(120.0) < 1.15);
    close_cell();
}

/* One beacons a hundred times a second for a minute. The others live as before, and after. */
static void test_a_flood_of_beacons_slows_nobody_else(void **state)
{
    (void)state;
    open_cell(16, TABLE_MAX, 0.05f);
    live(60.0);
    uint64_t pace_us = uw_membership_pace_us(&cell.m[0]);
    cell.suspicions_n = 0;
    for (uint32_t i = 0; i < 6000; i++) {
        say(15, 0, 15, UW_WIRE_PING, 0);
        live(0.01);
    }
    double grown = (double)uw_membership_pace_us(&cell.m[0]) / (double)pace_us;
    assert_true(grown > 0.7 && grown < 1.4);
    cell.up[3] = false;
    live(30.0);
    assert_int_equal(think_alive_n("n3"), 0);
    assert_true(share_over(120.0) < 1.15);
    for (uint32_t i = 0; i < 15; i++) {
        assert_int_equal(uw_membership_alive(&cell.m[i]), i != 3 ? 14 : 15);
    }
    close_cell();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beacons_of_many_keep_to_the_share_of_the_air),
        cmocka_unit_test(test_who_dies_is_found_and_nobody_else),
        cmocka_unit_test(test_cells_with_one_node_in_both_merge_when_they_hear_each_other),
        cmocka_unit_test(test_a_flood_of_beacons_slows_nobody_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
