/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants are strided views, too: Transpose, Slice, Expand and Unsqueeze copy no element, and an
 * expanded zero is stored once. */
#include "import_const.h"
#include "import_parts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

int64_t uw_const_offset(const struct uw_onnx_tensor *t, uint64_t i)
{
    int64_t offset = 0;
    for (uint32_t a = t->rank; a-- > 0;) {
        offset += (int64_t)(i % t->dim[a]) * t->stride[a];
        i /= t->dim[a];
    }
    return offset;
}

static const uint8_t *element(const struct uw_onnx_tensor *t, uint64_t i)
{
    return t->data + uw_const_offset(t, i) * (t->is_float ? 4 : 8);
}

void uw_const_move_start(struct uw_onnx_tensor *t, int64_t by)
{
    t->data += by * (t->is_float ? 4 : 8);
    t->sized = t->sized != NULL ? t->sized + by : NULL;
}

int64_t uw_import_integer(const struct uw_onnx_tensor *t, uint64_t i)
{
    int64_t v;
    if (t->is_float) {
        double d = uw_import_number(t, i);
        return d >= -9.2e18 && d <= 9.2e18 ? (int64_t)d : 0;
    }
    memcpy(&v, element(t, i), sizeof v);
    return v;
}

double uw_import_number(const struct uw_onnx_tensor *t, uint64_t i)
{
    float f;
    if (!t->is_float) {
        return (double)uw_import_integer(t, i);
    }
    memcpy(&f, element(t, i), sizeof f);
    return (double)f;
}

bool uw_import_scalar(const struct uw_value *v, double *value)
{
    if (v == NULL || v->kind != UW_VALUE_CONST || uw_onnx_tensor_size(&v->t) != 1) {
        return false;
    }
    *value = uw_import_number(&v->t, 0);
    return true;
}

int uw_import_ints(struct uw_import *im, const struct uw_onnx_node *n, const char *attribute,
                   uint32_t i, int64_t *out)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, attribute);
    if (a == NULL && uw_import_in(im, n, i) == NULL) {
        return INT_MIN;
    }
    const struct uw_onnx_tensor *t = a == NULL ? uw_import_const(im, n, i) : NULL;
    if (a == NULL && t == NULL) {
        return im->err->code;
    }
    uint64_t count = a != NULL ? a->ints_n : uw_onnx_tensor_size(t);
    if (count > UW_ONNX_RANK_MAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
    }
    for (uint32_t k = 0; k < count; k++) {
        out[k] = a != NULL ? a->ints[k] : uw_import_integer(t, k);
    }
    return (int)count;
}

int uw_import_lacks(struct uw_import *im, const struct uw_onnx_node *n, const char *what)
{
    return im->err->code != UW_OK ? im->err->code
                                  : uw_import_refuse(im, n, UW_ERR_INVALID, "needs %s", what);
}

int uw_import_axes(struct uw_import *im, const struct uw_onnx_node *n, uint32_t rank, bool insert,
                   uint32_t *marked)
{
    int64_t axes[UW_ONNX_RANK_MAX];
    int count = uw_import_ints(im, n, "axes", 1, axes);
    int64_t all = (int64_t)rank + (insert && count > 0 ? count : 0);
    *marked = 0;
    for (int k = 0; k < count; k++) {
        int64_t a = axes[k] < 0 ? axes[k] + all : axes[k];
        if (a < 0 || a >= all || all > UW_ONNX_RANK_MAX || (*marked & 1u << a) != 0) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %lld of a tensor with %lld",
                                    (long long)axes[k], (long long)all);
        }
        *marked |= 1u << a;
    }
    return count;
}

int uw_import_cuts(struct uw_import *im, const struct uw_onnx_node *n, struct uw_import_cuts *c)
{
    int count = uw_import_ints(im, n, "starts", 1, c->start);
    int ends = uw_import_ints(im, n, "ends", 2, c->end);
    c->axes_n = uw_import_ints(im, n, "axes", 3, c->axes);
    c->steps_n = uw_import_ints(im, n, "steps", 4, c->step);
    return im->err->code != UW_OK || count < 0 || ends != count ? uw_import_lacks(im, n, "starts")
                                                                : count;
}

float *uw_import_floats(struct uw_import *im, const struct uw_onnx_tensor *t)
{
    uint64_t n = uw_onnx_tensor_size(t);
    uint64_t limit = t->stored_n > UW_FOLD_MAX ? t->stored_n : UW_FOLD_MAX;
    float *out = n <= limit ? uw_pool_take(im->pool, n, sizeof *out) : NULL;
    if (out == NULL) {
        uw_import_nomem(im);
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++) {
        out[i] = (float)uw_import_number(t, i);
    }
    return out;
}

int uw_import_count(struct uw_import *im, const struct uw_onnx_node *n, uint64_t count)
{
    im->folded_n = count > UINT64_MAX - im->folded_n ? UINT64_MAX : im->folded_n + count;
    return im->folded_n <= im->folded_max
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "constants that are computed from "
                                  "constants grow far beyond the file");
}

void *uw_const_fresh(struct uw_import *im, const struct uw_onnx_node *n, struct uw_onnx_tensor *t,
                     uint64_t stored)
{
    uint64_t count = uw_onnx_tensor_size(t);
    if (count > (stored > UW_FOLD_MAX ? stored : UW_FOLD_MAX)) {
        uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a computed constant of more than %u elements",
                         UW_FOLD_MAX);
        return NULL;
    }
    if (uw_import_count(im, n, count) < 0) {
        return NULL;
    }
    void *data = uw_pool_take(im->pool, count, t->is_float ? sizeof(float) : sizeof(int64_t));
    if (data == NULL) {
        uw_import_nomem(im);
    }
    uw_onnx_set_strides(t);
    t->data = data;
    t->stored_n = count;
    t->sized = NULL;
    return data;
}

void uw_const_put(struct uw_onnx_tensor *t, void *data, uint64_t i, double number, int64_t integer)
{
    if (t->is_float) {
        ((float *)data)[i] = (float)number;
    } else {
        ((int64_t *)data)[i] = integer;
    }
}

int uw_fold_constant(struct uw_import *im, const struct uw_onnx_node *n,
                         struct uw_onnx_tensor *out)
{
    const struct uw_onnx_attribute *a = n->attributes_n > 0 ? &n->attribute[0] : NULL;
    if (a == NULL) {
        return uw_import_refuse(im, n, UW_ERR_CORRUPT, "has no value");
    }
    if (a->t != NULL) {
        *out = *a->t;
        return UW_OK;
    }
    bool one = strcmp(a->name, "value_int") == 0 || strcmp(a->name, "value_float") == 0;
    out->is_float = strncmp(a->name, "value_float", 11) == 0;
    if (!out->is_float && strncmp(a->name, "value_int", 9) != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its %.40s is no number", a->name);
    }
    out->rank = one ? 0 : 1;
    out->dim[0] = out->is_float ? a->floats_n : a->ints_n;
    void *data = uw_const_fresh(im, n, out, 0);
    uint64_t count = uw_onnx_tensor_size(out);
    for (uint64_t i = 0; data != NULL && i < count; i++) {
        uw_const_put(out, data, i, (double)(one || !out->is_float ? a->f : a->floats[i]),
            one || out->is_float ? a->i : a->ints[i]);
    }
    return data != NULL ? UW_OK : im->err->code;
}

int uw_fold_shape(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_value *x, struct uw_onnx_tensor *out)
{
    bool data_in = x->kind == UW_VALUE_DATA;
    int64_t rank = data_in ? x->view.axes_n : x->t.rank;
    int64_t start = uw_onnx_int(n, "start", 0);
    int64_t end = uw_onnx_int(n, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end > rank ? rank : end;
    start = start < 0 ? 0 : start;
    *out = (struct uw_onnx_tensor){.name = "", .rank = 1};
    out->dim[0] = end > start ? (uint64_t)(end - start) : 0;
    int64_t *data = uw_const_fresh(im, n, out, 0);
    for (uint64_t i = 0; data != NULL && i < out->dim[0]; i++) {
        uint32_t a = (uint32_t)start + (uint32_t)i;
        uint64_t size = data_in ? uw_view_dim(&x->view, a) : x->t.dim[a];
        data[i] = (int64_t)size;
        if (uw_import_is_open(im, size) && uw_const_mark(im, out, i) < 0) {
            return im->err->code;
        }
    }
    return data != NULL ? UW_OK : im->err->code;
}

static bool contiguous(const struct uw_onnx_tensor *t)
{
    int64_t stride = 1;
    for (uint32_t a = t->rank; a-- > 0;) {
        if (t->dim[a] != 1 && t->stride[a] != stride) {
            return false;
        }
        stride *= (int64_t)t->dim[a];
    }
    return true;
}

static bool repeats(const struct uw_onnx_tensor *t)
{
    for (uint32_t a = 0; a < t->rank; a++) {
        if (t->dim[a] != 1 && t->stride[a] != 0) {
            return false;
        }
    }
    return true;
}

/* Refuse a shape that leaves no room for a minibatch of any size. */
static int refuse_minibatch(struct uw_import *im, const struct uw_onnx_node *n,
                            const int64_t *want, uint32_t want_n, uint64_t sample_n,
                            uint64_t product)
{
    char shape[80] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < want_n && used < sizeof shape - 1; i++) {
        used += (size_t)snprintf(shape + used, sizeof shape - used, i > 0 ? ", %lld" : "%lld",
                                 (long long)want[i]);
    }
    if (sample_n == 0 || product % sample_n != 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its shape [%s] does not hold the %llu "
                                "elements of each sample", shape, (unsigned long long)sample_n);
    }
    return uw_import_refuse(im, n, UW_ERR_SHAPE, "its shape [%s] fixes the minibatch to %llu, "
                            "which the input leaves open: export with -1 there, as "
                            "x.view(-1, ...), or with an input of fixed size", shape,
                            (unsigned long long)(product / sample_n));
}

int uw_import_reshape_dims(struct uw_import *im, const struct uw_onnx_node *n,
                           const uint64_t *have, uint32_t have_n, const int64_t *want,
                           uint32_t want_n, uint64_t *out)
{
    uint64_t total = 1;
    uint64_t product = 1;
    int left = -1;
    for (uint32_t i = 0; i < have_n; i++) {
        total *= have[i];
    }
    for (uint32_t i = 0; i < want_n; i++) {
        bool keeps = want[i] == 0 && i < have_n && uw_onnx_int(n, "allowzero", 0) == 0;
        out[i] = keeps ? have[i] : want[i] > 0 ? (uint64_t)want[i] : 1;
        if (want[i] == -1 && left < 0) {
            left = (int)i;
        } else if (want[i] < 0 || (want[i] == 0 && !keeps) || out[i] > UINT32_MAX ||
                   (out[i] != 0 && product > UINT64_MAX / out[i])) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "no shape: size %lld at axis %u",
                                    (long long)want[i], (unsigned)i);
        } else {
            product *= out[i];
        }
    }
    if (left >= 0 && product != 0) {
        out[left] = total / product;
        product *= out[left];
    }
    if (product != total && im->batch == UW_BATCH_SYMBOL && total % UW_BATCH_SYMBOL == 0) {
        return refuse_minibatch(im, n, want, want_n, total / UW_BATCH_SYMBOL, product);
    }
    if (product != total) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%llu elements do not fill its shape of %llu",
                                (unsigned long long)total, (unsigned long long)product);
    }
    return UW_OK;
}

/* Copy a constant in row-major order, if a Reshape cannot be done by strides. */
static int compact(struct uw_import *im, const struct uw_onnx_node *n, struct uw_onnx_tensor *t)
{
    struct uw_onnx_tensor from = *t;
    uint64_t count = uw_onnx_tensor_size(t);
    if (contiguous(t)) {
        return UW_OK;
    }
    if (t->is_float && count <= t->stored_n && t->sized == NULL) {
        t->data = (const uint8_t *)uw_import_floats(im, &from);
        uw_onnx_set_strides(t);
        return t->data != NULL ? UW_OK : im->err->code;
    }
    void *data = uw_const_fresh(im, n, t, 0);
    for (uint64_t i = 0; data != NULL && i < count; i++) {
        uw_const_put(t, data, i, uw_import_number(&from, i), uw_import_integer(&from, i));
    }
    return data != NULL ? uw_const_mark_like(im, t, &from) : im->err->code;
}

/* x in that shape of as many elements. */
static int in_shape(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *x, const uint64_t *dim, uint32_t rank,
                    struct uw_onnx_tensor *out)
{
    *out = *x;
    bool same = repeats(x);
    int rc = same ? UW_OK : compact(im, n, out);
    out->rank = rank;
    memcpy(out->dim, dim, rank * sizeof *dim);
    if (same) { /* all elements are equal: any shape */
        memset(out->stride, 0, sizeof out->stride);
    } else {
        uw_onnx_set_strides(out);
    }
    return rc;
}

int uw_fold_reshape(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    int64_t want[UW_ONNX_RANK_MAX];
    uint64_t dim[UW_ONNX_RANK_MAX];
    int count = uw_import_ints(im, n, "shape", 1, want);
    int rc = count < 0 ? count
                       : uw_import_reshape_dims(im, n, x->dim, x->rank, want, (uint32_t)count, dim);
    return rc < 0 ? rc : in_shape(im, n, x, dim, (uint32_t)count, out);
}

int uw_fold_flatten(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    uint64_t dim[2] = {1, 1};
    int64_t axis = uw_onnx_int(n, "axis", 1);
    axis = axis < 0 ? axis + x->rank : axis;
    for (uint32_t a = 0; a < x->rank; a++) {
        dim[a < axis ? 0 : 1] *= x->dim[a];
    }
    return in_shape(im, n, x, dim, 2, out);
}

int uw_import_order_of(struct uw_import *im, const struct uw_onnx_node *n, uint32_t rank,
                       uint32_t *order)
{
    const struct uw_onnx_attribute *perm = uw_onnx_attribute(n, "perm");
    uint32_t seen = 0;
    for (uint32_t a = 0; a < rank; a++) {
        int64_t from = perm != NULL && a < perm->ints_n ? perm->ints[a] : rank - 1 - a;
        if (from < 0 || from >= rank || (seen & 1u << from) != 0 ||
            (perm != NULL && perm->ints_n != rank)) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "perm is no order of its %u axes",
                                    (unsigned)rank);
        }
        seen |= 1u << from;
        order[a] = (uint32_t)from;
    }
    return UW_OK;
}

int uw_fold_transpose(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    uint32_t order[UW_ONNX_RANK_MAX];
    int rc = uw_import_order_of(im, n, x->rank, order);
    *out = *x;
    for (uint32_t a = 0; a < x->rank && rc == UW_OK; a++) {
        out->dim[a] = x->dim[order[a]];
        out->stride[a] = x->stride[order[a]];
    }
    return rc;
}

/* Unsqueeze and Squeeze. */
int uw_fold_axes(struct uw_import *im, const struct uw_onnx_node *n,
                 const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    bool insert = n->op[0] == 'U';
    uint32_t marked, from = 0;
    int count = uw_import_axes(im, n, x->rank, insert, &marked);
    if (count < 0 && (insert || im->err->code != UW_OK)) {
        return uw_import_lacks(im, n, "axes");
    }
    uint32_t rank = x->rank + (insert ? (uint32_t)count : 0u);
    *out = *x;
    out->rank = 0;
    for (uint32_t a = 0; a < rank; a++) {
        if (insert && (marked & 1u << a) != 0) {
            out->dim[out->rank] = 1;
            out->stride[out->rank++] = 0;
        } else if (!insert && ((marked & 1u << a) != 0 || (count < 0 && x->dim[a] == 1))) {
            if (x->dim[a] != 1) {
                return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %u is not of size 1",
                                        (unsigned)a);
            }
        } else {
            uint32_t source = insert ? from++ : a;
            out->dim[out->rank] = x->dim[source];
            out->stride[out->rank++] = x->stride[source];
        }
    }
    return UW_OK;
}

int uw_fold_slice(struct uw_import *im, const struct uw_onnx_node *n,
                  const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    struct uw_import_cuts c;
    int count = uw_import_cuts(im, n, &c);
    *out = *x;
    for (int k = 0; k < count; k++) {
        int64_t start = c.start[k], end = c.end[k], a = k < c.axes_n ? c.axes[k] : k;
        a = a < 0 ? a + x->rank : a;
        int64_t by = k < c.steps_n ? c.step[k] : 1;
        if (a < 0 || a >= x->rank || by == 0 || by < -1) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "axis %lld, step %lld",
                                    (long long)a, (long long)by);
        }
        int64_t size = (int64_t)x->dim[a];
        by = by > size && size > 0 ? size : by; /* a larger step also leaves one element */
        by = size == 0 ? 1 : by;
        int64_t low = by < 0 ? -1 : 0;
        int64_t high = by < 0 ? size - 1 : size;
        int64_t s = start < 0 ? (start < -size ? -1 : start + size) : start;
        int64_t e = end < 0 ? (end < -size ? -1 : end + size) : end;
        s = s < low ? low : s > high ? high : s;
        e = e < low ? low : e > high ? high : e;
        int64_t length = by < 0 ? s - e : e > s ? (e - s + by - 1) / by : 0;
        out->dim[a] = length > 0 ? (uint64_t)length : 0;
        uw_const_move_start(out, (length > 0 ? s : 0) * out->stride[a]);
        out->stride[a] *= by;
    }
    return count < 0 ? count : UW_OK;
}

/* Place i that a Gather takes, counted from the front. */
static int64_t place(const struct uw_onnx_tensor *index, uint64_t i, int64_t size)
{
    int64_t k = uw_import_integer(index, i);
    return k < 0 ? k + size : k;
}

/* Whether a Gather takes places that follow each other, along one axis; err set: that are none. */
static bool is_range(struct uw_import *im, const struct uw_onnx_node *n,
                     const struct uw_onnx_tensor *index, int64_t size)
{
    uint64_t count = uw_onnx_tensor_size(index), axes = 0;
    for (uint32_t a = 0; a < index->rank; a++) {
        axes += index->dim[a] != 1 ? 1 : 0;
    }
    bool range = axes < 2 && count > 0 && uw_import_count(im, n, count) == UW_OK;
    for (uint64_t i = 0; i < count && im->err->code == UW_OK; i++) {
        int64_t k = place(index, i, size);
        if (k < 0 || k >= size) {
            uw_import_refuse(im, n, UW_ERR_SHAPE, "index %lld of %lld",
                             (long long)uw_import_integer(index, i), (long long)size);
            return false;
        }
        range = range && k == place(index, 0, size) + (int64_t)i;
    }
    return range;
}

/* Elements of a constant that do not follow each other. */
static int gather_copy(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_onnx_tensor *x, const struct uw_onnx_tensor *index,
                       uint32_t axis, struct uw_onnx_tensor *out)
{
    uint64_t count = uw_onnx_tensor_size(index), inner = 1, size = x->dim[axis];
    for (uint32_t a = axis + 1; a < x->rank; a++) {
        inner *= x->dim[a];
    }
    out->name = "";
    void *data = uw_const_fresh(im, n, out, x->stored_n);
    uint64_t total = uw_onnx_tensor_size(out);
    for (uint64_t i = 0; data != NULL && i < total; i++) {
        uint64_t k = (uint64_t)place(index, i / inner % count, (int64_t)size);
        uint64_t at = (i / inner / count * size + k) * inner + i % inner;
        uw_const_put(out, data, i, uw_import_number(x, at), uw_import_integer(x, at));
        if (uw_const_is_sized_at(x, at) && uw_const_mark(im, out, i) < 0) {
            return im->err->code;
        }
    }
    return data != NULL ? UW_OK : im->err->code;
}

/* Elements of a constant along an axis. Rows of a parameter that follow each other are a part of
 * it; others are taken as values. */
static int gather_along(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_onnx_tensor *x, const struct uw_onnx_tensor *index,
                        int64_t axis, struct uw_onnx_tensor *out)
{
    if (axis < 0 || axis >= x->rank || x->rank - 1 + index->rank > UW_ONNX_RANK_MAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "gathers along no axis of a constant");
    }
    bool range = is_range(im, n, index, (int64_t)x->dim[axis]);
    if (im->err->code != UW_OK) {
        return im->err->code;
    }
    *out = *x;
    out->rank = x->rank - 1 + index->rank;
    for (uint32_t a = (uint32_t)axis; a < out->rank; a++) {
        bool behind = a >= axis + index->rank;
        uint32_t from = behind ? a + 1 - index->rank : (uint32_t)axis;
        out->dim[a] = behind ? x->dim[from] : index->dim[a - axis];
        out->stride[a] = behind || out->dim[a] != 1 ? x->stride[from] : 0;
    }
    if (range) {
        uw_const_move_start(out, place(index, 0, (int64_t)x->dim[axis]) * x->stride[axis]);
        return UW_OK;
    }
    const struct uw_value *v = uw_import_in(im, n, 0);
    return v->derived || uw_import_learns(im, x)
               ? 1 : gather_copy(im, n, x, index, (uint32_t)axis, out);
}

int uw_fold_gather(struct uw_import *im, const struct uw_onnx_node *n,
                   const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    int64_t axis = uw_onnx_int(n, "axis", 0);
    return gather_along(im, n, in[0], in[1], axis < 0 ? axis + in[0]->rank : axis, out);
}

int uw_fold_gather_nd(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0];
    struct uw_onnx_tensor flat, index;
    uint64_t dim[UW_ONNX_RANK_MAX] = {1};
    int rc = uw_import_places(im, n, x->dim, x->rank, in[1], &index);
    uint32_t axes = rc == UW_OK ? (uint32_t)in[1]->dim[in[1]->rank - 1] : 0;
    for (uint32_t a = 0; a < x->rank; a++) {
        dim[a < axes ? 0 : a + 1 - axes] = (a < axes ? dim[0] : 1) * x->dim[a];
    }
    rc = rc < 0 ? rc : in_shape(im, n, x, dim, x->rank + 1 - axes, &flat);
    return rc < 0 ? rc : gather_along(im, n, &flat, &index, 0, out);
}
