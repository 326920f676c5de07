/* SPDX-License-Identifier: Apache-2.0 */
#include "node_state.h"

#include <stdio.h>
#include <string.h>

#define LOOK_US 500000u
#define LEAVE_TIMES 4u              /* a neighbour is lost at so many times the limit */
#define HOPS_MAX 8u
#define SLOW_US 10000000u           /* a model that takes longer does not travel within a cell */

/* A cell that was found is named "~" and the identity of one of its nodes. */
static bool found_name(const char *name, uint32_t *id)
{
    *id = 0;
    if (name[0] != '~') {
        return false;
    }
    for (uint32_t i = 1; i <= 8u; i++) {
        char c = name[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
            return false;
        }
        *id = *id << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return name[9] == '\0';
}

static bool is_near(const struct uw_node_state *s, const struct uw_member *m)
{
    uint64_t limit_us = (uint64_t)s->config.near_us * (m->near ? LEAVE_TIMES : 1u);
    bool slow = m->floats_per_us > 0.0f &&
                (float)s->config.params->size_n > m->floats_per_us * (float)SLOW_US;
    return m->state == UW_MEMBER_ALIVE && m->same_model && m->srtt_us != 0 &&
           m->srtt_us <= limit_us && !slow;
}

static bool is_alive(const struct uw_node_state *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (m->id == id) {
            return i == 0 || m->state == UW_MEMBER_ALIVE;
        }
    }
    return false;
}

uint64_t uw_node_near_step(struct uw_node_state *s)
{
    if (!s->cell.finds) {
        return UINT64_MAX;
    }
    if (s->now_us < s->cell.look_us) {
        return s->cell.look_us;
    }
    uint32_t best = s->membership.members[0].id, hops = 0;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        struct uw_member *m = &s->membership.members[i];
        uint32_t id;
        m->near = is_near(s, m);
        if (m->near && found_name(m->progress.cell, &id) && id < best && is_alive(s, id) &&
            m->progress.cell_hops < HOPS_MAX) {
            best = id;
            hops = m->progress.cell_hops + 1u;
        }
    }
    char name[UW_NODE_NAME_BYTES];
    snprintf(name, sizeof name, "~%08lx", (unsigned long)best);
    s->cell.hops = hops;
    if (strcmp(name, s->cell.name) != 0) {
        strcpy(s->cell.name, name);
        uw_node_cell_stale(s);
        uw_membership_hurry(&s->membership, s->now_us);
    }
    s->cell.look_us = s->now_us + LOOK_US;
    return s->cell.look_us;
}
