/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

static uint32_t begin_of(const struct uw_view *v, uint32_t axis)
{
    return axis == 0 ? 0 : v->axis_end[axis - 1];
}

uint64_t uw_view_dim(const struct uw_view *v, uint32_t axis)
{
    uint64_t n = 1;
    for (uint32_t i = begin_of(v, axis); i < v->axis_end[axis]; i++) {
        n *= v->atom[i].size;
    }
    return n;
}

void uw_view_start(struct uw_view *v, const uint64_t *dims, uint32_t axes_n, uint32_t batch)
{
    *v = (struct uw_view){.n = 1, .axes_n = axes_n, .atoms_n = axes_n};
    for (uint32_t a = axes_n; a-- > 0;) {
        v->atom[a] = (struct uw_atom){dims[a], a == batch ? 0 : v->n, a == batch};
        v->axis_end[a] = a + 1;
        v->n *= a == batch ? 1 : dims[a];
    }
}

void uw_view_dims(const struct uw_view *v, uint64_t dims[UW_ONNX_RANK_MAX])
{
    for (uint32_t a = 0; a < v->axes_n; a++) {
        dims[a] = uw_view_dim(v, a);
    }
}

int uw_view_axis(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *v,
                 int64_t axis)
{
    int64_t a = axis < 0 ? axis + v->axes_n : axis;
    if (a < 0 || a >= v->axes_n) {
        uw_import_refuse(im, n, UW_ERR_SHAPE, "axis %lld of a tensor with %u", (long long)axis,
                         (unsigned)v->axes_n);
        return -1;
    }
    return (int)a;
}

bool uw_view_has_batch(const struct uw_view *v, uint32_t axis)
{
    for (uint32_t i = begin_of(v, axis); i < v->axis_end[axis]; i++) {
        if (v->atom[i].batch) {
            return true;
        }
    }
    return false;
}

bool uw_view_is_shared(const struct uw_view *v)
{
    for (uint32_t i = 0; i < v->atoms_n; i++) {
        if (v->atom[i].batch) {
            return false;
        }
    }
    return true;
}

bool uw_view_is_batch(const struct uw_view *v, uint32_t axis)
{
    return uw_view_has_batch(v, axis) && v->axis_end[axis] - begin_of(v, axis) == 1;
}

/* Drop atoms of size 1; join neighbouring atoms of an axis that are contiguous in the sample. */
static void tidy(struct uw_view *v)
{
    uint32_t to = 0;
    uint32_t from = 0;
    for (uint32_t a = 0; a < v->axes_n; a++) {
        uint32_t begin = to;
        for (; from < v->axis_end[a]; from++) {
            struct uw_atom x = v->atom[from];
            struct uw_atom *last = to > begin ? &v->atom[to - 1] : NULL;
            if (x.size == 1 && !x.batch) {
                continue;
            }
            if (last != NULL && !last->batch && !x.batch && last->stride == x.size * x.stride) {
                last->size *= x.size;
                last->stride = x.stride;
            } else {
                v->atom[to++] = x;
            }
        }
        v->axis_end[a] = to;
    }
    v->atoms_n = to;
}

bool uw_view_reshape(struct uw_view *v, const uint64_t *dims, uint32_t axes_n)
{
    struct uw_view out = *v, in = *v;
    uint32_t from = 0;
    out.atoms_n = 0;
    out.axes_n = axes_n;
    for (uint32_t a = 0; a < axes_n; a++) {
        uint64_t have = 1;
        /* an atom of size 1 is a minibatch of 1: it takes the first axis of size 1 */
        while (have < dims[a] || (dims[a] == 1 && from < in.atoms_n && in.atom[from].size == 1)) {
            if (from == in.atoms_n || out.atoms_n == UW_ATOMS_MAX) {
                return false;
            }
            struct uw_atom *x = &in.atom[from];
            uint64_t want = dims[a] / have;
            if (want % x->size == 0) {
                out.atom[out.atoms_n++] = *x;
                have *= x->size;
                from++;
            } else if (!x->batch && x->size % want == 0) {
                out.atom[out.atoms_n++] =
                    (struct uw_atom){want, x->stride * (x->size / want), false};
                x->size /= want;
                have *= want;
            } else {
                return false;
            }
            if (dims[a] % have != 0 || dims[a] == 1) {
                break;
            }
        }
        if (have != dims[a]) {
            return false;
        }
        /* if the next axis is larger than 1, it goes to the end of this axis instead */
        if (from < in.atoms_n && in.atom[from].size == 1 && out.atoms_n < UW_ATOMS_MAX &&
            a + 1 < axes_n && dims[a + 1] != 1) {
            out.atom[out.atoms_n++] = in.atom[from++];
        }
        out.axis_end[a] = out.atoms_n;
    }
    for (; from < in.atoms_n; from++) {
        if (in.atom[from].size != 1 || out.atoms_n == UW_ATOMS_MAX || axes_n == 0) {
            return false;
        }
        out.atom[out.atoms_n++] = in.atom[from];
        out.axis_end[axes_n - 1] = out.atoms_n;
    }
    *v = out;
    tidy(v);
    return true;
}

void uw_view_permute(struct uw_view *v, const uint32_t *order)
{
    struct uw_view old = *v;
    v->atoms_n = 0;
    for (uint32_t a = 0; a < v->axes_n; a++) {
        for (uint32_t i = begin_of(&old, order[a]); i < old.axis_end[order[a]]; i++) {
            v->atom[v->atoms_n++] = old.atom[i];
        }
        v->axis_end[a] = v->atoms_n;
    }
}

void uw_view_move(struct uw_view *v, uint32_t from, uint32_t to)
{
    uint32_t order[UW_ONNX_RANK_MAX];
    for (uint32_t a = 0; a < v->axes_n; a++) {
        uint32_t other = a < to ? a : a - 1; /* of those that do not move */
        order[a] = a == to ? from : other < from ? other : other + 1;
    }
    uw_view_permute(v, order);
}

bool uw_view_insert(struct uw_view *v, uint32_t axis)
{
    if (v->axes_n == UW_ONNX_RANK_MAX) {
        return false;
    }
    for (uint32_t a = v->axes_n++; a > axis; a--) {
        v->axis_end[a] = v->axis_end[a - 1];
    }
    v->axis_end[axis] = begin_of(v, axis);
    return true;
}

bool uw_view_remove(struct uw_view *v, uint32_t axis)
{
    if (v->axis_end[axis] != begin_of(v, axis)) {
        return false;
    }
    for (uint32_t a = axis; a + 1 < v->axes_n; a++) {
        v->axis_end[a] = v->axis_end[a + 1];
    }
    v->axes_n--;
    return true;
}
