/* SPDX-License-Identifier: Apache-2.0
 *
 * layers.h - what several kinds of layers share (private) */
#ifndef UWASA_LAYERS_TABLES_H
#define UWASA_LAYERS_TABLES_H

#include "layer.h"

#include "uwasa/parts.h"

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

/* What the reader of a deferred batch norm has to do. */
struct uw_input_norm uw_deferred_norm(const struct uw_layer *batchnorm);

/* infer of the normalizations: fills geometry.norm (groups 1), out, and tensors_n for weight and
 * bias. tensor: one float a channel each, then running_mean and running_var. */
int uw_norm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
void uw_norm_tensor(const struct uw_layer *l, uint32_t t, struct uw_layer_tensor *out);

#endif
