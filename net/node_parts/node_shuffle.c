/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bits.h"
#include "node/node_pull.h"

#define LEASE_DEFAULT_US 30000000u

static bool can_borrow(const struct uw_member *m)
{
    return m->state == UW_MEMBER_ALIVE && m->progress.shuffles &&
           m->station != UW_LINK_STATION_NONE;
}

/* The identity of the member that the schedule picks of those that lend samples. */
static uint32_t pick(void *arg, uint32_t round)
{
    struct uw_node_state *s = arg;
    struct uw_node_candidates *c = &s->candidates;
    c->n = 0;
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        if (i == 0 || can_borrow(&s->membership.members[i])) {
            c->usable[uw_node_list(s, i)] = i != 0;
        }
    }
    float none;
    c->weighted = false;
    uint32_t at = c->n < 2u ? 0 : uw_node_pick_listed(s, s->samples->schedule, round, &none);
    return at != 0 ? s->membership.members[at].id : 0;
}

static void send(void *arg, uint32_t to, const void *buf, uint32_t bytes)
{
    struct uw_node_state *s = arg;
    const struct uw_member *m = uw_node_member(s, to);
    if (m != NULL && m->station != UW_LINK_STATION_NONE &&
        uw_link_send(s->config.link, m->station, buf, bytes) == UW_OK) {
        s->counters.sent_bytes += bytes;
    }
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    struct uw_node_shuffle spare;
    void *memory = NULL;
    int rc = uw_arena_take(arena, sizeof spare, &memory);
    const struct uw_shuffle_config config = {
        .pool = c->samples, .run = s->run,
        .loan_us = c->loan_us != 0 ? c->loan_us : LEASE_DEFAULT_US,
        .seed = uw_rng_mix(c->seed + c->incarnation, ~(uint64_t)uw_name_id(c->name)),
        .buffer = s->buffer, .arg = s,
        .buffer_bytes = uw_min_u32(s->buffer_bytes, UW_NODE_BUFFER_MAX),
        .pick = pick, .send = send};
    struct uw_node_shuffle *samples = memory != NULL ? memory : &spare;
    samples->schedule = &uw_peer_schedule_dissemination;
    s->samples = memory;
    return rc < 0 ? rc : uw_shuffle_place(&samples->leases, arena, &config);
}

static uint64_t step(struct uw_node_state *s)
{
    return uw_shuffle_step(&s->samples->leases, s->outer_us, s->clock_us);
}

static void stop(struct uw_node_state *s)
{
    uw_shuffle_stop(&s->samples->leases);
}

static void message(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    struct uw_shuffle_message m;
    uint32_t run;
    if (uw_shuffle_decode(s->in, bytes, &run, &m) < 0) {
        s->counters.refused_corrupt++;
        return;
    }
    if (run != s->run) {
        s->counters.refused_run++;
        return;
    }
    const struct uw_member *from = uw_membership_heard(&s->membership, station, s->outer_us);
    if (s->samples == NULL || from == NULL) {
        s->counters.unknown_messages++;
        return;
    }
    uw_shuffle_receive(&s->samples->leases, from->id, &m, s->outer_us);
}

const struct uw_node_samples uw_node_samples = {
    .setup = {uw_node_check_wide, place}, .step = step, .message = message, .stop = stop};
