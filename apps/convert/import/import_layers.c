/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include <math.h>
#include <string.h>

/* Window of a convolution or a pool: one or two spatial axes. */
struct window {
    uint32_t axes;
    uint32_t kernel[2], stride[2], dilation[2];
    uint32_t front[2], pad[2];      /* padding of a Pad node before it; total padding */
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

/* SAME: out = ceil(in / stride), or in * stride for a transposed convolution; the padding for that
 * must be the same on both sides. */
static int pad_same(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                    const uint64_t *in)
{
    for (uint32_t i = 0; i < w->axes; i++) {
        uint64_t reach = (uint64_t)(w->kernel[i] - 1) * w->dilation[i] + 1;
        uint64_t size = in[i] + 2u * (uint64_t)w->front[i];
        uint64_t last = ((size + w->stride[i] - 1) / w->stride[i] - 1) * w->stride[i];
        uint64_t total = last + reach > size ? last + reach - size : 0;
        if (strcmp(n->op, "ConvTranspose") == 0) {
            const struct uw_onnx_attribute *more = uw_onnx_attribute(n, "output_padding");
            reach += more != NULL && i < more->ints_n ? (uint64_t)more->ints[i] : 0;
            if (reach < w->stride[i]) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                        "auto_pad with a stride beyond its kernel");
            }
            total = reach - w->stride[i];
        }
        if (total % 2 != 0 || total > 65535) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                    "auto_pad wants %llu zeros on axis %u, more on one side; pad "
                                    "both alike", (unsigned long long)total, (unsigned)i);
        }
        w->pad[i] = (uint32_t)total / 2;
    }
    return UW_OK;
}

static int read_pads(struct uw_import *im, const struct uw_onnx_node *n, struct window *w,
                     const uint64_t *in)
{
    const char *how = uw_onnx_text(n, "auto_pad", "NOTSET");
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "pads");
    if (strncmp(how, "SAME_", 5) == 0) {
        return pad_same(im, n, w, in);
    }
    for (uint32_t i = 0; i < w->axes && a != NULL && strcmp(how, "VALID") != 0; i++) {
        if (a->ints_n != 2 * w->axes || a->ints[i] != a->ints[w->axes + i] || a->ints[i] < 0 ||
            a->ints[i] > 65535) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                    "pads %lld in front and %lld behind on axis %u: both sides "
                                    "must be alike", a->ints_n == 2 * w->axes
                                                         ? (long long)a->ints[i] : 0,
                                    a->ints_n == 2 * w->axes ? (long long)a->ints[w->axes + i] : 0,
                                    (unsigned)i);
        }
        w->pad[i] = (uint32_t)a->ints[i];
    }
    return UW_OK;
}

/* Use the zeros that a preceding Pad node adds; *x becomes that node's input. */
static int fold_pad(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value **x,
                    uint32_t *pad, uint32_t axes)
{
    struct uw_value *v = uw_import_in(im, n, 0);
    double fill = 0.0;
    if (v == NULL || v->kind != UW_VALUE_OPAQUE || v->node == NULL ||
        strcmp(v->node->op, "Pad") != 0) {
        *x = uw_import_data(im, n, 0);
        return *x != NULL ? UW_OK : im->err->code;
    }
    int64_t sizes[UW_ONNX_RANK_MAX] = {0};
    int count = uw_import_ints(im, v->node, "pads", 1, sizes);
    struct uw_value *value = uw_import_in(im, v->node, 2);
    bool zeros = strcmp(uw_onnx_text(v->node, "mode", "constant"), "constant") == 0 &&
                 (value == NULL || (uw_import_scalar(value, &fill) && fill == 0.0));
    uint32_t rank = axes + 2;
    *x = uw_import_data(im, v->node, 0);
    if (*x == NULL || im->err->code != UW_OK) {
        return im->err->code;
    }
    bool fits = zeros && count == (int)(2 * rank);
    for (uint32_t a = 0; fits && a < rank; a++) {
        fits = sizes[a] == sizes[rank + a] && sizes[a] >= 0 && sizes[a] < 65535 &&
               (a >= 2 || sizes[a] == 0);
    }
    if (!fits) {
        return uw_import_refuse(im, v->node, UW_ERR_UNSUPPORTED,
                                "only zeros, as many on both sides of the spatial axes");
    }
    for (uint32_t i = 0; i < axes; i++) {
        pad[i] = (uint32_t)sizes[i + 2];
    }
    return UW_OK;
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
    int rc = fold_pad(im, n, &x, w->front, w->axes);
    rc = rc < 0 ? rc : read_sizes(im, n, "kernel_shape", w->axes, w->kernel);
    rc = rc < 0 ? rc : read_sizes(im, n, "strides", w->axes, w->stride);
    rc = rc < 0 ? rc : read_sizes(im, n, "dilations", w->axes, w->dilation);
    if (rc == UW_OK && x->view.axes_n != w->axes + 2) {
        rc = uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has %u axes, needs %u",
                              (unsigned)x->view.axes_n, (unsigned)w->axes + 2);
    }
    if (rc < 0) {
        return rc;
    }
    *v = x->view;
    rc = uw_import_arrange(im, n, v, 3);
    rc = rc < 0 ? rc : read_pads(im, n, w, v->dim + 1);
    for (uint32_t i = 0; i < w->axes && rc == UW_OK; i++) {
        if (w->kernel[i] == 0) {
            rc = uw_import_refuse(im, n, UW_ERR_INVALID, "its kernel is empty");
        }
        w->pad[i] += w->front[i];
    }
    return rc;
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

static int transposed_sizes(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct window *w, const uint64_t *in, uint32_t *extra,
                            uint64_t *out)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "output_padding");
    if (w->axes != 2 || uw_onnx_attribute(n, "output_shape") != NULL) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "only over 2 axes and without output_shape");
    }
    for (uint32_t i = 0; i < 2; i++) {
        int64_t more = a != NULL && i < a->ints_n ? a->ints[i] : 0;
        uint64_t whole = (in[i] - 1) * w->stride[i] +
                         (uint64_t)(w->kernel[i] - 1) * w->dilation[i] + 1;
        if (more < 0 || more > 65535 || whole + (uint64_t)more <= 2u * (uint64_t)w->pad[i]) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its output is empty");
        }
        extra[i] = (uint32_t)more;
        out[i] = whole + (uint64_t)more - 2u * (uint64_t)w->pad[i];
    }
    return UW_OK;
}

/* Check the weights of a convolution or transposed convolution and compute its output sizes. */
static int conv_sizes(struct uw_import *im, const struct uw_onnx_node *n, const struct window *w,
                      const struct uw_view *v, const struct uw_onnx_tensor *weight, int64_t groups,
                      uint32_t *extra, uint64_t *out)
{
    if (strcmp(n->op, "ConvTranspose") == 0) {
        int rc = transposed_sizes(im, n, w, v->dim + 1, extra, out);
        return rc < 0 || (groups >= 1 && groups <= 65535 && weight->rank == 4 &&
                          weight->dim[1] <= 65535)
                   ? rc
                   : uw_import_refuse(im, n, UW_ERR_SHAPE, "its weight has %u axes, %lld groups",
                                      (unsigned)weight->rank, (long long)groups);
    }
    if (groups < 1 || weight->rank != w->axes + 2 || weight->dim[0] == 0 ||
        weight->dim[0] > INT32_MAX || v->dim[0] % (uint64_t)groups != 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%llu channels in %lld groups",
                                (unsigned long long)v->dim[0], (long long)groups);
    }
    return slide(w, v->dim + 1, false, out)
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its kernel does not fit its input");
}

/* Conv and ConvTranspose. */
int uw_op_conv(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct window w;
    struct uw_view v;
    uint32_t extra[2];
    uint64_t out[2] = {1, 1};
    bool transposed = strcmp(n->op, "ConvTranspose") == 0;
    int64_t groups = uw_onnx_int(n, "group", 1);
    const struct uw_onnx_tensor *weight = uw_import_const(im, n, 1);
    int rc = weight != NULL ? read_window(im, n, &w, &v) : im->err->code;
    rc = rc < 0 ? rc : conv_sizes(im, n, &w, &v, weight, groups, extra, out);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, transposed    ? UW_LAYER_CONV_TRANSPOSE2D
                                            : w.axes == 2 ? UW_LAYER_CONV2D : UW_LAYER_CONV1D,
                                     v.layer)
                    : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    const struct uw_onnx_tensor *bias = uw_import_in(im, n, 2) != NULL ? uw_import_const(im, n, 2)
                                                                       : NULL;
    uint64_t channels = transposed ? weight->dim[1] * (uint64_t)groups : weight->dim[0];
    if (w.axes == 2) {
        l->def.conv2d = (struct uw_conv2d_def){
            .out_channels = (uint32_t)channels, .kernel_h = w.kernel[0], .kernel_w = w.kernel[1],
            .stride_h = w.stride[0], .stride_w = w.stride[1], .pad_h = w.pad[0],
            .pad_w = w.pad[1], .no_bias = bias == NULL, .dilation_h = w.dilation[0],
            .dilation_w = w.dilation[1], .groups = (uint32_t)groups};
    } else {
        l->def.conv1d = (struct uw_conv1d_def){
            .out_channels = (uint32_t)channels, .kernel = w.kernel[0], .stride = w.stride[0],
            .pad = w.pad[0], .no_bias = bias == NULL, .dilation = w.dilation[0],
            .groups = (uint32_t)groups};
    }
    if (transposed) { /* its definition begins like a convolution's */
        l->def.conv_transpose2d.out_pad_h = extra[0];
        l->def.conv_transpose2d.out_pad_w = extra[1];
    }
    const uint64_t dims[4] = {transposed ? v.dim[0] : channels,
                              transposed ? weight->dim[1] : v.dim[0] / (uint64_t)groups,
                              w.kernel[0], w.kernel[1]};
    rc = im->err->code;
    rc = rc < 0 ? rc : uw_import_param(im, l, 0, "weight", weight, 0.0f, w.axes + 2, dims);
    if (rc == UW_OK && bias != NULL) {
        rc = uw_import_param(im, l, 1, "bias", bias, 0.0f, 1, &channels);
    }
    return rc < 0 ? rc : spatial_result(im, n, l, w.axes, channels, out);
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

int uw_op_pool(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1};
    bool max = n->op[0] == 'M';
    bool ceil_mode = uw_onnx_int(n, "ceil_mode", 0) != 0;
    const struct uw_value *in = uw_import_in(im, n, 0);
    bool padded = in != NULL && in->kind == UW_VALUE_OPAQUE && in->node != NULL &&
                  strcmp(in->node->op, "Pad") == 0;
    int rc = read_window(im, n, &w, &v);
    if (rc < 0) {
        return rc;
    }
    if (w.dilation[0] != 1 || w.dilation[1] != 1 || (max && padded)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                padded ? "a Pad in front of a maximum is no padding of its own"
                                       : "dilated pools are not trained");
    }
    bool any = w.pad[0] + w.pad[1] > w.front[0] + w.front[1];
    bool exclude = !max && any && uw_onnx_int(n, "count_include_pad", 0) == 0;
    if (padded && (exclude || ceil_mode)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "zeros of a Pad in front that count, "
                                "beside padding that does not");
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

/* [A][R][B] to [A][B], the mean over R: pooling of [A * B][R]. */
static int mean_of(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                   uint64_t a, uint64_t r, uint64_t b)
{
    const uint64_t split[3] = {a, r, b};
    uint64_t rows[2] = {a * b, r};
    int rc = UW_OK;
    if (b > 1) {
        rc = uw_import_shape(im, n, v, a > 1 ? 3 : 2, a > 1 ? split : split + 1);
        struct uw_import_layer *t =
            rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_TRANSPOSE, v->layer) : NULL;
        if (t == NULL) {
            return im->err->code;
        }
        t->def.transpose =
            (struct uw_transpose_def){.order = {a > 1 ? 0 : 1, a > 1 ? 2 : 0, a > 1 ? 1 : 0}};
        uw_import_dims(t, a > 1 ? 3 : 2, a > 1 ? a : b, a > 1 ? b : r, a > 1 ? r : 1);
        v->layer = im->layers_n;
        v->rank = t->rank;
        memcpy(v->dim, t->dim, sizeof v->dim);
    }
    bool fits = v->dim[0] == rows[0]; /* [C][H][W] can be pooled as it is */
    rc = fits && v->rank > 1 ? UW_OK : uw_import_shape(im, n, v, 2, rows);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_GLOBAL_AVGPOOL, v->layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    uw_import_dims(l, 1, rows[0], 1, 1);
    return UW_OK;
}

int uw_op_reduce_mean(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    uint32_t marked;
    uint64_t part[3] = {1, 1, 1};
    if (x == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    bool keep = uw_onnx_int(n, "keepdims", 1) != 0;
    int count = uw_import_axes(im, n, v.axes_n, false, &marked);
    if (im->err->code != UW_OK) {
        return im->err->code;
    }
    uint64_t dims[UW_ONNX_RANK_MAX];
    uint32_t dims_n = 0;
    uint32_t at = 0; /* before, inside, after the removed axes */
    uint32_t batch = 0;
    for (uint32_t a = 0; a < v.axes_n; a++) {
        bool gone = (marked & 1u << a) != 0;
        at = gone ? (at == 2 ? 3 : 1) : (at == 1 ? 2 : at);
        bool mixed = uw_view_has_batch(&v, a) && (gone || !uw_view_is_batch(&v, a));
        if (at == 3 || mixed || count < 1) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                    "a mean over the minibatch, or over axes that are not side by "
                                    "side");
        }
        part[at] *= uw_view_has_batch(&v, a) ? 1 : uw_view_dim(&v, a);
        if (!gone || keep) {
            batch = uw_view_has_batch(&v, a) ? dims_n : batch;
            dims[dims_n++] = gone ? 1 : uw_view_dim(&v, a);
        }
    }
    int rc = uw_import_order(im, n, &v);
    rc = rc < 0 ? rc : mean_of(im, n, &v, part[0], part[1], part[2]);
    return rc < 0 ? rc : uw_import_result(im, n, 0, dims, dims_n, batch);
}
