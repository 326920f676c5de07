/* SPDX-License-Identifier: Apache-2.0
 *
 * flight.h - steps in flight: models whose kernels run on a device, such as a GPU (private)
 *
 * A step is queued on the device; its result is fetched later. The processor works on its own copy
 * (the image) of parameters, velocity and optimizer's vectors, and on minibatches of its own. */
#ifndef UWASA_FLIGHT_H
#define UWASA_FLIGHT_H

#include "step.h"

/* Memory of one minibatch. */
struct uw_input {
    float *x;                       /* [batch_n][input_n] */
    uint32_t *label;                /* [batch_n] */
    float *target;                  /* [batch_n][target_n] */
};

struct uw_flight {
    /* Used in turn. input: read by kernels; slot: filled by the processor, through m->input,
     * m->label, m->target. */
    struct uw_input input[UW_DEVICE_STEPS_MAX], slot[UW_DEVICE_STEPS_MAX];
    float *logits;                  /* [micro_n][classes], for the processor */
    float *gradients;               /* [gradients_n], for the processor; NULL: not handed out */
    uint32_t begun, ended;          /* steps */
    uint32_t drained;               /* steps in flight whose results were fetched and dropped */
    struct uw_minibatch batch[UW_DEVICE_STEPS_MAX];     /* of the steps in flight */
};

/* Optional part: training on a device. */
struct uw_on_device {
    size_t (*image_bytes)(const struct uw_model_config *config, const struct uw_graph *g,
                          const struct uw_model_need *need);
    /* Allocate the image; model.c has allocated what kernels work on. */
    int (*bind)(struct uw_model *m, const struct uw_draft *d, struct uw_arena *arena,
                struct uw_error *err);
    int (*begin)(struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);
    int (*end)(struct uw_model *m, struct uw_step_result *r, struct uw_error *err);
    /* Queue the losses of a step, and their gradients if it trains. */
    int (*losses)(struct uw_model *m, const struct uw_labelled *s);
    int (*evaluate)(struct uw_model *m, const struct uw_minibatch *b, double *loss_sum,
                    uint32_t *correct_n);
    int (*forward)(struct uw_model *m, const float *x, uint32_t n, const float **logits);
    int (*warm)(struct uw_model *m, uint32_t n, struct uw_error *err);
    int (*pull)(const struct uw_model *m);
    int (*push)(struct uw_model *m);
    /* give: copy gradients g to where the network may change them, and wait for that. take_back:
     * copy them back. */
    int (*give)(struct uw_model *m, float *g, uint32_t count_n, float **out);
    int (*take_back)(struct uw_model *m, float *g, uint32_t count_n);
    /* Deferred updates: queue a copy of a bucket's gradient for the network; its `ticket` tells
     * when it has arrived. */
    int (*fetch)(struct uw_model *m, uint32_t bucket);
};

/* The model's device; NULL: kernels run on the processor. */
static inline const struct uw_device_kernels *uw_device_of(const struct uw_model *m)
{
    return uw_device(m->config.kernels);
}

/* Whether device and processor have separate copies of the parameters. */
static inline bool uw_has_image(const struct uw_kernels *k)
{
    return uw_device(k) != NULL && !k->device->shares_parameters;
}

#endif
