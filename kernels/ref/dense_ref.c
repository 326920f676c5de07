/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/status.h"

int uw_dense_fw_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y)
{
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++) {
        const float *row = w;
        for (uint32_t o = 0; o < d->out; o++) {
            *y++ = uw_dot_ref(d->in, x, row) + (b != NULL ? b[o] : 0.0f);
            row += d->in;
        }
        x += d->in;
    }
    return UW_OK;
}

/* y += a * x */
static void add_scaled(uint32_t n, float a, const float *x, float *y)
{
    for (uint32_t i = 0; i < n; i++) {
        y[i] += a * x[i];
    }
}

int uw_dense_bw_input_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate)
{
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++) {
        if (!accumulate) {
            for (uint32_t i = 0; i < d->in; i++) {
                dx[i] = 0.0f;
            }
        }
        for (uint32_t o = 0; o < d->out; o++) {
            add_scaled(d->in, *dy++, w + (size_t)o * d->in, dx);
        }
        dx += d->in;
    }
    return UW_OK;
}

int uw_dense_bw_param_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db)
{
    (void)e;
    for (uint32_t o = 0; o < d->out; o++) {
        float sum = 0.0f;
        for (uint32_t n = 0; n < batch_n; n++) {
            float g = dy[(size_t)n * d->out + o];
            if (dw != NULL) {
                add_scaled(d->in, scale * g, x + (size_t)n * d->in, dw + (size_t)o * d->in);
            }
            sum += g;
        }
        if (db != NULL) {
            db[o] += scale * sum;
        }
    }
    return UW_OK;
}

int uw_dense_bw_step_ref(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                         const float *x, const float *dy, float keep, float scale, float *w,
                         float *b, float *dx, bool accumulate)
{
    const struct uw_kernels *k = e->kernels;
    int rc = dx != NULL ? k->dense_bw_input(e, d, batch_n, dy, w, dx, accumulate) : UW_OK;
    if (rc == UW_OK && keep != 1.0f) {
        rc = k->axpby(e, (size_t)d->out * d->in, keep, w, 0.0f, w);
    }
    if (rc == UW_OK && keep != 1.0f && b != NULL) {
        rc = k->axpby(e, d->out, keep, b, 0.0f, b);
    }
    return rc < 0 ? rc : k->dense_bw_param(e, d, batch_n, x, dy, scale, w, b);
}

size_t uw_dense_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_dense *d,
                                  uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)d;
    (void)batch_n;
    (void)threads;
    return 0;
}
