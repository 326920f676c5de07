/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include "cuda/conv2d_winograd.h"
#include "cuda/products.h"

#include "uwasa/backends.h"
#include "uwasa/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIPPED 77
#define MEMORY_BYTES ((size_t)UW_TEST_POOL_MIB << 20)

const struct uw_kernels *uw_gpu_table;
static struct uw_cuda *gpu;

/* Blocks that were given back, by the address; neighbours are one. */
struct hole {
    size_t bytes;
    struct hole *next;
};
#define HEAD_BYTES 64u          /* before each block: its bytes */
static struct hole *holes;

static void close_gpu(void)
{
    uw_cuda_close(gpu);
}

/* UWASA_TEST_CONV2D=winograd: convolutions go Winograd's way where it may be chosen, by a choice
 * that is there before it would be measured. UWASA_TEST_CONV2D=own: the other kernels of our own
 * compute them, which a sanitizer looks at without the library's many in between. */
static bool all_own;

static bool is_forced(struct uw_conv2d_shape *s, uint32_t batch_n, enum uw_conv2d_part part,
                      int32_t *algorithm)
{
    const struct uw_exec e = {.kernels = uw_cuda_kernels(gpu)};
    size_t bytes;
    if (all_own) {
        bool splits = s->conv.out_channels % 2 != 0 &&
                      uw_conv2d_own_splits(&e, &s->conv, batch_n, part);
        *algorithm = splits ? UW_CONV2D_OWN_SPLIT : UW_CONV2D_OWN;
        return splits || uw_conv2d_own_takes(&s->conv, batch_n, part);
    }
    *algorithm = UW_CONV2D_WINOGRAD;
    return uw_conv2d_winograd_worth(&s->conv, part) &&
           uw_conv2d_takes(gpu, s, batch_n, part, UW_CONV2D_WINOGRAD, &bytes);
}

static size_t forced_scratch_bytes(const struct uw_kernels *k, const struct uw_conv2d *conv,
                                   uint32_t batch_n, uint32_t threads)
{
    struct uw_cuda_choice choice = {.batch_n = batch_n};
    struct uw_conv2d_shape *s = batch_n > 0 ? uw_conv2d_shape_of(gpu, conv) : NULL;
    for (uint32_t i = 0; i < UW_CONV2D_PARTS && s != NULL; i++) {
        if (is_forced(s, batch_n, (enum uw_conv2d_part)i, &choice.algorithm)) {
            choice.part = i;
            memcpy(choice.shape, s->key, sizeof choice.shape);
            uw_cuda_choices_put(&gpu->products->choices, &choice);
        }
    }
    return uw_conv2d_scratch_bytes_cuda(k, conv, batch_n, threads);
}

static void force_choices(void)
{
    const char *way = getenv("UWASA_TEST_CONV2D");
    all_own = way != NULL && strcmp(way, "own") == 0;
    if (all_own || (way != NULL && strcmp(way, "winograd") == 0)) {
        gpu->kernels.conv2d_scratch_bytes = forced_scratch_bytes;
    }
}

__attribute__((constructor)) static void open_gpu(void)
{
    const struct uw_cuda_config config = {.blocking = true};
    struct uw_error err = {.code = UW_OK};
    void *memory = NULL;
    if (uw_cuda_open(&gpu, &config, &err) < 0 ||
        uw_cuda_take(gpu, UW_CUDA_SHARED, MEMORY_BYTES, &memory, &err) < 0) {
        printf("skipped: %s\n", err.text);
        exit(SKIPPED);
    }
    holes = memory;
    *holes = (struct hole){.bytes = MEMORY_BYTES};
    uw_gpu_table = uw_cuda_kernels(gpu);
    force_choices();
    (void)atexit(close_gpu);
}

const struct uw_kernels *uw_gpu_kernels_at(uint32_t index)
{
    return index == 0 ? uw_gpu_table : index == 1 ? &uw_kernels_ref : NULL;
}

const struct uw_kernels *uw_gpu_kernels_find(const char *name)
{
    for (uint32_t i = 0; uw_gpu_kernels_at(i) != NULL; i++) {
        if (strcmp(uw_gpu_kernels_at(i)->name, name) == 0) {
            return uw_gpu_kernels_at(i);
        }
    }
    return NULL;
}

const struct uw_kernels *uw_gpu_kernels_best(void)
{
    return uw_gpu_table;
}

void *uw_gpu_test_take(size_t bytes)
{
    size_t whole = HEAD_BYTES + (bytes + 63u) / 64u * 64u;
    for (struct hole **at = &holes; *at != NULL; at = &(*at)->next) {
        struct hole *h = *at;
        if (h->bytes == whole) {
            *at = h->next;
        } else if (h->bytes > whole) {
            *at = (struct hole *)(void *)((char *)h + whole);
            **at = (struct hole){.bytes = h->bytes - whole, .next = h->next};
        } else {
            continue;
        }
        memcpy(h, &whole, sizeof whole);
        return (char *)h + HEAD_BYTES;
    }
    return NULL;
}

static void join_next(struct hole *h)
{
    if (h->next != NULL && (char *)h + h->bytes == (char *)h->next) {
        h->bytes += h->next->bytes;
        h->next = h->next->next;
    }
}

void uw_gpu_test_give(void *at)
{
    struct hole *h = (struct hole *)(void *)((char *)at - HEAD_BYTES), *before = NULL;
    size_t whole;
    memcpy(&whole, h, sizeof whole);
    struct hole *next = holes;
    while (next != NULL && next < h) {
        before = next;
        next = next->next;
    }
    *h = (struct hole){.bytes = whole, .next = next};
    join_next(h);
    if (before == NULL) {
        holes = h;
        return;
    }
    before->next = h;
    join_next(before);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *copy = from != NULL ? uw_gpu_test_take(bytes) : NULL;
    if (copy != NULL) {
        memcpy(copy, from, bytes);
    }
    return copy;
}

static void give_copy(const void *copy)
{
    if (copy != NULL) {
        uw_gpu_test_give((void *)(uintptr_t)copy);
    }
}

/* A minibatch that is refused anyway stays as it is: it may claim more than is there. */
static bool is_taken(const struct uw_model *m, const struct uw_minibatch *b)
{
    return b->x != NULL && b->n > 0 && b->n <= m->config.batch_n;
}

static struct uw_minibatch seen(const struct uw_model *m, const struct uw_minibatch *b)
{
    return (struct uw_minibatch){
        .x = copy_of(b->x, (size_t)b->n * m->input_n * sizeof *b->x),
        .label = copy_of(b->label, b->n * sizeof *b->label),
        .target = copy_of(b->target, (size_t)b->n * m->target_n * sizeof *b->target),
        .n = b->n};
}

static void forget(const struct uw_minibatch *b)
{
    give_copy(b->x);
    give_copy(b->label);
    give_copy(b->target);
}

int uw_gpu_train_step(struct uw_model *m, const struct uw_minibatch *b,
                      struct uw_step_result *result, struct uw_error *err)
{
    if (!is_taken(m, b)) {
        return uw_model_train_step(m, b, result, err);
    }
    const struct uw_minibatch copy = seen(m, b);
    int rc = uw_model_train_step(m, &copy, result, err);
    forget(&copy);
    return rc;
}

int uw_gpu_evaluate(struct uw_model *m, const struct uw_minibatch *b, double *loss_sum,
                    uint32_t *correct_n)
{
    if (!is_taken(m, b)) {
        return uw_model_evaluate(m, b, loss_sum, correct_n);
    }
    const struct uw_minibatch copy = seen(m, b);
    int rc = uw_model_evaluate(m, &copy, loss_sum, correct_n);
    forget(&copy);
    return rc;
}

int uw_gpu_forward(struct uw_model *m, const float *x, uint32_t n, const float **logits)
{
    if (n > m->config.batch_n) {
        return uw_model_forward(m, x, n, logits);
    }
    const float *copy = copy_of(x, (size_t)n * m->input_n * sizeof *x);
    int rc = uw_model_forward(m, copy, n, logits);
    give_copy(copy);
    return rc;
}
