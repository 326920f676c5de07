/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - a model with its kernels, threads and memory, for train, eval, plan and node
 *
 *     uw_job_plan(&job, &config, &err);     reads the model, counts the bytes: job.need
 *     uw_job_bind(&job, &err);              allocates job.need.total_bytes, starts threads
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

/* What an ONNX file may leave open, see uwasa/convert.h. */
struct uw_job_onnx {
    const char *output, *shape; /* NULL: not given */
};

/* Rows for a struct `options` with a member struct uw_job_onnx onnx. */
#define UW_JOB_ONNX_ROWS(options)                                                                 \
    UW_OPT_ROW(options, "output", UW_OPT_TEXT, onnx.output, 0, 0, "NAME",                         \
               "of an ONNX file: the output that is trained, the others are left out (all)"),     \
    UW_OPT_ROW(options, "shape", UW_OPT_TEXT, onnx.shape, 0, 0, "S",                              \
               "of an ONNX file: sizes of the input that it leaves open, NAME=SIZE,.. or all of " \
               "them, 1,128,64")

/* Help of --weights. */
#define UW_WEIGHTS_HELP                                                                           \
    "safetensors, F32, F16, BF16 or F64; FILE,loose takes what fits and leaves the rest as it is"

struct uw_job_config {
    const char *model;          /* built-in name or file; *.onnx is ONNX */
    struct uw_job_onnx onnx;
    struct uw_choice backend;   /* enum uw_backend; UW_BACKEND_CUDA only with gpu */
    const struct uw_kernels *kernels;   /* used instead of backend's; NULL: none */
    bool exact;                 /* bit for bit the same everywhere, see uwasa/exact.h */
    bool gpu;                   /* a GPU is allowed, and "auto" uses it */
    bool tf32;                  /* a GPU may round products to TF32 */
    bool waits;                 /* a loss that the model's file does not say waits for the data:
                                   uw_job_fit */
    bool unseen;                /* --backend cuda without a GPU: a partial plan, see job_gpu.h */
    uint32_t threads;           /* 0: one per core, or one with a GPU */
    struct uw_model_config plan;    /* minibatch, mode, optimizer and so on; the job fills in
                                       model, kernels, threads and workspace */
};

struct uw_job {
    struct uw_model_file file;
    struct uw_convert_model onnx;   /* an ONNX model: file.def points into it */
    const char *weights;            /* the file that was loaded last, and what it was like */
    bool loose;
    struct uw_weights_report found;
    struct uw_loss_def losses[UW_LOSSES_MAX];   /* file.def.losses, where the file has none */
    bool loss_is_open;              /* they stand in for what the data decides */
    bool compares_nothing;          /* --loss none */
    bool drops_sigmoid;             /* file.def lacks the last layer */
    char *columns;                  /* of the training data, for uw_checkpoint.data; NULL: none */
    char loss_note[240];            /* what the loss was taken to be; "": nothing to tell */
    struct uw_kernels_fitted fitted;    /* config.kernels may point into it */
    struct uw_job_gpu gpu;          /* gpu.cuda not NULL: kernels are for this GPU */
    bool only_gpu;                  /* never fall back to the CPU: --backend cuda, or --tf32 */
    uint32_t threads_asked;
    struct uw_model_config config;
    struct uw_model_need need;
    struct uw_model model;
    struct uw_workers planned;      /* only tells the number of threads */
    struct uw_workers *pool;
    void *workspace;
    void *memory;                   /* with a GPU, owned by the GPU's handle */
    struct uw_arena arena;
    struct uw_arena kernel_arena, shared_arena;     /* with a GPU: its own memory, and shared */
};

/* Help of --exact in every command that has it. */
#define UW_EXACT_HELP "the same weights, bit for bit, on every processor; slower"

/* Choose kernels by --backend and --exact.
 * Returns UW_OK; UW_ERR_UNSUPPORTED (not in this build or on this machine, or the machine cannot
 * compute exactly) or UW_ERR_INVALID (that backend is not exact), err filled. */
int uw_job_kernels(struct uw_choice backend, bool exact, const struct uw_kernels **kernels,
                   struct uw_error *err);

/* Read the model, choose kernels, count bytes. May set j->gpu.note.
 * Returns UW_OK, an error of uw_model_load, uw_model_measure or uw_job_gpu_open,
 * UW_ERR_UNSUPPORTED (the backend is not in this build or not on this machine), UW_ERR_NOMEM; err
 * filled. Deinit in every case. */
int uw_job_plan(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err);

/* Without data, decide the loss of an ONNX model that waits: an autoencoder if the output has the
 * input's size, else labels, and values where the output is no row of logits. Counts again.
 * Returns what uw_job_measure returns. */
int uw_job_settle_loss(struct uw_job *j, struct uw_error *err);

/* Count again for a changed copy of j->config. */
int uw_job_measure(const struct uw_job *j, const struct uw_model_config *config,
                   struct uw_model_need *need, struct uw_error *err);

/* Start the threads, allocate the memory, bind the model, seal. Weights are zero. If a GPU chosen
 * by "auto" has too little memory or fails, the job continues on the processor and j->gpu.note has
 * the reason.
 * Returns UW_OK, UW_ERR_NOMEM or UW_ERR_IO (the GPU failed), err filled. */
int uw_job_bind(struct uw_job *j, struct uw_error *err);

/* Bytes of GPU memory that the job uses or will use: the plan's and the handle's own; 0 without a
 * GPU. */
size_t uw_job_device_bytes(const struct uw_job *j);

/* Bytes of a plan that a budget limits: those on the GPU, as above; without a GPU all. */
size_t uw_job_budgeted_bytes(const struct uw_job *j, const struct uw_model_need *need);

/* Initialise weights from the seed, or from the file of an ONNX model.
 * Returns UW_OK, or an error of uw_convert_apply, err filled. */
int uw_job_init_weights(struct uw_job *j, uint64_t seed, struct uw_error *err);

/* Whether the model's name is that of an ONNX file. */
bool uw_job_is_onnx(const char *model);

/* Check that the model's input and classes fit the data, which may lack classes. Call after plan;
 * `spec` names the data. Returns UW_OK, or UW_ERR_MISMATCH with a sentence that gives both shapes
 * and data that would fit. */
int uw_job_check_data(const struct uw_job *j, const struct uw_dataset *data, const char *spec,
                      struct uw_error *err);

/* Why the model's GPU failed (uw_cuda_failure); NULL: it did not. Such a failure also explains
 * other errors, such as a code of the model or a weight that looks infinite. Waits for the GPU.
 * NULL without a GPU and before bind. */
const char *uw_job_gpu_failure(const struct uw_job *j);

/* Release everything. Safe on a zeroed struct and twice. */
void uw_job_deinit(struct uw_job *j);

/* Read weights from a safetensors file into the bound model; "FILE,loose": only what fits, and the
 * rest stays as it is. Errors as uw_checkpoint_load_weights, err filled. */
int uw_job_load_weights(struct uw_job *j, const char *file, struct uw_error *err);

/* The file of weights without ",loose". Returns weights, or file. */
#define UW_JOB_PATH_BYTES 4096u
const char *uw_job_weights_file(const char *weights, char file[UW_JOB_PATH_BYTES]);

/* The i-th sentence on what was assumed, left out or converted when model and weights were read;
 * NULL: there are no more. Written to text. */
#define UW_JOB_NOTE_BYTES 640u
const char *uw_job_note(const struct uw_job *j, uint32_t i, char text[UW_JOB_NOTE_BYTES]);

/* Print these sentences on standard error. */
void uw_job_print_notes(const struct uw_job *j);

struct uw_score {
    double accuracy, loss;      /* accuracy 0 if the loss does not use labels */
    uint64_t samples_n;
    bool labels;                /* the loss uses labels */
    bool none;                  /* there is no loss: outputs were computed only */
};

/* Accuracy and mean loss over one epoch of `data`, in order. Uses the model's minibatch.
 *
 *   limit  most samples; 0: all
 *   score  samples_n is updated during the evaluation
 *   stop   called between minibatches, may be NULL; returns true to give up
 *
 * Returns UW_OK, UW_ERR_AGAIN (stopped), or the dataset's error. */
int uw_job_evaluate(struct uw_job *j, struct uw_dataset *data, uint64_t limit,
                    bool (*stop)(void *), void *arg, struct uw_score *score);

/* "test accuracy 97.25 %  loss 0.0953"; without labels the loss alone. */
#define UW_SCORE_TEXT_BYTES 64u
const char *uw_score_text(const struct uw_score *s, char text[UW_SCORE_TEXT_BYTES]);

/* Print it as lines of a result, to standard output. */
void uw_score_print(const struct uw_score *s);

/* Check that this job may resume from the loaded checkpoint: both or neither must train in exact
 * mode, with the same order of sums. `option`: what asks for exact mode, "--exact".
 * Returns UW_OK or UW_ERR_MISMATCH, err filled. */
int uw_job_check_exact(const struct uw_job *j, bool exact, const char *option,
                       const struct uw_checkpoint *state, const char *file, struct uw_error *err);

/* Exit status for a result code: UW_EXIT_USAGE for mistakes in the user's input. */
int uw_job_exit(int code);

/* The backend as text: "avx2", "cuda: NVIDIA Orin". Call after plan. Returns text. */
const char *uw_job_backend_text(const struct uw_job *j, char text[UW_GPU_TEXT_BYTES]);

/* Add the GPU in use, if any, to an event or a plan. */
void uw_job_device_json(const struct uw_job *j, cJSON *ev);

/* Print the GPU in use, if any, as lines of a result. */
void uw_job_print_device(const struct uw_job *j);

/* Check that a checkpoint may be written to `file` (NULL: nothing to write): there is no such file,
 * or it contains weights. Data or models must not be overwritten. Returns UW_OK or UW_ERR_INVALID,
 * err filled. */
int uw_job_guard_save(const char *what, const char *file, struct uw_error *err);

/* Why the storage did not save an object, by its return code. */
const char *uw_job_why_unsaved(int rc);

/* Check before training, not after hours, that a file can be written; NULL: nothing to write.
 * `what` names it in messages, "--save". Returns UW_OK or a code of the storage, err filled. */
int uw_job_try_save(struct uw_storage *s, const char *what, const char *file,
                    struct uw_error *err);

#endif
