/* SPDX-License-Identifier: Apache-2.0 */
#include "networks.h"

#define CONV(...) .kind = UW_LAYER_CONV2D, .conv2d = {__VA_ARGS__}
#define DENSE(n) .kind = UW_LAYER_DENSE, .dense = {.out = n}
#define MAXPOOL(...) .kind = UW_LAYER_MAXPOOL2D, .pool2d = {__VA_ARGS__}
#define LAYERS(x) .layers = x, .layers_n = sizeof x / sizeof x[0]

static const struct uw_layer_def mlp[] = {
    {DENSE(37), .name = "fc1"}, {.kind = UW_LAYER_RELU, .name = "relu"},
    {DENSE(19), .name = "fc2"}, {.kind = UW_LAYER_SIGMOID, .name = "sigmoid"},
    {DENSE(10), .name = "fc3"}};

static const struct uw_layer_def lenet[] = {
    {CONV(.out_channels = 5, .kernel_h = 5, .pad_h = 2, .pad_w = 2), .name = "conv1"},
    {.kind = UW_LAYER_RELU, .name = "relu1"}, {MAXPOOL(.kernel_h = 2), .name = "pool1"},
    {CONV(.out_channels = 7, .kernel_h = 3), .name = "conv2"},
    {.kind = UW_LAYER_TANH, .name = "tanh"},
    {MAXPOOL(.kernel_h = 3, .stride_h = 2, .pad_h = 1, .pad_w = 1), .name = "pool2"},
    {.kind = UW_LAYER_FLATTEN, .name = "flatten"}, {DENSE(21), .name = "fc1"},
    {.kind = UW_LAYER_RELU, .name = "relu2"}, {DENSE(10), .name = "fc2"}};

static const struct uw_layer_def resnet[] = {
    {CONV(.out_channels = 6, .kernel_h = 3, .pad_h = 1, .pad_w = 1, .no_bias = true),
     .name = "conv0"},
    {.kind = UW_LAYER_BATCHNORM, .name = "bn0"}, {.kind = UW_LAYER_RELU, .name = "relu0"},
    {CONV(.out_channels = 12, .kernel_h = 3, .stride_h = 2, .pad_h = 1, .pad_w = 1,
          .no_bias = true), .name = "conv1"},
    {.kind = UW_LAYER_BATCHNORM, .name = "bn1"}, {.kind = UW_LAYER_RELU, .name = "relu1"},
    {CONV(.out_channels = 12, .kernel_h = 3, .pad_h = 1, .pad_w = 1, .no_bias = true),
     .name = "conv2"},
    {.kind = UW_LAYER_BATCHNORM, .name = "bn2"},
    {CONV(.out_channels = 12, .kernel_h = 1, .stride_h = 2, .no_bias = true), .name = "down",
     .inputs = {"relu0"}},
    {.kind = UW_LAYER_BATCHNORM, .name = "bn3"},
    {.kind = UW_LAYER_ADD, .name = "sum", .inputs = {"bn2", "bn3"}},
    {.kind = UW_LAYER_RELU, .name = "relu2"},
    {.kind = UW_LAYER_GLOBAL_AVGPOOL, .name = "pool"}, {DENSE(10), .name = "fc"}};

static const struct uw_layer_def mobile[] = {
    {CONV(.out_channels = 8, .kernel_h = 1), .name = "expand"},
    {.kind = UW_LAYER_RELU6, .name = "relu6"},
    {CONV(.out_channels = 8, .kernel_h = 3, .stride_h = 2, .pad_h = 1, .pad_w = 1, .groups = 8),
     .name = "depthwise"},
    {.kind = UW_LAYER_GROUPNORM, .name = "groupnorm", .norm = {.groups = 2}},
    {.kind = UW_LAYER_SILU, .name = "silu"},
    {CONV(.out_channels = 6, .kernel_h = 3, .pad_h = 2, .pad_w = 2, .dilation_h = 2,
          .dilation_w = 2, .groups = 2), .name = "dilated"},
    {.kind = UW_LAYER_LRN, .name = "lrn", .lrn = {.size = 3}},
    {.kind = UW_LAYER_LEAKY_RELU, .name = "leaky"},
    {.kind = UW_LAYER_CONV_TRANSPOSE2D, .name = "up",
     .conv_transpose2d = {.out_channels = 4, .kernel_h = 3, .stride_h = 2, .pad_h = 1,
                          .pad_w = 1}},
    {.kind = UW_LAYER_AVGPOOL2D, .name = "pool", .pool2d = {.kernel_h = 3, .stride_h = 2}},
    {.kind = UW_LAYER_FLATTEN, .name = "flatten"}, {DENSE(10), .name = "fc"}};

static const struct uw_layer_def gru[] = {
    {.kind = UW_LAYER_GRU, .name = "gru", .recurrent = {.hidden = 11}},
    {.kind = UW_LAYER_LSTM, .name = "lstm", .recurrent = {.hidden = 9}},
    {.kind = UW_LAYER_RNN, .name = "rnn", .recurrent = {.hidden = 13, .last = true}},
    {DENSE(10), .name = "fc"}};

static const struct uw_layer_def transformer[] = {
    {.kind = UW_LAYER_EMBEDDING, .name = "embed", .embedding = {.vocabulary = 23, .size = 12}},
    {.kind = UW_LAYER_LAYERNORM, .name = "ln1"},
    {.kind = UW_LAYER_ATTENTION, .name = "attn", .attention = {.heads = 3, .causal = true}},
    {.kind = UW_LAYER_DROPOUT, .name = "drop1", .dropout = {.rate = 0.1f}},
    {.kind = UW_LAYER_ADD, .name = "sum1", .inputs = {"drop1", "embed"}},
    {.kind = UW_LAYER_LAYERNORM, .name = "ln2"}, {DENSE(24), .name = "ff1"},
    {.kind = UW_LAYER_GELU, .name = "gelu"}, {DENSE(12), .name = "ff2"},
    {.kind = UW_LAYER_DROPOUT, .name = "drop2", .dropout = {.rate = 0.2f}},
    {.kind = UW_LAYER_ADD, .name = "sum2", .inputs = {"drop2", "sum1"}},
    {.kind = UW_LAYER_FLATTEN, .name = "flatten"}, {DENSE(10), .name = "fc"}};

static const struct uw_layer_def autoencoder[] = {
    {DENSE(14), .name = "in"},
    {.kind = UW_LAYER_GELU, .name = "gelu", .activation = {.tanh = true}},
    {DENSE(6), .name = "code"}, {.kind = UW_LAYER_TANH, .name = "tanh"},
    {DENSE(20), .name = "out"}};
static const struct uw_loss_def huber[] = {
    {.kind = UW_LOSS_HUBER, .target = UW_TARGET_INPUT, .delta = 0.5f}};

static const struct uw_layer_def detector[] = {
    {DENSE(16), .name = "in"}, {.kind = UW_LAYER_RELU, .name = "relu"},
    {DENSE(5), .name = "out"}};
static const struct uw_loss_def bce[] = {{.kind = UW_LOSS_BINARY_CROSS_ENTROPY}};

static const struct uw_loss_def smooth[] = {{.label_smoothing = 0.1f}};

const struct exact_network exact_networks[] = {
    {.def = {"mlp", 30, LAYERS(mlp)}, .batch_n = 9,
     .optimizer = {.lr = 0.05f, .momentum = 0.9f, .nesterov = true, .weight_decay = 1e-3f}},
    {.def = {"lenet", 1, 12, 12, LAYERS(lenet)}, .batch_n = 3, .optimizer = {.lr = 0.05f}},
    {.def = {"resnet", 3, 8, 8, LAYERS(resnet), .losses = smooth, .losses_n = 1}, .batch_n = 4,
     .mode = UW_PLAN_FULL,
     .optimizer = {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 5e-4f, .clip_global = 1.0f},
     .schedule = {.kind = UW_SCHEDULE_COSINE, .end = 0.01, .warmup = 10}},
    {.def = {"mobile", 2, 9, 7, LAYERS(mobile)}, .batch_n = 2, .mode = UW_PLAN_BUCKETS,
     .optimizer = {.kind = UW_OPTIMIZER_RMSPROP, .lr = 1e-3f, .momentum = 0.5f},
     .schedule = {.kind = UW_SCHEDULE_STEP, .by_step = true, .every = 30, .gamma = 0.3}},
    {.def = {"gru", 7, 0, 5, LAYERS(gru)}, .batch_n = 5,
     .optimizer = {.lr = 0.1f, .clip_tensor = 0.3f, .momentum = 0.9f},
     .schedule = {.kind = UW_SCHEDULE_LINEAR, .end = 0.1}},
    {.def = {"transformer", 8, LAYERS(transformer)}, .batch_n = 4, .vocabulary = 23,
     .optimizer = {.kind = UW_OPTIMIZER_ADAM, .lr = 3e-3f},
     .schedule = {.kind = UW_SCHEDULE_COSINE}},
    {.def = {"autoencoder", 20, LAYERS(autoencoder), .losses = huber, .losses_n = 1},
     .batch_n = 7, .optimizer = {.kind = UW_OPTIMIZER_ADAMW, .lr = 1e-2f, .weight_decay = 0.01f}},
    {.def = {"detector", 11, LAYERS(detector), .losses = bce, .losses_n = 1}, .batch_n = 8,
     .micro_n = 3, .optimizer = {.lr = 0.2f, .momentum = 0.8f},
     .schedule = {.kind = UW_SCHEDULE_MULTISTEP, .by_step = true, .gamma = 0.1,
                  .milestone = {40, 80}, .milestones_n = 2}},
};
const uint32_t exact_networks_n = sizeof exact_networks / sizeof exact_networks[0];
