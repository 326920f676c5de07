/* SPDX-License-Identifier: Apache-2.0
 *
 * GatherND and GatherElements, ScatterND and ScatterElements by constant indices: places of one
 * axis, which several are joined to. What is put into places is one take of both operands. */
#include "import_const.h"
#include "import_parts.h"

#include <string.h>

/* Numbers of an index whose first one is that of the sample are the same for each. */
static int check_samples(struct uw_import *im, const struct uw_onnx_node *n,
                         const struct uw_onnx_tensor *index)
{
    uint64_t size = uw_onnx_tensor_size(index), each = size / index->dim[0];
    uint64_t k = index->dim[index->rank - 1], count = index->rise_first ? each : size;
    bool fits = index->dim[0] == im->batch &&
                (!index->rise_first || (index->rise == 1 && index->stride[0] == 0));
    if (uw_import_count(im, n, count) < 0) {
        return im->err->code;
    }
    for (uint64_t i = 0; i < count && fits; i++) {
        int64_t sample = i % k == 0 ? (int64_t)(i / each) : 0;
        fits = uw_import_integer(index, i) == (i % k == 0 ? sample
                                                          : uw_import_integer(index, i % each));
    }
    return fits ? UW_OK
                : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its indices mix samples");
}

/* Places of an index [..][k] in the axes dim[0] .. dim[k - 1] as one axis.
 *   skip  1: the first axis is the minibatch, the first number of the index that of the sample */
static int places(struct uw_import *im, const struct uw_onnx_node *n, const uint64_t *dim,
                  uint32_t rank, const struct uw_onnx_tensor *index, uint32_t skip,
                  struct uw_onnx_tensor *out)
{
    uint64_t k = index->rank > skip ? index->dim[index->rank - 1] : 0, all = 1;
    *out = (struct uw_onnx_tensor){.name = "", .rank = index->rank - 1 - skip};
    if (uw_onnx_int(n, "batch_dims", 0) != 0) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "batch_dims is not 0");
    }
    if (k <= skip || k > rank || uw_onnx_tensor_size(index) == 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its indices do not fit %u axes",
                                (unsigned)rank);
    }
    for (uint64_t c = skip; c < k; c++) {
        if (dim[c] > INT64_MAX / all) {
            return uw_import_refuse(im, n, UW_ERR_TOOBIG, "its axes are too large");
        }
        all *= dim[c] > 0 ? dim[c] : 1;
    }
    int rc = skip == 1 ? check_samples(im, n, index)
             : index->rise != 0 ? uw_import_refuse_rise(im, n) : UW_OK;
    memcpy(out->dim, index->dim + skip, out->rank * sizeof out->dim[0]);
    int64_t *data = rc == UW_OK ? uw_const_fresh(im, n, out, index->stored_n) : NULL;
    uint64_t count = data != NULL ? uw_onnx_tensor_size(out) : 0;
    for (uint64_t i = 0; i < count; i++) {
        for (uint64_t c = skip; c < k; c++) {
            int64_t at = uw_import_integer(index, i * k + c), size = (int64_t)dim[c];
            at = at < 0 ? at + size : at;
            if (at < 0 || at >= size) {
                return uw_import_refuse(im, n, UW_ERR_SHAPE, "index %lld of %lld values",
                                        (long long)at, (long long)size);
            }
            data[i] = data[i] * size + at;
        }
    }
    return data != NULL ? UW_OK : im->err->code;
}

int uw_import_places(struct uw_import *im, const struct uw_onnx_node *n, const uint64_t *dim,
                     uint32_t rank, const struct uw_onnx_tensor *index, struct uw_onnx_tensor *out)
{
    return places(im, n, dim, rank, index, 0, out);
}

/* Places along an axis of that size, the same ones for all others, of an index as GatherElements
 * has it. */
static int places_along(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_onnx_tensor *index, uint32_t axis, uint64_t size,
                        struct uw_onnx_tensor *out)
{
    struct uw_onnx_tensor once = *index;
    uint64_t inner = 1;
    for (uint32_t a = 0; a < once.rank; a++) {
        once.dim[a] = a != axis && once.stride[a] == 0 ? 1 : once.dim[a];
        inner *= a > axis ? once.dim[a] : 1;
    }
    *out = (struct uw_onnx_tensor){.name = "", .rank = 1, .dim = {once.dim[axis]}};
    int64_t *data = uw_const_fresh(im, n, out, index->stored_n);
    uint64_t count = data != NULL ? uw_onnx_tensor_size(&once) : 0;
    if (data == NULL || uw_import_count(im, n, count) < 0) {
        return im->err->code;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i / inner % out->dim[0];
        int64_t k = uw_import_integer(&once, i);
        k = k < 0 && k >= -(int64_t)size ? k + (int64_t)size : k;
        if (i >= inner * out->dim[0] || i % inner != 0 ? data[at] != k : false) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its indices differ beside their "
                                    "axis");
        }
        data[at] = k;
    }
    return UW_OK;
}

/* v with its axes first .. first + count - 1 as one. */
static int join_axes(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                     uint32_t first, uint32_t count)
{
    uint64_t have[UW_ONNX_RANK_MAX], dim[UW_ONNX_RANK_MAX + 1] = {0};
    uint32_t axes = v->axes_n + 1 - count;
    if (first > v->axes_n || count > v->axes_n - first) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%u axes are too few for its indices",
                                (unsigned)v->axes_n);
    }
    uw_view_dims(v, have);
    if (count == 0 && v->axes_n == UW_ONNX_RANK_MAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
    }
    for (uint32_t a = 0; a < axes; a++) {
        dim[a] = a < first ? have[a] : a == first ? 1 : have[a + count - 1];
    }
    for (uint32_t a = first; a < first + count; a++) {
        dim[first] *= have[a];
    }
    int fits = uw_import_reshape(im, n, v, dim, axes);
    return fits > 0 ? UW_OK
           : fits < 0 ? fits : uw_import_refuse(im, n, UW_ERR_SHAPE, "its axes are not joined");
}

int uw_op_gather_nd(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), each;
    const struct uw_onnx_tensor *index = uw_import_const(im, n, 1);
    struct uw_onnx_tensor at;
    uint64_t dims[UW_ONNX_RANK_MAX];
    if (x == NULL || index == NULL) {
        return im->err->code;
    }
    each = *x;
    uint32_t skip = each.view.axes_n > 0 && uw_view_has_batch(&each.view, 0) ? 1 : 0;
    uw_view_dims(&each.view, dims);
    int rc = places(im, n, dims, each.view.axes_n, index, skip, &at);
    rc = rc < 0 ? rc : join_axes(im, n, &each.view, skip,
                                 (uint32_t)index->dim[index->rank - 1] - skip);
    return rc < 0 ? rc : uw_import_gather(im, n, &each, skip, &at);
}

int uw_op_gather_elements(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_onnx_tensor *index = uw_import_const(im, n, 1);
    struct uw_onnx_tensor at;
    int axis = x != NULL && index != NULL
                   ? uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", 0)) : -1;
    if (axis < 0) {
        return im->err->code;
    }
    bool fits = index->rank == x->view.axes_n;
    for (uint32_t a = 0; a < index->rank && fits; a++) {
        fits = a == (uint32_t)axis || index->dim[a] == uw_view_dim(&x->view, a);
    }
    int rc = fits ? places_along(im, n, index, (uint32_t)axis,
                                 uw_view_dim(&x->view, (uint32_t)axis), &at)
                  : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its indices are of a part");
    return rc < 0 ? rc : uw_import_gather(im, n, x, (uint32_t)axis, &at);
}

/* ---- scatter ---- */

struct scatter {
    uint32_t axis, joined;          /* of the values; how many of their axes are one */
    uint32_t laid;                  /* how many of the updates' axes are one */
    struct uw_onnx_tensor at;       /* places in the axis, one of each update */
    bool add;
    uint64_t dims[UW_ONNX_RANK_MAX];    /* of the values, as they are */
    uint32_t axes;
};

static bool adds(struct uw_import *im, const struct uw_onnx_node *n, bool *add)
{
    const char *how = uw_onnx_text(n, "reduction", "none");
    *add = strcmp(how, "add") == 0;
    if (!*add && strcmp(how, "none") != 0) {
        uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "reduction %.20s", how);
        return false;
    }
    return true;
}

/* Whether all elements are the number 0. */
static bool is_zero(const struct uw_value *v)
{
    struct uw_onnx_tensor once = v->t;
    for (uint32_t a = 0; a < once.rank; a++) {
        once.dim[a] = once.stride[a] == 0 ? 1 : once.dim[a];
    }
    uint64_t count = v->kind == UW_VALUE_CONST && !v->derived ? uw_onnx_tensor_size(&once) : 0;
    bool zero = count > 0;
    for (uint64_t i = 0; i < count && zero; i++) {
        zero = uw_import_number(&once, i) == 0.0;
    }
    return zero;
}

/* Sizes of a constant or of data. Returns how many. */
static uint32_t sizes_of(const struct uw_value *x, uint64_t dim[UW_ONNX_RANK_MAX])
{
    bool constant = x->kind == UW_VALUE_CONST;
    uint32_t axes = constant ? x->t.rank : x->view.axes_n;
    for (uint32_t a = 0; a < axes; a++) {
        dim[a] = constant ? x->t.dim[a] : uw_view_dim(&x->view, a);
    }
    return axes;
}

static int read_scatter(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_value *x, struct scatter *s)
{
    const struct uw_onnx_tensor *index = uw_import_const(im, n, 1);
    bool elements = strcmp(n->op, "ScatterElements") == 0;
    *s = (struct scatter){.joined = 1, .laid = 1};
    s->axes = sizes_of(x, s->dims);
    if (index == NULL || !adds(im, n, &s->add)) {
        return im->err->code;
    }
    if (elements) {
        int64_t axis = uw_onnx_int(n, "axis", 0);
        axis = axis < 0 ? axis + s->axes : axis;
        if (axis < 0 || axis >= s->axes || index->rank != s->axes) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %lld", (long long)axis);
        }
        s->axis = (uint32_t)axis;
        return places_along(im, n, index, s->axis, s->dims[axis], &s->at);
    }
    s->axis = s->axes > 0 && s->dims[0] == im->batch && index->rank > 1 &&
              index->dim[0] == im->batch && index->dim[index->rank - 1] > 1 ? 1 : 0;
    int rc = places(im, n, s->dims, s->axes, index, s->axis, &s->at);
    s->joined = rc == UW_OK ? (uint32_t)index->dim[index->rank - 1] - s->axis : 1;
    s->laid = s->at.rank;
    return rc;
}

/* Element i of the axis is the updates that have its place, and with `add` its own value. */
static int scatter_picks(struct uw_import *im, const struct uw_onnx_node *n,
                         const struct scatter *s, uint64_t size, bool own, bool updates,
                         struct uw_import_picks *p)
{
    uint64_t count = uw_onnx_tensor_size(&s->at), most = 0;
    if (uw_import_count(im, n, size) < 0) {
        return im->err->code;
    }
    uint32_t *seen = uw_pool_take(im->pool, size, sizeof *seen);
    if (seen == NULL) {
        return uw_import_nomem(im);
    }
    for (uint64_t u = 0; u < count && s->add; u++) {
        uint32_t *to = &seen[uw_import_integer(&s->at, u)];
        most = ++*to > most ? *to : most;
    }
    uint32_t taps = s->add ? (uint32_t)most + (own ? 1 : 0) : 1;
    int rc = uw_import_picks(im, p, size, taps);
    for (uint64_t i = 0; rc == UW_OK && i < size * taps; i++) {
        p->index[i] = own && i % taps == 0 ? (int32_t)(i / taps) : -1;
        if (p->weight != NULL) {
            p->weight[i] = 1.0f;
        }
    }
    for (uint64_t u = 0; rc == UW_OK && u < count; u++) {
        uint64_t i = (uint64_t)uw_import_integer(&s->at, u);
        int32_t from = updates ? (int32_t)(u + (own ? size : 0)) : -1;
        if (!s->add && seen[i]++ > 0) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its indices have a place twice, "
                                    "without a reduction: which update stays is not defined. "
                                    "PyTorch's older exporter writes index_add so: export with "
                                    "dynamo=True");
        }
        if (!s->add) {
            p->index[i] = from;
        } else {
            p->index[i * taps + (own ? 1 : 0) + --seen[i]] = from;
        }
    }
    return rc;
}

/* Both operands along the axis, or the one that is not all zeros. */
static int lay_out(struct uw_import *im, const struct uw_onnx_node *n, const struct scatter *s,
                   struct uw_view *v, uint32_t views_n, struct uw_value *both)
{
    uint64_t dim[UW_ONNX_RANK_MAX];
    bool fits = true;
    for (uint32_t k = 0; k < views_n; k++) {
        bool own = k == 0 && views_n == 2;
        int rc = join_axes(im, n, &v[k], s->axis, own ? s->joined : s->laid);
        uint32_t axes = s->axes + 1 - s->joined;
        if (rc < 0) {
            return rc;
        }
        uw_view_dims(&v[k], dim);
        fits = fits && v[k].axes_n == axes && !uw_view_has_batch(&v[k], s->axis);
        for (uint32_t a = 0; a < axes && fits; a++) {
            fits = a == s->axis ? own || dim[a] == uw_onnx_tensor_size(&s->at)
                                : dim[a] == s->dims[a < s->axis ? a : a + s->joined - 1];
        }
    }
    if (!fits) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its updates do not fit its indices");
    }
    return uw_import_concat(im, n, v, views_n, s->axis, both);
}

/* Whether the places of a ScatterND are all samples, as of x[:, ...] = y. */
static bool is_of_all_samples(const struct uw_import *im, const struct uw_onnx_node *n,
                              const struct uw_value *index)
{
    const struct uw_onnx_tensor *t = &index->t;
    return strcmp(n->op, "ScatterND") == 0 && index->kind == UW_VALUE_CONST && t->rise == 1 &&
           !t->rise_first && t->rank == 2 && t->dim[0] == im->batch && t->dim[1] == 1 &&
           uw_import_integer(t, 0) == 0;
}

/* x[:, ...] = u: the result is u. */
static int put_whole(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                     struct uw_value *y)
{
    const struct uw_value *u = uw_import_data(im, n, 2);
    uint64_t have[UW_ONNX_RANK_MAX], dim[UW_ONNX_RANK_MAX];
    if (u == NULL) {
        return im->err->code;
    }
    uint32_t axes = sizes_of(x, dim);
    return sizes_of(u, have) == axes && memcmp(have, dim, axes * sizeof *dim) == 0
               ? uw_import_rename(y, u)
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its updates do not fit its indices");
}

int uw_op_scatter(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_in(im, n, 0), *u = uw_import_in(im, n, 2);
    struct uw_value *y = uw_import_out(im, n, 0), both = {.name = ""};
    struct scatter s;
    struct uw_import_picks p;
    struct uw_view v[2];
    if (x == NULL || u == NULL || y == NULL || uw_import_in(im, n, 1) == NULL ||
        uw_import_opaque_input(im, n)) {
        return uw_import_lacks(im, n, "three inputs");
    }
    if (is_of_all_samples(im, n, uw_import_in(im, n, 1)) && adds(im, n, &s.add) && !s.add) {
        return put_whole(im, n, x, y);
    }
    int rc = read_scatter(im, n, x, &s);
    bool updates = !is_zero(u), own = !updates || !is_zero(x);
    uint64_t size = 1;
    for (uint32_t a = s.axis; a < s.axis + s.joined && a < s.axes; a++) {
        size *= s.dims[a];
    }
    x = rc == UW_OK && own ? uw_import_data(im, n, 0) : x;
    u = rc == UW_OK && updates ? uw_import_data(im, n, 2) : u;
    if (rc < 0 || x == NULL || u == NULL) {
        return im->err->code;
    }
    v[0] = own ? x->view : u->view;
    v[1] = u->view;
    if (own && !updates) {
        rc = join_axes(im, n, &v[0], s.axis, s.joined);
        both.view = v[0];
    } else {
        rc = lay_out(im, n, &s, v, own ? 2 : 1, &both);
    }
    for (uint64_t i = 0; rc == UW_OK && i < uw_onnx_tensor_size(&s.at); i++) {
        int64_t at = uw_import_integer(&s.at, i);
        if (at < 0 || at >= (int64_t)size) {
            rc = uw_import_refuse(im, n, UW_ERR_SHAPE, "index %lld of %llu values", (long long)at,
                                  (unsigned long long)size);
        }
    }
    rc = rc < 0 ? rc : scatter_picks(im, n, &s, size, own, updates, &p);
    rc = rc < 0 ? rc : uw_import_take(im, n, &both.view, s.axis, &p);
    if (rc < 0 || !uw_view_reshape(&both.view, s.dims, s.axes)) {
        return rc < 0 ? rc : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
    }
    y->kind = UW_VALUE_DATA;
    y->view = both.view;
    return UW_OK;
}

/* Where update i of constants goes, among the elements of x. */
static int64_t target(const struct uw_onnx_tensor *x, const struct uw_onnx_tensor *index,
                      uint32_t axis, uint64_t i)
{
    int64_t at = uw_import_integer(index, i), stride = 1, to = 0;
    for (uint32_t a = x->rank; a-- > 0;) {
        int64_t size = (int64_t)x->dim[a], k = (int64_t)(i % index->dim[a]);
        k = a != axis ? k : at < 0 ? at + size : at;
        if (k < 0 || k >= (int64_t)x->dim[a]) {
            return -1;
        }
        i /= index->dim[a];
        to += k * stride;
        stride *= (int64_t)x->dim[a];
    }
    return to;
}

/* Copy x and put the updates into it: update u into to[u / inner] * inner + u % inner, or by an
 * index of each element. */
static int put_all(struct uw_import *im, const struct uw_onnx_node *n,
                   const struct uw_onnx_tensor *const *in, const struct uw_onnx_tensor *to,
                   struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0], *u = in[2];
    uint64_t total = uw_onnx_tensor_size(u), inner = 1;
    int64_t axis = uw_onnx_int(n, "axis", 0);
    bool add;
    *out = *x;
    out->name = "";
    void *data = adds(im, n, &add) ? uw_const_fresh(im, n, out, x->stored_n) : NULL;
    if (data == NULL || uw_import_count(im, n, total) < 0) {
        return im->err->code;
    }
    inner = to != NULL ? total / uw_onnx_tensor_size(to) : 1;
    for (uint64_t i = 0; i < uw_onnx_tensor_size(x); i++) {
        uw_const_put(out, data, i, uw_import_number(x, i), uw_import_integer(x, i));
    }
    int rc = uw_const_mark_like(im, out, x);
    for (uint64_t i = 0; i < total && rc == UW_OK; i++) {
        int64_t at = to != NULL
                         ? uw_import_integer(to, i / inner) * (int64_t)inner + (int64_t)(i % inner)
                         : target(x, in[1], (uint32_t)(axis < 0 ? axis + x->rank : axis), i);
        if (at < 0) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "an index beyond its axis");
        }
        uint64_t k = (uint64_t)at;
        uw_const_put(out, data, k, uw_import_number(u, i) + (add ? uw_import_number(out, k) : 0.0),
                     uw_import_integer(u, i) + (add ? uw_import_integer(out, k) : 0));
        rc = uw_const_is_sized_at(u, i) ? uw_const_mark(im, out, k) : UW_OK;
    }
    return rc;
}

int uw_fold_scatter(struct uw_import *im, const struct uw_onnx_node *n,
                    const struct uw_onnx_tensor *const *in, struct uw_onnx_tensor *out)
{
    const struct uw_onnx_tensor *x = in[0], *index = in[1], *u = in[2];
    struct uw_onnx_tensor to;
    bool values = index->rise != 0, fits = x->is_float == u->is_float;
    for (uint32_t k = 0; k < 3; k += 2) {
        values = values || uw_import_in(im, n, k)->derived || uw_import_learns(im, in[k]);
    }
    for (uint32_t a = 0; a < x->rank; a++) {
        values = values || uw_import_is_open(im, x->dim[a]);
    }
    if (values) {
        return 1;
    }
    if (strcmp(n->op, "ScatterElements") == 0) {
        int64_t axis = uw_onnx_int(n, "axis", 0), axes = x->rank;
        if (axis < -axes || axis >= axes) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %lld", (long long)axis);
        }
        fits = fits && index->rank == x->rank && u->rank == x->rank;
        for (uint32_t a = 0; a < x->rank; a++) {
            fits = fits && index->dim[a] == u->dim[a];
        }
        return fits ? put_all(im, n, in, NULL, out)
                    : uw_import_refuse(im, n, UW_ERR_SHAPE, "its updates do not fit its indices");
    }
    int rc = places(im, n, x->dim, x->rank, index, 0, &to);
    uint64_t inner = 1;
    for (uint64_t a = rc == UW_OK ? index->dim[index->rank - 1] : 0; a < x->rank && rc == UW_OK;
         a++) {
        inner *= x->dim[a];
    }
    if (rc == UW_OK && (!fits || uw_onnx_tensor_size(u) != inner * uw_onnx_tensor_size(&to))) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its updates do not fit its indices");
    }
    return rc < 0 ? rc : put_all(im, n, in, &to, out);
}
