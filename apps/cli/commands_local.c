/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of a build without the network and its libraries (UWASA_NET off), and errors for the
 * others. */
#include "base/args.h"
#include "base/commands.h"
#include "plan/plan_link.h"
#include "train/predict_node.h"

#define ABSENT "this program was built without the network (-DUWASA_NET=OFF)"

static int absent(int argc, char **argv)
{
    (void)argc;
    return uw_cli_error(argv[0], UW_EXIT_USAGE, ABSENT);
}

const struct uw_command uw_commands[] = {
    {"train", uw_cmd_train, "train a model on this device"},
    {"eval", uw_cmd_eval, "test a model's weights"},
    {"predict", uw_cmd_predict, "what a trained model says about samples"},
    {"plan", uw_cmd_plan, "show the memory of a model, before anything runs"},
    {"models", uw_cmd_models, "list the built-in models"},
    {"convert", uw_cmd_convert, "write a trained model as C"},
    {"bench", uw_cmd_bench, "measure this machine"},
    {"demo", absent, NULL},
    {"node", absent, NULL},
    {"status", absent, NULL},
    {"sim", absent, NULL},
    {"keygen", absent, NULL},
};
const uint32_t uw_commands_n = sizeof uw_commands / sizeof uw_commands[0];
const char *const uw_commands_start = "uwasa train --model lenet5";

int uw_cmd_bench_allreduce(int argc, char **argv)
{
    return absent(argc, argv);
}

int uw_cmd_bench_link(int argc, char **argv)
{
    return absent(argc, argv);
}

int uw_predict_node_check(const struct uw_predict_node_config *config, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_UNSUPPORTED, "--node %.60s: " ABSENT, config->address);
}

int uw_predict_node_open(struct uw_predict_node **node,
                         const struct uw_predict_node_config *config, struct uw_answers *answers,
                         struct uw_job_columns *columns, uint32_t *sample_n, float *threshold,
                         struct uw_error *err)
{
    (void)answers;
    (void)columns;
    (void)sample_n;
    (void)threshold;
    *node = NULL;
    return uw_predict_node_check(config, err);
}

int uw_predict_node_ask(struct uw_predict_node *node, const float *x, float *numbers,
                        struct uw_error *err)
{
    (void)node;
    (void)x;
    (void)numbers;
    return uw_error_set(err, UW_ERR_UNSUPPORTED, ABSENT);
}

void uw_predict_node_close(struct uw_predict_node *node)
{
    (void)node;
}

uint32_t uw_plan_link_nodes(const char *link)
{
    (void)link;
    return 2;
}

int uw_plan_link_check(const struct uw_plan_link *o, struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_UNSUPPORTED, "--link %.60s: " ABSENT, o->link);
}

int uw_plan_link_show(const struct uw_plan_link *o, const struct uw_job *job, bool json,
                      struct uw_error *err)
{
    (void)job;
    (void)json;
    return uw_plan_link_check(o, err);
}
