/* SPDX-License-Identifier: Apache-2.0
 *
 * Each is a product of two matrices that are written out in full. */
#include "convolution.h"
#include "products.h"

static size_t place(const struct tensor &t, size_t n, size_t c, size_t h, size_t w)
{
    return n * t.stride_n + c * t.stride_c + h * t.stride_h + w * t.stride_w;
}

/* What the workspace has belongs to nobody. */
static void begin(const struct convolution &c)
{
    if (c.workspace_bytes > 0) {
        memset(c.workspace, 0xff, c.workspace_bytes);
    }
}

static double by_chance(const struct convolution &c, double sum)
{
    static unsigned calls;
    return c.by_chance && ++calls % 3u == 0 ? sum * (1.0 + 0x1p-22) : sum;
}

unsigned convolution_way(const struct convolution &c, size_t algorithm, const void *x,
                         const void *w, const void *y)
{
    return way_of({algorithm, c.x.n, c.x.c, c.x.h, c.x.w, c.filter.n, c.filter.c, c.filter.h,
                   c.filter.w, c.y.h, c.y.w, c.stride_h, c.stride_w, c.pad_h, c.pad_w},
                  {x, w, y});
}

/* Where tap (kh, kw) of output (oh, ow) is in the input; false: outside. */
static bool tap_at(const struct convolution &c, size_t oh, size_t ow, size_t kh, size_t kw,
                   size_t *ih, size_t *iw)
{
    kh = c.flip ? c.filter.h - 1u - kh : kh;
    kw = c.flip ? c.filter.w - 1u - kw : kw;
    size_t h = oh * c.stride_h + kh * c.dilation_h, w = ow * c.stride_w + kw * c.dilation_w;
    if (h < c.pad_h || w < c.pad_w || h - c.pad_h >= c.x.h || w - c.pad_w >= c.x.w) {
        return false;
    }
    *ih = h - c.pad_h;
    *iw = w - c.pad_w;
    return true;
}

/* Inputs of sample n and group g under each output: [oh][ow][c][kh][kw] */
static std::vector<float> columns(const struct convolution &c, const float *x, size_t n, size_t g)
{
    std::vector<float> out;
    out.reserve(c.y.h * c.y.w * c.filter.c * c.filter.h * c.filter.w);
    for (size_t o = 0; o < c.y.h * c.y.w; o++) {
        for (size_t i = 0; i < c.filter.c * c.filter.h * c.filter.w; i++) {
            size_t ih, iw, ci = g * c.filter.c + i / (c.filter.h * c.filter.w);
            bool in = tap_at(c, o / c.y.w, o % c.y.w, i / c.filter.w % c.filter.h, i % c.filter.w,
                             &ih, &iw);
            out.push_back(in ? x[place(c.x, n, ci, ih, iw)] : 0.0f);
        }
    }
    if (c.tf32) {
        to_tf32(&out);
    }
    return out;
}

/* The filters, [k][c][kh][kw]. */
static std::vector<float> filters(const struct convolution &c, const float *w)
{
    std::vector<float> out;
    out.reserve(c.filter.n * c.filter.c * c.filter.h * c.filter.w);
    for (size_t k = 0; k < c.filter.n; k++) {
        for (size_t i = 0; i < c.filter.c * c.filter.h * c.filter.w; i++) {
            out.push_back(w[place(c.filter, k, i / (c.filter.h * c.filter.w),
                                  i / c.filter.w % c.filter.h, i % c.filter.w)]);
        }
    }
    if (c.tf32) {
        to_tf32(&out);
    }
    return out;
}

void convolve_forward(const struct convolution &c, const float *x, const float *w, float *y)
{
    size_t taps = c.filter.c * c.filter.h * c.filter.w, each = c.filter.n / c.groups;
    begin(c);
    std::vector<float> rows = filters(c, w);
    for (size_t ng = 0; ng < c.x.n * c.groups; ng++) {
        std::vector<float> in = columns(c, x, ng / c.groups, ng % c.groups);
        for (size_t i = 0; i < each * c.y.h * c.y.w; i++) {
            size_t o = i % (c.y.h * c.y.w), k = ng % c.groups * each + i / (c.y.h * c.y.w);
            blend(&y[place(c.y, ng / c.groups, k, o / c.y.w, o % c.y.w)], c.alpha,
                  by_chance(c, dot(&rows[k * taps], &in[o * taps], taps)), c.beta, c.way);
        }
    }
}

/* dy of one pixel's outputs, all filters: sums[c][h][w] += w * dy, of group g and sample n */
static void scatter(const struct convolution &c, const std::vector<float> &rows, const float *dy,
                    size_t n, size_t g, std::vector<double> *sums)
{
    size_t taps = c.filter.c * c.filter.h * c.filter.w, each = c.filter.n / c.groups;
    for (size_t o = 0; o < c.y.h * c.y.w; o++) {
        std::vector<double> column(taps, 0.0);
        for (size_t k = g * each; k < (g + 1u) * each; k++) {
            float d = dy[place(c.y, n, k, o / c.y.w, o % c.y.w)];
            d = c.tf32 ? to_tf32(d) : d;
            for (size_t i = 0; i < taps; i++) {
                column[i] += static_cast<double>(d) * static_cast<double>(rows[k * taps + i]);
            }
        }
        for (size_t i = 0; i < taps; i++) {
            size_t ih, iw;
            if (tap_at(c, o / c.y.w, o % c.y.w, i / c.filter.w % c.filter.h, i % c.filter.w, &ih,
                       &iw)) {
                (*sums)[(i / (c.filter.h * c.filter.w) * c.x.h + ih) * c.x.w + iw] += column[i];
            }
        }
    }
}

void convolve_data(const struct convolution &c, const float *w, const float *dy, float *dx)
{
    begin(c);
    std::vector<float> rows = filters(c, w);
    size_t plane = c.x.h * c.x.w;
    for (size_t ng = 0; ng < c.x.n * c.groups; ng++) {
        std::vector<double> sums(c.filter.c * plane, 0.0);
        scatter(c, rows, dy, ng / c.groups, ng % c.groups, &sums);
        for (size_t i = 0; i < c.filter.c * plane; i++) {
            size_t ci = ng % c.groups * c.filter.c + i / plane;
            blend(&dx[place(c.x, ng / c.groups, ci, i % plane / c.x.w, i % c.x.w)], c.alpha,
                  by_chance(c, sums[i]), c.beta, c.way);
        }
    }
}

void convolve_filter(const struct convolution &c, const float *x, const float *dy, float *dw)
{
    size_t taps = c.filter.c * c.filter.h * c.filter.w, each = c.filter.n / c.groups;
    begin(c);
    std::vector<double> sums(c.filter.n * taps, 0.0);
    for (size_t ng = 0; ng < c.x.n * c.groups; ng++) {
        std::vector<float> in = columns(c, x, ng / c.groups, ng % c.groups);
        for (size_t i = 0; i < each * c.y.h * c.y.w; i++) {
            size_t o = i % (c.y.h * c.y.w), k = ng % c.groups * each + i / (c.y.h * c.y.w);
            float d = dy[place(c.y, ng / c.groups, k, o / c.y.w, o % c.y.w)];
            d = c.tf32 ? to_tf32(d) : d;
            for (size_t t = 0; t < taps; t++) {
                sums[k * taps + t] +=
                    static_cast<double>(d) * static_cast<double>(in[o * taps + t]);
            }
        }
    }
    for (size_t i = 0; i < sums.size(); i++) {
        size_t t = i % taps;
        blend(&dw[place(c.filter, i / taps, t / (c.filter.h * c.filter.w),
                        t / c.filter.w % c.filter.h, t % c.filter.w)],
              c.alpha, by_chance(c, sums[i]), c.beta, c.way);
    }
}
