/* SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"
#include "base/commands.h"
#include "base/open_file.h"
#include "job/job_weights.h"
#include "job/results.h"

#include "uwasa/board.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(...) UW_OPT_ROW(struct uw_predict_options, __VA_ARGS__)

static const struct uw_opt rows[] = {
    ROW("model", UW_OPT_TEXT, model, 0, 0, "M", "built-in name, ONNX file or JSON file"),
    UW_JOB_ONNX_ROWS(struct uw_predict_options),
    ROW("weights", UW_OPT_TEXT, weights, 0, 0, "FILE",
        "a file of train --save, or any with the same names (an ONNX model has its own): "
        UW_WEIGHTS_HELP "; with --node its names are used, not the scale: the node scales, and "
        "tells its own names"),
    ROW("data", UW_OPT_TEXT, data, 0, 0, "D",
        "in place of rows: the test samples of a dataset, as for train, or all of one without "
        "labels, as npz:new.npz or images:DIR"),
    ROW("loss", UW_OPT_CHOICES, loss, 0, 0, UW_LOSS_WORDS, UW_LOSS_HELP),
    ROW("samples", UW_OPT_U64, samples, 0, 0, "N", "with --data: the first N only; 0: all (0)"),
    ROW("node", UW_OPT_TEXT, node.address, 0, 0, "ADDRESS",
        "in place of --model: ask this node of a run, while it trains"),
    ROW("key", UW_OPT_TEXT, node.key, 0, 0, "FILE", "with --node: key of the run"),
    ROW("run", UW_OPT_TEXT, node.run, 0, 0, "TEXT", "with --node: name of the run"),
    ROW("link", UW_OPT_CHOICE, node.link, 0, 0, "udp|tcp", "with --node: its link (udp)"),
    ROW("no-tls", UW_OPT_FLAG, node.no_tls, 0, 0, NULL,
        "with --node and --link tcp: the run has \"tls\": false"),
    ROW("timeout", UW_OPT_REAL, node.timeout_s, 0.1, 3600, "S",
        "with --node: stop after this time without an answer (5)"),
    ROW("top", UW_OPT_U32, top, 1, 0, "N", "the N most probable classes, not one"),
    ROW("probabilities", UW_OPT_FLAG, probabilities, 0, 0, NULL,
        "also the probability of every class; of masks at each place, in the order of the model's "
        "output, [CLASSES][PLACES] or [PLACES][CLASSES]"),
    ROW("save", UW_OPT_TEXT, save, 0, 0, "FILE.npy",
        "write the answers to an array of NumPy, in place of lines: classes' probabilities, values "
        "or errors, one sample after the other; of masks the classes, or with --probabilities "
        "theirs"),
    ROW("threshold", UW_OPT_REAL, threshold, 0, 0, "X",
        "an autoencoder's error above X is an anomaly (that of the weights, see uwasa train "
        "--anomaly-percentile)"),
    ROW("batch", UW_OPT_U32, batch, 1, 0, "B",
        "samples at a time (32); of a pipe or a terminal always 1"),
    UW_JOB_COMPUTE_ROWS(struct uw_predict_options),
    ROW("seed", UW_OPT_U64, seed, 0, 0, "N", "seed of digits (1)"),
    ROW("json", UW_OPT_TEXT, json, 0, 0, "FILE|-", "write the answers as JSON lines"),
};

static const struct uw_args_spec spec = {
    .command = "predict",
    .summary = "what a trained model says about samples",
    .usage = "--model M --weights FILE [FILE|-] [flags]\n"
             "uwasa predict --node ADDRESS --key FILE --run NAME [FILE|-] [flags]",
    .example = "uwasa predict --model mine.json --weights mine.safetensors rows.csv",
    .epilogue =
        "FILE is a table as for train --data csv:FILE, a sample a line. By the names in its\n"
        "header the features of the training data are found, in any order; without names a line\n"
        "has the features, in row-major order, channels first, or all columns of the training\n"
        "data, the label too, or is JSON as of stream:-. Features are scaled as\n"
        "in training. Without FILE lines of standard input are answered as they arrive. A FILE\n"
        "that ends in .wav is a sample of a model that was trained on sounds:DIR, heard as in\n"
        "training; one in .png, .jpg, .ppm or .pgm is an image.\n\n"
        "A line is printed for each sample, its columns separated by tabs. The model's loss says\n"
        "what they are. cross_entropy, binary_cross_entropy: class and probability (with --top\n"
        "more such pairs, with --probabilities then one number a class). mse, l1, huber: the\n"
        "values; if they were trained on labels, the class and its value. An autoencoder: the\n"
        "error with which it reproduces the sample, and, with a threshold, anomaly or normal.",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 1,
};

/* ---- answers ---- */

/* Answer n samples of the model's input. label NULL: there are none. */
static int answer(struct uw_predict *p, uint32_t n, const uint32_t *label, struct uw_error *err)
{
    struct uw_model *m = &p->job.model;
    const struct uw_answers *a = &p->answers;
    const float *out;
    int rc = n > 0 ? uw_model_forward(m, m->input, n, &out) : UW_OK;
    if (rc < 0) {
        return uw_error_set(err, rc, "sample %llu: %s", (unsigned long long)p->samples + 1,
                            rc == UW_ERR_INVALID ? "a number is none of the indices that the "
                                                   "model's embedding takes"
                                                 : uw_status_text(rc));
    }
    for (size_t i = 0; rc == UW_OK && i < (size_t)n * a->outputs_n; i++) {
        if (!isfinite(out[i])) {
            return uw_error_set(err, UW_ERR_NONFINITE, "sample %llu: an output of the model is NaN "
                                "or infinite: the sample's numbers or the weights are too large",
                                (unsigned long long)(p->samples + i / a->outputs_n + 1));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const float *own = out + (size_t)i * a->outputs_n;
        uw_answers_read(a, own, m->input + (size_t)i * m->input_n, p->numbers);
        if (p->each != NULL) {
            uw_answers_probabilities(a, own, p->each);
        }
        uw_predict_say(p, label != NULL ? &label[i] : NULL);
    }
    return UW_OK;
}

/* Ask the node about the next sample. */
static int ask(struct uw_predict *p, const uint32_t *label, struct uw_error *err)
{
    int rc = uw_predict_node_ask(p->node, p->asked, p->numbers, err);
    if (rc == UW_OK) {
        uw_predict_say(p, label);
    }
    return rc;
}

/* ---- samples ---- */

/* Tell once how the rows are read. */
static void tell_rows(struct uw_predict *p)
{
    if (!p->told && p->rows.note[0] != '\0') {
        uw_progress_print(&p->progress, "%s: %s", p->rows.name, p->rows.note);
    }
    p->told = true;
}

/* Answer the rows; of those before a mistake too. */
static int answer_rows(struct uw_predict *p, struct uw_error *err)
{
    float *x = p->node != NULL ? p->asked : p->job.model.input;
    uint32_t unanswered = 0;
    int more = 1;
    uw_table_rows_expect(&p->rows, p->sample_n, &p->columns.columns);
    while (more > 0 && !p->events.failed) {
        uint32_t n = 0;
        while (n < p->batch_n && more > 0) {
            more = uw_table_rows_next(&p->rows, x + (size_t)n * p->sample_n, err);
            n += more > 0;
            if (more == UW_ERR_CORRUPT && p->rows.arrives &&
                (p->rows.cells_n != 0 || p->rows.json)) {
                uw_progress_print(&p->progress, "WARNING: %s; no answer", err->text);
                unanswered++;
                more = 1;
            }
        }
        if (n > 0) {
            tell_rows(p);
        }
        struct uw_error why = {.text = ""};
        int rc = p->node == NULL ? answer(p, n, NULL, &why) : n > 0 ? ask(p, NULL, &why) : UW_OK;
        if (rc < 0 && more >= 0) {
            *err = why;
            return rc;
        }
        if (fflush(stdout) != 0) {      /* main tells */
            return UW_OK;
        }
    }
    if (more == 0 && p->samples == 0) {
        return uw_error_set(err, UW_ERR_CORRUPT, "%.160s: no row of numbers inside", p->rows.name);
    }
    if (p->rows.gaps_n != 0) {
        uw_progress_print(&p->progress, "%s: %u cells without a number got the mean of the "
                          "training data", p->rows.name, (unsigned)p->rows.gaps_n);
    }
    return more < 0 || unanswered == 0
               ? more : uw_error_set(err, UW_ERR_CORRUPT, "%.160s: %u lines are no rows of numbers "
                                     "and have no answer", p->rows.name, (unsigned)unanswered);
}

static bool is_sound(const char *file)
{
    return file != NULL && (uw_args_ends_in(file, ".wav") || uw_args_ends_in(file, ".WAV"));
}

static bool is_image(const char *file)
{
    static const char *const ends[] = {".png", ".PNG", ".jpg", ".JPG", ".jpeg", ".JPEG", ".ppm",
                                       ".PPM", ".pgm", ".PGM"};
    bool found = false;
    for (size_t i = 0; file != NULL && i < sizeof ends / sizeof ends[0]; i++) {
        found = found || uw_args_ends_in(file, ends[i]);
    }
    return found;
}

static int answer_sound(struct uw_predict *p, const char *file, struct uw_error *err)
{
    const struct uw_sound_config *sound = p->columns.columns.sound;
    float *x = p->node != NULL ? p->asked : p->job.model.input;
    if (sound == NULL) {
        return uw_error_set(err, UW_ERR_MISMATCH, "%.100s: how a sound is heard is not in %.100s, "
                            "which was not trained on sounds:DIR", file,
                            p->o->weights != NULL ? p->o->weights : "the model; --weights FILE has "
                                                                    "it");
    }
    int rc = uw_data_read_sound(sound, file, x, err);
    return rc < 0 ? rc : p->node != NULL ? ask(p, NULL, err) : answer(p, 1, NULL, err);
}

static int answer_data(struct uw_predict *p, struct uw_error *err)
{
    struct uw_loader loader;
    uint32_t one = 0, *label = p->node != NULL ? &one : p->job.model.label;
    bool labelled = uw_data_has_targets(&p->data) && p->data.base->targets_n == 0;
    const uint32_t *beside = labelled ? label : NULL;
    float *x = p->node != NULL ? p->asked : p->job.model.input;
    uint64_t most = p->o->samples != 0 ? p->o->samples : UINT64_MAX;
    int rc = uw_loader_init(&loader, &(struct uw_loader_config){
        .dataset = p->data.base, .batch_n = p->batch_n, .no_shuffle = true});
    while (rc >= 0 && loader.epoch == 0 && p->samples < most && !p->events.failed) {
        rc = uw_loader_next(&loader, x, label, NULL);
        if (rc < 0) {
            return uw_error_set(err, rc, "%.180s: %s", p->o->data, uw_status_text(rc));
        }
        uint64_t left = most - p->samples;
        uint32_t n = left < (uint32_t)rc ? (uint32_t)left : (uint32_t)rc;
        rc = p->node != NULL ? ask(p, beside, err) : answer(p, n, beside, err);
        if (fflush(stdout) != 0) {
            return UW_OK;
        }
    }
    return rc < 0 ? rc : UW_OK;
}

/* ---- the command ---- */

static int open_rows(struct uw_predict *p, const char *file, struct uw_error *err)
{
    bool input = file == NULL || strcmp(file, "-") == 0;
    FILE *f = input ? stdin : uw_open_file(file, false);
    if (f == NULL) {
        int rc = errno == ENOENT ? UW_ERR_NOTFOUND : errno == EACCES ? UW_ERR_DENIED : UW_ERR_IO;
        return uw_error_set(err, rc, "%.160s: %s", file, strerror(errno));
    }
    return uw_table_rows_open(&p->rows, f, input ? "standard input" : file, err);
}

static int open_input(struct uw_predict *p, const char *file, struct uw_error *err)
{
    const struct uw_predict_options *o = p->o;
    p->batch_n = o->node.address != NULL || is_sound(file) ? 1u : o->batch;
    if (is_sound(file) || o->data != NULL) {    /* data after the model, which says how it is */
        return UW_OK;
    }
    int rc = open_rows(p, file, err);
    p->batch_n = p->rows.arrives ? 1u : p->batch_n;
    return rc;
}

/* Take the threshold of --threshold or of the weights, and tell it. */
static void take_threshold(struct uw_predict *p)
{
    bool given = p->o->threshold >= 0.0;
    if (p->answers.kind != UW_ANSWER_ERROR) {
        return;
    }
    p->threshold = given ? (float)p->o->threshold : p->threshold;
    const char *from = p->node != NULL        ? p->o->node.address
                       : p->o->weights != NULL ? p->o->weights
                                               : p->o->model;
    if (p->threshold > 0.0f) {
        uw_progress_print(&p->progress, "anomalies: errors above %.6g, %s", (double)p->threshold,
                          given ? "of --threshold" : from);
    } else {
        uw_progress_print(&p->progress, "%s has no threshold of anomalies: --threshold X gives "
                          "one, uwasa train --anomaly-percentile P saves one", from);
    }
}

/* Open the array of --save, in the shape of the model's output where it has one. */
static int open_array(struct uw_predict *p, struct uw_error *err)
{
    const struct uw_answers *a = &p->answers;
    bool mask = a->kind == UW_ANSWER_MASK, here = p->node == NULL;
    uint32_t dim[UW_AXES_MAX] = {a->numbers_n, 1, 1, 1}, out[UW_AXES_MAX], size = 1;
    uint32_t rank = a->kind == UW_ANSWER_ERROR ? 0 : 1;
    uint32_t axes = here ? uw_model_shape(&p->job.model, p->job.file.def.layers_n - 1u, out) : 0;
    for (uint32_t i = 0; i < axes; i++) {
        size *= out[i];
    }
    bool last = a->loss != NULL && a->loss->classes_last;
    bool shaped = axes > 1 && size == a->outputs_n && (mask || a->numbers_n == size);
    bool whole = p->each != NULL || !mask;
    if (shaped) {
        rank = whole ? axes : axes - 1u;
        memcpy(dim, out + (whole || last ? 0 : 1), rank * sizeof *dim);
    } else if (p->each != NULL) {
        dim[0] = a->outputs_n;
    }
    return uw_predict_array_open(&p->array, p->o->save, dim, rank,
                                 mask && p->each == NULL && a->classes_n <= 256, err);
}

/* What is the same for a model here and a node. */
static int take_answers(struct uw_predict *p, struct uw_predict_options *o, const char *name,
                        struct uw_error *err)
{
    const struct uw_answers *a = &p->answers;
    bool each = a->kind == UW_ANSWER_MASK && o->probabilities && p->node == NULL && o->top < 2;
    if (!uw_predict_has_classes(p) && !each && (o->top > 1 || o->probabilities)) {
        const char *flag = o->top > 1 ? "top" : "probabilities";
        return a->kind == UW_ANSWER_MASK
                   ? uw_error_set(err, UW_ERR_INVALID, "--%s: model %.60s answers with the class "
                                  "of each of %u places%s", flag, name, (unsigned)a->numbers_n,
                                  o->top > 1 ? "; --probabilities has all of them"
                                             : ", a node without their probabilities")
                   : uw_error_set(err, UW_ERR_INVALID, "--%s: model %.60s has no classes", flag,
                                  name);
    }
    if (a->kind != UW_ANSWER_ERROR && o->threshold >= 0.0) {
        return uw_error_set(err, UW_ERR_INVALID, "--threshold: model %.60s is no autoencoder",
                            name);
    }
    take_threshold(p);
    o->top = o->top < a->numbers_n ? o->top : a->numbers_n;
    p->numbers = malloc(a->numbers_n * sizeof *p->numbers);
    p->top = malloc(a->numbers_n * sizeof *p->top);
    p->each = each ? malloc(a->outputs_n * sizeof *p->each) : NULL;
    if (p->numbers == NULL || p->top == NULL || (each && p->each == NULL)) {
        return uw_error_set(err, UW_ERR_NOMEM, "no memory for the answers");
    }
    int rc = o->save != NULL ? open_array(p, err) : UW_OK;
    return rc < 0 ? rc : uw_events_open(&p->events, o->json, UW_EVENTS_TIMELESS, err);
}

/* The weights' columns are the model's. */
static int check_columns(const struct uw_predict *p, const char *model, uint64_t input_n,
                         struct uw_error *err)
{
    uint32_t n = p->columns.columns.features_n;
    return n == 0 || n == input_n
               ? UW_OK
               : uw_error_set(err, UW_ERR_MISMATCH, "%.100s was trained on %u columns, model %.60s "
                              "takes %llu numbers",
                              p->o->weights != NULL ? p->o->weights : model, (unsigned)n, model,
                              (unsigned long long)input_n);
}

/* Bind the model that is here. */
static int open_model(struct uw_predict *p, struct uw_predict_options *o, struct uw_error *err)
{
    const struct uw_job_data_config data = {.spec = o->data, .loss = o->loss,
                                            .weights = o->weights,
                                            .data = {.seed = o->seed, .asks = true}};
    struct uw_data_columns *c = &p->columns.columns;
    uw_job_columns_close(&p->columns);
    int rc = uw_job_columns_load(&p->columns, o->weights, &p->job.onnx, err);
    rc = rc < 0          ? rc
         : o->data != NULL ? uw_job_open_data(&p->job, &data, NULL, &p->data, err)
                           : uw_job_take_loss(&p->job, o->loss, &p->columns, err);
    rc = rc < 0 ? rc : check_columns(p, p->job.file.def.name, p->job.need.input_n, err);
    rc = rc < 0 ? rc : uw_job_bind(&p->job, err);
    uw_job_gpu_log(&p->job.gpu, "predict");
    rc = rc < 0 ? rc : uw_job_init_weights(&p->job, o->seed, err);
    rc = rc < 0 || o->weights == NULL ? rc : uw_job_load_weights(&p->job, o->weights, err);
    if (rc < 0) {
        return rc;
    }
    uw_job_print_notes(&p->job);
    uw_answers_init(&p->answers, &p->job);
    uw_answers_take(&p->answers, c);
    p->sample_n = p->job.model.input_n;
    p->threshold = p->job.model.anomaly_threshold;
    return take_answers(p, o, p->job.file.def.name, err);
}

static int open_node(struct uw_predict *p, struct uw_predict_options *o, struct uw_error *err)
{
    struct uw_data_columns *c = &p->columns.columns;
    int rc = uw_predict_node_open(&p->node, &o->node, &p->answers,
                                  c->features_n == 0 ? &p->columns : NULL, &p->sample_n,
                                  &p->threshold, err);
    p->rows.unscaled = true;    /* the node scales */
    if (rc == UW_OK && o->data != NULL) {
        rc = uw_data_open(&p->data, o->data,
                          &(struct uw_data_config){
                              .seed = o->seed, .test = true, .asks = true, .unscaled = true,
                              .channels = c->sound == NULL ? p->sample_n : 0,
                              .outputs = uw_predict_has_classes(p) ? p->answers.numbers_n : 0,
                              .advice = UW_DATA_ADVISES_NOTHING,
                              .like = c->features_n != 0 ? c : NULL}, err);
    }
    const struct uw_dataset *d = p->data.base;
    if (rc == UW_OK && d != NULL && (uint64_t)d->channels * d->height * d->width != p->sample_n) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "the model of %.60s takes samples of %u numbers, data %.60s has "
                            "%ux%ux%u", o->node.address, (unsigned)p->sample_n, o->data,
                            (unsigned)d->channels, (unsigned)d->height, (unsigned)d->width);
    }
    rc = rc < 0 ? rc : check_columns(p, o->node.address, p->sample_n, err);
    if (rc == UW_OK) {
        p->answers.names = uw_answers_names(&p->answers, &p->columns.columns);
        p->asked = malloc(p->sample_n * sizeof *p->asked);
        rc = p->asked != NULL ? UW_OK : uw_error_set(err, UW_ERR_NOMEM, "no memory for a sample");
    }
    return rc < 0 ? rc : take_answers(p, o, o->node.address, err);
}

static void put_done(struct uw_predict *p, uint64_t start_us)
{
    cJSON *ev = uw_event("done");
    UW_EVENT_NUMBERS(ev, {"samples", (double)p->samples},
                     {"seconds", uw_seconds_since(start_us)},
                     {"arena_bytes", (double)p->job.arena.used_bytes},
                     {"peak_rss_bytes", (double)uw_board_peak_rss_bytes()});
    if (p->node != NULL) {
        cJSON_AddStringToObject(ev, "node", p->o->node.address);
    } else {
        cJSON_AddStringToObject(ev, "backend", p->job.config.kernels->name);
        uw_job_device_json(&p->job, ev);
    }
    uw_events_put(&p->events, ev);
}

static int run(struct uw_predict_options *o, const char *file)
{
    struct uw_predict p = {.o = o};
    struct uw_error err = {.text = ""};
    uint64_t start_us = uw_board_now_us();
    uw_progress_init(&p.progress);
    int rc = uw_job_columns_load(&p.columns, o->weights, NULL, &err);
    rc = rc < 0 ? rc : open_input(&p, file, &err);
    int status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    if (rc == UW_OK && o->node.address == NULL) {
        const struct uw_job_config config = {.model = o->model, .onnx = o->onnx,
                                             .backend = o->backend,
                                             .exact = o->exact, .gpu = true, .tf32 = o->tf32,
                                             .waits = true,
                                             .threads = o->threads,
                                             .plan = {.batch_n = p.batch_n,
                                                      .mode = UW_PLAN_INFERENCE}};
        rc = uw_job_plan(&p.job, &config, &err);
        status = uw_job_exit(rc);
    }
    if (rc == UW_OK) {
        rc = o->node.address != NULL ? open_node(&p, o, &err) : open_model(&p, o, &err);
        status = rc == UW_ERR_INVALID ? UW_EXIT_USAGE : UW_EXIT_FAILED;
    }
    rc = rc < 0 ? rc : o->data != NULL ? answer_data(&p, &err)
         : is_sound(file) ? answer_sound(&p, file, &err) : answer_rows(&p, &err);
    if (rc == UW_OK) {
        put_done(&p, start_us);
        rc = uw_events_close(&p.events, &err);
        rc = rc < 0 ? rc : uw_predict_array_close(&p.array, &err);
    }
    const char *why = rc < 0 ? uw_job_gpu_failure(&p.job) : NULL;
    if (why != NULL) {
        uw_job_gpu_error(&err, why, "answers");
    }
    uw_events_close(&p.events, NULL);
    uw_predict_array_close(&p.array, NULL);
    uw_table_rows_close(&p.rows);
    uw_data_close(&p.data);
    uw_job_columns_close(&p.columns);
    uw_job_deinit(&p.job);
    uw_predict_node_close(p.node);
    free(p.asked);
    free(p.numbers);
    free(p.each);
    free(p.top);
    return rc < 0 ? uw_cli_error("predict", status, "%s", uw_error_sentence(&err, rc))
                  : UW_EXIT_DONE;
}

static int check(const struct uw_predict_options *o, const char *file, struct uw_error *err)
{
    const struct uw_named_file results[] = {{.flag = "--json", .file = o->json},
                                            {.flag = "--save", .file = o->save}};
    const struct uw_named_file read[] = {{.flag = "--model",
                                          .file = uw_files_of_model(o->model)},
                                         {.flag = "--data", .file = uw_files_of_data(o->data)},
                                         {.flag = "--weights", .file = o->weights},
                                         {.flag = "--key", .file = o->node.key},
                                         {.flag = "FILE", .file = file}};
    bool node = o->node.address != NULL;
    int rc = uw_rules_check(UW_RULES(
        {node && o->model != NULL, "node", "has its model, leave --model out"},
        {!node && o->model == NULL, "model", "is needed, see uwasa predict --help"},
        {!node && (o->node.key != NULL || o->node.run != NULL || o->node.no_tls), "node",
         "is needed with --key, --run and --no-tls"},
        {!node && o->model != NULL && o->weights == NULL && !uw_job_is_onnx(o->model), "weights",
         "is needed, see uwasa predict --help"},
        {o->data != NULL && file != NULL, "data", "has the samples, leave FILE out"},
        {o->save != NULL && !uw_args_ends_in(o->save, ".npy"), "save",
         "writes an array of NumPy, FILE.npy"},
        {o->samples != 0 && o->data == NULL, "samples", "needs --data D"}), err);
    rc = rc < 0 || !node ? rc : uw_predict_node_check(&o->node, err);
    return rc < 0 ? rc : uw_check_results(results, 2, read, 5, err);
}

int uw_cmd_predict(int argc, char **argv)
{
    struct uw_predict_options o = {.backend = {"auto", UW_BACKEND_AUTO}, .batch = 32, .top = 1,
                                   .seed = 1, .threshold = -1.0, .loss = UW_LOSS_DEFAULT,
                                   .node = {.link = {"udp", 0}, .timeout_s = 5.0}};
    struct uw_error err = {.text = ""};
    const char *file = NULL;
    int status = uw_args_parse(&spec, argc, argv, &o, &file);
    if (status >= 0) {
        return status;
    }
    if (check(&o, file, &err) < 0) {
        return uw_cli_error("predict", UW_EXIT_USAGE, "%s", err.text);
    }
    char image[1200];
    if (is_image(file)) {
        snprintf(image, sizeof image, "images:%.1100s", file);
        o.data = image;
        file = NULL;
    }
    return run(&o, file);
}
