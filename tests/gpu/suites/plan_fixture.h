/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_fixture.h - a GPU with a file of choices of its own, and tensors that both see */
#ifndef UW_PLAN_FIXTURE_H
#define UW_PLAN_FIXTURE_H

#include "test_support.h"

#include "cuda/products.h"
#include "uwasa/backends.h"

#include <unistd.h>

#define FLOATS ((size_t)1 << 16)        /* of one tensor */
#define SCRATCH_BYTES ((size_t)8 << 20)
#define SKIPPED 77

static char folder[64], path[96];
static struct uw_cuda *gpu;
static float *x, *w, *y, *dx, *dw;      /* both see them */
static void *scratch;
static float want[FLOATS];

static int open_gpu(void **state)
{
    (void)state;
    const struct uw_cuda_config config = {.blocking = true, .choices = path};
    struct uw_error err;
    float **all[] = {&x, &w, &y, &dx, &dw};
    if (uw_cuda_open(&gpu, &config, &err) < 0) {
        printf("skipped: %s\n", err.text);
        exit(SKIPPED);
    }
    for (size_t i = 0; i < 5; i++) {
        void *block;
        assert_int_equal(uw_cuda_take(gpu, UW_CUDA_SHARED, FLOATS * sizeof(float), &block, &err),
                         UW_OK);
        *all[i] = block;
        for (size_t k = 0; k < FLOATS; k++) {
            (*all[i])[k] = (float)((k * 37 + i) % 29) / 29.0f - 0.5f;
        }
    }
    assert_int_equal(uw_cuda_take(gpu, UW_CUDA_SHARED, SCRATCH_BYTES, &scratch, &err), UW_OK);
    gpu->products->conv2d_limit = SCRATCH_BYTES - UW_CONV2D_ALIGN;  /* whatever a card likes best */
    return 0;
}

static int begin(void **state)
{
    snprintf(folder, sizeof folder, "plan-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/choices", folder);
    return open_gpu(state);
}

static int end(void **state)
{
    (void)state;
    uw_cuda_close(gpu);
    (void)unlink(path);
    return rmdir(folder);
}

static void open_again(void)
{
    uw_cuda_close(gpu);
    (void)open_gpu(NULL);
}

static void assert_near(const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(fabsf(got[i] - want[i]) <= 1e-4f * (1.0f + fabsf(want[i])));
    }
}

#endif
