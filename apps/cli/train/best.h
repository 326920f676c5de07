/* SPDX-License-Identifier: Apache-2.0
 *
 * best.h - the best test of a run so far: its weights, and how long ago it was
 *
 * A test is better if its loss is smaller. The weights of the best one are kept beside the model
 * (m->kept), so a checkpoint has them too. At the end of a run they change places with those of the
 * last step, which then are the kept ones: a run that goes on changes them back.
 *
 * Memory     [params.size_n] floats of the heap, with keep      Blocking  never
 * Context    the model's thread
 */
#ifndef UWASA_CLI_BEST_H
#define UWASA_CLI_BEST_H

#include "uwasa/checkpoint.h"
#include "uwasa/model.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_best {
    bool on;                /* tests are judged */
    bool keep;              /* with their weights */
    bool judged;            /* the weights of the last step have been tested */
    bool swapped;           /* the model has the best weights */
    double loss;            /* of the best test; infinity: there was none */
    uint64_t step;          /* after which it was */
    uint32_t since;         /* tests after it */
};

/* Set up for a bound model. Returns UW_OK or UW_ERR_NOMEM, err filled. */
int uw_best_open(struct uw_best *b, struct uw_model *m, bool on, bool keep, struct uw_error *err);

/* Judge a test after `step`. Returns UW_OK, or UW_ERR_IO: the device failed. */
int uw_best_judge(struct uw_best *b, struct uw_model *m, uint64_t step, double loss);

/* Exchange the model's parameters with the kept ones. Returns UW_OK, or UW_ERR_IO. */
int uw_best_swap(struct uw_best *b, struct uw_model *m);

/* What a checkpoint of `uwasa train` has in state->user; share: of --validation, 0: none. */
void uw_best_store(const struct uw_best *b, double share, struct uw_checkpoint *state);

/* Go on from a checkpoint that was loaded into the model.
 *   file    its name, for messages
 * Returns 1 (it has judged tests), 0 (it has none), UW_ERR_MISMATCH (--validation or --keep was
 * another one), err filled, or UW_ERR_IO. */
int uw_best_load(struct uw_best *b, struct uw_model *m, double share,
                 const struct uw_checkpoint *state, const char *file, struct uw_error *err);

/* Free the kept parameters. Safe on a zeroed model and twice. */
void uw_best_close(struct uw_model *m);

#endif
