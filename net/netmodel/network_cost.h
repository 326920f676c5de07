/* SPDX-License-Identifier: Apache-2.0
 *
 * network_cost.h - a cost model of messages between ranks, measured and updated by every round
 *
 *     uw_network_fit_init     the messages' sizes, and a guess of the costs
 *     uw_network_fit_reports  measurements of the ranks (network_probe.h)
 *     uw_network_choose       the algorithm and its predicted time
 *     uw_network_path         parameters of the engine: struct uw_allreduce_round
 *     uw_network_learn        the measured time
 *
 * One rank chooses for all; it sends a summary, so that another rank can take over.
 *
 * A round's time T(latency, access, byte, reduce) is homogeneous of degree one: the shares of the
 * four costs, w_j = d log T / d log c_j, add up to 1. A measured time therefore gives
 * sum_j w_j log c_j. A Kalman filter on the logarithms corrects the uncertain costs, and a factor
 * per algorithm for effects outside the model. Old measurements lose weight slowly. An outlier is
 * ignored; when it repeats, the network has changed: the model follows, and should be probed again.
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

/* Measurements of a rank; 0 or implausible: not measured. */
struct uw_network_report {
    float rtt_s;                /* round trip of one float */
    float small_s;              /* interval between messages of one float from one sender */
    float large_s;              /* the same for the largest messages */
    float together_s;           /* the same when all ranks send at once, rank i to rank i - 1 */
};

/* The model as sent to other ranks. */
struct uw_network_summary {
    float latency_s, access_s, byte_s, reduce_s;
    bool shared;
};

struct uw_network_fit {
    struct uw_network_cost cost;
    double measured[UW_FIT_KINDS];              /* the costs before updates by rounds */
    float slower[UW_FIT_RANKS_MAX];             /* send time of each rank / median */
    uint32_t slower_p;                          /* size of slower; 0: all are equal */
    float factor[UW_ALLREDUCE_KINDS_N];         /* measured / modelled */
    float variance[UW_FIT_DIMS][UW_FIT_DIMS];   /* of the logarithms */
    uint32_t rounds_n;          /* rounds measured */
    uint32_t surprises;         /* outliers in a row in the same direction */
    bool surprise_up;
};

/*   chunk_n     floats of the largest message
 *   head_bytes  of each message
 *   early_n     floats that a rank buffers before their step begins (uw_allreduce_early_n) */
void uw_network_fit_init(struct uw_network_fit *f, uint32_t chunk_n, uint32_t head_bytes,
                         uint32_t early_n);

/* Set the costs from measurements: medians, or the upper quartile where a step waits for its
 * slowest message, and the factors of slower ranks. Without measurements the guess stays.
 *   reports  [p]  of all ranks that sent at once
 * Returns whether there was a measurement. */
bool uw_network_fit_reports(struct uw_network_fit *f, const struct uw_network_report *reports,
                            uint32_t p);

/* Set this rank's time to add so many bytes; 0: not known, the guess stays. */
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

/* Update the model by the time of a round, from the begin of the last rank to the end.
 *   at  [2 * p], written */
void uw_network_learn(struct uw_network_fit *f, enum uw_allreduce_kind kind, uint32_t p,
                      uint32_t n, double seconds, double *at);

/* Has the network changed since it was measured? */
bool uw_network_is_doubtful(const struct uw_network_fit *f);

/* Round trip under load and send rate of a rank, for struct uw_allreduce_round. */
void uw_network_path(const struct uw_network_fit *f, uint32_t p, uint64_t *rtt_us,
                     float *floats_per_us);

/* The summary for other ranks. */
struct uw_network_summary uw_network_summary_of(const struct uw_network_fit *f);

/* Apply the summary of another rank.
 * Returns UW_OK or UW_ERR_INVALID (negative or not finite; nothing has changed). */
int uw_network_apply(struct uw_network_fit *f, const struct uw_network_summary *s);

#endif
