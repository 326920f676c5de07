/* SPDX-License-Identifier: Apache-2.0 */
#include "node_averages.h"

#include "base/bits.h"

#include <stdio.h>
#include <string.h>

#define LOOK_US 500000u
#define HOPS_MAX 8u
#define SLOW_US 10000000u           /* no cell with members whose model takes longer */
#define SHARE 0.1f                  /* cost of an average, of a round's training */
#define DRIFT 0.1f                  /* drift above which nodes' data differ: then */
#define SHARE_DRIFT 1.0f            /* the share grows by this times the excess */
#define SHARE_MAX 1.0f
#define PACE 1.5f                   /* largest ratio of two members' rounds */
#define LEAVE_TIMES 4u              /* hysteresis: a near member stays near up to so many */
#define LEAVE_PACE 3.0f             /* times the limits, and this ratio of rounds */
#define DEAR_TIMES 1.0f             /* an average above this share of training is dear; */
#define DEAR_ROUNDS 8.0f            /* the cell is left when the excess adds up to this, */
#define DEAR_ONCE 2.0f              /* counted up to this at once, for a member's death */
#define HOLD_ROUNDS 32u             /* rounds without new near members then; doubles */
#define HOLD_DOUBLED 6u

/* The name of a found cell is "~" and the identity of one of its nodes; that of a part of it goes
 * on. */
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
    return name[9] == '\0' || name[9] == UW_CELL_DIVIDED;
}

/* ---- measured cost of averages and time of training ---- */

void uw_node_near_asked(struct uw_node_state *s)
{
    struct uw_node_near *f = &s->cell->near;
    if (f->lent_us != 0) {
        f->asked_us += s->now_us - f->lent_us;
        f->lent_us = 0;
        return;
    }
    f->asked_us = s->now_us;
    if (f->back_us != 0) {
        uint32_t us = (uint32_t)uw_min_u64(s->now_us - f->back_us, UINT32_MAX / 8u);
        f->train_us = f->train_us == 0 ? us : (uint32_t)((f->train_us * UINT64_C(3) + us) / 4u);
    }
}

void uw_node_near_lent(struct uw_node_state *s)
{
    s->cell->near.lent_us = s->now_us;
}

static uint64_t hold_us(const struct uw_node_near *f, uint32_t left_n)
{
    return (uint64_t)f->train_us * (HOLD_ROUNDS << left_n);
}

void uw_node_near_back(struct uw_node_state *s, bool averaged)
{
    struct uw_node_near *f = &s->cell->near;
    f->back_us = s->now_us;
    f->lent_us = 0;
    float over = averaged && f->train_us != 0
                     ? (float)(s->now_us - f->asked_us) / (float)f->train_us - DEAR_TIMES
                     : -DEAR_ROUNDS;
    over = over < DEAR_ONCE ? over : DEAR_ONCE;
    f->dear = f->dear + over > 0.0f ? f->dear + over : 0.0f;
    /* After a calm time as long as the last hold, that hold no longer counts. */
    if (averaged && f->left_n != 0 && s->now_us >= f->calm_us) {
        f->left_n--;
        f->calm_us = s->now_us + (f->left_n != 0 ? hold_us(f, f->left_n - 1u) : 0);
    }
}

/* Estimated time of an exact average over all live nodes, if all are like this member: the cost of
 * halving, and a round trip each to gather the ranks and to commit. */
static float average_us(const struct uw_node_state *s, const struct uw_member *m)
{
    uint32_t n = uw_min_u32(uw_membership_alive(&s->membership) + 1u, s->config.ranks_max);
    return 2.0f * (float)s->config.params->size_n / uw_node_peer(s, m)->floats_per_us +
           (float)(uw_log2_up(n) + 2u) * (float)m->srtt_us;
}

/* The share of a round's training that an average may cost, by the mean drift of all nodes. */
static float worth(const struct uw_node_state *s)
{
    float sum = uw_average_drift(&s->cell->average);
    uint32_t n = 1;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        float drift = m->averaging->drift;
        bool counts = m->state == UW_MEMBER_ALIVE && m->same_model && drift != 0.0f &&
                      drift >= -UW_DRIFT_MAX && drift <= UW_DRIFT_MAX;
        sum += counts ? drift : 0.0f;
        n += counts ? 1u : 0u;
    }
    float share = SHARE + SHARE_DRIFT * (sum / (float)n - DRIFT);
    return share > SHARE_MAX ? SHARE_MAX : share > SHARE ? share : SHARE;
}

static bool keeps_pace(const struct uw_node_state *s, const struct uw_member *m, float times)
{
    float own = (float)s->cell->near.train_us, its = (float)m->averaging->train_us;
    return own > 0.0f && its > 0.0f && its <= times * own && own <= times * its;
}

static bool is_near(const struct uw_node_state *s, const struct uw_member *m, float share)
{
    const struct uw_node_near *f = &s->cell->near;
    bool near = s->cell->mates[m->place].near;
    uint32_t times = near ? LEAVE_TIMES : 1u;
    float floats_per_us = uw_node_peer(s, m)->floats_per_us;
    bool known = floats_per_us > 0.0f;
    if (m->state != UW_MEMBER_ALIVE || !m->same_model || m->srtt_us == 0 ||
        !keeps_pace(s, m, near ? LEAVE_PACE : PACE) ||
        (known && (float)s->config.params->size_n > floats_per_us * (float)SLOW_US)) {
        return false;
    }
    bool close = m->srtt_us <= (uint64_t)s->config.near_us * times;
    if (!known) {
        return close && (near || !f->wary);
    }
    bool cheap = average_us(s, m) <= (float)times * share * (float)f->train_us;
    return near ? close || cheap : cheap && s->now_us >= f->hold_us;
}

/* Leave the cell if averages cost too much, and then trust only measured rates. */
static void leave_if_dear(struct uw_node_state *s)
{
    struct uw_node_near *f = &s->cell->near;
    if (f->dear < DEAR_ROUNDS) {
        return;
    }
    f->dear = 0.0f;
    f->wary = true;
    f->hold_us = s->now_us + hold_us(f, f->left_n);
    f->calm_us = f->hold_us + hold_us(f, f->left_n);
    f->left_n += f->left_n < HOLD_DOUBLED;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        s->cell->mates[i].near = false;
    }
}

/* ---- near members ---- */

static bool is_alive(struct uw_node_state *s, uint32_t id)
{
    const struct uw_member *m = uw_node_member(s, id);
    return uw_node_own(s, id) || (m != NULL && m->state == UW_MEMBER_ALIVE);
}

uint64_t uw_node_near_step(struct uw_node_state *s)
{
    struct uw_node_near *f = &s->cell->near;
    if (!f->on) {
        return UINT64_MAX;
    }
    if (s->now_us < f->look_us) {
        return f->look_us;
    }
    leave_if_dear(s);
    uint32_t best = s->membership.members[0].id, hops = 0;
    float share = worth(s);
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        uint32_t id;
        bool near = is_near(s, m, share);
        s->cell->mates[i].near = near;
        if (near && found_name(m->averaging->cell, &id) && id < best && is_alive(s, id) &&
            m->averaging->cell_hops < HOPS_MAX) {
            best = id;
            hops = m->averaging->cell_hops + 1u;
        }
    }
    char name[UW_NODE_NAME_BYTES];
    snprintf(name, sizeof name, "~%08lx", (unsigned long)best);
    /* After leaving, a node does not pass on a cell's name, so that names of old cells vanish. */
    f->hops = s->now_us < f->hold_us ? HOPS_MAX : hops;
    if (strcmp(name, s->cell->whole) != 0) {
        strcpy(s->cell->whole, name);
        s->cell->divide_us = 0;     /* which names the cell */
    }
    f->look_us = s->now_us + LOOK_US;
    return f->look_us;
}
