/* SPDX-License-Identifier: Apache-2.0 */
#include "import_window.h"

#include "import_parts.h"

#include <string.h>

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

int uw_window_behind(struct uw_import *im, const struct uw_onnx_node *n, uint32_t at,
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
static int pad_same(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
                    const uint64_t *in, bool upper)
{
    for (uint32_t i = 0; i < w->axes; i++) {
        uint64_t reach = (uint64_t)(w->kernel[i] - 1) * w->dilation[i] + 1;
        uint64_t last = ((in[i] + w->stride[i] - 1) / w->stride[i] - 1) * w->stride[i];
        uint64_t total = last + reach > in[i] ? last + reach - in[i] : 0;
        if (strcmp(n->op, "ConvTranspose") == 0) {
            uint32_t behind;
            if (uw_window_behind(im, n, i, &behind) < 0) {
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

static int read_pads(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
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

int uw_window_pad(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
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
static int fold_pad(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
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

int uw_window_read(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
                   struct uw_view *v)
{
    const struct uw_onnx_attribute *kernel = uw_onnx_attribute(n, "kernel_shape");
    const struct uw_value *weight = uw_import_in(im, n, 1);
    struct uw_value *x;

    *w = (struct uw_window){.stride = {1, 1}, .dilation = {1, 1}};
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

bool uw_window_slide(const struct uw_window *w, const uint64_t *in, bool ceil_mode, uint64_t *out)
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

int uw_window_result(struct uw_import *im, const struct uw_onnx_node *n,
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

int uw_window_patches(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_window *w, struct uw_view *v, const uint64_t out[2],
                      bool max)
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
