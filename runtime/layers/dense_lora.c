/* SPDX-License-Identifier: Apache-2.0
 *
 * y += scale * (x A^T) B^T, A [rank][in], B [out][rank], the last two tensors of a dense layer
 * (E. J. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021).
 *
 * aux holds x A^T and, from bw_prepare on, dy B, [rows][rank] each. Without gradients there is no
 * aux: x A^T then comes first in scratch. */
#include "layer_shared.h"

#include "uwasa/arena.h"

static void infer(struct uw_layer *l)
{
    l->tensors_n += 2;
    l->aux_sample_bytes = uw_size_mul(
        uw_size_mul(l->in_n / l->geometry.dense.in, l->geometry.lora_rank), 2 * sizeof(float));
}

/* Index of lora_a; lora_b is the next. */
static uint32_t lora_at(const struct uw_layer *l)
{
    return l->tensors_n - 2;
}

static struct uw_layer_tensor tensor(const struct uw_layer *l, uint32_t t)
{
    const struct uw_dense *g = &l->geometry.dense;

    if (t == lora_at(l)) {
        return (struct uw_layer_tensor){.suffix = "lora_a", .dim = {l->geometry.lora_rank, g->in},
                                        .rank = 2, .init = UW_INIT_UNIFORM, .fan_in = g->in};
    }
    return (struct uw_layer_tensor){
        .suffix = "lora_b", .dim = {g->out, l->geometry.lora_rank}, .rank = 2};
}

static struct uw_dense lora_a(const struct uw_layer *l)
{
    return (struct uw_dense){.in = l->geometry.dense.in, .out = l->geometry.lora_rank};
}

static struct uw_dense lora_b(const struct uw_layer *l)
{
    return (struct uw_dense){.in = l->geometry.lora_rank, .out = l->geometry.dense.out};
}

/* y += scale * t B^T */
static struct uw_gemm add_fw(const struct uw_layer *l, uint32_t n)
{
    const struct uw_dense *g = &l->geometry.dense;
    return (struct uw_gemm){.trans_b = true, .m = n, .n = g->out, .k = l->geometry.lora_rank,
                            .lda = l->geometry.lora_rank, .ldb = l->geometry.lora_rank,
                            .ldc = g->out, .alpha = l->geometry.lora_scale, .beta = 1.0f};
}

/* dx += scale * u A */
static struct uw_gemm add_bw_input(const struct uw_layer *l, uint32_t n)
{
    const struct uw_dense *g = &l->geometry.dense;
    return (struct uw_gemm){.m = n, .n = g->in, .k = l->geometry.lora_rank,
                            .lda = l->geometry.lora_rank, .ldb = g->in, .ldc = g->in,
                            .alpha = l->geometry.lora_scale, .beta = 1.0f};
}

/* Bytes of x A^T at the beginning of scratch, for a layer without aux. */
static size_t front_bytes(const struct uw_layer *l, uint32_t n)
{
    return uw_arena_padded(uw_size_mul(n, l->geometry.lora_rank * sizeof(float)));
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t scratch_bytes(const struct uw_layer *l, const struct uw_kernels *k, uint32_t n,
                            uint32_t threads)
{
    const struct uw_dense a = lora_a(l), b = lora_b(l);
    const struct uw_gemm fw = add_fw(l, n), bw = add_bw_input(l, n);
    size_t most = k->dense_scratch_bytes(k, &l->geometry.dense, n, threads);
    most = larger(most, k->dense_scratch_bytes(k, &a, n, threads));
    most = larger(most, k->dense_scratch_bytes(k, &b, n, threads));
    most = larger(most, k->gemm_scratch_bytes(k, &fw, threads));
    most = larger(most, k->gemm_scratch_bytes(k, &bw, threads));
    size_t front = front_bytes(l, n);
    return most > SIZE_MAX - front ? SIZE_MAX : most + front;
}

static int forward(const struct uw_exec *e, const struct uw_layer *l, uint32_t n, const float *x,
                   float *y)
{
    const struct uw_kernels *k = e->kernels;
    const struct uw_dense a = lora_a(l);
    const struct uw_gemm g = add_fw(l, n);
    struct uw_exec rest = *e;
    float *t = l->aux;
    if (t == NULL) {
        size_t front = front_bytes(l, n);
        if (e->scratch_bytes < front) {
            return UW_ERR_NOMEM;
        }
        t = e->scratch;
        rest.scratch = (uint8_t *)e->scratch + front;
        rest.scratch_bytes -= front;
    }
    int rc = k->dense_fw(&rest, &a, n, x, l->param[lora_at(l)], NULL, t);
    return rc < 0 ? rc : k->gemm(&rest, &g, t, l->param[lora_at(l) + 1], y);
}

/* dy B, after x A^T in aux. */
static float *delta(const struct uw_layer *l, uint32_t n)
{
    return (float *)l->aux + (size_t)n * l->geometry.lora_rank;
}

static int bw_prepare(const struct uw_exec *e, const struct uw_layer *l, uint32_t n)
{
    const struct uw_dense b = lora_b(l);
    return e->kernels->dense_bw_input(e, &b, n, l->dy, l->param[lora_at(l) + 1], delta(l, n),
                                      false);
}

static int bw_input(const struct uw_exec *e, const struct uw_layer *l, uint32_t n, float *dx)
{
    const struct uw_gemm g = add_bw_input(l, n);
    return e->kernels->gemm(e, &g, delta(l, n), l->param[lora_at(l)], dx);
}

static int bw_param(const struct uw_exec *e, const struct uw_layer *l, uint32_t n, const float *x,
                    float scale, float *const *d)
{
    const struct uw_kernels *k = e->kernels;
    const struct uw_dense a = lora_a(l), b = lora_b(l);
    scale *= l->geometry.lora_scale;
    int rc = k->dense_bw_param(e, &a, n, x, delta(l, n), scale, d[lora_at(l)], NULL);
    return rc < 0 ? rc
                  : k->dense_bw_param(e, &b, n, l->aux, l->dy, scale, d[lora_at(l) + 1], NULL);
}

const struct uw_lora uw_lora = {
    .infer = infer,
    .tensor = tensor,
    .scratch_bytes = scratch_bytes,
    .forward = forward,
    .bw_prepare = bw_prepare,
    .bw_input = bw_input,
    .bw_param = bw_param,
};
