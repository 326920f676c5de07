/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_shared.h - what several kinds of layers share (private) */
#ifndef UW_LAYER_SHARED_H
#define UW_LAYER_SHARED_H

#include "layer.h"

#include "uwasa/parts.h"

/* A table's fused slots; NULL: it has none, as boards' tables. */
static inline const struct uw_fused_kernels *uw_fused(const struct uw_kernels *k)
{
#ifdef UW_WITHOUT_DEVICES
    (void)k;
    return NULL;
#else
    return k->fused;
#endif
}

/* A table's slots that walk all time steps at once; NULL: likewise. */
static inline const struct uw_recurrence_kernels *uw_recurrence(const struct uw_kernels *k)
{
#ifdef UW_WITHOUT_DEVICES
    (void)k;
    return NULL;
#else
    return k->sequence->recurrence;
#endif
}

/* Does the layer do the ReLU behind it by these slots? */
static inline bool uw_does_relu_behind(const struct uw_layer *l)
{
#ifdef UW_WITHOUT_DEVICES
    (void)l;
    return false;
#else
    return l->relu_behind;
#endif
}

/* Where the pass wants gradients of parameters; NULL: nowhere before bw_param. */
static inline float *const *uw_gradient_of(const struct uw_pass *p)
{
#ifdef UW_WITHOUT_DEVICES
    (void)p;
    return NULL;
#else
    return p->gradient;
#endif
}

/* relu_behind.c: layers that leave bias and ReLU to the slots of uw_fused, which do both in one
 * pass over the output. Where a bias' gradient is a pass of its own they make it with the mask, in
 * uw_gradient_of, or else they keep it in aux, [channels] floats. Boards have none of it: there
 * UW_ON_DEVICES is NULL. */
#ifdef UW_WITHOUT_DEVICES
#define UW_ON_DEVICES(function) NULL
#else
#define UW_ON_DEVICES(function) (function)
#endif

/* An output as the slots take it: [n][channels][inner_n]. */
struct uw_planes {
    uint32_t n, channels;
    size_t inner_n;
};

/* take_relu_behind of layers without a bias, and of conv2d, conv1d and dense. */
bool uw_take_relu_behind(struct uw_layer *l, const struct uw_kernels *k, float ceiling);
bool uw_take_bias_relu(struct uw_layer *l, const struct uw_kernels *k, float ceiling);

/* l->dy becomes the gradient in front of the ReLU. sums: leave its sums as well, where the pass
 * wants them. */
int uw_relu_behind_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_planes *s,
                      const struct uw_pass *p, bool sums);

/* db += scale * the sums that uw_relu_behind_bw left, unless they are there. */
int uw_add_bias_sums(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                     uint32_t channels, float scale, float *db);

/* forward of a dense layer with a ReLU behind it; b: its bias, or NULL. */
int uw_dense_relu(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows, const float *x,
                  const float *b, float *y);

/* Can all that goes backward in a dense layer be one launch? Then uw_dense_bw is that. dx NULL: not
 * wanted. */
bool uw_dense_bw_is_one(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        uint32_t rows);
int uw_dense_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                uint32_t rows, const float *x, float *dx, bool accumulate);

/* bw_prepare and bw_input of batchnorm where the pass wants gradients; dx NULL: not wanted. */
int uw_batchnorm_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *x, const struct uw_input_norm *norm, float *dx, bool accumulate);

/* forward of conv2d, conv1d */
int uw_conv2d_bias_relu(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        const float *x, float *y);

/* bw_prepare of conv2d, conv1d and of add */
int uw_conv2d_relu_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x);
int uw_add_relu_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x);

/* bw_input of add where uw_add_cuts_in_input: the mask and a copy are one launch, for the first
 * input whose dx is not dy itself. */
bool uw_add_cuts_in_input(const struct uw_layer *l);
int uw_add_relu_bw_input(const struct uw_exec *e, const struct uw_layer *l, size_t n,
                         uint32_t which, float *dx, bool accumulate);

/* forward of add, one launch for each input but the first */
int uw_add_relu(const struct uw_exec *e, const struct uw_layer *l, size_t n, const float *const *x,
                float *y);

/* Does a layer with a ReLU behind it take the gradient of its bias from those sums? */
bool uw_conv2d_bias_by_sums(const struct uw_exec *e, const struct uw_layer *l,
                            const struct uw_pass *p);

/* What the reader of a deferred batch norm has to do. */
struct uw_input_norm uw_deferred_norm(const struct uw_layer *batchnorm);

/* infer of the normalizations: fills geometry.norm (groups 1), and tensors_n for weight and bias.
 * tensor: one float a channel each, then running_mean and running_var. */
int uw_norm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
struct uw_layer_tensor uw_norm_tensor(const struct uw_layer *l, uint32_t t);

#endif
