/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"

#include <string.h>

/* Output 0: the axes of x before the last, with strides for the new last axis. */
static int dense_view(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *x,
                      uint64_t size, uint64_t out)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    uint32_t last = x->axes_n - 1;
    uint64_t dim[UW_ONNX_RANK_MAX];
    if (y == NULL) {
        return UW_OK;
    }
    struct uw_view *to = &y->view;
    *to = *x;
    y->kind = UW_VALUE_DATA;
    to->n = size;
    to->atoms_n = last == 0 ? 0 : to->axis_end[last - 1];
    to->atom[to->atoms_n++] = (struct uw_atom){out, 1, false};
    to->axis_end[last] = to->atoms_n;
    uw_import_set_ordered(im, to);
    uw_view_dims(to, dim);
    return uw_view_reshape(to, dim, to->axes_n)
               ? UW_OK
               : uw_import_refuse(im, n, UW_ERR_SHAPE, "its output has no shape");
}

/* bias * beta; a single number is used for all outputs. */
static int dense_bias(struct uw_import *im, struct uw_import_layer *l,
                      const struct uw_onnx_tensor *bias, float beta, uint64_t out)
{
    bool one = uw_onnx_tensor_size(bias) == 1 && out > 1;
    float fill = one ? (float)uw_import_number(bias, 0) : 0.0f;
    int rc = uw_import_param(im, l, 1, "bias", one ? NULL : bias, fill, 1, &out);
    for (uint64_t i = 0; rc == UW_OK && beta != 1.0f && i < out; i++) {
        l->param[1].data[i] *= beta;
    }
    return rc;
}

/* y = x W^T + b on the last axis. weight is [out][in] by its strides. */
static int dense(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_value *x,
                 const struct uw_onnx_tensor *weight, const struct uw_onnx_tensor *bias,
                 float alpha, float beta)
{
    struct uw_view v = x->view;
    uint32_t last = v.axes_n - 1;
    uint64_t out = weight->dim[0];
    uint64_t in = weight->dim[1];
    if (v.axes_n < 2 || uw_view_has_batch(&v, last) || uw_view_dim(&v, last) != in || out == 0 ||
        out > INT32_MAX / (v.n / in)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE,
                                "its weight takes %llu features, its input has %llu",
                                (unsigned long long)in,
                                (unsigned long long)uw_view_dim(&v, last));
    }
    const uint64_t rows[2] = {v.n / in, in};
    int rc = uw_import_order(im, n, &v);
    if (rc == UW_OK) {
        rc = rows[0] > 1 ? uw_import_shape(im, n, &v, 2, rows)
                         : uw_import_shape(im, n, &v, 1, &in);
    }
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_DENSE, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    const uint64_t dims[2] = {out, in};
    l->def.dense = (struct uw_dense_def){.out = (uint32_t)out, .no_bias = bias == NULL};
    uw_import_dims(l, rows[0] > 1 ? 2 : 1, rows[0] > 1 ? rows[0] : out, rows[0] > 1 ? out : 1, 1);
    rc = uw_import_param(im, l, 0, "weight", weight, 0.0f, 2, dims);
    for (uint64_t i = 0; rc == UW_OK && alpha != 1.0f && i < out * in; i++) {
        l->param[0].data[i] *= alpha;
    }
    if (rc == UW_OK && bias != NULL) {
        rc = dense_bias(im, l, bias, beta, out);
    }
    if (rc < 0) {
        return rc;
    }
    return dense_view(im, n, &x->view, rows[0] * out, out);
}

/* The transposed matrix. */
static struct uw_onnx_tensor turned(const struct uw_onnx_tensor *m)
{
    struct uw_onnx_tensor t = *m;
    for (uint32_t a = 0; a < 2; a++) {
        t.dim[a] = m->dim[1 - a];
        t.stride[a] = m->stride[1 - a];
    }
    return t;
}

/* Whether the weight is one that a dense layer can own: a matrix that stays a constant. */
static bool is_own_weight(const struct uw_value *b)
{
    return b->kind == UW_VALUE_CONST && b->t.rank == 2 && b->t.dim[0] != 0 &&
           b->t.dim[1] != 0;
}

/* alpha a b + beta c, where b is a value too. */
static int general_gemm(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    const struct uw_value *a = uw_import_any(im, n, 0), *b = uw_import_any(im, n, 1);
    if (a == NULL || b == NULL) {
        return im->err->code;
    }
    int rc = uw_import_product(im, n, a, b, uw_onnx_int(n, "transA", 0) != 0,
                               uw_onnx_int(n, "transB", 0) != 0, uw_onnx_float(n, "alpha", 1.0f),
                               y);
    if (rc < 0 || y == NULL || uw_import_bias(im, n) == NULL) {
        return rc;
    }
    const struct uw_value *c = uw_import_any(im, n, 2);
    if (c == NULL || uw_onnx_float(n, "beta", 1.0f) != 1.0f) {
        return c == NULL ? im->err->code
                         : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "beta other than 1");
    }
    struct uw_value product = *y;
    return uw_import_arithmetic(im, n, UW_ARITHMETIC_ADD, &product, c, y);
}

/* PyTorch's exporters drop a bias that is all zeros, as that of an attention is at first. The newer
 * one notes the rule in the node; of the older one a layer without a bias becomes a MatMul. */
static bool lost_its_bias(struct uw_import *im, const struct uw_onnx_node *n,
                          const struct uw_onnx_tensor *w)
{
    if (im->graph.parameters != NULL) {
        return uw_import_lost_bias(im, w);
    }
    bool notes = n->module != NULL && n->name[0] != '/';
    return uw_import_in(im, n, 2) == NULL && uw_import_module(im->pool, w->name) != NULL &&
           (!notes || (n->rule != NULL && strstr(n->rule, "RemoveOptionalBias") != NULL));
}

bool uw_import_lost_bias(struct uw_import *im, const struct uw_onnx_tensor *weight)
{
    const char *module = uw_import_module(im->pool, weight->name);
    const char *bias = module != NULL ? uw_pool_format(im->pool, "%s.bias", module) : NULL;
    struct uw_name *slot = bias != NULL && im->graph.parameters != NULL
                               ? uw_names_slot(im->graph.parameters, bias) : NULL;
    if (slot == NULL || slot->name == NULL || slot->at == 1) {
        return false;
    }
    slot->at = 2;
    return true;
}

struct uw_onnx_tensor uw_import_zero_bias(struct uw_import *im, uint64_t outputs)
{
    static const float zero = 0.0f;
    uw_import_note(im, "biases that are all zero, which the exporter left out, are there again and "
                       "train");
    return (struct uw_onnx_tensor){.name = "", .is_float = true, .rank = 1, .dim = {outputs},
                                   .data = (const uint8_t *)&zero, .stored_n = 1};
}

int uw_op_gemm(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *x = uw_import_any(im, n, 0), *b = uw_import_any(im, n, 1);
    const struct uw_value *c = uw_import_bias(im, n);
    if (x == NULL || b == NULL) {
        return im->err->code;
    }
    bool row = c == NULL || (c->kind == UW_VALUE_CONST &&
                             (uw_onnx_tensor_size(&c->t) == 1 ||
                              (c->t.rank > 0 &&
                               uw_onnx_tensor_size(&c->t) == c->t.dim[c->t.rank - 1])));
    if (!is_own_weight(b) || !row || uw_onnx_int(n, "transA", 0) != 0 ||
        x->kind != UW_VALUE_DATA || uw_view_has_batch(&x->view, x->view.axes_n - 1)) {
        return general_gemm(im, n);
    }
    struct uw_onnx_tensor w = uw_onnx_int(n, "transB", 0) == 0 ? turned(&b->t) : b->t;
    const struct uw_onnx_tensor *bias = c != NULL ? &c->t : NULL;
    struct uw_onnx_tensor zeros;
    if (c == NULL && lost_its_bias(im, n, &b->t)) {
        zeros = uw_import_zero_bias(im, w.dim[0]);
        bias = &zeros;
    }
    return dense(im, n, x, &w, bias, uw_onnx_float(n, "alpha", 1.0f),
                 c != NULL ? uw_onnx_float(n, "beta", 1.0f) : 1.0f);
}

/* a b. Where one matrix b serves all samples, any axis of a but the last may count them. */
static int product_of_rows(struct uw_import *im, const struct uw_onnx_node *n,
                           const struct uw_value *a, const struct uw_value *b)
{
    struct uw_value *y = uw_import_out(im, n, 0), turned;
    uint32_t axis = 0;
    bool one = a->kind == UW_VALUE_DATA && b->kind == UW_VALUE_DATA && b->view.axes_n == 2 &&
               uw_view_is_shared(&b->view);
    while (one && axis + 1 < a->view.axes_n && !uw_view_is_batch(&a->view, axis)) {
        axis++;
    }
    if (!one || y == NULL || axis == 0 || axis + 1 >= a->view.axes_n) {
        return uw_import_product(im, n, a, b, false, false, 1.0f, y);
    }
    turned = *a;
    uw_view_move(&turned.view, axis, 0);
    int rc = uw_import_product(im, n, &turned, b, false, false, 1.0f, y);
    if (rc == UW_OK) {
        uw_view_move(&y->view, 0, axis);
    }
    return rc;
}

/* A bias that a following Add holds is joined later, see fuse/. */
int uw_op_matmul(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *a = uw_import_any(im, n, 0), *b = uw_import_any(im, n, 1);
    if (a == NULL || b == NULL) {
        return im->err->code;
    }
    if (!is_own_weight(b) || a->kind != UW_VALUE_DATA || a->view.axes_n < 2) {
        return product_of_rows(im, n, a, b);
    }
    struct uw_onnx_tensor w = turned(&b->t);
    return dense(im, n, a, &w, NULL, 1.0f, 1.0f);
}
