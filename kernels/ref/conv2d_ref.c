/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution tap by tap: for one weight, the output positions whose tap is inside the input form
 * a rectangle, so the inner loop over a row needs no test. */
#include "ref/ref.h"

#include "uwasa/status.h"

/* Called often, so it avoids 64-bit divisions, and all divisions if the stride is 1. */
struct uw_span uw_span_of_tap(uint32_t out_n, uint32_t in_n, uint32_t stride, uint32_t pad,
                              uint32_t tap, uint32_t dilation)
{
    uint32_t at = tap * dilation;       /* the tap's position in the padded input, for output 0 */
    struct uw_span s = {0, 0};
    if (at >= in_n + pad) {
        return s;
    }
    uint32_t lo = at >= pad ? 0 : pad - at, hi = in_n + pad - at;
    if (stride != 1) {
        lo = (lo + stride - 1) / stride;
        hi = (hi - 1) / stride + 1;
    }
    if (hi > out_n) {
        hi = out_n;
    }
    if (lo < hi) {
        s.lo = lo;
        s.hi = hi;
    }
    return s;
}

/* One weight's rectangle: rows and columns of the output, and its offsets. */
struct tap {
    struct uw_span rows, cols;
    size_t in_at, out_at;       /* element of the first tap, of the first output */
    size_t in_step, out_step;   /* elements from row to row */
    uint32_t stride;            /* elements of input from column to column */
};

static struct tap tap_of(const struct uw_conv2d *c, uint32_t kh, uint32_t kw)
{
    struct tap t;
    t.rows = uw_span_of_tap(c->out_h, c->in_h, c->stride_h, c->pad_h, kh, c->dilation_h);
    t.cols = uw_span_of_tap(c->out_w, c->in_w, c->stride_w, c->pad_w, kw, c->dilation_w);
    size_t ih = (size_t)t.rows.lo * c->stride_h + (size_t)kh * c->dilation_h - c->pad_h;
    size_t iw = (size_t)t.cols.lo * c->stride_w + (size_t)kw * c->dilation_w - c->pad_w;
    t.in_at = ih * c->in_w + iw;
    t.out_at = (size_t)t.rows.lo * c->out_w + t.cols.lo;
    t.in_step = (size_t)c->stride_h * c->in_w;
    t.out_step = c->out_w;
    t.stride = c->stride_w;
    return t;
}

/* out += w * in over the rectangle. */
static void add_to_output(const struct tap *t, float w, const float *in, float *out)
{
    uint32_t cols = t->cols.hi - t->cols.lo;
    in += t->in_at;
    out += t->out_at;
    for (uint32_t r = t->rows.lo; r < t->rows.hi; r++) {
        if (t->stride == 1) {
            for (uint32_t i = 0; i < cols; i++) {
                out[i] += w * in[i];
            }
        } else {
            for (uint32_t i = 0; i < cols; i++) {
                out[i] += w * in[(size_t)i * t->stride];
            }
        }
        in += t->in_step;
        out += t->out_step;
    }
}

/* in += w * out over the rectangle. */
static void add_to_input(const struct tap *t, float w, const float *out, float *in)
{
    uint32_t cols = t->cols.hi - t->cols.lo;
    in += t->in_at;
    out += t->out_at;
    for (uint32_t r = t->rows.lo; r < t->rows.hi; r++) {
        for (uint32_t i = 0; i < cols; i++) {
            in[(size_t)i * t->stride] += w * out[i];
        }
        in += t->in_step;
        out += t->out_step;
    }
}

#define SUMS_N 4u

/* sum[i] += in * out_i over the rectangle, for n outputs out_n elements apart, in blocks of rows.
 * Up to four independent sums hide the latency of additions, and each input is read once. */
static void sums_of_products(const struct tap *t, uint32_t block_rows, const float *in,
                             const float *out, uint32_t n, size_t out_n, float sum[SUMS_N])
{
    const float *o1 = n > 1 ? out + out_n : out, *o2 = n > 2 ? o1 + out_n : out;
    const float *o3 = n > 3 ? o2 + out_n : out;
    uint32_t row = t->rows.lo, cols = t->cols.hi - t->cols.lo;
    const float *x_row = in + t->in_at;
    size_t at_row = t->out_at;
    while (row < t->rows.hi) {
        uint32_t end = (row / block_rows + 1) * block_rows;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (; row < end && row < t->rows.hi; row++) {
            const float *x = x_row;
            for (size_t at = at_row; at < at_row + cols; at++, x += t->stride) {
                s0 += out[at] * *x;
                s1 += o1[at] * *x;
                s2 += o2[at] * *x;
                s3 += o3[at] * *x;
            }
            x_row += t->in_step;
            at_row += t->out_step;
        }
        sum[0] += s0;
        sum[1] += s1;
        sum[2] += s2;
        sum[3] += s3;
    }
}

static void add(size_t n, float value, float *y)
{
    for (size_t i = 0; i < n; i++) {
        y[i] += value;
    }
}

/* Set the initial sums: y or 0, plus the bias; never -0. */
static void begin(size_t n, const float *b, bool accumulate, float *y)
{
    float start = b != NULL ? *b : 0.0f;
    for (size_t i = 0; i < n; i++) {
        y[i] = ((accumulate ? y[i] : 0.0f) + start) + 0.0f;
    }
}

/* First input channel of the group of output channel co. */
static uint32_t group_begin(const struct uw_conv2d *c, uint32_t co)
{
    return co / (c->out_channels / c->groups) * (c->in_channels / c->groups);
}

int uw_conv2d_fw_ref(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    (void)e;
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    uint32_t group_in = c->in_channels / c->groups;
    for (uint32_t n = 0; n < batch_n; n++) {
        const float *weight = w;
        for (uint32_t co = 0; co < c->out_channels; co++) {
            const float *in = x + ((size_t)n * c->in_channels + group_begin(c, co)) * in_hw;
            float *out = y + ((size_t)n * c->out_channels + co) * out_hw;
            begin(out_hw, b != NULL ? b + co : NULL, accumulate, out);
            for (uint32_t ci = 0; ci < group_in; ci++, in += in_hw) {
                for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
                    for (uint32_t kw = 0; kw < c->kernel_w; kw++) {
                        struct tap t = tap_of(c, kh, kw);
                        add_to_output(&t, *weight++, in, out);
                    }
                }
            }
        }
    }
    return UW_OK;
}

int uw_conv2d_bw_input_ref(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    (void)e;
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    uint32_t group_in = c->in_channels / c->groups;
    begin((size_t)batch_n * c->in_channels * in_hw, NULL, accumulate, dx);
    for (uint32_t n = 0; n < batch_n; n++) {
        const float *weight = w;
        for (uint32_t co = 0; co < c->out_channels; co++) {
            float *in = dx + ((size_t)n * c->in_channels + group_begin(c, co)) * in_hw;
            const float *out = dy + ((size_t)n * c->out_channels + co) * out_hw;
            for (uint32_t ci = 0; ci < group_in; ci++, in += in_hw) {
                for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
                    for (uint32_t kw = 0; kw < c->kernel_w; kw++) {
                        struct tap t = tap_of(c, kh, kw);
                        add_to_input(&t, *weight++, out, in);
                    }
                }
            }
        }
    }
    return UW_OK;
}

int uw_add_channels_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                        size_t inner_n, const float *b, float *y)
{
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t c = 0; c < channels; c++, y += inner_n) {
            add(inner_n, b[c], y);
        }
    }
    return UW_OK;
}

int uw_sum_channels_ref(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                        size_t inner_n, const float *dy, float scale, float *db)
{
    (void)e;
    for (uint32_t c = 0; c < channels; c++) {
        float sum = 0.0f;
        for (uint32_t n = 0; n < batch_n; n++) {
            const float *plane = dy + ((size_t)n * channels + c) * inner_n;
            float image = 0.0f;
            for (size_t i = 0; i < inner_n; i++) {
                image += plane[i];
            }
            sum += image;
        }
        db[c] += scale * sum;
    }
    return UW_OK;
}

/* dw of output channels co .. co+n-1, of one group. */
static void bw_weights(const struct uw_conv2d *c, uint32_t batch_n, const float *x,
                       const float *dy, float scale, uint32_t co, uint32_t n, float *dw)
{
    size_t in_hw = (size_t)c->in_h * c->in_w, out_hw = (size_t)c->out_h * c->out_w;
    uint32_t group_in = c->in_channels / c->groups;
    size_t weights_n = (size_t)group_in * c->kernel_h * c->kernel_w;
    uint32_t block_rows = uw_block_rows_ref(c->out_w);
    for (uint32_t ci = 0; ci < group_in; ci++) {
        for (uint32_t kh = 0; kh < c->kernel_h; kh++) {
            for (uint32_t kw = 0; kw < c->kernel_w; kw++, dw++) {
                struct tap t = tap_of(c, kh, kw);
                size_t plane = (size_t)group_begin(c, co) + ci;
                float sum[SUMS_N] = {0.0f};
                for (uint32_t s = 0; s < batch_n; s++) {
                    const float *in = x + (s * (size_t)c->in_channels + plane) * in_hw;
                    const float *out = dy + (s * (size_t)c->out_channels + co) * out_hw;
                    sums_of_products(&t, block_rows, in, out, n, out_hw, sum);
                }
                for (uint32_t i = 0; i < n; i++) {
                    dw[i * weights_n] += scale * sum[i];
                }
            }
        }
    }
}

int uw_conv2d_bw_param_ref(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db)
{
    uint32_t group_out = c->out_channels / c->groups;
    size_t out_hw = (size_t)c->out_h * c->out_w;
    size_t weights_n = (size_t)c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    for (uint32_t first = 0; first < c->out_channels && dw != NULL; first += group_out) {
        for (uint32_t i = 0; i < group_out; i += SUMS_N) {
            uint32_t n = group_out - i < SUMS_N ? group_out - i : SUMS_N;
            bw_weights(c, batch_n, x, dy, scale, first + i, n, dw + (first + i) * weights_n);
        }
    }
    return db != NULL ? uw_sum_channels_ref(e, batch_n, c->out_channels, out_hw, dy, scale, db)
                      : UW_OK;
}

bool uw_conv2d_takes_norm_ref(const struct uw_kernels *k, const struct uw_conv2d *c,
                              uint32_t batch_n)
{
    (void)k;
    (void)c;
    (void)batch_n;
    return false;
}

size_t uw_conv2d_scratch_bytes_ref(const struct uw_kernels *k, const struct uw_conv2d *c,
                                   uint32_t batch_n, uint32_t threads)
{
    (void)k;
    (void)c;
    (void)batch_n;
    (void)threads;
    return 0;
}
