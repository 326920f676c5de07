/* SPDX-License-Identifier: Apache-2.0
 *
 * A member table by itself, for its tests. */
#ifndef UWASA_TESTS_MEMBERSHIP_BENCH_H
#define UWASA_TESTS_MEMBERSHIP_BENCH_H

#include "test_support.h"

#include "membership/membership.h"

#include "uwasa/link_loopback.h"

#define SECOND 1000000u

struct bench {
    struct uw_loopback_hub hub;
    struct uw_link_loopback link;
    struct uw_link *real;               /* behind a link with slow names */
    struct uw_membership m;
    _Alignas(16) uint8_t hub_memory[16384];
    uint8_t memory[16384];
    uint32_t events[UW_NODE_EVENTS_N];
};

static inline void on_change(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                      uint64_t silent_us)
{
    struct bench *b = arg;
    (void)m;
    (void)silent_us;
    b->events[kind]++;
}

static inline void set_up(struct bench *b, uint32_t members_max, const char *const *seeds,
                          uint32_t n)
{
    memset(b, 0, sizeof *b);
    struct uw_loopback_config hub = {.memory = b->hub_memory, .endpoints_n = 8, .queue_n = 1,
                                     .memory_bytes = sizeof b->hub_memory};
    assert_int_equal(uw_loopback_hub_init(&b->hub, &hub), UW_OK);
    assert_int_equal(uw_link_loopback_init(&b->link, &b->hub, 0), UW_OK);
    const struct uw_membership_config c = {
        .name = "a", .address = "0", .incarnation = 10, .model = 1, .seeds = seeds, .seeds_n = n,
        .members_max = members_max, .ping_us = SECOND, .suspect_us = 3 * SECOND,
        .dead_us = 10 * SECOND, .rate_mbytes_per_s = 100000000,
        .seed = 1, .link = &b->link.link, .changed = on_change, .windows = &uw_member_windows,
        .arg = b};
    struct uw_arena arena;
    uw_arena_init(&arena, b->memory, sizeof b->memory);
    assert_int_equal(uw_membership_place(&b->m, &arena, &c), UW_OK);
    uw_membership_wake(&b->m, 0, SECOND);
}

static inline int tell(struct bench *b, uint16_t station, const char *name, uint32_t incarnation,
                uint64_t now_us)
{
    uwasa_Ping ping = {.model = 1, .has_self = true};
    strcpy(ping.self.name, name);
    ping.self.incarnation = incarnation;
    return uw_membership_update(&b->m, station, false, &ping, now_us, NULL);
}

/* Run the clock; returns the calls that went to `station`. */
static inline uint32_t run(struct bench *b, uint64_t from_us, uint64_t to_us, uint16_t station)
{
    uint32_t calls = 0;
    for (uint64_t t = from_us; t < to_us; t += SECOND / 20u) {
        uint16_t to;
        uint32_t seq;
        uw_membership_wake(&b->m, uw_membership_next_us(&b->m), t);
        while (uw_membership_next(&b->m, t, &to, &seq) != 0) {
            calls += to == station;
        }
    }
    return calls;
}

#endif
