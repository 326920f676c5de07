/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/model.h - a neural network: description, memory, forward and backward pass
 *
 * Describe the layers in a const table (a graph: each layer names its inputs, by default the
 * previous layer), then
 *
 *     config.workspace = ...;                      memory for planning, free afterwards
 *     uw_model_measure(&config, &need, &err);      exact bytes, by purpose
 *     uw_model_bind(&model, &config, &arena, &err);
 *     uw_arena_seal(&arena);
 *     uw_model_init_weights(&model, seed);         uw_model_open does all of the above
 *     uw_model_train_step(&model, &minibatch, &result, &err);          and so on
 *
 * Layout     input [N][C][H][W]; parameters one flat vector, struct uw_params
 * Memory     one arena; definitions and names are borrowed and must outlive the model
 * Blocking   until computed, see uwasa/between.h      Context  one thread per model
 */
#ifndef UWASA_MODEL_H
#define UWASA_MODEL_H

#include "uwasa/arena.h"
#include "uwasa/between.h"
#include "uwasa/bucket.h"
#include "uwasa/cplusplus.h"
#include "uwasa/kernels.h"
#include "uwasa/layers.h"
#include "uwasa/model_config.h"
#include "uwasa/params.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

UW_C_BEGIN

struct uw_layer;                    /* a bound layer; private */
struct uw_head;                     /* a bound loss; private */
struct uw_flight;
struct uw_profile;                  /* uwasa/describe.h */

/* Skips steps whose loss is far above the running average: no parameter changes. Needs the loss of
 * the whole minibatch: micro_n == batch_n. */
struct uw_spike_guard {
    float factor;                   /* limit as a multiple of the average; 0: off */
    uint32_t seen;                  /* losses in the average, up to UW_SPIKE_WARMUP */
    double mean;
    uint64_t skipped;
};
#define UW_SPIKE_WARMUP 50u         /* steps before the guard begins */

struct uw_step_result {
    double loss;                    /* mean over the minibatch, before the update */
    bool skipped;                   /* by the spike guard */
    uint32_t correct_n;             /* cross_entropy: the largest logit is the label's */
};

/* The vectors that kernels access: the model's, or on a device that does not share them its copies,
 * which the processor must not access. */
struct uw_worked {
    float *x, *velocity;            /* as params.x and velocity */
    float *state[UW_OPTIMIZER_VECTORS_MAX];
};

struct uw_model {
    struct uw_model_config config;
    struct uw_optimizer optimizer;  /* lr and weight_decay may be changed between steps */
    struct uw_params params;
    struct uw_snapshot snapshot;
    struct uw_exec exec;
    struct uw_layer *layers;
    uint32_t layers_n;
    struct uw_head *heads;
    uint32_t heads_n;
    uint32_t classes;               /* logits of a sample: output size of the first loss's layer */
    uint32_t input_n;               /* floats of one sample */
    uint32_t target_n;              /* floats of one target; 0: labels or the sample are targets */
    uint32_t trainable_n;
    float *gradients;               /* [gradients_n]: all (full, deferred) or one bucket */
    uint32_t gradients_n;           /* 0: updates need no gradient array */
    float *state[UW_OPTIMIZER_VECTORS_MAX];     /* the optimizer's, [trainable_n] each */
    float *velocity;                /* [params.size_n], config.mixing_velocity only */
    float *kept;                    /* [params.size_n], the caller's: a second set of parameters,
                                       in checkpoints; NULL: none */
    float *input;                   /* [batch_n][input_n], config.input only */
    uint32_t *label;                /* [batch_n], config.input only */
    float *target;                  /* [batch_n][target_n], config.input only */
    float *probabilities;           /* inference: [micro_n][classes] of the last labelled pass */
    uint64_t updates;               /* training steps without skipped ones; in checkpoints */
    struct uw_spike_guard guard;    /* set its factor; the rest is in checkpoints */
    uint64_t seed;                  /* of dropout; in checkpoints */
    const float *class_weights;     /* [classes], of one binary output [2], the caller's, above 0:
                                       training weighs samples by class, see uw_model_train_step, or
                                       positions by theirs; NULL: all count the same */
    float anomaly_threshold;        /* see uwasa/anomaly.h; in weights files; 0: none */
    struct uw_profile *profile;     /* NULL: steps are not timed */
    uw_between_fn between;          /* may be NULL */
    void *between_arg;
    uw_bucket_fn bucket;            /* plan modes buckets and full; may be NULL */
    uw_bucket_ready_fn bucket_ready;    /* deferred updates, instead of bucket; may be NULL */
    uw_bucket_wait_fn bucket_wait;      /* deferred updates; may be NULL */
    void *bucket_arg;               /* of all three */
    struct uw_bucket *buckets;      /* [buckets_n], deferred updates only */
    uint32_t buckets_n;
    struct uw_optimizer late_optimizer; /* of the step that pending updates belong to */
    uint64_t late_step;             /* value of updates before that step */
    struct uw_worked worked;
    struct uw_flight *flight;       /* steps in flight on a device; NULL without a device */
    struct uw_step_result done;     /* without a device: result of the step that has begun */
    bool begun;
};

/* Samples x [n][sample] with targets; the unused one of label and target may be NULL. */
struct uw_minibatch {
    const float *x;                 /* NULL: the model's input, label, target */
    const uint32_t *label;          /* [n] */
    const float *target;            /* [n][target_n] */
    uint32_t n;
};

/* Check the definition, infer every shape and compute the memory plan.
 *
 *   need  written on success; if only the budget cannot be met, that of the smallest plan
 *   err   gets a sentence that names the layer; may be NULL
 *
 * Returns UW_OK, UW_ERR_INVALID, UW_ERR_SHAPE, UW_ERR_NOTFOUND (an input names no earlier layer),
 * UW_ERR_TOOBIG (sizes overflow), UW_ERR_NOMEM (workspace too small, or the budget cannot be met:
 * err contains the smallest possible budget). */
int uw_model_measure(const struct uw_model_config *config, struct uw_model_need *need,
                     struct uw_error *err);

/* Allocate the model from the arena, exactly need.total_bytes. With config->regions each purpose is
 * allocated from its region's arena, and `arena` may be NULL. Weights are zero afterwards.
 * Returns what uw_model_measure returns, or UW_ERR_NOMEM, UW_ERR_SEALED. */
int uw_model_bind(struct uw_model *m, const struct uw_model_config *config,
                  struct uw_arena *arena, struct uw_error *err);

/* He normal for a layer that feeds a ReLU (standard deviation sqrt(2 / fan_in)), Glorot normal
 * otherwise (sqrt(2 / (fan_in + fan_out))), zero biases; scales and variances one; recurrent
 * layers uniform within 1 / sqrt(hidden); embeddings standard normal; LoRA initially adds zero.
 * A tensor in config.constants starts as a copy. Same seed, same bits, on any device. Also sets
 * m->seed. */
void uw_model_init_weights(struct uw_model *m, uint64_t seed);

/* Plan, bind and initialise the weights in one call, in a memory block for this model only. Plans
 * in the end of the block unless the configuration has a workspace.
 *
 *   memory, bytes  at least need.total_bytes + uw_arena_slack_bytes(), and the workspace
 *
 * Returns what uw_model_bind returns. */
int uw_model_open(struct uw_model *m, const struct uw_model_config *config, void *memory,
                  size_t bytes, uint64_t seed, struct uw_error *err);

/* Shape of a bound model's sample (layer UINT32_MAX) or of a layer's output for one sample.
 *   dim  [4] written; sizes beyond the rank are 1
 * Returns the rank, 1 to 4. */
uint32_t uw_model_shape(const struct uw_model *m, uint32_t layer, uint32_t dim[UW_AXES_MAX]);

/* Forward pass as in inference: running statistics, no dropout.
 *
 *   x       [n][sample] read, n <= micro_n
 *   logits  set to [n][classes], valid until the next call on m; may be NULL
 *
 * Returns UW_OK or UW_ERR_INVALID (n is 0 or too large; an embedding's index out of range). */
int uw_model_forward(struct uw_model *m, const float *x, uint32_t n, const float **logits);

/* Positions that have a class each in the first loss, or 1. */
uint32_t uw_model_positions(const struct uw_model *m);

/* Forward pass and first loss on b->n <= batch_n samples, as in inference, no update.
 * Adds the samples' losses to *loss_sum and to *correct_n. Returns UW_OK or UW_ERR_INVALID. */
int uw_model_evaluate(struct uw_model *m, const struct uw_minibatch *b, double *loss_sum,
                      uint32_t *correct_n);

/* One training step: forward, loss, backward, update by m->optimizer.
 *
 *   b       n <= batch_n samples
 *   result  written on success
 *
 * With m->class_weights the cross-entropy of class labels is a weighted mean over the minibatch,
 * sum of w[label] loss / sum of w[label], as PyTorch's CrossEntropyLoss(weight=w); so is the binary
 * cross-entropy of one output, whose class is the target, rounded. Not on a device, not with label
 * smoothing. Evaluation does not weigh.
 *
 * A NaN or infinity stops the step with UW_ERR_NONFINITE; err names the first layer that computed
 * it. If that is in the forward pass or the loss, no parameter has changed (running statistics
 * have). If it is in the backward pass of plan modes immediate and buckets, the layers above have
 * been updated and are finite.
 *
 * Returns UW_OK, UW_ERR_INVALID (n, label out of range, plan without training),
 * UW_ERR_UNSUPPORTED (class weights), UW_ERR_NONFINITE, or what the functions of uwasa/bucket.h
 * returned. */
int uw_model_train_step(struct uw_model *m, const struct uw_minibatch *b,
                        struct uw_step_result *result, struct uw_error *err);

/* A training step in two halves, so that the processor prepares the next minibatch while a device
 * computes: up to uw_model_steps_free steps may begin before the first one ends. Without a device
 * the first half does all the work. After begin, m->input, m->label and m->target belong to the
 * next step; other memory in b must not change until the end.
 *
 * step_end returns the oldest step's result. Both return what uw_model_train_step returns; begin
 * also UW_ERR_AGAIN (no step is free), end UW_ERR_INVALID (no step has begun). After an error the
 * steps in flight have changed nothing, but have to be ended. */
int uw_model_step_begin(struct uw_model *m, const struct uw_minibatch *b, struct uw_error *err);
int uw_model_step_end(struct uw_model *m, struct uw_step_result *result, struct uw_error *err);
uint32_t uw_model_steps_free(const struct uw_model *m);

/* Run steps of n samples on a device, so that it loads, records and allocates all that later steps
 * need. Call it after bind, before the weights are initialised, for config.batch_n and for a
 * smaller last minibatch of an epoch. Does nothing without a device.
 *
 * Returns UW_OK, or what uw_model_train_step returns. */
int uw_model_warm(struct uw_model *m, uint32_t n, struct uw_error *err);

/* Synchronise params.x, velocity and the optimizer's vectors with a device that does not share
 * them. pull waits for all steps begun and copies from the device; push copies to the device.
 * Initial weights and checkpoints do so themselves; other code that reads or writes the vectors
 * calls these. Without a copy on a device, pull only waits and push does nothing.
 *
 * Returns UW_OK, or UW_ERR_IO: the device failed. */
int uw_model_pull(const struct uw_model *m);
int uw_model_push(struct uw_model *m);

/* The same for parameters offset_n .. offset_n + count_n - 1 only, and for the velocity only. */
int uw_model_pull_range(const struct uw_model *m, uint32_t offset_n, uint32_t count_n);
int uw_model_push_range(struct uw_model *m, uint32_t offset_n, uint32_t count_n);
int uw_model_push_velocity(struct uw_model *m);

/* Are all parameters finite, in the copy that kernels use? */
bool uw_model_is_finite(const struct uw_model *m);

UW_C_END
#endif
