/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "uwasa/board.h"

#include <string.h>

#define LONELY_US 1000000u
#define SLACK_US 5000000u           /* beyond what an average at the end may take */
#define LAST_AVERAGES 2u            /* by broadcast: one is under way, one begins then */

/* alive: who is heard, or was lately. training: those of them that have not said that they are
 * done; who is new and has shown nothing yet will train. */
struct others {
    uint32_t alive, training;
    struct uw_node_counters counters;       /* of this node */
};

static struct others look(struct uw_node_work *r)
{
    struct others o = {0};
    struct uw_node_member rows[UW_NODE_NET_ROWS];
    uint32_t n = uw_node_net_members(&r->net, rows, UW_NODE_NET_ROWS, &o.counters);
    for (uint32_t i = 1; i < n; i++) {
        bool here = rows[i].state == UW_MEMBER_ALIVE || rows[i].state == UW_MEMBER_SUSPECT;
        bool alive = here && rows[i].same_model;
        bool trains = rows[i].samples_per_s > 0.0f || rows[i].version == 0;
        o.alive += alive ? 1u : 0u;
        o.training += alive && trains ? 1u : 0u;
    }
    return o;
}

static void tell_mixing(struct uw_node_work *r)
{
    double seconds = (double)uw_node_consensus_us(r->o) / 1e6;
    bool said = r->o->consensus_seconds != UW_NODE_CONSENSUS_UNSAID;
    if (seconds > 0.0 && look(r).alive != 0) {
        uw_node_report_say(&r->report, "training is done; mixing with others %s %g s",
                           said ? "for at most" : "until it is done or nothing comes for", seconds);
    }
}

/* Average or pull from several peers without training: the models of a run come
 * closer together. Where a round pulls a slice it takes as many to pull a model. */
static int mix_together(struct uw_node_work *r)
{
    uint64_t most = (uint64_t)r->o->consensus_rounds * (r->o->slices > 1u ? r->o->slices : 1u);
    uint64_t start_us = uw_board_now_us();
    uint64_t came_us = start_us, came_bytes = 0, seen_us = start_us;
    bool broadcasts = uw_node_work_broadcasts(r->o);
    if (most != 0 || broadcasts) {
        tell_mixing(r);
    }
    uint64_t rounds = 0;
    uint32_t last = 0;                  /* averages since all have ended their training */
    bool over = !broadcasts && most == 0;
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
        last = now.training != 0 ? 0 : last + (rc > 0 && (rc & UW_NODE_WHOLE) != 0 ? 1u : 0u);
        over = (broadcasts ? last >= LAST_AVERAGES : rounds >= most) ||
               now_us - seen_us > LONELY_US;
        if (!over) {
            uw_node_net_wait(&r->net);
        }
    }
    return rc < 0 ? rc : UW_OK;
}

/* An average that was to be is not: said, unless nobody else is there to be averaged with. */
static void tell_none(struct uw_node_work *r, uint64_t start_us)
{
    uint32_t alive = look(r).alive;
    if (!uw_stop_asked(&r->stop) && (alive != 0 || r->o->together > 1)) {
        uw_node_report_say(&r->report,
                           "the exact average at the end did not come about in %.1f s: %u other "
                           "node%s in sight", (double)(uw_board_now_us() - start_us) / 1e6,
                           (unsigned)alive, alive == 1 ? "" : "s");
    }
}

/* Returns 1 when it is done, 0 when there was nobody. It gathers and averages as long as the node
 * was told it may. */
static int average(struct uw_node_work *r)
{
    uint64_t start_us = uw_board_now_us();
    uint64_t end_us = start_us + uw_node_work_agree_us(r->o) +
                      (uint64_t)(r->o->round_seconds * 1e6) + SLACK_US;
    if (uw_node_consensus_us(r->o) == 0 || uw_node_work_narrow(r->o) || r->o->sleep_period > 0.0) {
        return 0;
    }
    if (look(r).alive != 0 && !uw_stop_asked(&r->stop)) {
        uw_node_report_say(&r->report, "training is done; averaging with others, waiting for them "
                                       "for at most %g s",
                           (double)uw_node_work_agree_us(r->o) / 1e6);
    }
    uw_node_agree(&r->net.node);
    for (;;) {
        int rc = uw_node_work_exchange(r, 0.0f);
        if (rc >= 0 && (rc & (UW_NODE_AVERAGING | UW_NODE_ROUND)) == 0) {
            tell_none(r, start_us);
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

/* Where nodes gossip there may be others that took no part in the exact average: boards, which know
 * none, and who trains on. */
static bool averaged_all(struct uw_node_work *r)
{
    bool gossips = strcmp(r->o->exchange, "gossip") == 0 &&
                   (r->o->momentum_rule == NULL || strcmp(r->o->momentum_rule, "kgt") != 0);
    return !gossips || look(r).alive < atomic_load(&r->report.averaged_n);
}

int uw_node_work_agree(struct uw_node_work *r)
{
    int rc = average(r);
    bool done = rc != 0 && (rc < 0 || averaged_all(r));
    return done || uw_stop_asked(&r->stop) ? rc : mix_together(r);
}

void uw_node_work_linger(struct uw_node_work *r)
{
    uint64_t start_us = uw_board_now_us();
    uint64_t busy_us = start_us;
    uint64_t served_bytes = 0;
    if (r->o->linger_seconds > 0.0 && look(r).alive != 0) {
        uw_node_report_say(&r->report, "serving others for at most %g s", r->o->linger_seconds);
    }
    for (uint64_t now_us = start_us;
         (double)(now_us - start_us) < r->o->linger_seconds * 1e6 &&
         now_us - busy_us < LONELY_US && !uw_stop_asked(&r->stop);
         now_us = uw_board_now_us()) {
        struct others o = look(r);
        if (o.alive == 0) {
            return;
        }
        bool awaited = o.training != 0 && !uw_node_work_broadcasts(r->o);
        busy_us = awaited || o.counters.served_bytes != served_bytes ? now_us : busy_us;
        served_bytes = o.counters.served_bytes;
        uw_node_net_wait(&r->net);
    }
}
