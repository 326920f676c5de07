/* SPDX-License-Identifier: Apache-2.0 */
#include "packed/direct.h"
#include "packed/image_matrix.h"
#include "packed/packed.h"
#include "packed/sizes.h"
#include "packed/small.h"
#include "packed/sparse.h"
#include "packed/winograd.h"
#include "ref/ref.h"

#include "uwasa/status.h"

#include <string.h>

/* Does a group have too few channels to fill a register tile? Then it is treated as depthwise. */
static bool is_thin(const struct uw_conv2d *c)
{
    uint32_t group_out = c->out_channels / c->groups, group_in = c->in_channels / c->groups;
    return group_out < 3 || (c->groups > 1 && group_in < 3);
}

#define WIDE_MAX 65536u
#define PACK_COST 0.25
#define COPY_COST 0.8
#define PHASES_MAX 64u
#define SPARSE_SHARE 0.25           /* non-zero share of dy, roughly, before a max pool */

static bool has_taps(const struct uw_phase *p)
{
    return p->h.taps > 0 && p->w.taps > 0;
}

/* Do the elements of all images fit in 32-bit counts? */
static bool images_fit(const struct uw_tile *t, const struct uw_conv2d *c)
{
    struct uw_phase phase;
    struct uw_image x = uw_image_of_input(c, 1, NULL, false);
    bool fit = uw_image_fits(&x, t) && uw_phases(c) <= PHASES_MAX;
    for (uint32_t i = 0; fit && uw_phase_of(c, i, &phase); i++) {
        struct uw_image dy = uw_image_of_output_gradient(c, &phase, 1, NULL);
        fit = !has_taps(&phase) || uw_image_fits(&dy, t);
    }
    return fit;
}

/* With few rows of weights, computing some pixels too many and copying the valid ones costs less
 * than packing. Costs in vector multiply-adds: PACK_COST per tap, COPY_COST per row. */
static void widen(struct uw_image *v, const struct uw_tile *t, uint32_t rows)
{
    struct uw_image wide = *v;
    if (v->plain || t->multiply_runs == NULL || v->step_h != 1 || v->step_w != 1 ||
        v->out_w % UW_TILE_PIECE_N == 0) {
        return;
    }
    uw_image_widen(&wide);
    double have = (double)v->out_h * v->out_w, all = (double)wide.out_h * wide.pitch;
    double gain = PACK_COST - (all - have) / have * rows / 16.0;
    if (all + UW_TILE_PIECE_N <= WIDE_MAX && gain * uw_image_taps(v) > COPY_COST * rows) {
        *v = wide;
    }
}

/* Largest minibatch whose pixels, widened or not and rounded up to whole panels, fit in a 32-bit
 * count. */
static uint32_t batch_max(const struct uw_tile *t, const struct uw_conv2d *c)
{
    struct uw_image x = uw_image_of_input(c, 1, NULL, false);
    widen(&x, t, c->out_channels / c->groups);
    size_t most = uw_image_cols(&x);
    struct uw_phase phase;
    for (uint32_t i = 0; uw_phase_of(c, i, &phase); i++) {
        if (has_taps(&phase)) {
            struct uw_image dy = uw_image_of_output_gradient(c, &phase, 1, NULL);
            widen(&dy, t, c->in_channels / c->groups);
            most = larger(most, uw_image_cols(&dy));
        }
    }
    return (uint32_t)((UINT32_MAX - t->nr) / most);
}

enum method { PRODUCT, SMALL, WINOGRAD, DIRECT, REFERENCE };

static enum uw_small_part small_part(enum uw_winograd_part part)
{
    switch (part) {
    case UW_WINOGRAD_FW: return UW_SMALL_FW;
    case UW_WINOGRAD_BW_INPUT: return UW_SMALL_BW_INPUT;
    case UW_WINOGRAD_BW_PARAM: break;
    }
    return UW_SMALL_BW_PARAM;
}

/* c, or the same as a convolution of images one row high, whose rows are longer: a kernel one pixel
 * wide meets all pixels of a row alike. */
static const struct uw_conv2d *in_one_row(const struct uw_conv2d *c, struct uw_normed_conv2d *room)
{
    uint64_t widest = (uint64_t)c->in_w * (c->in_h + 2u * (uint64_t)c->pad_h);
    if (c->kernel_w != 1 || c->kernel_h == 1 || c->stride_h != 1 || c->stride_w != 1 ||
        c->pad_w != 0 || c->out_w != c->in_w || widest > INT32_MAX ||
        (uint64_t)c->in_w * c->dilation_h * c->kernel_h > INT32_MAX) {
        return c;
    }
    if (c->normed) {
        *room = *(const struct uw_normed_conv2d *)(const void *)c;
    }
    struct uw_conv2d row = *c;
    row.in_h = row.out_h = row.kernel_h = row.dilation_h = 1;
    row.pad_h = 0;
    row.in_w = c->in_w * c->in_h;
    row.out_w = c->out_w * c->out_h;
    row.kernel_w = c->kernel_h;
    row.dilation_w = c->in_w * c->dilation_h;
    row.pad_w = c->in_w * c->pad_h;
    room->conv2d = row;
    return &room->conv2d;
}

static enum method method_of(const struct uw_tile *t, const struct uw_conv2d *c,
                             enum uw_winograd_part part, uint32_t batch_n)
{
    if (is_thin(c)) {
        return uw_direct_fits(c, batch_n) ? DIRECT : REFERENCE;
    }
    if (!images_fit(t, c) || batch_n > batch_max(t, c)) {
        return REFERENCE;
    }
    if (c->normed && part != UW_WINOGRAD_BW_INPUT) {
        return PRODUCT;
    }
    if (uw_winograd_kind(t, c, part, batch_n) != NULL) {
        return WINOGRAD;
    }
    return uw_small_fits(t, c, small_part(part), batch_n) ? SMALL : PRODUCT;
}

/* Is it faster to skip the zeros of dy? Not where a 3 x 3 kernel can use Winograd. */
static bool is_sparse(const struct uw_tile *t, const struct uw_conv2d *c,
                      enum uw_winograd_part part, uint32_t batch_n, const float *dy)
{
    bool tiles = c->kernel_w <= 3 && uw_winograd_kind(t, c, part, batch_n) != NULL;
    return batch_n > 0 && !c->normed && !tiles &&
           uw_sparse_is_worth(t, c, small_part(part), batch_n, dy);
}

/* Store the pixels of v as lines `stride` floats apart, `step` floats from pixel to pixel. */
static void set_lines(struct uw_sink *c, const struct uw_image *v, uint32_t step, size_t stride)
{
    if (v->pitch > v->out_w || step > 1 || stride > v->out_w) {
        c->pitch = v->pitch;
        c->line_cols = v->out_w;
        c->lines = v->out_h;
        c->step = step;
        c->line_stride = stride;
    }
}

static struct uw_product fw_product(const struct uw_tile *t, const struct uw_conv2d *c,
                                    uint32_t threads, struct uw_image *v, const float *w,
                                    const float *b, float *y, bool accumulate)
{
    uint32_t group_out = c->out_channels / c->groups, taps = uw_image_taps(v);
    widen(v, t, group_out);
    size_t out_hw = (size_t)c->out_h * c->out_w;
    struct uw_product p = {.groups = c->groups, .m = group_out, .n = uw_image_pixels(v),
                           .k = taps, .beta = accumulate ? 1.0f : 0.0f, .bias = b,
                           .threads = threads};
    p.a = (struct uw_left){.base = w, .alpha = 1.0f, .row_stride = taps, .segment_n = taps,
                           .group_stride = (size_t)group_out * taps};
    p.c = (struct uw_sink){.base = y, .row_stride = out_hw, .image_cols = uw_image_cols(v),
                           .image_stride = out_hw * c->out_channels,
                           .group_stride = out_hw * group_out};
    set_lines(&p.c, v, 1, v->out_w);
    p.b.pack = uw_image_pack;
    p.b.locate = uw_image_has_runs(v, t, p.m) ? uw_image_locate : NULL;
    p.b.source = v;
    uw_product_cut(&p, t, c->kernel_h * c->kernel_w, false);
    uw_product_widen(&p, false);
    p.b.work_bytes = uw_image_work_bytes(v, p.n_room, p.k_room);
    return p;
}

static struct uw_product bw_input_product(const struct uw_tile *t, const struct uw_conv2d *c,
                                          uint32_t threads, const struct uw_phase *phase,
                                          struct uw_image *v, const float *w, float *dx,
                                          bool accumulate)
{
    const struct uw_phase_axis *ph = &phase->h, *pw = &phase->w;
    size_t first_tap = (size_t)ph->tap * c->kernel_w + pw->tap;
    size_t first_pixel = (size_t)ph->first * c->in_w + pw->first;
    uint32_t group_in = c->in_channels / c->groups, group_out = c->out_channels / c->groups;
    widen(v, t, group_in);
    size_t in_hw = (size_t)c->in_h * c->in_w, kernel = (size_t)c->kernel_h * c->kernel_w;
    struct uw_product p = {.groups = c->groups, .m = group_in, .n = uw_image_pixels(v),
                           .k = uw_image_taps(v), .beta = accumulate ? 1.0f : 0.0f,
                           .threads = threads};
    p.a = (struct uw_left){.base = w != NULL ? w + first_tap : NULL,
                           .alpha = 1.0f, .row_stride = kernel,
                           .segment_n = (size_t)ph->taps * pw->taps,
                           .segment_stride = kernel * group_in,
                           .group_stride = kernel * group_in * group_out};
    if (kernel == 1) { /* the weights are one matrix, its rows the inner index */
        p.a.trans = true;
        p.a.row_stride = group_in;
    } else if (p.a.segment_n < kernel) {
        p.a.line_n = pw->taps;
        p.a.step = pw->tap_step;
        p.a.line_stride = (size_t)ph->tap_step * c->kernel_w;
    }
    p.c = (struct uw_sink){.base = dx != NULL ? dx + first_pixel : NULL,
                           .row_stride = in_hw, .image_cols = uw_image_cols(v),
                           .image_stride = in_hw * c->in_channels,
                           .group_stride = in_hw * group_in};
    set_lines(&p.c, v, c->stride_w, (size_t)c->stride_h * c->in_w);
    p.b.pack = uw_image_pack;
    p.b.locate = uw_image_has_runs(v, t, p.m) ? uw_image_locate : NULL;
    p.b.source = v;
    uw_product_cut(&p, t, ph->taps * pw->taps, false);
    uw_product_widen(&p, false);
    p.b.work_bytes = uw_image_work_bytes(v, p.n_room, p.k_room);
    return p;
}

static struct uw_product bw_param_product(const struct uw_tile *t, const struct uw_conv2d *c,
                                          uint32_t threads, const struct uw_image *v,
                                          const float *dy, float scale, float *dw)
{
    uint32_t group_out = c->out_channels / c->groups, taps = uw_image_taps(v);
    size_t out_hw = (size_t)c->out_h * c->out_w;
    struct uw_product p = {.groups = c->groups, .m = group_out, .n = taps,
                           .k = uw_image_pixels(v), .beta = 1.0f,
                           .threads = threads};
    p.a = (struct uw_left){.base = dy, .alpha = scale, .row_stride = out_hw,
                           .segment_n = out_hw, .segment_stride = out_hw * c->out_channels,
                           .group_stride = out_hw * group_out};
    p.c = (struct uw_sink){.base = dw, .row_stride = taps, .image_cols = taps,
                           .group_stride = (size_t)group_out * taps};
    if (v->taps_outer) {
        p.c.pitch = p.c.line_cols = v->channels;
        p.c.lines = p.c.step = taps / v->channels;
        p.c.line_stride = 1;
    }
    uw_product_cut(&p, t, 1, true);
    p.b.pack = uw_image_pack;
    p.b.source = v;
    uw_product_widen(&p, true);
    p.b.work_bytes = uw_image_work_bytes(v, p.k_room, p.n_room);
    return p;
}

/* Time of a multiply-add in direct.h, where each element has few taps, relative to a product. */
#define DIRECT_SLOWER 8.0

/* share: of the multiply-adds that are done. each: every sample is one call of the workers. */
static struct uw_exec exec_for(const struct uw_exec *e, const struct uw_conv2d *c,
                               uint32_t batch_n, double share, bool each)
{
    double in = (double)c->in_channels * c->in_h * c->in_w;
    double out = (double)c->out_channels * c->out_h * c->out_w;
    double taps = (double)c->in_channels / c->groups * c->kernel_h * c->kernel_w;
    double runs = each && batch_n > 0 ? batch_n : 1.0;
    double bytes = sizeof(float) * (batch_n * (in + out) + c->out_channels * taps);
    return uw_exec_for(e, share * batch_n * out * taps / runs, bytes / runs);
}

static struct uw_exec exec_of_method(const struct uw_exec *e, const struct uw_conv2d *c,
                                     uint32_t batch_n, enum method method)
{
    return exec_for(e, c, batch_n, method == DIRECT ? DIRECT_SLOWER : 1.0, method == SMALL);
}

int uw_conv2d_fw_packed(const struct uw_exec *all, const struct uw_conv2d *c, uint32_t batch_n,
                        const float *x, const float *w, const float *b, float *y, bool accumulate)
{
    struct uw_normed_conv2d room;
    c = in_one_row(c, &room);
    enum method method = method_of(all->kernels->tile, c, UW_WINOGRAD_FW, batch_n);
    const struct uw_exec here = exec_of_method(all, c, batch_n, method), *e = &here;
    switch (method) {
    case DIRECT: return uw_direct_fw(e, c, batch_n, x, w, b, y, accumulate);
    case SMALL: return uw_small_fw(e, c, batch_n, x, w, b, y, accumulate);
    case WINOGRAD: return uw_winograd_fw(e, c, batch_n, x, w, b, y, accumulate);
    case REFERENCE: return uw_conv2d_fw_ref(e, c, batch_n, x, w, b, y, accumulate);
    case PRODUCT: break;
    }
    struct uw_image v = uw_image_of_input(c, batch_n, x, false);
    struct uw_product p = fw_product(e->kernels->tile, c, uw_workers_threads(e->workers), &v, w,
                                     b, y, accumulate);
    return uw_product_run(e, &p);
}

static int bw_input_phases(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate)
{
    uint32_t threads = uw_workers_threads(e->workers);
    struct uw_phase phase;
    bool all = true;
    int rc = UW_OK;
    for (uint32_t i = 0; uw_phase_of(c, i, &phase); i++) {
        all = all && has_taps(&phase);
    }
    if (!all && !accumulate) {
        memset(dx, 0, sizeof(float) * batch_n * c->in_channels * c->in_h * c->in_w);
    }
    for (uint32_t i = 0; rc == UW_OK && uw_phase_of(c, i, &phase); i++) {
        if (has_taps(&phase)) {
            struct uw_image v = uw_image_of_output_gradient(c, &phase, batch_n, dy);
            struct uw_product p = bw_input_product(e->kernels->tile, c, threads, &phase, &v, w,
                                                   dx, accumulate);
            rc = uw_product_run(e, &p);
        }
    }
    return rc;
}

int uw_conv2d_bw_input_packed(const struct uw_exec *all, const struct uw_conv2d *c,
                              uint32_t batch_n, const float *dy, const float *w, float *dx,
                              bool accumulate)
{
    struct uw_normed_conv2d room;
    c = in_one_row(c, &room);
    if (is_sparse(all->kernels->tile, c, UW_WINOGRAD_BW_INPUT, batch_n, dy)) {
        const struct uw_exec here = exec_for(all, c, batch_n, SPARSE_SHARE, true);
        return uw_sparse_bw_input(&here, c, batch_n, dy, w, dx, accumulate);
    }
    enum method method = method_of(all->kernels->tile, c, UW_WINOGRAD_BW_INPUT, batch_n);
    const struct uw_exec here = exec_of_method(all, c, batch_n, method), *e = &here;
    switch (method) {
    case DIRECT: return uw_direct_bw_input(e, c, batch_n, dy, w, dx, accumulate);
    case SMALL: return uw_small_bw_input(e, c, batch_n, dy, w, dx, accumulate);
    case WINOGRAD: return uw_winograd_bw_input(e, c, batch_n, dy, w, dx, accumulate);
    case REFERENCE: return uw_conv2d_bw_input_ref(e, c, batch_n, dy, w, dx, accumulate);
    case PRODUCT: break;
    }
    return bw_input_phases(e, c, batch_n, dy, w, dx, accumulate);
}

#define LANES 16u
#define SUM_WORK 8.0                /* time to sum a value, in multiply-adds */

/* Sum in a fixed number of lanes: hides the latency of additions and keeps the order fixed. */
static float sum_of(size_t n, const float *x)
{
    float lane[LANES] = {0.0f};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            lane[l] += x[i + l];
        }
    }
    float sum = 0.0f;
    for (size_t l = 0; l < LANES; l++) {
        sum += lane[l];
    }
    for (; i < n; i++) {
        sum += x[i];
    }
    return sum;
}

struct channel_sums {
    const float *dy;
    float *db, scale;
    uint32_t batch_n, channels;
    size_t inner_n;
};

static void sum_channel(void *arg, uint32_t task, uint32_t thread)
{
    (void)thread;
    const struct channel_sums *j = arg;
    float sum = 0.0f;
    for (uint32_t n = 0; n < j->batch_n; n++) {
        sum += sum_of(j->inner_n, j->dy + ((size_t)n * j->channels + task) * j->inner_n);
    }
    j->db[task] += j->scale * sum;
}

int uw_sum_channels_packed(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                           size_t inner_n, const float *dy, float scale, float *db)
{
    struct channel_sums j = {.dy = dy, .db = db, .scale = scale, .batch_n = batch_n,
                             .channels = channels, .inner_n = inner_n};
    double n = (double)batch_n * channels * (double)inner_n;
    uw_workers_run(uw_workers_for(e->workers, SUM_WORK * n, sizeof(float) * n), sum_channel, &j,
                   channels);
    return UW_OK;
}

static int weight_gradient(const struct uw_exec *all, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw)
{
    if (is_sparse(all->kernels->tile, c, UW_WINOGRAD_BW_PARAM, batch_n, dy)) {
        const struct uw_exec here = exec_for(all, c, batch_n, SPARSE_SHARE, true);
        return uw_sparse_bw_param(&here, c, batch_n, x, dy, scale, dw);
    }
    enum method method = method_of(all->kernels->tile, c, UW_WINOGRAD_BW_PARAM, batch_n);
    const struct uw_exec here = exec_of_method(all, c, batch_n, method), *e = &here;
    switch (method) {
    case DIRECT: return uw_direct_bw_param(e, c, batch_n, x, dy, scale, dw);
    case SMALL: return uw_small_bw_param(e, c, batch_n, x, dy, scale, dw);
    case WINOGRAD: return uw_winograd_bw_param(e, c, batch_n, x, dy, scale, dw);
    case REFERENCE: return uw_conv2d_bw_param_ref(e, c, batch_n, x, dy, scale, dw, NULL);
    case PRODUCT: break;
    }
    struct uw_image v = uw_image_of_input(c, batch_n, x, true);
    struct uw_product p = bw_param_product(e->kernels->tile, c, uw_workers_threads(e->workers),
                                           &v, dy, scale, dw);
    return uw_product_run(e, &p);
}

int uw_conv2d_bw_param_packed(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                              const float *x, const float *dy, float scale, float *dw, float *db)
{
    struct uw_normed_conv2d room;
    int rc = UW_OK;
    c = in_one_row(c, &room);
    if (batch_n > 0 && dw != NULL) {
        rc = weight_gradient(e, c, batch_n, x, dy, scale, dw);
    }
    if (rc < 0 || db == NULL) {
        return rc;
    }
    return uw_sum_channels_packed(e, batch_n, c->out_channels, (size_t)c->out_h * c->out_w, dy,
                                  scale, db);
}

/* True where x is packed anyway, and each packed value is used only once or a few times. */
bool uw_conv2d_takes_norm_packed(const struct uw_kernels *k, const struct uw_conv2d *c,
                                 uint32_t batch_n)
{
    const struct uw_tile *t = k->tile;
    struct uw_normed_conv2d room;
    c = in_one_row(c, &room);
    if (t->norm == NULL) {
        return false;
    }
    if (is_thin(c)) {
        return uw_direct_fits(c, batch_n);
    }
    struct uw_image x = uw_image_of_input(c, batch_n, NULL, false);
    return x.plain && c->groups == 1 && images_fit(t, c) && batch_n <= batch_max(t, c);
}

/* Scratch of all methods except sparse.h. */
static size_t scratch_bytes(const struct uw_tile *t, const struct uw_conv2d *c, uint32_t batch_n,
                            uint32_t threads)
{
    if (is_thin(c)) { /* a smaller minibatch may fit */
        return uw_direct_fits(c, 1) ? uw_direct_scratch_bytes(c, batch_n, threads) : 0;
    }
    if (!images_fit(t, c)) {
        return 0;
    }
    if (batch_n > batch_max(t, c)) {
        batch_n = batch_max(t, c); /* a smaller minibatch may fit */
    }
    struct uw_image x = uw_image_of_input(c, batch_n, NULL, false);
    struct uw_image taps = uw_image_of_input(c, batch_n, NULL, true);
    struct uw_product fw = fw_product(t, c, threads, &x, NULL, NULL, NULL, false);
    struct uw_product bw_param = bw_param_product(t, c, threads, &taps, NULL, 1.0f, NULL);
    size_t most = uw_small_scratch_bytes(t, c);
    if (c->normed || !uw_small_fits(t, c, UW_SMALL_FW, batch_n)) {
        most = larger(most, uw_product_scratch_bytes(&fw, threads));
    }
    if (c->normed || !uw_small_fits(t, c, UW_SMALL_BW_PARAM, batch_n)) {
        most = larger(most, uw_product_scratch_bytes(&bw_param, threads));
    }
    bool small = uw_small_fits(t, c, UW_SMALL_BW_INPUT, batch_n);
    struct uw_phase phase;
    for (uint32_t i = 0; !small && uw_phase_of(c, i, &phase); i++) {
        if (has_taps(&phase)) {
            struct uw_image dy = uw_image_of_output_gradient(c, &phase, batch_n, NULL);
            struct uw_product bw = bw_input_product(t, c, threads, &phase, &dy, NULL, NULL, false);
            most = larger(most, uw_product_scratch_bytes(&bw, threads));
        }
    }
    return larger(most, uw_winograd_scratch_bytes(t, c, batch_n, threads));
}

size_t uw_conv2d_scratch_bytes_packed(const struct uw_kernels *k, const struct uw_conv2d *c,
                                      uint32_t batch_n, uint32_t threads)
{
    struct uw_normed_conv2d room;
    c = in_one_row(c, &room);
    if (batch_n == 0) {
        return 0;
    }
    size_t most = scratch_bytes(k->tile, c, batch_n, threads);
    most = larger(most, uw_sparse_scratch_bytes(k->tile, c, UW_SMALL_BW_INPUT));
    return larger(most, uw_sparse_scratch_bytes(k->tile, c, UW_SMALL_BW_PARAM));
}
