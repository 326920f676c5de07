/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x W^T + b, plus the low-rank additions of dense_lora.c. */
#include "layer_shared.h"

static int infer(struct uw_layer *l, const struct uw_shape *in, struct uw_error *err)
{
    const struct uw_dense_def *d = &l->def->dense;
    uint32_t features = in->rank == 2 ? in->w : in->c;
    char text[UW_SHAPE_TEXT_BYTES];

    if (d->out == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "out needs 1 or more");
    }
    if (in->rank == 3 && (in->h != 1 || in->w != 1)) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "its input is %s: put a flatten layer in front",
                            uw_shape_text(in, text));
    }
    l->geometry.dense = (struct uw_dense){.in = features, .out = d->out};
    l->out = uw_shape_row(d->out);
    if (in->rank == 2) {
        l->out = uw_shape_matrix(in->c, d->out);
    }
    l->tensors_n = d->no_bias ? 1 : 2;
    if (l->lora) {
        uw_parts.lora->infer(l);
    }
    return UW_OK;
}

static bool has_bias(const struct uw_layer *l)
{
    return !l->def->dense.no_bias;
}

static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    const struct uw_dense *g = &l->geometry.dense;

    if (t == 0) {
        return (struct uw_layer_tensor){.suffix = "weight", .dim = {g->out, g->in}, .rank = 2,
                                        .init = UW_INIT_WEIGHT, .fan_in = g->in,
                                        .fan_out = g->out};
    }
    if (t == 1 && has_bias(l)) {
        return (struct uw_layer_tensor){
            .suffix = "bias", .dim = {g->out}, .rank = 1, .bias = true};
    }
    return uw_parts.lora->tensor(l, t);
}

/* Rows of features: one per sample, or one per step of a sequence. */
static uint32_t rows(const struct uw_layer *l, uint32_t batch_n)
{
    return batch_n * (l->in_n / l->geometry.dense.in);
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    uint32_t n = rows(l, batch_n);
    return l->lora ? uw_parts.lora->scratch_bytes(l, k, n, threads)
                             : k->dense_scratch_bytes(k, &l->geometry.dense, n, threads);
}

static struct uw_planes planes(const struct uw_layer *l, const struct uw_pass *p)
{
    return (struct uw_planes){rows(l, p->batch_n), l->geometry.dense.out, 1};
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    uint32_t n = rows(l, p->batch_n);
    const float *b = has_bias(l) ? l->param[1] : NULL;
    if (uw_does_relu_behind(l)) {
        return uw_dense_relu(e, l, n, x[0], b, y);
    }
    int rc = e->kernels->dense_fw(e, &l->geometry.dense, n, x[0], l->param[0], b, y);
    return rc < 0 || !l->lora ? rc : uw_parts.lora->forward(e, l, n, x[0], y);
}

/* Whether one launch does the whole backward pass. bw_input starts it, or bw_param where no earlier
 * layer needs a gradient. */
static bool bw_is_one(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p)
{
    return uw_gradient_of(p) != NULL && uw_dense_bw_is_one(e, l, p, rows(l, p->batch_n));
}

/* Whether bw_prepare computes the bias gradient, in one pass with the ReLU's gradient. */
static bool bias_by_sums(const struct uw_exec *e, const struct uw_layer *l, uint32_t n)
{
    return has_bias(l) && (l->trained & 2u) != 0 &&
           uw_fused(e->kernels)->dense_bias_apart(e->kernels, &l->geometry.dense, n);
}

static int bw_prepare(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x)
{
    (void)x;
    if (bw_is_one(e, l, p)) {
        return UW_OK;
    }
    if (uw_does_relu_behind(l)) {
        const struct uw_planes s = planes(l, p);
        return uw_relu_behind_bw(e, l, &s, p, bias_by_sums(e, l, s.n));
    }
    return l->lora ? uw_parts.lora->bw_prepare(e, l, rows(l, p->batch_n)) : UW_OK;
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    uint32_t n = rows(l, p->batch_n);
    (void)which;
    if (bw_is_one(e, l, p)) {
        return uw_dense_bw(e, l, p, n, x[0], dx, accumulate);
    }
    int rc = e->kernels->dense_bw_input(e, &l->geometry.dense, n, l->dy, l->param[0], dx,
                                        accumulate);
    return rc < 0 || !l->lora ? rc : uw_parts.lora->bw_input(e, l, n, dx);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    uint32_t n = rows(l, p->batch_n);
    if (bw_is_one(e, l, p)) {
        return l->passes_down ? UW_OK : uw_dense_bw(e, l, p, n, x[0], NULL, false);
    }
    if (uw_does_relu_behind(l) && bias_by_sums(e, l, n)) {
        int rc = uw_add_bias_sums(e, l, p, l->geometry.dense.out, scale, d[1]);
        return rc < 0 || d[0] == NULL
                   ? rc
                   : e->kernels->dense_bw_param(e, &l->geometry.dense, n, x[0], l->dy, scale, d[0],
                                                NULL);
    }
    return l->lora ? uw_parts.lora->bw_param(e, l, n, x[0], scale, d)
                             : e->kernels->dense_bw_param(e, &l->geometry.dense, n, x[0], l->dy,
                                                          scale, d[0], d[1]);
}

static int bw_step(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *dx, bool accumulate, float keep, float scale,
                   float *const *d)
{
    if (uw_does_relu_behind(l)) {
        const struct uw_planes s = planes(l, p);
        int rc = uw_relu_behind_bw(e, l, &s, p, false);
        if (rc < 0) {
            return rc;
        }
    }
    return e->kernels->dense_bw_step(e, &l->geometry.dense, rows(l, p->batch_n), x[0], l->dy, keep,
                                     scale, d[0], has_bias(l) ? d[1] : NULL, dx, accumulate);
}

const struct uw_layer_ops uw_layer_dense = {
    .name = "dense",
    .weight_reads_x = true,
    .infer = infer,
    .take_relu_behind = UW_ON_DEVICES(uw_take_bias_relu),
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = bw_prepare,
    .bw_input = bw_input,
    .bw_param = bw_param,
    .bw_step = bw_step,
};
