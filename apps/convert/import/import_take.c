/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that pick or mix the elements of single axes by constant indices: padding, resizing,
 * slices with steps, repetition. One layer for each axis that changes. */
#include "import_const.h"
#include "import_parts.h"

#include <math.h>
#include <string.h>

/* Give an axis of size 1 an atom, in front of the sample. */
static bool insert_atom(struct uw_view *v, uint32_t axis, uint32_t first)
{
    if (v->atoms_n == UW_ATOMS_MAX) {
        return false;
    }
    memmove(v->atom + first + 1, v->atom + first, (v->atoms_n - first) * sizeof v->atom[0]);
    v->atom[first] = (struct uw_atom){1, v->n, false};
    v->atoms_n++;
    for (uint32_t a = axis; a < v->axes_n; a++) {
        v->axis_end[a]++;
    }
    return true;
}

int uw_import_take(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                   uint32_t axis, const struct uw_import_picks *p)
{
    uint32_t first = axis == 0 ? 0 : v->axis_end[axis - 1];
    uint64_t size = uw_view_dim(v, axis), dims[UW_ONNX_RANK_MAX];
    uw_view_dims(v, dims);
    if (uw_view_has_batch(v, axis)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "changes the minibatch");
    }
    if (v->axis_end[axis] - first != 1) { /* of parts, or of one value */
        if (uw_import_order(im, n, v) < 0) {
            return im->err->code;
        }
        if (!uw_view_reshape(v, dims, v->axes_n)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its axis is made of parts");
        }
        first = axis == 0 ? 0 : v->axis_end[axis - 1];
    }
    if (v->axis_end[axis] == first && !insert_atom(v, axis, first)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 16 axes");
    }
    uint32_t at;
    int rc = uw_import_isolate(im, n, v, first, &at);
    if (rc < 0) {
        return rc;
    }
    if (p->n == 0 || v->n / size > INT32_MAX / p->n) {
        return uw_import_refuse(im, n, UW_ERR_TOOBIG, "its output is empty or too large");
    }
    struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_TAKE, v->layer);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.take = (struct uw_take_def){.axis = at, .n = p->n, .taps = p->taps == 1 ? 0 : p->taps,
                                       .index = p->index, .weight = p->weight};
    l->dim[at] = p->n;
    return uw_import_resized(im, n, v, v, first, p->n);
}

int uw_import_picks(struct uw_import *im, struct uw_import_picks *p, uint64_t n, uint32_t taps)
{
    *p = (struct uw_import_picks){.n = n <= INT32_MAX ? (uint32_t)n : 0, .taps = taps};
    int rc = uw_import_count(im, NULL, n > INT32_MAX ? UINT64_MAX : n * taps);
    if (rc < 0) {
        return rc;
    }
    p->index = uw_pool_take(im->pool, (uint64_t)p->n * taps, sizeof *p->index);
    p->weight = taps > 1 ? uw_pool_take(im->pool, (uint64_t)p->n * taps, sizeof *p->weight) : NULL;
    return p->index != NULL && (taps == 1 || p->weight != NULL) ? UW_OK : uw_import_nomem(im);
}

/* ---- padding ---- */

/* Element of an axis of `size` at place `at`, which may be outside: -1 is a zero. */
static int32_t padded(int64_t at, int64_t size, enum uw_import_padding how)
{
    if (at >= 0 && at < size) {
        return (int32_t)at;
    }
    if (how == UW_PAD_ZEROS) {
        return -1;
    }
    if (how == UW_PAD_EDGE) {
        return at < 0 ? 0 : (int32_t)size - 1;
    }
    if (how == UW_PAD_WRAP) {
        return (int32_t)((at % size + size) % size);
    }
    int64_t period = size > 1 ? 2 * (size - 1) : 1; /* reflect */
    at = (at % period + period) % period;
    return (int32_t)(at < size ? at : period - at);
}

int uw_import_pad(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                  uint32_t axis, int64_t front, int64_t behind, enum uw_import_padding how)
{
    struct uw_import_picks p;
    int64_t size = (int64_t)uw_view_dim(v, axis), most = INT32_MAX;
    if (front == 0 && behind == 0) {
        return UW_OK;
    }
    bool fits = front >= -most && front <= most && behind >= -most && behind <= most;
    int64_t out = fits ? size + front + behind : 0;
    if (out < 1 || out > most) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "pads %lld and %lld around %lld values",
                                (long long)front, (long long)behind, (long long)size);
    }
    int rc = uw_import_picks(im, &p, (uint64_t)out, 1);
    for (int64_t k = 0; k < out && rc == UW_OK; k++) {
        p.index[k] = padded(k - front, size, how);
    }
    return rc < 0 ? rc : uw_import_take(im, n, v, axis, &p);
}

int uw_import_pads(struct uw_import *im, const struct uw_onnx_node *n, uint32_t rank,
                   int64_t front[UW_ONNX_RANK_MAX], int64_t behind[UW_ONNX_RANK_MAX])
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, "pads");
    const struct uw_value *t = uw_import_in(im, n, 1), *axes = uw_import_in(im, n, 3);
    bool constant = t != NULL && t->kind == UW_VALUE_CONST;
    uint64_t count = a != NULL ? a->ints_n : constant ? uw_onnx_tensor_size(&t->t) : 0;
    uint64_t axes_n = axes != NULL && axes->kind == UW_VALUE_CONST ? uw_onnx_tensor_size(&axes->t)
                                                                   : rank;
    if (count == 0 || count != 2 * axes_n || axes_n > rank) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "needs constant pads, two for each "
                                "axis");
    }
    for (uint32_t i = 0; i < rank; i++) {
        front[i] = behind[i] = 0;
    }
    for (uint32_t i = 0; i < axes_n; i++) {
        int64_t axis = axes != NULL ? uw_import_integer(&axes->t, i) : i;
        axis = axis < 0 ? axis + rank : axis;
        if (axis < 0 || axis >= rank) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %lld", (long long)axis);
        }
        front[axis] = a != NULL ? a->ints[i] : uw_import_integer(&t->t, i);
        behind[axis] = a != NULL ? a->ints[axes_n + i] : uw_import_integer(&t->t, axes_n + i);
    }
    return UW_OK;
}

/* A mask of the elements that are not padding, to add another value than zero around them. */
static int add_frame(struct uw_import *im, const struct uw_onnx_node *n, const int64_t *front,
                     float fill, struct uw_value *x, struct uw_value *y)
{
    struct uw_value frame = {.name = "", .kind = UW_VALUE_CONST};
    struct uw_onnx_tensor *t = &frame.t;
    uint64_t dim[UW_ONNX_RANK_MAX], size = 1;
    const struct uw_view *v = &y->view;
    uw_view_dims(v, dim);
    *t = (struct uw_onnx_tensor){.name = "", .is_float = true, .rank = v->axes_n};
    for (uint32_t a = 0; a < v->axes_n; a++) {
        t->dim[a] = uw_view_has_batch(v, a) ? 1 : dim[a];
        size *= t->dim[a];
    }
    float *data = uw_const_fresh(im, n, t, size);
    if (data == NULL) {
        return im->err->code;
    }
    for (uint64_t i = 0; i < size; i++) {
        uint64_t left = i;
        bool inside = true;
        for (uint32_t a = v->axes_n; a-- > 0;) {
            int64_t at = (int64_t)(left % t->dim[a]) - front[a];
            left /= t->dim[a];
            inside = inside && (uw_view_has_batch(v, a) ||
                                (at >= 0 && at < (int64_t)uw_view_dim(&x->view, a)));
        }
        data[i] = inside ? 0.0f : fill;
    }
    struct uw_value padded_value = *y;
    return uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &padded_value, &frame, y);
}

int uw_op_pad(struct uw_import *im, const struct uw_onnx_node *n)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    const struct uw_value *value = uw_import_in(im, n, 2);
    const char *mode = uw_onnx_text(n, "mode", "constant");
    int64_t front[UW_ONNX_RANK_MAX], behind[UW_ONNX_RANK_MAX];
    double fill = (double)uw_onnx_float(n, "value", 0.0f);
    uint32_t how = 0;
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    while (how < 4 && strcmp(mode, modes[how]) != 0) {
        how++;
    }
    if (how == 4 || (value != NULL && !uw_import_scalar(value, &fill))) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "mode %.20s, or its value is no "
                                "constant", mode);
    }
    y->view = x->view;
    int rc = uw_import_pads(im, n, x->view.axes_n, front, behind);
    for (uint32_t a = 0; a < x->view.axes_n && rc == UW_OK; a++) {
        rc = uw_import_pad(im, n, &y->view, a, front[a], behind[a], (enum uw_import_padding)how);
    }
    y->kind = rc == UW_OK ? UW_VALUE_DATA : y->kind;
    return rc < 0 || how != UW_PAD_ZEROS || fill == 0.0
               ? rc : add_frame(im, n, front, (float)fill, x, y);
}

/* ---- resizing ---- */

/* Place in the input of output element k, by ONNX's coordinate transformations. */
static double source_of(const char *how, int64_t k, double scale, int64_t in, int64_t out)
{
    double x = (double)k;
    if (strcmp(how, "asymmetric") == 0) {
        return x / scale;
    }
    if (strcmp(how, "align_corners") == 0) {
        return out > 1 ? x * (double)(in - 1) / (double)(out - 1) : 0.0;
    }
    if (strcmp(how, "pytorch_half_pixel") == 0 && out <= 1) {
        return 0.0;
    }
    return (x + 0.5) / scale - 0.5; /* half_pixel */
}

static int64_t nearest(const char *how, double x, int64_t size)
{
    double r = strcmp(how, "floor") == 0              ? floor(x)
               : strcmp(how, "ceil") == 0             ? ceil(x)
               : strcmp(how, "round_prefer_ceil") == 0 ? floor(x + 0.5)
                                                       : ceil(x - 0.5);
    return r < 0.0 ? 0 : r >= (double)size ? size - 1 : (int64_t)r;
}

/* The four weights of cubic interpolation at distance t from the second point. */
static void cubic(double a, double t, double w[4])
{
    for (int i = 0; i < 4; i++) {
        double d = fabs(t - (double)(i - 1));
        w[i] = d <= 1.0 ? ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
                        : ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
    }
}

static int resize_axis(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                       uint32_t axis, double scale, int64_t out, const char *transform)
{
    const char *mode = uw_onnx_text(n, "mode", "nearest");
    const char *rounding = uw_onnx_text(n, "nearest_mode", strcmp(n->op, "Upsample") == 0
                                                               ? "floor" : "round_prefer_floor");
    double a = (double)uw_onnx_float(n, "cubic_coeff_a", -0.75f);
    int64_t in = (int64_t)uw_view_dim(v, axis);
    bool linear = strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0;
    bool by_cubes = strcmp(mode, "cubic") == 0;
    struct uw_import_picks p;
    uint32_t taps = linear ? 2 : by_cubes ? 4 : 1;
    if (!linear && !by_cubes && strcmp(mode, "nearest") != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "mode %.20s", mode);
    }
    int rc = uw_import_picks(im, &p, (uint64_t)out, taps);
    for (int64_t k = 0; k < out && rc == UW_OK; k++) {
        double x = source_of(transform, k, scale, in, out), low = floor(x), w[4] = {0};
        if (taps == 1) {
            p.index[k] = (int32_t)nearest(rounding, x, in);
            continue;
        }
        w[0] = low + 1.0 - x;
        w[1] = x - low;
        if (by_cubes) {
            cubic(a, x - low, w);
        }
        for (uint32_t t = 0; t < taps; t++) {
            int64_t at = (int64_t)low + (int64_t)t - (by_cubes ? 1 : 0);
            p.index[k * taps + t] = (int32_t)(at < 0 ? 0 : at >= in ? in - 1 : at);
            p.weight[k * taps + t] = (float)w[t];
        }
    }
    return rc < 0 ? rc : uw_import_take(im, n, v, axis, &p);
}

static bool has_numbers(const struct uw_value *v)
{
    return v != NULL && v->kind == UW_VALUE_CONST && uw_onnx_tensor_size(&v->t) != 0;
}

/* Resize and Upsample: sizes or scales, of all axes or of those named. */
int uw_op_resize(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    bool upsample = strcmp(n->op, "Upsample") == 0;
    const struct uw_onnx_attribute *given = uw_onnx_attribute(n, "scales");
    const struct uw_onnx_attribute *axes = uw_onnx_attribute(n, "axes");
    const struct uw_value *scales = uw_import_in(im, n, upsample || n->inputs_n == 2 ? 1 : 2);
    const struct uw_value *sizes = upsample ? NULL : uw_import_in(im, n, 3);
    const char *how = uw_onnx_text(n, "coordinate_transformation_mode",
                                   upsample || im->graph.opset < 11 ? "asymmetric" : "half_pixel");
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    scales = has_numbers(scales) ? scales : NULL;
    sizes = has_numbers(sizes) ? sizes : NULL;
    uint64_t count = given != NULL ? given->floats_n
                     : sizes != NULL ? uw_onnx_tensor_size(&sizes->t)
                     : scales != NULL ? uw_onnx_tensor_size(&scales->t) : 0;
    if (count == 0 || count != (axes != NULL ? axes->ints_n : x->view.axes_n) ||
        uw_onnx_int(n, "antialias", 0) != 0 || strcmp(how, "tf_crop_and_resize") == 0 ||
        strcmp(uw_onnx_text(n, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0 ||
        uw_onnx_int(n, "exclude_outside", 0) != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "only by constant scales or sizes, "
                                "without antialias, crop or aspect policies");
    }
    y->view = x->view;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes != NULL ? axes->ints[i] : i;
        int a = uw_view_axis(im, n, &y->view, axis);
        if (a < 0) {
            return im->err->code;
        }
        int64_t in = (int64_t)uw_view_dim(&y->view, (uint32_t)a);
        double scale = given != NULL ? (double)given->floats[i]
                       : sizes != NULL ? (double)uw_import_integer(&sizes->t, i) / (double)in
                                       : uw_import_number(&scales->t, i);
        double out = sizes != NULL ? (double)uw_import_integer(&sizes->t, i)
                                   : floor((double)in * scale + 1e-9);
        if (uw_view_has_batch(&y->view, (uint32_t)a) || scale == 1.0) {
            continue;
        }
        if (!(out >= 1.0 && out < 1e6)) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %d becomes %g values", a, out);
        }
        int rc = resize_axis(im, n, &y->view, (uint32_t)a, scale, (int64_t)out, how);
        if (rc < 0) {
            return rc;
        }
    }
    y->kind = UW_VALUE_DATA;
    return UW_OK;
}

/* ---- repetition ---- */

/* Repeat an axis of v: each value `times` times (size 1), or the whole axis. */
static int repeat(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                  uint32_t axis, uint64_t times)
{
    struct uw_import_picks p;
    uint64_t size = uw_view_dim(v, axis);
    if (times == 1) {
        return UW_OK;
    }
    if (times == 0 || times > INT32_MAX / size) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "repeats an axis %llu times",
                                (unsigned long long)times);
    }
    int rc = uw_import_picks(im, &p, size * times, 1);
    for (uint64_t k = 0; k < size * times && rc == UW_OK; k++) {
        p.index[k] = (int32_t)(k % size);
    }
    return rc < 0 ? rc : uw_import_take(im, n, v, axis, &p);
}

/* Expand (to a shape) and Tile (so many times). */
int uw_op_expand(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    int64_t want[UW_ONNX_RANK_MAX];
    bool tile = n->op[0] == 'T';
    int count = x != NULL && y != NULL ? uw_import_ints(im, n, "", 1, want) : -1;
    if (count < 0) {
        return x == NULL || y == NULL ? im->err->code : uw_import_lacks(im, n, "a shape");
    }
    y->view = x->view;
    while ((int)y->view.axes_n < count && uw_view_insert(&y->view, 0)) {
    }
    uint32_t skip = y->view.axes_n - (uint32_t)count;
    for (int i = 0; i < count; i++) {
        uint32_t a = skip + (uint32_t)i;
        uint64_t size = uw_view_dim(&y->view, a);
        uint64_t times = tile ? (uint64_t)want[i] : size == 1 ? (uint64_t)want[i] : 1;
        if (!tile && want[i] == 1) {
            times = 1;
        }
        if (uw_view_has_batch(&y->view, a) && (uint64_t)want[i] == im->batch && !tile) {
            continue;
        }
        if (size == 1 && times == im->batch && im->batch == UW_BATCH_SYMBOL) {
            continue; /* of a value that is the same for all samples */
        }
        if (uw_import_is_open(im, times)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "repeats what a sample has as often "
                                    "as the minibatch has samples");
        }
        int rc = repeat(im, n, &y->view, a, times);
        if (rc < 0) {
            return rc;
        }
    }
    y->kind = UW_VALUE_DATA;
    return UW_OK;
}

/* DepthToSpace and SpaceToDepth: an axis is cut, and the parts change places. */
int uw_op_depth_to_space(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    uint64_t d[UW_ONNX_RANK_MAX], b = (uint64_t)uw_onnx_int(n, "blocksize", 0);
    bool to_space = n->op[0] == 'D';
    bool crd = strcmp(uw_onnx_text(n, "mode", "DCR"), "CRD") == 0;
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    if (v.axes_n != 4 || b < 1 || b > 65535) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its input has %u axes", (unsigned)v.axes_n);
    }
    static const uint32_t orders[3][6] = {
        {0, 3, 5, 1, 2, 4}, {0, 3, 4, 1, 5, 2}, {0, 1, 4, 2, 5, 3}};
    uw_view_dims(&v, d);
    uint64_t channels = d[1] / (b * b);
    const uint64_t cut[3][6] = {{d[0], d[1], d[2] / b, b, d[3] / b, b},
                                {d[0], b, b, channels, d[2], d[3]},
                                {d[0], channels, b, b, d[2], d[3]}};
    const uint64_t out[2][4] = {{d[0], d[1] * b * b, d[2] / b, d[3] / b},
                                {d[0], channels, d[2] * b, d[3] * b}};
    uint32_t form = !to_space ? 0 : crd ? 2 : 1;
    int fits = uw_import_reshape(im, n, &v, cut[form], 6);
    if (fits > 0) {
        uw_view_permute(&v, orders[form]);
        fits = uw_view_reshape(&v, out[to_space ? 1 : 0], 4) ? 1 : 0;
    }
    y->kind = fits > 0 ? UW_VALUE_DATA : y->kind;
    y->view = v;
    return fits > 0 ? UW_OK
           : fits < 0 ? fits
                      : uw_import_refuse(im, n, UW_ERR_SHAPE, "its %s do not divide",
                                         to_space ? "channels" : "sides");
}
