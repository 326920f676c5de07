/* SPDX-License-Identifier: Apache-2.0 */
#include "base/commands.h"
#include "base/open_file.h"
#include "job/job.h"
#include "job/job_columns.h"
#include "job/job_data.h"
#include "job/job_weights.h"
#include "job/results.h"

#include "uwasa/checkpoint.h"
#include "uwasa/storage_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *weights;
    struct uw_job_onnx onnx;
    struct uw_choice loss;              /* enum uw_loss_word */
};

static const struct uw_opt rows[] = {
    {"weights", UW_OPT_TEXT, offsetof(struct options, weights), 0, 0, "FILE",
     "trained weights (an ONNX file has its own): " UW_WEIGHTS_HELP},
    UW_JOB_ONNX_ROWS(struct options),
    UW_OPT_ROW(struct options, "loss", UW_OPT_CHOICES, loss, 0, 0, UW_LOSS_WORDS,
               "of the model that is written, in C and model.json (that of the weights' "
               "training)"),
};

static const struct uw_args_spec spec = {
    .command = "convert",
    .summary = "read a model from ONNX, or write a trained one as ONNX or C source",
    .usage = "IN OUT [--weights FILE]",
    .example = "uwasa convert model.onnx my-model",
    .opts = {rows, sizeof rows / sizeof rows[0]},
    .positional_max = 2,
};

#define EPILOGUE                                                                                \
    "IN is an ONNX file (opset 7 to 28), a model file or a built-in model. OUT ends in .onnx,\n" \
    "or in .c, or is a folder that gets model.json and weights.safetensors, for train:\n\n"      \
    "  uwasa train --model my-model/model.json --weights my-model/weights.safetensors\n\n"       \
    "train, eval and plan also take the ONNX file itself as --model.\n\n"                        \
    "What is kept with the weights goes along: names of classes, scale of columns, how sound\n"  \
    "is heard, threshold of anomalies. In ONNX it is metadata (uwasa.data,\n"                    \
    "uwasa.anomaly_threshold), which predict, eval and train read: the graph itself takes and\n" \
    "gives numbers that are scaled. In C it is NAME_scale, NAME_values, NAME_classes,\n"         \
    "NAME_sound and NAME_anomaly_threshold, declared in the comment in front.\n\n"               \
    "Operators that are read: "

/* A file that is written, and why it could not be. */
struct output {
    struct uw_storage *s;
    int rc, error;              /* error: errno */
};

static int append(void *arg, const void *bytes, size_t bytes_n)
{
    struct output *o = arg;
    o->rc = o->s->ops->append(o->s, bytes, bytes_n);
    o->error = errno;
    return o->rc;
}

static int write_onnx(const struct uw_job *job, uw_convert_put put, void *arg,
                      struct uw_error *err)
{
    return uw_convert_write_onnx_like(&job->model, &job->onnx, put, arg, err);
}

static int write_c(const struct uw_job *job, uw_convert_put put, void *arg, struct uw_error *err)
{
    struct uw_job_columns kept;
    const struct uw_data_columns *c = &kept.columns;
    int rc = uw_job_columns_load(&kept, NULL, &job->onnx, err);
    if (rc == UW_OK) {
        const struct uw_convert_kept constants = {
            .classes = (const char *const *)c->classes, .classes_n = c->classes_n,
            .mean = c->mean, .inverse = c->inverse, .features_n = c->features_n,
            .target_mean = c->target_mean, .target_inverse = c->target_inverse,
            .targets_n = c->targets_n,
            .sound = c->sound};
        rc = uw_convert_write_c_with(&job->model, &constants, put, arg, err);
    }
    uw_job_columns_close(&kept);
    return rc;
}

/* Give the model what is kept with its weights as an entry. *entries: to be freed after the job. */
static int take_kept(struct uw_job *job, const struct uw_job_columns *kept,
                     struct uw_convert_entry **entries, struct uw_error *err)
{
    struct uw_convert_model *onnx = &job->onnx;
    uint32_t n = 0;
    int rc = UW_OK;
    if (kept->columns.features_n != 0) {
        job->columns = uw_job_columns_text(&kept->columns, uw_job_columns_loss(kept));
        *entries = malloc(((size_t)onnx->entries_n + 1u) * sizeof **entries);
        if (job->columns == NULL || *entries == NULL) {
            rc = uw_error_set(err, UW_ERR_NOMEM, "out of memory");
        }
    }
    for (uint32_t i = 0; rc == UW_OK && *entries != NULL && i < onnx->entries_n; i++) {
        if (strcmp(onnx->entry[i].key, UW_CONVERT_DATA) != 0) {
            (*entries)[n++] = onnx->entry[i];
        }
    }
    if (rc == UW_OK && *entries != NULL) {
        (*entries)[n++] = (struct uw_convert_entry){UW_CONVERT_DATA, job->columns};
        onnx->entry = *entries;
        onnx->entries_n = n;
    }
    return rc;
}

/* The loss that the written model is to have. A sigmoid at the end stays. */
static int take_loss(struct uw_job *job, const struct options *o, const struct uw_job_columns *kept,
                     struct uw_error *err)
{
    const struct uw_model_def *d = &job->file.def;
    const struct uw_choice loss = o->loss.at != UW_LOSS_AUTO ? o->loss : kept->loss;
    bool sigmoid = loss.at == UW_LOSS_WORD_BINARY && d->layers_n > 0 &&
                   d->layers[d->layers_n - 1].kind == UW_LAYER_SIGMOID;
    return !sigmoid            ? uw_job_take_loss(job, o->loss, kept, err)
           : job->loss_is_open ? uw_job_settle_loss(job, err)
                               : UW_OK;
}

/* Write one file completely or not at all. `write` NULL: write the text. */
static int write_file(struct uw_storage *s, const char *path, const struct uw_job *job,
                      int (*write)(const struct uw_job *, uw_convert_put, void *,
                                   struct uw_error *),
                      const char *text, struct uw_error *err)
{
    int rc = uw_job_try_save(s, "OUT", path, err);
    rc = rc < 0 ? rc : s->ops->begin(s, path);
    if (rc < 0) {
        return rc;
    }
    struct output o = {.s = s};
    rc = write != NULL ? write(job, append, &o, err) : append(&o, text, strlen(text));
    int ended = s->ops->end(s, rc >= 0);
    if (o.rc < 0 || (rc >= 0 && ended < 0)) {
        rc = o.rc < 0 ? o.rc : ended;
        return uw_error_set(err, rc, "%.180s: cannot be written: %s", path,
                            o.rc < 0 ? strerror(o.error) : uw_job_why_unsaved(rc));
    }
    return rc;
}

static int write_folder(struct uw_storage *s, const char *folder, const struct uw_job *job,
                        struct uw_error *err)
{
    const struct uw_model *m = &job->model;
    char path[4096], weights[4096];
    bool made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST) {
        return uw_error_set(err, UW_ERR_IO, "%.180s: cannot be made: %s", folder,
                            strerror(errno));
    }
    int length = uw_model_write(m->config.def, NULL, 0);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (text == NULL) {
        return length < 0 ? uw_error_set(err, length, "%.80s: no model file has such a layer",
                                         m->config.def->name)
                          : uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    uw_model_write(m->config.def, text, (size_t)length + 1);
    snprintf(path, sizeof path, "%s/model.json", folder);
    snprintf(weights, sizeof weights, "%s/weights.safetensors", folder);
    const struct uw_checkpoint kept = {.data = job->columns};
    int rc = uw_checkpoint_save(m, job->columns != NULL ? &kept : NULL, s, weights, err);
    bool saved = rc >= 0;
    rc = rc < 0 ? rc : write_file(s, path, job, NULL, text, err);
    free(text);
    if (rc < 0 && made) {               /* no half of it */
        if (saved) {
            remove(weights);
        }
        rmdir(folder);
    }
    return rc;
}

static int convert(struct uw_job *job, const char *in, const char *out, const struct options *o,
                   struct uw_convert_entry **entries, struct uw_error *err)
{
    struct uw_storage_file files;
    struct uw_job_columns kept = {.of_model = false};
    const struct uw_job_config config = {
        .model = in, .onnx = o->onnx, .backend = {"ref", UW_BACKEND_REF}, .threads = 1,
        .waits = true, .plan = {.batch_n = 1, .mode = UW_PLAN_INFERENCE}};
    int rc = uw_job_plan(job, &config, err);
    rc = rc < 0 ? rc : uw_job_columns_load(&kept, o->weights, &job->onnx, err);
    rc = rc < 0 ? rc : take_loss(job, o, &kept, err);
    rc = rc < 0 ? rc : uw_job_bind(job, err);
    rc = rc < 0 ? rc : uw_job_init_weights(job, 1, err);
    rc = rc < 0 || o->weights == NULL ? rc : uw_job_load_weights(job, o->weights, err);
    rc = rc < 0 ? rc : take_kept(job, &kept, entries, err);
    uw_job_columns_close(&kept);
    if (rc < 0) {
        return rc;
    }
    rc = uw_storage_file_init(&files, NULL);
    if (rc == UW_OK && uw_args_ends_in(out, ".onnx")) {
        rc = write_file(&files.base, out, job, write_onnx, NULL, err);
    } else if (rc == UW_OK && uw_args_ends_in(out, ".c")) {
        rc = write_file(&files.base, out, job, write_c, NULL, err);
    } else if (rc == UW_OK) {
        rc = write_folder(&files.base, out, job, err);
    }
    uw_storage_file_deinit(&files);
    return rc;
}

static int check_output(const char *in, const char *out, const char *weights,
                        struct uw_error *err)
{
    const struct uw_named_file result = {.flag = "OUT", .file = out};
    const struct uw_named_file read[] = {{.flag = "IN", .file = uw_files_of_model(in)},
                                         {.flag = "--weights", .file = weights}};
    return uw_check_results(&result, 1, read, 2, err);
}

/* Tell which operators at the end are in the file again, and what its outputs mean. */
static void print_ends(const struct uw_job *job, const char *out)
{
    bool scaled = job->columns != NULL && strstr(job->columns, "\"target_mean\"") != NULL;
    bool scales = job->columns != NULL && strstr(job->columns, "\"mean\":") != NULL;
    if (scales && uw_args_ends_in(out, ".onnx")) {
        fprintf(stderr, "%s: its input is scaled: other programs give it (row - mean) * inverse, "
                "in its metadata uwasa.data\n", out);
    } else if (scales && uw_args_ends_in(out, ".c")) {
        fprintf(stderr, "%s: its input is scaled: NAME_scale makes it of a row\n", out);
    }
    if (scaled && uw_args_ends_in(out, ".onnx")) {
        fprintf(stderr, "%s: its outputs are scaled values: an answer is output / target_inverse + "
                "target_mean, in its metadata uwasa.data\n", out);
    } else if (scaled && uw_args_ends_in(out, ".c")) {
        fprintf(stderr, "%s: its outputs are scaled values: NAME_values makes answers of them\n",
                out);
    }
    for (uint32_t i = 0; i < job->onnx.outputs_n && uw_args_ends_in(out, ".onnx"); i++) {
        const struct uw_convert_end *end = &job->onnx.output[i];
        if (end->left_out != NULL) {
            fprintf(stderr, "%s: output '%s' ends in %s again\n", out, end->name, end->left_out);
        }
    }
}

int uw_cmd_convert(int argc, char **argv)
{
    struct options o = {.weights = NULL, .loss = UW_LOSS_DEFAULT};
    const char *name[2] = {NULL, NULL};
    struct uw_error err = {.text = ""};
    struct uw_job job = {.pool = NULL};
    struct uw_convert_entry *entries = NULL;
    struct uw_args_spec with_operators = spec;
    char epilogue[2048];
    snprintf(epilogue, sizeof epilogue, "%s%s.", EPILOGUE, uw_convert_operators());
    with_operators.epilogue = epilogue;
    int status = uw_args_parse(&with_operators, argc, argv, &o, name);
    if (status >= 0) {
        return status;
    }
    if (name[1] == NULL) {
        return uw_cli_error("convert", UW_EXIT_USAGE, "IN and OUT: are needed, see uwasa convert "
                            "--help");
    }
    const char *dot = strrchr(uw_file_name(name[1]), '.');
    if (dot != NULL && dot[1] != '\0' && strcmp(dot, ".onnx") != 0 &&
        strcmp(dot, ".c") != 0) {
        return uw_cli_error("convert", UW_EXIT_USAGE,
                            "%.120s: OUT ends in .onnx or .c, or is a folder without a dot in its "
                            "name", name[1]);
    }
    if (check_output(name[0], name[1], o.weights, &err) < 0) {
        return uw_cli_error("convert", UW_EXIT_USAGE, "%s", err.text);
    }
    if (!uw_job_is_onnx(name[0]) && o.weights == NULL) {
        return uw_cli_error("convert", UW_EXIT_USAGE,
                            "--weights: is needed, %s is a model without weights", name[0]);
    }
    int rc = convert(&job, name[0], name[1], &o, &entries, &err);
    if (rc >= 0) {
        uw_job_print_notes(&job);
        print_ends(&job, name[1]);
        printf("%s: %u layers, %u parameters\n", name[1], (unsigned)job.file.def.layers_n,
               (unsigned)job.need.parameters_n);
    }
    uw_job_deinit(&job);
    free(entries);
    return rc < 0 ? uw_cli_error("convert", uw_job_exit(rc), "%s",
                                 uw_error_sentence(&err, rc))
                  : UW_EXIT_DONE;
}
