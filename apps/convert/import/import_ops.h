/* SPDX-License-Identifier: Apache-2.0
 *
 * import_ops.h - one function an operator of ONNX (private)
 */
#ifndef UWASA_CONVERT_IMPORT_OPS_H
#define UWASA_CONVERT_IMPORT_OPS_H

#include "import.h"

/* The handlers: import_layers.c, import_dense.c, import_norm.c, import_shape.c,
 * import_sequence.c, import_attention.c, import_match.c. Each returns UW_OK or a code with
 * err set. */
typedef int (*uw_import_op)(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_conv(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_conv_transpose(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_gemm(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_matmul(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_pool(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_global_pool(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_reduce_mean(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_activation(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_clip(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_softmax(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_dropout(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_batchnorm(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_instancenorm(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_layernorm(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_lrn(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_identity(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_flatten(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_reshape(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_transpose(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_squeeze(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_unsqueeze(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_slice(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_split(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_gather(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_concat(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_sum(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_add(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_mul(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_div(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_recurrent(struct uw_import *im, const struct uw_onnx_node *n);
int uw_op_attention(struct uw_import *im, const struct uw_onnx_node *n);

/* Does this dense product end an attention? Then it becomes the attention's projection.
 * Returns 1, 0, or a code. */
int uw_import_projection(struct uw_import *im, const struct uw_onnx_node *n,
                         const struct uw_view *x, struct uw_import_layer *dense);

/* The Add behind an attention's last product. */
int uw_import_attention_bias(struct uw_import *im, struct uw_import_layer *l,
                             const struct uw_onnx_tensor *t);

#endif
