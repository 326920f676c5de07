/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants that have to be values: those that are repeated for every sample, and those that are
 * computed from parameters, as a normalized weight: what trains is the parameter. Where a layer
 * needs a constant, the same name still is one. */
#include "import_graph.h"
#include "import_parts.h"

/* Whether the constant is repeated along an axis of the minibatch's size, and only one. Which of
 * several it is, the other operand tells: so it stays a constant. */
static bool is_repeated(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    uint32_t axes = 0;
    for (uint32_t a = 0; a < t->rank; a++) {
        axes += t->dim[a] == im->batch && t->stride[a] == 0 && t->dim[a] != 1 ? 1 : 0;
    }
    return axes == 1;
}

static struct uw_value *copy_of(struct uw_import *im, const struct uw_value *v)
{
    struct uw_value *copy = uw_pool_take(im->pool, 1, sizeof *copy);
    if (copy == NULL) {
        uw_import_nomem(im);
        return NULL;
    }
    *copy = *v;
    return copy;
}

/* v, or if it has to be a value the value; NULL with err set. */
static const struct uw_value *as_value_of(struct uw_import *im, struct uw_value *v);

/* Compute the constant from values: its node runs with the parameters that it reads as values. */
static struct uw_value *lower(struct uw_import *im, struct uw_value *v)
{
    const struct uw_onnx_node *n = v->node;
    struct uw_value kept[4], *in[4] = {NULL}, saved = *v;
    int rc = n != NULL && n->inputs_n <= 4 ? UW_OK : UW_ERR_UNSUPPORTED;
    for (uint32_t i = 0; rc == UW_OK && i < n->inputs_n; i++) {
        struct uw_value *x = uw_import_in(im, n, i);
        if (x == NULL || x->kind != UW_VALUE_CONST ||
            !(x->derived || uw_import_learns(im, &x->t))) {
            continue;
        }
        kept[i] = *x;
        const struct uw_value *data = x->derived ? as_value_of(im, x) : NULL;
        struct uw_view view = {.n = 0};
        rc = data != NULL ? UW_OK : uw_import_constant_view(im, n, &x->t, true, &view);
        if (rc == UW_OK && (data == NULL || data->kind == UW_VALUE_DATA)) {
            in[i] = x;
            x->view = data != NULL ? data->view : view;
            x->kind = UW_VALUE_DATA;
        }
    }
    rc = rc < 0 ? rc : uw_import_lower_node(im, n);
    struct uw_value *out = rc == UW_OK && v->kind == UW_VALUE_DATA ? copy_of(im, v) : NULL;
    for (uint32_t i = 0; i < 4; i++) {
        if (in[i] != NULL) {
            *in[i] = kept[i];
        }
    }
    *v = saved;
    return out;
}

/* The constant's elements as a value, from now on. Returns false with err set. */
static bool keep_as_value(struct uw_import *im, struct uw_value *v)
{
    struct uw_value *copy = copy_of(im, v);
    if (copy == NULL || uw_import_constant_view(im, v->node, &v->t, uw_import_learns(im, &v->t),
                                                &copy->view) < 0) {
        return false;
    }
    copy->kind = UW_VALUE_DATA;
    v->as_value = copy;
    return true;
}

struct uw_value *uw_import_make_value(struct uw_import *im, struct uw_value *v)
{
    if (as_value_of(im, v) == NULL) {
        return NULL;
    }
    if (v->as_value == NULL) {
        keep_as_value(im, v);
    }
    return v->as_value;
}

static const struct uw_value *as_value_of(struct uw_import *im, struct uw_value *v)
{
    if (v->kind != UW_VALUE_CONST) {
        return v;
    }
    if (v->as_value == NULL && v->derived) {
        struct uw_error kept = *im->err;
        v->as_value = lower(im, v);
        v->derived = v->as_value != NULL; /* else it stays a constant */
        *im->err = kept;
    }
    if (v->as_value == NULL && v->t.is_float && is_repeated(im, &v->t) && !keep_as_value(im, v)) {
        return NULL;
    }
    return v->as_value != NULL ? v->as_value : v;
}

const struct uw_value *uw_import_any(struct uw_import *im, const struct uw_onnx_node *n,
                                     uint32_t i)
{
    struct uw_value *v = uw_import_in(im, n, i);
    if (v == NULL || v->kind != UW_VALUE_CONST) {
        return uw_import_data(im, n, i);
    }
    struct uw_onnx_tensor together = v->t;
    together.apart = false;
    if (v->users_n > 1 && v->t.apart && uw_import_is_one(im, &together)) {
        uw_import_note(im, "equal weights of several modules of a list, which are once in the "
                           "file, train apart");
    }
    return uw_import_is_shared(im, v) ? uw_import_make_value(im, v) : as_value_of(im, v);
}
