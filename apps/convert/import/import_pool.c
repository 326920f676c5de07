/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"
#include "import_window.h"

#include <string.h>

static void set_pool(struct uw_import_layer *l, const struct uw_window *w, bool ceil_mode,
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
static int dilated_max(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
                       struct uw_view *v)
{
    struct uw_value *y = uw_import_out(im, n, 0), x = {.kind = UW_VALUE_DATA};
    uint64_t out[2] = {1, 1}, taps = w->kernel[0] * (w->axes == 2 ? (uint64_t)w->kernel[1] : 1);
    bool alike = w->front[0] == w->behind[0] && w->front[1] == w->behind[1];
    if (n->op[0] != 'M' || !alike || uw_onnx_int(n, "ceil_mode", 0) != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a dilated pool only as a maximum, "
                                "without ceil_mode, padded alike on both sides");
    }
    int rc = uw_window_pad(im, n, w, v, UW_PAD_ZEROS);
    if (rc < 0 || y == NULL) {
        return rc;
    }
    if (!uw_window_slide(w, v->dim + 1, false, out)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its kernel does not fit its input");
    }
    const uint64_t channels = v->dim[0], places = out[0] * (w->axes == 2 ? out[1] : 1);
    const uint64_t apart[4] = {im->batch, channels, taps, places};
    const uint64_t shown[4] = {im->batch, channels, out[0], out[1]};
    rc = uw_window_patches(im, n, w, v, out, true);
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
    struct uw_window w;
    struct uw_view v;
    uint64_t out[2] = {1, 1};
    bool max = n->op[0] == 'M';
    bool ceil_mode = uw_onnx_int(n, "ceil_mode", 0) != 0;
    int rc = uw_window_read(im, n, &w, &v);
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
    rc = uw_window_pad(im, n, &w, &v, max ? UW_PAD_EDGE : UW_PAD_ZEROS);
    if (rc < 0) {
        return rc;
    }
    if (!uw_window_slide(&w, v.dim + 1, ceil_mode, out)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its kernel does not fit its input");
    }
    enum uw_layer_kind kind = w.axes == 2 ? (max ? UW_LAYER_MAXPOOL2D : UW_LAYER_AVGPOOL2D)
                                          : (max ? UW_LAYER_MAXPOOL1D : UW_LAYER_AVGPOOL1D);
    struct uw_import_layer *l = uw_import_emit(im, n, kind, v.layer);
    if (l == NULL) {
        return im->err->code;
    }
    set_pool(l, &w, ceil_mode, exclude);
    return uw_window_result(im, n, l, w.axes, v.dim[0], out);
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
        struct uw_window w = {.axes = v.rank - 1,
                           .kernel = {(uint32_t)v.dim[1], (uint32_t)v.dim[2]},
                           .stride = {(uint32_t)v.dim[1], (uint32_t)v.dim[2]}};
        set_pool(l, &w, false, false);
        return uw_window_result(im, n, l, w.axes, v.dim[0], ones);
    }
    uw_import_dims(l, 1, v.dim[0], 1, 1);
    return uw_import_result(im, n, 0, dims, v.axes_n, 0);
}
