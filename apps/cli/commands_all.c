/* SPDX-License-Identifier: Apache-2.0
 *
 * All commands of the program. */
#include "base/commands.h"

const struct uw_command uw_commands[] = {
    {"demo", uw_cmd_demo, "let four devices learn together on this machine, in a minute"},
    {"train", uw_cmd_train, "train a model on this device"},
    {"eval", uw_cmd_eval, "test a model's weights"},
    {"predict", uw_cmd_predict, "what a trained model says about samples"},
    {"plan", uw_cmd_plan, "show the memory of a model, before anything runs"},
    {"node", uw_cmd_node, "join a run: train, and exchange parameters with other nodes"},
    {"status", uw_cmd_status, "show a run as one of its nodes sees it"},
    {"sim", uw_cmd_sim, "simulate a run: many nodes, a network, a virtual clock"},
    {"keygen", uw_cmd_keygen, "make the key of a run, or of a device"},
    {"models", uw_cmd_models, "list the built-in models"},
    {"convert", uw_cmd_convert, "read a model from ONNX; write a trained one as ONNX or C"},
    {"bench", uw_cmd_bench, "measure this machine"},
};
const uint32_t uw_commands_n = sizeof uw_commands / sizeof uw_commands[0];
const char *const uw_commands_start = "uwasa demo";
