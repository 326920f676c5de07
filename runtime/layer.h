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

/* Shape of one sample: rank 1 [c], rank 2 [c][w], rank 3 [c][h][w]; unused sizes are 1. */
struct uw_shape {
    uint32_t c, h, w;
    uint32_t rank;
};

/* Parameter tensors of one layer, in the order of the flat vector. */
#define UW_LAYER_TENSORS_MAX 4

enum uw_init {
    UW_INIT_ZERO = 0,
    UW_INIT_ONE,
    UW_INIT_WEIGHT,                 /* He before a ReLU, else Glorot, normal */
    UW_INIT_UNIFORM,                /* within 1 / sqrt(fan_in) */
    UW_INIT_NORMAL                  /* standard normal */
};

struct uw_layer_tensor {
    const char *suffix;             /* "weight", "bias", "running_mean" */
    uint32_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;
    enum uw_init init;
    uint32_t fan_in, fan_out;
    bool bias;                      /* what "bias only" trains */
    bool statistic;                 /* has no gradient */
    bool variance;                  /* a statistic that is never below zero */
};

/* Indexes of layers, steps of the plan (at most 3 a layer) and readers of one value (at most
 * UW_LAYER_INPUTS_MAX a layer) fit 16 bits. */
#define UW_LAYERS_MAX 8000u

struct uw_layer {
    const struct uw_layer_def *def;
    const struct uw_layer_ops *ops;
    uint16_t input[UW_LAYER_INPUTS_MAX];    /* values */
    uint32_t index;
    uint16_t consumers_n;           /* layers that name it as an input */
    uint8_t inputs_n, tensors_n;
    /* Of a value that owns memory: how many computing layers (or losses) read it, through views
     * too, and the last of them; a loss counts as layer layers_n. */
    uint16_t readers_n, last_reader;
    uint16_t y_root, dy_root;       /* the layer whose slot holds the output, its gradient */
    struct uw_shape in, out;        /* `in` of the first input */
    uint32_t in_n, out_n;           /* floats of one sample */
    union {
        struct uw_conv2d conv2d;
        struct uw_dense dense;
        struct uw_pool2d pool2d;
        struct uw_norm norm;
        struct uw_lrn lrn;
        struct uw_activation activation;
        struct uw_recurrent recurrent;
        struct uw_attention attention;
        struct uw_permute permute;
        struct {                    /* concat: blocks of one sample, floats of each input's */
            uint32_t outer, row_n[UW_LAYER_INPUTS_MAX];
        } concat;
        struct {
            struct uw_copy copy;    /* of one sample, from x + offset */
            size_t offset;
        } slice;
    } geometry;
    uint32_t segment;               /* first of its segments; constant: none are its own */
    uint32_t lora_rank;             /* dense: the last two tensors are lora_a, lora_b; 0: none */
    float lora_scale;
    uint8_t trained;                /* bit t: tensor t is trained */
    uint16_t bucket;                /* deferred updates: that its trained tensors are in */
    bool constant;                  /* its tensors are the configuration's constants */
    bool recomputed : 1;            /* see stage */
    bool kept : 1, best_kept : 1;   /* not recomputed, though its stage is */
    bool keeps_aux : 1;             /* the plan has a way back through it */
    bool relu_behind : 1, relu6 : 1;    /* it does one by uw_fused; up to 6 */
    bool view, reads_y;             /* as the kind says, unless another layer took over a ReLU */
    bool needs_gradient;            /* it or a layer below is trained */
    bool passes_down;               /* one of its inputs takes a gradient */
    bool auxiliary;                 /* only auxiliary losses need it: not run in inference */
    bool feeds_relu;                /* its output reaches a ReLU before any other weights */
    bool deferred;                  /* batch norm: its reader does it, y is x */
    uint16_t normed_by;             /* the value of the batch norm that it does; 0: none */
    size_t aux_sample_bytes;        /* kept from forward to backward, for each sample ... */
    size_t aux_bytes;               /* ... and for the layer */
    /* The plan. Layers of one stage that is recomputed run forward again before its backward;
     * what later stages read stays (kept). */
    uint16_t stage, best_stage;
    uint16_t t_again, t_bw;         /* steps of the plan at which it runs again, and backward */

    /* Set by bind; NULL in a view, see uw_value_of. */
    float *param[UW_LAYER_TENSORS_MAX];
    float *y, *dy;
    void *aux;
    float *y_at[2];                 /* where the forward pass puts y and aux, and recomputation */
    void *aux_at[2];
};

/* What a pass over the layers is about. */
struct uw_pass {
    uint32_t batch_n;               /* samples in it */
    uint32_t first;                 /* index of the first one in the minibatch */
    bool training;                  /* minibatch statistics, dropout */
    bool again;                     /* recomputation: statistics have been updated before */
    float *const *gradient;         /* backward, on devices: [tensors_n], what bw_param will take as
                                       d, and 0 by now: bw_prepare and bw_input may write there what
                                       they find, which bw_param need not. NULL: it goes into aux */
    uint64_t noise;                 /* key of this step's random numbers */
};

struct uw_layer_ops {
    const char *name;               /* "conv2d", as in a model file */
    bool input_reads_x;             /* bw_input (or bw_prepare) reads the input */
    bool param_reads_x;             /* bw_param reads the input */
    bool weight_reads_x;            /* bw_param reads the input unless only biases are trained */
    bool reads_y;                   /* backward reads the output */
    bool in_place;                  /* y may overwrite the first x */
    bool gradient_in_place;         /* the first dx may overwrite dy */
    bool view;                      /* y is x, dx is dy: nothing is computed */
    bool again_reads_aux;           /* what forward leaves in aux stays for recomputation */
    bool several;                   /* 2 to UW_LAYER_INPUTS_MAX inputs; else one */
    const char *wants;              /* of its input's values; forward refuses others with
                                       UW_ERR_INVALID (optional: takes all) */

    /* Check the definition against the input shapes; fill geometry, tensors_n, aux sizes, and out,
     * which is the first input's shape until then. (optional: nothing to do)
     *   in   [inputs_n] shapes
     * Returns UW_OK, UW_ERR_INVALID or UW_ERR_SHAPE with a sentence that starts at the fault
     * ("kernel 7 is larger than ..."); the caller puts the layer's name in front. */
    int (*infer)(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
    /* Do the ReLU in front as well: max(relu(x)) = relu(max(x)), and so are the gradients.
     * (optional: the layer cannot) */
    void (*take_relu)(struct uw_layer *l);
    /* Do the ReLU behind as well, y cut to 0 .. ceiling (infinity: ReLU). Returns whether the layer
     * can, with these kernels. (optional: cannot) */
    bool (*take_relu_behind)(struct uw_layer *l, const struct uw_kernels *k, float ceiling);
    /* May it do a batch norm in front as well? (optional: cannot) */
    bool (*takes_norm)(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n);
    /* Parameter tensor t < tensors_n of an inferred layer. (optional: no parameters) */
    struct uw_layer_tensor (*tensor)(const struct uw_layer *l, uint32_t t);
    /* Kernel scratch in bytes (optional: NULL means none). */
    size_t (*scratch_bytes)(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads);
    /* y = layer(x...). Views have none. */
    int (*forward)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y);
    /* Before bw_input and bw_param, from l->dy: what both need, kept in aux. (optional) */
    int (*bw_prepare)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x);
    /* After bw_prepare and bw_input: was all finite that they read of l->dy and wrote to dx? For a
     * layer that is trained. (optional: l->dy is looked through before) */
    bool (*bw_finite)(const struct uw_exec *e, const struct uw_layer *l);
    /* Gradient of input number `which`, read from l->dy. Views have none. An optional entry: NULL
     * means that nothing can be trained below. */
    int (*bw_input)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate);
    /* d[t] += scale * gradient of tensor t; d[t] == NULL: that one is not trained (optional: NULL
     * means no parameters). */
    int (*bw_param)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d);
    /* A step of plain SGD for a layer of one input: bw_input, then for every tensor t
     * d[t] = keep * d[t] + scale * its gradient. dx NULL: not wanted. (optional: the two are called
     * one after the other) */
    int (*bw_step)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *dx, bool accumulate, float keep, float scale,
                   float *const *d);
};

struct uw_graph;

/* Batch norms and ReLUs become part of their neighbours. */
struct uw_fusing {
    /* A ReLU that alone reads a layer that can do it as well is left to that layer; of two that
     * are added the first becomes one that is read by nobody else. */
    void (*fold_relus)(struct uw_graph *g, const struct uw_kernels *k);
    /* Batch norms that one convolution alone reads are left to that convolution, where the kernels
     * can do both: what they would write is never stored. Only for training without
     * recomputation. */
    void (*defer)(struct uw_graph *g, const struct uw_kernels *k, uint32_t batch_n);
    /* The geometry of a convolution that does the norm in front: in *c. A layer stands in an array
     * of all. */
    const struct uw_conv2d *(*geometry)(const struct uw_layer *l, struct uw_normed_conv2d *c);
};

/* What low-rank additions change in a dense layer that has them: entries as in uw_layer_ops. */
struct uw_lora {
    void (*infer)(struct uw_layer *l);
    struct uw_layer_tensor (*tensor)(const struct uw_layer *l, uint32_t t);
    size_t (*scratch_bytes)(const struct uw_layer *l, const struct uw_kernels *k, uint32_t rows,
                            uint32_t threads);
    /* y += what they add to it */
    int (*forward)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows,
                   const float *x, float *y);
    int (*bw_prepare)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows);
    /* dx += what passes through them */
    int (*bw_input)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows, float *dx);
    int (*bw_param)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows,
                    const float *x, float scale, float *const *d);
};

/* A table's device; NULL: the processor's. Boards without an operating system have none. */
static inline const struct uw_device_kernels *uw_device(const struct uw_kernels *k)
{
#ifdef UW_WITHOUT_DEVICES
    (void)k;
    return NULL;
#else
    return k->device;
#endif
}

/* What the kernels work on. */
static inline struct uw_worked uw_worked_by(const struct uw_model *m)
{
#ifdef UW_WITHOUT_DEVICES
    return (struct uw_worked){.x = m->params.x, .velocity = m->velocity,
                              .state = {m->state[0], m->state[1]}};
#else
    return m->worked;
#endif
}

/* x, which kernels see, becomes 0. */
int uw_zero(const struct uw_exec *e, void *x, size_t bytes);

/* Multiply-adds of products in the forward pass of one sample; 0: it has none. */
uint64_t uw_layer_multiply_adds(const struct uw_layer *l);

/* Elements of a tensor; 0 when they do not fit 32 bits. */
uint32_t uw_tensor_size(const struct uw_layer_tensor *t);

/* Floats of a sample; 0 when they do not fit 32 bits (no shape is empty). */
uint32_t uw_shape_size(const struct uw_shape *s);

/* The sizes of a sample as an array, [c], [c][w], [c][h][w]; 1 behind them. */
static inline void uw_axes_of(const struct uw_shape *s, uint32_t dim[3])
{
    dim[0] = s->c;
    dim[1] = s->rank == 2 ? s->w : s->h;
    dim[2] = s->rank == 3 ? s->w : 1;
}

static inline struct uw_shape uw_shape_of_axes(uint32_t rank, const uint32_t dim[3])
{
    struct uw_shape s = {dim[0], 1, 1, rank};
    s.h = rank == 3 ? dim[1] : 1;
    s.w = rank == 3 ? dim[2] : rank == 2 ? dim[1] : 1;
    return s;
}

/* "6x14x14" as text. */
#define UW_SHAPE_TEXT_BYTES 36u
const char *uw_shape_text(const struct uw_shape *s, char text[UW_SHAPE_TEXT_BYTES]);

/* Output length, as PyTorch counts, of a window sliding over `in` with padding on both sides; 0 if
 * it does not fit. kernel and stride are 1 or more. ceil_mode: the last window may hang over the
 * end, but begins inside the input or the padding in front. */
uint32_t uw_window_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                        bool ceil_mode);

/* Returns UW_OK, or UW_ERR_SHAPE with the sentence.
 *   needs  what the layer needs; NULL: an image (rank 3) or a row of channels (rank 2) */
int uw_want_rank(const struct uw_shape *in, uint32_t rank, const char *needs, struct uw_error *err);

#endif
