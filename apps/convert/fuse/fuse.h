/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse.h - join layers into the layers that compute the same faster (private)
 *
 * Works on the imported graph, after every node has become layers, and changes no result beyond
 * rounding: without this pass the same losses come out. A pattern is found from its last layer,
 * which then becomes the joined one; what nobody reads any more is dropped later.
 *
 * Memory     the import's pool      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_FUSE_H
#define UWASA_CONVERT_FUSE_H

#include "import/import.h"

struct uw_fuse {
    struct uw_import *im;
    uint32_t *readers;              /* [layers_n + 1] of each layer, by number as uw_view.layer */
};

/* Join what can be joined; layers are marked needed. outputs: the layers that the file outputs.
 * Returns UW_OK or UW_ERR_NOMEM. */
int uw_fuse_all(struct uw_import *im, const uint32_t *outputs, uint32_t outputs_n);

/* The layer with that number; NULL: the model's input. */
static inline struct uw_import_layer *uw_fuse_at(const struct uw_fuse *f, uint32_t layer)
{
    return layer != 0 ? f->im->layer[layer - 1] : NULL;
}

/* The layer behind layer `layer` and any change of shape only; 0: the model's input. */
uint32_t uw_fuse_below(const struct uw_fuse *f, uint32_t layer);

/* Input k of l without changes of shape. */
uint32_t uw_fuse_input(const struct uw_fuse *f, const struct uw_import_layer *l, uint32_t k);

/* Whether l computes that: a function, an operation, a kind. l may be NULL. */
bool uw_fuse_is_function(const struct uw_import_layer *l, enum uw_function function);
bool uw_fuse_is_op(const struct uw_import_layer *l, enum uw_arithmetic_op op);

/* Whether l is an element-wise operation of two values of its own shape. */
bool uw_fuse_is_plain(const struct uw_fuse *f, const struct uw_import_layer *l,
                      enum uw_arithmetic_op op);

/* Operand k of l if it is a parameter that trains and whose elements run along one axis of l only,
 * the last or the first; its number, or 0. */
uint32_t uw_fuse_parameter_of(const struct uw_fuse *f, const struct uw_import_layer *l, uint32_t k,
                              bool last);

/* Sizes and rank are equal. */
bool uw_fuse_same_shape(const struct uw_fuse *f, uint32_t a, uint32_t b);

/* Make l only another shape of the layer. */
void uw_fuse_reshape(struct uw_import_layer *l, uint32_t layer);

/* The patterns, each from its last layer `layer`. Return 1 (joined), 0, or a code. */
typedef int uw_fuse_pattern(struct uw_fuse *f, uint32_t layer);
uw_fuse_pattern uw_fuse_bias, uw_fuse_scale, uw_fuse_take, uw_fuse_activation, uw_fuse_layernorm,
    uw_fuse_affine, uw_fuse_lrn, uw_fuse_attention;

#endif
