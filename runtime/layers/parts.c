/* SPDX-License-Identifier: Apache-2.0
 *
 * All optional parts. This file defines nothing else: a program's own uw_parts replaces it. */
#include "uwasa/parts.h"

const struct uw_parts uw_parts = {
    .layer = {
        [UW_LAYER_CONV2D] = &uw_layer_conv2d,
        [UW_LAYER_DENSE] = &uw_layer_dense,
        [UW_LAYER_MAXPOOL2D] = &uw_layer_maxpool2d,
        [UW_LAYER_RELU] = &uw_layer_relu,
        [UW_LAYER_FLATTEN] = &uw_layer_flatten,
        [UW_LAYER_ADD] = &uw_layer_add,
        [UW_LAYER_CONV1D] = &uw_layer_conv1d,
        [UW_LAYER_CONV_TRANSPOSE2D] = &uw_layer_conv_transpose2d,
        [UW_LAYER_MAXPOOL1D] = &uw_layer_maxpool1d,
        [UW_LAYER_AVGPOOL2D] = &uw_layer_avgpool2d,
        [UW_LAYER_AVGPOOL1D] = &uw_layer_avgpool1d,
        [UW_LAYER_GLOBAL_AVGPOOL] = &uw_layer_global_avgpool,
        [UW_LAYER_CONCAT] = &uw_layer_concat,
        [UW_LAYER_RESHAPE] = &uw_layer_reshape,
        [UW_LAYER_TRANSPOSE] = &uw_layer_transpose,
        [UW_LAYER_SLICE] = &uw_layer_slice,
        [UW_LAYER_EMBEDDING] = &uw_layer_embedding,
        [UW_LAYER_RNN] = &uw_layer_rnn,
        [UW_LAYER_GRU] = &uw_layer_gru,
        [UW_LAYER_LSTM] = &uw_layer_lstm,
        [UW_LAYER_ATTENTION] = &uw_layer_attention,
        [UW_LAYER_BATCHNORM] = &uw_layer_batchnorm,
        [UW_LAYER_GROUPNORM] = &uw_layer_groupnorm,
        [UW_LAYER_LAYERNORM] = &uw_layer_layernorm,
        [UW_LAYER_LRN] = &uw_layer_lrn,
        [UW_LAYER_RELU6] = &uw_layer_relu6,
        [UW_LAYER_LEAKY_RELU] = &uw_layer_leaky_relu,
        [UW_LAYER_SIGMOID] = &uw_layer_sigmoid,
        [UW_LAYER_TANH] = &uw_layer_tanh,
        [UW_LAYER_GELU] = &uw_layer_gelu,
        [UW_LAYER_SILU] = &uw_layer_silu,
        [UW_LAYER_DROPOUT] = &uw_layer_dropout,
    },
    .gathering = &uw_gathering,
    .budgeting = &uw_budgeting,
    .lora = &uw_lora,
    .elementwise = &uw_elementwise,
    .constants = &uw_constants,
    .fusing = &uw_fusing,
    .profiling = &uw_profiling,
    .checking = &uw_checking,
    .guarding = &uw_guarding,
    .weighing = &uw_weighing,
#ifndef UW_WITHOUT_DEVICES
    .on_device = &uw_on_device,
#endif
};
