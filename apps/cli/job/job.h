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
#include "base/listener.h"
#include "model/model_json.h"

#include "uwasa/backends.h"
#include "uwasa/checkpoint.h"
#include "uwasa/convert.h"
#include "uwasa/model.h"

/* What an ONNX file may leave open, see uwasa/convert.h. */
struct uw_job_onnx {
    const char *output, *shape, *constant, *trained;    /* NULL: not given */
    bool unfused;
};

/* Rows for a struct `options` with a member struct uw_job_onnx onnx. */
#define UW_JOB_ONNX_ROWS(options)                                                                 \
    UW_OPT_ROW(options, "output", UW_OPT_TEXT, onnx.output, 0, 0, "NAMES",                        \
               "of an ONNX file: the output that is trained, or several, NAME,NAME, with a "      \
               "--loss for each; the others are left out (all)"),                                 \
    UW_OPT_ROW(options, "shape", UW_OPT_TEXT, onnx.shape, 0, 0, "S",                              \
               "of an ONNX file: sizes of the input that it leaves open, NAME=SIZE,.. or all of " \
               "them, 1,128,64"),                                                                 \
    UW_OPT_ROW(options, "constant", UW_OPT_TEXT, onnx.constant, 0, 0, "NAMES",                    \
               "of an ONNX file: tensors, layers or modules, NAME,.., that do not train; all: "   \
               "every tensor that is no layer's weight"),                                         \
    UW_OPT_ROW(options, "trained", UW_OPT_TEXT, onnx.trained, 0, 0, "NAMES",                      \
               "of an ONNX file: tensors, layers or modules, NAME,.., that train"),               \
    UW_OPT_ROW(options, "unfused", UW_OPT_FLAG, onnx.unfused, 0, 0, NULL,                         \
               "of an ONNX file: layers that could be joined into one, as GELU or attention by "  \
               "parts, stay apart; slower, the same up to rounding: to look for a mistake")

struct uw_job_config {
    const char *model;          /* built-in name or file; *.onnx is ONNX */
    struct uw_job_onnx onnx;
    struct uw_choice backend;   /* enum uw_backend; UW_BACKEND_CUDA only with gpu */
    const struct uw_kernels *kernels;   /* used instead of backend's; NULL: none */
    const struct uw_job *of;    /* a job whose model is borrowed, and outlives this one; NULL: the
                                   model's file is read */
    const struct uw_listener *listener; /* hears what was found; NULL: standard error */
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
    bool borrows;                   /* file and onnx are another job's */
    const struct uw_listener *listener;
    const char *weights;            /* the file that was loaded last, and what it was like */
    bool loose;
    struct uw_weights_report found;
    char named[160];                /* which names were taken by order or shape; "": none */
    struct uw_loss_def losses[UW_LOSSES_MAX];   /* file.def.losses, where the file has none */
    bool loss_is_open;              /* they stand in for what the data or --loss decides */
    bool says_classes;              /* the file asks for cross_entropy, of no row of logits */
    float smoothing;                /* of labels, as it asks */
    bool each_loss;                 /* --loss said one for each output */
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

/* Rows of what computes, for a struct `options` with members of these names. */
#define UW_JOB_COMPUTE_ROWS(options)                                                              \
    UW_OPT_ROW(options, "threads", UW_OPT_U32, threads, 1, 256, "N",                              \
               "threads that compute (one a core)"),                                              \
    UW_OPT_ROW(options, "backend", UW_OPT_CHOICE, backend, 0, 0, UW_BACKENDS_GPU,                 \
               UW_BACKENDS_GPU_HELP),                                                             \
    UW_OPT_ROW(options, "tf32", UW_OPT_FLAG, tf32, 0, 0, NULL, UW_TF32_HELP),                     \
    UW_OPT_ROW(options, "exact", UW_OPT_FLAG, exact, 0, 0, NULL, UW_EXACT_HELP)

/* Choose kernels by --backend and --exact.
 * Returns UW_OK; UW_ERR_UNSUPPORTED (not in this build or on this machine, or the machine cannot
 * compute exactly) or UW_ERR_INVALID (that backend is not exact), err filled. */
int uw_job_kernels(struct uw_choice backend, bool exact, const struct uw_kernels **kernels,
                   struct uw_error *err);

/* Only read the model, for jobs that borrow it. Deinit in every case. */
int uw_job_read(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err);

/* Read the model, choose kernels, count bytes. May set j->gpu.note.
 * Returns UW_OK, an error of uw_model_load, uw_model_measure or uw_job_gpu_open,
 * UW_ERR_UNSUPPORTED (the backend is not in this build or not on this machine), UW_ERR_NOMEM; err
 * filled. Deinit in every case. */
int uw_job_plan(struct uw_job *j, const struct uw_job_config *config, struct uw_error *err);

/* Whether an ONNX file ends in a softmax, which was left out: it tells classes apart. */
bool uw_job_ends_in_softmax(const struct uw_job *j);

/* Without data, decide the loss of an ONNX model that waits: an autoencoder if the output has the
 * input's size and no softmax, else labels, and values where the output is no row of logits. Counts
 * again. Returns what uw_job_measure returns. */
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

/* Why the model's GPU failed (uw_cuda_failure); NULL: it did not. Such a failure also explains
 * other errors, such as a code of the model or a weight that looks infinite. Waits for the GPU.
 * NULL without a GPU and before bind. */
const char *uw_job_gpu_failure(const struct uw_job *j);

/* Release everything. Safe on a zeroed struct and twice. */
void uw_job_deinit(struct uw_job *j);

/* Exit status for a result code: UW_EXIT_USAGE for mistakes in the user's input. */
int uw_job_exit(int code);

/* The backend as text: "avx2", "cuda: NVIDIA Orin". Call after plan. Returns text. */
const char *uw_job_backend_text(const struct uw_job *j, char text[UW_GPU_TEXT_BYTES]);

/* Add the GPU in use, if any, to an event or a plan. */
void uw_job_device_json(const struct uw_job *j, cJSON *ev);

/* Print the GPU in use, if any, as lines of a result. */
void uw_job_print_device(const struct uw_job *j);

#endif
