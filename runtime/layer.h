/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.h - one bound layer, and the table that every kind of layer implements (private)
 *
 * A value is what a layer produces; value 0 is the model's input, value i + 1 is layer i's
 * output. Layers stand in execution order, so an input's index is always smaller.
 */
#ifndef UWASA_LAYER_H
#define UWASA_LAYER_H

#include "uwasa/model.h"

/* Shape of one sample. */
struct uw_shape {
    uint32_t c, h, w;
};

/* Parameter tensors of one layer, in the order of the flat vector. */
#define UW_LAYER_TENSORS_MAX 2

struct uw_layer_tensor {
    const char *suffix;             /* "weight", "bias" */
    uint32_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;
    uint32_t size_n;
};

struct uw_layer {
    const struct uw_layer_def *def;
    const struct uw_layer_ops *ops;
    uint32_t input[UW_LAYER_INPUTS_MAX];    /* values */
    uint32_t inputs_n;
    uint32_t index;
    uint32_t consumers_n;           /* layers that name it as an input */
    /* Of a value that owns memory: how many computing layers (or the loss) read it, through views
     * too, and the last of them; the loss counts as layer layers_n. */
    uint32_t readers_n, last_reader;
    uint32_t y_root, dy_root;       /* the layer whose slot holds the output, its gradient */
    struct uw_shape in, out;        /* `in` of the first input */
    uint32_t in_n, out_n;           /* floats of one sample */
    union {
        struct uw_conv2d conv2d;
        struct uw_dense dense;
        struct uw_pool2d pool2d;
    } geometry;
    struct uw_layer_tensor tensor[UW_LAYER_TENSORS_MAX];
    uint32_t tensors_n;
    uint32_t fan_in, fan_out;
    uint32_t segment;               /* first of its segments */
    bool needs_gradient;            /* it or a layer below has parameters */
    size_t aux_sample_bytes;        /* kept from forward to backward, for each sample */

    /* Set by bind. y of a view of the model's input is NULL: it follows the caller's pointer. */
    float *param[UW_LAYER_TENSORS_MAX];
    float *y, *dy;
    uint8_t *aux;
};

struct uw_layer_ops {
    const char *name;               /* "conv2d", as in a model file */
    bool reads_x;                   /* backward reads the input */
    bool reads_y;                   /* backward reads the output */
    bool in_place;                  /* y may overwrite x, dx may overwrite dy */
    bool view;                      /* y is x, dx is dy: nothing is computed */
    uint32_t inputs_min, inputs_max;

    /* Check the definition against the input shapes; fill out, geometry, tensors, fans, aux.
     *   in   [inputs_n] shapes
     * Returns UW_OK, UW_ERR_INVALID or UW_ERR_SHAPE with a sentence that starts at the fault
     * ("kernel 7 is larger than ..."); the caller puts the layer's name in front. */
    int (*infer)(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
    /* Kernel scratch in bytes (optional: NULL means none). */
    size_t (*scratch_bytes)(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads);
    /* y = layer(x...). Views have none. */
    int (*forward)(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                   const float *const *x, float *y);
    /* Gradient of input number `which`. Views have none. */
    int (*bw_input)(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                    uint32_t which, float *dx, bool accumulate);
    /* d[t] += scale * gradient of tensor t (optional: NULL means no parameters). */
    int (*bw_param)(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                    const float *x, float scale, float *const *d);
};

extern const struct uw_layer_ops uw_layer_conv2d;
extern const struct uw_layer_ops uw_layer_dense;
extern const struct uw_layer_ops uw_layer_maxpool2d;
extern const struct uw_layer_ops uw_layer_relu;
extern const struct uw_layer_ops uw_layer_flatten;
extern const struct uw_layer_ops uw_layer_add;

/* Floats of a sample; 0 when they do not fit 32 bits (no shape is empty). */
uint32_t uw_shape_size(const struct uw_shape *s);

/* Output length of a window sliding over `in` with padding on both sides; 0 if it does not fit. */
uint32_t uw_window_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad);

#endif
