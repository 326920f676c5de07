/* SPDX-License-Identifier: Apache-2.0
 *
 * network_probe.h - what messages between ranks cost, measured with a few of them
 *
 * A rank that is told to (GO) asks the next one (ASK): for one small message, three times; for a
 * train of small ones; for a train of the largest. From the round trip and from the times between
 * arrivals follow latency, the cost of a message and that of a byte. Rank 0 tells a few ranks, one
 * after the other, then all of them at once to ask for a train of large ones: on a medium that all
 * share it takes as many times as long. Few ranks are told so several times, since a loss may keep
 * them from being there at once. Ranks send back what they measured (REPORT), and rank 0
 * makes a struct uw_network_fit of it.
 *
 *     uw_network_probe_place, then for every group: _begin, then _take and _run until rank 0's is
 *     done; the others answer as long as the group lasts
 *
 * Messages are those of an all-reduce (struct uw_part) with round 0, which is never one's. They may
 * be lost: whatever is missing is asked for again, and after some tries done without.
 *
 * Units      _us microseconds, _n floats
 * Memory     tables from an arena
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_NETWORK_PROBE_H
#define UW_NET_NETWORK_PROBE_H

#include "network_cost.h"
#include "collective/allreduce.h"

#define UW_PROBE_ANSWERS 4u         /* trains that a rank can be sending */
#define UW_PROBE_REPORT_N 4u        /* floats of a report */

enum uw_probe_stage { UW_PROBE_IDLE, UW_PROBE_RTT, UW_PROBE_SMALL, UW_PROBE_LARGE,
                      UW_PROBE_TOGETHER, UW_PROBE_REPORTS };

struct uw_network_probe_config {
    uint32_t ranks_max;             /* 2 or more */
    uint32_t chunk_n;               /* floats of the largest message, UW_PROBE_REPORT_N or more */
    uint32_t train_n;               /* floats of a train that is made longer, at most; 0: many */
    /* As struct uw_allreduce_config's. */
    int (*send)(void *arg, uint32_t rank, const struct uw_part *part);
    void *arg;
};

/* A train that another rank asked for. */
struct uw_probe_answer {
    uint32_t rank, n, sent, count;
    uint16_t seq;
};

struct uw_network_probe {
    struct uw_network_probe_config config;
    uint32_t group, ranks, rank;
    uint64_t now_us;
    float *zeros;                   /* [chunk_n] */
    struct uw_probe_answer answers[UW_PROBE_ANSWERS];
    uint32_t answers_n;

    /* what this rank measures */
    enum uw_probe_stage stage;
    uint16_t job, seq;              /* job: what rank 0 told; seq of what it asked for */
    uint32_t count, n;              /* messages of the train, floats of each */
    bool asks;                      /* the question is still to be sent */
    uint32_t tries, trains;
    uint64_t asked_us, first_us, last_us, heard_us;
    uint32_t arrived, first, last;  /* of the messages that are counted */
    struct uw_network_report report;

    /* rank 0 */
    struct uw_network_report *reports;  /* [ranks_max] */
    uint32_t turn, turns;           /* ranks that measure alone; from turns on: all at once */
    bool *waits;                    /* [ranks_max] its report is still to come */
    uint32_t together_n;            /* messages of a train for all at once */
    uint32_t tells, told_to;        /* times that those who have not reported were told; so far */
    uint64_t told_us;
    bool done;
};

/* Take the tables. Returns UW_OK or what uw_arena_take returns. */
int uw_network_probe_place(struct uw_network_probe *p, struct uw_arena *arena,
                           const struct uw_network_probe_config *config);

/* Begin for the ranks of a group; rank 0 starts to measure. Messages that come before are lost. */
void uw_network_probe_begin(struct uw_network_probe *p, uint32_t group, uint32_t ranks,
                            uint32_t rank, uint64_t now_us);

/* A message with round 0 from a rank of the group. */
void uw_network_probe_receive(struct uw_network_probe *p, uint32_t from, const struct uw_part *part,
                              uint64_t now_us);

/* Send what is due. Returns when it wants to run again, if nothing arrives; UINT64_MAX: never. */
uint64_t uw_network_probe_run(struct uw_network_probe *p, uint64_t now_us);

#endif
