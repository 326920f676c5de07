/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions as products. A tap on padding adds a product with 0, which changes no sum unless it
 * began at -0. Convolutions with few rows (depthwise) call the reference, one image per task. */
#include "exact/exact_product.h"

#include "packed/sizes.h"
#include "ref/ref.h"
#include "uwasa/status.h"

#include <string.h>

#define FEW 4u
#define NR UW_EXACT_NR

/* Consecutive columns of a panel within one row of the plane. */
struct run {
    uint32_t first, n;
    int64_t row, col;               /* in the plane, before the tap's offset */
};

/* Divide columns j .. j+n-1 of a plane into runs. Returns their number. */
static uint32_t runs_of(uint32_t width, uint32_t j, uint32_t n, struct run *run)
{
    uint32_t runs = 0, done = 0;
    while (done < n) {
        uint32_t col = (j + done) % width;
        uint32_t length = min_u32(width - col, n - done);
        run[runs++] = (struct run){done, length, (j + done) / width, col};
        done += length;
    }
    return runs;
}

/* panel[i] = x[row][col + i * stride] for one run, 0 outside; forward. */
static void take_forward(const struct uw_conv2d *c, const float *x, const struct run *r,
                         int64_t row, int64_t col, float *panel)
{
    if (row < 0 || row >= c->in_h) {
        return;
    }
    x += row * c->in_w;
    if (c->stride_w == 1) {
        int64_t lo = col < 0 ? -col : 0, hi = (int64_t)c->in_w - col;
        hi = hi < r->n ? hi : r->n;
        for (int64_t i = lo; i < hi; i++) {
            panel[i] = x[col + i];
        }
        return;
    }
    for (uint32_t i = 0; i < r->n; i++, col += c->stride_w) {
        panel[i] = col >= 0 && col < c->in_w ? x[col] : 0.0f;
    }
}

static void pack_forward(const struct uw_exact_product *p, uint32_t image, uint32_t group,
                         uint32_t k, uint32_t k_n, uint32_t j, uint32_t n, float *panel)
{
    const struct uw_conv2d *c = p->conv;
    uint32_t taps = c->kernel_h * c->kernel_w, group_in = c->in_channels / c->groups;
    size_t in_hw = (size_t)c->in_h * c->in_w;
    const float *x = (const float *)p->b + ((size_t)image * c->in_channels +
                                            (size_t)group * group_in) * in_hw;
    struct run run[NR];
    uint32_t runs = runs_of(c->out_w, j, n, run);
    memset(panel, 0, (size_t)k_n * NR * sizeof *panel);
    for (uint32_t i = 0; i < k_n; i++, panel += NR) {
        uint32_t ci = (k + i) / taps, tap = (k + i) % taps;
        int64_t down = (int64_t)(tap / c->kernel_w) * c->dilation_h - c->pad_h;
        int64_t right = (int64_t)(tap % c->kernel_w) * c->dilation_w - c->pad_w;
        for (uint32_t r = 0; r < runs; r++) {
            take_forward(c, x + ci * in_hw, &run[r], run[r].row * c->stride_h + down,
                         run[r].col * c->stride_w + right, panel + run[r].first);
        }
    }
}

/* panel[i] = dy[row / stride][(col + i) / stride] for one run where both are whole, else 0. */
static void take_backward(const struct uw_conv2d *c, const float *dy, const struct run *r,
                          int64_t row, int64_t col, float *panel)
{
    if (row < 0 || row % c->stride_h != 0 || row / c->stride_h >= c->out_h) {
        return;
    }
    dy += row / c->stride_h * c->out_w;
    if (c->stride_w == 1) {
        int64_t lo = col < 0 ? -col : 0, hi = (int64_t)c->out_w - col;
        hi = hi < r->n ? hi : r->n;
        for (int64_t i = lo; i < hi; i++) {
            panel[i] = dy[col + i];
        }
        return;
    }
    for (uint32_t i = 0; i < r->n; i++, col++) {
        bool inside = col >= 0 && col % c->stride_w == 0 && col / c->stride_w < c->out_w;
        panel[i] = inside ? dy[col / c->stride_w] : 0.0f;
    }
}

static void pack_backward(const struct uw_exact_product *p, uint32_t image, uint32_t group,
                          uint32_t k, uint32_t k_n, uint32_t j, uint32_t n, float *panel)
{
    const struct uw_conv2d *c = p->conv;
    uint32_t taps = c->kernel_h * c->kernel_w, group_out = c->out_channels / c->groups;
    size_t out_hw = (size_t)c->out_h * c->out_w;
    const float *dy = (const float *)p->b + ((size_t)image * c->out_channels +
                                             (size_t)group * group_out) * out_hw;
    struct run run[NR];
    uint32_t runs = runs_of(c->in_w, j, n, run);
    memset(panel, 0, (size_t)k_n * NR * sizeof *panel);
    for (uint32_t i = 0; i < k_n; i++, panel += NR) {
        uint32_t co = (k + i) / taps, tap = (k + i) % taps;
        int64_t down = (int64_t)c->pad_h - (int64_t)(tap / c->kernel_w) * c->dilation_h;
        int64_t right = (int64_t)c->pad_w - (int64_t)(tap % c->kernel_w) * c->dilation_w;
        for (uint32_t r = 0; r < runs; r++) {
            take_backward(c, dy + co * out_hw, &run[r], run[r].row + down, run[r].col + right,
                          panel + run[r].first);
        }
    }
}

/* Rows of B are output positions, columns are taps. A block is whole rows of the output. */
static void pack_taps(const struct uw_exact_product *p, uint32_t image, uint32_t group, uint32_t k,
                      uint32_t k_n, uint32_t j, uint32_t n, float *panel)
{
    (void)image;
    const struct uw_conv2d *c = p->conv;
    uint32_t taps = c->kernel_h * c->kernel_w, group_in = c->in_channels / c->groups;
    uint32_t out_hw = c->out_h * c->out_w;
    size_t in_hw = (size_t)c->in_h * c->in_w;
    const float *x = (const float *)p->b + ((size_t)(k / out_hw) * c->in_channels +
                                            (size_t)group * group_in) * in_hw;
    uint32_t first = k % out_hw / c->out_w, rows = k_n / c->out_w;
    memset(panel, 0, (size_t)k_n * NR * sizeof *panel);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ci = (j + i) / taps, kh = (j + i) % taps / c->kernel_w, kw = (j + i) % c->kernel_w;
        struct uw_span cols = uw_span_of_tap(c->out_w, c->in_w, c->stride_w, c->pad_w, kw,
                                             c->dilation_w);
        for (uint32_t r = 0; r < rows; r++) {
            int64_t row = (int64_t)(first + r) * c->stride_h + (int64_t)kh * c->dilation_h -
                          c->pad_h;
            if (row < 0 || row >= c->in_h) {
                continue;
            }
            const float *from = x + ci * in_hw + row * c->in_w;
            int64_t at = (int64_t)cols.lo * c->stride_w + (int64_t)kw * c->dilation_w - c->pad_w;
            float *to = panel + (size_t)r * c->out_w * NR + i;
            for (uint32_t o = cols.lo; o < cols.hi; o++, at += c->stride_w) {
                to[(size_t)o * NR] = from[at];
            }
        }
    }
}

/* fw; or with `backward` the input gradient: then x is dy, and y is dx. */
struct images {
    const struct uw_exec *e;
    const struct uw_conv2d *c;
    const float *x, *w, *b;
    float *y;
    bool accumulate, backward;
};

static void image_task(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct images *s = arg;
    const struct uw_conv2d *c = s->c;
    size_t in_n = (size_t)c->in_channels * c->in_h * c->in_w;
    size_t out_n = (size_t)c->out_channels * c->out_h * c->out_w;
    if (s->backward) {
        uw_conv2d_bw_input_ref(s->e, c, 1, s->x + task * out_n, s->w, s->y + task * in_n,
                               s->accumulate);
    } else {
        uw_conv2d_fw_ref(s->e, c, 1, s->x + task * in_n, s->w, s->b, s->y + task * out_n,
                         s->accumulate);
    }
}

int uw_conv2d_fw_exact(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                       const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    uint32_t m = c->out_channels / c->groups;
    uint32_t k = c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    size_t out_hw = (size_t)c->out_h * c->out_w;
    if (m < FEW) {
        struct images s = {.e = e, .c = c, .x = x, .w = w, .b = b, .y = y,
                           .accumulate = accumulate};
        uw_workers_run(e->workers, image_task, &s, batch_n);
        return UW_OK;
    }
    const struct uw_exact_product p = {
        .m = m, .n = c->out_h * c->out_w, .k = k, .images = batch_n, .groups = c->groups,
        .block = UW_BLOCK_REF, .chained = true, .a = w, .row_a = k, .step_a = 1,
        .inner_a = UINT32_MAX, .group_a = (size_t)m * k, .alpha = 1.0f, .pack = pack_forward,
        .b = x, .conv = c, .c = y, .row_c = out_hw, .image_c = c->out_channels * out_hw,
        .group_c = m * out_hw, .beta = accumulate ? 1.0f : 0.0f, .bias = b};
    return uw_exact_product_run(e, &p);
}

int uw_conv2d_bw_input_exact(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                             const float *dy, const float *w, float *dx, bool accumulate)
{
    uint32_t m = c->in_channels / c->groups, taps = c->kernel_h * c->kernel_w;
    uint32_t group_out = c->out_channels / c->groups;
    size_t in_hw = (size_t)c->in_h * c->in_w;
    if (m < FEW) {
        struct images s = {.e = e, .c = c, .x = dy, .w = w, .y = dx, .accumulate = accumulate,
                           .backward = true};
        uw_workers_run(e->workers, image_task, &s, batch_n);
        return UW_OK;
    }
    const struct uw_exact_product p = {
        .m = m, .n = c->in_h * c->in_w, .k = group_out * taps, .images = batch_n,
        .groups = c->groups, .block = UW_BLOCK_REF, .chained = true, .a = w, .row_a = taps,
        .step_a = 1, .inner_a = taps, .outer_a = (size_t)m * taps,
        .group_a = (size_t)group_out * m * taps, .alpha = 1.0f, .pack = pack_backward, .b = dy,
        .conv = c, .c = dx, .row_c = in_hw, .image_c = c->in_channels * in_hw,
        .group_c = m * in_hw, .beta = accumulate ? 1.0f : 0.0f};
    return uw_exact_product_run(e, &p);
}

int uw_conv2d_bw_param_exact(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                             const float *x, const float *dy, float scale, float *dw, float *db)
{
    uint32_t m = c->out_channels / c->groups, out_hw = c->out_h * c->out_w;
    uint32_t n = c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    if (m < FEW || batch_n == 0 || dw == NULL || scale == 0.0f) {
        return uw_conv2d_bw_param_ref(e, c, batch_n, x, dy, scale, dw, db);
    }
    const struct uw_exact_product p = {
        .m = m, .n = n, .k = batch_n * out_hw, .images = 1, .groups = c->groups,
        .block = uw_block_rows_ref(c->out_w) * c->out_w, .period = out_hw, .a = dy,
        .row_a = out_hw, .step_a = 1, .inner_a = out_hw,
        .outer_a = (size_t)c->out_channels * out_hw, .group_a = (size_t)m * out_hw, .alpha = 1.0f,
        .pack = pack_taps, .b = x, .conv = c, .c = dw, .row_c = n, .group_c = (size_t)m * n,
        .scale = scale};
    int rc = uw_exact_product_run(e, &p);
    return rc < 0 ? rc : uw_conv2d_bw_param_ref(e, c, batch_n, x, dy, scale, NULL, db);
}

size_t uw_conv2d_scratch_bytes_exact(const struct uw_kernels *k, const struct uw_conv2d *c,
                                     uint32_t batch_n, uint32_t threads)
{
    (void)k;
    bool few = c->out_channels / c->groups < FEW && c->in_channels / c->groups < FEW;
    uint32_t block = c->out_w < UW_BLOCK_REF ? UW_BLOCK_REF : c->out_w;
    return few || batch_n == 0 ? 0 : uw_exact_product_scratch(block, threads);
}
