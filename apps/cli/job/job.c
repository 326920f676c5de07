/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "uwasa/backends.h"
#include "uwasa/board.h"
#include "uwasa/exact.h"

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
    uw_kernels_enter(*kernels);
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

int uw_job_read(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err)
{
    *j = (struct uw_job){.listener = config->listener};
    if (config->of != NULL) {
        j->file = config->of->file;
        j->onnx = config->of->onnx;
        j->borrows = true;
        return UW_OK;
    }
    const char *model = config->model;
    const struct uw_job_onnx *o = &config->onnx;
    const struct uw_convert_options options = {.output = o->output, .shape = o->shape,
                                               .constant = o->constant, .trained = o->trained,
                                               .unfused = o->unfused};
    const char *given = o->output != NULL     ? "output"
                        : o->shape != NULL    ? "shape"
                        : o->constant != NULL ? "constant"
                        : o->trained != NULL  ? "trained"
                        : o->unfused          ? "unfused"
                                              : NULL;
    if (!uw_job_is_onnx(model) && given != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "--%s: %.120s is no ONNX file", given, model);
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

/* Whether the model file asks for no more than cross-entropy against labels. */
static bool says_cross_entropy(const struct uw_job *j)
{
    const struct uw_loss_def *l = j->file.def.losses;
    return j->onnx.memory == NULL && l != NULL && j->file.def.losses_n == 1 && l->layer == NULL &&
           l->kind == UW_LOSS_CROSS_ENTROPY && l->target == UW_TARGET_LABEL;
}

/* Let a loss that any output has stand in until the data decides, and count without a budget. */
static int leave_loss_open(struct uw_job *j, struct uw_error *err)
{
    struct uw_model_config config = j->config;
    config.budget_bytes = 0;
    if (j->onnx.outputs_n <= 1) {
        j->losses[0] = (struct uw_loss_def){.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
        j->file.def.losses = j->losses;
        j->file.def.losses_n = 1;
    }
    j->loss_is_open = true;
    return count(j, &config, err);
}

bool uw_job_ends_in_softmax(const struct uw_job *j)
{
    const char *end = j->onnx.outputs_n == 1 ? j->onnx.output[0].left_out : NULL;
    return end != NULL && strcmp(end, "Sigmoid") != 0;
}

int uw_job_settle_loss(struct uw_job *j, struct uw_error *err)
{
    j->loss_is_open = false;
    if (j->onnx.outputs_n > 1) {
        return uw_job_measure(j, &j->config, &j->need, err);
    }
    if (j->need.classes == j->need.input_n && !uw_job_ends_in_softmax(j)) {
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
    int rc = uw_job_read(j, config, err);
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
    bool each = j->onnx.outputs_n > 1 && config->onnx.output != NULL;
    bool says = j->file.def.losses != NULL && !each;
    if (j->onnx.memory == NULL || says) {
        rc = count(j, &j->config, err);
        bool classes = says_cross_entropy(j);
        if (rc != UW_ERR_SHAPE || !config->waits || (says && !classes)) {
            return rc;
        }
        /* Outputs that are no row of logits may have values, the sample, or a class for each place
         * as targets. */
        j->says_classes = classes;
        j->smoothing = classes ? j->file.def.losses->label_smoothing : 0.0f;
        return leave_loss_open(j, err);
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
    if (!j->borrows) {
        uw_model_file_deinit(&j->file);
        uw_convert_deinit(&j->onnx);
    }
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
