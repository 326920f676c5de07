/* SPDX-License-Identifier: Apache-2.0 */
#include "cell_priv.h"

#include "base/bits.h"

#include <string.h>

#define READY_STALE_US 3000000u     /* who is ready says so more often */
#define GATHER_MIN_US 1000000u
#define OUTLIER_MEDIANS 32.0f

static struct uw_cell_seat *find_seat(struct uw_cell *c, uint32_t id)
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

void uw_cell_send_start(struct uw_cell *c, uint32_t to)
{
    const struct uw_cell_seat *seat = find_seat(c, to);
    struct uw_cell_message m = c->h.start;
    m.asks = seat != NULL ? seat->asks : 0;
    c->config.send(c->config.arg, to, &m);
}

void uw_cell_send_to_ranks(struct uw_cell *c, const struct uw_cell_message *m)
{
    for (uint32_t i = 0; i < c->h.start.ids_n; i++) {
        if (c->h.start.ids[i] != c->config.self) {
            c->config.send(c->config.arg, c->h.start.ids[i], m);
        }
    }
}

/* A node is told to go on without the others from this wait of its; itself may be the one. */
static void send_away(struct uw_cell *c, uint32_t to, uint32_t asks, uint32_t culprit)
{
    const struct uw_cell_message m = {.act = UW_CELL_STATE, .status = UW_CELL_ABORTED,
                                      .asks = asks, .culprit = culprit};
    if (to == c->config.self) {
        uw_cell_refused(c, culprit == to ? UW_CELL_NEWS_OUTLIER : UW_CELL_NEWS_FULL);
    } else {
        c->config.send(c->config.arg, to, &m);
    }
}

/* Is it of a wait before the one that this node is known to be in? Of the one before that can be at
 * any time; older messages do not live long, and a node that was started anew without another
 * incarnation counts its waits from the beginning. */
static bool is_late(const struct uw_cell *c, const struct uw_cell_seat *seat,
                    const struct uw_cell_message *m)
{
    uint32_t before = seat->asks - m->asks;
    bool older = before - 1u < UINT32_MAX / 2u && c->now_us - seat->ready_us < READY_STALE_US;
    return seat->incarnation == m->incarnation && (before == 1u || older);
}

/* It has no part in what comes, and a late word of this wait changes nothing. */
static void refuse_seat(struct uw_cell *c, struct uw_cell_seat *seat, uint32_t asks,
                        uint32_t culprit)
{
    seat->ready = false;
    seat->refused = true;
    seat->asks = asks;
    seat->culprit = culprit;
    send_away(c, seat->id, asks, culprit);
}

void uw_cell_head_ready(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    struct uw_cell_head *h = &c->h;
    struct uw_cell_seat *seat = uw_cell_seat_of(c, from);
    if (seat == NULL && m->status != UW_CELL_ABORTED) {
        send_away(c, from, m->asks, UW_CELL_NOBODY);
    }
    if (seat == NULL || is_late(c, seat, m)) {
        return;
    }
    bool begun = seat->ranked && (h->deciding || seat->status != UW_CELL_UNKNOWN);
    if (seat->incarnation != m->incarnation || (begun && seat->asks != m->asks)) {
        /* It is lost with its last life, or it gave that round up while this node slept. */
        seat->gone = seat->ranked;
        seat->refused = seat->refused && seat->incarnation == m->incarnation;
        seat->incarnation = m->incarnation;
    } else if (h->deciding && seat->ranked && seat->status == UW_CELL_UNKNOWN && !h->taken_over) {
        uw_cell_send_start(c, from);    /* the first one was lost */
        return;
    }
    if (m->status == UW_CELL_ABORTED) {
        seat->ready = false;
        return;
    }
    bool avoided = c->now_us < seat->avoid_until_us && !c->config.patient && !c->config.tells_all;
    bool again = seat->refused && seat->asks == m->asks;
    if (avoided || again) {
        refuse_seat(c, seat, m->asks, again ? seat->culprit : c->config.self);
        return;
    }
    seat->refused = false;
    seat->since_us = seat->ready ? seat->since_us : c->now_us;
    seat->ready = true;
    seat->ready_us = c->now_us;
    seat->rms = m->rms;
    seat->asks = m->asks;
    seat->chunk_n = m->chunk_n;
    seat->stream_n = m->stream_n;
    for (uint32_t i = 0; i < m->ids_n; i++) {
        struct uw_cell_seat *other = uw_cell_seat_of(c, m->ids[i]);
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
        if (seat != NULL && m->group == h->start.group && m->round == h->start.round &&
            (m->status == UW_CELL_COMMITTED || m->status == UW_CELL_ABORTED)) {
            seat->untold = false;
        }
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
        seat->direct = m->direct;
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
        seat->untold = false;
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

/* A node without a seat, and none is left: nobody waits for it. */
static bool has_no_place(const struct uw_cell *c, const struct uw_cell_seat *s)
{
    return s == NULL && c->h.seats_n == c->config.ranks_max;
}

/* Before there was any round: is a node in sight not ready yet? */
static bool lacks_anybody(struct uw_cell *c)
{
    bool lacks = false;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_seat *s = find_seat(c, c->members[i].id);
        lacks = lacks || (uw_cell_reaches(c, c->members[i].id) && !has_no_place(c, s) &&
                          (s == NULL || (!s->ready && c->now_us >= s->avoid_until_us)));
    }
    return lacks;
}

/* Can a node of the cell that is not given up not take part now? */
static bool lacks_one_of_all(struct uw_cell *c)
{
    bool lacks = false;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_seat *s = find_seat(c, c->members[i].id);
        lacks = lacks || (!has_no_place(c, s) && (s == NULL || !can_take_part(c, s)));
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
        if (s->id != c->config.self) {
            uw_cell_tell(c, UW_CELL_NEWS_OUTLIER, s->id);
        }
        refuse_seat(c, s, s->asks, s->id);
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
        m->stream_n = m->ids_n == 0 ? s->stream_n : uw_min_u32(m->stream_n, s->stream_n);
        if (s->chunk_n != 0) {
            m->chunk_n = m->chunk_n == 0 ? s->chunk_n : uw_min_u32(m->chunk_n, s->chunk_n);
        }
        uw_insert_u32(m->ids, m->ids_n++, s->id);
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
    bool streams = m.stream_n != 0;
    bool same = h->committed && (h->start.stream_n != 0) == streams && m.ids_n == h->start.ids_n &&
                memcmp(m.ids, h->start.ids, m.ids_n * sizeof m.ids[0]) == 0;
    m.group = same ? h->start.group : next_group(c);
    m.round = same ? h->start.round + 1u : 1u;
    m.kind = c->config.choose(c->config.arg, &m);
    h->start = m;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        h->seats[i].expected = false;
    }
    uw_cell_watch_begin(c, false);
    bool ranked = false;
    for (uint32_t i = 0; i < m.ids_n; i++) {
        if (m.ids[i] == c->config.self) {
            ranked = true;
        } else {
            uw_cell_send_start(c, m.ids[i]);
        }
    }
    if (ranked) {
        uw_cell_start(c, c->config.self, &h->start);
    }
}

uint64_t uw_cell_gather(struct uw_cell *c)
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
