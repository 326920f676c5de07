/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.h - the tables of all kinds of layers (private) */
#ifndef UWASA_LAYERS_TABLES_H
#define UWASA_LAYERS_TABLES_H

#include "layer.h"

extern const struct uw_layer_ops uw_layer_conv2d;
extern const struct uw_layer_ops uw_layer_dense;
extern const struct uw_layer_ops uw_layer_maxpool2d;
extern const struct uw_layer_ops uw_layer_relu;
extern const struct uw_layer_ops uw_layer_flatten;
extern const struct uw_layer_ops uw_layer_add;
extern const struct uw_layer_ops uw_layer_concat;
extern const struct uw_layer_ops uw_layer_reshape;
extern const struct uw_layer_ops uw_layer_transpose;
extern const struct uw_layer_ops uw_layer_slice;
extern const struct uw_layer_ops uw_layer_embedding;
extern const struct uw_layer_ops uw_layer_rnn;
extern const struct uw_layer_ops uw_layer_gru;
extern const struct uw_layer_ops uw_layer_lstm;
extern const struct uw_layer_ops uw_layer_attention;

#endif
