/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "uwasa/board.h"
#include "uwasa/node_broadcast.h"

#include <string.h>

#define LONELY_US 1000000u
#define SLACK_US 5000000u           /* added to the time allowed for an average at the end */
#define STOOD_US 500000u            /* a longer gap: the process was stopped or machine busy */
#define LAST_AVERAGES 50u           /* limit of averages by broadcast, if no time is given */

/* alive: nodes received from recently; silent: formerly alive. training: those of these that have
 * not reported their end; a new node without a snapshot counts, as it will train. left: said
 * goodbye; dead: ended without. */
struct others {
    uint32_t alive, silent, training, left, dead;
    struct uw_node_counters counters;       /* of this node */
};

static struct others look(struct uw_node_work *r)
{
    struct others o = {0};
    const struct uw_node_member *rows;
    uint32_t n = uw_node_net_members(&r->net, &rows, &o.counters);
    for (uint32_t i = 1; i < n; i++) {
        bool here = rows[i].state == UW_MEMBER_ALIVE || rows[i].state == UW_MEMBER_SUSPECT;
        bool alive = here && rows[i].same_model;
        bool trains = rows[i].samples_per_s > 0.0f || rows[i].version == 0;
        o.alive += alive ? 1u : 0u;
        o.silent += alive && rows[i].state == UW_MEMBER_SUSPECT ? 1u : 0u;
        o.training += alive && trains ? 1u : 0u;
        o.left += rows[i].state == UW_MEMBER_LEFT ? 1u : 0u;
        o.dead += rows[i].state == UW_MEMBER_DEAD && rows[i].same_model ? 1u : 0u;
    }
    return o;
}

static void log_mixing(struct uw_node_work *r)
{
    double seconds = (double)uw_node_consensus_us(r->o) / 1e6;
    bool given = r->o->consensus_seconds != UW_NODE_CONSENSUS_UNSET;
    if (seconds > 0.0 && look(r).alive != 0) {
        uw_node_report_log(&r->report, "training is done; mixing with others %s %g s",
                           given ? "for at most" : "until it is done or nothing comes for",
                           seconds);
    }
}

/* Average or pull from several peers without training, which makes the models of a run more alike.
 * If a round pulls one slice, do as many rounds as there are slices. */
static int mix_together(struct uw_node_work *r)
{
    uint32_t slices = r->o->exchange.slices > 1u ? r->o->exchange.slices : 1u;
    uint64_t most = (uint64_t)r->o->consensus_rounds * slices;
    uint64_t start_us = uw_board_now_us();
    uint64_t came_us = start_us, came_bytes = 0, seen_us = start_us;
    if (most != 0) {
        log_mixing(r);
    }
    uint64_t rounds = 0;
    bool over = most == 0;
    int rc = UW_OK;
    for (uint64_t now_us = start_us;
         rc >= 0 && !over && now_us < uw_node_consensus_end_us(r->o, start_us, came_us) &&
         !uw_stop_asked(&r->stop);
         now_us = uw_board_now_us()) {
        struct others now = look(r);
        came_us = now.counters.pulled_bytes != came_bytes ? now_us : came_us;
        came_bytes = now.counters.pulled_bytes;
        seen_us = now.alive != 0 ? now_us : seen_us;
        rc = uw_node_work_exchange(r, 0.0f);
        rounds += rc > 0 && (rc & UW_NODE_ROUND) != 0 ? 1u : 0u;
        uw_node_report_status(&r->report, &r->net, now_us, r->step, r->steps,
                              uw_node_work_left_s(r));
        rc = rc < 0 || (rc & UW_NODE_AVERAGING) != 0 ? rc : uw_node_work_answer(r);
        over = rounds >= most || now_us - seen_us > LONELY_US;
        if (!over) {
            uw_node_net_wait(&r->net);
        }
    }
    return rc < 0 ? rc : UW_OK;
}

/* ---- by broadcast ---- */

struct ending {
    uint64_t start_us, now_us;
    uint64_t came_us, bytes;            /* last traffic; total bytes at that time */
    uint64_t seen_us;                   /* last message of any other node */
    uint64_t agreed_us;                 /* since when all have one model; 0: not known */
    uint64_t busy_us;                   /* last time that some node might not know that */
    uint32_t agreed_n;                  /* nodes with that model, with this one; 0: not known */
    uint32_t left, dead;                /* of others, when it became known */
    uint32_t averages, before;          /* so far; of these, while others trained */
};

static uint64_t linger_us(const struct uw_node_work *r)
{
    return (uint64_t)(r->o->linger_seconds * 1e6);
}

static void note(struct uw_node_work *r, struct ending *e, const struct others *o, uint64_t now_us)
{
    uint64_t bytes = o->counters.pulled_bytes + o->counters.served_bytes;
    bool moved = bytes != e->bytes || now_us - e->now_us > STOOD_US;
    e->bytes = bytes;
    e->now_us = now_us;
    e->came_us = moved ? now_us : e->came_us;
    e->seen_us = o->alive != 0 || moved ? now_us : e->seen_us;
    e->averages = o->counters.averages_done + o->counters.averages_cut;
    e->before = o->training != 0 ? e->averages : e->before;
    e->agreed_n = o->training != 0 ? 0 : uw_node_cast_agreed(&r->net.node);
    if (e->agreed_n == 0) {
        e->agreed_us = 0;
    } else if (e->agreed_us == 0) {
        e->agreed_us = now_us;
        e->left = o->left;
        e->dead = o->dead;
    }
    bool missed = o->silent != 0 && now_us - e->agreed_us < linger_us(r);
    e->busy_us = moved || missed || e->agreed_us == 0 ? now_us : e->busy_us;
}

/* Whether there is time left. A node that has agreed uses it for others. */
static bool may_go_on(const struct uw_node_work *r, const struct ending *e, uint64_t now_us)
{
    bool given = r->o->consensus_seconds != UW_NODE_CONSENSUS_UNSET;
    bool over = now_us >= uw_node_consensus_end_us(r->o, e->start_us, e->came_us) ||
                (!given && e->averages - e->before >= LAST_AVERAGES);
    return !over ||
           (e->agreed_us != 0 && now_us - e->agreed_us < linger_us(r));
}

/* Nodes that have agreed end together: one that averaged again with a late node would end with a
 * different model than those that left. */
static bool has_ended(const struct uw_node_work *r, const struct ending *e, const struct others *o,
                      uint64_t now_us)
{
    uint64_t quiet_us = linger_us(r) < LONELY_US ? linger_us(r) : LONELY_US;
    bool agreed = e->agreed_us != 0 && (now_us - e->busy_us > quiet_us || o->left > e->left);
    return agreed || now_us - e->seen_us > LONELY_US;
}

static void log_end(struct uw_node_work *r, const struct ending *e)
{
    struct others o = look(r);
    uint32_t n = e->agreed_n;
    bool met = o.counters.averages_done + o.counters.averages_cut + o.alive + o.dead + o.left != 0;
    if (uw_stop_asked(&r->stop)) {
        return;
    }
    if (n == 0 && !met) {
        uw_node_report_log(&r->report, "no other node was found: this node trained its model "
                                       "alone");
    } else if (n == 0) {
        uw_node_report_log(&r->report, "%s: this node may end with another model than others",
                           o.training != 0 ? "others still train"
                           : o.alive != 0  ? "the nodes did not agree on one model"
                                           : "all other nodes left before they reported that they "
                                             "have this model");
    } else if (e->dead != 0) {
        uw_node_report_log(&r->report, "%u nodes have one model; %u that became silent may have "
                                       "another", (unsigned)n, (unsigned)e->dead);
    } else {
        uw_node_report_log(&r->report, "%u nodes have one model", (unsigned)n);
    }
}

/* Average until no node trains and all have one model, and a little longer for nodes that do not
 * know that yet or are late. */
static int average_on(struct uw_node_work *r)
{
    struct uw_node_counters c = look(r).counters;
    struct ending e = {.start_us = uw_board_now_us(), .before = c.averages_done + c.averages_cut};
    e.now_us = e.came_us = e.seen_us = e.busy_us = e.start_us;
    log_mixing(r);
    int rc = UW_OK;
    bool over = false;
    for (uint64_t now_us = e.start_us;
         rc >= 0 && !over && may_go_on(r, &e, now_us) && !uw_stop_asked(&r->stop);
         now_us = uw_board_now_us()) {
        r->all_shown = uw_node_cast_end(&r->net.node);
        rc = uw_node_work_exchange(r, 0.0f);
        uw_node_report_status(&r->report, &r->net, now_us, r->step, r->steps,
                              uw_node_work_left_s(r));
        struct others o = look(r);
        note(r, &e, &o, now_us);
        over = has_ended(r, &e, &o, now_us);
        if (!over) {
            uw_node_net_wait(&r->net);
        }
    }
    r->all_shown = true;
    r->report.agreed_n = e.agreed_n;
    log_end(r, &e);
    return rc < 0 ? rc : UW_OK;
}

/* ---- exactly, and by gossip ---- */

/* Report a failed average, unless there is no other node to average with. */
static void log_none(struct uw_node_work *r, uint64_t start_us)
{
    uint32_t alive = look(r).alive;
    if (!uw_stop_asked(&r->stop) && (alive != 0 || r->o->together > 1)) {
        uw_node_report_log(&r->report,
                           "the exact average at the end was not completed in %.1f s: %u other "
                           "node%s in sight", uw_seconds_since(start_us),
                           (unsigned)alive, alive == 1 ? "" : "s");
    }
}

/* Average once, within the configured times. Returns 1 if done, 0 if there was no other node. */
static int average(struct uw_node_work *r)
{
    uint64_t start_us = uw_board_now_us();
    uint64_t end_us = start_us + uw_node_work_agree_us(r->o) +
                      (uint64_t)(r->o->round_seconds * 1e6) + SLACK_US;
    if (uw_node_consensus_us(r->o) == 0 || !uw_node_config_agrees(r->o)) {
        return 0;
    }
    if (look(r).alive != 0 && !uw_stop_asked(&r->stop)) {
        uw_node_report_log(&r->report, "training is done; averaging with others, waiting for them "
                                       "for at most %g s",
                           (double)uw_node_work_agree_us(r->o) / 1e6);
    }
    uw_node_agree(&r->net.node);
    for (;;) {
        int rc = uw_node_work_exchange(r, 0.0f);
        if (rc >= 0 && (rc & (UW_NODE_AVERAGING | UW_NODE_ROUND)) == 0) {
            log_none(r, start_us);
        }
        if (rc < 0 || (rc & UW_NODE_AVERAGING) == 0) {
            return rc < 0 ? rc : (rc & UW_NODE_ROUND) != 0;
        }
        uint64_t now_us = uw_board_now_us();
        uw_node_report_status(&r->report, &r->net, now_us, r->step, r->steps,
                              uw_node_work_left_s(r));
        if (now_us > end_us || uw_stop_asked(&r->stop)) {
            uw_node_recall(&r->net.node);
        }
        uw_node_net_wait(&r->net);
    }
}

/* Whether all nodes took part in the exact average. With gossip some may not: boards, which do not
 * average exactly, and nodes that still train. */
static bool averaged_all(struct uw_node_work *r)
{
    const struct uw_exchange *x = &r->o->exchange;
    bool gossips = x->mode.at == UW_NODE_GOSSIP && x->rule->over != UW_MIX_OVER_PAIRS;
    return !gossips || look(r).alive < atomic_load(&r->report.averaged_n);
}

int uw_node_work_agree(struct uw_node_work *r)
{
    if (uw_node_work_broadcasts(r->o)) {
        return average_on(r);
    }
    int rc = average(r);
    bool done = rc != 0 && (rc < 0 || averaged_all(r));
    return done || uw_stop_asked(&r->stop) ? rc : mix_together(r);
}

int uw_node_work_linger(struct uw_node_work *r)
{
    uint64_t start_us = uw_board_now_us();
    uint64_t busy_us = start_us;
    uint64_t served_bytes = 0;
    if (r->report.agreed_n != 0) {
        return UW_OK;       /* has already waited for the others */
    }
    if (r->o->linger_seconds > 0.0 && look(r).alive != 0) {
        uw_node_report_log(&r->report, "serving others for at most %g s", r->o->linger_seconds);
    }
    for (uint64_t now_us = start_us;
         (double)(now_us - start_us) < r->o->linger_seconds * 1e6 &&
         now_us - busy_us < LONELY_US && !uw_stop_asked(&r->stop);
         now_us = uw_board_now_us()) {
        struct others o = look(r);
        if (o.alive == 0) {
            return UW_OK;
        }
        bool awaited = o.training != 0 && !uw_node_work_broadcasts(r->o);
        busy_us = awaited || o.counters.served_bytes != served_bytes ? now_us : busy_us;
        served_bytes = o.counters.served_bytes;
        int rc = uw_node_work_answer(r);
        if (rc < 0) {
            return rc;
        }
        uw_node_net_wait(&r->net);
    }
    return UW_OK;
}
