/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "job.h"
#include "progress.h"

#include <stdio.h>
#include <string.h>

struct options {
    bool json;
};

static const struct uw_opt rows[] = {
    {"json", UW_OPT_FLAG, offsetof(struct options, json), 0, 0, NULL, "one JSON object a model"},
};

static const struct uw_args_spec spec = {
    .command = "models",
    .summary = "list the built-in models, or print one as JSON to start your own from",
    .usage = "[NAME] [--json]",
    .example = "uwasa models lenet5 > my-model.json",
    .epilogue =
        "RAM is everything that training at batch 1 with plain SGD on one thread needs.\n\n"
        "A model of your own has \"name\", \"input\" ([channels, height, width] or [features])"
        " and\n"
        "\"layers\". Each layer has a \"name\" and a \"type\":\n\n"
        "  conv2d      out_channels, kernel, stride (1), padding (0), bias (true)\n"
        "  maxpool2d   kernel, stride (kernel), padding (0)\n"
        "  dense       out, bias (true)\n"
        "  relu, flatten\n"
        "  add         inputs: [\"one\", \"other\"]; every other layer takes the one above\n\n"
        "kernel, stride and padding are a number or [height, width]. The last layer gives one\n"
        "number a class; softmax cross-entropy follows by itself.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

static int list_one(const struct uw_model_builtin *b, bool json)
{
    struct uw_job job;
    struct uw_error err = {.text = ""};
    const struct uw_job_config config = {
        .model = b->name, .backend = "auto", .threads = 1, .plan = {.batch_n = 1}};
    int rc = uw_job_plan(&job, &config, &err);
    if (rc < 0) {
        uw_job_deinit(&job);
        return uw_cli_error("models", UW_EXIT_FAILED, "%s", err.text);
    }
    double bytes = 4.0 * job.need.parameters_n;
    double ram = (double)job.need.total_bytes;
    if (json) {
        printf("{\"name\":\"%s\",\"parameters\":%u,\"bytes\":%.0f,\"ram_bytes\":%.0f}\n", b->name,
               (unsigned)job.need.parameters_n, bytes, ram);
    } else {
        char a[UW_TEXT_BYTES];
        char c[UW_TEXT_BYTES];
        printf("%-14s %12u %12s %18s\n", b->name, (unsigned)job.need.parameters_n,
               uw_text_bytes(bytes, a), uw_text_bytes(ram, c));
    }
    uw_job_deinit(&job);
    return UW_EXIT_DONE;
}

int uw_cmd_models(int argc, char **argv)
{
    struct options o = {.json = false};
    const char *name = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &name);
    if (status >= 0) {
        return status;
    }
    if (name != NULL) {
        const struct uw_model_builtin *b = uw_model_builtin_find(name);
        if (b == NULL) {
            const char *near = uw_model_builtin_nearest(name);
            return uw_cli_error("models", UW_EXIT_USAGE, "%s: no built-in model, %s%s%s", name,
                                near != NULL ? "did you mean " : "uwasa models lists them",
                                near != NULL ? near : "", near != NULL ? "?" : "");
        }
        fputs(b->text, stdout);
        return UW_EXIT_DONE;
    }
    if (!o.json) {
        printf("%-14s %12s %12s %18s\n", "model", "parameters", "weights", "RAM at batch 1");
    }
    status = UW_EXIT_DONE;
    for (uint32_t i = 0; i < uw_model_builtins_n && status == UW_EXIT_DONE; i++) {
        status = list_one(&uw_model_builtins[i], o.json);
    }
    return status;
}
