/* SPDX-License-Identifier: Apache-2.0 */
#include "profile_view.h"
#include "train.h"
#include "base/commands.h"
#include "job/job_weights.h"
#include "job/results.h"

#include "uwasa/board.h"
#include "uwasa/describe.h"

#include <stdio.h>
#include <string.h>

/* ---- the run ---- */

/* A failed GPU replaces the errors that follow from it as the reported cause. */
static void name_failed_gpu(struct uw_train *t)
{
    const struct uw_train_options *o = t->o;
    char when[48] = "before the first step";
    const char *why = uw_job_gpu_failure(&t->job);
    if (why == NULL) {
        return;
    }
    if (t->begun > t->first_step) {
        snprintf(when, sizeof when, "after step %llu", (unsigned long long)t->step);
    }
    if (o->save != NULL && uw_train_is_saved(t)) {
        uw_error_set(&t->err, UW_ERR_IO,
                     "the GPU failed %s (%.95s); the same command with --resume continues from "
                     "%.60s, with --backend %s on the processor",
                     when, why, o->save, uw_job_gpu_else());
    } else {
        uw_error_set(&t->err, UW_ERR_IO,
                     "the GPU failed %s (%.95s), and nothing was saved; --backend %s trains "
                     "on the processor",
                     when, why, uw_job_gpu_else());
    }
}

/* If training ended because events could not be written, add where to their error. */
static void add_stop(struct uw_train *t)
{
    const struct uw_error why = t->err;
    uw_error_set(&t->err, why.code, "%.200s; stopped at step %llu%s", why.text,
                 (unsigned long long)t->step,
                 t->o->save != NULL ? ", saved; --resume continues" : "");
}

static int run(const struct uw_train_options *o)
{
    struct uw_train t = {.o = o, .start_us = uw_board_now_us()};
    int status;
    uw_progress_init(&t.progress);
    uw_stop_init(&t.stop);
    int rc = uw_train_open(&t, &status);
    if (rc == UW_OK) {
        status = UW_EXIT_FAILED;
        rc = uw_train_run(&t);
    }
    if (rc == UW_OK) {
        if (o->profile) {
            uw_profile_report(&t.job.model, t.samples, &t.events);
        }
        bool untold = t.events.failed;
        uw_train_report_done(&t);
        rc = uw_events_close(&t.events, &t.err);
        if (untold) {
            add_stop(&t);
        }
        rc = rc < 0 ? rc : uw_trace_close(&t.trace, &t.err);
    }
    uw_progress_clear(&t.progress);
    if (rc < 0) {
        name_failed_gpu(&t);
        uw_cli_error("train", status, "%s", uw_error_sentence(&t.err, rc));
    } else {
        status = t.interrupted ? uw_train_report_interrupted(&t) : UW_EXIT_DONE;
    }
    uw_train_close(&t);
    uw_job_deinit(&t.job);
    return (int)status;
}

/* ---- the command ---- */

#define ROW(...) UW_OPT_ROW(struct uw_train_options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M",
        "built-in name (see uwasa models), ONNX file or JSON file"),
    UW_JOB_ONNX_ROWS(struct uw_train_options),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "digits, keywords, mnist:DIR, fashion-mnist:DIR, kmnist:DIR, emnist-letters:DIR, "
        "cifar10:DIR, idx:IMAGES,LABELS, csv:FILE, npy:X,Y, npz:FILE, images:DIR, "
        "sounds:DIR, stream:- or mqtt://HOST/TOPIC (digits)"),
    ROW("augment", UW_OPT_TEXT, augment, 0, 0, "WHAT",
        "flip, crop:N or flip,crop:N: mirror images, move them by up to N pixels"),
    ROW("loss", UW_OPT_CHOICES, loss, 0, 0, UW_LOSS_WORDS, UW_LOSS_HELP),
    ROW("epochs", UW_OPT_U32, epochs, 1, 0, "N", "passes over the data (1)"),
    ROW("steps", UW_OPT_U64, steps, 1, 0, "N", "number of minibatches, instead of epochs"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B", "samples in a minibatch (32)"),
    ROW("lr", UW_OPT_REAL, lr, 0, 0, "X",
        "learning rate (0.05; 0.001 with adam, adamw, rmsprop)"),
    UW_RECIPE_ROWS(struct uw_train_options),
    ROW("schedule", UW_OPT_TEXT, schedule, 0, 0, "S",
        "constant, cosine, linear, step:N:F = times F after every N epochs, "
        "multistep:N,M:F, with warmup:STEPS+ in front (constant)"),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE", "initial weights: " UW_WEIGHTS_HELP),
    ROW("save", UW_OPT_TEXT, save, 0, 0, "FILE",
        "write weights and training state to this file (safetensors)"),
    ROW("save-every", UW_OPT_U64, save_every, 1, 0, "N", "also save every N steps (every epoch)"),
    ROW("resume", UW_OPT_FLAG, resume, 0, 0, NULL,
        "resume from the file of --save, bit for bit; start from the beginning where there is "
        "none"),
    ROW("validation", UW_OPT_REAL, validation, 0.001, 0.9, "SHARE",
        "part of the training set to test with after each epoch, not trained on; without it the "
        "test set is used"),
    ROW("patience", UW_OPT_U32, patience, 1, 0, "N",
        "stop after N tests in a row without a smaller loss than the best"),
    ROW("keep", UW_OPT_CHOICE, keep, 0, 0, "last|best",
        "weights at the end: of the last step, or of the test with the smallest loss (last)"),
    ROW("class-weights", UW_OPT_TEXT, class_weights, 0, 0, "W",
        "samples count by class, as in PyTorch's CrossEntropyLoss: balanced, or a number for each "
        "class, 1,2.5,0.5; on the processor"),
    ROW("anomaly-percentile", UW_OPT_REAL, anomaly_percentile, 0, 100, "P",
        "of an autoencoder: at the end, set the threshold of anomalies to this percentile of its "
        "errors on the validation set, or on the training set"),
    ROW("eval-samples", UW_OPT_U32, eval_samples, 0, 0, "N",
        "largest number of samples in a test, also in the last; 0: all (0)"),
    ROW("no-shuffle", UW_OPT_FLAG, no_shuffle, 0, 0, NULL, "use the samples in order"),
    UW_JOB_COMPUTE_ROWS(struct uw_train_options),
    ROW("mode", UW_OPT_CHOICE, recipe.mode, 0, 0, "auto|immediate|buckets|full",
        "immediate: no gradient array (auto)"),
    ROW("spike", UW_OPT_REAL, spike, 1, 0, "X",
        "skip a step whose loss is above X times the average"),
    ROW("profile", UW_OPT_FLAG, profile, 0, 0, NULL, "report where the time goes, layer by layer"),
    ROW("trace", UW_OPT_TEXT, trace, 0, 0, "FILE",
        "write a timeline for chrome://tracing or ui.perfetto.dev"),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "seed of weights and shuffle (1)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write events as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "train",
    .summary = "train a model on this device",
    .usage = "--model M [--data D] [flags]",
    .example = "uwasa train --model lenet5 --data digits --epochs 2 --save lenet5.safetensors",
    .epilogue =
        "CSV: one sample a line; delimiter, header, label and classes are found and told.\n"
        "csv:FILE,TESTFILE,OPTION=VALUE,... says otherwise: label=last|first|NAME|N|none,\n"
        "target=NAME+NAME (values), labels=FILE, classes=A+B+C, drop=NAME, scale=255|standard,\n"
        "target-scale=none|standard|N (of values; N divides), test=FILE|SHARE, missing=mean|drop,\n"
        "delimiter=C, skip=N. The features are the model's input in row-major order, channels\n"
        "first: [N], or any shape of N. Bytes of IDX files and CIFAR-10 are divided by 255.\n"
        "Values far from 1 are learned with mean 0 and deviation 1 where nothing else is said;\n"
        "losses are then of scaled values, answers in the table's units. A model that has weights\n"
        "learns them as they are.\n"
        "npy:X,Y and npz:FILE are arrays of NumPy, samples in front; npz:FILE,x=A,y=B names them.\n"
        "images:DIR has a folder for each class, with PNG or JPEG files, brought to the model's\n"
        "size; DIR/train and DIR/test, or a share of the images, are training and test set.\n"
        "sounds:DIR is the same with WAV files of one rate, PCM or floats, heard as the model's\n"
        "frames of log-mel energies, or of mfcc where a frame has fewer than 20: window=30 and\n"
        "hop=20 ms, mels=N, mfcc=N, low=HZ, high=HZ. testing_list.txt and validation_list.txt are\n"
        "used; with classes=A+B+_silence_+_unknown_ other words and noise are classes.\n"
        "idx:IMAGES,LABELS,TESTIMAGES,TESTLABELS names a test set; with two files the test uses\n"
        "the training samples.\n\n"
        "stream:- (standard input), stream:unix:PATH and stream:tcp:127.0.0.1:PORT are samples\n"
        "that arrive while training runs: lines of CSV, or {\"x\": [0.5, 1], \"label\": 0}.\n"
        "Training waits for the first. Up to 4096 are kept, equally many of each class\n"
        "(stream:-,keep=N), an epoch is 1000 draws (epoch=N), every sixth is for the test.\n"
        "They are scaled as --weights were trained, or divided (scale=255, target-scale=N of a\n"
        "value); labels are words with those weights, or with classes=A+B+... By the names of\n"
        "those weights a header, or JSON as {\"load\": 3, \"state\": \"ok\"}, finds columns; a\n"
        "new model takes those of the first line, with label=NAME, target=NAME+..., drop=NAME+...\n"
        "mqtt://[USER@]HOST[:PORT]/TOPIC is the same for the messages of a broker; mqtts:// with\n"
        "TLS. password=FILE, ca=FILE, cert=FILE and key=FILE are options of both.\n\n"
        "SIGINT and SIGTERM save and stop; the same command with --resume continues.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
};

struct uw_train_options uw_train_defaults(void)
{
    return (struct uw_train_options){
        .data = "digits",
        .batch = 32,
        .lr = -1.0,
        .recipe = UW_RECIPE_DEFAULTS,
        .schedule = "constant",
        .backend = {"auto", UW_BACKEND_AUTO},
        .loss = UW_LOSS_DEFAULT,
        .keep = {"last", UW_TRAIN_KEEP_LAST},
        .anomaly_percentile = -1.0,
        .seed = 1};
}

int uw_train_set(struct uw_train_options *o, const char *key, const char *value,
                 struct uw_error *err)
{
    const struct uw_opt_given given = {.key = key, .value = value, .flag = true};
    return uw_opt_assign(spec.opts, &given, o, err);
}

int uw_train_check(struct uw_train_options *o, struct uw_error *err)
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
    o->lr = o->lr >= 0.0 ? o->lr : uw_recipe_lr(&o->recipe);
    int rc = uw_rules_check(UW_RULES(
        {o->model == NULL, "model", "is needed, uwasa models lists some"},
        {o->steps != 0 && o->epochs != 0, "steps and --epochs", "give one of them"},
        {saves && (uw_args_ends_in(o->save, ".onnx") || uw_args_ends_in(o->save, ".json")), save,
         "holds weights as safetensors, give it another ending; uwasa convert writes models"},
        {o->resume && !saves, "resume", "needs --save FILE to go on from"},
        {o->save_every != 0 && !saves, "save-every", "needs --save FILE"},
        {o->spike != 0.0 && o->recipe.micro_batch != 0, "spike",
         "needs whole minibatches, no --micro-batch"},
        {o->validation != 0.0 && uw_data_is_live(o->data), "validation",
         "is for data that is there, a stream tests with every sixth sample"},
        {o->class_weights != NULL && o->backend.at == UW_BACKEND_CUDA, "class-weights",
         "are computed on the processor, leave --backend cuda out"},
        {uw_lr_parse(o->schedule, &lr) < 0, schedule, "needs " UW_LR_ALLOWED}), err);
    return rc < 0 ? rc : uw_check_results(results, 3, read, 3, err);
}

int uw_cmd_train(int argc, char **argv)
{
    struct uw_train_options o = uw_train_defaults();
    int status = uw_args_parse(&spec, argc, argv, &o, NULL);
    struct uw_error err = {.text = ""};
    if (status >= 0) {
        return status;
    }
    return uw_train_check(&o, &err) < 0 ? uw_cli_error("train", UW_EXIT_USAGE, "%s", err.text)
                                        : run(&o);
}
