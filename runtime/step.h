/* SPDX-License-Identifier: Apache-2.0
 *
 * step.h - the parts of a training step (private)
 */
#ifndef UWASA_STEP_H
#define UWASA_STEP_H

#include "graph.h"

#include "uwasa/describe.h"

/* Minibatch b, samples pass->first and on. */
struct uw_labelled {
    const struct uw_minibatch *b;
    const float *x;                 /* of the pass's first sample */
    const struct uw_pass *pass;
};

/* Parts of a step that devices take as well. */
#ifdef UW_WITHOUT_DEVICES
#define UW_STEP_PART static
#define UW_STEP_DEVICES false
#else
#define UW_STEP_PART
#define UW_STEP_DEVICES true
struct uw_update;

/* b, or the model's own minibatch. */
struct uw_minibatch uw_step_minibatch(const struct uw_model *m, const struct uw_minibatch *b);

/* May a step be taken with b? */
int uw_step_check(const struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);

/* Run minibatch b, one micro-batch after the other: forward, the losses and, if it trains, backward
 * with the updates.
 *   r  the losses are added up here, but not those of a device, which are in its queue */
int uw_step_run(struct uw_model *m, const struct uw_minibatch *b, bool trains,
                struct uw_step_result *r, struct uw_error *err);

/* The forward pass; x is the model's input. */
int uw_step_forward(struct uw_model *m, const float *x, const struct uw_pass *p,
                    struct uw_error *err);

/* Returns UW_ERR_NONFINITE: err names the first layer whose output is not finite. Runs the forward
 * pass again to find it, so that ordinary steps pay nothing. */
int uw_step_name_nonfinite(struct uw_model *m, const float *x, const struct uw_pass *p,
                           struct uw_error *err);

/* Adam's next step after so many. */
struct uw_adam uw_update_adam(const struct uw_optimizer *o, uint64_t updates);

/* A loss, not weighted. On a device: loss and correct_n are the device's, and an elementwise
 * loss is not yet divided by the head's n. */
int uw_loss_forward(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    double *loss, uint32_t *correct_n);
double uw_loss_weight(const struct uw_loss_def *d);

/* Where the gradient of the head's value goes; NULL: nobody wants it. */
float *uw_loss_gradient(const struct uw_model *m, const struct uw_head *h);
#endif

/* A stretch of computing is over: call the program's function. */
void uw_step_between(const struct uw_model *m);

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


/* Losses other than cross-entropy of head h; its gradient, or nothing but the targets, in room. */
struct uw_elementwise {
    int (*forward)(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                   float *room, double *loss, uint32_t *correct_n);
    /* scale: of one element's gradient */
    int (*backward)(struct uw_model *m, const struct uw_labelled *s, const struct uw_head *h,
                    float scale, float *dy);
};

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

/* Does a plan keep gradients for a while, and so need uw_parts.gathering? */
bool uw_update_gathers(const struct uw_model_config *config);

/* Gradients that live on: one bucket, or all of them (uwasa/bucket.h). */
struct uw_gathering {
    /* Can a configuration that gathers, clips or has micro-batches be done exactly? Returns UW_OK
     * or UW_ERR_INVALID. */
    int (*check)(const struct uw_model_config *config, const struct uw_graph *g,
                 struct uw_error *err);
    /* Floats of m->gradients. */
    uint32_t (*window)(const struct uw_model_config *config, const struct uw_layer *layers,
                       uint32_t layers_n);
    /* Deferred updates: number the buckets.
     *   layers   `bucket` is set in those that are trained
     *   buckets  [the number returned], or NULL: only counted */
    uint32_t (*buckets)(const struct uw_model_config *config, struct uw_layer *layers,
                        uint32_t layers_n, struct uw_bucket *buckets);
    /* Before a layer's gradient is made, on a device: its place in the bucket, target[t] NULL for
     * what is not trained; 0 with the step's first micro-batch. */
    int (*open)(struct uw_update *u, const struct uw_layer *l, float **target);
    /* bw_param of a layer into the bucket, and the update of a bucket that is complete. */
    int (*layer)(struct uw_update *u, const struct uw_layer *l, const struct uw_pass *p,
                 const float *const *x);
    /* After the last layer. */
    int (*finish)(struct uw_update *u);
    /* Deferred updates: before a layer is computed. Waits for its bucket and updates it, if
     * pending. */
    int (*deferred)(struct uw_model *m, uint32_t bucket, struct uw_error *err);
};

/* uw_gathering's window and buckets; 0: a plan has none. */
uint32_t uw_update_window(const struct uw_model_config *config, const struct uw_layer *layers,
                          uint32_t layers_n);
uint32_t uw_update_buckets(const struct uw_model_config *config, struct uw_layer *layers,
                           uint32_t layers_n, struct uw_bucket *buckets);

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

/* The time by the profile's clock; 0 without one. */
uint64_t uw_profile_start(const struct uw_model *m);
/* Put the time since *since_us on a row's account; *since_us moves on to now. Nothing without a
 * profile, or without uw_parts.profiling. */
void uw_profile_lap(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                    uint64_t *since_us);
/* The same for time that is part of another account. */
void uw_profile_span(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                     uint64_t since_us);

/* Both, of a model with a profile. */
struct uw_profiling {
    void (*lap)(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                uint64_t *since_us);
    void (*span)(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                 uint64_t from_us, uint64_t until_us);
};

/* The spike guard, where its factor is not 0. */
struct uw_guarding {
    /* Can it look at the whole minibatch? Returns UW_OK or UW_ERR_INVALID. */
    int (*check)(const struct uw_model *m, struct uw_error *err);
    /* A sample's mean loss above it is a spike; infinity while the guard warms up. */
    double (*limit)(const struct uw_spike_guard *g);
    /* Is the loss a spike? Takes it as such, or not. */
    bool (*is_spike)(struct uw_spike_guard *g, double loss);
    /* A loss of which that was decided elsewhere, as by a device, before its update: a spike is
     * counted, any other becomes part of the average. */
    void (*take)(struct uw_spike_guard *g, double loss, bool spike);
};

/* Run a layer forward; x is the model's input. */
int uw_step_layer(struct uw_model *m, struct uw_layer *l, const float *x, const struct uw_pass *p);

#endif
