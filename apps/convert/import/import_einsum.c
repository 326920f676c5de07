/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products over named axes, and running sums: products of matrices. */
#include "import_parts.h"

#include <string.h>

#define LETTERS_MAX 8u

/* One term of an equation, "btf". */
struct term {
    char letter[LETTERS_MAX + 1];
    uint32_t n;
};

/* "btf,fh->bth" without blanks; an output that is left out has the letters that occur once. */
static bool read_equation(const char *text, struct term in[2], struct term *out)
{
    struct term *to = &in[0];
    uint32_t terms = 1;
    bool arrow = false;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == ' ') {
            continue;
        }
        if (*p == ',') {
            to = &in[1];
            terms++;
        } else if (*p == '-' && p[1] == '>') {
            to = out;
            arrow = true;
            p++;
        } else if (to->n == LETTERS_MAX || strchr(to->letter, *p) != NULL || *p == '.') {
            return false;
        } else {
            to->letter[to->n++] = *p;
        }
    }
    return terms == 2 && arrow;
}

static bool has(const struct term *t, char letter)
{
    return strchr(t->letter, letter) != NULL;
}

/* The letters of a kind: in both inputs or not, in the output or not, in the order of `from`. */
static struct term letters(const struct term *from, const struct term *other,
                           const struct term *out, bool in_both, bool in_out)
{
    struct term t = {.n = 0};
    for (uint32_t i = 0; i < from->n; i++) {
        char c = from->letter[i];
        if (has(other, c) == in_both && has(out, c) == in_out) {
            t.letter[t.n++] = c;
        }
    }
    return t;
}

/* Axes of x in the order of the terms; each term becomes one axis, or stays as its axes (the first
 * term). */
static bool arrange(struct uw_view *v, const struct term *has_letters, const struct term *a,
                    const struct term *b, const struct term *c)
{
    const struct term *terms[3] = {a, b, c};
    uint32_t order[UW_ONNX_RANK_MAX], at = 0;
    uint64_t dim[UW_ONNX_RANK_MAX], have[UW_ONNX_RANK_MAX];
    uint32_t axes = a->n;
    uw_view_dims(v, have);
    for (uint32_t t = 0; t < 3; t++) {
        uint64_t product = 1;
        for (uint32_t i = 0; i < terms[t]->n; i++) {
            order[at] = (uint32_t)(strchr(has_letters->letter, terms[t]->letter[i]) -
                                   has_letters->letter);
            product *= have[order[at]];
            if (t == 0) {
                dim[i] = have[order[at]];
            }
            at++;
        }
        if (t > 0) {
            dim[axes++] = product;
        }
    }
    if (at != has_letters->n) {
        return false;
    }
    uw_view_permute(v, order);
    return uw_view_reshape(v, dim, axes);
}

/* The product's axes [batch..][rows][columns] as the output's letters. */
static bool show(struct uw_view *v, const struct term *batch, const struct term *rows,
                 const struct term *columns, const struct term *out, const uint64_t *size_of)
{
    uint64_t dim[UW_ONNX_RANK_MAX];
    uint32_t order[UW_ONNX_RANK_MAX], axes = 0;
    struct term all = {.n = 0};
    const struct term *terms[3] = {batch, rows, columns};
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t i = 0; i < terms[t]->n; i++) {
            all.letter[all.n++] = terms[t]->letter[i];
            dim[axes++] = size_of[(unsigned char)terms[t]->letter[i]];
        }
    }
    if (all.n != out->n || !uw_view_reshape(v, dim, axes)) {
        return false;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        order[i] = (uint32_t)(strchr(all.letter, out->letter[i]) - all.letter);
    }
    uw_view_permute(v, order);
    return true;
}

/* Whether one of the letters is the minibatch. */
static bool sample_in(const struct term *t, const struct term in[2], const struct uw_value x[2])
{
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t a = 0; a < in[k].n; a++) {
            if (has(t, in[k].letter[a]) && uw_view_has_batch(&x[k].view, a)) {
                return true;
            }
        }
    }
    return false;
}

/* x with all these axes, of size 1 where it has none. */
static bool spread(struct uw_view *v, const struct term *has_letters, const struct term *all)
{
    uint32_t order[UW_ONNX_RANK_MAX], at = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const char *place = strchr(has_letters->letter, all->letter[i]);
        if (place != NULL) {
            order[at++] = (uint32_t)(place - has_letters->letter);
        }
    }
    if (at != has_letters->n) {
        return false;
    }
    uw_view_permute(v, order);
    for (uint32_t i = 0; i < all->n; i++) {
        if (!has(has_letters, all->letter[i]) && !uw_view_insert(v, i)) {
            return false;
        }
    }
    return true;
}

/* Without columns: the sum over the axes that the output lacks of a product element by element. */
static int sum_of_elements(struct uw_import *im, const struct uw_onnx_node *n,
                           struct uw_value x[2], const struct term in[2],
                           const struct term *summed, const struct term *out, struct uw_value *y)
{
    struct term all = *out;
    struct uw_value product = {.name = ""};
    bool fits = out->n + summed->n <= UW_ONNX_RANK_MAX && out->n + summed->n <= LETTERS_MAX;
    for (uint32_t i = 0; i < summed->n && fits; i++) {
        all.letter[all.n++] = summed->letter[i];
    }
    fits = fits && spread(&x[0].view, &in[0], &all) && spread(&x[1].view, &in[1], &all);
    if (!fits) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "more than %u axes", LETTERS_MAX);
    }
    uint32_t axes = ((1u << all.n) - 1) & ~((1u << out->n) - 1);
    int rc = uw_import_combine(im, n, UW_ARITHMETIC_MUL, &x[0], &x[1],
                               summed->n > 0 ? &product : y);
    return rc < 0 || summed->n == 0
               ? rc : uw_import_reduce(im, n, UW_REDUCE_SUM, axes, false, &product, y);
}

int uw_op_einsum(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct term in[2] = {{.n = 0}, {.n = 0}}, out = {.n = 0};
    struct uw_value *x[2] = {NULL, NULL}, *y = uw_import_out(im, n, 0), copy[2];
    uint64_t size_of[256] = {0};
    const char *equation = uw_onnx_text(n, "equation", "");
    if (n->inputs_n != 2 || !read_equation(equation, in, &out)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "equation '%.40s': only of two inputs, "
                                "each axis once", equation);
    }
    for (uint32_t k = 0; k < 2; k++) {
        x[k] = uw_import_data(im, n, k);
        if (x[k] == NULL) {
            return im->err->code;
        }
        copy[k] = *x[k];
        if (copy[k].view.axes_n != in[k].n) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "equation '%.40s': input %u has %u axes",
                                    equation, (unsigned)k + 1, (unsigned)copy[k].view.axes_n);
        }
        for (uint32_t a = 0; a < in[k].n; a++) {
            size_of[(unsigned char)in[k].letter[a]] = uw_view_dim(&copy[k].view, a);
        }
    }
    struct term batch = letters(&in[0], &in[1], &out, true, true);
    const struct term summed = letters(&in[0], &in[1], &out, true, false);
    struct term rows = letters(&in[0], &in[1], &out, false, true);
    const struct term columns = letters(&in[1], &in[0], &out, false, true);
    if (batch.n > 0 && (rows.n == 0 || columns.n == 0) && y != NULL &&
        (sample_in(&rows, in, copy) || sample_in(&columns, in, copy))) {
        return sum_of_elements(im, n, copy, in, &summed, &out, y);
    }
    bool fits = arrange(&copy[1].view, &in[1], &batch, &summed, &columns);
    if (batch.n == 0 && rows.n > 1) {       /* one matrix for all: the minibatch may be a row */
        batch = rows;
        batch.n = rows.n - 1;
        batch.letter[batch.n] = '\0';
        rows = (struct term){.letter = {rows.letter[batch.n]}, .n = 1};
    }
    fits = fits && arrange(&copy[0].view, &in[0], &batch, &rows, &summed);
    if (!fits || y == NULL) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "equation '%.40s': no product of "
                                "matrices", equation);
    }
    int rc = uw_import_product(im, n, &copy[0], &copy[1], false, false, 1.0f, y);
    return rc < 0 || show(&y->view, &batch, &rows, &columns, &out, size_of)
               ? rc : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

/* The sum of all elements up to each one: a product with a triangle of ones. */
int uw_op_cumsum(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0), *y = uw_import_out(im, n, 0);
    bool exclusive = uw_onnx_int(n, "exclusive", 0) != 0, back = uw_onnx_int(n, "reverse", 0) != 0;
    double given = 0.0;
    if (x == NULL || y == NULL) {
        return im->err->code;
    }
    if (!uw_import_scalar(uw_import_in(im, n, 1), &given)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its axis is no constant");
    }
    int axis = uw_view_axis(im, n, &x->view, (int64_t)given);
    if (axis < 0 || uw_view_has_batch(&x->view, (uint32_t)axis)) {
        return axis < 0 ? im->err->code
                        : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "over the minibatch");
    }
    uint64_t size = uw_view_dim(&x->view, (uint32_t)axis);
    float *data = size <= 4096 ? uw_pool_take(im->pool, size * size, sizeof *data) : NULL;
    if (data == NULL) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "over %llu values: 4096 at most",
                                (unsigned long long)size);
    }
    for (uint64_t i = 0; i < size * size; i++) { /* [from][to] */
        uint64_t from = i / size, to = i % size;
        bool before = back ? from > to : from < to;
        data[i] = before || (from == to && !exclusive) ? 1.0f : 0.0f;
    }
    struct uw_value triangle = {.name = "", .kind = UW_VALUE_CONST,
                                .t = {.name = "", .is_float = true, .rank = 2,
                                      .dim = {size, size}, .data = (const uint8_t *)data,
                                      .stored_n = size * size}};
    uw_onnx_set_strides(&triangle.t);
    struct uw_value turned = *x;
    uint32_t last = turned.view.axes_n - 1;
    uw_view_move(&turned.view, (uint32_t)axis, last);
    int rc = uw_import_product(im, n, &turned, &triangle, false, false, 1.0f, y);
    if (rc == UW_OK) {
        uw_view_move(&y->view, last, (uint32_t)axis);
    }
    return rc;
}
