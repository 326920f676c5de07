/* SPDX-License-Identifier: Apache-2.0
 *
 * network_probe.h - measure the costs of messages between ranks
 *
 * A rank measures when it gets a GO: it requests (ASK) from the next rank one small message, three
 * times; a train of small messages; a train of the largest. Round trip and arrival times give the
 * latency and the costs of a message and of a byte. Rank 0 sends GO to a few ranks in turn, then to
 * all ranks at once for a train of large messages: on a shared medium it takes p times as long.
 * Small groups repeat this, because losses may keep ranks from sending at the same time. Ranks send
 * their measurements (REPORT) to rank 0 for its struct uw_network_fit.
 *
 *     uw_network_probe_place, then for every group: _begin, then _receive and _run until rank 0 is
 *     done; the others answer for the life of the group
 *
 * Messages are those of an all-reduce (struct uw_part) with round 0, which averages do not use.
 * Lost messages are requested again, and skipped after some tries.
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
    uint32_t train_n;               /* most floats of a longer train; 0: many */
    /* As struct uw_allreduce_config's. */
    int (*send)(void *arg, uint32_t rank, const struct uw_part *part);
    void *arg;
};

/* A train requested by another rank. */
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

    /* measurement of this rank */
    enum uw_probe_stage stage;
    uint16_t job, seq;              /* number of rank 0's GO; of the request */
    uint32_t count, n;              /* messages of the train, floats of each */
    bool asks;                      /* the request has to be sent */
    uint32_t tries, trains;
    uint64_t asked_us, first_us, last_us, heard_us;
    uint32_t arrived, first, last;  /* of the messages that count */
    struct uw_network_report report;

    /* rank 0 */
    struct uw_network_report *reports;  /* [ranks_max] */
    uint32_t turn, turns;           /* ranks that measure alone; from turns on: all at once */
    bool *waits;                    /* [ranks_max] its report is missing */
    uint32_t together_n;            /* messages of a train of all at once */
    uint32_t go_tries, go_left;     /* repetitions of GO; ranks that the current one is still to
                                       be sent to */
    uint64_t go_us;                 /* last GO */
    bool done;
};

/* Allocate the tables. Returns UW_OK or what uw_arena_take returns. */
int uw_network_probe_place(struct uw_network_probe *p, struct uw_arena *arena,
                           const struct uw_network_probe_config *config);

/* Begin for the ranks of a group; rank 0 starts to measure. Earlier messages are ignored. */
void uw_network_probe_begin(struct uw_network_probe *p, uint32_t group, uint32_t ranks,
                            uint32_t rank, uint64_t now_us);

/* Handle a message with round 0 from a rank of the group. */
void uw_network_probe_receive(struct uw_network_probe *p, uint32_t from, const struct uw_part *part,
                              uint64_t now_us);

/* Send what is due. Returns the time of the next call if no message arrives; UINT64_MAX: never. */
uint64_t uw_network_probe_run(struct uw_network_probe *p, uint64_t now_us);

#endif
