/* SPDX-License-Identifier: Apache-2.0 */
#include "cell_priv.h"

#include <string.h>

#define READY_REPEAT_US 100000u
#define STATE_REPEAT_US 250000u
#define TRIES_DEFAULT 5u

int uw_cell_place(struct uw_cell *c, struct uw_arena *arena, const struct uw_cell_config *config)
{
    void *seats = NULL;
    *c = (struct uw_cell){.config = *config, .head = UW_CELL_NOBODY,
                          .asks = config->incarnation * 0x9e3779b1u}; /* of no other life */
    c->config.tries_max = config->tries_max != 0 ? config->tries_max : TRIES_DEFAULT;
    int rc = uw_arena_take(arena, uw_size_mul(config->ranks_max, sizeof *c->h.seats), &seats);
    c->h.seats = seats;
    return rc;
}

const struct uw_cell_member *uw_cell_find(const struct uw_cell *c, uint32_t id)
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
    const struct uw_cell_member *m = uw_cell_find(c, id);
    return id == c->config.self || (m != NULL && m->usable);
}

bool uw_cell_ranks(const struct uw_cell *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->ranks_n; i++) {
        if (c->ranks[i] == id) {
            return true;
        }
    }
    return false;
}

void uw_cell_tell(struct uw_cell *c, enum uw_cell_news_kind kind, uint32_t id)
{
    const struct uw_cell_news news = {.kind = kind, .id = id, .ranks_n = c->ranks_n,
                                      .duration_us = c->now_us - c->since_us};
    c->config.tell(c->config.arg, &news);
}

/* Of those reached, with `ranks` only those of the round, the one to be head; UW_CELL_NOBODY: none
 * but `not`. Identities go up. */
static uint32_t best(const struct uw_cell *c, bool ranks, uint32_t not)
{
    const struct uw_cell_member *best = NULL;
    for (uint32_t i = 0; i < c->members_n; i++) {
        const struct uw_cell_member *m = &c->members[i];
        if (m->id != not && uw_cell_reaches(c, m->id) && (!ranks || uw_cell_ranks(c, m->id)) &&
            (best == NULL || m->weight > best->weight)) {
            best = m;
        }
    }
    return best != NULL ? best->id : UW_CELL_NOBODY;
}

static bool in_round(const struct uw_cell *c)
{
    return c->state == UW_CELL_IN_ROUND || c->state == UW_CELL_HAS_RESULT;
}

static bool at_hand(const struct uw_cell *c, uint32_t group, uint32_t round)
{
    return in_round(c) && c->group == group && c->round == round;
}

enum uw_cell_status uw_cell_status_of(const struct uw_cell *c, uint32_t group, uint32_t round)
{
    if (at_hand(c, group, round)) {
        return c->state == UW_CELL_HAS_RESULT ? UW_CELL_PREPARED : UW_CELL_RUNNING;
    }
    for (uint32_t i = 0; i < c->log_n; i++) {
        if (c->log[i].group == group && c->log[i].round == round) {
            return c->log[i].committed ? UW_CELL_COMMITTED : UW_CELL_ABORTED;
        }
    }
    return UW_CELL_UNKNOWN;
}

/* Where to note a decision: two of a group are enough, and those of others stay. A head that stood
 * still in a round must not find it forgotten when it goes on, however many there were since. */
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
    enum uw_cell_status status = uw_cell_status_of(c, group, round);
    if (status != UW_CELL_COMMITTED && status != UW_CELL_ABORTED) {
        uint32_t at = place_in_log(c, group);
        c->log[at].group = group;
        c->log[at].round = round;
        c->log[at].committed = committed;
        c->log[at].at = c->noted_n++;
    }
}

void uw_cell_say(struct uw_cell *c, uint32_t to, uint32_t group, uint32_t round)
{
    struct uw_cell_message m = {.act = UW_CELL_STATE, .group = group, .round = round,
                                .status = uw_cell_status_of(c, group, round)};
    m.direct = c->direct && c->group == group && c->round == round;
    if (m.status == UW_CELL_RUNNING) {
        uint32_t waits_for = UW_RANK_NONE;
        m.step = c->config.progress(c->config.arg, &waits_for);
        m.waits_for = waits_for < c->ranks_n ? c->ranks[waits_for] : UW_CELL_NOBODY;
    }
    if (to == c->config.self) {
        uw_cell_head_state(c, to, &m);
    } else {
        c->config.send(c->config.arg, to, &m);
    }
}

bool uw_cell_is_over(const struct uw_cell *c, uint32_t group, uint32_t round)
{
    enum uw_cell_status status = uw_cell_status_of(c, group, round);
    return status == UW_CELL_COMMITTED || status == UW_CELL_ABORTED || status == UW_CELL_PREPARED ||
           (c->group == group && round < c->round);
}

static void wait_for_start(struct uw_cell *c)
{
    c->state = UW_CELL_WAITING;
    c->asks++;
    c->since_us = c->repeat_us = c->now_us;
}

void uw_cell_decide(struct uw_cell *c, bool commit, uint32_t culprit)
{
    /* Whoever has no result cannot take it, whatever the others do. */
    bool mine = commit && (c->state == UW_CELL_HAS_RESULT || c->ranks_n == 1);
    c->state = UW_CELL_IDLE;
    if (c->ranks_n > 1) {
        uw_cell_note(c, c->group, c->round, mine);      /* nobody asks about the others */
    }
    uw_cell_tell(c, mine ? UW_CELL_NEWS_COMMITTED : UW_CELL_NEWS_ABORTED,
                 commit ? c->config.self : culprit);
    if (mine) {
        c->config.decided(c->config.arg, true, culprit);
        return;
    }
    c->config.decided(c->config.arg, false, commit ? c->config.self : culprit);
    if (++c->tries < c->config.tries_max) {
        wait_for_start(c);
    } else {
        c->config.give_up(c->config.arg);
    }
}

void uw_cell_start(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    enum uw_cell_status status = uw_cell_status_of(c, m->group, m->round);
    if (status == UW_CELL_RUNNING || status == UW_CELL_PREPARED) {
        return;
    }
    uint32_t rank = 0;
    while (rank < m->ids_n && m->ids[rank] != c->config.self) {
        rank++;
    }
    bool of_last_life = m->asks != 0 && m->asks != c->asks;
    if (status != UW_CELL_UNKNOWN || c->state != UW_CELL_WAITING || rank == m->ids_n ||
        of_last_life || m->ids_n > c->config.ranks_max || m->kind >= UW_ALLREDUCE_KINDS_N) {
        uw_cell_note(c, m->group, m->round, false);
        uw_cell_say(c, from, m->group, m->round);
        if (c->state == UW_CELL_WAITING && m->asks == c->asks && m->kind >= UW_ALLREDUCE_KINDS_N) {
            uw_cell_refused(c, UW_CELL_NEWS_UNABLE);
        }
        return;
    }
    c->state = UW_CELL_IN_ROUND;
    c->group = m->group;
    c->round = m->round;
    c->decider = from;
    c->kind = m->kind;
    c->direct = m->direct;
    memcpy(c->hints, m->hints, sizeof c->hints);
    c->chunk_n = m->chunk_n;
    c->stream_n = m->stream_n;
    c->rank = rank;
    c->ranks_n = m->ids_n;
    c->met = true;
    memcpy(c->ranks, m->ids, m->ids_n * sizeof m->ids[0]);
    c->since_us = c->now_us;
    c->repeat_us = c->now_us + STATE_REPEAT_US;
    if (c->ranks_n > 1) {
        c->config.begin(c->config.arg);
    } else {
        c->state = UW_CELL_HAS_RESULT;
    }
}

/* The one who decides is lost: the next in order does, this node for one. Or it has forgotten the
 * round, as who was away for long may learn: then this node asks around itself. */
static void succeed(struct uw_cell *c, bool forgotten)
{
    uint32_t lost = c->decider;
    uint32_t next = forgotten ? c->config.self : best(c, true, lost);
    if (next == UW_CELL_NOBODY || next == c->config.self) {
        c->decider = c->config.self;
        uw_cell_tell(c, UW_CELL_NEWS_TAKEN_OVER, lost);
        uw_cell_head_take_over(c, lost);
    } else {
        c->decider = next;
        c->repeat_us = c->now_us;
    }
}

void uw_cell_members(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n)
{
    c->members = members;
    c->members_n = members_n;
    uint32_t head = best(c, false, UW_CELL_NOBODY);
    if (head != c->head) {
        c->head = head;
        c->repeat_us = c->state == UW_CELL_WAITING ? c->now_us : c->repeat_us;
    }
    if (head != c->told_head && (members_n > 1 || head != c->config.self)) {
        c->told_head = head;
        uw_cell_tell(c, UW_CELL_NEWS_HEAD, head);
    }
}

void uw_cell_regroup(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n,
                     uint64_t now_us)
{
    c->now_us = now_us;
    c->met = c->h.committed = c->h.deciding = false;
    c->h.seats_n = 0;
    uw_cell_members(c, members, members_n);
    if (c->state == UW_CELL_WAITING) {
        wait_for_start(c);
    }
}

void uw_cell_gone(struct uw_cell *c, uint32_t id, uint64_t now_us)
{
    c->now_us = now_us;
    uw_cell_head_gone(c, id);
    if (in_round(c) && id == c->decider && id != c->config.self) {
        succeed(c, false);
    }
}

void uw_cell_ask(struct uw_cell *c, float rms, uint64_t now_us)
{
    c->rms = rms;
    c->now_us = now_us;
    c->tries = 0;
    wait_for_start(c);
}

void uw_cell_prepared(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->state == UW_CELL_IN_ROUND) {
        c->state = UW_CELL_HAS_RESULT;
        c->repeat_us = now_us + STATE_REPEAT_US;
        uw_cell_say(c, c->decider, c->group, c->round);
    }
}

/* culprit: this node, if it has no more to do with the round, devices or not. */
static void end_round(struct uw_cell *c, uint32_t culprit)
{
    uint32_t decider = c->decider, group = c->group, round = c->round;
    uw_cell_decide(c, false, culprit);
    c->direct = c->direct && culprit == UW_CELL_NOBODY;
    uw_cell_say(c, decider, group, round);
}

void uw_cell_refuse(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->state == UW_CELL_IN_ROUND) {
        end_round(c, UW_CELL_NOBODY);
    }
}

static void say_ready(struct uw_cell *c, enum uw_cell_status status)
{
    struct uw_cell_message m = {.act = UW_CELL_READY, .status = status,
                                .incarnation = c->config.incarnation, .rms = c->rms,
                                .asks = c->asks, .chunk_n = c->config.chunk_n,
                                .stream_n = c->config.stream_n,
                                .ids_n = c->met ? c->ranks_n : 0};
    memcpy(m.ids, c->ranks, m.ids_n * sizeof m.ids[0]);
    if (c->head == c->config.self) {
        uw_cell_head_ready(c, c->head, &m);
    } else if (c->head != UW_CELL_NOBODY) {
        c->config.send(c->config.arg, c->head, &m);
    }
}

void uw_cell_refused(struct uw_cell *c, enum uw_cell_news_kind why)
{
    c->state = UW_CELL_IDLE;
    uw_cell_tell(c, why, c->config.self);
    c->config.give_up(c->config.arg);
}

void uw_cell_withdraw(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->state == UW_CELL_IN_ROUND) {
        c->tries = c->config.tries_max;
        end_round(c, c->config.self);
        return;
    }
    if (c->state == UW_CELL_WAITING) {
        c->state = UW_CELL_IDLE;
        say_ready(c, UW_CELL_ABORTED);
        c->config.give_up(c->config.arg);
    }
}

static void take_state(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    if (m->group == 0 && m->status == UW_CELL_ABORTED && c->state == UW_CELL_WAITING &&
        from == c->head) {
        if (m->asks != c->asks) {
            return;     /* of a wait that is over */
        }
        if (m->culprit == from) {
            c->state = UW_CELL_IDLE;
            c->config.give_up(c->config.arg);
        } else {
            uw_cell_refused(c, m->culprit == c->config.self ? UW_CELL_NEWS_OUTLIER
                                                            : UW_CELL_NEWS_FULL);
        }
        return;
    }
    uw_cell_head_state(c, from, m);
    if (!at_hand(c, m->group, m->round) || c->decider == c->config.self) {
        return;
    }
    if (m->status == UW_CELL_COMMITTED || m->status == UW_CELL_ABORTED) {
        uw_cell_decide(c, m->status == UW_CELL_COMMITTED, m->culprit);
    } else if (m->status == UW_CELL_UNKNOWN && from == c->decider) {
        succeed(c, true);
    }
}

static void take_poll(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    if (uw_cell_status_of(c, m->group, m->round) == UW_CELL_UNKNOWN) {
        uw_cell_note(c, m->group, m->round, false);     /* nor will it take part any more */
    } else if (at_hand(c, m->group, m->round) && uw_cell_ranks(c, from) &&
               c->decider != c->config.self) {
        c->decider = from;
    }
    uw_cell_say(c, from, m->group, m->round);
}

void uw_cell_take(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m,
                  uint64_t now_us)
{
    c->now_us = now_us;
    if (from == c->config.self || m->ids_n > UW_CELL_RANKS_MAX) {
        return;
    }
    switch (m->act) {
    case UW_CELL_READY: uw_cell_head_ready(c, from, m); break;
    case UW_CELL_START: uw_cell_start(c, from, m); break;
    case UW_CELL_STATE: take_state(c, from, m); break;
    case UW_CELL_POLL: take_poll(c, from, m); break;
    case UW_CELL_BUSY:
    default: break;
    }
}

/* Longest time to wait for a round: the head may be in one, and gather twice. */
static uint64_t patience_us(const struct uw_cell *c)
{
    return c->config.round_us + 2u * c->config.gather_us;
}

static void run_member(struct uw_cell *c)
{
    if (c->state == UW_CELL_WAITING) {
        if (c->now_us - c->since_us > patience_us(c)) {
            c->state = UW_CELL_IDLE;
            c->config.give_up(c->config.arg);
        } else if (c->now_us >= c->repeat_us) {
            c->repeat_us = c->now_us + READY_REPEAT_US;
            say_ready(c, UW_CELL_UNKNOWN);
        }
        return;
    }
    if (!in_round(c)) {
        return;
    }
    if (c->now_us - c->since_us > 2u * c->config.round_us) {
        uw_cell_decide(c, false, c->decider);
    } else if (c->state == UW_CELL_IN_ROUND && c->decider != c->config.self &&
               !uw_cell_reaches(c, c->decider)) {
        /* Without this node's result nothing can be committed: giving up is safe. Once it has told
         * that it has one, only the loss of the decider (uw_cell_gone) or the limit above sets it
         * free. */
        succeed(c, false);
    } else if (c->now_us >= c->repeat_us) {
        c->repeat_us = c->now_us + STATE_REPEAT_US;
        uw_cell_say(c, c->decider, c->group, c->round);
    }
}

uint64_t uw_cell_run(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    run_member(c);
    uint64_t next_us = uw_cell_head_run(c);
    if (c->state != UW_CELL_IDLE && c->repeat_us < next_us) {
        next_us = c->repeat_us;
    }
    return next_us;
}
