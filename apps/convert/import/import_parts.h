/* SPDX-License-Identifier: Apache-2.0
 *
 * import_parts.h - what several operators are made of (private)
 *
 * Memory     as import.h      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_IMPORT_PARTS_H
#define UWASA_CONVERT_IMPORT_PARTS_H

#include "import.h"

/* import_param.c */

/* Whether a constant operand of an element-wise operator is a parameter that the framework trains.
 *   layer  the other operand, as uw_view.layer */
bool uw_import_trains(struct uw_import *im, const struct uw_onnx_node *n,
                      enum uw_arithmetic_op op, const struct uw_onnx_tensor *t, uint32_t layer);

/* Whether a constant looks like a parameter by itself: floats, with a name that a person gave. */
bool uw_import_learns(const struct uw_import *im, const struct uw_onnx_tensor *t);

/* A constant as a value that all samples share. An axis that repeats it as often as the minibatch
 * has samples is the minibatch.
 *   v  written
 * Returns UW_OK or a code with err set. */
int uw_import_constant_view(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct uw_onnx_tensor *t, bool trains, struct uw_view *v);

/* Whether a parameter that several nodes read is one parameter in the framework, too: a matrix. */
bool uw_import_is_one(const struct uw_import *im, const struct uw_onnx_tensor *t);

/* The layer that gives the constant as a value of that shape; the same one for the same constant.
 * Returns its number, as uw_view.layer, or a code with err set. */
int64_t uw_import_parameter(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct uw_onnx_tensor *t, uint32_t rank, const uint64_t *dim,
                            bool trains);

/* import_tensor.c, import_function.c, import_matmul.c, import_take.c: parts of operators. x and y
 * are values, y may be x unless it says otherwise. All return UW_OK or a code with err set. */

/* y = a op b with broadcasting; y is neither. */
int uw_import_arithmetic(struct uw_import *im, const struct uw_onnx_node *n,
                         enum uw_arithmetic_op op, const struct uw_value *a,
                         const struct uw_value *b, struct uw_value *y);
int uw_import_function(struct uw_import *im, const struct uw_onnx_node *n, enum uw_function f,
                       float a, float b, const struct uw_value *x, struct uw_value *y);

/* Infinite limits: none. */
int uw_import_clip(struct uw_import *im, const struct uw_onnx_node *n, double low, double high,
                   const struct uw_value *x, struct uw_value *y);

/* y is the same value as x. */
int uw_import_rename(struct uw_value *y, const struct uw_value *x);

/* y = scale a b, each transposed if asked; y is neither. */
int uw_import_product(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *a,
                      const struct uw_value *b, bool turn_a, bool turn_b, float scale,
                      struct uw_value *y);

/* Elements of an axis, as struct uw_take_def has them. */
struct uw_import_picks {
    uint32_t n, taps;
    int32_t *index;
    float *weight;                  /* NULL: 1 */
};
int uw_import_picks(struct uw_import *im, struct uw_import_picks *p, uint64_t n, uint32_t taps,
                    bool weighted);
int uw_import_take(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                   uint32_t axis, const struct uw_import_picks *p);

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

#endif
