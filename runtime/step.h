/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the parts of a training step (private)
 */
#ifndef UWASA_STEP_H
#define UWASA_STEP_H

#include "graph.h"

/* Minibatch b, samples pass->first and on. */
struct uw_labelled {
    const struct uw_minibatch *b;
    const float *x;                 /* of the pass's first sample */
    const struct uw_pass *pass;
};

/* The value as it is in memory now; x is the model's input. */
const float *uw_value_of(const struct uw_model *m, uint32_t value, const float *x);

/* Losses of the pass.
 *
 *   heads_n    the first so many
 *   loss       set to their weighted sum over the samples (not yet divided by their number)
 *   correct_n  set to the rows whose largest output is the label
 *
 * uw_losses_backward then writes the gradients for a minibatch of n samples; it needs what
 * uw_losses_forward left in place. */
int uw_losses_forward(struct uw_model *m, const struct uw_labelled *s, uint32_t heads_n,
                      double *loss, uint32_t *correct_n);
int uw_losses_backward(struct uw_model *m, const struct uw_labelled *s, uint32_t n);

/* Do labels and targets fit the losses? */
int uw_losses_check(const struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);

/* Gradients of the layers on the way down, and what happens to them. */
struct uw_update {
    struct uw_model *m;
    bool first, last;               /* micro-batch of the step */
    uint32_t top, low;              /* trained parameters whose gradients are in the bucket */
    uint32_t high_segment;          /* they end there */
    struct uw_error *err;
};

/* May the optimizer's update be written as w (or v) += scale * gradient? */
bool uw_update_is_fused(const struct uw_optimizer *o);

/* Floats of m->gradients. */
uint32_t uw_update_window(const struct uw_model_config *config, const struct uw_layer *layers,
                          uint32_t layers_n);

/* Trained parameters of one layer. */
uint32_t uw_layer_trained_n(const struct uw_layer *l);

/* bw_param of a layer, then its update as soon as the plan allows. Layers come from the top. */
int uw_update_layer(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x);
/* Can that and bw_input be one pass over the layer's weights? */
bool uw_update_in_one_pass(const struct uw_update *u, const struct uw_layer *l);
/* Both in that pass; dx and accumulate as in struct uw_layer_ops. */
int uw_update_with_input(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x, float *dx, bool accumulate);
/* After the last layer. */
int uw_update_finish(struct uw_update *u);

#endif
