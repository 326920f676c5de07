/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the parts of a training step (private)
 */
#ifndef UWASA_STEP_H
#define UWASA_STEP_H

#include "graph.h"

#include "uwasa/describe.h"

/* Samples of minibatch b, from pass->first on. */
struct uw_labelled {
    const struct uw_minibatch *b;
    const float *x;                 /* of the first sample */
    const struct uw_pass *pass;
};

/* Parts of a step that training on a device calls too; file-private in builds without devices. */
#ifdef UW_WITHOUT_DEVICES
#define UW_STEP_PART static
#define UW_STEP_DEVICES false
#else
#define UW_STEP_PART
#define UW_STEP_DEVICES true
struct uw_update;

/* b, or the model's own minibatch. */
struct uw_minibatch uw_step_minibatch(const struct uw_model *m, const struct uw_minibatch *b);

/* Check that a step can run with b. */
int uw_step_check(const struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);

/* Run minibatch b, one micro-batch after the other: forward, losses and, if it trains, backward
 * with the updates.
 *   r  the losses are added to it; those of a device are known only when its queue has run */
int uw_step_run(struct uw_model *m, const struct uw_minibatch *b, bool trains,
                struct uw_step_result *r, struct uw_error *err);

/* The forward pass; x is the model's input. */
int uw_step_forward(struct uw_model *m, const float *x, const struct uw_pass *p,
                    struct uw_error *err);

/* Returns UW_ERR_NONFINITE: err names the first layer whose output is not finite. Runs the forward
 * pass again to find it, so that ordinary steps pay nothing. */
int uw_step_name_nonfinite(struct uw_model *m, const float *x, const struct uw_pass *p,
                           struct uw_error *err);

/* Adam's bias corrections and factors for the step that follows `updates` updates. */
struct uw_adam uw_update_adam(const struct uw_optimizer *o, uint64_t updates);

/* A loss, without its weight. On a device loss and correct_n are in the device's memory, and an
 * elementwise loss is not yet divided by the head's n. */
int uw_loss_forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double *loss, uint32_t *correct_n);
double uw_loss_weight(const struct uw_loss_def *d);

/* Where to write the gradient of the head's value; NULL: it is not needed. */
float *uw_loss_gradient(const struct uw_model *m, const struct uw_head *h);
#endif

/* Called between two layers' computations: calls the program's function, if it set one. */
void uw_step_between(const struct uw_model *m);

/* Losses of the pass.
 *
 *   heads_n    number of losses, from the first on
 *   loss       set to their weighted sum over the samples (not yet divided by their number)
 *   correct_n  set to the rows whose largest output is the label
 *
 * uw_losses_backward then writes the gradients for a minibatch of n samples, from what
 * uw_losses_forward left in the gradients' memory. */
int uw_losses_forward(struct uw_model *m, const struct uw_labelled *s, uint32_t heads_n,
                      double *loss, uint32_t *correct_n);
int uw_losses_backward(struct uw_model *m, const struct uw_labelled *s, uint32_t n);

/* Optional part: losses other than the cross-entropy of a label, of head h.
 *   room  where forward leaves the targets or probabilities, for backward */
struct uw_elementwise {
    /* Check the head's definition and that the kernels can compute it; raise g->target_n. Returns
     * UW_OK, UW_ERR_INVALID, UW_ERR_SHAPE, UW_ERR_UNSUPPORTED or UW_ERR_TOOBIG. */
    int (*check)(struct uw_graph *g, const struct uw_head *h, const struct uw_kernels *k,
                 struct uw_error *err);
    /* Check the target values of a minibatch. Returns UW_OK or UW_ERR_INVALID. */
    int (*check_values)(const struct uw_model *m, const struct uw_minibatch *b,
                        const struct uw_head *h, struct uw_error *err);
    int (*forward)(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *room, double *loss, uint32_t *correct_n);
    /* scale: factor of the gradient of one sample's loss */
    int (*backward)(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double scale, float *dy);
};

/* Check that labels and targets fit the losses. */
int uw_losses_check(const struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);

/* Progress of gradients and updates during a backward pass. */
struct uw_update {
    struct uw_model *m;
    bool first, last;               /* this micro-batch is the step's first, last */
    uint32_t top, low;              /* trained parameters low .. top - 1 are in the bucket */
    uint32_t high_segment;          /* end of their segments */
    struct uw_error *err;
};

/* Whether a plan keeps gradients beyond a layer, and so needs uw_parts.gathering. */
bool uw_update_gathers(const struct uw_model_config *config);

/* Optional part: gradients are gathered in buckets (uwasa/bucket.h). */
struct uw_gathering {
    /* Check that a configuration that gathers, clips or has micro-batches gives exact gradients.
     * Returns UW_OK or UW_ERR_INVALID. */
    int (*check)(const struct uw_model_config *config, const struct uw_graph *g,
                 struct uw_error *err);
    /* Size of m->gradients in floats. */
    uint32_t (*window)(const struct uw_model_config *config, const struct uw_layer *layers,
                       uint32_t layers_n);
    /* Deferred updates: number the buckets.
     *   layers   `bucket` is set in trained layers
     *   buckets  [returned number], written; NULL: only count */
    uint32_t (*buckets)(const struct uw_model_config *config, struct uw_layer *layers,
                        uint32_t layers_n, struct uw_bucket *buckets);
    /* On a device, before a layer's gradient is computed: sets target[t] to the place of tensor t's
     * gradient in the bucket, NULL if not trained, and zeroes it for the first micro-batch. */
    int (*open)(struct uw_update *u, const struct uw_layer *l, float **target);
    /* Run a layer's bw_param into the bucket, then the update if the bucket is complete. */
    int (*layer)(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                 const float *const *x);
    /* After the last layer. */
    int (*finish)(struct uw_update *u);
    /* Deferred updates, before a layer is computed: if its bucket's update is pending, wait for the
     * gradient and apply it. */
    int (*deferred)(struct uw_model *m, uint32_t bucket, struct uw_error *err);
};

/* uw_gathering's window and buckets; 0 if the plan does not gather. */
uint32_t uw_update_window(const struct uw_model_config *config, const struct uw_layer *layers,
                          uint32_t layers_n);
uint32_t uw_update_buckets(const struct uw_model_config *config, struct uw_layer *layers,
                           uint32_t layers_n, struct uw_bucket *buckets);

/* Run bw_param of a layer, then its update as soon as the plan allows. Call it for the layers from
 * the last to the first. */
int uw_update_layer(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x);
/* Whether bw_input and the update can be one pass over the layer's weights. */
bool uw_update_in_one_pass(const struct uw_update *u, const struct uw_layer *l);
/* Run that pass; dx and accumulate as in struct uw_layer_ops. */
int uw_update_with_input(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                         const float *const *x, float *dx, bool accumulate);
/* After the last layer. */
int uw_update_finish(struct uw_update *u);

/* The time of the profile's clock; 0 without a profile. */
uint64_t uw_profile_start(const struct uw_model *m);
/* Add the time since *since_us to a row of the profile and set *since_us to now. Does nothing
 * without a profile or without uw_parts.profiling. */
void uw_profile_lap(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                    uint64_t *since_us);
/* Report a span from since_us to now without adding it to a row: a lap includes it. */
void uw_profile_span(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                     uint64_t since_us);

/* Optional part: lap and span of a model with a profile. */
struct uw_profiling {
    void (*lap)(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                uint64_t *since_us);
    void (*span)(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                 uint64_t from_us, uint64_t until_us);
};

/* Optional part: the spike guard, called if its factor is not 0. */
struct uw_guarding {
    /* Check that a step computes the whole minibatch at once, which the guard needs.
     * Returns UW_OK or UW_ERR_INVALID. */
    int (*check)(const struct uw_model *m, struct uw_error *err);
    /* A mean loss above this limit is a spike; infinity while the guard warms up. */
    double (*limit)(const struct uw_spike_guard *g);
    /* Decide whether the loss is a spike, and record it as in `take`. */
    bool (*is_spike)(struct uw_spike_guard *g, double loss);
    /* Record a loss that was judged elsewhere, as by a device before its update: a spike is
     * counted, any other loss enters the average. */
    void (*take)(struct uw_spike_guard *g, double loss, bool spike);
};

/* Optional part: weights of classes, called if m->class_weights is not NULL. */
struct uw_weighing {
    /* Check that the plan can weigh. Returns UW_OK or UW_ERR_UNSUPPORTED. */
    int (*check)(const struct uw_model *m, struct uw_error *err);
    /* Whether a head's samples count by the weights of their classes. */
    bool (*weighs)(const struct uw_model *m, const struct uw_head *h);
    /* In place of the kernels of the loss of head h.
     *   scale   the weight of the head's loss */
    int (*forward)(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *p, double *loss, uint32_t *correct_n);
    int (*backward)(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double scale, float *dy);
};

/* Run a layer forward; x is the model's input. */
int uw_step_layer(struct uw_model *m, struct uw_layer *l, const float *x, const struct uw_pass *p);

#endif
