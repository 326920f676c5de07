/* SPDX-License-Identifier: Apache-2.0 */
#include "base/commands.h"
#include "base/progress.h"
#include "job/job.h"

#include <stdio.h>
#include <stdlib.h>
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
    .usage = "[NAME | FILE.json] [--json]",
    .example = "uwasa models lenet5 > my-model.json",
    .epilogue =
        "RAM is the memory for training at batch 1 with plain SGD on one thread, with the kernels\n"
        "of this machine; uwasa plan --backend ref shows the least that a board needs. Parameters\n"
        "are those of inference, without googlenet's auxiliary heads.\n\n"
        "A model of your own has \"name\", \"input\" ([channels, height, width], [channels, "
        "length],\n[steps, features] or [features]) and \"layers\"; \"about\" may describe it. "
        "Each layer has a\nunique \"name\" (its parameters are \"<name>.weight\" and so on) and a "
        "\"type\":\n\n"
        "  conv2d            out_channels, kernel, stride (1), padding (0), dilation (1),\n"
        "                    groups (1), bias (true)\n"
        "  conv1d            likewise\n"
        "  conv_transpose2d  likewise, output_padding (0)\n"
        "  dense             out, bias (true)\n"
        "  maxpool2d, maxpool1d, avgpool2d, avgpool1d\n"
        "                    kernel, stride (kernel), padding (0), ceil_mode (false);\n"
        "                    average: count_include_pad (true)\n"
        "  batchnorm         eps (1e-5), momentum (0.1), affine (true)\n"
        "  groupnorm         num_groups, eps, affine\n"
        "  layernorm         axes: how many of the last (1), eps, affine\n"
        "  lrn               size, alpha (1e-4), beta (0.75), k (1)\n"
        "  leaky_relu        negative_slope (0.01)\n"
        "  gelu              approximate: none or tanh (none)\n"
        "  dropout           p\n"
        "  add               inputs: [\"one\", \"other\"]; two of different shapes as in sub\n"
        "  concat            inputs, axis (0: channels)\n"
        "  reshape           shape, one size may be -1\n"
        "  transpose         order: of [1, 0] the first axis is the one that was second\n"
        "  slice             axis (0), start (0; below 0 from the end),\n"
        "                    length (to the end), squeeze (false)\n"
        "  embedding         vocabulary, size\n"
        "  rnn, gru, lstm    hidden, bias (true), reverse (false), last: only the final\n"
        "                    state (false); rnn: nonlinearity: tanh or relu (tanh)\n"
        "  attention         heads, causal (false), bias (true)\n"
        "  global_avgpool, relu, relu6, sigmoid, tanh, silu, flatten\n\n"
        "Operators on tensors, on the processor only:\n\n"
        "  parameter         a tensor \"<name>.weight\", the same for all samples; no inputs;\n"
        "                    shape, value and deviation that it starts with (0, 0),\n"
        "                    constant: never trained (false)\n"
        "  sub, mul, div, pow, min, max, mask\n"
        "                    of two inputs, element by element: shapes are compared from the\n"
        "                    last axis on, and an axis of 1, or a missing one, is repeated;\n"
        "                    mask: the first where the second is not 0, else 0\n"
        "  matmul            of two inputs over the last two axes: transpose_a, transpose_b\n"
        "                    (false), scale (1)\n"
        "  reduce_mean, reduce_sum, reduce_max, reduce_min, reduce_norm\n"
        "                    axis: the first (0), axes: how many (1), keep: they remain,\n"
        "                    with size 1 (false)\n"
        "  softmax           over the last axis; log: its logarithm (false)\n"
        "  take              axis (0), index: which elements of it, -1: a zero; taps: how\n"
        "                    many indices make one element (1), weight: their factors (1)\n"
        "  upsample          scale: a number or [height, width]; mode: nearest, or linear or\n"
        "                    bilinear (nearest); as torch.nn.Upsample, align_corners false\n"
        "  pad               padding: a number, [left, right] or [left, right, top, bottom];\n"
        "                    mode: zeros, reflect, replicate (zeros)\n"
        "  scale             factor (1), offset (0)\n"
        "  power             exponent\n"
        "  clip              min (-1), max (1)\n"
        "  elu, celu         alpha (1)\n"
        "  selu              alpha (1.6733), scale (1.0507)\n"
        "  softplus          beta (1)\n"
        "  hardsigmoid       slope (1/6), offset (0.5)\n"
        "  threshold         threshold (0), value: in place of what is not above it (0)\n"
        "  quick_gelu        alpha (1.702)\n"
        "  abs, exp, log, sqrt, reciprocal, square, erf, softsign, mish, hardswish\n\n"
        "An upsample or a pad becomes layers of type take, one for each axis that changes: of\n"
        "two the first is named \"<name>.rows\". Of samples of fewer than three axes they change\n"
        "the last one. `uwasa models FILE.json` prints a model with these layers.\n\n"
        "The input of a layer is the layer above, or the earlier layers or \"input\" that its\n"
        "\"inputs\" name. In two dimensions kernel, stride, padding, dilation and\n"
        "output_padding are a "
        "number or\n[height, width]. Axes do not count the minibatch: 0 is channels, or steps. "
        "\"frozen\": true\nkeeps a layer's parameters as they are.\n\n"
        "The loss is softmax cross-entropy of the last layer. Others: \"loss\", or a list of\n"
        "\"losses\", the first of which is the model's main one, with \"type\" (cross_entropy "
        "and\nbinary_cross_entropy, both of logits, mse, l1, huber), \"layer\" (the last), "
        "\"target\"\n(label; input: the sample itself; values), \"weight\" (1), "
        "\"label_smoothing\" of\ncross_entropy (0) and \"delta\" of huber (1).",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

static int list_one(const struct uw_model_builtin *b, bool json)
{
    struct uw_job job;
    struct uw_error err = {.text = ""};
    const struct uw_job_config config = {
        .model = b->name, .backend = {"auto", UW_BACKEND_AUTO}, .threads = 1,
        .plan = {.batch_n = 1}};
    int rc = uw_job_plan(&job, &config, &err);
    if (rc < 0) {
        uw_job_deinit(&job);
        return uw_cli_error("models", UW_EXIT_FAILED, "%s", err.text);
    }
    uint32_t auxiliary_n = job.need.auxiliary_n;
    uint32_t parameters_n = job.need.parameters_n - auxiliary_n;
    const char *about = job.file.about != NULL ? job.file.about : "";
    double bytes = 4.0 * parameters_n;
    double ram = (double)job.need.total_bytes;
    if (json) {
        printf("{\"name\":\"%s\",\"about\":\"%s\",\"parameters\":%u,\"auxiliary_parameters\":%u,"
               "\"bytes\":%.0f,\"ram_bytes\":%.0f}\n", b->name, about, (unsigned)parameters_n,
               (unsigned)auxiliary_n, bytes, ram);
    } else {
        char a[UW_TEXT_BYTES];
        char c[UW_TEXT_BYTES];
        printf("%-12s %11u %10s %15s  %s\n", b->name, (unsigned)parameters_n,
               uw_text_bytes(bytes, a), uw_text_bytes(ram, c), about);
    }
    if (!json && auxiliary_n != 0) {
        printf("%-12s %11u %38s\n", "", (unsigned)auxiliary_n, "more, in its auxiliary heads");
    }
    uw_job_deinit(&job);
    return UW_EXIT_DONE;
}

/* A file as the program writes it. */
static int print_file(const char *name)
{
    struct uw_model_file m;
    struct uw_error err = {.text = ""};
    int rc = uw_model_load(&m, name, &err);
    int n = rc == UW_OK ? uw_model_write(&m.def, NULL, 0) : rc;
    char *text = n > 0 ? malloc((size_t)n + 1u) : NULL;
    if (text != NULL) {
        uw_model_write(&m.def, text, (size_t)n + 1u);
        fputs(text, stdout);
    } else if (rc == UW_OK) {
        snprintf(err.text, sizeof err.text, "%.80s: out of memory", name);
    }
    free(text);
    uw_model_file_deinit(&m);
    return text != NULL ? UW_EXIT_DONE
                        : uw_cli_error("models", UW_EXIT_FAILED, "%s", err.text);
}

int uw_cmd_models(int argc, char **argv)
{
    struct options o = {.json = false};
    const char *name = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &name);
    if (status >= 0) {
        return status;
    }
    if (name != NULL && uw_args_ends_in(name, ".json")) {
        return print_file(name);
    }
    if (name != NULL) {
        const struct uw_model_builtin *b = uw_model_builtin_find(name);
        if (b == NULL) {
            struct uw_guess g;
            return uw_cli_error("models", UW_EXIT_USAGE, "%s: no built-in model%s", name,
                                uw_model_builtin_hint(&g, name, ", uwasa models lists them"));
        }
        fputs(b->text, stdout);
        return UW_EXIT_DONE;
    }
    if (!o.json) {
        printf("%-12s %11s %10s %15s\n", "model", "parameters", "weights", "RAM at batch 1");
    }
    status = UW_EXIT_DONE;
    for (uint32_t i = 0; i < uw_model_builtins_n && status == UW_EXIT_DONE; i++) {
        status = list_one(&uw_model_builtins[i], o.json);
    }
    return status;
}
