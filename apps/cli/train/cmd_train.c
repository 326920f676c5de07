/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"
#include "base/commands.h"
#include "job/results.h"

#include <stdio.h>
#include <string.h>

#define ROW(name, kind, member, min, max, values, help) \
    {name, kind, offsetof(struct uw_train_options, member), min, max, values, help}

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M",
        "built-in name (see uwasa models), ONNX file or JSON file"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "digits, keywords, mnist:DIR, cifar10:DIR, idx:IMAGES,LABELS or csv:FILE (digits)"),
    ROW("augment", UW_OPT_TEXT, augment, 0, 0, "WHAT",
        "flip, crop:N or flip,crop:N: mirror images, move them by up to N pixels"),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "N", "passes over the data (1)"),
    ROW("steps", UW_OPT_U64, steps, 1, 0, "N", "minibatches, instead of epochs"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X",
        "learning rate (0.05; 0.001 with adam, adamw, rmsprop)"),
    UW_RECIPE_ROWS(struct uw_train_options),
    ROW("schedule", UW_OPT_TEXT, schedule, 0, 0, "S",
        "constant, cosine, linear, step:N:F = times F after every N epochs, "
        "multistep:N,M:F, with warmup:STEPS+ in front (constant)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE", "start from these (safetensors)"),
    ROW("save", UW_OPT_TEXT, save, 0, 0, "FILE", "write weights and state there (safetensors)"),
    ROW("save-every", UW_OPT_U64, save_every, 1, 0, "N", "also every N steps (every epoch)"),
    ROW("resume", UW_OPT_FLAG, resume, 0, 0, NULL,
        "go on from --save's file, bit for bit; start afresh when there is none"),
    ROW("eval-samples", UW_OPT_U32, eval_samples, 0, 0, "N",
        "of a test at most, also of the last; 0: all (0)"),
    ROW("no-shuffle", UW_OPT_FLAG, no_shuffle, 0, 0, NULL, "take the samples in order"),
    ROW("threads", UW_OPT_U32, threads, 1, 256, "N", "threads that compute (one a core)"),
    ROW("backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU, UW_BACKENDS_GPU_HELP),
    ROW("tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP),
    ROW("exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP),
    ROW("mode", UW_OPT_CHOICE, recipe.mode, 0, 0, "auto|immediate|buckets|full",
        "immediate: no gradient array (auto)"),
    ROW("spike", UW_OPT_REAL, spike, 1, 0, "X",
        "skip a step whose loss is above X times the average"),
    ROW("profile", UW_OPT_FLAG, profile, 0, 0, NULL, "tell where the time goes, layer by layer"),
    ROW("trace", UW_OPT_TEXT, trace, 0, 0, "FILE",
        "write what happens when, for chrome://tracing or ui.perfetto.dev"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "of weights and shuffle (1)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "train",
    .summary = "train a model on this device",
    .usage = "--model M [--data D] [flags]",
    .example = "uwasa train --model lenet5 --data digits --epochs 2 --save lenet5.safetensors",
    .epilogue =
        "CSV: one sample a line, numbers separated by commas, the label last, a whole number from\n"
        "0. A header is skipped; every sixth line is for testing, or csv:FILE,TESTFILE. The\n"
        "features are the model's input in row-major order, channels first: [N], or any shape of\n"
        "N. Bytes of IDX files and CIFAR-10 are divided by 255.\n"
        "idx:IMAGES,LABELS,TESTIMAGES,TESTLABELS gives a test set; with two files the training\n"
        "samples are the test.\n\n"
        "SIGINT and SIGTERM save and end; the same command with --resume goes on.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

static int check(const struct uw_train_options *o, struct uw_error *err)
{
    const struct uw_named_file results[] = {{"--save", o->save, .goes_on = "--weights"},
                                            {.flag = "--json", .file = o->json},
                                            {.flag = "--trace", .file = o->trace}};
    const struct uw_named_file read[] = {{.flag = "--model",
                                          .file = uw_files_of_model(o->model)},
                                         {.flag = "--data", .file = uw_files_of_data(o->data)},
                                         {.flag = "--weights", .file = o->weights}};
    struct uw_schedule lr;
    bool saves = o->save != NULL;
    char save[160], schedule[80];
    snprintf(save, sizeof save, "save %.120s", saves ? o->save : "");
    snprintf(schedule, sizeof schedule, "schedule %.60s", o->schedule);
    int rc = uw_rules_check(UW_RULES(
        {o->model == NULL, "model", "is needed, uwasa models lists some"},
        {o->steps != 0 && o->epochs != 0, "steps and --epochs", "give one of them"},
        {saves && (uw_args_ends_in(o->save, ".onnx") || uw_args_ends_in(o->save, ".json")), save,
         "holds weights as safetensors, give it another ending; uwasa convert writes models"},
        {o->resume && !saves, "resume", "needs --save FILE to go on from"},
        {o->save_every != 0 && !saves, "save-every", "needs --save FILE"},
        {o->spike != 0.0 && o->recipe.micro_batch != 0, "spike",
         "needs whole minibatches, no --micro-batch"},
        {uw_lr_parse(o->schedule, &lr) < 0, schedule, "needs " UW_LR_ALLOWED}), err);
    return rc < 0 ? rc : uw_check_results(results, 3, read, 3, err);
}

int uw_cmd_train(int argc, char **argv)
{
    struct uw_train_options o = {.data = "digits",
                                 .batch = 32,
                                 .lr = -1.0,
                                 .recipe = UW_RECIPE_DEFAULTS,
                                 .schedule = "constant",
                                 .backend = {"auto", UW_BACKEND_AUTO},
                                 .seed = 1};
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    struct uw_error err = {.text = ""};
    if (status >= 0) {
        return status;
    }
    o.lr = o.lr >= 0.0 ? o.lr : uw_recipe_lr(&o.recipe);
    return check(&o, &err) < 0 ? uw_cli_error("train", UW_EXIT_USAGE, "%s", err.text)
                               : uw_train_run(&o);
}
