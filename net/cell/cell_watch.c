/* SPDX-License-Identifier: Apache-2.0
 *
 * A head's part in a round that is under way: watch it, decide it, and see that all hear how. */
#include "cell_priv.h"

#include "base/backoff.h"

#include <string.h>

#define ROUND_MIN_US 2000000u
#define POLL_REPEAT_US 200000u
#define START_REPEAT_US 300000u     /* who has begun says so sooner */
#define POLLS_MAX 4u                /* unanswered questions that make a culprit */
#define AVOID_US 2000000u           /* doubles with each strike */
#define AVOID_DOUBLINGS 5u
#define OWES_US 3000000u            /* so long a head tells who may not have heard */
#define OWES_REPEAT_US 100000u

void uw_cell_watch_begin(struct uw_cell *c, bool taken_over)
{
    struct uw_cell_head *h = &c->h;
    h->deciding = true;
    h->taken_over = taken_over;
    h->started_us = h->start_us = c->now_us;
    h->deadline_us = c->now_us + (taken_over ? 0 : uw_deadline_us(&h->took, 4, 8, ROUND_MIN_US,
                                                                  c->config.round_us));
    h->poll_us = c->now_us;
    h->polls = h->progress = 0;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        h->seats[i].ranked = h->seats[i].gone = false;
    }
    for (uint32_t i = 0; i < h->start.ids_n; i++) {
        struct uw_cell_seat *s = uw_cell_seat_of(c, h->start.ids[i]);
        if (s != NULL) {
            s->ranked = true;
            s->ready = s->expected = false;
            s->status = UW_CELL_UNKNOWN;
            s->step = 0;
            s->heard_us = taken_over ? 0 : c->now_us;  /* only answers count */
        }
    }
}

static void decide(struct uw_cell *c, bool commit, uint32_t culprit)
{
    struct uw_cell_head *h = &c->h;
    h->deciding = false;
    h->committed = commit && !h->taken_over;
    for (uint32_t i = 0; i < h->seats_n; i++) {
        struct uw_cell_seat *s = &h->seats[i];
        if (s->id == culprit && culprit != c->config.self) {
            s->avoid_until_us = c->now_us + uw_backoff_us(AVOID_US, &s->strikes, AVOID_DOUBLINGS);
        } else if (commit && s->ranked) {
            s->strikes = 0;
        }
        s->untold = s->ranked && !s->gone && s->id != c->config.self && c->config.tells_all;
        s->ranked = false;
    }
    if (commit) {
        uw_deadline_add(&h->took, c->now_us - h->started_us);
    }
    const struct uw_cell_message m = {
        .act = UW_CELL_STATE, .group = h->start.group, .round = h->start.round,
        .status = commit ? UW_CELL_COMMITTED : UW_CELL_ABORTED, .culprit = culprit};
    uw_cell_send_to_ranks(c, &m);
    h->decided_us = h->told_us = c->now_us;
    enum uw_cell_status own = uw_cell_status_of(c, m.group, m.round);
    if (own == UW_CELL_RUNNING || own == UW_CELL_PREPARED) {
        uw_cell_decide(c, commit, culprit);
    } else if (h->start.ids_n > 1) {
        uw_cell_note(c, m.group, m.round, commit);
    }
}

/* To the ranks that are not known to have heard of the round. Returns when to look again. */
static uint64_t start_again(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    bool due = c->now_us >= h->start_us + START_REPEAT_US, lacks = false;
    for (uint32_t i = 0; i < h->seats_n && !h->taken_over; i++) {
        const struct uw_cell_seat *s = &h->seats[i];
        if (s->ranked && s->status == UW_CELL_UNKNOWN && s->id != c->config.self) {
            lacks = true;
            if (due) {
                uw_cell_send_start(c, s->id);
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
    c->h.deadline_us = c->now_us + POLL_REPEAT_US;
    uw_cell_send_to_ranks(c, &m);
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
    bool committed, aborted, out_of_reach;
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
    if (t.committed || t.aborted) {
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
        uint64_t again_us = start_again(c);
        return again_us < h->deadline_us ? again_us : h->deadline_us;
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
        decide(c, false, h->start.direct ? UW_CELL_NOBODY : whom_all_wait_for(c));
    }
    return c->now_us;
}

void uw_cell_head_take_over(struct uw_cell *c, uint32_t lost)
{
    struct uw_cell_head *h = &c->h;
    h->start = (struct uw_cell_message){.act = UW_CELL_START, .group = c->group,
                                        .round = c->round, .kind = c->kind,
                                        .direct = c->direct,
                                        .ids_n = c->ranks_n};
    memcpy(h->start.ids, c->ranks, c->ranks_n * sizeof c->ranks[0]);
    h->lost = lost;
    uw_cell_watch_begin(c, true);
    uw_cell_head_gone(c, lost);
}

bool uw_cell_owes(const struct uw_cell *c)
{
    bool owes = false;
    for (uint32_t i = 0; i < c->h.seats_n; i++) {
        owes = owes || c->h.seats[i].untold;
    }
    return owes && c->now_us < c->h.decided_us + OWES_US;
}

/* Ask those who may not know how the last round ended; who does not is told. */
static uint64_t tell_all(struct uw_cell *c)
{
    struct uw_cell_head *h = &c->h;
    const struct uw_cell_message m = {.act = UW_CELL_POLL, .group = h->start.group,
                                      .round = h->start.round};
    if (!uw_cell_owes(c)) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < h->seats_n && c->now_us >= h->told_us + OWES_REPEAT_US; i++) {
        if (h->seats[i].untold) {
            c->config.send(c->config.arg, h->seats[i].id, &m);
        }
    }
    h->told_us = c->now_us >= h->told_us + OWES_REPEAT_US ? c->now_us : h->told_us;
    return h->told_us + OWES_REPEAT_US;
}

uint64_t uw_cell_head_run(struct uw_cell *c)
{
    if (c->h.deciding) {
        return watch(c);
    }
    uint64_t tell_us = tell_all(c), next_us = uw_cell_gather(c);
    return tell_us < next_us ? tell_us : next_us;
}
