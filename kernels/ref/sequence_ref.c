/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref.h"

#include "uwasa/fmath.h"
#include "uwasa/status.h"

static float sigmoid(float x)
{
    if (x < 0.0f) {
        float small = uw_expf(x);
        return small / (1.0f + small);
    }
    return 1.0f / (1.0f + uw_expf(-x));
}

static float at(const float *x, size_t i)
{
    return x != NULL ? x[i] : 0.0f;
}

static int rnn_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                  const float *b_hh, const float *a, float *h)
{
    (void)e;
    for (uint32_t n = 0; n < c->batch_n; n++, a += c->a_step, h += c->h_step) {
        for (uint32_t j = 0; j < c->hidden; j++) {
            float s = a[j] + at(b_ih, j) + at(b_hh, j);
            h[j] = !c->relu ? uw_tanhf(s) : s <= 0.0f ? 0.0f : s; /* NaN stays */
        }
    }
    return UW_OK;
}

static int rnn_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h,
                  const float *dy, float *a, const float *dh)
{
    (void)e;
    for (uint32_t n = 0; n < c->batch_n; n++, a += c->a_step, h += c->h_step, dh += c->hidden) {
        for (uint32_t j = 0; j < c->hidden; j++) {
            float d = dh[j] + at(dy, n * c->dy_step + j);
            a[j] = !c->relu ? d * (1.0f - h[j] * h[j]) : h[j] > 0.0f ? d : 0.0f;
        }
    }
    return UW_OK;
}

static int gru_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                  const float *b_hh, const float *h_prev, float *a, float *h)
{
    (void)e;
    size_t k = c->hidden;
    for (uint32_t n = 0; n < c->batch_n; n++, a += c->a_step) {
        for (size_t j = 0; j < k; j++) {
            size_t i = n * c->h_step + j;
            float r = sigmoid(a[j] + at(b_ih, j) + at(b_hh, j));
            float z = sigmoid(a[k + j] + at(b_ih, k + j) + at(b_hh, k + j));
            float m = (h_prev != NULL ? a[3 * k + j] : 0.0f) + at(b_hh, 2 * k + j);
            float g = uw_tanhf(a[2 * k + j] + at(b_ih, 2 * k + j) + r * m);
            a[j] = r;
            a[k + j] = z;
            a[2 * k + j] = g;
            a[3 * k + j] = m;
            h[i] = (1.0f - z) * g + z * at(h_prev, i);
        }
    }
    return UW_OK;
}

static int gru_bw(const struct uw_exec *e, const struct uw_cell *c, const float *h_prev,
                  const float *dy, float *a, float *dh)
{
    (void)e;
    size_t k = c->hidden;
    for (uint32_t n = 0; n < c->batch_n; n++, a += c->a_step, dh += k) {
        for (size_t j = 0; j < k; j++) {
            float d = dh[j] + at(dy, n * c->dy_step + j);
            float r = a[j], z = a[k + j], g = a[2 * k + j], m = a[3 * k + j];
            float dg = d * (1.0f - z) * (1.0f - g * g);
            a[j] = dg * m * r * (1.0f - r);
            a[k + j] = d * (at(h_prev, n * c->h_step + j) - g) * z * (1.0f - z);
            a[2 * k + j] = dg;
            a[3 * k + j] = dg * r;
            dh[j] = d * z;
        }
    }
    return UW_OK;
}

static int lstm_fw(const struct uw_exec *e, const struct uw_cell *c, const float *b_ih,
                   const float *b_hh, const float *c_prev, float *a, float *h)
{
    (void)e;
    size_t k = c->hidden;
    for (uint32_t n = 0; n < c->batch_n; n++, a += c->a_step, h += c->h_step) {
        for (size_t j = 0; j < k; j++) {
            float i = sigmoid(a[j] + at(b_ih, j) + at(b_hh, j));
            float f = sigmoid(a[k + j] + at(b_ih, k + j) + at(b_hh, k + j));
            float g = uw_tanhf(a[2 * k + j] + at(b_ih, 2 * k + j) + at(b_hh, 2 * k + j));
            float o = sigmoid(a[3 * k + j] + at(b_ih, 3 * k + j) + at(b_hh, 3 * k + j));
            float state = f * at(c_prev, n * c->a_step + j) + i * g;
            a[j] = i;
            a[k + j] = f;
            a[2 * k + j] = g;
            a[3 * k + j] = o;
            a[4 * k + j] = state;
            h[j] = o * uw_tanhf(state);
        }
    }
    return UW_OK;
}

static int lstm_bw(const struct uw_exec *e, const struct uw_cell *c, const float *c_prev,
                   const float *dy, float *a, const float *dh, float *dc)
{
    (void)e;
    size_t k = c->hidden;
    for (uint32_t n = 0; n < c->batch_n; n++, a += c->a_step, dh += k, dc += k) {
        for (size_t j = 0; j < k; j++) {
            float d = dh[j] + at(dy, n * c->dy_step + j);
            float i = a[j], f = a[k + j], g = a[2 * k + j], o = a[3 * k + j];
            float t = uw_tanhf(a[4 * k + j]);
            float dstate = dc[j] + d * o * (1.0f - t * t);
            a[j] = dstate * g * i * (1.0f - i);
            a[k + j] = dstate * at(c_prev, n * c->a_step + j) * f * (1.0f - f);
            a[2 * k + j] = dstate * i * (1.0f - g * g);
            a[3 * k + j] = d * t * o * (1.0f - o);
            dc[j] = dstate * f;
        }
    }
    return UW_OK;
}

static int softmax_fw(const struct uw_exec *e, size_t rows, uint32_t n, bool causal,
                      const float *x, float *y)
{
    (void)e;
    for (size_t r = 0; r < rows; r++, x += n, y += n) {
        uint32_t seen = causal ? (uint32_t)(r % n) + 1 : n;
        float top = x[0], sum = 0.0f;
        for (uint32_t j = 1; j < seen; j++) {
            top = x[j] > top ? x[j] : top;
        }
        for (uint32_t j = 0; j < seen; j++) {
            y[j] = uw_expf(x[j] - top);
            sum += y[j];
        }
        for (uint32_t j = 0; j < n; j++) {
            y[j] = j < seen ? y[j] / sum : 0.0f;
        }
    }
    return UW_OK;
}

static int softmax_bw_input(const struct uw_exec *e, size_t rows, uint32_t n, const float *y,
                            const float *dy, float *dx)
{
    (void)e;
    for (size_t r = 0; r < rows; r++, y += n, dy += n, dx += n) {
        float dot = uw_dot_ref(n, y, dy);
        for (uint32_t j = 0; j < n; j++) {
            dx[j] = y[j] * (dy[j] - dot);
        }
    }
    return UW_OK;
}

const struct uw_sequence_kernels uw_sequence_ref = {.rnn_fw = rnn_fw,
                                                    .rnn_bw = rnn_bw,
                                                    .gru_fw = gru_fw,
                                                    .gru_bw = gru_bw,
                                                    .lstm_fw = lstm_fw,
                                                    .lstm_bw = lstm_bw,
                                                    .softmax_fw = softmax_fw,
                                                    .softmax_bw_input = softmax_bw_input};
