/* SPDX-License-Identifier: Apache-2.0 */
#include "dense_plan.h"

#include "measure.h"
#include "products.h"

#include <string.h>

/* Estimate: for so few samples the launch, or reading the weights, takes most of the time. */
#define FEW_SAMPLES 4u
#define SOME_SAMPLES 8u
#define FEW_WEIGHTS (1u << 20)

static const struct uw_dense_shape *find(const struct uw_cuda *c, const struct uw_dense *d,
                                         uint32_t batch_n)
{
    const struct uw_dense_shapes *all = &c->products->dense;
    const struct uw_dense_shape *nearest = NULL;
    for (uint32_t i = 0; i < all->n; i++) {
        const struct uw_dense_shape *s = &all->at[i];
        if (s->dense.in == d->in && s->dense.out == d->out && s->batch_n >= batch_n &&
            (nearest == NULL || s->batch_n < nearest->batch_n)) {
            nearest = s;
        }
    }
    return nearest;
}

static bool guess(const struct uw_dense *d, uint32_t batch_n)
{
    return batch_n <= FEW_SAMPLES ||
           (batch_n <= SOME_SAMPLES && (uint64_t)d->in * d->out <= FEW_WEIGHTS);
}

bool uw_dense_is_small(const struct uw_cuda *c, const struct uw_dense *d, uint32_t batch_n,
                       enum uw_conv2d_part part)
{
    if (!uw_dense_small_takes(d, batch_n)) {
        return false;
    }
    const struct uw_dense_shape *s = find(c, d, batch_n);
    return s == NULL ? guess(d, batch_n)
                     : s->small[part] || (s->batch_n != batch_n && guess(d, batch_n));
}

struct trial {
    const struct uw_dense *dense;
    struct uw_dense_job job;
};

static int run(const struct uw_exec *e, void *job, uint32_t i)
{
    const struct trial *t = job;
    return uw_dense_run(e, t->dense, &t->job, i == 1);
}

/* Measures in temporary memory: x, y, w and b, filled with 0.0115. */
static int measure(struct uw_cuda *c, const struct uw_dense *d, uint32_t batch_n,
                   enum uw_conv2d_part part, uint32_t *fastest, double *us)
{
    size_t x = ((size_t)batch_n * d->in + 3u) & ~(size_t)3u, w = (size_t)d->in * d->out;
    size_t y = ((size_t)batch_n * d->out + 3u) & ~(size_t)3u, all = x + y + w + d->out;
    float *at = NULL;
    if (!uw_cuda_is_measured(c, (double)batch_n * d->in * d->out)) {
        return UW_ERR_AGAIN;
    }
    if (cudaMalloc((void **)&at, all * sizeof *at) != cudaSuccess) {
        (void)cudaGetLastError();       /* clear the error */
        return UW_ERR_AGAIN;
    }
    float *at_y = at + x, *at_w = at_y + y, *at_b = at_w + w;
    struct trial t = {
        .dense = d,
        .job = {.part = part, .batch_n = batch_n, .a = part == UW_CONV2D_BW_INPUT ? at_y : at,
                .b = part == UW_CONV2D_BW_PARAM ? at_y : at_w,
                .out = part == UW_CONV2D_FW ? at_y : part == UW_CONV2D_BW_INPUT ? at : at_w,
                .keep = 1.0f, .scale = 1.0f, .bias = part == UW_CONV2D_FW ? at_b : NULL,
                .dbias = part == UW_CONV2D_BW_PARAM ? at_b : NULL}};
    int rc = cudaMemsetAsync(at, 0x3c, all * sizeof *at, c->stream) == cudaSuccess
                 ? uw_cuda_fastest(c, run, &t, 2, fastest, us)
                 : UW_ERR_AGAIN;
    (void)cudaFree(at);
    return rc;
}

/* Choose for one part. Returns whether the file must be written. */
static bool settle(struct uw_cuda *c, struct uw_dense_shape *s, enum uw_conv2d_part part)
{
    struct uw_cuda_choice found = {.part = UW_CONV2D_PARTS + (uint32_t)part,
                                   .batch_n = s->batch_n, .shape = {s->dense.in, s->dense.out}};
    struct uw_cuda_choices *file = &c->products->choices;
    const struct uw_cuda_choice *known =
        uw_cuda_choices_find(file, found.part, found.batch_n, found.shape);
    uint32_t fastest = guess(&s->dense, s->batch_n);
    if (known != NULL && known->algorithm <= 1) {
        s->small[part] = known->algorithm == 1;
        return false;
    }
    bool measured = measure(c, &s->dense, s->batch_n, part, &fastest, &found.us) == UW_OK;
    s->small[part] = fastest == 1;
    if (measured) {
        found.algorithm = (int32_t)fastest;
        uw_cuda_choices_put(file, &found);
    }
    return measured;
}

void uw_dense_settle(struct uw_cuda *c, const struct uw_dense *d, uint32_t batch_n)
{
    struct uw_dense_shapes *all = &c->products->dense;
    bool news = false;
    if (!uw_dense_small_takes(d, batch_n) || find(c, d, batch_n) != NULL) {
        return;
    }
    struct uw_dense_shape s = {.dense = *d, .batch_n = batch_n};
    for (uint32_t i = 0; i < UW_DENSE_PARTS; i++) {
        news = settle(c, &s, (enum uw_conv2d_part)i) || news;
    }
    if (all->n < UW_DENSE_SHAPES_MAX) {
        all->at[all->n++] = s;
    } else {
        all->at[all->next] = s;
        all->next = (all->next + 1) % UW_DENSE_SHAPES_MAX;
    }
    if (news) {
        (void)uw_cuda_choices_save(&c->products->choices); /* a failure: measured again */
    }
}
