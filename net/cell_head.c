/* SPDX-License-Identifier: Apache-2.0 */
#include "cell_inner.h"

#include "bits.h"

#include <string.h>

#define READY_STALE_US 3000000u     /* who is ready says so more often */
#define GATHER_MIN_US 1000000u
#define ROUND_MIN_US 2000000u
#define POLL_REPEAT_US 200000u
#define POLLS_MAX 4u                /* unanswered questions that make a culprit */
#define OUTLIER_MEDIANS 32.0f
#define AVOID_US 2000000u           /* doubles with each strike */
#define AVOID_STRIKES_MAX 5u

static struct uw_cell_seat *find_seat(struct uw_cell *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        if (c->h.seats[i].id == id) {
            return &c->h.seats[i];
        }
    }
    return NULL;
}

/* A node's seat, a new one if need be; NULL: all are taken by nodes that matter. */
static struct uw_cell_seat *seat_of(struct uw_cell *c, uint32_t id)
{
    struct uw_cell_seat *seat = find_seat(c, id);
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
    }
    return seat;
}

static void send_to_ranks(struct uw_cell *c, const struct uw_cell_message *m)
{
    for (uint32_t i = 0; i < c->h.start.ids_n; i++) {
        if (c->h.start.ids[i] != c->config.self) {
            c->config.send(c->config.arg, c->h.start.ids[i], m);
        }
    }
}

void uw_cell_head_ready(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    struct uw_cell_head *h = &c->h;
    struct uw_cell_seat *seat = seat_of(c, from);
    if (seat == NULL) {
        return;
    }
    if (seat->incarnation != m->incarnation || (seat->ranked && seat->asks != m->asks)) {
        /* It is lost with its last life, or it gave that round up while this node slept. */
        seat->gone = seat->ranked;
        seat->incarnation = m->incarnation;
    } else if (h->deciding && seat->ranked && seat->status == UW_CELL_UNKNOWN && !h->taken_over) {
        c->config.send(c->config.arg, from, &h->start);     /* the first one was lost */
        return;
    }
    if (m->status == UW_CELL_ABORTED) {
        seat->ready = false;
        return;
    }
    seat->since_us = seat->ready ? seat->since_us : c->now_us;
    seat->ready = true;
    seat->ready_us = c->now_us;
    seat->rms = m->rms;
    seat->asks = m->asks;
    for (uint32_t i = 0; i < m->ids_n; i++) {
        struct uw_cell_seat *other = seat_of(c, m->ids[i]);
        if (other != NULL) {
            other->expected = true;
        }
    }
}

void uw_cell_head_state(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    struct uw_cell_head *h = &c->h;
    struct uw_cell_seat *seat = find_seat(c, from);
    if (!h->deciding || m->group != h->start.group || m->round != h->start.round) {
        /* Somebody who has not heard what became of a round. */
        if (from != c->config.self && m->status != UW_CELL_COMMITTED &&
            m->status != UW_CELL_ABORTED) {
            enum uw_cell_status known = uw_cell_status_of(c, m->group, m->round);
            if (known == UW_CELL_COMMITTED || known == UW_CELL_ABORTED ||
                (known == UW_CELL_UNKNOWN && m->status != UW_CELL_UNKNOWN)) {
                uw_cell_say(c, from, m->group, m->round);
            }
        }
        return;
    }
    if (seat != NULL && seat->ranked) {
        seat->status = m->status;
        seat->step = m->step;
        seat->waits_for = m->waits_for;
        seat->heard_us = c->now_us;
    }
}

void uw_cell_head_gone(struct uw_cell *c, uint32_t id)
{
    struct uw_cell_seat *seat = find_seat(c, id);
    if (seat != NULL) {
        seat->ready = seat->expected = false;
        seat->gone = seat->ranked;
    }
}

/* ---- gathering ---- */

static bool can_take_part(const struct uw_cell *c, const struct uw_cell_seat *s)
{
    return s->ready && uw_cell_reaches(c, s->id) && c->now_us >= s->avoid_until_us;
}

/* Does the next round wait for it? It took part in the last one; when this head has seen none, the
 * nodes themselves say who did. */
static bool is_expected(const struct uw_cell *c, const struct uw_cell_seat *s)
{
    bool took_part = s->expected;
    if (c->h.committed) {
        took_part = false;
        for (uint32_t i = 0; i < c->h.start.ids_n && !took_part; i++) {
            took_part = c->h.start.ids[i] == s->id;
        }
    }
    return took_part && uw_cell_reaches(c, s->id) && c->now_us >= s->avoid_until_us;
}

struct gathered {
    uint32_t ready_n, expected_n, late_n;
    uint64_t since_us;              /* the first of those expected, or of all, is ready */
};

static struct gathered look_around(const struct uw_cell *c)
{
    struct gathered g = {.since_us = UINT64_MAX};
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        g.expected_n += is_expected(c, &c->h.seats[i]);
    }
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        bool expected = is_expected(c, s), ready = can_take_part(c, s);
        g.ready_n += ready;
        g.late_n += expected && !ready;
        if (ready && (expected || g.expected_n == 0) && s->since_us < g.since_us) {
            g.since_us = s->since_us;
        }
    }
    return g;
}

/* Before there was any round: is a node in sight not ready yet? */
static bool lacks_anybody(struct uw_cell *c)
{
    bool lacks = false;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_seat *s = find_seat(c, c->members[i].id);
        lacks = lacks || (uw_cell_reaches(c, c->members[i].id) && (s == NULL || !s->ready));
    }
    return lacks;
}

/* Can a node of the cell that is not given up not take part now? */
static bool lacks_one_of_all(struct uw_cell *c)
{
    bool lacks = false;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_seat *s = find_seat(c, c->members[i].id);
        lacks = lacks || s == NULL || !can_take_part(c, s);
    }
    return lacks;
}

static void tell_who_is_late(struct uw_cell *c)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        if (is_expected(c, &c->h.seats[i]) && !c->h.seats[i].ready) {
            uw_cell_tell(c, UW_CELL_NEWS_LATE, c->h.seats[i].id);
        }
    }
}

/* The lower median of what all who are ready hand in. */
static float median_rms(const struct uw_cell *c)
{
    float rms[UW_CELL_RANKS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        uint32_t k = n;
        if (!can_take_part(c, s)) {
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

static void refuse_outliers(struct uw_cell *c)
{
    float limit = OUTLIER_MEDIANS * median_rms(c);
    for (uint32_t i = 0; i < c->h.seats_n && limit > 0.0f; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        if (!can_take_part(c, s) || s->rms <= limit) {
            continue;
        }
        const struct uw_cell_message m = {.act = UW_CELL_STATE, .status = UW_CELL_ABORTED,
                                          .culprit = s->id};
        s->ready = false;
        if (s->id == c->config.self) {
            uw_cell_refused(c);
        } else {
            uw_cell_tell(c, UW_CELL_NEWS_OUTLIER, s->id);
            c->config.send(c->config.arg, s->id, &m);
        }
    }
}

static uint32_t next_group(struct uw_cell *c)
{
    uint32_t x = (c->config.self ^ c->config.incarnation * 0x9e3779b1u) + ++c->h.counter;
    x += c->config.series << 28;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    x ^= x >> 16;
    return x != 0 ? x : 1u;
}

static void name_ranks(struct uw_cell *c, struct uw_cell_message *m)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        if (!can_take_part(c, s)) {
            continue;
        }
        uint32_t k = m->ids_n++;
        for (; k > 0 && m->ids[k - 1u] > s->id; k--) {
            m->ids[k] = m->ids[k - 1u];
        }
        m->ids[k] = s->id;
    }
}

static void begin_watch(struct uw_cell *c, bool taken_over)
{
    struct uw_cell_head *h = &c->h;
    h->deciding = true;
    h->taken_over = taken_over;
    h->started_us = c->now_us;
    h->deadline_us = c->now_us + (taken_over ? 0 : uw_deadline_us(&h->took, 4, 8, ROUND_MIN_US,
                                                                  c->config.round_us));
    h->poll_us = c->now_us;
    h->polls = h->progress = 0;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        h->seats[i].ranked = h->seats[i].gone = false;
    }
    for (uint32_t i = 0; i < h->start.ids_n; i++) {
        struct uw_cell_seat *s = seat_of(c, h->start.ids[i]);
        if (s != NULL) {
            s->ranked = true;
            s->ready = s->expected = false;
            s->status = UW_CELL_UNKNOWN;
            s->step = 0;
            s->heard_us = taken_over ? 0 : c->now_us;  /* only answers count */
        }
    }
}

static void begin_round(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    struct uw_cell_message m = {.act = UW_CELL_START};
    name_ranks(c, &m);
    if (m.ids_n == 0) {
        return;
    }
    bool same = h->committed && m.ids_n == h->start.ids_n &&
                memcmp(m.ids, h->start.ids, m.ids_n * sizeof m.ids[0]) == 0;
    m.group = same ? h->start.group : next_group(c);
    m.round = same ? h->start.round + 1u : 1u;
    m.kind = c->config.choose(c->config.arg, m.ids_n, m.hints);
    h->start = m;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        h->seats[i].expected = false;
    }
    begin_watch(c, false);
    send_to_ranks(c, &h->start);
    for (uint32_t i = 0; i < m.ids_n; i++) {
        if (m.ids[i] == c->config.self) {
            uw_cell_start(c, c->config.self, &h->start);
        }
    }
}

static uint64_t gather(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        struct uw_cell_seat *s = &h->seats[i];
        s->ready = s->ready && c->now_us - s->ready_us < READY_STALE_US;
    }
    if (c->head != c->config.self) {
        return UINT64_MAX;
    }
    struct gathered g = look_around(c);
    if (g.since_us == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t wait_us = c->config.patient ? c->config.gather_us
                                         : uw_deadline_us(&h->spread, 3, 8, GATHER_MIN_US,
                                                          c->config.gather_us);
    bool too_few = !c->met && g.ready_n < c->config.first_n;
    bool lacks = c->config.patient ? lacks_one_of_all(c)
                                   : g.late_n != 0 || (g.expected_n == 0 && lacks_anybody(c));
    if ((too_few || lacks) && c->now_us < g.since_us + wait_us) {
        return g.since_us + wait_us;
    }
    tell_who_is_late(c);
    refuse_outliers(c);
    uw_deadline_add(&h->spread, c->now_us - g.since_us);
    begin_round(c);
    return c->now_us;
}

/* ---- watching ---- */

static void decide(struct uw_cell *c, bool commit, uint32_t culprit)
{
    struct uw_cell_head *h = &c->h;
    h->deciding = false;
    h->committed = commit && !h->taken_over;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        struct uw_cell_seat *s = &h->seats[i];
        if (s->id == culprit && culprit != c->config.self) {
            s->avoid_until_us =
                c->now_us + ((uint64_t)AVOID_US << uw_min_u32(s->strikes++, AVOID_STRIKES_MAX));
        } else if (commit && s->ranked) {
            s->strikes = 0;
        }
        s->ranked = false;
    }
    if (commit) {
        uw_deadline_add(&h->took, c->now_us - h->started_us);
    }
    const struct uw_cell_message m = {
        .act = UW_CELL_STATE, .group = h->start.group, .round = h->start.round,
        .status = commit ? UW_CELL_COMMITTED : UW_CELL_ABORTED, .culprit = culprit};
    send_to_ranks(c, &m);
    enum uw_cell_status own = uw_cell_status_of(c, m.group, m.round);
    if (own == UW_CELL_RUNNING || own == UW_CELL_PREPARED) {
        uw_cell_decide(c, commit, culprit);
    } else if (h->start.ids_n > 1) {
        uw_cell_note(c, m.group, m.round, commit);
    }
}

static void poll(struct uw_cell *c)
{
    const struct uw_cell_message m = {.act = UW_CELL_POLL, .group = c->h.start.group,
                                      .round = c->h.start.round};
    if (c->h.polls++ == 0) {
        c->h.poll_us = c->now_us;
    }
    c->h.deadline_us = c->now_us + POLL_REPEAT_US;
    send_to_ranks(c, &m);
}

/* Everybody answers and yet nothing moves: the one whom the hindmost waits for, by the chain of
 * those who wait themselves; a link is broken that only they use. */
static uint32_t whom_all_wait_for(struct uw_cell *c)
{
    struct uw_cell_seat *last = NULL;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        if (s->ranked && s->status == UW_CELL_RUNNING && (last == NULL || s->step < last->step)) {
            last = s;
        }
    }
    if (last == NULL) {
        return UW_CELL_NOBODY;
    }
    return last->waits_for != UW_CELL_NOBODY && last->waits_for != c->config.self ? last->waits_for
                                                                                  : last->id;
}

struct tally {
    uint32_t ranks_n, left_n, prepared_n, answered_n, progress;
    bool committed, out_of_reach;
    uint32_t aborter, gone, silent; /* identities, or UW_CELL_NOBODY */
};

static struct tally count(const struct uw_cell *c)
{
    const struct uw_cell_head *h = &c->h;
    struct tally t = {.aborter = UW_CELL_NOBODY, .gone = UW_CELL_NOBODY,
                      .silent = UW_CELL_NOBODY};
    for (uint32_t i = 0; i < h->seats_n; i++) {
        const struct uw_cell_seat *s = &h->seats[i];
        if (!s->ranked) {
            continue;
        }
        bool reached = uw_cell_reaches(c, s->id);
        t.ranks_n++;
        t.committed = t.committed || s->status == UW_CELL_COMMITTED;
        t.aborter = s->status == UW_CELL_ABORTED ? s->id : t.aborter;
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

/* All who are left have answered, or will not: what is to become of a vanished head's round? */
static void settle(struct uw_cell *c, const struct tally *t, uint32_t lost)
{
    bool commit = t->prepared_n == t->left_n && 2u * t->prepared_n > t->ranks_n;
    decide(c, commit, lost);
}

static uint64_t watch(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    uw_cell_say(c, c->config.self, h->start.group, h->start.round);
    struct tally t = count(c);
    if (t.committed || t.aborter != UW_CELL_NOBODY) {
        decide(c, t.committed, h->taken_over ? h->lost : t.aborter);
        return c->now_us;
    }
    if (t.prepared_n == t.ranks_n) {
        decide(c, true, UW_CELL_NOBODY);
        return c->now_us;
    }
    if (t.gone != UW_CELL_NOBODY && !h->taken_over) {
        decide(c, false, t.gone);
        return c->now_us;
    }
    if (h->taken_over && h->polls != 0 && t.answered_n == t.left_n && t.silent == UW_CELL_NOBODY) {
        settle(c, &t, h->lost);
        return c->now_us;
    }
    bool early = t.out_of_reach && h->polls == 0;
    if (c->now_us < h->deadline_us && !early) {
        return h->deadline_us;
    }
    if (h->polls < POLLS_MAX) {
        poll(c);
        return h->deadline_us;
    }
    if (h->taken_over) {
        settle(c, &t, h->lost);
    } else if (t.silent != UW_CELL_NOBODY) {
        decide(c, false, t.silent);
    } else if (t.progress > h->progress && c->now_us - h->started_us < c->config.round_us) {
        h->progress = t.progress;
        h->polls = 0;
        h->deadline_us = c->now_us + ROUND_MIN_US / 2u;
    } else {
        decide(c, false, whom_all_wait_for(c));
    }
    return c->now_us;
}

void uw_cell_head_take_over(struct uw_cell *c, uint32_t lost)
{
    struct uw_cell_head *h = &c->h;
    h->start = (struct uw_cell_message){.act = UW_CELL_START, .group = c->group,
                                        .round = c->round, .kind = c->kind,
                                        .ids_n = c->ranks_n};
    memcpy(h->start.ids, c->ranks, c->ranks_n * sizeof c->ranks[0]);
    h->lost = lost;
    begin_watch(c, true);
    uw_cell_head_gone(c, lost);
}

uint64_t uw_cell_head_run(struct uw_cell *c)
{
    return c->h.deciding ? watch(c) : gather(c);
}
