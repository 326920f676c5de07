/* SPDX-License-Identifier: Apache-2.0
 *
 * Static members. A member that does not answer a pull becomes suspect, and is retried after a
 * back-off: its address is resolved again, and its secure session restarted.
 *
 *     unknown --resolved--> alive --silent in a pull--> suspect --after a while--> alive */
#include "membership_priv.h"

#include <string.h>

#define LOOKUP_US 50000u
#define RETRY_FIRST_US 2000000u     /* back-off, doubled each time, ... */
#define RETRIES_DOUBLED 5u          /* ... at most so often */
#define ROUNDS_TAKEN 2u             /* assumed progress, because members report none */

static void set_state(struct uw_membership *m, struct uw_member *it, enum uw_member_state state)
{
    m->states_n[it->state]--;
    m->states_n[state]++;
    it->state = (uint8_t)state;
}

int uw_member_list_place(struct uw_membership *m, struct uw_arena *arena,
                         const struct uw_membership_config *config)
{
    int rc = uw_membership_place_table(m, arena, config);
    for (uint32_t i = 0; rc == UW_OK && m->members != NULL && i < config->seeds_n &&
                         m->members_n < config->members_max; i++) {
        if (strcmp(config->seeds[i], m->members[0].address) == 0) {
            continue;               /* one list may serve all nodes */
        }
        struct uw_member *it = &m->members[m->members_n++];
        uw_copy_text(it->name, config->seeds[i], sizeof it->name);
        uw_copy_text(it->address, config->seeds[i], m->address_bytes);
        it->id = uw_name_id(config->seeds[i]);
        it->same_model = true;
        it->progress.version = 1;
        it->progress.rounds = ROUNDS_TAKEN;
        m->states_n[UW_MEMBER_UNKNOWN]++;
    }
    return rc;
}

static void look_up(struct uw_membership *m, struct uw_member *it)
{
    struct uw_link *l = m->config.link;
    uint16_t station;
    int rc = uw_link_resolve(l, it->address, &station);
    const struct uw_member *there = rc == UW_OK ? uw_membership_at(m, station) : NULL;
    if (rc == UW_OK && (there == NULL || there == it)) {
        uw_membership_set_station(m, it, station);
        (void)uw_link_hold(l, station, true);
        set_state(m, it, UW_MEMBER_ALIVE);
        return;
    }
    it->next_us = m->now_us + (rc == UW_ERR_AGAIN ? LOOKUP_US : RETRY_FIRST_US);
    if (rc != UW_OK && rc != UW_ERR_AGAIN && it->asked_us == 0) {
        it->asked_us = m->now_us;
        uw_membership_changed(m, UW_NODE_SEED_FAILED, it, 0);
    }
}

void uw_member_list_step(struct uw_membership *m, uint64_t now_us)
{
    m->now_us = now_us;
    for (uint32_t i = 1; i < m->members_n; i++) {
        struct uw_member *it = &m->members[i];
        if (it->state != UW_MEMBER_ALIVE && now_us >= it->next_us) {
            look_up(m, it);
        }
    }
}

uint64_t uw_member_list_next_us(const struct uw_membership *m)
{
    uint64_t us = UINT64_MAX;
    for (uint32_t i = 1; i < m->members_n; i++) {
        const struct uw_member *it = &m->members[i];
        us = it->state != UW_MEMBER_ALIVE ? uw_min_u64(us, it->next_us) : us;
    }
    return us;
}

struct uw_member *uw_member_list_heard(struct uw_membership *m, uint16_t station, uint64_t now_us)
{
    struct uw_member *it = uw_membership_at(m, station);
    if (it == NULL) {
        return NULL;
    }
    bool is_new = it->heard_us == 0, back = it->tries != 0;
    uint64_t silent_us = now_us - it->heard_us;
    it->heard_us = now_us;
    it->tries = 0;
    set_state(m, it, UW_MEMBER_ALIVE);
    if (is_new || back) {
        uw_membership_changed(m, is_new ? UW_NODE_ALIVE : UW_NODE_REJOINED, it,
                              is_new ? 0 : silent_us);
    }
    return it;
}

void uw_member_list_doubt(struct uw_membership *m, struct uw_member *it, uint64_t now_us)
{
    if (it->state != UW_MEMBER_ALIVE) {
        return;
    }
    set_state(m, it, UW_MEMBER_SUSPECT);
    it->next_us = now_us + ((uint64_t)RETRY_FIRST_US << it->tries);
    uw_link_forget(m->config.link, it->station);
    if (it->tries++ == 0 && it->heard_us != 0) {
        uw_membership_changed(m, UW_NODE_SUSPECT, it, now_us - it->heard_us);
    }
    it->tries = (uint8_t)uw_min_u32(it->tries, RETRIES_DOUBLED);
}
