/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on constants: import_const.c, import_fold.c. */
#ifndef UWASA_IMPORT_CONST_H
#define UWASA_IMPORT_CONST_H

#include "import.h"

#define UW_FOLD_MAX 4194304u        /* elements computed one by one: masks of 2048 x 2048 */

/* Count elements that are about to be computed. Returns UW_OK, or UW_ERR_UNSUPPORTED with err set
 * when all of them together are far more than a file of this size can mean. */
int uw_import_count(struct uw_import *im, const struct uw_onnx_node *n, uint64_t count);

/* New memory for a constant of t's shape, row-major; NULL with err set.
 *   stored  elements that the file has for it; a constant may have more only up to UW_FOLD_MAX */
void *uw_const_fresh(struct uw_import *im, const struct uw_onnx_node *n, struct uw_onnx_tensor *t,
                     uint64_t stored);

/* Set element i of new memory. */
void uw_const_put(struct uw_onnx_tensor *t, void *data, uint64_t i, double number,
                  int64_t integer);

/* Place of element i (row-major) of a constant, in elements from the first. */
int64_t uw_const_offset(const struct uw_onnx_tensor *t, uint64_t i);

/* Move its element 0 by so many elements. */
void uw_const_move_start(struct uw_onnx_tensor *t, int64_t by);

/* import_sized.c: whether an element of a constant, or any, depends on the minibatch's size. */
bool uw_const_is_sized_at(const struct uw_onnx_tensor *t, uint64_t i);
bool uw_const_is_sized(const struct uw_onnx_tensor *t);

/* Mark element i of new memory so; or those that are of another constant of the same shape.
 * Returns UW_OK or UW_ERR_NOMEM, err set. */
int uw_const_mark(struct uw_import *im, struct uw_onnx_tensor *t, uint64_t i);
int uw_const_mark_like(struct uw_import *im, struct uw_onnx_tensor *t,
                       const struct uw_onnx_tensor *from);

/* import_sized.c: what a folded node's output grows by with each sample. Returns UW_OK or
 * UW_ERR_UNSUPPORTED, err set. */
int uw_fold_rise(struct uw_import *im, const struct uw_onnx_node *n,
                 const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out);

int uw_fold_constant(struct uw_import *im, const struct uw_onnx_node *n,
                     struct uw_onnx_tensor *out);
int uw_fold_shape(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                  struct uw_onnx_tensor *out);

/* import_scatter.c: places of a constant GatherND's index in the axes of x that it counts, as one
 * axis: out has the index's shape without its last axis. */
int uw_import_places(struct uw_import *im, const struct uw_onnx_node *n, const uint64_t *dim,
                     uint32_t rank, const struct uw_onnx_tensor *index, struct uw_onnx_tensor *out);

/* One function per operator: computes `out` from the inputs x. Returns UW_OK or a code, err set. */
typedef int uw_fold_op(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_onnx_tensor *const *x, struct uw_onnx_tensor *out);
uw_fold_op uw_fold_reshape, uw_fold_transpose, uw_fold_axes, uw_fold_slice, uw_fold_gather,
    uw_fold_gather_nd, uw_fold_scatter, uw_fold_flatten, uw_fold_trilu, uw_fold_attention_mask;

#endif
