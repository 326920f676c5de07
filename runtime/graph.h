/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - from a definition to layers with shapes, and to a memory plan (private)
 *
 * Life cycle: uw_graph_build, then uw_plan_build, both inside one workspace.
 */
#ifndef UWASA_GRAPH_H
#define UWASA_GRAPH_H

#include "layer.h"

/* The model's input as a value, and "no layer". */
#define UW_VALUE_INPUT 0u

/* A loss on one value. */
struct uw_head {
    const struct uw_loss_def *def;
    uint32_t value;                 /* of the layer it names */
    uint32_t n;                     /* floats of one sample of it */
};

struct uw_graph {
    struct uw_layer *layers;
    uint32_t layers_n;
    struct uw_head heads[UW_LOSSES_MAX];
    uint32_t heads_n;
    struct uw_shape in;
    uint32_t in_n;
    uint32_t target_n;
    uint32_t weights_n;             /* parameters that are no statistics, constant ones too */
    uint32_t constants_n;           /* floats in constant memory */
    uint32_t auxiliary_n;           /* of these, in auxiliary layers */
    uint32_t parameters_n;          /* all floats of the flat vector */
    uint32_t trainable_n;
    uint32_t segments_n;
    size_t names_bytes;
};

/* Shape of a model's input. */
struct uw_shape uw_graph_input(const struct uw_model_def *def);

/* Follow views down to the value that owns the memory: UW_VALUE_INPUT or a layer's output. */
uint32_t uw_graph_base(const struct uw_layer *layers, uint32_t value);

/* The value as it is in memory now; x is the model's input. */
const float *uw_value_of(const struct uw_model *m, uint32_t value, const float *x);

/* Resolve names, infer every shape, count parameters, find out what is trained. layers points at
 * room for def->layers_n. Returns UW_OK or what uw_model_measure lists. */
int uw_graph_build(struct uw_graph *g, const struct uw_model_config *config,
                   struct uw_layer *layers, struct uw_error *err);

/* No batch norm is deferred any more. */
void uw_graph_undefer(struct uw_graph *g);

/* Does a loss read its output? */
bool uw_graph_is_head(const struct uw_graph *g, const struct uw_layer *l);

/* After uw_graph_build: find out which tensors are trained and which lie in constant memory, and
 * lay the others out in the flat vector. */
int uw_graph_parameters(struct uw_graph *g, const struct uw_model_config *config,
                        struct uw_error *err);

/* Parameters in constant memory. */
struct uw_constants {
    /* Set l->constant. Returns UW_OK, or UW_ERR_MISMATCH: one has another size. */
    int (*find)(struct uw_layer *l, const struct uw_model_config *config, struct uw_error *err);
    /* A layer that is constant: its parameters are where they are. */
    void (*use)(struct uw_layer *l, const struct uw_model_config *config);
    /* Another layer: its parameters start as copies of the constants that there are. */
    void (*copy)(const struct uw_layer *l, const struct uw_model_config *config);
};

/* What only some definitions can get wrong. */
struct uw_checking {
    /* Is the name of layer `index` one that a layer may have? */
    int (*name)(const struct uw_graph *g, const struct uw_layer_def *def, uint32_t index,
                struct uw_error *err);
    /* Are all outputs read, and the losses' numbers in range? */
    int (*whole)(const struct uw_graph *g, struct uw_error *err);
};

/* The value that `name` means to layer `index`. Returns UW_OK or UW_ERR_NOTFOUND. */
int uw_graph_resolve(const struct uw_graph *g, const char *name, uint32_t index, uint32_t *value);

/* Trained parameters of one layer. */
uint32_t uw_layer_trained_n(const struct uw_layer *l);

/* Is a tensor of it trained that is no bias? */
bool uw_layer_trains_weights(const struct uw_layer *l);

/* What LoRA's products are multiplied by. */
float uw_lora_scale(const struct uw_adapt *adapt);

/* One block of the activation area: bytes that must survive from step `birth` to step `death`,
 * both inclusive. Layer i runs forward at step i, the losses at step L; then stage by stage, the
 * last first, its recomputed layers in order and the backward of its layers in reverse. */
struct uw_slot {
    uint32_t birth, death;
    size_t bytes;
    size_t offset;
};

/* Slots of layer i: its output, the gradient of its output, its aux; output and aux again, when
 * they are recomputed. Unused slots have 0 bytes. The last slot is for
 * what a loss keeps, probabilities for one, where no gradient is wanted; else it goes where the
 * gradient will be. */
#define UW_SLOT_Y(i) (5u * (i))
#define UW_SLOT_DY(i) (5u * (i) + 1u)
#define UW_SLOT_AUX(i) (5u * (i) + 2u)
#define UW_SLOT_Y_AGAIN(i) (5u * (i) + 3u)
#define UW_SLOT_AUX_AGAIN(i) (5u * (i) + 4u)
#define UW_SLOT_P(layers_n) (5u * (layers_n))
#define UW_SLOTS_N(layers_n) (5u * (layers_n) + 1u)

struct uw_planner;

/* Choose stages. */
struct uw_budgeting {
    /* Compute again what is needed to stay within limit_bytes, which the plan of one stage does
     * not. Returns the bytes; above the limit: the least that was found. */
    size_t (*plan_within)(struct uw_planner *p, size_t limit_bytes);
    /* Set `recomputed` in the layers whose backward pass needs something that is computed again
     * rather than kept: of every stage but the last, what no later stage reads. */
    void (*find_recomputed)(struct uw_planner *p);
    /* Run the layers of one stage that are recomputed, before the backward pass enters it. */
    int (*recompute)(struct uw_model *m, uint32_t stage, const float *x, const struct uw_pass *p);
};

/* Compute lifetimes (in-place and views share a slot) and place the slots.
 *
 *   limit_bytes  recompute what is needed to stay within; SIZE_MAX: nothing
 *   slots        [UW_SLOTS_N] written
 *   order        [2 * UW_SLOTS_N] scratch
 *
 * Returns the bytes of the activation area, above limit_bytes when no plan meets it (then it is
 * the smallest found), SIZE_MAX if they overflow. */
size_t uw_plan_build(struct uw_graph *g, uint32_t batch_n, bool training, size_t limit_bytes,
                     struct uw_slot *slots, uint32_t *order);

/* What measure, bind and describe work out in the workspace. */
struct uw_draft {
    struct uw_graph graph;
    struct uw_slot *slots;
    struct uw_model_need need;
};

/* Graph, plan and bytes of a configuration. Returns what uw_model_measure returns. */
int uw_draft_model(struct uw_draft *d, const struct uw_model_config *config, struct uw_error *err);

/* Samples computed at a time. */
uint32_t uw_draft_micro_n(const struct uw_model_config *config);

/* Where struct uw_model_need has the bytes of a purpose. */
size_t *uw_purpose_bytes(struct uw_model_need *need, enum uw_purpose purpose);

/* Bytes of a block of n floats. */
size_t uw_draft_floats(size_t n);

#endif
