/* SPDX-License-Identifier: Apache-2.0 */
#include "job_data.h"

#include "base/open_file.h"

#include "uwasa/backends.h"
#include "uwasa/board.h"
#include "uwasa/exact.h"
#include "uwasa/storage_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int uw_job_kernels(struct uw_choice backend, bool exact, const struct uw_kernels **kernels,
                   struct uw_error *err)
{
    const struct uw_kernels *best = exact ? uw_kernels_exact() : uw_kernels_best();
    *kernels = backend.at == UW_BACKEND_AUTO ? best : uw_kernels_find(backend.word);
    if (*kernels == NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "--backend %s: not in this build or not on this processor",
                            backend.word);
    }
    if (exact && !(*kernels)->exact) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--exact: --backend %s sums in another order; leave it out, or use "
                            "ref", backend.word);
    }
    if (exact && uw_exact_check() < 0) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "--exact: this build or processor does not round as IEEE 754 says");
    }
    return UW_OK;
}

/* Choose the processor's kernels. */
static int choose_here(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err)
{
    const struct uw_caches caches = {uw_board_cache_bytes(1), uw_board_cache_bytes(2),
                                     uw_board_cache_bytes(3)};
    const struct uw_kernels *k;
    int rc = uw_job_kernels(config->backend, config->exact, &k, err);
    if (rc == UW_OK) {
        j->config.kernels = uw_kernels_fit(&j->fitted, k, &caches);
    }
    return rc;
}

static int choose_kernels(struct uw_job *j, const struct uw_job_config *config,
                          struct uw_error *err)
{
    const struct uw_job_gpu_config gpu = {.backend = config->backend, .exact = config->exact,
                                          .tf32 = config->tf32,
                                          .unseen = config->unseen};
    int rc = config->gpu ? uw_job_gpu_open(&j->gpu, &gpu, err) : UW_OK;
    j->only_gpu = config->tf32 || config->backend.at == UW_BACKEND_CUDA;
    if (j->gpu.cuda != NULL) {
        j->config.kernels = uw_cuda_kernels(j->gpu.cuda);
        return rc;
    }
    return rc < 0 ? rc : choose_here(j, config, err);
}

/* A GPU's kernels have threads of their own. */
static uint32_t threads_of(const struct uw_job *j)
{
    return j->threads_asked != 0 ? j->threads_asked : j->gpu.cuda != NULL ? 1u : uw_board_cores();
}

bool uw_job_is_onnx(const char *model)
{
    return uw_args_ends_in(model, ".onnx");
}

static int load(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err)
{
    const char *model = config->model;
    const struct uw_convert_options options = {.output = config->onnx.output,
                                               .shape = config->onnx.shape};
    if (!uw_job_is_onnx(model) && (options.output != NULL || options.shape != NULL)) {
        return uw_error_set(err, UW_ERR_INVALID, "--%s: %.120s is no ONNX file",
                            options.output != NULL ? "output" : "shape", model);
    }
    if (!uw_job_is_onnx(model)) {
        return uw_model_load(&j->file, model, err);
    }
    int rc = uw_convert_load_with(&j->onnx, &options, model, err);
    if (rc == UW_OK) {
        j->file.def = j->onnx.def;
        j->file.json.file = model;
    }
    return rc;
}

int uw_job_init_weights(struct uw_job *j, uint64_t seed, struct uw_error *err)
{
    uw_model_init_weights(&j->model, seed);
    return j->onnx.memory != NULL ? uw_convert_apply(&j->onnx, &j->model, err) : UW_OK;
}

/* Plan for the processor instead of a GPU that has too little memory, no kernel for a
 * layer, or failed. */
static int plan_here(struct uw_job *j, const struct uw_error *why, struct uw_error *err)
{
    char text[UW_ERROR_TEXT_BYTES];
    int n = snprintf(text, sizeof text, "%.150s%s", why->text,
                     why->code == UW_ERR_NOMEM ? "; a smaller minibatch or --budget takes less"
                                               : "");
    if (why->code != UW_ERR_NOMEM && j->only_gpu) {
        snprintf(text + n, sizeof text - (size_t)n, "; --backend %s computes on the processor",
                 uw_job_gpu_else());
    }
    if (j->only_gpu) {
        return why->code == UW_ERR_UNSUPPORTED  /* it names the model */
                   ? uw_error_set(err, UW_ERR_CLOSED, "%s", text)
                   : uw_error_set(err, why->code, "%.60s: %.180s", j->file.def.name, text);
    }
    uw_job_gpu_leave(&j->gpu, text);
    j->memory = NULL;
    int rc = choose_here(j, &(struct uw_job_config){.backend = {"auto", UW_BACKEND_AUTO}}, err);
    j->planned.threads = threads_of(j);
    return rc < 0 ? rc : uw_job_measure(j, &j->config, &j->need, err);
}

/* Count what the model needs; a GPU that has no kernel for a layer is left. */
static int count(struct uw_job *j, const struct uw_model_config *config, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    int rc = uw_job_measure(j, config, &j->need, &why);
    if (rc == UW_ERR_UNSUPPORTED && j->gpu.cuda != NULL) {
        return plan_here(j, &why, err);
    }
    return rc < 0 ? uw_error_set(err, rc, "%s", why.text) : rc;
}

/* Let a loss that any output has stand in until the data decides, and count without a budget. */
static int leave_loss_open(struct uw_job *j, struct uw_error *err)
{
    struct uw_model_config config = j->config;
    config.budget_bytes = 0;
    j->losses[0] = (struct uw_loss_def){.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
    j->file.def.losses = j->losses;
    j->file.def.losses_n = 1;
    j->loss_is_open = true;
    return count(j, &config, err);
}

int uw_job_settle_loss(struct uw_job *j, struct uw_error *err)
{
    j->loss_is_open = false;
    if (j->need.classes == j->need.input_n) {
        j->losses[0].target = UW_TARGET_INPUT;
        return uw_job_measure(j, &j->config, &j->need, err);
    }
    j->file.def.losses = NULL;
    j->file.def.losses_n = 0;
    int rc = uw_job_measure(j, &j->config, &j->need, err);
    if (rc == UW_ERR_SHAPE) {
        j->file.def.losses = j->losses;
        j->file.def.losses_n = 1;
        rc = uw_job_measure(j, &j->config, &j->need, err);
    }
    return rc;
}

int uw_job_plan(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err)
{
    *j = (struct uw_job){.pool = NULL};
    int rc = load(j, config, err);
    if (rc < 0) {
        return rc;
    }
    j->config = config->plan;
    j->config.def = &j->file.def;
    j->config.input = true;
    j->config.kernels = config->kernels;
    rc = config->kernels != NULL ? UW_OK : choose_kernels(j, config, err);
    if (rc < 0) {
        return rc;
    }
    j->threads_asked = config->threads;
    j->planned.threads = threads_of(j);
    j->config.workspace_bytes = UW_MODEL_WORKSPACE_BYTES(j->file.def.layers_n);
    j->workspace = malloc(j->config.workspace_bytes);
    j->config.workspace = j->workspace;
    if (j->workspace == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%s: out of memory", config->model);
    }
    bool says = j->file.def.losses != NULL;
    if (j->onnx.memory == NULL || says) {
        rc = count(j, &j->config, err);
        /* Outputs that are no row of logits may have values, or the sample, as targets. */
        return rc == UW_ERR_SHAPE && config->waits && !says ? leave_loss_open(j, err) : rc;
    }
    rc = leave_loss_open(j, err);
    return rc < 0 || config->waits ? rc : uw_job_settle_loss(j, err);
}

size_t uw_job_budgeted_bytes(const struct uw_job *j, const struct uw_model_need *need)
{
    size_t own = j->gpu.cuda != NULL ? uw_cuda_own_bytes(j->gpu.cuda) : 0;
    return j->gpu.cuda != NULL ? own + need->kernel_bytes + need->shared_bytes
                               : need->total_bytes;
}

size_t uw_job_device_bytes(const struct uw_job *j)
{
    return j->gpu.cuda != NULL ? uw_job_budgeted_bytes(j, &j->need) : 0;
}

/* The budget includes what the GPU's handle itself uses. */
static size_t budget_of(const struct uw_job *j, size_t budget)
{
    size_t own = j->gpu.cuda != NULL ? uw_cuda_own_bytes(j->gpu.cuda) : 0;
    return budget > own || budget == 0 ? budget - (budget != 0 ? own : 0) : 1;
}

int uw_job_measure(const struct uw_job *j, const struct uw_model_config *config,
                   struct uw_model_need *need, struct uw_error *err)
{
    struct uw_workers planned = j->planned;
    struct uw_model_config mine = *config;
    struct uw_error why = {.text = ""};
    mine.workers = &planned;
    mine.budget_bytes = budget_of(j, config->budget_bytes);
    int rc = uw_model_measure(&mine, need, &why);
    size_t least = uw_job_budgeted_bytes(j, need);
    if (rc == UW_ERR_NOMEM && j->gpu.cuda != NULL && config->budget_bytes != 0 &&
        least > config->budget_bytes) {
        return uw_error_set(err, rc, "%.60s: budget of %zu bytes: on the GPU the smallest plan "
                            "takes %zu, %zu of them the kernels' own", j->file.json.file,
                            config->budget_bytes, least, uw_cuda_own_bytes(j->gpu.cuda));
    }
    if (rc < 0) {
        bool tight = rc == UW_ERR_NOMEM && config->budget_bytes != 0;
        return uw_error_set(err, rc, "%.60s: %.180s%s", j->file.json.file,
                            uw_error_sentence(&why, rc),
                            tight ? "; uwasa plan --budget shows what fits" : "");
    }
    return UW_OK;
}

/* Allocate GPU memory for kernels, memory shared with an integrated GPU, and pinned pages for the
 * rest. */
static int allocate_on_gpu(struct uw_job *j, struct uw_error *err)
{
    void *kernels = NULL, *shared = NULL;
    int rc = uw_cuda_take(j->gpu.cuda, UW_CUDA_KERNELS, j->need.kernel_bytes, &kernels, err);
    rc = rc < 0 ? rc : uw_cuda_take(j->gpu.cuda, UW_CUDA_SHARED, j->need.shared_bytes, &shared,
                                    err);
    rc = rc < 0 ? rc : uw_cuda_take(j->gpu.cuda, UW_CUDA_PINNED, j->need.total_bytes, &j->memory,
                                    err);
    if (rc == UW_OK) {
        uw_arena_init_foreign(&j->kernel_arena, kernels, j->need.kernel_bytes);
        uw_arena_init(&j->shared_arena, shared, j->need.shared_bytes);
        j->config.kernel_arena = &j->kernel_arena;
        j->config.shared_arena = &j->shared_arena;
    }
    return rc;
}

/* The memory of the model, wherever it is. */
static int take_memory(struct uw_job *j, struct uw_error *err)
{
    struct uw_error why = {.text = ""};
    if (j->gpu.cuda != NULL) {
        int rc = allocate_on_gpu(j, &why);
        rc = rc < 0 ? plan_here(j, &why, err) : rc;
        if (rc < 0 || j->gpu.cuda != NULL) {
            return rc;
        }
    }
    int rc = uw_board_memory_take(j->need.total_bytes, &j->memory);
    return rc < 0 ? uw_error_set(err, rc,
                                 "%.60s: %zu bytes of memory cannot be allocated; uwasa plan "
                                 "--budget shows what fits",
                                 j->file.def.name, j->need.total_bytes)
                  : UW_OK;
}

int uw_job_bind(struct uw_job *j, struct uw_error *err)
{
    int rc = take_memory(j, err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_board_workers_init(&j->pool, j->planned.threads);
    if (rc < 0) {
        return uw_error_set(err, rc, "--threads %u: the threads could not be started",
                            (unsigned)j->planned.threads);
    }
    j->config.workers = j->pool;
    j->config.budget_bytes = budget_of(j, j->config.budget_bytes);
    uw_arena_init(&j->arena, j->memory, j->need.total_bytes);
    rc = uw_model_bind(&j->model, &j->config, &j->arena, err);
    uw_arena_seal(&j->arena);
    return rc;
}

const char *uw_job_gpu_failure(const struct uw_job *j)
{
    bool bound = j->gpu.cuda != NULL && j->model.exec.kernels != NULL;
    return bound ? uw_cuda_failure(j->gpu.cuda) : NULL;
}

void uw_job_deinit(struct uw_job *j)
{
    uw_board_workers_deinit(&j->pool);
    if (j->gpu.cuda == NULL) {
        uw_board_memory_release(j->memory, j->need.total_bytes);
    }
    uw_job_gpu_close(&j->gpu);
    j->memory = NULL;
    free(j->workspace);
    free(j->columns);
    j->workspace = NULL;
    j->columns = NULL;
    uw_model_file_deinit(&j->file);
    uw_convert_deinit(&j->onnx);
}

const char *uw_job_weights_file(const char *weights, char file[UW_JOB_PATH_BYTES])
{
    static const char loose[] = ",loose";
    size_t n = weights != NULL ? strlen(weights) : 0, tail = sizeof loose - 1;
    if (n <= tail || !uw_args_ends_in(weights, loose) || n - tail >= UW_JOB_PATH_BYTES) {
        return weights;
    }
    memcpy(file, weights, n - tail);
    file[n - tail] = '\0';
    return file;
}

int uw_job_load_weights(struct uw_job *j, const char *file, struct uw_error *err)
{
    struct uw_storage_file files;
    char text[UW_JOB_PATH_BYTES];
    const char *name = uw_job_weights_file(file, text);
    uint64_t bytes;
    int rc = uw_storage_file_init(&files, NULL);
    j->weights = file;
    j->loose = name != file;
    if (rc == UW_OK) {
        rc = uw_checkpoint_load_weights(&j->model, j->loose, &j->found, &files.base, name, err);
    }
    bool misfits = rc == UW_ERR_MISMATCH || rc == UW_ERR_NOTFOUND;
    if (misfits && !j->loose && files.base.ops->size(&files.base, name, &bytes) == UW_OK) {
        struct uw_error why = *err;
        uw_error_set(err, rc, "%.180s; --weights FILE,loose takes what fits", why.text);
    }
    uw_storage_file_deinit(&files);
    return rc;
}

/* "; 3 tensors of the file are ..., the first NAME" */
static void add_found(char *text, size_t *used, const struct uw_weights_tensors *t,
                      const char *what)
{
    if (t->n > 0 && *used < UW_JOB_NOTE_BYTES) {
        *used += (size_t)snprintf(text + *used, UW_JOB_NOTE_BYTES - *used,
                                  "%s%u tensor%s %s (%s%.100s)", *used > 0 ? "; " : "",
                                  (unsigned)t->n, t->n > 1 ? "s" : "", what,
                                  t->n > 1 ? "first: " : "", t->first);
    }
}

const char *uw_job_note(const struct uw_job *j, uint32_t i, char text[UW_JOB_NOTE_BYTES])
{
    const struct uw_weights_report *f = &j->found;
    if (i < j->onnx.notes_n) {
        snprintf(text, UW_JOB_NOTE_BYTES, "%s: %s", j->file.json.file, j->onnx.notes[i]);
        return text;
    }
    if (i > j->onnx.notes_n || j->weights == NULL) {
        return NULL;
    }
    char all[UW_JOB_NOTE_BYTES] = "", widened[48];
    size_t used = 0;
    snprintf(widened, sizeof widened, "of %.7s converted to float32", f->type);
    add_found(all, &used, &f->widened, widened);
    if (j->loose) {
        add_found(all, &used, &f->unknown, "not in the model, left out");
        add_found(all, &used, &f->missing, "not in the file, as at the start");
        add_found(all, &used, &f->reshaped, "of another shape than in the model, as at the start");
    }
    snprintf(text, UW_JOB_NOTE_BYTES, "%.200s: %.430s", j->weights, all);
    return used > 0 ? text : NULL;
}

void uw_job_print_notes(const struct uw_job *j)
{
    char text[UW_JOB_NOTE_BYTES];
    for (uint32_t i = 0; uw_job_note(j, i, text) != NULL; i++) {
        fprintf(stderr, "%s\n", text);
    }
}

/* Whether the model is a classifier, and its loss compares with no values or the sample itself. */
static bool has_labels(const struct uw_job *j)
{
    const struct uw_model_def *d = &j->file.def;
    return d->losses == NULL || d->losses[0].target == UW_TARGET_LABEL || uw_job_is_binary(j);
}

/* The loss and the right answers of one output and two classes, from the logits. */
static int evaluate_binary(struct uw_job *j, uint32_t n, double *loss, uint32_t *correct_n)
{
    struct uw_model *m = &j->model;
    uint32_t most = m->config.micro_n != 0 ? m->config.micro_n : n;
    for (uint32_t first = 0; first < n; first += most) {
        uint32_t part = n - first < most ? n - first : most;
        const float *logits;
        int rc = uw_model_forward(m, m->input + (size_t)first * m->input_n, part, &logits);
        for (uint32_t i = 0; rc == UW_OK && i < part; i++) {
            double z = logits[i], t = m->target[first + i];
            *loss += (z > 0.0 ? z : 0.0) - z * t + log1p(exp(-fabs(z)));
            *correct_n += (z > 0.0) == (t > 0.5);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return UW_OK;
}

static int forward_only(struct uw_job *j, uint32_t n)
{
    struct uw_model *m = &j->model;
    uint32_t most = m->config.micro_n != 0 ? m->config.micro_n : n;
    int rc = UW_OK;
    for (uint32_t first = 0; first < n && rc == UW_OK; first += most) {
        uint32_t part = n - first < most ? n - first : most;
        rc = uw_model_forward(m, m->input + (size_t)first * m->input_n, part, NULL);
    }
    return rc;
}

static int evaluate_part(struct uw_job *j, uint32_t n, double *loss, uint32_t *correct_n)
{
    if (j->compares_nothing) {
        return forward_only(j, n);
    }
    return uw_job_is_binary(j) ? evaluate_binary(j, n, loss, correct_n)
                               : uw_model_evaluate(&j->model, &(struct uw_minibatch){.n = n}, loss,
                                                   correct_n);
}

int uw_job_evaluate(struct uw_job *j, struct uw_dataset *data, uint64_t limit,
                    bool (*stop)(void *), void *arg, struct uw_score *score)
{
    struct uw_loader loader;
    double loss = 0.0;
    uint64_t correct = 0;
    *score = (struct uw_score){.labels = has_labels(j), .none = j->compares_nothing};
    int rc = uw_loader_init(&loader, &(struct uw_loader_config){.dataset = data,
                                                                .batch_n = j->config.batch_n,
                                                                .no_shuffle = true});
    while (rc >= 0 && loader.epoch == 0 && (limit == 0 || score->samples_n < limit)) {
        uint32_t correct_n = 0;
        if (stop != NULL && stop(arg)) {
            return UW_ERR_AGAIN;
        }
        rc = uw_loader_next(&loader, j->model.input, j->model.label,
                            j->compares_nothing ? NULL : uw_job_target(&j->model));
        if (rc > 0) {
            uint64_t left = limit == 0 ? UINT64_MAX : limit - score->samples_n;
            uint32_t n = left < (uint32_t)rc ? (uint32_t)left : (uint32_t)rc;
            score->samples_n += n;
            rc = evaluate_part(j, n, &loss, &correct_n);
            correct += correct_n;
        }
    }
    if (rc < 0) {
        return rc;
    }
    score->accuracy = (double)correct / (double)score->samples_n;
    score->loss = loss / (double)score->samples_n;
    return UW_OK;
}

const char *uw_score_text(const struct uw_score *s, char text[UW_SCORE_TEXT_BYTES])
{
    int n = s->labels ? snprintf(text, UW_SCORE_TEXT_BYTES, "test accuracy %.2f %%  ",
                                 100.0 * s->accuracy)
                      : snprintf(text, UW_SCORE_TEXT_BYTES, "test ");
    snprintf(text + n, UW_SCORE_TEXT_BYTES - (size_t)n, "loss %.4f", s->loss);
    return text;
}

void uw_score_print(const struct uw_score *s)
{
    if (s->labels) {
        printf("test accuracy  %.2f %%\n", 100.0 * s->accuracy);
    }
    if (!s->none) {
        printf("test loss      %.4f\n", s->loss);
    }
}

int uw_job_check_exact(const struct uw_job *j, bool exact, const char *option,
                       const struct uw_checkpoint *state, const char *file, struct uw_error *err)
{
    if (exact && state->exact == 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%s: %.120s was trained without it, so its bits depend on the "
                            "processor; its weights can start a new run", option, file);
    }
    if (!exact && state->exact != 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.120s was trained with %s: give it again; its weights can start a "
                            "new run", file, option);
    }
    if (exact && (state->mode != j->model.config.mode ||
                  state->micro_n != j->model.config.micro_n)) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%s: %.120s was trained with another --mode or --micro-batch, which "
                            "sums in another order", option, file);
    }
    return UW_OK;
}

int uw_job_exit(int code)
{
    switch (code) {
    case UW_ERR_INVALID:
    case UW_ERR_SHAPE:
    case UW_ERR_NOTFOUND:
    case UW_ERR_UNSUPPORTED:
    case UW_ERR_CORRUPT:
    case UW_ERR_MISMATCH:
    case UW_ERR_TOOBIG:
        return UW_EXIT_USAGE;
    default:
        return UW_EXIT_FAILED;
    }
}

const char *uw_job_backend_text(const struct uw_job *j, char text[UW_GPU_TEXT_BYTES])
{
    bool gpu = j->gpu.cuda != NULL;
    snprintf(text, UW_GPU_TEXT_BYTES, "%.31s%s%.63s", j->config.kernels->name, gpu ? ": " : "",
             gpu ? j->gpu.info.name : "");
    return text;
}

void uw_job_device_json(const struct uw_job *j, cJSON *ev)
{
    const struct uw_cuda_info *i = &j->gpu.info;
    char text[UW_GPU_TEXT_BYTES];
    if (j->gpu.cuda == NULL) {
        return;
    }
    cJSON *device = cJSON_AddObjectToObject(ev, "device");
    cJSON_AddStringToObject(device, "name", i->name);
    cJSON_AddStringToObject(device, "driver", uw_job_gpu_driver(&j->gpu, text));
    cJSON_AddStringToObject(device, "cudnn", uw_job_gpu_cudnn(&j->gpu, text));
    cJSON_AddNumberToObject(device, "memory", (double)i->memory_bytes);
    cJSON_AddNumberToObject(ev, "device_bytes", (double)uw_job_device_bytes(j));
    cJSON_AddBoolToObject(ev, "tf32", i->tf32);
}

void uw_job_print_device(const struct uw_job *job)
{
    char text[UW_GPU_TEXT_BYTES];
    if (job->gpu.cuda != NULL) {
        printf("device         %s\n", uw_job_gpu_text(&job->gpu, text));
    }
    if (job->gpu.info.tf32) {
        printf("arithmetic     TF32 products\n");
    }
}

int uw_job_guard_save(const char *what, const char *file, struct uw_error *err)
{
    char head[9];
    FILE *f = file != NULL ? uw_open_file(file, false) : NULL;
    if (f == NULL) {
        return UW_OK;
    }
    size_t n = fread(head, 1, sizeof head, f);
    fclose(f);
    if (n == 0 || (n == sizeof head && head[8] == '{')) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_INVALID,
                        "%s %.160s: exists and holds no weights (safetensors); it is not replaced",
                        what, file);
}

const char *uw_job_why_unsaved(int rc)
{
    return rc == UW_ERR_AGAIN      ? "another process is writing it"
           : rc == UW_ERR_NOTFOUND ? "its folder does not exist"
           : rc == UW_ERR_INVALID  ? "it is not a regular file"
           : rc == UW_ERR_DENIED   ? "permission is missing"
                                   : uw_status_text(rc);
}

int uw_job_try_save(struct uw_storage *s, const char *what, const char *file,
                    struct uw_error *err)
{
    int rc = file != NULL ? s->ops->begin(s, file) : UW_OK;
    if (rc == UW_OK && file != NULL) {
        rc = s->ops->end(s, 0);
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%s %.180s: cannot be written: %s", what, file,
                            uw_job_why_unsaved(rc));
    }
    return UW_OK;
}

/* ---- data that a model takes ---- */

/* Whether two shapes are equal but for axes of 1: [28][28][1] has the numbers of [1][28][28]. */
static bool same_axes(const uint32_t a[3], const uint32_t b[3])
{
    uint32_t x[3] = {1, 1, 1}, y[3] = {1, 1, 1};
    for (uint32_t i = 0, n = 0, k = 0; i < 3; i++) {
        if (a[i] != 1) {
            x[n++] = a[i];
        }
        if (b[i] != 1) {
            y[k++] = b[i];
        }
    }
    return memcmp(x, y, sizeof x) == 0;
}

/* Whether the model takes samples of that shape: as they are, flattened, or row by row. */
static bool takes(const struct uw_job *j, uint32_t channels, uint32_t height, uint32_t width)
{
    const struct uw_model_def *d = &j->file.def;
    uint32_t h = d->in_h != 0 ? d->in_h : 1, w = d->in_w != 0 ? d->in_w : 1;
    const uint32_t mine[3] = {d->in_channels, h, w}, its[3] = {channels, height, width};
    bool same = same_axes(mine, its);
    bool flat = (h == 1 && w == 1) || (height == 1 && width == 1);
    bool sequence = d->in_h == 0 && d->in_w != 0 && channels == 1 && height == d->in_channels &&
                    width == d->in_w;
    return same || sequence || (flat && j->need.input_n == (uint64_t)channels * height * width);
}

/* Data that the model takes, in the form of --data. */
static const char *fitting(const struct uw_job *j, char text[64])
{
    static const struct {
        const char *data;
        uint32_t channels, height, width;
    } known[] = {{"digits or mnist:DIR", 1, 28, 28},
                 {"keywords", 1, 49, 10},
                 {"cifar10:DIR", 3, 32, 32}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (takes(j, known[i].channels, known[i].height, known[i].width)) {
            return known[i].data;
        }
    }
    snprintf(text, 64, "csv:FILE of %llu numbers and a label a line",
             (unsigned long long)j->need.input_n);
    return text;
}

int uw_job_check_data(const struct uw_job *j, const struct uw_dataset *data, const char *spec,
                      struct uw_error *err)
{
    const struct uw_model_def *d = &j->file.def;
    if (!takes(j, data->channels, data->height, data->width)) {
        char text[64];
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s takes %ux%ux%u samples, data %.60s has %ux%ux%u: "
                            "--data %s fits",
                            d->name, (unsigned)d->in_channels,
                            (unsigned)(d->in_h != 0 ? d->in_h : 1),
                            (unsigned)(d->in_w != 0 ? d->in_w : 1), spec,
                            (unsigned)data->channels, (unsigned)data->height,
                            (unsigned)data->width, fitting(j, text));
    }
    bool values = d->losses != NULL && d->losses[0].target == UW_TARGET_VALUES &&
                  !j->compares_nothing;
    if (values && data->targets_n == 0 && j->need.classes != 1) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s: a loss with \"target\": \"values\" needs values "
                            "beside each sample, data %.80s has labels",
                            d->name, spec);
    }
    if (values && data->targets_n != 0 && data->targets_n != j->need.classes) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s computes %u values, data %.60s has %u beside each sample: "
                            "csv:FILE,target=A+B names their columns",
                            d->name, (unsigned)j->need.classes, spec, (unsigned)data->targets_n);
    }
    if (has_labels(j) && !uw_job_is_binary(j) && data->targets_n != 0) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s tells classes apart, data %.60s has values: --loss mse "
                            "trains on them, csv:FILE,label=NAME names a column of classes",
                            d->name, spec);
    }
    if (has_labels(j) && !uw_job_is_binary(j) && j->need.classes < data->classes) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "model %.40s has %u classes, data %.80s has labels up to %u: its last "
                            "layer needs more outputs",
                            d->name, (unsigned)j->need.classes, spec,
                            (unsigned)data->classes - 1u);
    }
    return UW_OK;
}
