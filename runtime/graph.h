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

struct uw_graph {
    struct uw_layer *layers;
    uint32_t layers_n;
    struct uw_shape in;
    uint32_t in_n;
    uint32_t classes;
    uint32_t parameters_n;
    uint32_t segments_n;
    size_t names_bytes;
};

/* Follow views down to the value that owns the memory: UW_VALUE_INPUT or a layer's output. */
uint32_t uw_graph_base(const struct uw_layer *layers, uint32_t value);

/* Resolve names, infer every shape, count parameters. layers points at room for def->layers_n.
 * Returns UW_OK or what uw_model_measure lists. */
int uw_graph_build(struct uw_graph *g, const struct uw_model_def *def, struct uw_layer *layers,
                   struct uw_error *err);

/* One block of the activation area: bytes that must survive from step `birth` to step `death`,
 * both inclusive. Layer i runs forward at step i, the loss at step L, its backward at 2L - i. */
struct uw_slot {
    uint32_t birth, death;
    size_t bytes;
    size_t offset;
};

/* Slots of layer i: its output, the gradient of its output, its aux; and last, of the whole
 * model, the probabilities. Unused slots have 0 bytes. */
#define UW_SLOT_Y(g, i) (i)
#define UW_SLOT_DY(g, i) ((g)->layers_n + (i))
#define UW_SLOT_AUX(g, i) (2u * (g)->layers_n + (i))
#define UW_SLOT_P(g) (3u * (g)->layers_n)
#define UW_SLOTS_N(layers_n) (3u * (layers_n) + 1u)

/* Compute lifetimes (in-place and views share a slot) and place the slots.
 *
 *   slots   [UW_SLOTS_N] written
 *   order   [UW_SLOTS_N] scratch
 *
 * Returns the bytes of the activation area, SIZE_MAX if they overflow. */
size_t uw_plan_build(const struct uw_graph *g, uint32_t batch_n, bool training,
                     struct uw_slot *slots, uint32_t *order);

#endif
