/* SPDX-License-Identifier: Apache-2.0
 *
 * The head's side of a round: gather the nodes that are ready, watch the ranks, decide, and deliver
 * the outcome; and its successor's, when it is lost. */
#include "cell_priv.h"

#include "base/backoff.h"
#include "base/bits.h"

#include <string.h>

#define GATHER_MIN_US 1000000u
#define OUTLIER_MEDIANS 32.0f
#define ROUND_MIN_US 2000000u       /* without progress, and a round is watched closely */
#define ARRIVED_MOST 0x8000u        /* a part of what a rank waits for: its last chunk is small */
#define GAP_TIMES 2u                /* as long without progress as never before, ... */
#define GAP_MOST_US 8000000u        /* ... or so long */
#define GAP_CLEAN_US 750000u        /* longer ones are of a network that loses much */
#define GAP_PARTS 64u               /* smoothing */
#define START_REPEAT_US 300000u     /* ranks that have begun send STATE sooner */
#define OWES_US 3000000u            /* a head repeats an outcome for so long */
#define OWES_REPEAT_US 100000u

/* ---- gathering ---- */

static void begin_watch(struct uw_cell *c, bool taken_over)
{
    struct uw_cell_head *h = &c->h;
    h->deciding = true;
    h->taken_over = taken_over;
    h->started_us = h->start_us = h->moved_us = h->progress_us = c->now_us;
    h->deadline_us = c->now_us + (taken_over          ? 0
                                  : !h->start.direct ? ROUND_MIN_US
                                                     : uw_deadline_us(&c->took, 4, 8, ROUND_MIN_US,
                                                                      c->config.round_us));
    h->poll_us = c->now_us;
    h->polls = h->progress = h->seen = 0;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        h->seats[i].ranked = h->seats[i].gone = false;
    }
    for (uint32_t i = 0; i < h->start.ids_n; i++) {
        struct uw_cell_seat *s = uw_cell_seat_of(c, h->start.ids[i]);
        if (s != NULL) {
            s->ranked = true;
            s->ready = s->expected = false;
            s->left_out = 0;
            s->unheard = UW_CELL_NOBODY;
            s->status = UW_CELL_UNKNOWN;
            s->step = 0;
            s->heard_us = taken_over ? 0 : c->now_us;  /* only answers count */
        }
    }
}

/* Send START to a rank, with the number of the wait that it answers. */
static void send_start(struct uw_cell *c, uint32_t to)
{
    const struct uw_cell_seat *seat = uw_cell_seat(c, to);
    struct uw_cell_message m = c->h.start;
    m.asks = seat != NULL ? seat->asks : 0;
    c->config.send(c->config.arg, to, &m);
}

static void send_to_ranks(struct uw_cell *c, const struct uw_cell_message *m)
{
    for (uint32_t i = 0; i < c->h.start.ids_n; i++) {
        if (c->h.start.ids[i] != c->config.self) {
            c->config.send(c->config.arg, c->h.start.ids[i], m);
        }
    }
}

/* Let a node, maybe this one, end this wait and go on without an average. */
static void send_away(struct uw_cell *c, uint32_t to, uint32_t asks, uint32_t culprit)
{
    const struct uw_cell_message m = {.act = UW_CELL_STATE, .status = UW_CELL_ABORTED,
                                      .asks = asks, .culprit = culprit};
    if (to == c->config.self) {
        uw_cell_go_without(c, culprit);
    } else {
        c->config.send(c->config.arg, to, &m);
    }
}

/* Refuse this wait of a node; late messages of it are ignored. */
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
    if (seat == NULL || uw_cell_is_late(c, seat, m)) {
        return;
    }
    bool begun = seat->ranked && (h->deciding || seat->status != UW_CELL_UNKNOWN);
    if (seat->incarnation != m->incarnation || (begun && seat->asks != m->asks)) {
        /* The round ended with its restart, or it gave the round up while this node slept. */
        seat->gone = seat->ranked;
        seat->refused = seat->refused && seat->incarnation == m->incarnation;
        seat->incarnation = m->incarnation;
    } else if (h->deciding && seat->ranked && seat->status == UW_CELL_UNKNOWN && !h->taken_over) {
        send_start(c, from);    /* the first one was lost */
        return;
    }
    seat->away = m->status == UW_CELL_ABORTED;
    if (seat->away) {
        seat->ready = false;
        return;
    }
    bool avoided = c->now_us < seat->avoid_until_us && !c->config.patient && !c->config.is_last;
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
    seat->wary = m->kind == UW_ALLREDUCE_SWEEP;
    memset(seat->deaf, 0, sizeof seat->deaf);
    for (uint32_t i = 0; i < m->deaf_n; i++) {
        const struct uw_cell_seat *other = uw_cell_seat_of(c, m->deaf[i]);
        if (other != NULL) {
            uw_set_add(seat->deaf, (uint32_t)(other - h->seats));
        }
    }
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
    struct uw_cell_seat *seat = uw_cell_seat(c, from);
    if (!h->deciding || m->group != h->start.group || m->round != h->start.round) {
        if (seat != NULL && m->group == h->start.group && m->round == h->start.round &&
            uw_cell_is_decided(m->status)) {
            seat->uninformed = false;
        }
        /* A node that does not know the outcome of a round. */
        if (from != c->config.self && !uw_cell_is_decided(m->status)) {
            enum uw_cell_status known = uw_cell_status_of(c, m->group, m->round);
            if (uw_cell_is_decided(known) ||
                (known == UW_CELL_UNKNOWN && m->status != UW_CELL_UNKNOWN)) {
                uw_cell_send_state(c, from, m->group, m->round);
            }
        }
        return;
    }
    if (seat != NULL && seat->ranked) {
        seat->status = m->status;
        seat->unheard = m->status == UW_CELL_ABORTED && m->culprit != from ? m->culprit
                                                                           : UW_CELL_NOBODY;
        seat->direct = m->direct;
        seat->step = m->step;
        seat->waits_for = m->waits_for;
        seat->heard_us = c->now_us;
    }
    if (m->asks != 0) {         /* whether this node is still there */
        const struct uw_cell_message answer = {.act = UW_CELL_POLL, .group = m->group,
                                               .round = m->round};
        c->config.send(c->config.arg, from, &answer);
    }
}

void uw_cell_head_gone(struct uw_cell *c, uint32_t id)
{
    struct uw_cell_seat *seat = uw_cell_seat(c, id);
    if (seat != NULL) {
        seat->ready = seat->expected = false;
        seat->gone = seat->ranked;
        seat->uninformed = false;
    }
}

static void report_late(struct uw_cell *c)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        if (uw_cell_is_expected(c, &c->h.seats[i]) && !c->h.seats[i].ready) {
            c->h.seats[i].left_out = 0;     /* it misses its turn */
            uw_cell_report(c, UW_CELL_NEWS_LATE, c->h.seats[i].id);
        }
    }
}

static void refuse_outliers(struct uw_cell *c)
{
    float limit = OUTLIER_MEDIANS * uw_cell_median_rms(c);
    for (uint32_t i = 0; i < c->h.seats_n && limit > 0.0f; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        if (!uw_cell_can_take_part(c, s) || s->rms <= limit) {
            continue;
        }
        if (s->id != c->config.self) {
            uw_cell_report(c, UW_CELL_NEWS_OUTLIER, s->id);
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

/* Send away ready nodes that a round leaves out. */
static void leave_out(struct uw_cell *c, const struct uw_cell_message *start)
{
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        uint32_t rank = uw_cell_can_take_part(c, s) ? uw_cell_deaf_rank(c, start, s)
                                                    : UW_CELL_NOBODY;
        if (rank != UW_CELL_NOBODY) {
            s->left_out++;
            refuse_seat(c, s, s->asks, rank);
        }
    }
}

static bool any_is_wary(struct uw_cell *c, const struct uw_cell_message *start)
{
    bool any = false;
    for (uint32_t i = 0; i < start->ids_n; i++) {
        const struct uw_cell_seat *s = uw_cell_seat(c, start->ids[i]);
        any = any || (s != NULL && s->wary);
    }
    return any;
}

/* Have some of the ranks not been in the last round? */
static bool is_unequal(const struct uw_cell *c, const struct uw_cell_message *m)
{
    const struct uw_cell_message *last = &c->h.start;
    bool unequal = c->met && !c->h.committed;
    for (uint32_t i = 0; i < m->ids_n && c->met; i++) {
        unequal = unequal || !uw_cell_lists(last->ids, last->ids_n, m->ids[i]);
    }
    return unequal;
}

static void begin_round(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    struct uw_cell_message m = {.act = UW_CELL_START};
    uw_cell_list_ranks(c, &m);
    if (m.ids_n == 0) {
        return;
    }
    m.step = is_unequal(c, &m);
    leave_out(c, &m);
    m.kind = any_is_wary(c, &m) ? UW_ALLREDUCE_SWEEP : UW_ALLREDUCE_KINDS_N;
    m.kind = c->config.choose(c->config.arg, &m);
    bool same = h->committed && m.ids_n == h->start.ids_n &&
                memcmp(m.ids, h->start.ids, m.ids_n * sizeof m.ids[0]) == 0 &&
                (m.stream_n != 0) == (h->start.stream_n != 0);  /* a group streams, or not */
    m.group = same ? h->start.group : next_group(c);
    m.round = same ? h->start.round + 1u : 1u;
    h->start = m;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        h->seats[i].expected = false;
    }
    begin_watch(c, false);
    bool ranked = false;
    for (uint32_t i = 0; i < m.ids_n; i++) {
        if (m.ids[i] == c->config.self) {
            ranked = true;
        } else {
            send_start(c, m.ids[i]);
        }
    }
    if (ranked) {
        uw_cell_begin(c, c->config.self, &h->start);
    }
}

/* Nodes that take this one for the head do not hear the head: they go on without. Returns the time
 * of the next call. */
static uint64_t turn_away(struct uw_cell *c)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        struct uw_cell_seat *s = &c->h.seats[i];
        uint64_t until_us = s->since_us + UW_CELL_UNHEARD_US;
        if (!s->ready || s->id == c->config.self) {
            continue;
        }
        if (c->now_us >= until_us) {
            refuse_seat(c, s, s->asks, c->head);
        } else {
            next_us = until_us < next_us ? until_us : next_us;
        }
    }
    return next_us;
}

/* Count the ready nodes and begin a round. Returns the time of the next call. */
static uint64_t gather(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        struct uw_cell_seat *s = &h->seats[i];
        s->ready = s->ready && c->now_us - s->ready_us < UW_CELL_READY_STALE_US;
    }
    if (c->head != c->config.self) {
        return turn_away(c);
    }
    struct uw_cell_gathered g = uw_cell_gather(c);
    if (g.since_us == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t wait_us = c->config.patient ? c->config.gather_us
                                         : uw_deadline_us(&h->spread, 3, 8, GATHER_MIN_US,
                                                          c->config.gather_us);
    bool too_few = !c->met && g.ready_n < c->config.first_n;
    bool lacks = c->config.patient ? uw_cell_lacks_one(c)
                                   : g.late_n != 0 ||
                                         (g.expected_n == 0 && uw_cell_lacks_anybody(c));
    if ((too_few || lacks) && c->now_us < g.since_us + wait_us) {
        return g.since_us + wait_us;
    }
    report_late(c);
    refuse_outliers(c);
    uw_deadline_add(&h->spread, c->now_us - g.since_us);
    begin_round(c);
    return c->now_us;
}

/* ---- watch a round, decide it, and deliver the outcome ---- */

/* pair  the ids and step of a message about two ranks between which it stalled; NULL: it did not */
static void decide(struct uw_cell *c, bool commit, uint32_t culprit,
                   const struct uw_cell_message *pair)
{
    struct uw_cell_head *h = &c->h;
    h->deciding = false;
    h->committed = commit && !h->taken_over;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        struct uw_cell_seat *s = &h->seats[i];
        if (s->id == culprit && culprit != c->config.self) {
            s->avoid_until_us = c->now_us + uw_backoff_us(UW_CELL_AVOID_US, &s->strikes,
                                                          UW_CELL_AVOID_DOUBLINGS);
        } else if (commit && s->ranked) {
            s->strikes = 0;
        }
        s->uninformed = s->ranked && !s->gone && s->id != c->config.self && c->config.is_last;
        s->ranked = false;
    }
    struct uw_cell_message m = pair != NULL ? *pair : (struct uw_cell_message){.step = 0};
    m.act = UW_CELL_STATE;
    m.group = h->start.group;
    m.round = h->start.round;
    m.status = commit ? UW_CELL_COMMITTED : UW_CELL_ABORTED;
    m.culprit = culprit;
    send_to_ranks(c, &m);
    h->decided_us = h->informed_us = c->now_us;
    enum uw_cell_status own = uw_cell_status_of(c, m.group, m.round);
    if (own == UW_CELL_RUNNING || own == UW_CELL_PREPARED) {
        uw_cell_conclude(c, commit, culprit, &m);
    } else if (h->start.ids_n > 1) {
        uw_cell_note(c, m.group, m.round, commit);
    }
}

/* Repeat START to ranks that have not answered. Returns the time of the next call. */
static uint64_t start_again(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    bool due = c->now_us >= h->start_us + START_REPEAT_US, lacks = false;
    for (uint32_t i = 0; i < h->seats_n && !h->taken_over; i++) {
        const struct uw_cell_seat *s = &h->seats[i];
        if (s->ranked && s->status == UW_CELL_UNKNOWN && s->id != c->config.self) {
            lacks = true;
            if (due) {
                send_start(c, s->id);
            }
        }
    }
    h->start_us = due ? c->now_us : h->start_us;
    return lacks ? h->start_us + START_REPEAT_US : UINT64_MAX;
}

static void poll(struct uw_cell *c)
{
    const struct uw_cell_message m = {.act = UW_CELL_POLL, .group = c->h.start.group,
                                      .round = c->h.start.round};
    if (c->h.polls++ == 0) {
        c->h.poll_us = c->now_us;
    }
    c->h.again_us = c->now_us + uw_cell_poll_us(c);
    send_to_ranks(c, &m);
}

/* Decide a lost head's round, when all remaining ranks have answered or timed out. */
static void settle(struct uw_cell *c, const struct uw_cell_tally *t, uint32_t lost)
{
    bool commit = t->prepared_n == t->left_n && 2u * t->prepared_n > t->ranks_n;
    decide(c, commit, lost, NULL);
}

static void report_broken(struct uw_cell *c, uint32_t a, uint32_t b)
{
    c->config.report(c->config.arg, &(struct uw_cell_news){.kind = UW_CELL_NEWS_BROKEN, .id = a,
                                                           .other = b});
}

/* Report pairs of which one rank has ended the round because it does not hear the other, as its
 * next READY will say. Returns whether there is one. */
static bool report_unheard(struct uw_cell *c)
{
    bool some = false;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        const struct uw_cell_seat *s = &c->h.seats[i];
        if (s->ranked && s->unheard != UW_CELL_NOBODY) {
            report_broken(c, s->id, s->unheard);
            some = true;
        }
    }
    return some;
}

/* All ranks answer, but a round does not end: two of them do not hear each other. */
static void give_up_stalled(struct uw_cell *c)
{
    struct uw_cell_message m = {.ids_n = 2};
    if (!c->h.start.direct) {
        m.ids[1] = uw_cell_culprit(c, &m.ids[0], &m.step);
        m.step = m.step <= ARRIVED_MOST && c->h.start.stream_n == 0 && c->h.gap_us < GAP_CLEAN_US;
    }
    if (m.ids[1] == UW_CELL_NOBODY || m.ids[1] == m.ids[0]) {
        decide(c, false, m.ids[0], NULL);
        return;
    }
    report_broken(c, m.ids[0], m.ids[1]);
    decide(c, false, UW_CELL_NOBODY, &m);
}

/* A round that makes progress has time, up to the longest that is configured. */
static void extend(struct uw_cell *c, const struct uw_cell_tally *t)
{
    struct uw_cell_head *h = &c->h;
    if (t->progress == h->progress || h->start.direct || h->taken_over) {
        return;
    }
    uint64_t gap_us = c->now_us - h->progress_us;
    h->gap_us = gap_us > h->gap_us ? gap_us : h->gap_us - (h->gap_us - gap_us) / GAP_PARTS;
    h->progress_us = c->now_us;
    h->progress = t->progress;
    h->polls = 0;
    uint64_t wait_us = uw_min_u64(GAP_TIMES * h->gap_us, GAP_MOST_US);
    wait_us = uw_max_u64(wait_us, ROUND_MIN_US);
    h->deadline_us = uw_min_u64(c->now_us + wait_us, h->started_us + c->config.round_us);
}

/* Poll the ranks when the round is late, or early if one is silent: the others need not wait for it
 * until then. Returns the time of the next call; 0: all polls are sent and over. */
static uint64_t wait_for_ranks(struct uw_cell *c, const struct uw_cell_tally *t)
{
    struct uw_cell_head *h = &c->h;
    bool late = c->now_us >= h->deadline_us;
    h->moved_us = t->progress != h->seen ? c->now_us : h->moved_us;
    h->seen = t->progress;
    uint64_t stall_us = h->moved_us + uw_cell_stall_us(c);
    if (h->polls != 0 && !late && t->silent == UW_CELL_NOBODY && !t->out_of_reach) {
        h->polls = 0;       /* all have answered */
        h->moved_us = c->now_us;
        return c->now_us;
    }
    if (h->polls == 0 && !late && !t->out_of_reach && c->now_us < stall_us) {
        return uw_min_u64(start_again(c), uw_min_u64(h->deadline_us, stall_us));
    }
    if (h->polls != 0 && c->now_us < h->again_us) {
        return h->again_us;
    }
    bool over = late || t->out_of_reach || c->now_us >= h->poll_us + uw_cell_silent_us(c);
    bool answered = h->polls != 0 && t->silent == UW_CELL_NOBODY && !h->taken_over;
    if (!(late && answered) && (h->polls < UW_CELL_POLLS_MAX || !over)) {
        poll(c);
        return h->again_us;
    }
    return 0;
}

static uint64_t watch(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    uw_cell_send_state(c, c->config.self, h->start.group, h->start.round);
    struct uw_cell_tally t = uw_cell_count(c);
    extend(c, &t);
    if (t.committed || t.aborted) {
        bool apart = !t.committed && report_unheard(c);
        decide(c, t.committed, h->taken_over ? h->lost : apart ? UW_CELL_NOBODY : t.aborter, NULL);
        return c->now_us;
    }
    if (t.prepared_n == t.ranks_n) {
        decide(c, true, UW_CELL_NOBODY, NULL);
        return c->now_us;
    }
    if (t.gone != UW_CELL_NOBODY && !h->taken_over) {
        decide(c, false, t.gone, NULL);
        return c->now_us;
    }
    if (h->taken_over && h->polls != 0 && t.answered_n == t.left_n && t.silent == UW_CELL_NOBODY) {
        settle(c, &t, h->lost);
        return c->now_us;
    }
    uint64_t next_us = wait_for_ranks(c, &t);
    if (next_us != 0) {
        return next_us;
    }
    if (h->taken_over) {
        settle(c, &t, h->lost);
    } else if (t.silent != UW_CELL_NOBODY) {
        decide(c, false, t.silent, NULL);
    } else {
        give_up_stalled(c);
    }
    return c->now_us;
}

void uw_cell_take_over(struct uw_cell *c, uint32_t lost)
{
    struct uw_cell_head *h = &c->h;
    h->start = (struct uw_cell_message){.act = UW_CELL_START, .group = c->group,
                                        .round = c->round, .kind = c->kind,
                                        .direct = c->direct,
                                        .ids_n = c->ranks_n};
    memcpy(h->start.ids, c->ranks, c->ranks_n * sizeof c->ranks[0]);
    h->lost = lost;
    begin_watch(c, true);
    uw_cell_head_gone(c, lost);
}

bool uw_cell_owes(const struct uw_cell *c)
{
    bool owes = false;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        owes = owes || c->h.seats[i].uninformed;
    }
    return owes && c->now_us < c->h.decided_us + OWES_US;
}

/* Poll ranks that may not know the last outcome; those that do not know it are informed. */
static uint64_t repeat_outcome(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    const struct uw_cell_message m = {.act = UW_CELL_POLL, .group = h->start.group,
                                      .round = h->start.round};
    if (!uw_cell_owes(c)) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < h->seats_n && c->now_us >= h->informed_us + OWES_REPEAT_US; i++) {
        if (h->seats[i].uninformed) {
            c->config.send(c->config.arg, h->seats[i].id, &m);
        }
    }
    h->informed_us = c->now_us >= h->informed_us + OWES_REPEAT_US ? c->now_us : h->informed_us;
    return h->informed_us + OWES_REPEAT_US;
}

uint64_t uw_cell_run_head(struct uw_cell *c)
{
    if (c->h.deciding) {
        return watch(c);
    }
    uint64_t repeat_us = repeat_outcome(c), next_us = gather(c);
    return repeat_us < next_us ? repeat_us : next_us;
}
