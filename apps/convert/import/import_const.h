/* SPDX-License-Identifier: Apache-2.0
 *
 * import_const.h - one function an operator on constants (private to import_const.c and
 * import_fold.c)
 *
 * Each fills `out` from its inputs and returns UW_OK, or a code with err set.
 */
#ifndef UWASA_CONVERT_IMPORT_CONST_H
#define UWASA_CONVERT_IMPORT_CONST_H

#include "import.h"

#define UW_FOLD_MAX 262144u         /* elements that are computed one by one */

/* Fresh memory for a constant of that shape, row-major; NULL with err set.
 *   stored  elements that the file holds for it: more than these only up to UW_FOLD_MAX */
void *uw_const_fresh(struct uw_import *im, const struct uw_onnx_node *n, struct uw_onnx_tensor *t,
                     uint64_t stored);

/* Element i of fresh memory. */
void uw_const_put(struct uw_onnx_tensor *t, void *data, uint64_t i, double number,
                  int64_t integer);

int uw_fold_constant(struct uw_import *im, const struct uw_onnx_node *n,
                     struct uw_onnx_tensor *out);
int uw_fold_shape(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                  struct uw_onnx_tensor *out);
int uw_fold_reshape(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *x, struct uw_onnx_tensor *out);
int uw_fold_transpose(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_onnx_tensor *x, struct uw_onnx_tensor *out);
int uw_fold_axes(struct uw_import *im, const struct uw_onnx_node *n,
                 const struct uw_onnx_tensor *x, struct uw_onnx_tensor *out, bool insert);
int uw_fold_slice(struct uw_import *im, const struct uw_onnx_node *n,
                  const struct uw_onnx_tensor *x, struct uw_onnx_tensor *out);
int uw_fold_gather(struct uw_import *im, const struct uw_onnx_node *n,
                   const struct uw_onnx_tensor *x, const struct uw_onnx_tensor *index,
                   struct uw_onnx_tensor *out);

#endif
