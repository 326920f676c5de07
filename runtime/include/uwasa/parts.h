/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/parts.h - the parts of the runtime that a program links
 *
 * The library's `uw_parts` lists all parts. A board's program with little flash defines `uw_parts`
 * itself, with the parts that its model needs; the linker then omits the library's, and the other
 * parts. tools/board_model writes such a file from a model, with a matching kernel table. If a plan
 * needs a missing part, uw_model_measure returns UW_ERR_UNSUPPORTED and a sentence.
 *
 *     const struct uw_parts uw_parts = {.layer = {[UW_LAYER_DENSE] = &uw_layer_dense,
 *                                                 [UW_LAYER_RELU] = &uw_layer_relu}};
 *
 * Memory     constant
 * Context    defined once in a program, at link time
 */
#ifndef UWASA_PARTS_H
#define UWASA_PARTS_H

#include "uwasa/cplusplus.h"
#include "uwasa/layers.h"

UW_C_BEGIN

#define UW_LAYER_KINDS_N (UW_LAYER_TAKE + 1u)

struct uw_layer_ops;                /* private to the runtime, as all of these */
struct uw_gathering;
struct uw_budgeting;
struct uw_lora;
struct uw_elementwise;
struct uw_fusing;
struct uw_constants;
struct uw_profiling;
struct uw_checking;
struct uw_guarding;
struct uw_weighing;
struct uw_on_device;

/* NULL: not linked. */
struct uw_parts {
    const struct uw_layer_ops *layer[UW_LAYER_KINDS_N];     /* by enum uw_layer_kind */
    const struct uw_gathering *gathering;   /* gradient arrays: plan modes buckets and full,
                                               deferred updates, every optimizer but SGD, clipping,
                                               micro-batches */
    const struct uw_budgeting *budgeting;   /* config.budget_bytes: recomputed activations */
    const struct uw_lora *lora;             /* config.adapt.lora_rank */
    const struct uw_elementwise *elementwise;   /* losses other than the cross-entropy
                                                   of a label */
    const struct uw_constants *constants;   /* config.constants */
    const struct uw_fusing *fusing; /* batch norm fused with the convolution or ReLU behind it, to
                                       save memory */
    const struct uw_profiling *profiling;   /* m->profile; without it only its clock is read */
    const struct uw_checking *checking;     /* checks of names, options of losses, unused outputs;
                                               without it they must be valid */
    const struct uw_guarding *guarding;     /* m->guard; without it a step with a guard fails */
    const struct uw_weighing *weighing;     /* m->class_weights; without it a step fails */
    const struct uw_on_device *on_device;   /* kernel tables with a device, uwasa/device.h */
};

extern const struct uw_parts uw_parts;

extern const struct uw_gathering uw_gathering;
extern const struct uw_budgeting uw_budgeting;
extern const struct uw_lora uw_lora;
extern const struct uw_elementwise uw_elementwise;
extern const struct uw_constants uw_constants;
extern const struct uw_fusing uw_fusing;
extern const struct uw_profiling uw_profiling;
extern const struct uw_checking uw_checking;
extern const struct uw_guarding uw_guarding;
extern const struct uw_weighing uw_weighing;
extern const struct uw_on_device uw_on_device;

extern const struct uw_layer_ops uw_layer_conv2d;
extern const struct uw_layer_ops uw_layer_dense;
extern const struct uw_layer_ops uw_layer_maxpool2d;
extern const struct uw_layer_ops uw_layer_relu;
extern const struct uw_layer_ops uw_layer_flatten;
extern const struct uw_layer_ops uw_layer_add;
extern const struct uw_layer_ops uw_layer_conv1d;
extern const struct uw_layer_ops uw_layer_conv_transpose2d;
extern const struct uw_layer_ops uw_layer_maxpool1d;
extern const struct uw_layer_ops uw_layer_avgpool2d;
extern const struct uw_layer_ops uw_layer_avgpool1d;
extern const struct uw_layer_ops uw_layer_global_avgpool;
extern const struct uw_layer_ops uw_layer_batchnorm;
extern const struct uw_layer_ops uw_layer_groupnorm;
extern const struct uw_layer_ops uw_layer_layernorm;
extern const struct uw_layer_ops uw_layer_lrn;
extern const struct uw_layer_ops uw_layer_relu6;
extern const struct uw_layer_ops uw_layer_leaky_relu;
extern const struct uw_layer_ops uw_layer_sigmoid;
extern const struct uw_layer_ops uw_layer_tanh;
extern const struct uw_layer_ops uw_layer_gelu;
extern const struct uw_layer_ops uw_layer_silu;
extern const struct uw_layer_ops uw_layer_dropout;
extern const struct uw_layer_ops uw_layer_concat;
extern const struct uw_layer_ops uw_layer_reshape;
extern const struct uw_layer_ops uw_layer_transpose;
extern const struct uw_layer_ops uw_layer_slice;
extern const struct uw_layer_ops uw_layer_embedding;
extern const struct uw_layer_ops uw_layer_rnn;
extern const struct uw_layer_ops uw_layer_gru;
extern const struct uw_layer_ops uw_layer_lstm;
extern const struct uw_layer_ops uw_layer_attention;
extern const struct uw_layer_ops uw_layer_parameter;
extern const struct uw_layer_ops uw_layer_function;
extern const struct uw_layer_ops uw_layer_arithmetic;
extern const struct uw_layer_ops uw_layer_matmul;
extern const struct uw_layer_ops uw_layer_reduce;
extern const struct uw_layer_ops uw_layer_softmax;
extern const struct uw_layer_ops uw_layer_take;

UW_C_END
#endif
