/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - what train, eval, plan and node share: a model, its kernels, threads and memory
 *
 *     uw_job_plan(&job, &config, &err);     reads the model, counts the bytes: job.need
 *     uw_job_bind(&job, &err);              takes exactly job.need.total_bytes, starts threads
 *     uw_job_deinit(&job);
 *
 * Memory     one arena for the model and its minibatch; set-up uses the heap
 * Blocking   reads the model file      Context  one thread
 */
#ifndef UWASA_CLI_JOB_H
#define UWASA_CLI_JOB_H

#include "job_gpu.h"
#include "base/args.h"
#include "model/model_json.h"

#include "uwasa/backends.h"
#include "uwasa/checkpoint.h"
#include "uwasa/convert.h"
#include "uwasa/dataset.h"
#include "uwasa/model.h"
#include "uwasa/storage.h"

struct uw_job_config {
    const char *model;          /* built-in name or file; *.onnx is ONNX */
    struct uw_choice backend;   /* enum uw_backend; CUDA with gpu alone */
    const struct uw_kernels *kernels;   /* instead of those of backend; NULL: none */
    bool exact;                 /* bit for bit the same everywhere, see uwasa/exact.h */
    bool gpu;                   /* one may compute, and auto takes it */
    bool tf32;                  /* what it may round products to */
    bool unseen;                /* --backend cuda without a GPU: a plan in part, see job_gpu.h */
    uint32_t threads;           /* 0: one a core; with a GPU one */
    struct uw_model_config plan;    /* minibatch, mode, optimizer, what else there is to plan; the
                                       job fills in model, kernels, threads and workspace */
};

struct uw_job {
    struct uw_model_file file;
    struct uw_convert_model onnx;   /* what file.def points into when the model is ONNX */
    struct uw_kernels_fitted fitted;    /* what config.kernels may point into */
    struct uw_job_gpu gpu;          /* with gpu.cuda: whose kernels they are */
    bool only_gpu;                  /* never fall back to the CPU: --backend cuda, or --tf32 */
    uint32_t threads_asked;
    struct uw_model_config config;
    struct uw_model_need need;
    struct uw_model model;
    struct uw_workers planned;      /* has the number of threads, runs none */
    struct uw_workers *pool;
    void *workspace;
    void *memory;                   /* with a GPU the GPU's handle owns it */
    struct uw_arena arena;
    struct uw_arena kernel_arena, shared_arena;     /* with a GPU: its own, and what both see */
};

/* Help of --exact in every command that has it. */
#define UW_EXACT_HELP "the same weights, bit for bit, on every processor; slower"

/* Choose kernels by --backend and --exact.
 * Returns UW_OK; UW_ERR_UNSUPPORTED (not in this build or not on this machine, which may not be
 * able to compute exactly at all) or UW_ERR_INVALID (that backend is not exact), err filled. */
int uw_job_kernels(struct uw_choice backend, bool exact, const struct uw_kernels **kernels,
                   struct uw_error *err);

/* Read the model, choose kernels, count bytes. With a GPU j->gpu.note may have a sentence.
 * Returns UW_OK, what uw_model_load, uw_model_measure and uw_job_gpu_open return,
 * UW_ERR_UNSUPPORTED (the backend is not in this build or not on this machine), UW_ERR_NOMEM; err
 * filled. Deinit in every case. */
int uw_job_plan(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err);

/* Count again for a changed copy of j->config. */
int uw_job_measure(const struct uw_job *j, const struct uw_model_config *config,
                   struct uw_model_need *need, struct uw_error *err);

/* Start the threads, take the memory, place the model, seal. Weights are zero. Where a GPU of auto
 * has not enough of it, or fails, the plan becomes the processor's, and j->gpu.note has the
 * reason.
 * Returns UW_OK, UW_ERR_NOMEM or UW_ERR_IO (the GPU failed), err filled. */
int uw_job_bind(struct uw_job *j, struct uw_error *err);

/* Bytes of the GPU's memory that the job takes, or will take: the plan's and the handle's own; 0
 * without a GPU. */
size_t uw_job_device_bytes(const struct uw_job *j);

/* Bytes that a budget is about: the GPU's, as above, of a plan; without one all. */
size_t uw_job_budgeted_bytes(const struct uw_job *j, const struct uw_model_need *need);

/* Fresh weights from the seed; those of an ONNX model are the file's own.
 * Returns UW_OK, or what uw_convert_apply returns, err filled. */
int uw_job_init_weights(struct uw_job *j, uint64_t seed, struct uw_error *err);

/* Is the model an ONNX file? By its name. */
bool uw_job_is_onnx(const char *model);

/* Is the model a classifier? Else its loss compares with the sample itself. */
bool uw_job_has_labels(const struct uw_model_def *d);

/* Do the model's input and classes fit the data, which may lack classes? Call after plan; `spec`
 * names the data. Returns UW_OK, or UW_ERR_MISMATCH with a sentence that gives both shapes, and
 * data that fits. */
int uw_job_check_data(const struct uw_job *j, const struct uw_dataset *data, const char *spec,
                      struct uw_error *err);

/* Why the model's GPU failed, as uw_cuda_failure reports, so that whatever went wrong (a code of
 * the model's, a weight that does not look finite) is because of that; NULL: it has not. Waits for
 * it. NULL without a GPU, and before bind. */
const char *uw_job_gpu_failure(const struct uw_job *j);

/* Release everything. Safe on a zeroed struct and twice. */
void uw_job_deinit(struct uw_job *j);

/* Read weights from a safetensors file into the bound model. Errors as uw_checkpoint_load, err
 * filled. */
int uw_job_load_weights(struct uw_job *j, const char *file, struct uw_error *err);

struct uw_score {
    double accuracy, loss;      /* accuracy 0 when the loss looks at no labels */
    uint64_t samples_n;
    bool labels;                /* the loss looks at labels */
};

/* Accuracy and mean loss over one epoch of `data`, in order. Uses the model's minibatch.
 *
 *   limit  samples at most; 0: all
 *   score  samples_n counts as it goes
 *   stop   asked between minibatches, may be NULL; returns true to give up
 *
 * Returns UW_OK, UW_ERR_AGAIN (stopped), or the dataset's error. */
int uw_job_evaluate(struct uw_job *j, struct uw_dataset *data, uint64_t limit,
                    bool (*stop)(void *), void *arg, struct uw_score *score);

/* "test accuracy 97.25 %  loss 0.0953"; without labels the loss alone. */
#define UW_SCORE_TEXT_BYTES 64u
const char *uw_score_text(const struct uw_score *s, char text[UW_SCORE_TEXT_BYTES]);

/* The same as lines of a result, to standard output. */
void uw_score_print(const struct uw_score *s);

/* May this job go on from a checkpoint, or did one of the two train in exact mode and the other
 * not, or in another order of sums? `option` is what asks for exact mode, "--exact".
 * Returns UW_OK or UW_ERR_MISMATCH, err filled. */
int uw_job_check_exact(const struct uw_job *j, bool exact, const char *option,
                       const struct uw_checkpoint *state, const char *file, struct uw_error *err);

/* Exit status for a result code: mistakes in what the user wrote give UW_EXIT_USAGE. */
int uw_job_exit(int code);

/* What computes, in a line: "avx2", "cuda: NVIDIA Orin". Call after plan. Returns text. */
const char *uw_job_backend_text(const struct uw_job *j, char text[UW_GPU_TEXT_BYTES]);

/* With a GPU add to an event, or a plan, which one; nothing without. */
void uw_job_device_json(const struct uw_job *j, cJSON *ev);

/* Print which GPU computes and how, as lines of a result; nothing without one. */
void uw_job_print_device(const struct uw_job *j);

/* Is there nothing of that name (or no name, NULL), or a file of weights? Anything else, data or a
 * model, is not to be replaced by a checkpoint. Returns UW_OK or UW_ERR_INVALID, err filled. */
int uw_job_guard_save(const char *what, const char *file, struct uw_error *err);

/* Why the storage did not take an object, by what it returned. */
const char *uw_job_why_unsaved(int rc);

/* Find out now, not after hours, whether a file can be written; NULL: there is none to write.
 * `what` names it in the sentence, "--save". Returns UW_OK or a code of the storage, err filled. */
int uw_job_try_save(struct uw_storage *s, const char *what, const char *file,
                    struct uw_error *err);

#endif
