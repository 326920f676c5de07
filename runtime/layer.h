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

/* Shape of one sample: rank 1 [c], rank 2 [c][w], rank 3 [c][h][w], rank 4 [c][d][h][w]; unused
 * sizes are 1. */
struct uw_shape {
    uint32_t c, d, h, w;
    uint32_t rank;
};

/* Parameter tensors of one layer, in the order of the flat vector. */
#define UW_LAYER_TENSORS_MAX 4

enum uw_init {
    UW_INIT_ZERO = 0,
    UW_INIT_ONE,
    UW_INIT_WEIGHT,                 /* He before a ReLU, else Glorot, normal */
    UW_INIT_UNIFORM,                /* within 1 / sqrt(fan_in) */
    UW_INIT_NORMAL                  /* normal, with the tensor's value and deviation */
};

struct uw_layer_tensor {
    const char *suffix;             /* "weight", "bias", "running_mean"; "": named like the layer */
    uint32_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;
    enum uw_init init;
    uint32_t fan_in, fan_out;
    float value, deviation;         /* UW_INIT_NORMAL: mean and standard deviation */
    bool bias;                      /* trained by "bias only" */
    bool statistic;                 /* has no gradient */
    bool variance;                  /* a statistic that is never negative */
};

/* So that 16 bits hold a layer's index, a step of the plan (at most 3 per layer) and a count of
 * readers of one value (at most UW_LAYER_INPUTS_MAX per layer). */
#define UW_LAYERS_MAX 8000u

/* The products of a matmul: [m][n] = [m][k] [k][n] for each sample and index of the axes dim. A
 * step of 0: the operand stays the same. */
#define UW_PRODUCT_AXES (UW_AXES_MAX - 2u)
struct uw_products {
    uint32_t m, k, n;
    uint32_t dim[UW_PRODUCT_AXES];
    uint32_t step[2][UW_PRODUCT_AXES], sample[2];
};

struct uw_layer {
    const struct uw_layer_def *def;
    const struct uw_layer_ops *ops;
    uint16_t input[UW_LAYER_INPUTS_MAX];    /* values */
    uint32_t index;
    uint16_t consumers_n;           /* layers that name it as an input */
    uint8_t inputs_n, tensors_n;
    /* Of a value that owns memory: the number of layers and losses that read it, directly or
     * through views, and the index of the last; a loss has index layers_n. */
    uint16_t readers_n, last_reader;
    uint16_t y_root, dy_root;       /* the layer whose slot holds the output, its gradient */
    struct uw_shape in, out;        /* in: of the first input */
    uint32_t in_n, out_n;           /* floats of one sample */
    union {
        struct uw_conv2d conv2d;
        struct { struct uw_dense dense; uint32_t lora_rank; float lora_scale; };   /* with lora */
        struct uw_pool2d pool2d;
        struct uw_norm norm;
        struct uw_lrn lrn;
        struct uw_activation activation;
        struct uw_recurrent recurrent;
        struct uw_attention attention;
        struct {                    /* transpose: of outer parts of a sample */
            struct uw_permute permute;
            uint32_t outer;
        } transpose;
        struct {                    /* concat: blocks per sample, floats per block of each input */
            uint32_t outer, row_n[UW_LAYER_INPUTS_MAX];
        } concat;
        struct {
            struct uw_copy copy;    /* of one sample, from x + offset */
            size_t offset;
        } slice;
        struct uw_arithmetic arithmetic;    /* of one sample; dim[0] is 1 */
        struct uw_products products;
        struct uw_reduce reduce;    /* of one sample */
        struct uw_take take;        /* of one sample */
    } geometry;
    uint32_t segment;               /* its first segment; a constant layer has none */
    uint8_t trained;                /* bit t: tensor t is trained */
    uint8_t shared_inputs;          /* bit k: input k is one value for all samples */
    uint16_t bucket;                /* deferred updates: the bucket of its trained tensors */
    bool constant;                  /* its tensors are the configuration's constants */
    bool lora : 1;                  /* dense: the last two tensors are lora_a, lora_b */
    bool shared : 1;                /* all inputs are: a minibatch has one sample of the output */
    bool recomputed : 1;            /* see stage */
    bool kept : 1, best_kept : 1;   /* not recomputed, though its stage is */
    bool keeps_aux : 1;             /* the backward pass runs through it, so aux is kept */
    bool relu_behind : 1, relu6 : 1;    /* does the ReLU (ReLU6) after it, by uw_fused */
    bool view, reads_y;             /* as in ops; changed where another layer does this ReLU */
    bool needs_gradient;            /* it or a layer before it is trained */
    bool passes_down;               /* computes the gradient of an input */
    bool auxiliary;                 /* needed by auxiliary losses only: not run in inference */
    bool feeds_relu;                /* its output reaches a ReLU before any other weights */
    bool deferred;                  /* batch norm: done by the layer that reads it, y is x */
    uint16_t normed_by;             /* value of the batch norm that this layer does; 0: none */
    size_t aux_sample_bytes;        /* kept from forward to backward: per sample ... */
    size_t aux_bytes;               /* ... and per layer */
    /* The plan. The layers of a recomputed stage run forward again before its backward pass,
     * except those that later stages read (kept). */
    uint16_t stage, best_stage;
    uint16_t t_again, t_bw;         /* steps of the plan: recomputation, backward pass */

    /* Set by bind; NULL in a view, see uw_value_of. */
    float *param[UW_LAYER_TENSORS_MAX];
    float *y, *dy;
    void *aux;
    float *y_at[2];                 /* y and aux of [0] the forward pass, [1] recomputation */
    void *aux_at[2];
};

/* Samples of the layer's output in a minibatch. */
static inline uint32_t uw_samples(const struct uw_layer *l, uint32_t batch_n)
{
    return l->shared ? 1 : batch_n;
}

/* A pass over the layers. */
struct uw_pass {
    uint32_t batch_n;               /* samples in it; for a layer that is shared 1 */
    uint32_t first;                 /* index in the minibatch of the first sample */
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
    bool again_reads_aux;           /* recomputation reads what forward left in aux */
    bool several;                   /* 2 to UW_LAYER_INPUTS_MAX inputs; else one */
    bool repeats;                   /* takes a value for all samples beside values of each */
    bool processor_only;            /* tables with a device have no kernels for it yet */
    const char *wants;              /* what input values must be; for others forward returns
                                       UW_ERR_INVALID (optional: takes all) */

    /* Check the definition against the input shapes; fill geometry, tensors_n, aux sizes and `out`,
     * preset to the first input's shape. (optional: nothing to do)
     *   in   [inputs_n] shapes
     * Returns UW_OK, UW_ERR_INVALID or UW_ERR_SHAPE with a sentence that begins with the fault
     * ("kernel 7 is larger than ..."); the caller adds the layer's name in front. */
    int (*infer)(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err);
    /* Take over the ReLU before this layer: max(relu(x)) = relu(max(x)), with equal gradients.
     * (optional: the layer cannot) */
    void (*take_relu)(struct uw_layer *l);
    /* Take over the ReLU after this layer: y is clamped to 0 .. ceiling (infinity: ReLU). Returns
     * whether these kernels can do that. (optional: cannot) */
    bool (*take_relu_behind)(struct uw_layer *l, const struct uw_kernels *k, float ceiling);
    /* Whether it can take over the batch norm before it. (optional: cannot) */
    bool (*takes_norm)(const struct uw_layer *l, const struct uw_kernels *k, uint32_t batch_n);
    /* Parameter tensor t < tensors_n of an inferred layer. (optional: no parameters) */
    struct uw_layer_tensor (*tensor)(const struct uw_layer *l, uint32_t t);
    /* Kernel scratch in bytes (optional: NULL means none). */
    size_t (*scratch_bytes)(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads);
    /* y = layer(x...). Views have none. */
    int (*forward)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y);
    /* Runs before bw_input and bw_param; stores what both need of l->dy in aux. (optional) */
    int (*bw_prepare)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x);
    /* After bw_prepare and bw_input of a trained layer: whether what they read of l->dy and wrote
     * to dx was finite. (optional: the caller checks l->dy beforehand) */
    bool (*bw_finite)(const struct uw_exec *e, const struct uw_layer *l);
    /* Gradient of input number `which`, from l->dy. Views have none. (optional: NULL means that no
     * layer before this one can be trained) */
    int (*bw_input)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate);
    /* d[t] += scale * gradient of tensor t; d[t] == NULL: that one is not trained (optional: NULL
     * means no parameters). */
    int (*bw_param)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d);
    /* A step of plain SGD for a layer with one input: bw_input, then for every tensor t
     * d[t] = keep * d[t] + scale * its gradient. dx NULL: not wanted. (optional: the caller calls
     * bw_input, then bw_param) */
    int (*bw_step)(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *dx, bool accumulate, float keep, float scale,
                   float *const *d);
};

struct uw_graph;

/* Optional part: batch norms and ReLUs are fused with their neighbours. */
struct uw_fusing {
    /* Let a layer do the ReLU that is the only reader of its output, if it can. Then order the
     * inputs of additions of two so that the first has no other reader. */
    void (*fold_relus)(struct uw_graph *g, const struct uw_kernels *k);
    /* Let a convolution do the batch norm that only it reads, if the kernels can: the norm's output
     * is then never stored. Only for training without recomputation. */
    void (*defer)(struct uw_graph *g, const struct uw_kernels *k, uint32_t batch_n);
    /* The geometry of a convolution that does the norm before it, written to *c. l must be an
     * element of the array of all layers. */
    const struct uw_conv2d *(*geometry)(const struct uw_layer *l, struct uw_normed_conv2d *c);
};

/* Optional part: low-rank additions (LoRA) of a dense layer. Entries as in uw_layer_ops. */
struct uw_lora {
    void (*infer)(struct uw_layer *l);
    struct uw_layer_tensor (*tensor)(const struct uw_layer *l, uint32_t t);
    size_t (*scratch_bytes)(const struct uw_layer *l, const struct uw_kernels *k, uint32_t rows,
                            uint32_t threads);
    /* y += scale * (x A^T) B^T */
    int (*forward)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows,
                   const float *x, float *y);
    int (*bw_prepare)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows);
    /* dx += scale * (dy B) A */
    int (*bw_input)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows, float *dx);
    int (*bw_param)(const struct uw_exec *e, const struct uw_layer *l, uint32_t rows,
                    const float *x, float scale, float *const *d);
};

/* The device of a kernel table; NULL: the processor. Boards have no device. */
static inline const struct uw_device_kernels *uw_device(const struct uw_kernels *k)
{
#ifdef UW_WITHOUT_DEVICES
    (void)k;
    return NULL;
#else
    return k->device;
#endif
}

/* The vectors that kernels work on. */
static inline struct uw_worked uw_worked_by(const struct uw_model *m)
{
#ifdef UW_WITHOUT_DEVICES
    return (struct uw_worked){.x = m->params.x, .velocity = m->velocity,
                              .state = {m->state[0], m->state[1]}};
#else
    return m->worked;
#endif
}

/* Set x, in memory of the kernels, to 0. */
int uw_zero(const struct uw_exec *e, void *x, size_t bytes);

/* Multiply-adds of matrix products in the forward pass of one sample. */
uint64_t uw_layer_multiply_adds(const struct uw_layer *l);

/* Elements of a tensor; 0 when they do not fit 32 bits. */
uint32_t uw_tensor_size(const struct uw_layer_tensor *t);

/* Floats of a sample; 0 when they do not fit 32 bits (no shape is empty). */
uint32_t uw_shape_size(const struct uw_shape *s);

static inline struct uw_shape uw_shape_row(uint32_t n)
{
    return (struct uw_shape){n, 1, 1, 1, 1};
}

static inline struct uw_shape uw_shape_matrix(uint32_t rows, uint32_t n)
{
    return (struct uw_shape){rows, 1, 1, n, 2};
}

/* The sizes of a sample as an array, in the order of the axes, filled up with 1. */
void uw_axes_of(const struct uw_shape *s, uint32_t dim[UW_AXES_MAX]);
struct uw_shape uw_shape_of_axes(uint32_t rank, const uint32_t dim[UW_AXES_MAX]);

/* "6x14x14" as text. */
#define UW_SHAPE_TEXT_BYTES 48u
const char *uw_shape_text(const struct uw_shape *s, char text[UW_SHAPE_TEXT_BYTES]);

/* Output length, as in PyTorch, of a window that slides over `in` with padding on both sides; 0 if
 * it does not fit. kernel and stride are 1 or more. ceil_mode: the last window may extend past the
 * end, but must begin inside the input or the padding before it. */
uint32_t uw_window_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                        bool ceil_mode);

/* Returns UW_OK, or UW_ERR_SHAPE with the sentence.
 *   needs  what the layer needs; NULL: an image (rank 3) or a row of channels (rank 2) */
int uw_want_rank(const struct uw_shape *in, uint32_t rank, const char *needs, struct uw_error *err);

#endif
