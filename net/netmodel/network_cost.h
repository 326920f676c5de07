/* SPDX-License-Identifier: Apache-2.0
 *
 * network_cost.h - what messages cost between the ranks of an all-reduce, measured and re-fitted
 *
 *     uw_network_fit_init     what the messages look like; a guess of everything else
 *     uw_network_fit_reports  what ranks measured (network_probe.h)
 *     uw_network_choose       the algorithm, and the time it is going to take
 *     uw_network_path         what the engine is told: struct uw_allreduce_round
 *     uw_network_learn        the time it took
 *
 * One rank chooses and tells the others; a summary goes with it, so that another rank can go on.
 *
 * A round's time T(latency, access, byte, reduce) is homogeneous of degree one, so each of the four
 * has a share of it, the shares adding up to 1: w_j = d log T / d log c_j. What a round took
 * therefore tells of sum_j w_j log c_j, and a Kalman filter on the logarithms corrects those that
 * are not yet certain, and a factor of the algorithm's own for what the model does not know. What
 * was learned is forgotten slowly. A round that is far off counts as chance; when it repeats, the
 * network has changed: then it is believed, and probing again is worth while.
 *
 * Units      seconds, bytes; _n counts floats
 * Memory     the caller's      Blocking  until computed      Context  one thread
 */
#ifndef UW_NET_NETWORK_COST_H
#define UW_NET_NETWORK_COST_H

#include "uwasa/allreduce_cost.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { UW_FIT_LATENCY, UW_FIT_ACCESS, UW_FIT_BYTE, UW_FIT_REDUCE, UW_FIT_KINDS };
#define UW_FIT_RANKS_MAX 64u        /* above, ranks count as alike */
#define UW_FIT_DIMS (UW_FIT_KINDS + UW_ALLREDUCE_KINDS_N)

/* What one rank measured; 0, or what no network can be: could not be measured. */
struct uw_network_report {
    float rtt_s;                /* a question and an answer of one float */
    float small_s;              /* from one message of one float to the next, of one sender */
    float large_s;              /* the same for the largest messages */
    float together_s;           /* the same when all ranks send at once, rank i to rank i - 1 */
};

/* What a rank tells another. */
struct uw_network_summary {
    float latency_s, access_s, byte_s, reduce_s;
    bool shared;
};

struct uw_network_fit {
    struct uw_network_cost cost;
    double measured[UW_FIT_KINDS];              /* of the cost, before rounds corrected it */
    float slower[UW_FIT_RANKS_MAX];             /* what each rank sends, compared with the median */
    uint32_t slower_p;                          /* ranks that this is known of; 0: all are alike */
    float factor[UW_ALLREDUCE_KINDS_N];         /* measured / modelled */
    float variance[UW_FIT_DIMS][UW_FIT_DIMS];   /* of the logarithms */
    uint32_t rounds_n;          /* learned from */
    uint32_t surprises;         /* rounds in a row that were far off to the same side */
    bool surprise_up;
};

/*   chunk_n     floats of the largest message
 *   head_bytes  of each message
 *   early_n     floats that a rank can keep of what comes early (uw_allreduce_early_n) */
void uw_network_fit_init(struct uw_network_fit *f, uint32_t chunk_n, uint32_t head_bytes,
                         uint32_t early_n);

/* Begin from what ranks measured: medians, or the upper quartile where a step waits for its slowest
 * message, and who sends more slowly than the median. Ranks that could not measure are left out;
 * with none the guess stays.
 *   reports  [p]  of all ranks that sent at once
 * Returns whether anything was measured. */
bool uw_network_fit_reports(struct uw_network_fit *f, const struct uw_network_report *reports,
                            uint32_t p);

/* How fast this rank adds: bytes in seconds; 0: not known, a guess stays. */
void uw_network_fit_reduce(struct uw_network_fit *f, double bytes, double seconds);

/* Seconds of a round.
 *   at  [2 * p], written */
double uw_network_predict(const struct uw_network_fit *f, enum uw_allreduce_kind kind, uint32_t p,
                          uint32_t n, double *at);

/* As uw_allreduce_choose.
 *   at       [2 * p], written
 *   seconds  predicted; may be NULL */
enum uw_allreduce_kind uw_network_choose(const struct uw_network_fit *f, uint32_t p, uint32_t n,
                                         bool same_bits, double *at, double *seconds);

/* A round took so long: from the moment the last rank began until it was done.
 *   at  [2 * p], written */
void uw_network_learn(struct uw_network_fit *f, enum uw_allreduce_kind kind, uint32_t p,
                      uint32_t n, double seconds, double *at);

/* Is the network another one than was measured? */
bool uw_network_is_doubtful(const struct uw_network_fit *f);

/* A round trip under load, and the rate at which one rank can send: what struct uw_allreduce_round
 * asks for. */
void uw_network_path(const struct uw_network_fit *f, uint32_t p, uint64_t *rtt_us,
                     float *floats_per_us);

/* What to tell the other ranks. */
struct uw_network_summary uw_network_summary_of(const struct uw_network_fit *f);

/* Believe what another rank tells.
 * Returns UW_OK or UW_ERR_INVALID (no such network: negative, not finite), nothing changed. */
int uw_network_apply(struct uw_network_fit *f, const struct uw_network_summary *s);

#endif
