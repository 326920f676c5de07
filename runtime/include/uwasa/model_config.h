/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/model_config.h - definition of a model, configuration of its plan, memory that it needs
 *
 * Part of uwasa/model.h, which includes this.
 *
 * Units      _n counts elements, _bytes bytes
 * Memory     definitions, tables and arenas are borrowed and must outlive the model
 */
#ifndef UWASA_MODEL_CONFIG_H
#define UWASA_MODEL_CONFIG_H

#include "uwasa/arena.h"
#include "uwasa/kernels.h"
#include "uwasa/layers.h"
#include "uwasa/optimizer.h"
#include "uwasa/region.h"

/* Bytes of config.workspace for a model of that many layers. */
#define UW_MODEL_WORKSPACE_BYTES(layers_n) ((size_t)(layers_n) * 640u + 1024u)

struct uw_model_def {
    const char *name;
    uint32_t in_channels, in_h, in_w;   /* in_h 0: [channels][w]; in_h and in_w 0: [channels] */
    const struct uw_layer_def *layers;
    uint32_t layers_n;
    /* NULL: softmax cross-entropy of the last layer's output. The first entry is the main loss; the
     * others are auxiliary: inference omits layers that only they need. */
    const struct uw_loss_def *losses;
    uint32_t losses_n;
};

enum uw_plan_mode {
    UW_PLAN_IMMEDIATE = 0,          /* update after each layer's gradient: plain SGD and momentum
                                       need no gradient array, others that of one layer */
    UW_PLAN_BUCKETS,                /* gradients live one bucket at a time, see uwasa/bucket.h */
    UW_PLAN_FULL,                   /* all gradients live until the update */
    UW_PLAN_INFERENCE               /* forward only */
};

/* The trained parameters; zero: all that are not frozen. Backward ends at the first layer with a
 * trained parameter. */
struct uw_adapt {
    bool bias_only;
    uint32_t last_n;                /* only the last last_n layers with parameters; 0: all */
    uint32_t lora_rank;             /* only low-rank additions to the dense layers; 0: none */
    float lora_alpha;               /* their scale is lora_alpha / lora_rank; 0: lora_rank */
};

/* A parameter tensor in constant memory, such as flash. A layer that is not trained, and whose
 * tensors are all constants, reads them there: they need no other memory and are not part of the
 * flat vector that peers exchange. Other tensors start as a copy. */
struct uw_constant {
    const char *name;               /* "conv1.weight" */
    const float *data;              /* [n] */
    uint32_t n;
};

struct uw_model_config {
    const struct uw_model_def *def; /* borrowed */
    const struct uw_kernels *kernels;   /* borrowed */
    struct uw_workers *workers;     /* borrowed; NULL: one thread */
    uint32_t batch_n;               /* largest minibatch; 1 or more */
    uint32_t micro_n;               /* samples computed at a time; does not change the result. 0:
                                       batch_n */
    enum uw_plan_mode mode;
    struct uw_optimizer optimizer;
    struct uw_adapt adapt;
    uint32_t bucket_n;              /* minimum size of a bucket in floats; 0: one layer */
    bool late_updates;              /* plan modes buckets and full: deferred updates, in the next
                                       forward pass, all gradients live; see uwasa/bucket.h */
    size_t budget_bytes;            /* recompute activations in backward until total_bytes fits;
                                       0: never recompute */
    const struct uw_constant *constants;    /* [constants_n], borrowed; may be NULL */
    uint32_t constants_n;
    const struct uw_regions *regions;   /* borrowed until bind returns; NULL: bind's arena only */
    bool mixing_velocity;           /* allocate one float a parameter for a mixing rule */
    bool snapshot;                  /* allocate a copy of the parameters that peers can pull */
    bool input;                     /* allocate one minibatch: input, label, target */
    bool hand_out;                  /* m->bucket or m->bucket_ready will be set: on a device,
                                       gradients also need the processor's memory */
    /* Borrowed; for kernels with a device (uwasa/device.h), else NULL: the device's memory, and, if
     * it shares parameters, memory that both access for parameters, velocity and the optimizer's
     * vectors */
    struct uw_arena *kernel_arena, *shared_arena;
    void *workspace;                /* used by measure and bind only */
    size_t workspace_bytes;         /* at least UW_MODEL_WORKSPACE_BYTES(def->layers_n) */
};

/* Bytes by purpose. Their sum is total_bytes, which uw_model_bind allocates from the arena; with a
 * device it is total_bytes + kernel_bytes + shared_bytes. */
struct uw_model_need {
    uint32_t parameters_n;          /* weights and biases, frozen ones too */
    uint32_t auxiliary_n;           /* of these, needed by auxiliary losses only */
    uint32_t trainable_n, classes, input_n, target_n;   /* as in struct uw_model */
    uint32_t statistics_n;          /* running statistics, part of the flat vector */
    uint32_t constants_n;           /* floats that stay in constant memory */
    uint32_t recomputed_n;          /* layers recomputed in backward to meet the budget */
    size_t parameters_bytes;        /* with statistics */
    size_t gradients_bytes;
    size_t optimizer_bytes;
    size_t activations_bytes;       /* activations and their gradients, lifetimes overlapped */
    size_t scratch_bytes;           /* of the kernels */
    size_t snapshot_bytes;
    size_t input_bytes;             /* the minibatch's samples and labels */
    size_t graph_bytes;             /* layer and segment tables */
    size_t image_bytes;             /* with a device: the processor's copies, see uw_model_pull, and
                                       minibatches in flight; else 0 */
    size_t total_bytes;
    size_t kernel_bytes;            /* from config.kernel_arena */
    size_t shared_bytes;            /* from config.shared_arena */
};

#endif
