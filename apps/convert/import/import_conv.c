/* SPDX-License-Identifier: Apache-2.0 */
#include "import_const.h"
#include "import_parts.h"
#include "import_window.h"

#include <string.h>

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
static int shared_conv(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_window *w, struct uw_view *v, const uint64_t *dim,
                       const uint64_t out[2])
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
    int rc = uw_window_patches(im, n, w, v, out, false);
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
static int own_conv(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_window *w,
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
    return rc < 0 ? rc : uw_window_result(im, n, l, w->axes, channels, out);
}

int uw_op_conv(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1}, dim[UW_ONNX_RANK_MAX];
    int64_t groups = uw_onnx_int(n, "group", 1);
    int rc = uw_window_read(im, n, &w, &v);
    rc = rc < 0 ? rc : uw_window_pad(im, n, &w, &v, UW_PAD_ZEROS);
    int value = rc < 0 ? rc : is_value(im, n, w.axes, dim);
    if (value < 0) {
        return value;
    }
    if (groups < 1 || dim[0] == 0 || dim[0] > INT32_MAX || v.dim[0] % (uint64_t)groups != 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%llu channels in %lld groups",
                                (unsigned long long)v.dim[0], (long long)groups);
    }
    if (!uw_window_slide(&w, v.dim + 1, false, out)) {
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
static void widen(struct uw_window *w)
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
static int crop(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_window *w,
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
static int pick_sums(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_window *w,
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
                                 const struct uw_window *w, const struct uw_view *v,
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
                              const struct uw_window *w, const struct uw_view *v,
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
    return rc < 0 ? rc : uw_window_result(im, n, l, 2, channels, out);
}

int uw_op_conv_transpose(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1}, dim[UW_ONNX_RANK_MAX];
    uint32_t extra[2] = {0, 0};
    int64_t groups = uw_onnx_int(n, "group", 1);
    int rc = uw_window_read(im, n, &w, &v);
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
        if (i + axes >= 2 && uw_window_behind(im, n, at, &extra[i]) < 0) {
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
