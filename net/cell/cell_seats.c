/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a cell as their head knows them: ready, missing, progress; and the log of rounds.
 * These functions neither send nor decide. */
#include "cell_priv.h"

#include "base/backoff.h"
#include "base/bits.h"

#define READY_FRESH_US 400000u      /* a node that repeats READY no more may be gone */
#define STALL_MIN_US 100000u        /* a round usually takes longer than its longest pause */
#define STALL_MAX_US 2000000u
#define SILENT_MIN_US 200000u       /* several polls */
#define POLL_MIN_US 50000u
#define POLL_MAX_US 200000u

static const struct uw_cell_member *find(const struct uw_cell *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->members_n; i++) {
        if (c->members[i].id == id) {
            return &c->members[i];
        }
    }
    return NULL;
}

bool uw_cell_reaches(const struct uw_cell *c, uint32_t id)
{
    const struct uw_cell_member *m = find(c, id);
    return id == c->config.self || (m != NULL && m->usable);
}

bool uw_cell_shares_head(const struct uw_cell *c, uint32_t id)
{
    const struct uw_cell_member *m = find(c, id);
    return id == c->head || (m != NULL && (m->head == UW_CELL_NOBODY || m->head == c->head));
}

/* Does a node lead, or follow one that this node can follow, too? */
static bool leads(const struct uw_cell *c, const struct uw_cell_member *m)
{
    return m->head == UW_CELL_NOBODY || m->head == m->id || uw_cell_reaches(c, m->head);
}

uint32_t uw_cell_best(const struct uw_cell *c, bool ranks, uint32_t not)
{
    const struct uw_cell_member *best = NULL;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_member *m = &c->members[i];
        bool better = best == NULL || m->deaf < best->deaf ||
                      (m->deaf == best->deaf && m->weight > best->weight);
        bool may = ranks ? uw_cell_ranks(c, m->id) : leads(c, m);
        if (m->id != not && uw_cell_reaches(c, m->id) && may && better) {
            best = m;
        }
    }
    return best != NULL ? best->id : UW_CELL_NOBODY;
}

struct uw_cell_seat *uw_cell_seat(struct uw_cell *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        if (c->h.seats[i].id == id) {
            return &c->h.seats[i];
        }
    }
    return NULL;
}

struct uw_cell_seat *uw_cell_seat_of(struct uw_cell *c, uint32_t id)
{
    struct uw_cell_seat *seat = uw_cell_seat(c, id);
    for (uint32_t i = 0; seat == NULL && i < c->h.seats_n; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        seat = !s->ready && !s->ranked && !uw_cell_reaches(c, s->id) ? s : NULL;
    }
    if (seat == NULL && c->h.seats_n < c->config.ranks_max) {
        seat = &c->h.seats[c->h.seats_n++];
        seat->id = UW_CELL_NOBODY;
    }
    if (seat != NULL && seat->id != id) {
        *seat = (struct uw_cell_seat){.id = id};
        for (uint32_t i = 0; i < c->h.seats_n; i++) {
            uw_set_remove(c->h.seats[i].deaf, (uint32_t)(seat - c->h.seats));
        }
    }
    return seat;
}

/* Can it be waited for: can it be reached, and does it not follow another head? */
static bool may_come(const struct uw_cell *c, uint32_t id)
{
    const struct uw_cell_member *m = find(c, id);
    return id == c->config.self || (m != NULL && m->usable && (m->head == UW_CELL_NOBODY ||
                                                               m->head == c->config.self));
}

bool uw_cell_can_take_part(const struct uw_cell *c, const struct uw_cell_seat *s)
{
    return s->ready && uw_cell_reaches(c, s->id) && c->now_us >= s->avoid_until_us &&
           c->now_us - s->ready_us < READY_FRESH_US;
}

/* The next round waits for the ranks of the last one, and for nodes whose turn comes; a head that
 * has seen none learns them from the nodes' READY. */
bool uw_cell_is_expected(const struct uw_cell *c, const struct uw_cell_seat *s)
{
    bool took_part = c->h.committed ? uw_cell_lists(c->h.start.ids, c->h.start.ids_n, s->id)
                                    : s->expected;
    bool turn = s->left_out != 0 && !c->config.lasting;
    return (took_part || turn) && !s->away && may_come(c, s->id) && c->now_us >= s->avoid_until_us;
}

struct uw_cell_gathered uw_cell_gather(const struct uw_cell *c)
{
    struct uw_cell_gathered g = {.since_us = UINT64_MAX};
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        g.expected_n += uw_cell_is_expected(c, &c->h.seats[i]);
    }
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        bool expected = uw_cell_is_expected(c, s), ready = uw_cell_can_take_part(c, s);
        g.ready_n += ready;
        g.late_n += expected && !ready;
        if (ready && (expected || g.expected_n == 0) && s->since_us < g.since_us) {
            g.since_us = s->since_us;
        }
    }
    return g;
}

/* Is it a node without a seat when none is left? Rounds do not wait for it. */
static bool has_no_place(const struct uw_cell *c, const struct uw_cell_seat *s)
{
    return s == NULL && c->h.seats_n == c->config.ranks_max;
}

bool uw_cell_lacks_anybody(struct uw_cell *c)
{
    bool lacks = false;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_seat *s = uw_cell_seat(c, c->members[i].id);
        lacks = lacks || (may_come(c, c->members[i].id) && !has_no_place(c, s) &&
                          (s == NULL || (!s->ready && c->now_us >= s->avoid_until_us)));
    }
    return lacks;
}

bool uw_cell_lacks_one(struct uw_cell *c)
{
    bool lacks = false;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_seat *s = uw_cell_seat(c, c->members[i].id);
        lacks = lacks || (!has_no_place(c, s) && (s == NULL || !uw_cell_can_take_part(c, s)));
    }
    return lacks;
}

float uw_cell_median_rms(const struct uw_cell *c)
{
    float rms[UW_CELL_RANKS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        uint32_t k = n;
        if (!uw_cell_can_take_part(c, s)) {
            continue;
        }
        for (; k > 0 && rms[k - 1u] > s->rms; k--) {
            rms[k] = rms[k - 1u];
        }
        rms[k] = s->rms;
        n++;
    }
    return n != 0 ? rms[(n - 1u) / 2u] : 0.0f;
}

/* ---- who does not hear whom ---- */

static bool is_apart(const struct uw_cell *c, const struct uw_cell_seat *a,
                     const struct uw_cell_seat *b)
{
    return uw_set_has(a->deaf, (uint32_t)(b - c->h.seats)) ||
           uw_set_has(b->deaf, (uint32_t)(a - c->h.seats));
}

uint32_t uw_cell_deaf_rank(const struct uw_cell *c, const struct uw_cell_message *start,
                           const struct uw_cell_seat *s)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *other = &c->h.seats[i];
        if (other != s && is_apart(c, s, other) &&
            uw_cell_lists(start->ids, start->ids_n, other->id)) {
            return other->id;
        }
    }
    return UW_CELL_NOBODY;
}

/* The next seat to be listed: this node's, then whom most rounds have left out. NULL: none. */
static const struct uw_cell_seat *next_rank(const struct uw_cell *c,
                                            const struct uw_cell_message *m)
{
    const struct uw_cell_seat *best = NULL;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        if (!uw_cell_can_take_part(c, s) || uw_cell_lists(m->ids, m->ids_n, s->id) ||
            uw_cell_deaf_rank(c, m, s) != UW_CELL_NOBODY) {
            continue;
        }
        bool own = s->id == c->config.self;
        if (best == NULL || own || (best->id != c->config.self && s->left_out > best->left_out)) {
            best = s;
        }
    }
    return best;
}

void uw_cell_list_ranks(struct uw_cell *c, struct uw_cell_message *m)
{
    for (const struct uw_cell_seat *s; (s = next_rank(c, m)) != NULL;) {
        m->stream_n = m->ids_n == 0 ? s->stream_n : uw_min_u32(m->stream_n, s->stream_n);
        if (s->chunk_n != 0) {
            m->chunk_n = m->chunk_n == 0 ? s->chunk_n : uw_min_u32(m->chunk_n, s->chunk_n);
        }
        uw_insert_u32(m->ids, m->ids_n++, s->id);
    }
}

uint32_t uw_cell_culprit(struct uw_cell *c, uint32_t *waits, uint32_t *arrived)
{
    struct uw_cell_seat *last = NULL;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        if (s->ranked && s->status == UW_CELL_RUNNING && (last == NULL || s->step < last->step)) {
            last = s;
        }
    }
    *waits = last != NULL ? last->id : UW_CELL_NOBODY;
    *arrived = last != NULL ? last->step & UINT16_MAX : 0;
    return last != NULL ? last->waits_for : UW_CELL_NOBODY;
}

struct uw_cell_tally uw_cell_count(const struct uw_cell *c)
{
    const struct uw_cell_head *h = &c->h;
    struct uw_cell_tally t = {.aborter = UW_CELL_NOBODY, .gone = UW_CELL_NOBODY,
                      .silent = UW_CELL_NOBODY};
    for (uint32_t i = 0; i < h->seats_n; i++) {
        const struct uw_cell_seat *s = &h->seats[i];
        if (!s->ranked) {
            continue;
        }
        bool reached = uw_cell_reaches(c, s->id);
        t.ranks_n++;
        t.committed = t.committed || s->status == UW_CELL_COMMITTED;
        t.aborted = t.aborted || s->status == UW_CELL_ABORTED;
        t.aborter = s->status == UW_CELL_ABORTED && !s->direct ? s->id : t.aborter;
        t.prepared_n += s->status == UW_CELL_PREPARED;
        t.progress += s->step + (s->status == UW_CELL_PREPARED ? 1u : 0u);
        t.gone = s->gone ? s->id : t.gone;
        t.left_n += !s->gone && reached;
        t.out_of_reach = t.out_of_reach || (!s->gone && !reached);
        if (!s->gone && s->id != c->config.self && h->polls != 0 && s->heard_us < h->poll_us) {
            t.silent = s->id;
        } else if (!s->gone && reached) {
            t.answered_n++;
        }
    }
    return t;
}

uint64_t uw_cell_stall_us(const struct uw_cell *c)
{
    return uw_deadline_us(&c->took, 1, 0, STALL_MIN_US, STALL_MAX_US);
}

uint64_t uw_cell_silent_us(const struct uw_cell *c)
{
    return uw_deadline_us(&c->took, 1, 1, SILENT_MIN_US, c->config.round_us);
}

uint64_t uw_cell_poll_us(const struct uw_cell *c)
{
    return uw_deadline_us(&c->took, 1, 0, 2u * POLL_MIN_US, 2u * POLL_MAX_US) / 2u;
}

/* Only messages of the previous wait count as late: older ones do not survive that long, and a node
 * that restarts without a new incarnation counts its waits from the beginning. */
bool uw_cell_is_late(const struct uw_cell *c, const struct uw_cell_seat *seat,
                     const struct uw_cell_message *m)
{
    uint32_t before = seat->asks - m->asks;
    bool older = before - 1u < UINT32_MAX / 2u &&
                 c->now_us - seat->ready_us < UW_CELL_READY_STALE_US;
    return seat->incarnation == m->incarnation && (before == 1u || older);
}

/* ---- the log of decisions ---- */

enum uw_cell_status uw_cell_status_of(const struct uw_cell *c, uint32_t group, uint32_t round)
{
    if (uw_cell_at_hand(c, group, round)) {
        return c->state == UW_CELL_HAS_RESULT ? UW_CELL_PREPARED : UW_CELL_RUNNING;
    }
    for (uint32_t i = 0; i < c->log_n; i++) {
        if (c->log[i].group == group && c->log[i].round == round) {
            return c->log[i].committed ? UW_CELL_COMMITTED : UW_CELL_ABORTED;
        }
    }
    return UW_CELL_UNKNOWN;
}

/* The log entry for a decision: two per group, so that others are kept. A head that was stopped in
 * a round still finds its entry after any number of later rounds. */
static uint32_t place_in_log(struct uw_cell *c, uint32_t group)
{
    uint32_t of_group = 0, mine = 0, oldest = 0;
    for (uint32_t i = 0; i < c->log_n; i++) {
        if (c->log[i].group == group) {
            mine = of_group++ == 0 || c->log[i].at < c->log[mine].at ? i : mine;
        }
        oldest = c->log[i].at < c->log[oldest].at ? i : oldest;
    }
    return of_group >= 2u ? mine : c->log_n < UW_CELL_LOG ? c->log_n++ : oldest;
}

void uw_cell_note(struct uw_cell *c, uint32_t group, uint32_t round, bool committed)
{
    if (!uw_cell_is_decided(uw_cell_status_of(c, group, round))) {
        uint32_t at = place_in_log(c, group);
        c->log[at].group = group;
        c->log[at].round = round;
        c->log[at].committed = committed;
        c->log[at].at = c->noted_n++;
    }
}
