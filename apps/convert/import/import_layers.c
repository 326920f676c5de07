/* SPDX-License-Identifier: Apache-2.0 */
#include "import_const.h"
#include "import_parts.h"

#include <math.h>
#include <string.h>

/* Window of a convolution or a pool: one or two spatial axes. */
struct window {
    uint32_t axes;
    uint32_t kernel[2], stride[2], dilation[2];
    int64_t front[2], behind[2];    /* padding */
    bool folded;                    /* some of it is from a Pad node: an average counts it */
    uint32_t pad[2];                /* of it, what is alike on both sides and left to the layer */
};

static int read_sizes(struct uw_import *im, const struct uw_onnx_node *n, const char *name,
                      uint32_t axes, uint32_t *out)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, name);
    for (uint32_t i = 0; i < axes && a != NULL; i++) {
        int64_t v = i < a->ints_n ? a->ints[i] : 0;
        if (v < 1 || v > 65535 || a->ints_n != axes) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "%s: needs %u numbers, 1 to 65535",
                                    name, (unsigned)axes);
        }
        out[i] = (uint32_t)v;
    }
    return UW_OK;
}

/* Entry `at` of output_padding. Returns UW_OK or UW_ERR_INVALID, told. */
static int read_behind(struct uw_import *im, const struct uw_onnx_node *n, uint32_t at,
                       uint32_t *behind)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "output_padding");
    int64_t said = a != NULL && at < a->ints_n ? a->ints[at] : 0;
    *behind = said >= 0 && said <= UINT16_MAX ? (uint32_t)said : 0;
    return said == *behind ? UW_OK
                           : uw_import_refuse(im, n, UW_ERR_INVALID, "output_padding %lld",
                                              (long long)said);
}

/* SAME: out = ceil(in / stride), or in * stride for a transposed convolution; an odd zero is behind
 * (SAME_UPPER) or in front. */
static int pad_same(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                    const uint64_t *in, bool upper)
{
    for (uint32_t i = 0; i < w->axes; i++) {
        uint64_t reach = (uint64_t)(w->kernel[i] - 1) * w->dilation[i] + 1;
        uint64_t last = ((in[i] + w->stride[i] - 1) / w->stride[i] - 1) * w->stride[i];
        uint64_t total = last + reach > in[i] ? last + reach - in[i] : 0;
        if (strcmp(n->op, "ConvTranspose") == 0) {
            uint32_t behind;
            if (read_behind(im, n, i, &behind) < 0) {
                return im->err->code;
            }
            reach += behind;
            if (reach < w->stride[i]) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                        "auto_pad with a stride beyond its kernel");
            }
            total = reach - w->stride[i];
        }
        w->front[i] = (int64_t)(upper ? total / 2 : total - total / 2);
        w->behind[i] = (int64_t)total - w->front[i];
    }
    return UW_OK;
}

static int read_pads(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                     const uint64_t *in)
{
    const char *how = uw_onnx_text(n, "auto_pad", "NOTSET");
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "pads");
    if (strncmp(how, "SAME_", 5) == 0) {
        return pad_same(im, n, w, in, strcmp(how, "SAME_UPPER") == 0);
    }
    for (uint32_t i = 0; i < w->axes && a != NULL && strcmp(how, "VALID") != 0; i++) {
        bool fits = a->ints_n == 2 * w->axes && a->ints[i] >= 0 && a->ints[i] < 65536 &&
                    a->ints[w->axes + i] >= 0 && a->ints[w->axes + i] < 65536;
        if (!fits) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "pads: needs two numbers, 0 to "
                                    "65535, for each axis");
        }
        w->front[i] = a->ints[i];
        w->behind[i] = a->ints[w->axes + i];
    }
    return UW_OK;
}

/* Leave padding that is alike on both sides to the layer; other padding is a layer of its own.
 *   how  what to pad with: zeros, or for a maximum the edge, which is in every window that reaches
 *        beyond it */
static int pad_window(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                      struct uw_view *v, enum uw_import_padding how)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < w->axes && rc == UW_OK; i++) {
        bool alike = w->front[i] == w->behind[i];
        w->pad[i] = alike ? (uint32_t)w->front[i] : 0;
        rc = alike ? UW_OK : uw_import_pad(im, n, v, i + 2, w->front[i], w->behind[i], how);
    }
    return rc < 0 ? rc : uw_import_arrange(im, n, v, 3);
}

/* A Pad node of zeros in front of a convolution, or of an average without padding of its own: *x
 * becomes its input, and the zeros the window's.
 * Returns 1, 0 (there is none), or a code. */
static int fold_pad(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                    struct uw_value **x)
{
    struct uw_value *v = uw_import_in(im, n, 0);
    int64_t front[UW_ONNX_RANK_MAX] = {0}, behind[UW_ONNX_RANK_MAX] = {0};
    double fill = 0.0;
    bool average = strcmp(n->op, "AveragePool") == 0 && uw_onnx_int(n, "ceil_mode", 0) == 0;
    for (uint32_t i = 0; i < w->axes; i++) {
        average = average && w->front[i] == 0 && w->behind[i] == 0;
    }
    if (v == NULL || v->node == NULL || strcmp(v->node->op, "Pad") != 0 ||
        (strcmp(n->op, "Conv") != 0 && !average) ||
        strcmp(uw_onnx_text(v->node, "mode", "constant"), "constant") != 0) {
        return 0;
    }
    struct uw_value *from = uw_import_in(im, v->node, 0), *value = uw_import_in(im, v->node, 2);
    uint32_t rank = w->axes + 2;
    if (from == NULL || from->kind != UW_VALUE_DATA || from->view.axes_n != rank ||
        (value != NULL && (!uw_import_scalar(value, &fill) || fill != 0.0)) ||
        uw_onnx_float(v->node, "value", 0.0f) != 0.0f) {
        return 0;
    }
    int rc = uw_import_pads(im, v->node, rank, front, behind);
    if (rc < 0 || front[0] != 0 || front[1] != 0 || behind[0] != 0 || behind[1] != 0) {
        return rc < 0 ? rc : 0;
    }
    for (uint32_t i = 0; i < w->axes; i++) {
        if (front[i + 2] < 0 || behind[i + 2] < 0) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < w->axes; i++) {
        w->front[i] += front[i + 2];
        w->behind[i] += behind[i + 2];
    }
    *x = from;
    w->folded = true;
    return 1;
}

/* Read the window of node n over x, arranged as [C][H][W] or [C][L]. */
static int read_window(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                       struct uw_view *v)
{
    const struct uw_onnx_attribute *kernel = uw_onnx_attribute(n, "kernel_shape");
    const struct uw_value *weight = uw_import_in(im, n, 1);
    struct uw_value *x;

    *w = (struct window){.stride = {1, 1}, .dilation = {1, 1}};
    w->axes = kernel != NULL ? kernel->ints_n
              : weight != NULL && weight->kind == UW_VALUE_CONST && weight->t.rank > 2
                  ? weight->t.rank - 2
                  : 0;
    if (w->axes != 1 && w->axes != 2) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "over %u axes: only 1 or 2 are trained",
                                (unsigned)w->axes);
    }
    for (uint32_t i = 0; i < w->axes && kernel == NULL; i++) {
        w->kernel[i] = weight->t.dim[i + 2] < 65536 ? (uint32_t)weight->t.dim[i + 2] : 65535;
    }
    x = uw_import_data(im, n, 0);
    int rc = x != NULL ? read_sizes(im, n, "kernel_shape", w->axes, w->kernel) : im->err->code;
    rc = rc < 0 ? rc : read_sizes(im, n, "strides", w->axes, w->stride);
    rc = rc < 0 ? rc : read_sizes(im, n, "dilations", w->axes, w->dilation);
    if (rc == UW_OK && x->view.axes_n != w->axes + 2) {
        rc = uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has %u axes, needs %u",
                              (unsigned)x->view.axes_n, (unsigned)w->axes + 2);
    }
    if (rc < 0) {
        return rc;
    }
    for (uint32_t i = 0; i < w->axes; i++) {
        if (w->kernel[i] == 0) {
            return uw_import_refuse(im, n, UW_ERR_INVALID, "its kernel is empty");
        }
    }
    uint64_t dims[UW_ONNX_RANK_MAX];
    uw_view_dims(&x->view, dims);
    rc = read_pads(im, n, w, dims + 2);
    rc = rc < 0 ? rc : fold_pad(im, n, w, &x);
    *v = x->view;
    return rc < 0 ? rc : uw_import_arrange(im, n, v, 3);
}

/* Output sizes of the window; false when it does not fit. */
static bool slide(const struct window *w, const uint64_t *in, bool ceil_mode, uint64_t *out)
{
    for (uint32_t i = 0; i < w->axes; i++) {
        uint64_t reach = (uint64_t)(w->kernel[i] - 1) * w->dilation[i] + 1;
        uint64_t padded = in[i] + 2u * (uint64_t)w->pad[i];
        if (padded < reach) {
            return false;
        }
        uint64_t over = ceil_mode ? w->stride[i] - 1 : 0;
        out[i] = (padded - reach + over) / w->stride[i] + 1;
        if (ceil_mode && (out[i] - 1) * w->stride[i] >= in[i] + w->pad[i]) {
            out[i]--;
        }
    }
    return true;
}

static int spatial_result(struct uw_import *im, const struct uw_onnx_node *n,
                          struct uw_import_layer *l, uint32_t axes, uint64_t channels,
                          const uint64_t *out)
{
    const uint64_t dims[4] = {im->batch, channels, out[0], axes > 1 ? out[1] : 1};
    uw_import_dims(l, axes + 1, channels, out[0], axes > 1 ? out[1] : 1);
    if (channels > INT32_MAX || out[0] > INT32_MAX || channels * out[0] > INT32_MAX ||
        channels * out[0] * dims[3] > INT32_MAX) {
        return uw_import_refuse(im, n, UW_ERR_TOOBIG, "its output is too large");
    }
    return uw_import_result(im, n, 0, dims, axes + 2, 0);
}

/* The weight, then the bias, of a convolution; dims: of the weight. */
static int conv_params(struct uw_import *im, const struct uw_onnx_node *n,
                       struct uw_import_layer *l, const uint64_t *dims, uint32_t rank,
                       uint64_t channels, bool has_bias)
{
    const struct uw_onnx_tensor *weight = uw_import_const(im, n, 1);
    const struct uw_onnx_tensor *bias = uw_import_bias(im, n) != NULL ? uw_import_const(im, n, 2)
                                                                      : NULL;
    struct uw_onnx_tensor zeros;
    int rc = im->err->code;
    if (rc == UW_OK && bias == NULL && has_bias) {
        zeros = uw_import_zero_bias(im, channels);
        bias = &zeros;
    }
    rc = rc < 0 ? rc : uw_import_param(im, l, 0, "weight", weight, 0.0f, rank, dims);
    return rc < 0 || bias == NULL
               ? rc : uw_import_param(im, l, 1, "bias", bias, 0.0f, 1, &channels);
}

/* The inputs of each output, [C][kernel][out] for [C][H][W]; beyond the edge zeros, or, for a
 * maximum, another input of the window. */
static int pick_patches(struct uw_import *im, const struct uw_onnx_node *n, const struct window *w,
                        struct uw_view *v, const uint64_t out[2], bool max)
{
    struct uw_import_picks p;
    uint32_t high = w->axes == 2 ? 0 : 1;  /* a length is the width of one row */
    int64_t size[2] = {w->axes == 2 ? (int64_t)v->dim[1] : 1, (int64_t)v->dim[w->axes]};
    uint32_t kernel[2] = {high == 0 ? w->kernel[0] : 1, w->kernel[1 - high]};
    uint64_t rows = high == 0 ? out[0] : 1, columns = out[1 - high], places = rows * columns;
    int rc = uw_import_picks(im, &p, kernel[0] * kernel[1] * places, 1);
    for (uint64_t i = 0; rc == UW_OK && i < p.n; i++) {
        uint64_t tap = i / places, place = i % places;
        int64_t at[2] = {0, 0};
        uint64_t k[2] = {tap / kernel[1], tap % kernel[1]};
        uint64_t o[2] = {place / columns, place % columns};
        for (uint32_t a = high; a < 2; a++) {
            at[a] = (int64_t)(o[a] * w->stride[a - high] + k[a] * w->dilation[a - high]) -
                    (int64_t)w->pad[a - high];
        }
        bool inside = at[0] >= 0 && at[0] < size[0] && at[1] >= 0 && at[1] < size[1];
        p.index[i] = inside ? (int32_t)(at[0] * size[1] + at[1]) : -1;
    }
    for (uint64_t i = 0; rc == UW_OK && max && i < p.n; i++) {
        for (uint64_t k = i % places; k < p.n && p.index[i] < 0; k += places) {
            p.index[i] = p.index[k];
        }
        if (p.index[i] < 0) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "a window is all padding");
        }
    }
    const uint64_t flat[3] = {im->batch, v->dim[0], (uint64_t)(size[0] * size[1])};
    if (rc == UW_OK && !uw_view_reshape(v, flat, 3)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has no shape");
    }
    return rc < 0 ? rc : uw_import_take(im, n, v, 2, &p);
}

/* The value of a weight or bias that several nodes train, or that is computed, in another shape. */
static int shared_value(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *from,
                        const uint64_t *dims, uint32_t axes, struct uw_value *y)
{
    from->t.one = true;
    const struct uw_value *v = from->kind == UW_VALUE_CONST ? uw_import_make_value(im, from)
                                                            : from;
    if (v == NULL) {
        return im->err->code;
    }
    *y = *v;
    int rc = uw_import_order(im, n, &y->view);
    return rc < 0 || uw_view_reshape(&y->view, dims, axes)
               ? rc : uw_import_refuse(im, n, UW_ERR_SHAPE, "a weight has no shape");
}

static void tell_computed(struct uw_import *im, const struct uw_value *weight)
{
    uw_import_note(im, weight->derived || weight->kind != UW_VALUE_CONST
                           ? "convolutions whose weight is computed from parameters are products, "
                             "which take more memory, and train those parameters"
                           : "convolutions with one weight are products, which take more memory, "
                             "and train that weight together");
}

/* A convolution whose weight other nodes have, too, or is computed: weight times the inputs of each
 * output.
 *   dim  of the weight */
static int shared_conv(struct uw_import *im, const struct uw_onnx_node *n, const struct window *w,
                       struct uw_view *v, const uint64_t *dim, const uint64_t out[2])
{
    struct uw_value *weight = uw_import_in(im, n, 1), *bias = uw_import_bias(im, n), m, b;
    struct uw_value *y = uw_import_out(im, n, 0), x = {.kind = UW_VALUE_DATA}, sum = {.name = ""};
    uint64_t groups = (uint64_t)uw_onnx_int(n, "group", 1);
    uint64_t taps = dim[1] * w->kernel[0] * (w->axes == 2 ? w->kernel[1] : 1);
    uint64_t channels = dim[0], places = out[0] * (w->axes == 2 ? out[1] : 1);
    uint32_t skip = groups == 1 ? 1 : 0;
    const uint64_t columns[4] = {im->batch, groups, taps, places};
    const uint64_t plain[3] = {im->batch, taps, places};
    const uint64_t rows[3] = {groups, channels / groups, taps}, ones[3] = {channels, 1, 1};
    const uint64_t shown[4] = {im->batch, channels, out[0], out[1]};
    int rc = pick_patches(im, n, w, v, out, false);
    if (rc < 0 || y == NULL) {
        return rc;
    }
    x.view = *v;
    if (!uw_view_reshape(&x.view, skip == 1 ? plain : columns, 4 - skip)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has no shape");
    }
    rc = shared_value(im, n, weight, rows + skip, 3 - skip, &m);
    rc = rc < 0 ? rc : uw_import_product(im, n, &m, &x, false, false, 1.0f, y);
    if (rc == UW_OK && !uw_view_reshape(&y->view, shown, w->axes + 2)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
    }
    tell_computed(im, weight);
    if (rc < 0 || bias == NULL) {
        return rc;
    }
    sum.view = y->view;
    sum.kind = UW_VALUE_DATA;
    rc = shared_value(im, n, bias, ones, w->axes + 1, &b);
    return rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &sum, &b, y);
}

/* Whether the weight of a convolution is no constant of its own, but one that others train, too, or
 * that is computed from parameters. dim, of the weight, is written.
 * Returns 1, 0, or a code with err set. */
static int is_value(struct uw_import *im, const struct uw_onnx_node *n, uint32_t axes,
                    uint64_t *dim)
{
    struct uw_value *weight = uw_import_in(im, n, 1);
    const struct uw_value *bias = uw_import_bias(im, n);
    bool data = weight != NULL && weight->kind == UW_VALUE_DATA &&
                uw_view_is_shared(&weight->view) && weight->view.axes_n == axes + 2;
    if (data) {
        uw_view_dims(&weight->view, dim);
        return 1;
    }
    const struct uw_onnx_tensor *t = uw_import_const(im, n, 1);
    if (t == NULL) {
        return im->err->code;
    }
    memcpy(dim, t->dim, sizeof t->dim);
    if (t->rank != axes + 2) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its weight has %u axes", (unsigned)t->rank);
    }
    if (uw_import_is_shared(im, weight) && (bias == NULL || bias->kind == UW_VALUE_CONST)) {
        return 1;
    }
    const struct uw_value *any = weight->derived ? uw_import_any(im, n, 1) : weight;
    return any == NULL ? im->err->code : any->kind == UW_VALUE_DATA;
}

/* The layer of a convolution with a weight of its own. */
static int own_conv(struct uw_import *im, const struct uw_onnx_node *n, const struct window *w,
                    const struct uw_view *v, uint64_t channels, const uint64_t out[2])
{
    uint32_t groups = (uint32_t)uw_onnx_int(n, "group", 1);
    bool no_bias = uw_import_bias(im, n) == NULL &&
                   !uw_import_lost_bias(im, &uw_import_in(im, n, 1)->t);
    struct uw_import_layer *l =
        uw_import_emit(im, n, w->axes == 2 ? UW_LAYER_CONV2D : UW_LAYER_CONV1D, v->layer);
    if (l == NULL) {
        return im->err->code;
    }
    if (w->axes == 2) {
        l->def.conv2d = (struct uw_conv2d_def){
            .out_channels = (uint32_t)channels, .kernel_h = w->kernel[0], .kernel_w = w->kernel[1],
            .stride_h = w->stride[0], .stride_w = w->stride[1], .pad_h = w->pad[0],
            .pad_w = w->pad[1], .no_bias = no_bias, .dilation_h = w->dilation[0],
            .dilation_w = w->dilation[1], .groups = groups};
    } else {
        l->def.conv1d = (struct uw_conv1d_def){
            .out_channels = (uint32_t)channels, .kernel = w->kernel[0], .stride = w->stride[0],
            .pad = w->pad[0], .no_bias = no_bias, .dilation = w->dilation[0], .groups = groups};
    }
    const uint64_t dims[4] = {channels, v->dim[0] / groups, w->kernel[0], w->kernel[1]};
    int rc = conv_params(im, n, l, dims, w->axes + 2, channels, !no_bias);
    return rc < 0 ? rc : spatial_result(im, n, l, w->axes, channels, out);
}

int uw_op_conv(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1}, dim[UW_ONNX_RANK_MAX];
    int64_t groups = uw_onnx_int(n, "group", 1);
    int rc = read_window(im, n, &w, &v);
    rc = rc < 0 ? rc : pad_window(im, n, &w, &v, UW_PAD_ZEROS);
    int value = rc < 0 ? rc : is_value(im, n, w.axes, dim);
    if (value < 0) {
        return value;
    }
    if (groups < 1 || dim[0] == 0 || dim[0] > INT32_MAX || v.dim[0] % (uint64_t)groups != 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%llu channels in %lld groups",
                                (unsigned long long)v.dim[0], (long long)groups);
    }
    if (!slide(&w, v.dim + 1, false, out)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its kernel does not fit its input");
    }
    if (value == 0) {
        return own_conv(im, n, &w, &v, dim[0], out);
    }
    return dim[0] % (uint64_t)groups == 0 && dim[1] * (uint64_t)groups == v.dim[0]
               ? shared_conv(im, n, &w, &v, dim, out)
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its weight does not fit its groups");
}

/* A window over one axis as one over two, the first of size 1. */
static void widen(struct window *w)
{
    w->kernel[1] = w->kernel[0];
    w->stride[1] = w->stride[0];
    w->dilation[1] = w->dilation[0];
    w->front[1] = w->front[0];
    w->behind[1] = w->behind[0];
    w->kernel[0] = w->stride[0] = w->dilation[0] = 1;
    w->front[0] = w->behind[0] = 0;
}

/* Cut what is padding on one side only off the output. */
static int crop(struct uw_import *im, const struct uw_onnx_node *n, const struct window *w,
                uint32_t axes)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    int rc = UW_OK;
    for (uint32_t i = 0; i < axes && y != NULL && rc == UW_OK; i++) {
        uint32_t k = i + 2 - axes;
        rc = uw_import_pad(im, n, &y->view, i + 2, (int64_t)w->pad[k] - w->front[k],
                           (int64_t)w->pad[k] - w->behind[k], UW_PAD_ZEROS);
    }
    return rc;
}

/* The inputs of each output of a transposed convolution, among [kernel][in] of [C][kernel][in].
 *   in   places of the input
 *   out  places of the output */
static int pick_sums(struct uw_import *im, const struct uw_onnx_node *n, const struct window *w,
                     const uint64_t in[2], const uint64_t out[2], struct uw_import_picks *p)
{
    uint32_t taps = 0;
    if (out[0] > INT32_MAX / out[1]) {
        return uw_import_refuse(im, n, UW_ERR_TOOBIG, "its output is too large");
    }
    int rc = uw_import_count(im, n, out[0] * out[1] * w->kernel[0] * w->kernel[1]);
    for (int pass = 0; pass < 2 && rc == UW_OK; pass++) {
        for (uint64_t o = 0; o < out[0] * out[1]; o++) {
            uint64_t at[2] = {o / out[1] + w->pad[0], o % out[1] + w->pad[1]};
            uint32_t found = 0;
            for (uint32_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
                uint64_t back[2] = {(uint64_t)(k / w->kernel[1]) * w->dilation[0],
                                    (uint64_t)(k % w->kernel[1]) * w->dilation[1]};
                uint64_t i[2] = {(at[0] - back[0]) / w->stride[0],
                                 (at[1] - back[1]) / w->stride[1]};
                if (at[0] < back[0] || at[1] < back[1] || (at[0] - back[0]) % w->stride[0] != 0 ||
                    (at[1] - back[1]) % w->stride[1] != 0 || i[0] >= in[0] || i[1] >= in[1]) {
                    continue;
                }
                if (pass == 1) {
                    p->index[o * taps + found] = (int32_t)((k * in[0] + i[0]) * in[1] + i[1]);
                }
                found++;
            }
            taps = pass == 0 && found > taps ? found : taps;
        }
        taps = taps == 0 ? 1 : taps;
        rc = pass == 0 ? uw_import_picks(im, p, out[0] * out[1], taps) : UW_OK;
        for (uint64_t i = 0; pass == 0 && rc == UW_OK && i < out[0] * out[1] * taps; i++) {
            p->index[i] = -1;
            if (taps > 1) {
                p->weight[i] = 1.0f;
            }
        }
    }
    return rc;
}

/* A transposed convolution whose weight is computed, or that others have: weight^T times the input,
 * and of it the sums that are the outputs.
 *   v     [C][H][W]
 *   dim   of the weight
 *   axes  1: H is 1, and no axis of the result */
static int shared_conv_transpose(struct uw_import *im, const struct uw_onnx_node *n,
                                 const struct window *w, const struct uw_view *v,
                                 const uint64_t *dim, const uint64_t out[2], uint32_t axes)
{
    struct uw_value *weight = uw_import_in(im, n, 1), *bias = uw_import_bias(im, n), m, b;
    struct uw_value *y = uw_import_out(im, n, 0), x = {.kind = UW_VALUE_DATA, .view = *v};
    struct uw_value sum = {.name = ""};
    struct uw_import_picks p;
    uint64_t groups = (uint64_t)uw_onnx_int(n, "group", 1), channels = dim[1] * groups;
    uint64_t taps = (uint64_t)w->kernel[0] * w->kernel[1], places = v->dim[1] * v->dim[2];
    uint32_t skip = groups == 1 ? 1 : 0;
    const uint64_t columns[4] = {im->batch, groups, dim[0] / groups, places};
    const uint64_t plain[3] = {im->batch, dim[0], places};
    const uint64_t rows[3] = {groups, dim[0] / groups, dim[1] * taps}, ones[3] = {channels, 1, 1};
    const uint64_t flat[3] = {im->batch, channels, taps * places};
    const uint64_t shown[4] = {im->batch, channels, axes == 1 ? out[1] : out[0], out[1]};
    int rc = uw_view_reshape(&x.view, skip == 1 ? plain : columns, 4 - skip)
                 ? shared_value(im, n, weight, rows + skip, 3 - skip, &m)
                 : uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has no shape");
    rc = rc < 0 ? rc : uw_import_product(im, n, &m, &x, true, false, 1.0f, &sum);
    rc = rc < 0 ? rc : pick_sums(im, n, w, v->dim + 1, out, &p);
    if (rc == UW_OK && uw_import_reshape(im, n, &sum.view, flat, 3) <= 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its sums have no shape");
    }
    rc = rc < 0 ? rc : uw_import_take(im, n, &sum.view, 2, &p);
    if (rc < 0 || y == NULL || !uw_view_reshape(&sum.view, shown, axes + 2)) {
        return rc < 0 || y == NULL ? rc : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no "
                                                           "shape");
    }
    tell_computed(im, weight);
    y->kind = UW_VALUE_DATA;
    y->view = sum.view;
    if (bias == NULL) {
        return UW_OK;
    }
    rc = shared_value(im, n, bias, ones, axes + 1, &b);
    return rc < 0 ? rc : uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &sum, &b, y);
}

/* The layer of a transposed convolution with a weight of its own, as shared_conv_transpose. */
static int own_conv_transpose(struct uw_import *im, const struct uw_onnx_node *n,
                              const struct window *w, const struct uw_view *v,
                              const uint64_t out[2], const uint32_t extra[2], uint32_t axes)
{
    const struct uw_onnx_tensor *weight = &uw_import_in(im, n, 1)->t;
    uint64_t groups = (uint64_t)uw_onnx_int(n, "group", 1);
    uint64_t channels = weight->dim[1] * groups;
    bool no_bias = uw_import_bias(im, n) == NULL && !uw_import_lost_bias(im, weight);
    struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_CONV_TRANSPOSE2D, v->layer);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.conv_transpose2d = (struct uw_conv_transpose2d_def){
        .out_channels = (uint32_t)channels, .kernel_h = w->kernel[0], .kernel_w = w->kernel[1],
        .stride_h = w->stride[0], .stride_w = w->stride[1], .pad_h = w->pad[0], .pad_w = w->pad[1],
        .no_bias = no_bias, .dilation_h = w->dilation[0],
        .dilation_w = w->dilation[1], .groups = (uint32_t)groups, .out_pad_h = extra[0],
        .out_pad_w = extra[1]};
    const uint64_t dims[4] = {v->dim[0], weight->dim[1], w->kernel[0], w->kernel[1]};
    int rc = conv_params(im, n, l, dims, 4, channels, !no_bias);
    if (rc == UW_OK && axes == 1) {
        const uint64_t flat[3] = {im->batch, channels, out[1]};
        uw_import_dims(l, 3, channels, 1, out[1]);
        return uw_import_result(im, n, 0, flat, 3, 0);
    }
    return rc < 0 ? rc : spatial_result(im, n, l, 2, channels, out);
}

int uw_op_conv_transpose(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1}, dim[UW_ONNX_RANK_MAX];
    uint32_t extra[2] = {0, 0};
    int64_t groups = uw_onnx_int(n, "group", 1);
    int rc = read_window(im, n, &w, &v);
    int value = rc < 0 ? rc : is_value(im, n, w.axes, dim);
    if (value < 0) {
        return value;
    }
    uint32_t axes = w.axes;
    if (groups < 1 || groups > 65535 || dim[1] > 65535 || dim[0] != v.dim[0] ||
        dim[0] % (uint64_t)groups != 0 || uw_onnx_attribute(n, "output_shape") != NULL) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its weight is of %llu channels, its "
                                "input of %llu, in %lld groups; no output_shape",
                                (unsigned long long)dim[0], (unsigned long long)v.dim[0],
                                (long long)groups);
    }
    const uint64_t wide[3] = {v.dim[0], axes == 1 ? 1 : v.dim[1], axes == 1 ? v.dim[1] : v.dim[2]};
    if (axes == 1) {
        widen(&w);
        rc = uw_import_shape(im, n, &v, 3, wide);
    }
    for (uint32_t i = 0; i < 2 && rc == UW_OK; i++) {
        uint32_t at = i + axes - 2; /* of the node's lists */
        w.pad[i] = (uint32_t)(w.front[i] < w.behind[i] ? w.front[i] : w.behind[i]);
        if (i + axes >= 2 && read_behind(im, n, at, &extra[i]) < 0) {
            return im->err->code;
        }
        uint64_t whole = (wide[1 + i] - 1) * w.stride[i] +
                         (uint64_t)(w.kernel[i] - 1) * w.dilation[i] + 1 + extra[i];
        if (whole <= (uint64_t)(w.front[i] + w.behind[i])) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its output is empty");
        }
        out[i] = whole - 2u * (uint64_t)w.pad[i];
    }
    rc = rc < 0       ? rc
         : value == 0 ? own_conv_transpose(im, n, &w, &v, out, extra, axes)
                      : shared_conv_transpose(im, n, &w, &v, dim, out, axes);
    return rc < 0 ? rc : crop(im, n, &w, axes);
}

static void set_pool(struct uw_import_layer *l, const struct window *w, bool ceil_mode,
                     bool exclude_pad)
{
    if (w->axes == 2) {
        l->def.pool2d = (struct uw_pool2d_def){
            .kernel_h = w->kernel[0], .kernel_w = w->kernel[1], .stride_h = w->stride[0],
            .stride_w = w->stride[1], .pad_h = w->pad[0], .pad_w = w->pad[1],
            .ceil_mode = ceil_mode, .exclude_pad = exclude_pad};
    } else {
        l->def.pool1d = (struct uw_pool1d_def){
            .kernel = w->kernel[0], .stride = w->stride[0], .pad = w->pad[0],
            .ceil_mode = ceil_mode, .exclude_pad = exclude_pad};
    }
}

static bool is_all(const struct uw_onnx_attribute *a, uint32_t count, int64_t value)
{
    bool all = a == NULL || a->ints_n == count;
    for (uint32_t i = 0; a != NULL && i < count && all; i++) {
        all = a->ints[i] == value;
    }
    return all;
}

/* An average over one axis of any rank, the kernel of all others being 1.
 * Returns 1 (done), 0 (it is none), or a code. */
static int mean_along_axis(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_onnx_attribute *kernel = uw_onnx_attribute(n, "kernel_shape");
    const char *how = uw_onnx_text(n, "auto_pad", "NOTSET");
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    uint32_t axis = 0, wide = 0;
    if (x == NULL || y == NULL || kernel == NULL || kernel->ints_n < 3 || n->op[0] != 'A' ||
        kernel->ints_n + 2 != x->view.axes_n) {
        return x == NULL ? im->err->code : 0;
    }
    bool plain = uw_onnx_int(n, "ceil_mode", 0) == 0 && strncmp(how, "SAME_", 5) != 0 &&
                 is_all(uw_onnx_attribute(n, "strides"), kernel->ints_n, 1) &&
                 is_all(uw_onnx_attribute(n, "dilations"), kernel->ints_n, 1) &&
                 is_all(uw_onnx_attribute(n, "pads"), 2 * kernel->ints_n, 0);
    for (uint32_t i = 0; i < kernel->ints_n; i++) {
        wide += kernel->ints[i] != 1 ? 1 : 0;
        axis = kernel->ints[i] != 1 ? i : axis;
    }
    int64_t size = (int64_t)uw_view_dim(&x->view, axis + 2), taps = kernel->ints[axis];
    if (!plain || wide != 1 || taps < 1 || taps > size || taps > 65535) {
        return 0;
    }
    struct uw_import_picks p;
    y->view = x->view;
    int rc = uw_import_picks(im, &p, (uint64_t)(size - taps + 1), (uint32_t)taps);
    for (int64_t i = 0; i < (size - taps + 1) * taps && rc == UW_OK; i++) {
        p.index[i] = (int32_t)(i / taps + i % taps);
        p.weight[i] = 1.0f / (float)taps;
    }
    rc = rc < 0 ? rc : uw_import_take(im, n, &y->view, axis + 2, &p);
    y->kind = rc == UW_OK ? UW_VALUE_DATA : y->kind;
    return rc < 0 ? rc : 1;
}

/* The maximum of windows whose elements are apart: of the inputs of each output. */
static int dilated_max(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                       struct uw_view *v)
{
    struct uw_value *y = uw_import_out(im, n, 0), x = {.kind = UW_VALUE_DATA};
    uint64_t out[2] = {1, 1}, taps = w->kernel[0] * (w->axes == 2 ? (uint64_t)w->kernel[1] : 1);
    bool alike = w->front[0] == w->behind[0] && w->front[1] == w->behind[1];
    if (n->op[0] != 'M' || !alike || uw_onnx_int(n, "ceil_mode", 0) != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a dilated pool only as a maximum, "
                                "without ceil_mode, padded alike on both sides");
    }
    int rc = pad_window(im, n, w, v, UW_PAD_ZEROS);
    if (rc < 0 || y == NULL) {
        return rc;
    }
    if (!slide(w, v->dim + 1, false, out)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its kernel does not fit its input");
    }
    const uint64_t channels = v->dim[0], places = out[0] * (w->axes == 2 ? out[1] : 1);
    const uint64_t apart[4] = {im->batch, channels, taps, places};
    const uint64_t shown[4] = {im->batch, channels, out[0], out[1]};
    rc = pick_patches(im, n, w, v, out, true);
    x.view = *v;
    if (rc == UW_OK && !uw_view_reshape(&x.view, apart, 4)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has no shape");
    }
    rc = rc < 0 ? rc : uw_import_reduce(im, n, UW_REDUCE_MAX, 1u << 2, false, &x, y);
    return rc < 0 || uw_view_reshape(&y->view, shown, w->axes + 2)
               ? rc : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

static int pool(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1};
    bool max = n->op[0] == 'M';
    bool ceil_mode = uw_onnx_int(n, "ceil_mode", 0) != 0;
    int rc = read_window(im, n, &w, &v);
    if (rc < 0) {
        return rc;
    }
    if (w.dilation[0] != 1 || w.dilation[1] != 1) {
        return dilated_max(im, n, &w, &v);
    }
    bool any = false, alike = true;
    for (uint32_t i = 0; i < w.axes; i++) {
        any = any || w.front[i] + w.behind[i] > 0;
        alike = alike && w.front[i] == w.behind[i];
    }
    bool exclude = !max && any && !w.folded && uw_onnx_int(n, "count_include_pad", 0) == 0;
    if (!alike && (exclude || ceil_mode)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "an average without its padding, or "
                                "with ceil_mode, that is padded on one side more");
    }
    rc = pad_window(im, n, &w, &v, max ? UW_PAD_EDGE : UW_PAD_ZEROS);
    if (rc < 0) {
        return rc;
    }
    if (!slide(&w, v.dim + 1, ceil_mode, out)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its kernel does not fit its input");
    }
    enum uw_layer_kind kind = w.axes == 2 ? (max ? UW_LAYER_MAXPOOL2D : UW_LAYER_AVGPOOL2D)
                                          : (max ? UW_LAYER_MAXPOOL1D : UW_LAYER_AVGPOOL1D);
    struct uw_import_layer *l = uw_import_emit(im, n, kind, v.layer);
    if (l == NULL) {
        return im->err->code;
    }
    set_pool(l, &w, ceil_mode, exclude);
    return spatial_result(im, n, l, w.axes, v.dim[0], out);
}

int uw_op_pool(struct uw_import *im, const struct uw_onnx_node *n)
{
    int along = mean_along_axis(im, n);
    return along != 0 ? (along < 0 ? along : UW_OK) : pool(im, n);
}

int uw_op_global_pool(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    const uint64_t ones[2] = {1, 1};
    uint64_t dims[UW_ONNX_RANK_MAX] = {im->batch, 1, 1, 1, 1, 1, 1, 1};
    bool max = n->op[6] == 'M';
    if (x == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    if (v.axes_n < 3 || (max && v.axes_n > 4)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has %u axes", (unsigned)v.axes_n);
    }
    int rc = uw_import_arrange(im, n, &v, 3);
    struct uw_import_layer *l = NULL;
    if (rc == UW_OK) {
        l = uw_import_emit(im, n, !max           ? UW_LAYER_GLOBAL_AVGPOOL
                                  : v.rank == 3 ? UW_LAYER_MAXPOOL2D : UW_LAYER_MAXPOOL1D, v.layer);
    }
    if (l == NULL) {
        return im->err->code;
    }
    dims[1] = v.dim[0];
    if (max) {
        struct window w = {.axes = v.rank - 1,
                           .kernel = {(uint32_t)v.dim[1], (uint32_t)v.dim[2]},
                           .stride = {(uint32_t)v.dim[1], (uint32_t)v.dim[2]}};
        set_pool(l, &w, false, false);
        return spatial_result(im, n, l, w.axes, v.dim[0], ones);
    }
    uw_import_dims(l, 1, v.dim[0], 1, 1);
    return uw_import_result(im, n, 0, dims, v.axes_n, 0);
}
