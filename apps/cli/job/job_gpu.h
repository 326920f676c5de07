/* SPDX-License-Identifier: Apache-2.0
 *
 * job_gpu.h - opens the GPU of a command by --backend
 *
 * `cuda` requires a GPU: without one the command fails. `auto` uses GPU 0 if there is one;
 * otherwise the processor, and `note` has the reason (empty in a build without CUDA).
 *
 * Memory     memory allocated from an open GPU is freed when the GPU is closed
 * Blocking   open loads libraries: seconds      Context  one thread
 */
#ifndef UWASA_CLI_JOB_GPU_H
#define UWASA_CLI_JOB_GPU_H

#include "base/args.h"

#include "uwasa/backends.h"
#include "uwasa/cuda.h"

/* Choices of --backend for commands that run on the processor only, and their numbers. */
#define UW_BACKENDS "auto|ref|fpu|avx2|avx512|neon"
enum uw_backend {
    UW_BACKEND_AUTO,
    UW_BACKEND_REF,
    UW_BACKEND_FPU,
    UW_BACKEND_AVX2,
    UW_BACKEND_AVX512,
    UW_BACKEND_NEON,
    UW_BACKEND_CUDA             /* of UW_BACKENDS_GPU */
};

/* Choices of --backend for commands that may use a GPU, and the help of --backend and --tf32. */
#define UW_BACKENDS_GPU UW_BACKENDS "|cuda"
#define UW_BACKENDS_GPU_HELP "kernels (auto: cuda where there is a GPU, else the fastest here)"
#define UW_TF32_HELP "with a GPU: products may round to TF32; faster, 3 digits of 7"

struct uw_job_gpu {
    struct uw_cuda *cuda;           /* NULL: use the processor */
    bool unseen;                    /* the GPU is absent: the plan is partial, see note */
    struct uw_cuda_info info;
    char choices[512];              /* file of measured algorithms; "": none */
    char note[UW_ERROR_TEXT_BYTES]; /* sentence for standard error; "": none */
};

struct uw_job_gpu_config {
    struct uw_choice backend;       /* enum uw_backend */
    bool exact, tf32;
    bool unseen;                    /* cuda without a GPU: open a handle that can only plan */
};

/* Open the GPU if --backend and the machine allow it.
 * Returns UW_OK, with g->cuda NULL to use the processor; UW_ERR_CLOSED (--backend cuda and no GPU
 * can be used), UW_ERR_INVALID (cuda and --exact; --tf32 and no GPU); err filled. */
int uw_job_gpu_open(struct uw_job_gpu *g, const struct uw_job_gpu_config *config,
                    struct uw_error *err);

/* Only with auto: close the GPU and use the processor. `why` becomes the note. */
void uw_job_gpu_leave(struct uw_job_gpu *g, const char *why);

/* The processor's fastest backend, by its name for --backend. */
const char *uw_job_gpu_else(void);

/* "the GPU failed (why); --backend avx2 VERB on the processor". Returns UW_ERR_IO. */
int uw_job_gpu_error(struct uw_error *err, const char *why, const char *verb);

/* Print the note once, if there is one: "uwasa train: ...". */
void uw_job_gpu_log(struct uw_job_gpu *g, const char *command);

/* "NVIDIA Orin, driver for CUDA 13.0, cuDNN 9.19.0"; "13.0", "9.19.0". Returns text. */
#define UW_GPU_TEXT_BYTES 128u
const char *uw_job_gpu_text(const struct uw_job_gpu *g, char text[UW_GPU_TEXT_BYTES]);
const char *uw_job_gpu_driver(const struct uw_job_gpu *g, char text[UW_GPU_TEXT_BYTES]);
const char *uw_job_gpu_cudnn(const struct uw_job_gpu *g, char text[UW_GPU_TEXT_BYTES]);

/* Close what is open. Safe on a zeroed struct and twice. */
void uw_job_gpu_close(struct uw_job_gpu *g);

#endif
