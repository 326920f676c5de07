/* SPDX-License-Identifier: Apache-2.0
 *
 * steady_memory MODEL:BATCH STEPS - nothing is taken from a GPU while it trains
 *
 * Reads what is free of the GPU's memory before a model is bound, then, after its first steps and
 * after STEPS more. cuBLAS, cuDNN and the CUDA runtime are counted with all that they take, and so
 * is whoever else uses the GPU: run it alone. Prints one line of JSON:
 *
 *     planned_bytes    what the plan said, with the processor's where both have one memory
 *     taken_bytes      what went when it was bound
 *     first_bytes      what the first steps took: a driver loads a kernel's code on its first use
 *     steps_bytes      what STEPS steps after them took
 *
 * Exit status 0: steps_bytes is 0, and taken_bytes is planned_bytes up to the driver's unit of
 * 2 MiB for each block: the kernels', that of what is shared, and the processor's, of which a GPU
 * with memory of its own keeps the addresses. 1 otherwise.
 */
#include "job/job.h"

#include <cuda_runtime_api.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_STEPS 5
#define UNIT_BYTES ((int64_t)2 << 20)

static int64_t free_bytes(void)
{
    size_t free_now = 0, all = 0;
    if (cudaDeviceSynchronize() != cudaSuccess || cudaMemGetInfo(&free_now, &all) != cudaSuccess) {
        printf("{\"error\":\"the GPU does not tell its memory\"}\n");
        exit(1);
    }
    return (int64_t)free_now;
}

static int run_steps(struct uw_job *job, uint32_t batch_n, uint32_t steps, struct uw_error *err)
{
    const struct uw_minibatch b = {.n = batch_n};
    struct uw_step_result result;
    int rc = UW_OK;
    for (uint32_t i = 0; i < steps && rc == UW_OK; i++) {
        struct uw_model *m = &job->model;
        for (uint64_t j = 0; j < (uint64_t)batch_n * m->input_n; j++) {
            m->input[j] = (float)((j * 2654435761u >> 7) % 1024u) / 1024.0f;
        }
        for (uint32_t j = 0; j < batch_n; j++) {
            m->label[j] = j % m->classes;
        }
        rc = uw_model_train_step(m, &b, &result, err);
    }
    return rc;
}

/* MODEL:BATCH in two; 0 when it is not. */
static uint32_t batch_of(char *work)
{
    char *colon = strrchr(work, ':');
    unsigned long n = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
    if (n == 0 || n > UINT32_MAX) {
        return 0;
    }
    *colon = '\0';
    return (uint32_t)n;
}

/* What is planned of the memory that the GPU tells. */
static int64_t planned_bytes(const struct uw_job *job)
{
    const struct uw_model_need *need = &job->need;
    return (int64_t)(need->kernel_bytes +
                     (job->gpu.info.integrated ? need->shared_bytes + need->total_bytes : 0));
}

/* Measure; the bytes of each stage, see above, and the blocks that are taken. */
static int measure(const char *model, uint32_t batch_n, uint32_t steps, int64_t bytes[4],
                   int64_t *blocks, struct uw_error *err)
{
    struct uw_job job = {.pool = NULL};
    const struct uw_job_config config = {
        .model = model, .backend = {"cuda", UW_BACKEND_CUDA}, .gpu = true,
        .plan = {.batch_n = batch_n, .optimizer = {.lr = 1e-4f, .momentum = 0.9f}}};
    int rc = uw_job_plan(&job, &config, err);
    int64_t before = rc == UW_OK ? free_bytes() : 0;
    if (rc == UW_OK) {
        bytes[0] = planned_bytes(&job);
        *blocks = job.need.shared_bytes != 0 ? 3 : 2;
        rc = uw_job_bind(&job, err);
    }
    if (rc == UW_OK) {
        bytes[1] = before - free_bytes();
        rc = uw_job_init_weights(&job, 1, err);
    }
    rc = rc < 0 ? rc : run_steps(&job, batch_n, FIRST_STEPS, err);
    int64_t first = rc == UW_OK ? free_bytes() : 0;
    bytes[2] = before - bytes[1] - first;
    rc = rc < 0 ? rc : run_steps(&job, batch_n, steps, err);
    bytes[3] = rc == UW_OK ? first - free_bytes() : 0;
    uw_job_deinit(&job);
    return rc;
}

int main(int argc, char **argv)
{
    struct uw_error err = {.text = ""};
    int64_t bytes[4], blocks = 0;
    uint32_t batch_n = argc == 3 ? batch_of(argv[1]) : 0;
    unsigned long steps = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (batch_n == 0 || steps == 0 || steps > UINT32_MAX) {
        fprintf(stderr, "steady_memory: needs MODEL:BATCH STEPS, as lenet5:16 200\n");
        return 2;
    }
    if (measure(argv[1], batch_n, (uint32_t)steps, bytes, &blocks, &err) < 0) {
        fprintf(stderr, "steady_memory: %s\n", err.text);
        return 1;
    }
    printf("{\"planned_bytes\":%" PRId64 ",\"taken_bytes\":%" PRId64 ",\"first_bytes\":%" PRId64
           ",\"steps_bytes\":%" PRId64 "}\n", bytes[0], bytes[1], bytes[2], bytes[3]);
    int64_t apart = bytes[1] - bytes[0];
    return bytes[3] == 0 && apart > -UNIT_BYTES && apart < blocks * UNIT_BYTES ? 0 : 1;
}
