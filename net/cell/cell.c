/* SPDX-License-Identifier: Apache-2.0
 *
 * The members' side of a round. A head handles messages to itself directly. */
#include "cell_priv.h"

#include "base/backoff.h"
#include "base/bits.h"

#include <string.h>

#define READY_REPEAT_US 100000u
#define STATE_REPEAT_US 250000u
#define TRIES_DEFAULT 5u
#define LOST_WAITS 3u               /* no rank knows the outcome: the next one decides */
#define HOLD_MIN_US 50000u          /* a wait for START that training spends idle ... */
#define HOLD_MAX_US 300000u         /* ... is as long as such waits are, within these limits */
#define DEAF_LEAST 8u                /* nodes that READY lists, beside the ranks */

int uw_cell_place(struct uw_cell *c, struct uw_arena *arena, const struct uw_cell_config *config)
{
    void *seats = NULL;
    *c = (struct uw_cell){.config = *config, .head = UW_CELL_NOBODY,
                          .asks = config->incarnation * 0x9e3779b1u}; /* differs after a restart */
    c->config.tries_max = config->tries_max != 0 ? config->tries_max : TRIES_DEFAULT;
    int rc = uw_arena_take(arena, uw_size_mul(config->ranks_max, sizeof *c->h.seats), &seats);
    c->h.seats = seats;
    return rc;
}

void uw_cell_report(struct uw_cell *c, enum uw_cell_news_kind kind, uint32_t id)
{
    const struct uw_cell_news news = {.kind = kind, .id = id, .ranks_n = c->ranks_n,
                                      .duration_us = c->now_us - c->since_us};
    c->config.report(c->config.arg, &news);
}

/* The round goes on, or its decider is there. */
static void moves(struct uw_cell *c)
{
    c->moved_us = c->now_us;
    c->asked = 0;
}

static void send_to(struct uw_cell *c, uint32_t to, const struct uw_cell_message *m)
{
    if (to == c->config.self) {
        uw_cell_head_state(c, to, m);
    } else {
        c->config.send(c->config.arg, to, m);
    }
}

void uw_cell_send_state(struct uw_cell *c, uint32_t to, uint32_t group, uint32_t round)
{
    struct uw_cell_message m = {.act = UW_CELL_STATE, .group = group, .round = round,
                                .status = uw_cell_status_of(c, group, round)};
    m.direct = c->blameless && c->group == group && c->round == round;
    m.asks = to == c->decider && uw_cell_at_hand(c, group, round) ? c->asked : 0;
    if (m.status == UW_CELL_RUNNING) {
        uint32_t waits_for = UW_RANK_NONE;
        m.step = c->config.progress(c->config.arg, &waits_for);
        m.waits_for = waits_for < c->ranks_n ? c->ranks[waits_for] : UW_CELL_NOBODY;
    }
    send_to(c, to, &m);
}

bool uw_cell_is_over(const struct uw_cell *c, uint32_t group, uint32_t round)
{
    enum uw_cell_status status = uw_cell_status_of(c, group, round);
    return uw_cell_is_decided(status) || status == UW_CELL_PREPARED ||
           (c->group == group && round < c->round);
}

static void wait_for_start(struct uw_cell *c)
{
    c->state = UW_CELL_WAITING;
    c->asks++;
    c->since_us = c->repeat_us = c->held_us = c->now_us;
}

/* Stay out of rounds with a node for a while. */
static void part_from(struct uw_cell *c, uint32_t id, bool sure)
{
    struct uw_cell_apart *a = c->apart;
    for (uint32_t i = 1; i < UW_CELL_APART && a->id != id; i++) {
        struct uw_cell_apart *other = &c->apart[i];
        a = other->id == id || other->until_us < a->until_us ? other : a;
    }
    if (a->id != id) {
        *a = (struct uw_cell_apart){.id = id};
    }
    bool once = !sure && a->strikes == 0;
    uint64_t us = uw_backoff_us(UW_CELL_PART_US, &a->strikes, UW_CELL_AVOID_DOUBLINGS);
    a->until_us = c->now_us + (once ? UW_CELL_AVOID_US : us);
}

static void learn(struct uw_cell *c, bool commit, const struct uw_cell_message *m)
{
    for (uint32_t i = 0; i < 2u && m != NULL && m->ids_n == 2u; i++) {
        if (m->ids[i] == c->config.self && m->ids[1u - i] != UW_CELL_NOBODY) {
            part_from(c, m->ids[1u - i], m->step != 0);
        }
    }
    for (uint32_t i = 0; i < UW_CELL_APART && commit; i++) {
        if (uw_cell_lists(c->ranks, c->ranks_n, c->apart[i].id)) {
            c->apart[i] = (struct uw_cell_apart){.id = UW_CELL_NOBODY};
        }
    }
}

void uw_cell_conclude(struct uw_cell *c, bool commit, uint32_t culprit,
                      const struct uw_cell_message *m)
{
    learn(c, commit, m);
    /* A rank without a result cannot commit. */
    bool mine = commit && (c->state == UW_CELL_HAS_RESULT || c->ranks_n == 1);
    c->state = UW_CELL_IDLE;
    if (c->ranks_n > 1) {
        uw_cell_note(c, c->group, c->round, mine);      /* rounds of one are never polled */
    }
    uw_cell_report(c, mine ? UW_CELL_NEWS_COMMITTED : UW_CELL_NEWS_ABORTED,
                   commit ? c->config.self : culprit);
    if (mine) {
        if (c->ranks_n > 1) {
            uw_deadline_add(&c->took, c->now_us - c->since_us);
        }
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

/* Handle a START, maybe of this node itself. */
void uw_cell_begin(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
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
        uw_cell_send_state(c, from, m->group, m->round);
        if (c->state == UW_CELL_WAITING && m->asks == c->asks && m->kind >= UW_ALLREDUCE_KINDS_N) {
            c->state = UW_CELL_IDLE;
            uw_cell_report(c, UW_CELL_NEWS_UNABLE, c->config.self);
            c->config.give_up(c->config.arg);
        }
        return;
    }
    bool same = m->ids_n == c->ranks_n &&
                memcmp(m->ids, c->ranks, m->ids_n * sizeof m->ids[0]) == 0;
    if (same || !c->lent) {     /* else it waited for a node that is gone */
        uw_deadline_add(&c->waits, c->now_us - c->since_us);
    }
    c->state = UW_CELL_IN_ROUND;
    c->group = m->group;
    c->round = m->round;
    c->decider = from;
    c->kind = m->kind;
    c->direct = c->blameless = m->direct;
    c->unequal = m->step != 0;
    memcpy(c->hints, m->hints, sizeof c->hints);
    c->chunk_n = m->chunk_n;
    c->stream_n = m->stream_n;
    c->rank = rank;
    c->ranks_n = m->ids_n;
    c->met = true;
    memcpy(c->ranks, m->ids, m->ids_n * sizeof m->ids[0]);
    c->since_us = c->now_us;
    c->step = 0;
    moves(c);
    c->repeat_us = c->now_us + STATE_REPEAT_US;
    if (c->ranks_n > 1) {
        c->config.begin(c->config.arg);
        if (c->decider != c->config.self) {
            uw_cell_send_state(c, c->decider, c->group, c->round);
        }
    } else {
        c->state = UW_CELL_HAS_RESULT;
    }
}

/* The decider is lost: the next rank in order succeeds it, maybe this node. If the decider has
 * forgotten the round, because this node was away for long, this node polls the ranks itself. */
static void succeed(struct uw_cell *c, bool forgotten)
{
    uint32_t lost = c->decider;
    uint32_t next = forgotten ? c->config.self : uw_cell_best(c, true, lost);
    c->asked = 0;
    if (next == UW_CELL_NOBODY || next == c->config.self) {
        c->decider = c->config.self;
        uw_cell_report(c, UW_CELL_NEWS_TAKEN_OVER, lost);
        uw_cell_take_over(c, lost);
    } else {
        c->decider = next;
        c->repeat_us = c->now_us;
    }
}

void uw_cell_members(struct uw_cell *c, const struct uw_cell_member *members, uint32_t members_n)
{
    c->members = members;
    c->members_n = members_n;
    uint32_t head = uw_cell_best(c, false, UW_CELL_NOBODY);
    if (head != c->head) {
        c->head = head;
        c->repeat_us = c->state == UW_CELL_WAITING ? c->now_us : c->repeat_us;
    }
    if (head != c->reported_head && (members_n > 1 || head != c->config.self)) {
        c->reported_head = head;
        uw_cell_report(c, UW_CELL_NEWS_HEAD, head);
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
    if (uw_cell_in_round(c) && id == c->decider && id != c->config.self) {
        succeed(c, false);
    }
}

void uw_cell_ask(struct uw_cell *c, float rms, uint64_t now_us)
{
    c->rms = rms;
    c->now_us = now_us;
    c->tries = 0;
    c->lent = false;
    wait_for_start(c);
}

void uw_cell_hold(struct uw_cell *c, uint64_t now_us)
{
    c->lent = false;
    c->held_us = now_us;
}

void uw_cell_prepared(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->state == UW_CELL_IN_ROUND) {
        c->state = UW_CELL_HAS_RESULT;
        c->repeat_us = now_us + STATE_REPEAT_US;
        uw_cell_send_state(c, c->decider, c->group, c->round);
    }
}

/* culprit: this node, if it leaves the round; a rank that it does not hear. blameless: nobody. */
static void end_round(struct uw_cell *c, uint32_t culprit, bool blameless)
{
    uint32_t decider = c->decider;
    struct uw_cell_message m = {.act = UW_CELL_STATE, .group = c->group, .round = c->round,
                                .status = UW_CELL_ABORTED, .culprit = culprit};
    const struct uw_cell_message pair = {.ids_n = 2, .ids = {c->config.self, culprit}};
    uw_cell_conclude(c, false, culprit, culprit != c->config.self ? &pair : NULL);
    c->direct = c->direct && culprit == UW_CELL_NOBODY;
    c->blameless = m.direct = blameless || c->direct;
    send_to(c, decider, &m);
}

void uw_cell_refuse(struct uw_cell *c, bool blameless, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->state == UW_CELL_IN_ROUND) {
        end_round(c, UW_CELL_NOBODY, blameless);
    }
}

uint32_t uw_cell_deaf(const struct uw_cell *c, uint64_t now_us, uint32_t ids[UW_CELL_DEAF_MAX])
{
    uint32_t n = c->config.deaf != NULL ? c->config.deaf(c->config.arg, ids) : 0;
    for (uint32_t i = 0; i < UW_CELL_APART && n < UW_CELL_DEAF_MAX; i++) {
        const struct uw_cell_apart *a = &c->apart[i];
        bool apart = a->id != UW_CELL_NOBODY &&
                     (now_us < a->until_us || !uw_cell_reaches(c, a->id));
        if (apart && !uw_cell_lists(ids, n, a->id)) {
            ids[n++] = a->id;
        }
    }
    return n;
}

static void send_ready(struct uw_cell *c, enum uw_cell_status status)
{
    struct uw_cell_message m = {.act = UW_CELL_READY, .status = status,
                                .kind = c->wary ? UW_ALLREDUCE_SWEEP : UW_ALLREDUCE_TREE,
                                .incarnation = c->config.incarnation, .rms = c->rms,
                                .asks = c->asks, .chunk_n = c->config.chunk_n,
                                .stream_n = c->config.stream_n,
                                .ids_n = c->met ? c->ranks_n : 0};
    memcpy(m.ids, c->ranks, m.ids_n * sizeof m.ids[0]);
    /* A message takes so many identities (node_averages.c). */
    uint32_t most = c->config.ranks_max - m.ids_n + DEAF_LEAST;
    m.deaf_n = uw_min_u32(uw_cell_deaf(c, c->now_us, m.deaf), most);
    if (c->head == c->config.self) {
        uw_cell_head_ready(c, c->head, &m);
    } else if (c->head != UW_CELL_NOBODY) {
        c->config.send(c->config.arg, c->head, &m);
    }
}

void uw_cell_go_without(struct uw_cell *c, uint32_t culprit)
{
    bool own = culprit == c->config.self;
    c->state = UW_CELL_IDLE;
    uw_cell_report(c, own                         ? UW_CELL_NEWS_OUTLIER
                      : culprit == UW_CELL_NOBODY ? UW_CELL_NEWS_FULL
                                                  : UW_CELL_NEWS_APART,
                   culprit != UW_CELL_NOBODY ? culprit : c->config.self);
    c->config.give_up(c->config.arg);
}

void uw_cell_withdraw(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->state == UW_CELL_IN_ROUND) {
        c->tries = c->config.tries_max;
        end_round(c, c->config.self, false);
        return;
    }
    if (c->state == UW_CELL_WAITING) {
        c->state = UW_CELL_IDLE;
        send_ready(c, UW_CELL_ABORTED);
        c->config.give_up(c->config.arg);
    }
}

void uw_cell_leave(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    if (c->met && c->state == UW_CELL_IDLE) {
        send_ready(c, UW_CELL_ABORTED);
    }
}

static void receive_state(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
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
            uw_cell_go_without(c, m->culprit);
        }
        return;
    }
    uw_cell_head_state(c, from, m);
    if (!uw_cell_at_hand(c, m->group, m->round) || c->decider == c->config.self) {
        return;
    }
    if (uw_cell_is_decided(m->status)) {
        uw_cell_conclude(c, m->status == UW_CELL_COMMITTED, m->culprit, m);
    } else if (m->status == UW_CELL_UNKNOWN && from == c->decider) {
        succeed(c, true);
    }
}

static void receive_poll(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m)
{
    if (uw_cell_status_of(c, m->group, m->round) == UW_CELL_UNKNOWN) {
        uw_cell_note(c, m->group, m->round, false);     /* nor join it later */
    } else if (uw_cell_at_hand(c, m->group, m->round) && uw_cell_ranks(c, from) &&
               c->decider != c->config.self) {
        c->decider = from;
        moves(c);
    }
    uw_cell_send_state(c, from, m->group, m->round);
}

void uw_cell_receive(struct uw_cell *c, uint32_t from, const struct uw_cell_message *m,
                     uint64_t now_us)
{
    c->now_us = now_us;
    if (from == c->config.self || m->ids_n > UW_CELL_RANKS_MAX) {
        return;
    }
    bool decides = from == c->decider && (m->act == UW_CELL_START || m->act == UW_CELL_POLL);
    if (decides) {
        moves(c);
    }
    switch (m->act) {
    case UW_CELL_READY: uw_cell_head_ready(c, from, m); break;
    case UW_CELL_START: uw_cell_begin(c, from, m); break;
    case UW_CELL_STATE: receive_state(c, from, m); break;
    case UW_CELL_POLL: receive_poll(c, from, m); break;
    case UW_CELL_BUSY:
    default: break;
    }
}

/* Longest wait for a round: the head may be in one, and gather twice. */
static uint64_t patience_us(const struct uw_cell *c)
{
    return c->config.round_us + 2u * c->config.gather_us;
}

/* The rank that this node waits for, if it does not hear it. */
static uint32_t unheard_rank(const struct uw_cell *c)
{
    uint32_t waits_for = UW_RANK_NONE;
    if (c->state != UW_CELL_IN_ROUND || c->direct) {
        return UW_CELL_NOBODY;
    }
    (void)c->config.progress(c->config.arg, &waits_for);
    return waits_for < c->ranks_n && !uw_cell_reaches(c, c->ranks[waits_for]) ? c->ranks[waits_for]
                                                                              : UW_CELL_NOBODY;
}

/* Let training go on while this node waits for START longer than usual. Training waits for a first
 * round with first_n. */
static void lend(struct uw_cell *c)
{
    uint64_t most_us = uw_deadline_us(&c->waits, 2, 4, HOLD_MIN_US, HOLD_MAX_US);
    bool may = c->config.lend != NULL && !c->lent && (c->met || c->config.first_n == 0);
    if (may && c->now_us - c->held_us > most_us) {
        c->lent = true;
        c->config.lend(c->config.arg);
    }
}

/* Is the round at a standstill, and the decider did not poll this node since? */
static bool stands_still(struct uw_cell *c)
{
    uint32_t waits_for, step = c->config.progress(c->config.arg, &waits_for);
    if (step != c->step) {
        moves(c);
    }
    c->step = step;
    return c->decider != c->config.self && !c->lent && !c->direct && !c->config.patient &&
           c->now_us - c->moved_us > uw_cell_stall_us(c);
}

/* Ask all ranks for the outcome, when the decider does not tell it. */
static void ask_ranks(struct uw_cell *c)
{
    for (uint32_t i = 0; i < c->ranks_n; i++) {
        if (c->ranks[i] != c->config.self && c->ranks[i] != c->decider) {
            uw_cell_send_state(c, c->ranks[i], c->group, c->round);
        }
    }
}

static void run_member(struct uw_cell *c)
{
    if (c->state == UW_CELL_WAITING) {
        lend(c);
        if (c->now_us - c->since_us > patience_us(c)) {
            c->state = UW_CELL_IDLE;
            c->config.give_up(c->config.arg);
        } else if (c->now_us >= c->repeat_us) {
            c->repeat_us = c->now_us + READY_REPEAT_US;
            send_ready(c, UW_CELL_UNKNOWN);
        }
        return;
    }
    if (!uw_cell_in_round(c)) {
        return;
    }
    bool still = stands_still(c);
    bool lost = still && c->asked >= UW_CELL_POLLS_MAX &&
                c->now_us - c->moved_us > uw_cell_stall_us(c) + uw_cell_silent_us(c);
    if (c->now_us - c->since_us > 2u * c->config.round_us) {
        uw_cell_conclude(c, false, c->decider, NULL);
    } else if (c->state == UW_CELL_IN_ROUND && c->decider != c->config.self &&
               !uw_cell_reaches(c, c->decider)) {
        /* Without this node's result there is no commit: giving up is safe. */
        succeed(c, false);
    } else if (lost && c->state == UW_CELL_IN_ROUND) {
        end_round(c, c->decider, false);
    } else if (lost && c->ranks_n > 2u &&
               c->now_us - c->moved_us > LOST_WAITS * uw_cell_silent_us(c)) {
        c->moved_us = c->now_us;
        succeed(c, false);
    } else if (c->now_us >= c->repeat_us || (still && c->asked == 0)) {
        c->asked += still;
        c->repeat_us = c->now_us + (still ? uw_cell_poll_us(c) : STATE_REPEAT_US);
        if (lost) {
            ask_ranks(c);
        }
        bool long_enough = c->now_us - c->since_us > UW_CELL_UNHEARD_US;
        uint32_t unheard = long_enough ? unheard_rank(c) : UW_CELL_NOBODY;
        if (unheard != UW_CELL_NOBODY) {
            end_round(c, unheard, false);
            return;
        }
        uw_cell_send_state(c, c->decider, c->group, c->round);
    }
}

uint64_t uw_cell_run(struct uw_cell *c, uint64_t now_us)
{
    c->now_us = now_us;
    run_member(c);
    uint64_t next_us = uw_cell_run_head(c), still_us = c->moved_us + uw_cell_stall_us(c) + 1u;
    if (uw_cell_in_round(c) && c->asked == 0 && still_us > now_us && still_us < next_us) {
        next_us = still_us;
    }
    if (c->state != UW_CELL_IDLE && c->repeat_us < next_us) {
        next_us = c->repeat_us;
    }
    return next_us;
}
