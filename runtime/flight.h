/* SPDX-License-Identifier: Apache-2.0
 *
 * flight.h - models whose kernels run on a device (private)
 *
 * A step is put into the device's queue and asked for later. What the processor reads and writes is
 * beside it: an image of the parameters, velocity and optimizer's vectors, and two minibatches. */
#ifndef UWASA_FLIGHT_H
#define UWASA_FLIGHT_H

#include "step.h"

/* A minibatch's place. */
struct uw_input {
    float *x;                       /* [batch_n][input_n] */
    uint32_t *label;                /* [batch_n] */
    float *target;                  /* [batch_n][target_n] */
};

struct uw_flight {
    /* In turn: the kernels', and the processor's, which are m->input, m->label, m->target. */
    struct uw_input input[UW_DEVICE_STEPS_MAX], slot[UW_DEVICE_STEPS_MAX];
    float *logits;                  /* [micro_n][classes], the processor's */
    float *gradients;               /* [gradients_n], the processor's; NULL: not handed out */
    uint32_t begun, ended;
    uint32_t drained;               /* of those in flight: stopped, and asked for already */
    struct uw_minibatch batch[UW_DEVICE_STEPS_MAX];     /* of the steps in flight */
};

/* The part of a program that knows devices. */
struct uw_on_device {
    /* Bytes of the image. */
    size_t (*image_bytes)(const struct uw_model_config *config, const struct uw_graph *g,
                          const struct uw_model_need *need);
    /* Take the image from the arena; model.c has taken what kernels work on. */
    int (*bind)(struct uw_model *m, const struct uw_draft *d, struct uw_arena *arena,
                struct uw_error *err);
    int (*begin)(struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);
    int (*end)(struct uw_model *m, struct uw_step_result *r, struct uw_error *err);
    /* Of a step that is put into the queue, what uw_step_run has of the losses. */
    int (*losses)(struct uw_model *m, const struct uw_labelled *s);
    int (*evaluate)(struct uw_model *m, const struct uw_minibatch *b, double *loss_sum,
                    uint32_t *correct_n);
    int (*forward)(struct uw_model *m, const float *x, uint32_t n, const float **logits);
    int (*warm)(struct uw_model *m, uint32_t n, struct uw_error *err);
    int (*pull)(const struct uw_model *m);
    int (*push)(struct uw_model *m);
    /* Gradients g, to where the network may change them, and back. The first waits. */
    int (*give)(struct uw_model *m, float *g, uint32_t count_n, float **out);
    int (*take_back)(struct uw_model *m, float *g, uint32_t count_n);
    /* Deferred updates: copy a bucket's gradient to where the network may change it; see ticket. */
    int (*fetch)(struct uw_model *m, uint32_t bucket);
};

/* The model's device; NULL: the processor's. */
static inline const struct uw_device_kernels *uw_device_of(const struct uw_model *m)
{
    return uw_device(m->config.kernels);
}

/* Are parameters in one place for the device and another for the processor? */
static inline bool uw_has_image(const struct uw_kernels *k)
{
    return uw_device(k) != NULL && !k->device->shares_parameters;
}

#endif
