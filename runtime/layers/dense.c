/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x W^T + b, and with LoRA + scale * (x A^T) B^T, A [rank][in], B [out][rank], the last two
 * tensors (E. J. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021).
 *
 * With LoRA, aux holds x A^T and, from bw_prepare on, dy B, [rows][rank] each. A plan without
 * gradients here has no aux: x A^T then stands in front of the kernels' scratch. */
#include "layers.h"

#include "uwasa/arena.h"

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
    l->out = (struct uw_shape){d->out, 1, 1, 1};
    if (in->rank == 2) {
        l->out = (struct uw_shape){in->c, 1, d->out, 2};
    }
    l->tensors_n = d->no_bias ? 1 : 2;
    if (l->lora_rank != 0) {
        l->tensors_n += 2;
        l->aux_sample_bytes =
            uw_size_mul(uw_size_mul(l->in_n / features, l->lora_rank), 2 * sizeof(float));
    }
    return UW_OK;
}

/* Index of lora_a; lora_b is the next. */
static uint32_t lora_at(const struct uw_layer *l)
{
    return l->tensors_n - 2;
}

static bool has_bias(const struct uw_layer *l)
{
    return !l->def->dense.no_bias;
}

static void tensor(const struct uw_layer *l, uint32_t t, struct uw_layer_tensor *out)
{
    const struct uw_dense *g = &l->geometry.dense;

    if (t == 0) {
        *out = (struct uw_layer_tensor){.suffix = "weight", .dim = {g->out, g->in}, .rank = 2,
                                        .init = UW_INIT_WEIGHT, .fan_in = g->in,
                                        .fan_out = g->out};
    } else if (t == 1 && has_bias(l)) {
        *out = (struct uw_layer_tensor){
            .suffix = "bias", .dim = {g->out}, .rank = 1, .bias = true};
    } else if (t == lora_at(l)) {
        *out = (struct uw_layer_tensor){.suffix = "lora_a", .dim = {l->lora_rank, g->in},
                                        .rank = 2, .init = UW_INIT_UNIFORM, .fan_in = g->in};
    } else {
        *out = (struct uw_layer_tensor){
            .suffix = "lora_b", .dim = {g->out, l->lora_rank}, .rank = 2};
    }
}

/* Rows of features: one a sample, or one a step of a sequence. */
static uint32_t rows(const struct uw_layer *l, uint32_t batch_n)
{
    return batch_n * (l->in_n / l->geometry.dense.in);
}

static struct uw_dense lora_a(const struct uw_layer *l)
{
    return (struct uw_dense){.in = l->geometry.dense.in, .out = l->lora_rank};
}

static struct uw_dense lora_b(const struct uw_layer *l)
{
    return (struct uw_dense){.in = l->lora_rank, .out = l->geometry.dense.out};
}

/* y += scale * t B^T */
static struct uw_gemm add_fw(const struct uw_layer *l, uint32_t n)
{
    const struct uw_dense *g = &l->geometry.dense;
    return (struct uw_gemm){.trans_b = true, .m = n, .n = g->out, .k = l->lora_rank,
                            .lda = l->lora_rank, .ldb = l->lora_rank, .ldc = g->out,
                            .alpha = l->lora_scale, .beta = 1.0f};
}

/* dx += scale * u A */
static struct uw_gemm add_bw_input(const struct uw_layer *l, uint32_t n)
{
    const struct uw_dense *g = &l->geometry.dense;
    return (struct uw_gemm){.m = n, .n = g->in, .k = l->lora_rank, .lda = l->lora_rank,
                            .ldb = g->in, .ldc = g->in, .alpha = l->lora_scale, .beta = 1.0f};
}

/* Room for x A^T in front of the scratch of a layer without aux. */
static size_t front_bytes(const struct uw_layer *l, uint32_t batch_n)
{
    return uw_arena_padded(uw_size_mul(rows(l, batch_n), l->lora_rank * sizeof(float)));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k,
                            uint32_t batch_n, uint32_t threads)
{
    uint32_t n = rows(l, batch_n);
    size_t most = k->dense_scratch_bytes(k, &l->geometry.dense, n, threads);
    if (l->lora_rank == 0) {
        return most;
    }
    const struct uw_dense a = lora_a(l), b = lora_b(l);
    const struct uw_gemm fw = add_fw(l, n), bw = add_bw_input(l, n);
    most = larger(most, k->dense_scratch_bytes(k, &a, n, threads));
    most = larger(most, k->dense_scratch_bytes(k, &b, n, threads));
    most = larger(most, k->gemm_scratch_bytes(k, &fw, threads));
    most = larger(most, k->gemm_scratch_bytes(k, &bw, threads));
    size_t front = front_bytes(l, batch_n);
    return most > SIZE_MAX - front ? SIZE_MAX : most + front;
}

static int lora_forward(const struct uw_exec *e, const struct uw_layer *l, uint32_t batch_n,
                        const float *x, float *y)
{
    const struct uw_kernels *k = e->kernels;
    const struct uw_dense a = lora_a(l);
    const struct uw_gemm g = add_fw(l, rows(l, batch_n));
    struct uw_exec rest = *e;
    float *t = l->aux;
    if (t == NULL) {
        size_t front = front_bytes(l, batch_n);
        if (e->scratch_bytes < front) {
            return UW_ERR_NOMEM;
        }
        t = e->scratch;
        rest.scratch = (uint8_t *)e->scratch + front;
        rest.scratch_bytes -= front;
    }
    int rc = k->dense_fw(&rest, &a, g.m, x, l->param[lora_at(l)], NULL, t);
    return rc < 0 ? rc : k->gemm(&rest, &g, t, l->param[lora_at(l) + 1], y);
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *y)
{
    int rc = e->kernels->dense_fw(e, &l->geometry.dense, rows(l, p->batch_n), x[0], l->param[0],
                                  has_bias(l) ? l->param[1] : NULL, y);
    return rc < 0 || l->lora_rank == 0 ? rc : lora_forward(e, l, p->batch_n, x[0], y);
}

/* dy B, behind x A^T in aux. */
static float *lora_delta(const struct uw_layer *l, uint32_t batch_n)
{
    return (float *)l->aux + (size_t)rows(l, batch_n) * l->lora_rank;
}

static int bw_prepare(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                      const float *const *x)
{
    (void)x;
    if (l->lora_rank == 0) {
        return UW_OK;
    }
    const struct uw_dense b = lora_b(l);
    return e->kernels->dense_bw_input(e, &b, rows(l, p->batch_n), l->dy, l->param[lora_at(l) + 1],
                                      lora_delta(l, p->batch_n), false);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, uint32_t which, float *dx, bool accumulate)
{
    (void)x;
    (void)which;
    int rc = e->kernels->dense_bw_input(e, &l->geometry.dense, rows(l, p->batch_n), l->dy,
                                        l->param[0], dx, accumulate);
    if (rc < 0 || l->lora_rank == 0) {
        return rc;
    }
    const struct uw_gemm g = add_bw_input(l, rows(l, p->batch_n));
    return e->kernels->gemm(e, &g, lora_delta(l, p->batch_n), l->param[lora_at(l)], dx);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                    const float *const *x, float scale, float *const *d)
{
    const struct uw_kernels *k = e->kernels;
    uint32_t n = rows(l, p->batch_n);
    if (l->lora_rank == 0) {
        return k->dense_bw_param(e, &l->geometry.dense, n, x[0], l->dy, scale, d[0], d[1]);
    }
    const struct uw_dense a = lora_a(l), b = lora_b(l);
    scale *= l->lora_scale;
    int rc = k->dense_bw_param(e, &a, n, x[0], lora_delta(l, p->batch_n), scale, d[lora_at(l)],
                               NULL);
    return rc < 0 ? rc : k->dense_bw_param(e, &b, n, l->aux, l->dy, scale, d[lora_at(l) + 1],
                                           NULL);
}

static int bw_step(const struct uw_exec *e, const struct uw_layer *l, const struct uw_pass *p,
                   const float *const *x, float *dx, bool accumulate, float keep, float scale,
                   float *const *d)
{
    return e->kernels->dense_bw_step(e, &l->geometry.dense, rows(l, p->batch_n), x[0], l->dy, keep,
                                     scale, d[0], has_bias(l) ? d[1] : NULL, dx, accumulate);
}

const struct uw_layer_ops uw_layer_dense = {
    .name = "dense",
    .weight_reads_x = true,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = bw_prepare,
    .bw_input = bw_input,
    .bw_param = bw_param,
    .bw_step = bw_step,
};
