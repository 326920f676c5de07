/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants as values of the network. Which of them the framework trains a file of PyTorch's newer
 * exporter tells, and --trained and --constant; else names and places do. */
#include "import_parts.h"

#include <float.h>
#include <string.h>

/* Whether the tensor is a variable of TensorFlow: "dense/BiasAdd/ReadVariableOp:0". */
static bool is_variable_name(const char *name)
{
    return strstr(name, "ReadVariableOp") != NULL;
}

/* Whether TensorFlow's exporter computed the tensor, from variables too. */
static bool is_folded_name(const char *name)
{
    return strncmp(name, "const_fold_opt", 14) == 0;
}

/* Whether the name is that of a number in the code: "/Constant_output_0", "Const:0", and PyTorch's
 * "scalar_tensor_default_1" and "beta_cast". */
static bool is_constant_name(const char *name)
{
    size_t n = strlen(name);
    if (is_variable_name(name) || is_folded_name(name)) {
        return false;
    }
    return n == 0 || name[0] == '/' || strstr(name, "onst") != NULL ||
           strncmp(name, "scalar_tensor_default", 21) == 0 ||
           (n > 5 && strcmp(name + n - 5, "_cast") == 0);
}

/* Whether an exporter computed the tensor: "onnx::Add_5", "val_3". Its values are a parameter's,
 * unless they are a mask. */
static bool is_computed_name(const char *name)
{
    return strstr(name, "::") != NULL || strncmp(name, "val_", 4) == 0 || is_folded_name(name);
}

bool uw_import_has_name(const struct uw_onnx_tensor *t)
{
    return !is_constant_name(t->name) && !is_computed_name(t->name);
}

/* The tensor with each element that repeats along an axis once. */
static struct uw_onnx_tensor without_repeats(const struct uw_onnx_tensor *t)
{
    struct uw_onnx_tensor once = *t;
    for (uint32_t a = 0; a < t->rank; a++) {
        once.dim[a] = t->stride[a] == 0 && t->dim[a] > 1 ? 1 : t->dim[a];
    }
    return once;
}

/* Whether the numbers are those of a mask: huge ones, or, of a computed tensor, both 0 and 1 and no
 * others. */
static bool is_mask(const struct uw_onnx_tensor *t, bool computed)
{
    const struct uw_onnx_tensor once = without_repeats(t);
    uint64_t n = uw_onnx_tensor_size(&once), zeros = 0, ones = 0;
    for (uint64_t i = 0; i < n; i++) {
        double v = uw_import_number(&once, i);
        if (!(v > -1e4 && v < 1e4)) {
            return true;
        }
        zeros += v == 0.0 ? 1 : 0;
        ones += v == 1.0 ? 1 : 0;
    }
    return computed && zeros + ones == n && zeros != 0 && ones != 0;
}

/* Whether neither what trains nor a normalization, whose weight may follow, lies between the
 * model's input and this layer's output. */
static bool is_near_input(const struct uw_import *im, uint32_t layer)
{
    while (layer != 0) {
        const struct uw_import_layer *l = im->layer[layer - 1];
        bool normalizes = l->def.kind == UW_LAYER_BATCHNORM || l->def.kind == UW_LAYER_GROUPNORM ||
                          l->def.kind == UW_LAYER_LAYERNORM;
        if (l->inputs_n == 0 || l->param[0].suffix != NULL || normalizes) {
            return false;
        }
        for (uint32_t k = 1; k < l->inputs_n; k++) {
            const struct uw_import_layer *other = l->input[k] != 0 ? im->layer[l->input[k] - 1]
                                                                   : NULL;
            if (other == NULL || other->def.kind != UW_LAYER_PARAMETER ||
                !other->def.parameter.constant) {
                return false;
            }
        }
        layer = l->input[0];
    }
    return true;
}

/* The file's constant whose elements t has, all of them, in any order and shape; NULL: none. */
static const struct uw_value *whole_of(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    const struct uw_onnx_graph *g = &im->graph;
    uint64_t size = uw_onnx_tensor_size(t), last = 0;
    for (uint32_t a = 0; a < t->rank; a++) {
        if (t->dim[a] != 1 && t->stride[a] < 1) {
            return NULL;
        }
        last += t->dim[a] > 1 ? (t->dim[a] - 1) * (uint64_t)t->stride[a] : 0;
    }
    for (uint32_t i = 0; i < g->initializers_n && last + 1 == size; i++) {
        const struct uw_onnx_tensor *whole = &g->initializer[i];
        if (whole->data == t->data && whole->refused == NULL && whole->is_float && t->is_float &&
            uw_onnx_tensor_size(whole) == size && uw_import_in_order(whole)) {
            return uw_names_slot(&im->values, whole->name)->value;
        }
    }
    return NULL;
}

bool uw_import_is_shared(const struct uw_import *im, const struct uw_value *v)
{
    const struct uw_value *whole = whole_of(im, &v->t);
    struct uw_onnx_tensor t = v->t;
    t.apart = t.apart || (whole != NULL && whole->t.apart);
    return (v->users_n > 1 || t.one || (whole != NULL && whole->users_n > 1)) &&
           uw_import_is_one(im, &t);
}

/* A parameter that others have, too, transposed or in another shape: one layer for all of them.
 * v, of t's axes, is written. Returns 1, 0 (it is not one), or a code with err set. */
static int shared_view(struct uw_import *im, const struct uw_onnx_node *n,
                       const struct uw_onnx_tensor *t, struct uw_view *v)
{
    const struct uw_value *whole = whole_of(im, t);
    struct uw_onnx_tensor one = whole != NULL ? whole->t : *t;
    one.one = one.one || t->one;
    one.apart = one.apart || t->apart;
    if (whole == NULL || (whole->users_n < 2 && !one.one) || !uw_import_is_one(im, &one)) {
        return 0;
    }
    uint64_t size = uw_onnx_tensor_size(t);
    bool flat = one.rank < 1 || one.rank > UW_AXES_MAX;
    int64_t layer = uw_import_parameter(im, n, &one, flat ? 1 : one.rank,
                                        flat ? &size : one.dim, true);
    if (layer < 0) {
        return (int)layer;
    }
    const struct uw_import_layer *l = im->layer[layer - 1];
    *v = (struct uw_view){.layer = (uint32_t)layer, .n = size, .rank = l->rank,
                          .axes_n = t->rank, .atoms_n = t->rank};
    memcpy(v->dim, l->dim, sizeof v->dim);
    for (uint32_t a = 0; a < t->rank; a++) {
        v->atom[a] = (struct uw_atom){t->dim[a], (uint64_t)t->stride[a], false};
        v->axis_end[a] = a + 1;
    }
    return uw_view_reshape(v, t->dim, t->rank);
}

int uw_import_constant_view(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct uw_onnx_tensor *t, bool trains, struct uw_view *v)
{
    struct uw_onnx_tensor one = *t;
    uint64_t size, stride = 1, dims[UW_ONNX_RANK_MAX];
    int whole = trains ? shared_view(im, n, t, v) : 0;
    if (whole != 0) {
        return whole < 0 ? whole : UW_OK;
    }
    bool repeated[UW_ONNX_RANK_MAX] = {false}, found = false;
    for (uint32_t a = 0; a < one.rank; a++) {
        repeated[a] = one.dim[a] == im->batch && one.stride[a] == 0 && one.dim[a] != 1 && !found;
        found = found || repeated[a];
        dims[a] = one.dim[a];
        one.dim[a] = repeated[a] ? 1 : one.dim[a];
    }
    size = uw_onnx_tensor_size(&one);
    if (size == 0 || size > INT32_MAX || uw_import_is_open(im, size)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, size == 0 || !uw_import_is_open(im, size)
                                ? "an input is empty or too large"
                                : "a constant has a size that is the minibatch's");
    }
    uint32_t rank = one.rank >= 1 && one.rank <= UW_AXES_MAX ? one.rank : 1;
    int64_t layer = uw_import_parameter(im, n, &one, rank, rank == one.rank ? one.dim : &size,
                                        trains);
    if (layer < 0) {
        return (int)layer;
    }
    const struct uw_import_layer *l = im->layer[layer - 1];
    *v = (struct uw_view){.layer = (uint32_t)layer, .n = size, .rank = l->rank,
                          .axes_n = one.rank, .atoms_n = one.rank};
    memcpy(v->dim, l->dim, sizeof v->dim);
    for (uint32_t a = one.rank; a-- > 0;) {
        v->atom[a] = (struct uw_atom){dims[a], repeated[a] ? 0 : stride, repeated[a]};
        v->axis_end[a] = a + 1;
        stride *= one.dim[a];
    }
    return uw_view_reshape(v, dims, one.rank)
               ? UW_OK : uw_import_refuse(im, n, UW_ERR_SHAPE, "a constant has no shape");
}

bool uw_import_learns(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    bool scalar = uw_onnx_tensor_size(t) == 1;
    if (t->role != UW_ONNX_ROLE_UNKNOWN) {
        return t->is_float && t->role == UW_ONNX_ROLE_TRAINS;
    }
    if (!t->is_float || is_constant_name(t->name)) {
        return false;
    }
    bool computed = is_computed_name(t->name);
    bool pytorch = im->graph.producer != NULL && strcmp(im->graph.producer, "pytorch") == 0;
    if (scalar && (computed || !(pytorch || strchr(t->name, '.') != NULL ||
                                 is_variable_name(t->name)))) {
        return false;
    }
    return !is_mask(t, computed);
}

bool uw_import_is_own(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    return uw_import_learns(im, t) &&
           (t->role == UW_ONNX_ROLE_TRAINS || !is_computed_name(t->name));
}

struct uw_value *uw_import_bias(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_value *v = uw_import_in(im, n, 2);
    if (v == NULL || v->kind != UW_VALUE_CONST || v->node == NULL ||
        (strcmp(v->node->op, "Expand") != 0 && strcmp(v->node->op, "ConstantOfShape") != 0) ||
        uw_import_is_own(im, &v->t)) {
        return v;
    }
    uint64_t size = uw_onnx_tensor_size(&v->t);
    for (uint64_t i = 0; i < size; i++) {
        if (uw_import_number(&v->t, i) != 0.0) {
            return v;
        }
    }
    return NULL;
}

/* Whether a single number added to a layer is its bias: that of one output. */
static bool is_bias(const struct uw_import *im, enum uw_arithmetic_op op,
                    const struct uw_onnx_tensor *t, uint32_t layer)
{
    const struct uw_import_layer *l = layer != 0 ? im->layer[layer - 1] : NULL;
    return op == UW_ARITHMETIC_ADD && l != NULL && l->def.kind == UW_LAYER_DENSE &&
           l->def.dense.out == 1 && l->def.dense.no_bias && t->is_float && t->rank > 0 &&
           t->role == UW_ONNX_ROLE_UNKNOWN && !is_constant_name(t->name) &&
           !is_computed_name(t->name) && uw_onnx_tensor_size(t) == 1;
}

/* Tell of a constant that an exporter computed and that may be a parameter of the program. */
static void tell_doubt(struct uw_import *im, const struct uw_onnx_tensor *t)
{
    const char *note = uw_pool_format(im->pool, "tensor '%.60s' is taken for a constant, as scales "
                                      "of the input are: --trained %.60s trains it", t->name,
                                      t->name);
    if (note != NULL) {
        uw_import_note(im, note);
    }
}

bool uw_import_trains(struct uw_import *im, const struct uw_onnx_node *n,
                      enum uw_arithmetic_op op, const struct uw_onnx_tensor *t, uint32_t layer)
{
    if (is_bias(im, op, t, layer)) {
        return true;
    }
    if (!uw_import_learns(im, t)) {
        return false;
    }
    bool told = t->role == UW_ONNX_ROLE_TRAINS || /* or the exporter computed it from a parameter */
                (t->role == UW_ONNX_ROLE_UNKNOWN && t->folded_from != NULL);
    if (strcmp(n->op, "PRelu") == 0 || told) {
        return true;
    }
    bool linear = op == UW_ARITHMETIC_ADD || op == UW_ARITHMETIC_SUB || op == UW_ARITHMETIC_MUL ||
                  op == UW_ARITHMETIC_DIV;
    bool named = strchr(t->name, '.') != NULL;
    bool normalizes = op != UW_ARITHMETIC_ADD || (uw_onnx_tensor_size(t) == 1 && !named);
    bool scales = linear && normalizes && is_near_input(im, layer);
    if (scales && strstr(t->name, "::") != NULL && uw_onnx_tensor_size(t) > 1) {
        tell_doubt(im, t);
    }
    return linear && !scales;
}

/* Whether the file names the program's parameters, and has all of them: none was merged. */
static bool has_all_parameters(const struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    bool all = g->parameters_n > 0;
    for (uint32_t i = 0; i < g->parameters_n && all; i++) {
        all = uw_names_slot(g->parameters, g->parameter[i])->at != 0;
    }
    return all;
}

/* Exporters write equal tensors once. Biases and weights of normalizations that are one number
 * everywhere begin alike, and train apart; other equal tensors are one in the framework, too, and
 * so are all where the exporter has merged none. */
bool uw_import_is_one(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    uint64_t n = uw_onnx_tensor_size(t);
    uint32_t axes = 0;
    bool differ = false;
    for (uint32_t a = 0; a < t->rank; a++) {
        axes += t->dim[a] > 1 ? 1 : 0;
    }
    for (uint64_t i = 1; i < n && axes == 1 && !differ; i++) {
        differ = uw_import_number(t, i) != uw_import_number(t, 0);
    }
    return !t->apart && (t->one || axes > 1 || differ || has_all_parameters(im)) &&
           uw_import_learns(im, t);
}

static bool is_made_of(const struct uw_import_layer *l, const struct uw_onnx_tensor *t,
                       uint32_t rank, const uint64_t *dim, bool trains)
{
    const struct uw_onnx_tensor *have = l->made_of;
    bool same = l->def.kind == UW_LAYER_PARAMETER && have != NULL && have->data == t->data &&
                have->rank == t->rank && l->rank == rank &&
                l->def.parameter.constant == !trains;
    for (uint32_t a = 0; a < t->rank && same; a++) {
        same = have->dim[a] == t->dim[a] && have->stride[a] == t->stride[a];
    }
    for (uint32_t a = 0; a < rank && same; a++) {
        same = l->dim[a] == dim[a];
    }
    return same;
}

int64_t uw_import_parameter(struct uw_import *im, const struct uw_onnx_node *n,
                            const struct uw_onnx_tensor *t, uint32_t rank, const uint64_t *dim,
                            bool trains)
{
    for (uint32_t i = 0; i < im->layers_n && (!trains || uw_import_is_one(im, t)); i++) {
        if (is_made_of(im->layer[i], t, rank, dim, trains)) {
            return i + 1;
        }
    }
    struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_PARAMETER, 0);
    struct uw_onnx_tensor *copy = uw_pool_take(im->pool, 1, sizeof *copy);
    if (l == NULL || copy == NULL) {
        return uw_import_nomem(im);
    }
    *copy = *t;
    l->made_of = copy;
    l->inputs_n = 0;
    l->def.parameter.rank = rank;
    l->def.parameter.constant = !trains;
    uw_import_sizes(l, rank, dim);
    for (uint32_t a = 0; a < rank; a++) {
        if (dim[a] > INT32_MAX) {
            return uw_import_refuse(im, n, UW_ERR_TOOBIG, "a constant is too large");
        }
        l->def.parameter.dim[a] = (uint32_t)dim[a];
    }
    int rc = uw_import_param(im, l, 0, "", t, 0.0f, rank, dim);
    for (uint64_t i = 0; rc == UW_OK && i < uw_onnx_tensor_size(t); i++) { /* of a mask */
        float *x = &l->param[0].data[i];
        *x = *x < -FLT_MAX ? -FLT_MAX : *x > FLT_MAX ? FLT_MAX : *x;
    }
    l->own_name = !uw_import_has_name(t) ? (trains ? "parameter" : "constant")
                  : uw_import_in_order(t)
                      ? t->name
                      : uw_pool_format(im->pool, "%s_transposed", t->name);
    if (l->own_name == NULL) {
        return uw_import_nomem(im);
    }
    return rc < 0 ? rc : (int64_t)im->layers_n;
}
