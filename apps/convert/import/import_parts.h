/* SPDX-License-Identifier: Apache-2.0
 *
 * import_parts.h - what several operators are made of (private)
 *
 * Memory     as import.h      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_IMPORT_PARTS_H
#define UWASA_CONVERT_IMPORT_PARTS_H

#include "import.h"

/* Whether names differ, and only in their numbers, as those of modules of one list. */
bool uw_import_are_copies(const char *a, const char *b);

/* import_param.c */

/* Whether a constant operand of an element-wise operator is a parameter that the framework trains.
 *   layer  the other operand, as uw_view.layer */
bool uw_import_trains(struct uw_import *im, const struct uw_onnx_node *n,
                      enum uw_arithmetic_op op, const struct uw_onnx_tensor *t, uint32_t layer);

/* Whether a constant looks like a parameter by itself: floats, with a name that a person gave. */
bool uw_import_learns(const struct uw_import *im, const struct uw_onnx_tensor *t);

/* The same, and it is not one that an exporter computed. */
bool uw_import_is_own(const struct uw_import *im, const struct uw_onnx_tensor *t);

/* Whether a person gave the tensor's name, as far as that shows. */
bool uw_import_has_name(const struct uw_onnx_tensor *t);

/* Input 2 of a layer, its bias; NULL: none, or zeros that the file computes, as PyTorch's newer
 * exporter has them for a layer without one. */
struct uw_value *uw_import_bias(struct uw_import *im, const struct uw_onnx_node *n);

/* import_dense.c: whether the program has a bias beside that weight, and the file has not, since it
 * is all zeros; such a bias. */
bool uw_import_lost_bias(struct uw_import *im, const struct uw_onnx_tensor *weight);
struct uw_onnx_tensor uw_import_zero_bias(struct uw_import *im, uint64_t outputs);

/* A constant as a value that all samples share. An axis that repeats it as often as the minibatch
 * has samples is the minibatch.
 *   v  written
 * Returns UW_OK or a code with err set. */
int uw_import_constant_view(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct uw_onnx_tensor *t, bool trains, struct uw_view *v);

/* Whether a parameter that several nodes read is one parameter in the framework, too. */
bool uw_import_is_one(const struct uw_import *im, const struct uw_onnx_tensor *t);

/* Whether several nodes train a constant, of which v may be a transposed or reshaped copy. */
bool uw_import_is_shared(const struct uw_import *im, const struct uw_value *v);

/* The layer that gives the constant as a value of that shape; the same one for the same constant.
 * Returns its number, as uw_view.layer, or a code with err set. */
int64_t uw_import_parameter(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct uw_onnx_tensor *t, uint32_t rank, const uint64_t *dim,
                            bool trains);

/* import_emit.c */

/* Cut a view anew, in order if it must be; may add a transpose layer. Returns 1, 0 (the axes do not
 * fit, the minibatch above all), or a code with err set. */
int uw_import_reshape(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      const uint64_t *dims, uint32_t axes_n);

/* import_sized.c */

/* Whether a size is that of a minibatch which the file leaves open, or a multiple of it. */
bool uw_import_is_open(const struct uw_import *im, uint64_t size);

/* Refuse a node that takes the minibatch's open size as a number of the network, and not for a
 * shape. Returns UW_OK or UW_ERR_UNSUPPORTED, err set. */
int uw_import_refuse_sized(struct uw_import *im, const struct uw_onnx_node *n);

/* Refuse a number that differs between the samples of a minibatch. Returns UW_ERR_UNSUPPORTED, err
 * set; or check that a node takes the constants among its inputs that do: returns UW_OK or that. */
int uw_import_refuse_rise(struct uw_import *im, const struct uw_onnx_node *n);
int uw_import_check_rise(struct uw_import *im, const struct uw_onnx_node *n);

/* Write N for sizes of the minibatch in a sentence. */
void uw_import_name_open_sizes(char *text, size_t text_n);

/* import_whole.c */

/* Whether an ONNX type is one of whole numbers. */
bool uw_import_is_whole_type(int64_t type);

/* Refuse a node that reads what should have been rounded. Returns UW_OK, or a code with err set. */
int uw_import_check_whole(struct uw_import *im, const struct uw_onnx_node *n);
int uw_import_refuse_rounding(struct uw_import *im, const struct uw_onnx_node *cast);

/* Note which outputs of the node are whole numbers. */
void uw_import_note_whole(struct uw_import *im, const struct uw_onnx_node *n);

/* import_tensor.c, import_function.c, import_matmul.c, import_take.c: parts of operators. x and y
 * are values, y may be x unless it says otherwise. All return UW_OK or a code with err set. */

/* y = a op b with broadcasting; y is neither. */
int uw_import_arithmetic(struct uw_import *im, const struct uw_onnx_node *n,
                         enum uw_arithmetic_op op, const struct uw_value *a,
                         const struct uw_value *b, struct uw_value *y);

/* The same, a constant number on one side without a layer for it. */
int uw_import_combine(struct uw_import *im, const struct uw_onnx_node *n,
                      enum uw_arithmetic_op op, const struct uw_value *a,
                      const struct uw_value *b, struct uw_value *y);
int uw_import_function(struct uw_import *im, const struct uw_onnx_node *n, enum uw_function f,
                       float a, float b, const struct uw_value *x, struct uw_value *y);

/* A layer of a kind without options that keeps the shape. */
int uw_import_apply(struct uw_import *im, const struct uw_onnx_node *n, enum uw_layer_kind kind,
                    const struct uw_value *x, struct uw_value *y);

/* Infinite limits: none. */
int uw_import_clip(struct uw_import *im, const struct uw_onnx_node *n, double low, double high,
                   const struct uw_value *x, struct uw_value *y);

/* y = x reduced over the axes whose bits are set. */
int uw_import_reduce(struct uw_import *im, const struct uw_onnx_node *n, enum uw_reduction op,
                     uint32_t axes, bool keep, const struct uw_value *x, struct uw_value *y);

/* y is the same value as x. */
int uw_import_rename(struct uw_value *y, const struct uw_value *x);

/* y = scale a b, each transposed if asked; y is neither. */
int uw_import_product(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *a,
                      const struct uw_value *b, bool turn_a, bool turn_b, float scale,
                      struct uw_value *y);

/* y = the `count` views, which are changed, one after the other along an axis. */
int uw_import_concat(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                     uint32_t count, uint32_t axis, struct uw_value *y);

/* Elements of an axis, as struct uw_take_def has them. */
struct uw_import_picks {
    uint32_t n, taps;
    int32_t *index;
    float *weight;                  /* NULL: 1, with one tap */
};
int uw_import_picks(struct uw_import *im, struct uw_import_picks *p, uint64_t n, uint32_t taps);
int uw_import_take(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                   uint32_t axis, const struct uw_import_picks *p);

/* import_gather.c: output 0 becomes elements of an axis of x, which may be put in order; the axes
 * of the constant index take that axis's place. */
int uw_import_gather(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *x,
                     uint32_t axis, const struct uw_onnx_tensor *index);

/* The axis of the layer's own shape that has this size and stride; the rank: none has. */
uint32_t uw_import_own_axis(const struct uw_view *v, uint64_t size, uint64_t inner);

/* Find atom `first` of v as an axis *at of the layer's shape, or give v such a shape. */
int uw_import_isolate(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      uint32_t first, uint32_t *at);

/* y is v after the newest layer, which left atom `first` with `length` steps; y may be v. */
int uw_import_resized(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *y,
                      const struct uw_view *v, uint32_t first, uint64_t length);

/* y, unless it is NULL, becomes elements start .. start + length - 1 of an axis of x, which is in
 * one piece: uw_import_order_axis sees to that. */
int uw_import_cut(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y,
                  const struct uw_view *x, uint32_t axis, uint64_t start, uint64_t length);
int uw_import_order_axis(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                         uint32_t axis);

enum uw_import_padding { UW_PAD_ZEROS, UW_PAD_EDGE, UW_PAD_REFLECT, UW_PAD_WRAP };
int uw_import_pad(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                  uint32_t axis, int64_t front, int64_t behind, enum uw_import_padding how);

/* What a Pad node adds in front of and behind each of `rank` axes. */
int uw_import_pads(struct uw_import *im, const struct uw_onnx_node *n, uint32_t rank,
                   int64_t front[UW_ONNX_RANK_MAX], int64_t behind[UW_ONNX_RANK_MAX]);

/* One function per operator. Each returns UW_OK or a code with err set. */
typedef int uw_import_op(struct uw_import *im, const struct uw_onnx_node *n);
uw_import_op uw_op_arithmetic, uw_op_attention_mask, uw_op_batchnorm, uw_op_cast, uw_op_cast_like,
    uw_op_clip, uw_op_compare, uw_op_concat, uw_op_conv, uw_op_conv_transpose, uw_op_cumsum,
    uw_op_depth_to_space, uw_op_dequantize, uw_op_dropout, uw_op_einsum, uw_op_erfc, uw_op_expand,
    uw_op_flatten, uw_op_function, uw_op_gather, uw_op_gather_elements, uw_op_gather_nd, uw_op_gelu,
    uw_op_gemm, uw_op_global_pool, uw_op_groupnorm, uw_op_identity, uw_op_if, uw_op_instancenorm,
    uw_op_is_nan, uw_op_layernorm, uw_op_leaky_relu, uw_op_list_at, uw_op_logic, uw_op_loop,
    uw_op_lrn, uw_op_make_list, uw_op_matmul, uw_op_pad, uw_op_pool, uw_op_prelu, uw_op_recurrent,
    uw_op_reduce, uw_op_reshape, uw_op_resize, uw_op_rotary, uw_op_scatter, uw_op_slice,
    uw_op_softmax, uw_op_split, uw_op_split_to_list, uw_op_squeeze, uw_op_transpose, uw_op_trilu,
    uw_op_unsqueeze, uw_op_where;

#endif
