/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_train.h"

#include "uwasa/arena.h"
#include "uwasa/backends.h"
#include "uwasa/status.h"

#include <string.h>

#define LANES 8u                /* sums that the compiler may keep in registers */

/* c[m][n] += alpha * a[m][k] * b[k][n]; trans_a: a is [k][m]. */
static void multiply(const struct uw_gemm *g, const float *a, const float *b, float *c)
{
    size_t lda = g->lda, ldb = g->ldb, ldc = g->ldc;
    for (uint32_t i = 0; i < g->m; i++) {
        for (uint32_t p = 0; p < g->k; p++) {
            float f = g->alpha * (g->trans_a ? a[p * lda + i] : a[i * lda + p]);
            for (uint32_t j = 0; j < g->n; j++) {
                c[i * ldc + j] += f * b[p * ldb + j];
            }
        }
    }
}

/* c[m][n] += alpha * a * b'; b is [n][k]. Uses several sums, as a compiler would that may reorder
 * additions. */
static void multiply_rows(const struct uw_gemm *g, const float *a, const float *b, float *c)
{
    size_t lda = g->lda, ldb = g->ldb, ldc = g->ldc;
    for (uint32_t i = 0; i < g->m; i++) {
        for (uint32_t j = 0; j < g->n; j++) {
            float s[LANES] = {0.0f}, sum = 0.0f;
            uint32_t p = 0;
            for (; p + LANES <= g->k && !g->trans_a; p += LANES) {
                for (uint32_t l = 0; l < LANES; l++) {
                    s[l] += a[i * lda + p + l] * b[j * ldb + p + l];
                }
            }
            for (; p < g->k; p++) {
                sum += (g->trans_a ? a[p * lda + i] : a[i * lda + p]) * b[j * ldb + p];
            }
            for (uint32_t l = 0; l < LANES; l++) {
                sum += s[l];
            }
            c[i * ldc + j] += g->alpha * sum;
        }
    }
}

static int gemm(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                float *c)
{
    (void)e;
    for (uint32_t i = 0; i < g->m; i++) {
        for (uint32_t j = 0; j < g->n; j++) {
            float *at = &c[(size_t)i * g->ldc + j];
            *at = g->beta == 0.0f ? 0.0f : g->beta * *at;
        }
    }
    (g->trans_b ? multiply_rows : multiply)(g, a, b, c);
    return UW_OK;
}

/* What one group of a convolution unrolls to. */
struct columns {
    uint32_t channels, rows, pixels;        /* rows: taps of all channels */
    uint32_t outputs;
};

static struct columns columns_of(const struct uw_conv2d *c)
{
    struct columns u = {.channels = c->in_channels / c->groups, .pixels = c->out_h * c->out_w,
                        .outputs = c->out_channels / c->groups};
    u.rows = u.channels * c->kernel_h * c->kernel_w;
    return u;
}

static size_t scratch_bytes(const struct uw_kernels *k, const struct uw_conv2d *c, uint32_t batch_n,
                            uint32_t threads)
{
    (void)k, (void)batch_n, (void)threads;
    struct columns u = columns_of(c);
    return uw_size_mul(uw_size_mul(u.rows, u.pixels), sizeof(float));
}

static void unroll(const struct uw_conv2d *c, const float *x, float *col)
{
    struct columns u = columns_of(c);
    for (uint32_t r = 0; r < u.rows; r++) {
        uint32_t kw = r % c->kernel_w, kh = r / c->kernel_w % c->kernel_h;
        const float *plane = x + (size_t)(r / c->kernel_w / c->kernel_h) * c->in_h * c->in_w;
        for (uint32_t oh = 0; oh < c->out_h; oh++) {
            uint32_t ih = oh * c->stride_h + kh * c->dilation_h - c->pad_h; /* may wrap around */
            for (uint32_t ow = 0; ow < c->out_w; ow++) {
                uint32_t iw = ow * c->stride_w + kw * c->dilation_w - c->pad_w;
                *col++ = ih < c->in_h && iw < c->in_w ? plane[(size_t)ih * c->in_w + iw] : 0.0f;
            }
        }
    }
}

static void add_rolled(const struct uw_conv2d *c, const float *col, float *x)
{
    struct columns u = columns_of(c);
    for (uint32_t r = 0; r < u.rows; r++) {
        uint32_t kw = r % c->kernel_w, kh = r / c->kernel_w % c->kernel_h;
        float *plane = x + (size_t)(r / c->kernel_w / c->kernel_h) * c->in_h * c->in_w;
        for (uint32_t oh = 0; oh < c->out_h; oh++) {
            uint32_t ih = oh * c->stride_h + kh * c->dilation_h - c->pad_h;
            for (uint32_t ow = 0; ow < c->out_w; ow++, col++) {
                uint32_t iw = ow * c->stride_w + kw * c->dilation_w - c->pad_w;
                if (ih < c->in_h && iw < c->in_w) {
                    plane[(size_t)ih * c->in_w + iw] += *col;
                }
            }
        }
    }
}

static int conv2d_fw(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    struct columns u = columns_of(c);
    if (e->scratch_bytes < scratch_bytes(e->kernels, c, batch_n, 1)) {
        return UW_ERR_NOMEM;
    }
    float *col = e->scratch;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t o = 0; o < c->out_channels; o++) {
            for (uint32_t i = 0; i < u.pixels; i++) {
                float *at = &y[(size_t)o * u.pixels + i];
                *at = (accumulate ? *at : 0.0f) + (b != NULL ? b[o] : 0.0f);
            }
        }
        for (uint32_t g = 0; g < c->groups; g++) {
            unroll(c, x, col);
            const struct uw_gemm m = {.m = u.outputs, .n = u.pixels, .k = u.rows, .lda = u.rows,
                                      .ldb = u.pixels, .ldc = u.pixels, .alpha = 1.0f};
            multiply(&m, w + (size_t)g * u.outputs * u.rows, col, y);
            x += (size_t)u.channels * c->in_h * c->in_w;
            y += (size_t)u.outputs * u.pixels;
        }
    }
    return UW_OK;
}

static int conv2d_bw_input(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    struct columns u = columns_of(c);
    size_t col_n = (size_t)u.rows * u.pixels, in_n = (size_t)u.channels * c->in_h * c->in_w;
    if (e->scratch_bytes < scratch_bytes(e->kernels, c, batch_n, 1)) {
        return UW_ERR_NOMEM;
    }
    float *col = e->scratch;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t g = 0; g < c->groups; g++) {
            memset(col, 0, col_n * sizeof *col);
            const struct uw_gemm m = {.trans_a = true, .m = u.rows, .n = u.pixels, .k = u.outputs,
                                      .lda = u.rows, .ldb = u.pixels, .ldc = u.pixels,
                                      .alpha = 1.0f};
            multiply(&m, w + (size_t)g * u.outputs * u.rows, dy, col);
            if (!accumulate) {
                memset(dx, 0, in_n * sizeof *dx);
            }
            add_rolled(c, col, dx);
            dy += (size_t)u.outputs * u.pixels;
            dx += in_n;
        }
    }
    return UW_OK;
}

static int conv2d_bw_param(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    struct columns u = columns_of(c);
    if (e->scratch_bytes < scratch_bytes(e->kernels, c, batch_n, 1)) {
        return UW_ERR_NOMEM;
    }
    float *col = e->scratch;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t o = 0; o < c->out_channels && db != NULL; o++) {
            for (uint32_t i = 0; i < u.pixels; i++) {
                db[o] += scale * dy[(size_t)o * u.pixels + i];
            }
        }
        for (uint32_t g = 0; g < c->groups; g++) {
            if (dw != NULL) {
                unroll(c, x, col);
                const struct uw_gemm m = {.m = u.outputs, .n = u.rows, .k = u.pixels,
                                          .lda = u.pixels, .ldb = u.pixels, .ldc = u.rows,
                                          .alpha = scale};
                multiply_rows(&m, dy, col, dw + (size_t)g * u.outputs * u.rows);
            }
            x += (size_t)u.channels * c->in_h * c->in_w;
            dy += (size_t)u.outputs * u.pixels;
        }
    }
    return UW_OK;
}

static int dense_fw(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y)
{
    (void)e;
    for (uint32_t i = 0; i < batch_n * d->out; i++) {
        y[i] = b != NULL ? b[i % d->out] : 0.0f;
    }
    const struct uw_gemm m = {.m = batch_n, .n = d->out, .k = d->in, .lda = d->in, .ldb = d->in,
                              .ldc = d->out, .alpha = 1.0f};
    multiply_rows(&m, x, w, y);
    return UW_OK;
}

static int dense_bw_input(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate)
{
    (void)e;
    if (!accumulate) {
        memset(dx, 0, (size_t)batch_n * d->in * sizeof *dx);
    }
    const struct uw_gemm m = {.m = batch_n, .n = d->in, .k = d->out, .lda = d->out, .ldb = d->in,
                              .ldc = d->in, .alpha = 1.0f};
    multiply(&m, dy, w, dx);
    return UW_OK;
}

static int dense_bw_param(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db)
{
    (void)e;
    for (uint32_t i = 0; i < batch_n * d->out && db != NULL; i++) {
        db[i % d->out] += scale * dy[i];
    }
    if (dw != NULL) {
        const struct uw_gemm m = {.trans_a = true, .m = d->out, .n = d->in, .k = batch_n,
                                  .lda = d->out, .ldb = d->in, .ldc = d->in, .alpha = scale};
        multiply(&m, dy, x, dw);
    }
    return UW_OK;
}

void uw_bench_plain_kernels(struct uw_kernels *k)
{
    *k = uw_kernels_ref;
    k->name = "plain";
    k->gemm = gemm;
    k->conv2d_fw = conv2d_fw;
    k->conv2d_bw_input = conv2d_bw_input;
    k->conv2d_bw_param = conv2d_bw_param;
    k->conv2d_scratch_bytes = scratch_bytes;
    k->dense_fw = dense_fw;
    k->dense_bw_input = dense_bw_input;
    k->dense_bw_param = dense_bw_param;
}
