/* SPDX-License-Identifier: Apache-2.0 */
#include "import_const.h"
#include "import_parts.h"

#include <math.h>
#include <string.h>

static bool all_equal(const struct uw_onnx_tensor *t, double value)
{
    uint64_t n = uw_onnx_tensor_size(t);
    for (uint64_t i = 0; i < n; i++) {
        if (uw_import_number(t, i) != value) {
            return false;
        }
    }
    return true;
}

/* Whether the tensor is a parameter of the program, as far as the file tells: in files of PyTorch
 * any that a person named is, in others those of modules are. */
static bool is_parameter(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    bool pytorch = im->graph.producer != NULL && strcmp(im->graph.producer, "pytorch") == 0;
    return t->role != UW_ONNX_ROLE_UNKNOWN ? t->role == UW_ONNX_ROLE_TRAINS
                                           : uw_import_module(im->pool, t->name) != NULL ||
                                                 (pytorch && uw_import_is_own(im, t));
}

/* Whether weight is all ones and bias all zeros and neither is a parameter: affine=False. */
static bool plain(const struct uw_import *im, const struct uw_onnx_tensor *weight,
                  const struct uw_onnx_tensor *bias)
{
    return !is_parameter(im, weight) && !is_parameter(im, bias) && all_equal(weight, 1.0) &&
           all_equal(bias, 0.0);
}

/* In a definition an epsilon of 0 means the default. */
static int check_epsilon(struct uw_import *im, const struct uw_onnx_node *n, float epsilon)
{
    return epsilon > 0.0f ? UW_OK
                          : uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                             "epsilon %g: needs to be above 0", (double)epsilon);
}

/* Whether one module, which is called several times, reads the weight. Copies of one module read
 * equal weights, too, but they are other modules, or, of PyTorch's older exporter, whose nodes have
 * names like "/bn/Batch...", read them through an Identity. */
static bool is_called_again(struct uw_import *im, const struct uw_onnx_node *n)
{
    const struct uw_value *w = uw_import_in(im, n, 1);
    uint32_t readers = 0;
    for (uint32_t i = 0; i < im->graph.nodes_n; i++) {
        const struct uw_onnx_node *other = &im->graph.node[i];
        if (strcmp(other->op, n->op) == 0 && other->inputs_n > 1 &&
            strcmp(other->input[1], n->input[1]) == 0) {
            bool same = n->module != NULL && other->module != NULL &&
                        (n->name[0] == '/' || strcmp(n->module, other->module) == 0);
            readers += same ? 1 : 0;
        }
    }
    return readers > 1 && readers == w->users_n;
}

/* weight * x + bias with the weight and bias of several nodes, along axis 1. */
static int shared_affine(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *y = uw_import_out(im, n, 0), x, part;
    uint64_t dims[UW_ONNX_RANK_MAX] = {0};
    for (uint32_t k = 1; y != NULL && k < 3; k++) {
        struct uw_value *from = uw_import_in(im, n, k);
        from->t.one = true;
        const struct uw_value *v = uw_import_make_value(im, from);
        if (v == NULL) {
            return im->err->code;
        }
        x = *y;
        part = *v;
        for (uint32_t a = 0; a < x.view.axes_n; a++) {
            dims[a] = a == 0 ? v->view.n : 1;
        }
        if (!uw_view_reshape(&part.view, dims, x.view.axes_n - 1)) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its weight has no shape");
        }
        int rc = uw_import_arithmetic(im, n, k == 1 ? UW_ARITHMETIC_MUL : UW_ARITHMETIC_ADD, &x,
                                      &part, y);
        if (rc < 0) {
            return rc;
        }
    }
    uw_import_note(im, "batch norms with one weight train it together, and have statistics of "
                       "their own");
    return UW_OK;
}

int uw_op_batchnorm(struct uw_import *im, const struct uw_onnx_node *n)
{
    static const char *const suffix[4] = {"weight", "bias", "running_mean", "running_var"};
    const struct uw_onnx_tensor *t[4];
    struct uw_value *x = uw_import_data(im, n, 0);
    if (x == NULL) {
        return im->err->code;
    }
    for (uint32_t i = 0; i < 4; i++) {
        t[i] = uw_import_const(im, n, i + 1);
        if (t[i] == NULL) {
            return im->err->code;
        }
    }
    struct uw_view v = x->view;
    float epsilon = uw_onnx_float(n, "epsilon", 1e-5f);
    int rc = check_epsilon(im, n, epsilon);
    rc = rc < 0 ? rc : uw_import_arrange(im, n, &v, 3);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_BATCHNORM, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.norm.epsilon = epsilon;
    /* ONNX gives the weight of the old statistics */
    l->def.norm.momentum = (float)round((1.0 - (double)uw_onnx_float(n, "momentum", 0.9f)) * 1e6) *
                           1e-6f;
    bool again = is_called_again(im, n);
    l->def.norm.no_affine = again || plain(im, t[0], t[1]);
    for (uint32_t i = 0; i < 4 && rc == UW_OK; i++) {
        if (i >= 2 || !l->def.norm.no_affine) {
            rc = uw_import_param(im, l, i, suffix[i], t[i], 0.0f, 1, v.dim);
        }
    }
    uw_import_same(im, n, &v);
    return rc < 0 || !again ? rc : shared_affine(im, n);
}

/* Output 0: v in groups of channels; weight and bias have a number for each channel. */
static int emit_groupnorm(struct uw_import *im, const struct uw_onnx_node *n,
                          const struct uw_view *v, uint64_t groups, float epsilon,
                          const struct uw_onnx_tensor *weight, const struct uw_onnx_tensor *bias)
{
    struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_GROUPNORM, v->layer);
    if (l == NULL) {
        return im->err->code;
    }
    int rc = UW_OK;
    l->def.norm = (struct uw_norm_def){.epsilon = epsilon, .groups = (uint32_t)groups,
                                       .no_affine = plain(im, weight, bias)};
    if (!l->def.norm.no_affine) {
        rc = uw_import_param(im, l, 0, "weight", weight, 0.0f, 1, v->dim);
        rc = rc < 0 ? rc : uw_import_param(im, l, 1, "bias", bias, 0.0f, 1, v->dim);
    }
    uw_import_same(im, n, v);
    return rc;
}

/* Also the first half of a group norm, whose input is then [N][groups][rest]. */
int uw_op_instancenorm(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_onnx_tensor *weight = uw_import_const(im, n, 1);
    const struct uw_onnx_tensor *bias = uw_import_const(im, n, 2);
    if (x == NULL || weight == NULL || bias == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    if (v.axes_n < 3 || !uw_view_is_batch(&v, 0) || uw_view_has_batch(&v, 1)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "its input is not [N][C][...]");
    }
    uint64_t groups = uw_view_dim(&v, 1);
    float epsilon = uw_onnx_float(n, "epsilon", 1e-5f);
    int rc = check_epsilon(im, n, epsilon);
    rc = rc < 0 ? rc : uw_import_order(im, n, &v);
    bool halves = v.dim[0] != groups && v.dim[0] % groups == 0 && plain(im, weight, bias);
    if (rc == UW_OK && !halves) {
        rc = uw_import_arrange(im, n, &v, 3);
    }
    return rc < 0 ? rc : emit_groupnorm(im, n, &v, groups, epsilon, weight, bias);
}

/* A constant of one number for each group, repeated for each of its channels. */
static int spread(struct uw_import *im, const struct uw_onnx_node *n,
                  const struct uw_onnx_tensor *t, uint64_t channels, struct uw_onnx_tensor *out)
{
    uint64_t groups = uw_onnx_tensor_size(t);
    *out = (struct uw_onnx_tensor){.name = t->name, .is_float = true, .rank = 1,
                                   .dim = {channels}};
    if (groups == 0 || channels % groups != 0) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "a weight of %llu numbers for %llu channels",
                                (unsigned long long)groups, (unsigned long long)channels);
    }
    float *data = uw_const_fresh(im, n, out, channels);
    for (uint64_t i = 0; data != NULL && i < channels; i++) {
        data[i] = (float)uw_import_number(t, i / (channels / groups));
    }
    return data != NULL ? UW_OK : im->err->code;
}

/* Its weights are a number for each channel; up to opset 20 for each group. */
int uw_op_groupnorm(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    const struct uw_onnx_tensor *weight = uw_import_const(im, n, 1);
    const struct uw_onnx_tensor *bias = uw_import_const(im, n, 2);
    int64_t groups = uw_onnx_int(n, "num_groups", 0);
    struct uw_onnx_tensor all_weights, all_biases;
    if (x == NULL || weight == NULL || bias == NULL) {
        return im->err->code;
    }
    struct uw_view v = x->view;
    float epsilon = uw_onnx_float(n, "epsilon", 1e-5f);
    int rc = check_epsilon(im, n, epsilon);
    rc = rc < 0 ? rc : uw_import_arrange(im, n, &v, 3);
    if (rc == UW_OK && (groups < 1 || v.dim[0] % (uint64_t)groups != 0)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "%lld groups of %llu channels",
                                (long long)groups, (unsigned long long)v.dim[0]);
    }
    rc = rc < 0 ? rc : spread(im, n, weight, v.dim[0], &all_weights);
    rc = rc < 0 ? rc : spread(im, n, bias, v.dim[0], &all_biases);
    return rc < 0 ? rc
                  : emit_groupnorm(im, n, &v, (uint64_t)groups, epsilon, &all_weights,
                                   &all_biases);
}

/* Over the last `axes` axes of x; output 0 of n. Returns the layer in *out. */
static int emit_layernorm(struct uw_import *im, const struct uw_onnx_node *n,
                          const struct uw_value *x, uint32_t axes, float epsilon,
                          struct uw_import_layer **out)
{
    struct uw_view v = x->view;
    uint64_t dim[UW_ONNX_RANK_MAX];
    uint32_t rank = 0;
    uint64_t size = 1;
    bool mixed = false;
    for (uint32_t a = 0; a < v.axes_n; a++) {
        bool batch = uw_view_has_batch(&v, a);
        if (batch && a + axes >= v.axes_n) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "over the minibatch");
        }
        size *= a + axes >= v.axes_n ? uw_view_dim(&v, a) : 1;
        mixed = mixed || (batch && !uw_view_is_batch(&v, a));
        if (!batch) {
            dim[rank++] = uw_view_dim(&v, a);
        }
    }
    int rc = check_epsilon(im, n, epsilon);
    rc = rc < 0 ? rc : uw_import_order(im, n, &v);
    if (rank > UW_AXES_MAX || mixed) {
        dim[0] = v.n / size;
        dim[1] = size;
        rank = 2;
        axes = 1;
    }
    rc = rc < 0 ? rc : uw_import_shape(im, n, &v, rank, dim);
    *out = rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_LAYERNORM, v.layer) : NULL;
    if (*out == NULL) {
        return im->err->code;
    }
    (*out)->def.norm = (struct uw_norm_def){.epsilon = epsilon, .axes = axes, .no_affine = true};
    uw_import_same(im, n, &v);
    return UW_OK;
}

/* y = y * weight, or y + bias, of input k. */
static int apply_part(struct uw_import *im, const struct uw_onnx_node *n, uint32_t k)
{
    struct uw_value *y = uw_import_out(im, n, 0), x;
    const struct uw_value *part = uw_import_make_value(im, uw_import_in(im, n, k));
    if (part == NULL || y == NULL) {
        return im->err->code;
    }
    x = *y;
    return uw_import_arithmetic(im, n, k == 1 ? UW_ARITHMETIC_MUL : UW_ARITHMETIC_ADD, &x, part,
                                y);
}

/* The weight and bias of a layer that has none so far. Of those that change nothing and that the
 * program does not have as parameters the layer has none; where one is a parameter and the other is
 * not, they are layers of their own. */
static int layer_affine(struct uw_import *im, const struct uw_onnx_node *n,
                        struct uw_import_layer *l)
{
    static const char *const suffix[2] = {"weight", "bias"};
    const struct uw_onnx_tensor *t[2] = {NULL, NULL};
    bool trains[2] = {false, false}, has[2] = {false, false};
    int rc = UW_OK;
    for (uint32_t i = 0; i < 2 && uw_import_in(im, n, i + 1) != NULL; i++) {
        t[i] = uw_import_const(im, n, i + 1);
        if (t[i] == NULL) {
            return im->err->code;
        }
        trains[i] = uw_import_is_own(im, t[i]) || is_parameter(im, t[i]);
        has[i] = trains[i] || !all_equal(t[i], i == 0 ? 1.0 : 0.0);
    }
    bool alike = has[0] && has[1] && trains[0] == trains[1];
    l->def.norm.no_affine = !alike;
    for (uint32_t i = 0; i < 2 && rc == UW_OK; i++) {
        if (alike) {
            rc = uw_import_param(im, l, i, suffix[i], t[i], 0.0f, l->def.norm.axes,
                                 l->dim + (l->rank - l->def.norm.axes));
        } else if (has[i]) {
            rc = apply_part(im, n, i + 1);
        }
    }
    return rc;
}

int uw_op_layernorm(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    struct uw_import_layer *l = NULL;
    int axis = x != NULL ? uw_view_axis(im, n, &x->view, uw_onnx_int(n, "axis", -1)) : -1;
    if (axis < 0) {
        return im->err->code;
    }
    int rc = emit_layernorm(im, n, x, x->view.axes_n - (uint32_t)axis,
                            uw_onnx_float(n, "epsilon", 1e-5f), &l);
    return rc < 0 ? rc : layer_affine(im, n, l);
}

int uw_op_lrn(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    int64_t size = uw_onnx_int(n, "size", 0);
    float alpha = uw_onnx_float(n, "alpha", 1e-4f), beta = uw_onnx_float(n, "beta", 0.75f);
    float k = uw_onnx_float(n, "bias", 1.0f);
    if (x == NULL) {
        return im->err->code;
    }
    if (size < 1 || size > 65535) {
        return uw_import_refuse(im, n, UW_ERR_INVALID, "size %lld", (long long)size);
    }
    struct uw_view v = x->view;
    int rc = uw_import_arrange(im, n, &v, 3);
    if (rc == UW_OK && !(alpha > 0.0f && beta > 0.0f && k > 0.0f)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "alpha %g, beta %g, bias %g: need to "
                                "be above 0", (double)alpha, (double)beta, (double)k);
    }
    struct uw_import_layer *l = rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_LRN, v.layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    l->def.lrn =
        (struct uw_lrn_def){.size = (uint32_t)size, .alpha = alpha, .beta = beta, .k = k};
    uw_import_same(im, n, &v);
    return UW_OK;
}
