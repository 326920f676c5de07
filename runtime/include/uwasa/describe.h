/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/describe.h - the layers and memory blocks of a model's plan, and a profile of its steps
 *
 * uw_model_describe visits every layer and every block of the activation area of a configuration
 * without binding it. A profile is filled by the training steps of a bound model.
 *
 * Units      floats (_n), bytes, steps of the plan: the layers forward, the losses, the layers
 *            backward, with recomputed layers in between
 * Memory     the caller's; texts belong to the definition
 */
#ifndef UWASA_DESCRIBE_H
#define UWASA_DESCRIBE_H

#include "uwasa/cplusplus.h"
#include "uwasa/model.h"

UW_C_BEGIN

struct uw_layer_info {
    const char *name;
    const char *kind;               /* "conv2d", as in a model file */
    uint32_t in[UW_AXES_MAX], in_rank;      /* of the first input */
    uint32_t out[UW_AXES_MAX], out_rank;
    uint32_t parameters_n, trained_n;
    uint64_t multiply_adds;         /* forward pass of one sample; 0: no products */
    uint32_t passes;                /* passes of that cost in a training step: forward, gradient of
                                       inputs and of weights, as needed */
    bool view;                      /* needs no memory and no time */
    bool recomputed, auxiliary;
    uint32_t forward_step, again_step, backward_step;
};

enum uw_block_kind {
    UW_BLOCK_OUTPUT = 0,
    UW_BLOCK_GRADIENT,              /* of the output */
    UW_BLOCK_KEPT,                  /* stored by the layer for its backward pass */
    UW_BLOCK_OUTPUT_AGAIN,
    UW_BLOCK_KEPT_AGAIN,
    UW_BLOCK_LOSS
};

/* A block of the activation area; layers that work in place share one. */
struct uw_block_info {
    uint32_t layer;                 /* index of the layer it is named after */
    enum uw_block_kind kind;
    size_t offset, bytes;
    uint32_t birth, death;          /* first and last step that need it */
};

struct uw_visitor {
    /* Either may be NULL. */
    void (*layer)(void *arg, const struct uw_layer_info *layer);
    void (*block)(void *arg, const struct uw_block_info *block);    /* by layer */
    void *arg;
};

/* Visit the layers in order, then the blocks. Returns what uw_model_measure returns. */
int uw_model_describe(const struct uw_model_config *config, const struct uw_visitor *v,
                      struct uw_error *err);

/* Fill info of layer index < layers_n of a bound model. */
void uw_model_layer_info(const struct uw_model *m, uint32_t index, struct uw_layer_info *info);

/* Microseconds that training steps spent since the rows were zeroed. */
struct uw_profile_row {
    uint64_t forward_us;            /* recomputation too */
    uint64_t bw_input_us;
    uint64_t bw_param_us;           /* with the update */
    uint64_t wait_us;               /* deferred updates: for the layer's bucket */
};

enum uw_profile_part {
    UW_PROFILE_FORWARD = 0,
    UW_PROFILE_BW_INPUT,
    UW_PROFILE_BW_PARAM,            /* with the update unless it is deferred */
    UW_PROFILE_UPDATE,              /* of a bucket; counts for the layer that completed or needs
                                       it */
    UW_PROFILE_WAIT                 /* in the functions of uwasa/bucket.h */
};

struct uw_profile {
    /* Monotonic clock. */
    uint64_t (*now_us)(void *arg);
    void *arg;
    struct uw_profile_row *rows;    /* [layers_n + 1], the last one for the losses */
    /* (optional) Called at the end of a part of a training step. Updates and waits that are not
     * deferred are within UW_PROFILE_BW_PARAM. */
    void (*span)(void *arg, uint32_t row, enum uw_profile_part part, uint64_t from_us,
                 uint64_t until_us);
};

UW_C_END
#endif
