/* SPDX-License-Identifier: Apache-2.0 */
#include "board_model.h"

static const struct uw_layer_def layers[] = {
    {.kind = UW_LAYER_FLATTEN, .name = "flatten"},
    {.kind = UW_LAYER_DENSE, .name = "fc1", .dense = {.out = 128}},
    {.kind = UW_LAYER_RELU, .name = "relu1"},
    {.kind = UW_LAYER_DENSE, .name = "fc2", .dense = {.out = 10}},
};

const struct uw_model_def uw_board_model = {
    .name = "mlp", .in_channels = 1, .in_h = 28, .in_w = 28, .layers = layers, .layers_n = 4};
