/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/model.h - a network: its description, its memory, its forward and backward pass
 *
 * Describe the layers in a const table (a graph: a layer names its inputs, the default is the
 * layer before it), then
 *
 *     config.workspace = ...;                      somewhere to plan in, free afterwards
 *     uw_model_measure(&config, &need, &err);      exact bytes, by purpose
 *     uw_model_bind(&model, &config, &arena, &err);
 *     uw_arena_seal(&arena);
 *     uw_model_init_weights(&model, seed);         so far: or uw_model_open
 *     uw_model_train_step(&model, x, label, n, &sgd, &result, &err);   and so on
 *
 * Layout     input [N][C][H][W]; parameters one flat vector, struct uw_params
 * Memory     one arena; definitions and names are borrowed and must outlive the model
 * Blocking   until computed      Context  one thread per model
 */
#ifndef UWASA_MODEL_H
#define UWASA_MODEL_H

#include "uwasa/arena.h"
#include "uwasa/kernels.h"
#include "uwasa/params.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

#define UW_LAYER_INPUTS_MAX 4
#define UW_LAYER_NAME_MAX 96u       /* a checkpoint stores names up to there */

/* Bytes of config.workspace for a model of that many layers. */
#define UW_MODEL_WORKSPACE_BYTES(layers_n) ((size_t)(layers_n) * 512u + 512u)

enum uw_layer_kind {
    UW_LAYER_CONV2D = 1,
    UW_LAYER_DENSE,
    UW_LAYER_MAXPOOL2D,
    UW_LAYER_RELU,
    UW_LAYER_FLATTEN,
    UW_LAYER_ADD                    /* sum of two or more inputs of one shape */
};

struct uw_conv2d_def {
    uint32_t out_channels;
    uint32_t kernel_h, kernel_w;    /* kernel_w 0: kernel_h */
    uint32_t stride_h, stride_w;    /* 0: 1; stride_w 0: stride_h */
    uint32_t pad_h, pad_w;          /* zeros on each side; 0 is 0 */
    bool no_bias;
};

struct uw_dense_def {
    uint32_t out;
    bool no_bias;
};

struct uw_maxpool2d_def {
    uint32_t kernel_h, kernel_w;    /* kernel_w 0: kernel_h */
    uint32_t stride_h, stride_w;    /* 0: the kernel's size */
    uint32_t pad_h, pad_w;
};

struct uw_layer_def {
    enum uw_layer_kind kind;
    const char *name;               /* unique, 1 to UW_LAYER_NAME_MAX bytes; parameters are
                                       "<name>.weight", "<name>.bias" */
    const char *inputs[UW_LAYER_INPUTS_MAX];    /* layer names, or "input"; all NULL: the layer
                                                   before, "input" for the first */
    union {
        struct uw_conv2d_def conv2d;
        struct uw_dense_def dense;
        struct uw_maxpool2d_def maxpool2d;
    };
};

/* The last layer's output are logits [N][classes]; the loss is softmax cross-entropy, the mean
 * over the minibatch. */
struct uw_model_def {
    const char *name;
    uint32_t in_channels, in_h, in_w;   /* in_h, in_w 0: 1 */
    const struct uw_layer_def *layers;
    uint32_t layers_n;
};

enum uw_plan_mode {
    UW_PLAN_IMMEDIATE = 0,          /* the update is fused into bw_param: no gradient array */
    UW_PLAN_FULL,                   /* all gradients live until the update */
    UW_PLAN_INFERENCE               /* forward only */
};

struct uw_model_config {
    const struct uw_model_def *def; /* borrowed */
    const struct uw_kernels *kernels;   /* borrowed */
    struct uw_workers *workers;     /* borrowed; NULL: one thread */
    uint32_t batch_n;               /* largest minibatch; 1 or more */
    enum uw_plan_mode mode;
    bool momentum;                  /* keep one velocity a parameter */
    bool snapshot;                  /* keep a copy that peers can pull */
    bool input;                     /* keep room for one minibatch: struct uw_model.input, .label */
    void *workspace;                /* used by measure and bind only, free for others afterwards */
    size_t workspace_bytes;         /* at least UW_MODEL_WORKSPACE_BYTES(def->layers_n) */
};

/* Bytes by purpose. The sum, total_bytes, is what uw_model_bind takes from the arena. */
struct uw_model_need {
    uint32_t parameters_n;
    size_t parameters_bytes;
    size_t gradients_bytes;
    size_t optimizer_bytes;
    size_t activations_bytes;       /* activations and their gradients, lifetimes overlapped */
    size_t scratch_bytes;           /* the kernels' */
    size_t snapshot_bytes;
    size_t input_bytes;             /* the minibatch's samples and labels */
    size_t graph_bytes;             /* layer and segment tables */
    size_t total_bytes;
};

struct uw_layer;                    /* one bound layer; private */

struct uw_model {
    struct uw_model_config config;
    struct uw_params params;
    struct uw_snapshot snapshot;
    struct uw_exec exec;
    struct uw_layer *layers;
    uint32_t layers_n;
    uint32_t classes;               /* size of a row of logits */
    uint32_t input_n;               /* floats of one sample */
    float *gradients;               /* [params.size_n], plan mode full only */
    float *velocity;                /* [params.size_n], config.momentum only */
    float *input;                   /* [batch_n][input_n], config.input only */
    uint32_t *label;                /* [batch_n], config.input only */
    float *probabilities;           /* [batch_n][classes] of the last labelled pass */
};

struct uw_step_result {
    double loss;                    /* mean over the minibatch, before the update */
    uint32_t correct_n;
};

/* Check the definition, infer every shape and compute the memory plan.
 *
 *   need  written on success
 *   err   may be NULL; else a sentence that names the layer
 *
 * Returns UW_OK, UW_ERR_INVALID, UW_ERR_SHAPE, UW_ERR_NOTFOUND (an input names no earlier layer),
 * UW_ERR_TOOBIG (sizes overflow), UW_ERR_NOMEM (workspace too small). */
int uw_model_measure(const struct uw_model_config *config, struct uw_model_need *need,
                     struct uw_error *err);

/* Place the model into the arena: exactly need.total_bytes of it. Weights are zero afterwards.
 * Returns what uw_model_measure returns, or UW_ERR_NOMEM, UW_ERR_SEALED. */
int uw_model_bind(struct uw_model *m, const struct uw_model_config *config,
                  struct uw_arena *arena, struct uw_error *err);

/* He normal for a layer that feeds a ReLU (standard deviation sqrt(2 / fan_in)), Glorot normal
 * otherwise (sqrt(2 / (fan_in + fan_out))), zero biases. Same seed, same bits, on any device. */
void uw_model_init_weights(struct uw_model *m, uint64_t seed);

/* All of it at once, for a program whose model is the only thing in its memory: plan in the end of
 * the block unless the configuration names a workspace, bind in the rest, initialise the weights.
 *
 *   memory, bytes  at least need.total_bytes + uw_arena_slack_bytes(), and the workspace
 *
 * Returns what uw_model_bind returns. */
int uw_model_open(struct uw_model *m, const struct uw_model_config *config, void *memory,
                  size_t bytes, uint64_t seed, struct uw_error *err);

/* Forward pass.
 *
 *   x       [n][C][H][W] read, n <= batch_n
 *   logits  set to [n][classes], valid until the next call on m; may be NULL
 *
 * Returns UW_OK or UW_ERR_INVALID (n is 0 or above batch_n). */
int uw_model_forward(struct uw_model *m, const float *x, uint32_t n, const float **logits);

/* Forward pass and loss on labelled samples, no update.
 * Adds to *loss_sum and *correct_n. Returns UW_OK or UW_ERR_INVALID. */
int uw_model_evaluate(struct uw_model *m, const float *x, const uint32_t *label, uint32_t n,
                      double *loss_sum, uint32_t *correct_n);

/* One training step: forward, loss, backward, update.
 *
 *   x, label  [n] samples
 *   sgd       the update; momentum != 0 needs config.momentum
 *   result    written on success
 *
 * A NaN or infinity stops the step: the code is UW_ERR_NONFINITE, err names the first layer that
 * made it. If it shows in the forward pass or the loss, nothing was changed; if it first shows in
 * the backward pass of plan mode immediate, the layers above have been updated and stay finite.
 *
 * Returns UW_OK, UW_ERR_INVALID (n, label out of range, plan without training),
 * UW_ERR_NONFINITE. */
int uw_model_train_step(struct uw_model *m, const float *x, const uint32_t *label, uint32_t n,
                        const struct uw_sgd *sgd, struct uw_step_result *result,
                        struct uw_error *err);

#endif
