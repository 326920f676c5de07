/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_shared.h - what several kinds of layers share (private) */
#ifndef UW_LAYER_SHARED_H
#define UW_LAYER_SHARED_H

#include "layer.h"

#include "uwasa/parts.h"

/* The fused slots of a kernel table; NULL: it has none. Boards' tables have none. */
static inline const struct uw_fused_kernels *uw_fused(const struct uw_kernels *k)
{
#ifdef UW_WITHOUT_DEVICES
    (void)k;
    return NULL;
#else
    return k->fused;
#endif
}

/* The slots that run all time steps of a recurrent layer in one call; NULL: likewise. */
static inline const struct uw_recurrence_kernels *uw_recurrence(const struct uw_kernels *k)
{
#ifdef UW_WITHOUT_DEVICES
    (void)k;
    return NULL;
#else
    return k->sequence->recurrence;
#endif
}

/* items.c: work of a layer that consists of independent items, for instance its samples. Runs fn
 * once for every item 0 .. n-1, in any order, each on one thread with an equal share of e's
 * scratch; if uw_items_divide says no, one after the other with all of e. work, bytes: of all
 * items, as for uw_workers_for. Returns UW_OK or the error of an item. */
static inline bool uw_items_divide(uint32_t n, uint32_t threads)
{
    return n > 1 && n > threads / 2;
}

typedef int (*uw_item_fn)(const struct uw_exec *e, const void *arg, uint32_t item);
int uw_run_items(const struct uw_exec *e, double work, double bytes, uint32_t n, uw_item_fn fn,
                 const void *arg);

/* The first n axes of a sample at the end of dim[dims_n]; in front of them 1. */
static inline void uw_axes_at_end(const struct uw_shape *s, uint32_t n, uint32_t dims_n,
                                  uint32_t *dim)
{
    uint32_t axes[UW_AXES_MAX];
    uw_axes_of(s, axes);
    for (uint32_t i = 0; i < dims_n; i++) {
        dim[i] = i + n < dims_n ? 1 : axes[i + n - dims_n];
    }
}

/* Whether the layer does the ReLU after it, by the fused slots. */
static inline bool uw_does_relu_behind(const struct uw_layer *l)
{
#ifdef UW_WITHOUT_DEVICES
    (void)l;
    return false;
#else
    return l->relu_behind;
#endif
}

/* Where bw_prepare and bw_input may write parameter gradients; NULL: bw_param writes them. */
static inline float *const *uw_gradient_of(const struct uw_pass *p)
{
#ifdef UW_WITHOUT_DEVICES
    (void)p;
    return NULL;
#else
    return p->gradient;
#endif
}

/* relu_behind.c: layers whose bias and ReLU the slots of uw_fused apply in one pass over the
 * output. Where the bias gradient would take a pass of its own, it is computed together with the
 * ReLU's mask, into uw_gradient_of or, if that is NULL, into aux ([channels] floats). Boards leave
 * this out: there UW_ON_DEVICES is NULL. */
#ifdef UW_WITHOUT_DEVICES
#define UW_ON_DEVICES(function) NULL
#else
#define UW_ON_DEVICES(function) (function)
#endif

/* Shape of an output for the slots: [n][channels][inner_n]. */
struct uw_planes {
    uint32_t n, channels;
    size_t inner_n;
};

/* take_relu_behind of layers without a bias, and of conv2d, conv1d and dense. */
bool uw_take_relu_behind(struct uw_layer *l, const struct uw_kernels *k, float ceiling);
bool uw_take_bias_relu(struct uw_layer *l, const struct uw_kernels *k, float ceiling);

/* Turn l->dy into the gradient before the ReLU, in place. sums: also compute its sums per channel,
 * the bias gradient, where uw_gradient_of or aux has room for them. */
int uw_relu_behind_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_planes *s,
                      const struct uw_pass *p, bool sums);

/* db += scale * the sums of uw_relu_behind_bw, unless it wrote them to db already. */
int uw_add_bias_sums(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                     uint32_t channels, float scale, float *db);

/* forward of a dense layer and the ReLU after it; b: its bias, or NULL. */
int uw_dense_relu(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows, const float *x,
                  const float *b, float *y);

/* Whether the whole backward pass of a dense layer can be one launch; uw_dense_bw is that launch.
 * dx NULL: not wanted. */
bool uw_dense_bw_is_one(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                        uint32_t rows);
int uw_dense_bw(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                uint32_t rows, const float *x, float *dx, bool accumulate);

/* bw_prepare and bw_input of batchnorm where uw_gradient_of is set; dx NULL: not wanted. */
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

/* bw_input of add where uw_add_cuts_in_input is true: one launch masks dy and copies it to dx, for
 * the first input whose dx is not dy itself. */
bool uw_add_cuts_in_input(const struct uw_layer *l);
int uw_add_relu_bw_input(const struct uw_exec *e, const struct uw_layer *l, size_t n,
                         uint32_t which, float *dx, bool accumulate);

/* forward of add and the ReLU after it: one launch for each input but the first */
int uw_add_relu(const struct uw_exec *e, const struct uw_layer *l, size_t n, const float *const *x,
                float *y);

/* Whether the bias gradient of a convolution with a ReLU after it comes from those sums. */
bool uw_conv2d_bias_by_sums(const struct uw_exec *e, const struct uw_layer *l,
                            const struct uw_pass *p);

/* The normalization that the reader of a deferred batch norm applies. */
struct uw_input_norm uw_deferred_norm(const struct uw_layer *batchnorm);

/* infer of the normalizations: fills geometry.norm (groups 1), and tensors_n for weight and bias.
 * tensor: one float a channel each, then running_mean and running_var. */
int uw_norm_infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
struct uw_layer_tensor uw_norm_tensor(const struct uw_layer *l, uint32_t t);

#endif
