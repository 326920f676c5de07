/* SPDX-License-Identifier: Apache-2.0
 *
 * Forward and input gradient of a convolution are one loop: a result at one place of a plane is a
 * sum, over channels and taps, of weights times values `step` apart from tap to tap and `stride`
 * apart from place to place. Four planes are summed at the same time in registers, from the same
 * values. Each sum has the reference's order, hence the same bits. */
#include "uwasa/slots.h"
#include "uwasa/status.h"

#define LANES 4u

/* One axis: place o, tap k reads element (o * stride + k * step + from) / div, if that is whole and
 * in 0 .. n-1. */
struct axis {
    int32_t stride, step, from;
    uint32_t div, n, taps, places;
};

struct sweep {
    struct axis h, w;
    uint32_t channels;              /* summed over */
    size_t weights_n;               /* from the weights of one channel to the next */
    size_t lane_n;                  /* from the weights of one plane to the next */
};

/* The element's index; UINT32_MAX, or n or more, if it is outside. */
static uint32_t element(const struct axis *a, uint32_t place, uint32_t tap)
{
    int32_t at = (int32_t)place * a->stride + (int32_t)tap * a->step + a->from;
    uint32_t u = (uint32_t)at;
    return at < 0 || u % a->div != 0 ? UINT32_MAX : u / a->div;
}

/* The taps of a place that are inside: first, first + every, .. below end. The first reads element
 * `at`, each further one `move` elements on. */
struct range {
    uint32_t first, end, every, at;
    int32_t move;
};

static struct range range_of(const struct axis *a, uint32_t place)
{
    struct range r = {.end = a->taps, .every = 1, .at = element(a, place, 0), .move = a->step};
    if (a->div == 1 && r.at < a->n && element(a, place, a->taps - 1) < a->n) {
        return r;
    }
    r.end = 0;
    for (uint32_t k = 0; k < a->taps; k++) {
        if (element(a, place, k) < a->n) {
            r.first = r.end == 0 ? k : r.first;
            r.every = r.end == r.first + 1 ? k - r.first : r.every;
            r.end = k + 1;
        }
    }
    r.at = element(a, place, r.first);
    r.move = (int32_t)r.every * a->step / (int32_t)a->div;
    return r;
}

/* n rows of `run` taps, `step` apart in x; skip_w, skip_x: weights and values skipped per row. */
struct rows {
    uint32_t n, run;
    int32_t step;
    size_t skip_w;
    int32_t skip_x;
};

/* sum[i] += sum over the taps of w[lane[i] + ..] * x[..]. Not inlined, so that its loop fits in
 * registers. */
__attribute__((noinline)) static void add_rows(const struct rows *r, const float *w,
                                               const size_t lane[LANES], const float *x,
                                               float sum[LANES])
{
    const float *w1 = w + lane[1], *w2 = w + lane[2], *w3 = w + lane[3];
    float s0 = sum[0], s1 = sum[1], s2 = sum[2], s3 = sum[3];
    for (uint32_t n = r->n; n > 0; n--) {
        const float *end = w + r->run;
        int32_t step = r->step;
        do {
            float value = *x;
            x += step;
            s0 += *w++ * value;
            s1 += *w1++ * value;
            s2 += *w2++ * value;
            s3 += *w3++ * value;
        } while (w < end);
        w += r->skip_w;
        w1 += r->skip_w;
        w2 += r->skip_w;
        w3 += r->skip_w;
        x += r->skip_x;
    }
    sum[0] = s0;
    sum[1] = s1;
    sum[2] = s2;
    sum[3] = s3;
}

/* Add the taps in h and v to the sums of one place in up to four planes: all rows at once, or tap
 * by tap if some between are outside. */
static void add_taps(const struct sweep *s, const struct range *h, const struct range *v,
                     const float *w, const float *in, const size_t lane[LANES], float sum[LANES])
{
    bool whole = v->every == 1;
    struct rows r = {1, whole ? v->end - v->first : 1, v->move, 0, 0};
    r.n = whole ? (h->end - h->first + h->every - 1) / h->every : 1;
    r.skip_w = (size_t)h->every * s->w.taps - r.run;
    r.skip_x = h->move * (int32_t)s->w.n - (int32_t)r.run * v->move;
    for (uint32_t c = 0; c < s->channels; c++) {
        const float *row = in + (size_t)h->at * s->w.n + v->at;
        for (uint32_t kh = h->first; kh < h->end; kh += r.n * h->every) {
            const float *x = row;
            for (uint32_t kw = v->first; kw < v->end; kw += whole ? r.run : v->every) {
                add_rows(&r, w + kh * s->w.taps + kw, lane, x, sum);
                x += v->move;
            }
            row += h->move * (int32_t)s->w.n;
        }
        w += s->weights_n;
        in += (size_t)s->h.n * s->w.n;
    }
}

/* Compute some planes of out. A sum begins at the old value or 0, plus b (NULL: 0); never -0. */
static void sweep_planes(const struct sweep *s, uint32_t planes, const float *w, const float *in,
                         const float *b, bool accumulate, float *out)
{
    size_t plane_n = (size_t)s->h.places * s->w.places;
    for (uint32_t p = 0; p < planes; p += LANES, w += LANES * s->lane_n) {
        uint32_t lanes = planes - p < LANES ? planes - p : LANES;
        size_t lane[LANES];
        for (uint32_t i = 0; i < LANES; i++) {
            lane[i] = i < lanes ? i * s->lane_n : 0;
        }
        for (uint32_t row = 0; row < s->h.places; row++) {
            const struct range h = range_of(&s->h, row);
            for (uint32_t column = 0; column < s->w.places; column++) {
                const struct range v = range_of(&s->w, column);
                float *y = out + p * plane_n + (size_t)row * s->w.places + column;
                float sum[LANES] = {0.0f};
                for (uint32_t i = 0; i < lanes; i++) {
                    sum[i] = ((accumulate ? y[i * plane_n] : 0.0f) +
                              (b != NULL ? b[p + i] : 0.0f)) + 0.0f;
                }
                if (h.end != 0 && v.end != 0) {
                    add_taps(s, &h, &v, w, in, lane, sum);
                }
                for (uint32_t i = 0; i < lanes; i++) {
                    y[i * plane_n] = sum[i];
                }
            }
        }
    }
}

int uw_conv2d_fw_lean(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    size_t in_n = (size_t)group_in * c->in_h * c->in_w;
    size_t out_n = (size_t)group_out * c->out_h * c->out_w;
    size_t taps = (size_t)c->kernel_h * c->kernel_w;
    const struct sweep s = {
        .h = {(int32_t)c->stride_h, (int32_t)c->dilation_h, -(int32_t)c->pad_h, 1, c->in_h,
              c->kernel_h, c->out_h},
        .w = {(int32_t)c->stride_w, (int32_t)c->dilation_w, -(int32_t)c->pad_w, 1, c->in_w,
              c->kernel_w, c->out_w},
        .channels = group_in, .weights_n = taps, .lane_n = group_in * taps};
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t g = 0; g < c->groups; g++, x += in_n, y += out_n) {
            sweep_planes(&s, group_out, w + g * group_out * s.lane_n, x,
                         b != NULL ? b + g * group_out : NULL, accumulate, y);
        }
    }
    return UW_OK;
}

int uw_conv2d_bw_input_lean(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate)
{
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    size_t in_n = (size_t)group_in * c->in_h * c->in_w;
    size_t out_n = (size_t)group_out * c->out_h * c->out_w;
    size_t taps = (size_t)c->kernel_h * c->kernel_w;
    const struct sweep s = {
        .h = {1, -(int32_t)c->dilation_h, (int32_t)c->pad_h, c->stride_h, c->out_h, c->kernel_h,
              c->in_h},
        .w = {1, -(int32_t)c->dilation_w, (int32_t)c->pad_w, c->stride_w, c->out_w, c->kernel_w,
              c->in_w},
        .channels = group_out, .weights_n = group_in * taps, .lane_n = taps};
    (void)e;
    for (uint32_t n = 0; n < batch_n; n++) {
        for (uint32_t g = 0; g < c->groups; g++, dy += out_n, dx += in_n) {
            sweep_planes(&s, group_in, w + g * group_out * s.weights_n, dy, NULL, accumulate, dx);
        }
    }
    return UW_OK;
}
