/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_state.h - a run that is stopped and goes on, as a file
 *
 *     sim_save.c     writes it
 *     sim_resume.c   reads it
 *
 * One safetensors file: tensors "x", "velocity" and the optimizer's, a row a node, and "learners",
 * the rest of each node in 64-bit words. The metadata hold what all share, and the flags, which
 * must be the same when the run goes on.
 *
 * The protocols begin anew: the nodes meet again, outside of virtual time, and every node's round
 * starts at the parameters that it has then. A rule over exact averages wants all nodes to start a
 * round with the same ones; there they start with the mean of all.
 */
#ifndef UWASA_CLI_SIM_STATE_H
#define UWASA_CLI_SIM_STATE_H

#include "sim_run.h"

/* Of the form of the file. Flags need no new one: those of the file are compared by name. */
#define UW_SIM_STATE_VERSION 3u

/* What a learner is beside vectors; floats and doubles as the bits of a double. */
enum uw_sim_word {
    UW_SIM_STEP, UW_SIM_UPDATES, UW_SIM_EPOCH, UW_SIM_POSITION, UW_SIM_TRAINS, UW_SIM_COMPUTED,
    UW_SIM_LEFT_US, UW_SIM_LR, UW_SIM_MOMENTUM, UW_SIM_LOSS, UW_SIM_STEP_LOSS, UW_SIM_WORDS_N
};

/* Numbers of all nodes together, by their key in the metadata. */
#define UW_SIM_NUMBERS(X)                                               \
    X("step_us", uint64_t, s->step_us)                                  \
    X("trained_us", uint64_t, s->past.trained_us)                       \
    X("sent_bytes", uint64_t, s->past.sent_bytes)                       \
    X("node_steps", uint64_t, s->report.node_steps)                     \
    X("due", uint32_t, s->report.due)                                   \
    X("pulls_done", uint32_t, s->past.counters.pulls_done)              \
    X("pulls_cut", uint32_t, s->past.counters.pulls_cut)                \
    X("pulls_refused", uint32_t, s->past.counters.pulls_refused)        \
    X("pulls_stale", uint32_t, s->past.counters.pulls_stale)            \
    X("averages_done", uint32_t, s->past.counters.averages_done)        \
    X("averages_cut", uint32_t, s->past.counters.averages_cut)          \
    X("pairs_half", uint32_t, s->past.counters.pairs_half)              \
    X("refused_outlier", uint32_t, s->past.counters.refused_outlier)    \
    X("chunks_again", uint32_t, s->past.counters.chunks_again)          \
    X("pulled_bytes", uint64_t, s->past.counters.pulled_bytes)

/* The last eight bytes of the file, least significant first: uw_hash64 of all before. So that
 * other programs can read the file, they are a tensor as well. */
#define UW_SIM_CHECK "check"
#define UW_SIM_CHECK_BYTES 8u

/* A row a node. */
struct uw_sim_tensor {
    const char *name, *dtype;
    uint64_t row_n;
    size_t row_bytes;
};

/* List the tensors of the file, "learners" first. Returns how many there are. */
uint32_t uw_sim_tensors(const struct uw_sim *s, struct uw_sim_tensor t[UW_SIM_TENSORS_MAX]);

/* A learner's row of tensor t > 0. */
float *uw_sim_row(const struct uw_sim_learner *l, uint32_t t);

/* May a run go on with another value of this flag? */
bool uw_sim_flag_is_free(const char *flag);

/* A number that tells fleets apart. A step that was measured is kept with the run. */
uint64_t uw_sim_fleet_hash(const struct uw_sim_fleet *f);

#endif
