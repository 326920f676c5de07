/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax or its logarithm over the last axis, within the network. (At its end the loss takes the
 * logits.) */
#include "layer_shared.h"

static uint32_t last_axis(const struct uw_layer *l)
{
    return l->in.rank == 1 ? l->in.c : l->in.w;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    uint32_t n = last_axis(l);
    size_t rows = (size_t)p->batch_n * (l->out_n / n);
    return l->def->softmax.log ? e->kernels->tensor->log_softmax_fw(e, rows, n, x[0], y)
                               : e->kernels->sequence->softmax_fw(e, rows, n, false, x[0], y);
}

/* The slots overwrite dx: to add, they write to scratch. */
static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    uint32_t n = last_axis(l);
    size_t all = (size_t)p->batch_n * l->out_n, rows = all / n;
    float *to = accumulate ? e->scratch : dx;
    int rc = l->def->softmax.log
                 ? e->kernels->tensor->log_softmax_bw(e, rows, n, l->y, l->dy, to)
                 : e->kernels->sequence->softmax_bw_input(e, rows, n, l->y, l->dy, to);
    return rc < 0 || !accumulate ? rc : e->kernels->axpby(e, all, 1.0f, to, 1.0f, dx);
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)threads;
    return uw_size_mul(uw_size_mul(batch_n, l->out_n), sizeof(float));
}

const struct uw_layer_ops uw_layer_softmax = {
    .name = "softmax",
    .processor_only = true,
    .reads_y = true,
    .in_place = true,
    .gradient_in_place = true,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_input = bw_input,
};
