/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of two values, or of a value and a stack of constant matrices. (A single constant matrix
 * makes a dense layer, import_dense.c.) */
#include "import_parts.h"

#include <string.h>

struct matrix {
    struct uw_view v;
    const struct uw_onnx_tensor *t; /* a constant; NULL: a value */
    bool turned;                    /* stored with its last two axes the other way round */
    uint64_t dim[UW_ONNX_RANK_MAX]; /* of the axes in front, then rows and columns */
};

/* Bring the stack's axes to the front of the minibatch's and the matrix's order: as it is, or
 * turned, else with a transpose layer. */
static int order_matrix(struct uw_import *im, const struct uw_onnx_node *n, struct matrix *m)
{
    uint32_t axes = m->v.axes_n;
    if (uw_view_ordered(&m->v)) {
        return UW_OK;
    }
    struct uw_view turned = m->v;
    uw_view_move(&turned, axes - 1, axes - 2);
    if (uw_view_ordered(&turned)) {
        m->v = turned;
        m->turned = true;
        return UW_OK;
    }
    return uw_import_order(im, n, &m->v);
}

static int read_matrix(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_value *x, struct matrix *m, bool turn)
{
    *m = (struct matrix){.t = NULL};
    if (x->kind == UW_VALUE_CONST) {
        m->t = &x->t;
    } else {
        m->v = x->view;
    }
    uint32_t rank = m->t != NULL ? m->t->rank : m->v.axes_n;
    if (rank < 2) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "an input has %u axes, needs 2 or more",
                                (unsigned)rank);
    }
    m->turned = m->t != NULL && turn;
    if (m->t == NULL && turn) {
        uw_view_move(&m->v, rank - 1, rank - 2);
    }
    return UW_OK;
}

/* Cut an axis that mixes the minibatch with other axes, as [N heads], into them, in both inputs.
 * Returns the new rank, or a code. */
static int split_batch(struct uw_import *im, const struct uw_onnx_node *n, struct matrix m[2],
                       uint32_t rank)
{
    const struct uw_view *mixed = NULL;
    uint32_t axis = 0;
    for (uint32_t k = 0; k < 2; k++) {
        while (m[k].t == NULL && m[k].v.axes_n < rank) {
            uw_view_insert(&m[k].v, 0);
        }
        for (uint32_t a = 0; a + 2 < rank && m[k].t == NULL; a++) {
            if (uw_view_has_batch(&m[k].v, a) && !uw_view_is_batch(&m[k].v, a)) {
                mixed = &m[k].v;
                axis = a;
            }
        }
    }
    if (mixed == NULL) {
        return (int)rank;
    }
    const struct uw_view cut = *mixed;
    uint32_t first = axis == 0 ? 0 : cut.axis_end[axis - 1], parts = cut.axis_end[axis] - first;
    if (rank - 1 + parts > UW_ONNX_RANK_MAX) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 8 axes");
    }
    for (uint32_t k = 0; k < 2; k++) {
        uint64_t have[UW_ONNX_RANK_MAX], dim[UW_ONNX_RANK_MAX];
        if (m[k].t != NULL) {
            if (m[k].t->rank + axis >= rank) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a matrix for each sample");
            }
            continue;
        }
        uw_view_dims(&m[k].v, have);
        for (uint32_t a = 0; a < rank - 1 + parts; a++) {
            bool inside = a >= axis && a < axis + parts;
            dim[a] = inside ? (have[axis] == 1 ? 1 : cut.atom[first + a - axis].size)
                            : have[a < axis ? a : a + 1 - parts];
        }
        if (!uw_view_reshape(&m[k].v, dim, rank - 1 + parts)) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its inputs mix the minibatch with "
                                    "other axes in different ways");
        }
    }
    return (int)(rank - 1 + parts);
}

/* Put the minibatch in front of both. Returns its axis + 1, 0 if neither has one, or a code. */
static int find_batch(struct uw_import *im, const struct uw_onnx_node *n, struct matrix m[2],
                      uint32_t rank)
{
    int batch = 0;
    for (uint32_t k = 0; k < 2; k++) {
        while (m[k].t == NULL && m[k].v.axes_n < rank) {
            uw_view_insert(&m[k].v, 0);
        }
        for (uint32_t a = 0; a < rank && m[k].t == NULL; a++) {
            if (!uw_view_has_batch(&m[k].v, a)) {
                continue;
            }
            if (a + 2 >= rank || !uw_view_is_batch(&m[k].v, a) ||
                (batch != 0 && batch != (int)a + 1)) {
                return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "the minibatch is part of the "
                                        "product, or in different axes of the inputs");
            }
            batch = (int)a + 1;
        }
    }
    for (uint32_t k = 0; k < 2 && batch > 1; k++) {
        if (m[k].t == NULL) {
            uw_view_move(&m[k].v, (uint32_t)batch - 1, 0);
        }
    }
    return batch;
}

/* Sizes of the sample's axes. */
static int sizes_of(struct uw_import *im, const struct uw_onnx_node *n, struct matrix *m,
                    uint32_t rank, bool batch)
{
    uint32_t skip = batch ? 1 : 0, own = m->t != NULL ? m->t->rank : 0;
    for (uint32_t a = skip; a < rank; a++) {
        uint64_t d = m->t == NULL ? uw_view_dim(&m->v, a)
                     : a + own < rank ? 1 : m->t->dim[a + own - rank];
        m->dim[a - skip] = d;
        if (d == 0) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "an input is empty");
        }
    }
    if (m->t != NULL && batch && own == rank && m->t->dim[0] != 1) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "a matrix of its own for each sample");
    }
    if (m->turned) {
        uint64_t *last = &m->dim[rank - skip - 2], keep = last[0];
        last[0] = last[1];
        last[1] = keep;
    }
    return UW_OK;
}

/* Join neighbouring axes in front that both have or repeat. lead: [3][UW_AXES_MAX], of a, b and
 * the product. Returns their number, at most 2, or a code. */
static int join_axes(struct uw_import *im, const struct uw_onnx_node *n, const struct matrix m[2],
                     uint32_t axes, uint64_t lead[3][UW_AXES_MAX])
{
    int joined = 0;
    for (uint32_t a = 0; a < axes; a++) {
        uint64_t d[3] = {m[0].dim[a], m[1].dim[a], 0};
        d[2] = d[0] != 1 ? d[0] : d[1];
        if (d[0] != d[1] && d[0] != 1 && d[1] != 1) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its inputs have %llu and %llu matrices",
                                    (unsigned long long)d[0], (unsigned long long)d[1]);
        }
        if (d[2] == 1) {
            continue;
        }
        bool fits = joined > 0;
        for (uint32_t k = 0; k < 2; k++) {
            fits = fits && (d[k] == 1) == (lead[k][joined - 1] == 1);
        }
        if (!fits && joined == UW_AXES_MAX - 2) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than 4 axes");
        }
        for (uint32_t k = 0; k < 3; k++) {
            lead[k][fits ? joined - 1 : joined] = fits ? lead[k][joined - 1] * d[k] : d[k];
        }
        joined += fits ? 0 : 1;
    }
    return joined;
}

/* The layer of operand k, shaped [lead..][rows][columns] as it is stored. */
static int64_t place(struct uw_import *im, const struct uw_onnx_node *n, struct matrix *m,
                     uint32_t axes, const uint64_t *lead, uint32_t lead_n)
{
    uint64_t dim[UW_AXES_MAX];
    uint32_t rows = m->turned ? axes + 1 : axes;
    memcpy(dim, lead, lead_n * sizeof *lead);
    dim[lead_n] = m->dim[rows];
    dim[lead_n + 1] = m->dim[rows == axes ? axes + 1 : axes];
    if (m->t != NULL) {
        bool trains = m->t->role != UW_ONNX_ROLE_FIXED &&
                      m->t->name[0] != '\0';    /* without a name: made here */
        return uw_import_parameter(im, n, m->t, lead_n + 2, dim, trains);
    }
    int rc = uw_import_shape(im, n, &m->v, lead_n + 2, dim);
    return rc < 0 ? rc : (int64_t)m->v.layer;
}

/* Output 0: [in front..][rows][columns] with the minibatch back in its axis. */
static int set_product(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct matrix m[2], uint32_t rank, uint32_t batch,
                       struct uw_value *y)
{
    uint64_t dim[UW_ONNX_RANK_MAX];
    uint32_t axes = rank - (batch != 0 ? 1 : 0);
    for (uint32_t a = 0, from = 0; a < rank; a++) {
        if (batch != 0 && a == batch - 1) {
            dim[a] = im->batch;
            continue;
        }
        uint64_t d0 = m[0].dim[from], d1 = m[1].dim[from];
        dim[a] = from + 2 == axes ? d0 : from + 1 == axes ? d1 : d0 != 1 ? d0 : d1;
        from++;
    }
    return uw_import_show(im, n, y, dim, rank, batch != 0 ? batch - 1 : rank);
}

/* The larger size of each axis. */
static void show_sizes(const struct matrix m[2], uint32_t rank, uint64_t *shown)
{
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t own = m[k].t != NULL ? m[k].t->rank : m[k].v.axes_n;
        for (uint32_t a = 0; a < own; a++) {
            uint64_t d = m[k].t != NULL ? m[k].t->dim[a] : uw_view_dim(&m[k].v, a);
            shown[rank - own + a] = d > shown[rank - own + a] ? d : shown[rank - own + a];
        }
    }
}

/* The layer of the product, once both operands are in order. */
static int emit_product(struct uw_import *im, const struct uw_onnx_node *n, struct matrix m[2],
                        uint32_t axes, float scale)
{
    uint64_t lead[3][UW_AXES_MAX];
    int64_t layer[2] = {0, 0};
    int lead_n = join_axes(im, n, m, axes, lead);
    for (uint32_t k = 0; k < 2 && lead_n >= 0; k++) {
        layer[k] = place(im, n, &m[k], axes, lead[k], (uint32_t)lead_n);
        lead_n = layer[k] < 0 ? (int)layer[k] : lead_n;
    }
    struct uw_import_layer *l =
        lead_n >= 0 ? uw_import_emit(im, n, UW_LAYER_MATMUL, (uint32_t)layer[0]) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->input[l->inputs_n++] = (uint32_t)layer[1];
    l->def.matmul = (struct uw_matmul_def){.trans_a = m[0].turned, .trans_b = m[1].turned,
                                           .scale = scale == 1.0f ? 0.0f : scale};
    lead[2][lead_n] = m[0].dim[axes];
    lead[2][lead_n + 1] = m[1].dim[axes + 1];
    uw_import_sizes(l, (uint32_t)lead_n + 2, lead[2]);
    return UW_OK;
}

/* A row of the minibatch is a sample's matrix of one row. */
static bool make_rows(struct matrix m[2])
{
    struct uw_view *v = &m[0].v;
    bool rows = m[0].t == NULL && v->axes_n == 2 && uw_view_has_batch(v, 0) &&
                !uw_view_has_batch(v, 1) &&
                (m[1].t != NULL ? m[1].t->rank == 2 : uw_view_is_shared(&m[1].v));
    return rows && uw_view_insert(v, 1);
}

/* y = scale op(a) op(b); op: turned as asked. */
int uw_import_product(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *a,
                      const struct uw_value *b, bool turn_a, bool turn_b, float scale,
                      struct uw_value *y)
{
    struct matrix m[2];
    int rc = read_matrix(im, n, a, &m[0], turn_a);
    rc = rc < 0 ? rc : read_matrix(im, n, b, &m[1], turn_b);
    if (rc < 0) {
        return rc;
    }
    bool rows = make_rows(m);
    uint32_t rank = 0;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t r = m[k].t != NULL ? m[k].t->rank : m[k].v.axes_n;
        rank = r > rank ? r : rank;
    }
    uint64_t shown[UW_ONNX_RANK_MAX] = {0}; /* of the output, as the file has it */
    uint32_t shown_n = rank;
    show_sizes(m, rank, shown);
    int split = split_batch(im, n, m, rank);
    if (split < 0) {
        return split;
    }
    rank = (uint32_t)split;
    int batch = find_batch(im, n, m, rank);
    for (uint32_t k = 0; k < 2 && batch >= 0; k++) {
        rc = m[k].t == NULL ? order_matrix(im, n, &m[k]) : UW_OK;
        rc = rc < 0 ? rc : sizes_of(im, n, &m[k], rank, batch > 0);
        batch = rc < 0 ? rc : batch;
    }
    if (batch < 0) {
        return batch;
    }
    uint32_t axes = rank - (batch > 0 ? 3 : 2);
    if (m[0].dim[axes + 1] != m[1].dim[axes]) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%llu columns times %llu rows",
                                (unsigned long long)m[0].dim[axes + 1],
                                (unsigned long long)m[1].dim[axes]);
    }
    rc = emit_product(im, n, m, axes, scale);
    if (rc < 0) {
        return rc;
    }
    rc = y != NULL ? set_product(im, n, m, rank, (uint32_t)batch, y) : UW_OK;
    if (rc < 0 || y == NULL || (shown_n == rank && !rows)) {
        return rc;
    }
    shown[shown_n - 2] = m[0].dim[axes];
    shown[shown_n - 1] = m[1].dim[axes + 1];
    if (rows) {
        return uw_view_remove(&y->view, 1)
                   ? UW_OK : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
    }
    return uw_view_reshape(&y->view, shown, shown_n)
               ? UW_OK : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}
