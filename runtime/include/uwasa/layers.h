/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/layers.h - the kinds of layers, losses, and their options
 *
 * A layer is an entry of a const table: kind, name, inputs, options. An option of zero has its
 * default. Names and meanings of options are PyTorch's.
 *
 * Layout     one sample has rank 1 [features], rank 2 [channels][length] or [steps][features],
 *            rank 3 [C][H][W] or rank 4; the minibatch is the axis in front of it
 * Memory     tables and names are borrowed and must outlive the model
 */
#ifndef UWASA_LAYERS_H
#define UWASA_LAYERS_H

#include "uwasa/layers_tensor.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_LAYER_INPUTS_MAX 8
#define UW_LOSSES_MAX 4
#define UW_LAYER_NAME_MAX 96u       /* longest name that a checkpoint can store */

enum uw_layer_kind {
    UW_LAYER_CONV2D = 1,            /* [C][H][W] */
    UW_LAYER_DENSE,                 /* last axis of rank 1 or 2; [C][1][1] counts as [C] */
    UW_LAYER_MAXPOOL2D,
    UW_LAYER_RELU,
    UW_LAYER_FLATTEN,               /* to rank 1 */
    UW_LAYER_ADD,                   /* sum of two or more inputs of one shape; two inputs of other
                                       shapes are added as ARITHMETIC does */
    UW_LAYER_CONV1D,                /* [C][L] */
    UW_LAYER_CONV_TRANSPOSE2D,
    UW_LAYER_MAXPOOL1D,             /* [C][L] */
    UW_LAYER_AVGPOOL2D,
    UW_LAYER_AVGPOOL1D,             /* [C][L] */
    UW_LAYER_GLOBAL_AVGPOOL,        /* [C][H][W] or [C][L] to [C] */
    UW_LAYER_BATCHNORM,             /* over axis 0 of the sample, any rank; see uw_norm_def */
    UW_LAYER_GROUPNORM,             /* groups of axis 0; one channel a group: instance norm */
    UW_LAYER_LAYERNORM,             /* over the last axes */
    UW_LAYER_LRN,                   /* local response normalization across channels */
    UW_LAYER_RELU6,
    UW_LAYER_LEAKY_RELU,
    UW_LAYER_SIGMOID,
    UW_LAYER_TANH,
    UW_LAYER_GELU,
    UW_LAYER_SILU,
    UW_LAYER_DROPOUT,
    UW_LAYER_CONCAT,
    UW_LAYER_RESHAPE,
    UW_LAYER_TRANSPOSE,             /* permute the axes of a sample */
    UW_LAYER_SLICE,                 /* a range of one axis */
    UW_LAYER_EMBEDDING,             /* [T] indices, as floats, to [T][size] */
    UW_LAYER_RNN,                   /* [T][F] to [T][hidden] */
    UW_LAYER_GRU,                   /* likewise */
    UW_LAYER_LSTM,                  /* likewise; initial states are zero */
    UW_LAYER_ATTENTION,             /* multi-head self-attention, [T][E] to [T][E] */
    UW_LAYER_PARAMETER,             /* a tensor of its own, the same for all samples; no input */
    UW_LAYER_FUNCTION,              /* a function of each element */
    UW_LAYER_ARITHMETIC,            /* of two inputs, element by element, NumPy's broadcasting */
    UW_LAYER_MATMUL,                /* product of two inputs over their last two axes */
    UW_LAYER_REDUCE,                /* mean, sum, maximum, ... over neighbouring axes */
    UW_LAYER_SOFTMAX,               /* over the last axis */
    UW_LAYER_TAKE                   /* picks or mixes the elements of one axis */
};

struct uw_conv2d_def {
    uint32_t out_channels;
    uint32_t kernel_h, kernel_w;    /* kernel_w 0: kernel_h */
    uint32_t stride_h, stride_w;    /* 0: 1; stride_w 0: stride_h */
    uint32_t pad_h, pad_w;          /* zeros on each side */
    bool no_bias;
    uint32_t dilation_h, dilation_w;    /* 0: 1; dilation_w 0: dilation_h */
    uint32_t groups;                /* 0: 1; divides both channel counts */
};

struct uw_conv_transpose2d_def {
    uint32_t out_channels;
    uint32_t kernel_h, kernel_w;    /* as in conv2d, and the rest too */
    uint32_t stride_h, stride_w;
    uint32_t pad_h, pad_w;
    bool no_bias;
    uint32_t dilation_h, dilation_w;
    uint32_t groups;
    uint32_t out_pad_h, out_pad_w;  /* more rows and columns at the end; below stride or dilation */
};

struct uw_conv1d_def {
    uint32_t out_channels;
    uint32_t kernel;
    uint32_t stride;                /* 0: 1 */
    uint32_t pad;
    bool no_bias;
    uint32_t dilation;              /* 0: 1 */
    uint32_t groups;                /* 0: 1 */
};

struct uw_dense_def {
    uint32_t out;
    bool no_bias;
};

/* maxpool2d and avgpool2d */
struct uw_pool2d_def {
    uint32_t kernel_h, kernel_w;    /* kernel_w 0: kernel_h */
    uint32_t stride_h, stride_w;    /* 0: the kernel's size */
    uint32_t pad_h, pad_w;
    bool ceil_mode;                 /* a window may extend beyond the end, but must begin inside */
    bool exclude_pad;               /* average without the padding */
};

/* maxpool1d and avgpool1d */
struct uw_pool1d_def {
    uint32_t kernel, stride, pad;
    bool ceil_mode, exclude_pad;
};

/* batchnorm, groupnorm, layernorm. Batch norm trains with the minibatch's statistics and moves the
 * running statistics towards them (the unbiased variance; a channel with a single value leaves it
 * unchanged). Inference, and a frozen layer in training, use the running statistics as constants.
 * These are part of the flat vector, and nodes average them like weights: the average of the means
 * is the mean over all data, but the average of the variances omits the distance between the means,
 * and is too small if nodes hold different data. Group norm and layer norm have no such state. */
struct uw_norm_def {
    float epsilon;                  /* 0: 1e-5 */
    float momentum;                 /* batchnorm: share of the minibatch in the running
                                       statistics; 0: 0.1 */
    uint32_t groups;                /* groupnorm: divides the channels */
    uint32_t axes;                  /* layernorm: number of last axes; 0: 1 */
    bool no_affine;                 /* no weight and no bias */
};

struct uw_lrn_def {
    uint32_t size;                  /* channels in the window */
    float alpha, beta, k;           /* 0: 1e-4, 0.75, 1 */
};

struct uw_activation_def {
    float slope;                    /* leaky_relu; 0: 0.01 */
    bool tanh;                      /* gelu: the tanh approximation */
};

struct uw_dropout_def {
    float rate;                     /* share of values set to zero in training, below 1 */
};

struct uw_concat_def {
    uint32_t axis;                  /* of the sample: 0 is channels */
};

struct uw_reshape_def {
    uint32_t dim[UW_AXES_MAX];      /* one of them may be 0: computed from the others */
    uint32_t rank;                  /* 1 to 4 */
};

/* Four axes may change places only so far that three blocks of neighbours do: two transposes make
 * the other orders. */
struct uw_transpose_def {
    uint32_t order[UW_AXES_MAX];    /* output axis i is input axis order[i] */
};

struct uw_slice_def {
    uint32_t axis;
    int32_t start;                  /* negative: from the end */
    uint32_t length;                /* 0: to the end */
    bool squeeze;                   /* length 1: drop the axis */
};

struct uw_embedding_def {
    uint32_t vocabulary;            /* indices are 0 to vocabulary - 1 */
    uint32_t size;
};

/* rnn, gru, lstm: one direction of one layer; tensors weight_ih, weight_hh, bias_ih, bias_hh. For
 * the backward pass it stores 1, 4, 5 floats for each unit, step and sample, with `last` one more.
 */
struct uw_recurrent_def {
    uint32_t hidden;
    bool no_bias;
    bool reverse;                   /* from the last step to the first */
    bool last;                      /* outputs the final state only, [hidden] */
    bool relu;                      /* rnn: ReLU in place of tanh */
};

/* Tensors in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias. For the backward pass it
 * stores T (4 E + heads T) floats a sample. */
struct uw_attention_def {
    uint32_t heads;                 /* divides the features */
    bool causal;                    /* step t reads steps 0 to t */
    bool no_bias;
};

struct uw_layer_def {
    enum uw_layer_kind kind;
    const char *name;               /* unique, 1 to UW_LAYER_NAME_MAX bytes; parameters are
                                       "<name>.weight", "<name>.bias" */
    const char *inputs[UW_LAYER_INPUTS_MAX];    /* layer names, or "input"; all NULL: the previous
                                                   layer, "input" for the first */
    bool frozen;                    /* its parameters and running statistics are not trained */
    union {
        struct uw_conv2d_def conv2d;
        struct uw_conv_transpose2d_def conv_transpose2d;
        struct uw_conv1d_def conv1d;
        struct uw_dense_def dense;
        struct uw_pool2d_def pool2d;
        struct uw_pool1d_def pool1d;
        struct uw_norm_def norm;
        struct uw_lrn_def lrn;
        struct uw_activation_def activation;
        struct uw_dropout_def dropout;
        struct uw_concat_def concat;
        struct uw_reshape_def reshape;
        struct uw_transpose_def transpose;
        struct uw_slice_def slice;
        struct uw_embedding_def embedding;
        struct uw_recurrent_def recurrent;
        struct uw_attention_def attention;
        struct uw_parameter_def parameter;
        struct uw_function_def function;
        struct uw_arithmetic_def arithmetic;
        struct uw_matmul_def matmul;
        struct uw_reduce_def reduce;
        struct uw_softmax_def softmax;
        struct uw_take_def take;
    };
};

enum uw_loss_kind {
    UW_LOSS_CROSS_ENTROPY = 0,      /* softmax cross-entropy of logits */
    UW_LOSS_BINARY_CROSS_ENTROPY,   /* sigmoid cross-entropy of logits */
    UW_LOSS_MSE,
    UW_LOSS_L1,
    UW_LOSS_HUBER
};

enum uw_target_kind {
    UW_TARGET_LABEL = 0,            /* the class; one-hot for losses other than cross_entropy */
    UW_TARGET_INPUT,                /* the sample itself, for an autoencoder */
    UW_TARGET_VALUES                /* floats beside the sample. For cross_entropy a class for each
                                       position: of an output [classes][h][w] a mask [h][w] of
                                       whole numbers; below 0 a position does not count */
};

/* A loss on one layer's output: the mean over the minibatch, and over the output's elements where
 * the loss is elementwise, over the positions that count where each has a class. The model's loss
 * is the weighted sum. */
struct uw_loss_def {
    const char *layer;              /* NULL: the last one */
    enum uw_loss_kind kind;
    enum uw_target_kind target;
    float weight;                   /* 0: 1 */
    float label_smoothing;          /* cross_entropy */
    float delta;                    /* huber; 0: 1 */
    uint32_t first;                 /* target values: where the loss's own begin among those of a
                                       sample, of which every loss has some */
    bool classes_last;              /* a class for each position: the output's last axis has the
                                       classes, not the first, as in [tokens][classes] */
};

#endif
