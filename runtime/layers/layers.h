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

/* Output length of a convolution, 1 or more; 0 if the kernel does not fit. kernel, stride and
 * dilation are 1 or more. */
uint32_t uw_conv_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                      uint32_t dilation);

/* Output length of a pool as PyTorch counts; ceil_mode: the last window may hang over the end, but
 * begins inside the input or the padding in front. 0 if none fits. */
uint32_t uw_pool_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad, bool ceil_mode);

/* Returns UW_OK, or UW_ERR_SHAPE with the sentence: rank is 2 or 3. */
int uw_want_rank(const struct uw_shape *in, uint32_t rank, struct uw_error *err);

/* Returns UW_OK, or UW_ERR_SHAPE with the sentence; groups is 1 or more. */
int uw_check_groups(uint32_t in_channels, uint32_t out_channels, uint32_t groups,
                    struct uw_error *err);

/* infer of the pools over windows: fills geometry.pool2d and out. A kernel has at most taps_max
 * taps. */
int uw_pool_infer(struct uw_layer *l, const struct uw_shape *in, uint32_t taps_max,
                  struct uw_error *err);
extern const struct uw_layer_ops uw_layer_concat;
extern const struct uw_layer_ops uw_layer_reshape;
extern const struct uw_layer_ops uw_layer_transpose;
extern const struct uw_layer_ops uw_layer_slice;
extern const struct uw_layer_ops uw_layer_embedding;
extern const struct uw_layer_ops uw_layer_rnn;
extern const struct uw_layer_ops uw_layer_gru;
extern const struct uw_layer_ops uw_layer_lstm;
extern const struct uw_layer_ops uw_layer_attention;

/* What the reader of a deferred batch norm has to do. */
struct uw_input_norm uw_deferred_norm(const struct uw_layer *batchnorm);

/* infer of the normalizations: fills geometry.norm (groups 1), out, and tensors_n for weight and
 * bias. tensor: one float a channel each, then running_mean and running_var. */
int uw_norm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
void uw_norm_tensor(const struct uw_layer *l, uint32_t t, struct uw_layer_tensor *out);

#endif
