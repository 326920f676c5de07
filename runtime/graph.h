/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - turns a model definition into layers with shapes, then plans their memory (private)
 *
 * Life cycle: uw_graph_build, then uw_plan_build, both inside one workspace.
 */
#ifndef UWASA_GRAPH_H
#define UWASA_GRAPH_H

#include "layer.h"

/* The value that is the model's input. Where a layer's value is asked for it means "none". */
#define UW_VALUE_INPUT 0u

/* A loss on one value. */
struct uw_head {
    const struct uw_loss_def *def;
    uint32_t value;                 /* the value that the loss reads */
    uint32_t n;                     /* floats of one sample of that value */
    float counted;                  /* of a class for each position: the sum of their weights in
                                       the minibatch */
};

struct uw_graph {
    struct uw_layer *layers;
    uint32_t layers_n;
    struct uw_head heads[UW_LOSSES_MAX];
    uint32_t heads_n;
    struct uw_shape in;
    uint32_t in_n;
    uint32_t target_n;
    uint32_t weights_n;             /* parameters without statistics, with constant ones */
    uint32_t constants_n;           /* floats in constant memory */
    uint32_t auxiliary_n;           /* part of weights_n: in auxiliary layers */
    uint32_t parameters_n;          /* all floats of the flat vector */
    uint32_t trainable_n;
    uint32_t segments_n;
    size_t names_bytes;
};

/* Shape of a model's input. */
struct uw_shape uw_graph_input(const struct uw_model_def *def);

/* Follow views to the value that owns the memory: UW_VALUE_INPUT or a layer's output. */
uint32_t uw_graph_base(const struct uw_layer *layers, uint32_t value);

/* Where the value is in memory; x is the model's input. */
const float *uw_value_of(const struct uw_model *m, uint32_t value, const float *x);

/* Resolve names, infer every shape, count parameters and decide what is trained.
 * layers: array of def->layers_n, written. Returns UW_OK or an error of uw_model_measure. */
int uw_graph_build(struct uw_graph *g, const struct uw_model_config *config,
                   struct uw_layer *layers, struct uw_error *err);

/* Give every deferred batch norm back its own pass. */
void uw_graph_undefer(struct uw_graph *g);

/* How many values beside a sample a loss with target values reads: of a cross-entropy one for each
 * position of the output, else one for each element. */
uint32_t uw_head_values(const struct uw_layer *layers, const struct uw_head *h);

/* Whether a loss reads the layer's output. */
bool uw_graph_is_head(const struct uw_graph *g, const struct uw_layer *l);

/* After uw_graph_build: decide which tensors are trained and which lie in constant memory; assign
 * the others their places in the flat vector. */
int uw_graph_parameters(struct uw_graph *g, const struct uw_model_config *config,
                        struct uw_error *err);

/* Optional part: parameters in constant memory (flash, for example). */
struct uw_constants {
    /* Set l->constant. Returns UW_OK, or UW_ERR_MISMATCH: a constant has the wrong size. */
    int (*find)(struct uw_layer *l, const struct uw_model_config *config, struct uw_error *err);
    /* For a constant layer: point its parameters at the constants. */
    void (*use)(struct uw_layer *l, const struct uw_model_config *config);
    /* For any other layer: initialise parameters from the constants that exist for them. */
    void (*copy)(const struct uw_layer *l, const struct uw_model_config *config);
};

/* Optional part: checks that fixed, already tested definitions can do without. */
struct uw_checking {
    /* Check the name of layer `index`. */
    int (*name)(const struct uw_graph *g, const struct uw_layer_def *def, uint32_t index,
                struct uw_error *err);
    /* Check that every output is read and that the losses' numbers are in range. */
    int (*whole)(const struct uw_graph *g, struct uw_error *err);
};

/* Find the value called `name` among the inputs that layer `index` may read.
 * Returns UW_OK or UW_ERR_NOTFOUND. */
int uw_graph_resolve(const struct uw_graph *g, const char *name, uint32_t index, uint32_t *value);

/* Number of trained parameters of one layer. */
uint32_t uw_layer_trained_n(const struct uw_layer *l);

/* Whether a tensor other than a bias is trained. */
bool uw_layer_trains_weights(const struct uw_layer *l);

/* The factor of LoRA's products. */
float uw_lora_scale(const struct uw_adapt *adapt);

/* One block of the activation area, in use from step `birth` to step `death`, both inclusive.
 * Layer i runs forward at step i, the losses at step layers_n. Then come the stages, last one
 * first: each runs its recomputed layers forward, then all its layers backward in reverse order. */
struct uw_slot {
    uint32_t birth, death;
    size_t bytes;
    size_t offset;
};

/* Slots of layer i: output, gradient of the output, aux; then the recomputed output and aux. An
 * unused slot has 0 bytes. The last slot (P) holds what a loss keeps, such as probabilities, when
 * no gradient is wanted; otherwise a loss keeps it where the gradient will be written. */
#define UW_SLOT_Y(i) (5u * (i))
#define UW_SLOT_DY(i) (5u * (i) + 1u)
#define UW_SLOT_AUX(i) (5u * (i) + 2u)
#define UW_SLOT_Y_AGAIN(i) (5u * (i) + 3u)
#define UW_SLOT_AUX_AGAIN(i) (5u * (i) + 4u)
#define UW_SLOT_P(layers_n) (5u * (layers_n))
#define UW_SLOTS_N(layers_n) (5u * (layers_n) + 1u)

struct uw_planner;

/* Optional part: recomputation to stay within a memory budget. */
struct uw_budgeting {
    /* Choose stages and recomputed layers so that the plan fits limit_bytes; the plan of one stage
     * is known to be larger. Returns its bytes, above the limit if nothing smaller was found. */
    size_t (*plan_within)(struct uw_planner *p, size_t limit_bytes);
    /* Set `recomputed` in the layers whose results the backward pass recomputes instead of keeping:
     * in every stage but the last, those that no later stage reads. */
    void (*find_recomputed)(struct uw_planner *p);
    /* Run the recomputed layers of a stage, before its backward pass. */
    int (*recompute)(struct uw_model *m, uint32_t stage, const float *x, const struct uw_pass *p);
};

/* Compute lifetimes (in-place layers and views share a slot) and place the slots.
 *
 *   limit_bytes  recompute as much as it takes to stay within; SIZE_MAX: recompute nothing
 *   slots        [UW_SLOTS_N] written
 *   order        [2 * UW_SLOTS_N] scratch
 *
 * Returns the bytes of the activation area; the smallest found, above limit_bytes, if no plan
 * fits; SIZE_MAX on overflow. */
size_t uw_plan_build(struct uw_graph *g, uint32_t batch_n, bool training, size_t limit_bytes,
                     struct uw_slot *slots, uint32_t *order);

/* What measure, bind and describe compute in the workspace. */
struct uw_draft {
    struct uw_graph graph;
    struct uw_slot *slots;
    struct uw_model_need need;
};

/* Compute graph, plan and byte counts of a configuration. Returns as uw_model_measure does. */
int uw_draft_model(struct uw_draft *d, const struct uw_model_config *config, struct uw_error *err);

/* Samples in a micro-batch. */
uint32_t uw_draft_micro_n(const struct uw_model_config *config);

/* The member of struct uw_model_need that counts the bytes of a purpose. */
size_t *uw_purpose_bytes(struct uw_model_need *need, enum uw_purpose purpose);

/* Bytes of a block of n floats. */
size_t uw_draft_floats(size_t n);

#endif
