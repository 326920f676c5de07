/* SPDX-License-Identifier: Apache-2.0 */

#include "import_parts.h"

#include <string.h>

struct uw_import_layer *uw_import_emit(struct uw_import *im, const struct uw_onnx_node *n,
                                       enum uw_layer_kind kind, uint32_t input)
{
    im->layer = uw_pool_grow(im->pool, (void *)im->layer, im->layers_n, &im->layers_cap,
                             sizeof *im->layer);
    struct uw_import_layer *l = uw_pool_take(im->pool, 1, sizeof *l);
    if (im->layer == NULL || l == NULL) {
        uw_import_nomem(im);
        return NULL;
    }
    const struct uw_import_layer *from = input != 0 ? im->layer[input - 1] : NULL;
    l->def.kind = kind;
    l->input[0] = input;
    l->inputs_n = 1;
    l->node = n;
    l->rank = from != NULL ? from->rank : im->input->view.rank;
    memcpy(l->dim, from != NULL ? from->dim : im->input->view.dim, sizeof l->dim);
    im->layer[im->layers_n++] = l;
    return l;
}

void uw_import_need(struct uw_import *im, const uint32_t *outputs, uint32_t outputs_n)
{
    for (uint32_t i = 0; i < im->layers_n; i++) {
        im->layer[i]->needed = false;
    }
    for (uint32_t i = 0; i < outputs_n; i++) {
        im->layer[outputs[i] - 1]->needed = true;
    }
    for (uint32_t i = im->layers_n; i-- > 0;) {
        const struct uw_import_layer *l = im->layer[i];
        for (uint32_t k = 0; k < l->inputs_n && l->needed; k++) {
            if (l->input[k] != 0) {
                im->layer[l->input[k] - 1]->needed = true;
            }
        }
    }
}

void uw_import_sizes(struct uw_import_layer *l, uint32_t rank, const uint64_t *dim)
{
    l->rank = rank;
    for (uint32_t a = 0; a < UW_AXES_MAX; a++) {
        l->dim[a] = a < rank ? dim[a] : 1;
    }
}

void uw_import_dims(struct uw_import_layer *l, uint32_t rank, uint64_t d0, uint64_t d1,
                    uint64_t d2)
{
    const uint64_t dim[3] = {d0, d1, d2};
    uw_import_sizes(l, rank, dim);
}

int uw_import_result(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i,
                     const uint64_t *dims, uint32_t axes_n, uint32_t batch)
{
    return uw_import_show(im, n, uw_import_out(im, n, i), dims, axes_n, batch);
}

int uw_import_show(struct uw_import *im, const struct uw_onnx_node *n, struct uw_value *y,
                   const uint64_t *dims, uint32_t axes_n, uint32_t batch)
{
    const struct uw_import_layer *l = im->layer[im->layers_n - 1];
    struct uw_view *v = y != NULL ? &y->view : NULL;
    if (v == NULL) {
        return UW_OK;
    }
    uw_view_start(v, dims, axes_n, batch);
    v->layer = im->layers_n;
    v->rank = l->rank;
    memcpy(v->dim, l->dim, sizeof v->dim);
    if (l->dim[0] * l->dim[1] * l->dim[2] * l->dim[3] != v->n ||
        !uw_view_reshape(v, dims, axes_n)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its output cannot be seen in that shape");
    }
    y->kind = UW_VALUE_DATA;
    return UW_OK;
}

void uw_import_same(struct uw_import *im, const struct uw_onnx_node *n, const struct uw_view *v)
{
    struct uw_value *y = uw_import_out(im, n, 0);
    if (y != NULL) {
        y->kind = UW_VALUE_DATA;
        y->view = *v;
        y->view.layer = im->layers_n;
    }
}

const char *uw_import_module(struct uw_pool *pool, const char *tensor)
{
    static const char *const suffixes[] = {".weight", ".bias", ".in_proj_weight",
                                           ".in_proj_bias"};
    size_t length = strlen(tensor);
    if (strstr(tensor, "::") != NULL || tensor[0] == '/') {
        return NULL;
    }
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t tail = strlen(suffixes[i]);
        if (length > tail && strcmp(tensor + length - tail, suffixes[i]) == 0) {
            return uw_pool_text(pool, tensor, length - tail);
        }
    }
    return NULL;
}

bool uw_import_in_order(const struct uw_onnx_tensor *t)
{
    uint64_t stride = 1;        /* wraps around where a wrong file has huge sizes */
    bool in_order = true;
    for (uint32_t a = t->rank; a-- > 0;) {
        in_order = in_order && (t->dim[a] == 1 || (uint64_t)t->stride[a] == stride);
        stride *= t->dim[a];
    }
    return in_order;
}

/* The module that the tensor belongs to. Where its parameter would have the tensor's name and shape
 * and other places of the elements, a framework that reads it would not notice: another name. */
static const char *module_of(struct uw_import *im, const struct uw_onnx_tensor *t,
                             const char *suffix)
{
    const char *module = uw_import_module(im->pool, t->name);
    bool same = module != NULL && strcmp(t->name + strlen(module) + 1, suffix) == 0 &&
                t->rank == 2 && t->dim[0] == t->dim[1];
    return same && !uw_import_in_order(t) ? uw_pool_format(im->pool, "%s_transposed", module)
                                          : module;
}

/* What a state_dict has of it: the file's tensor of that name, if all elements are in its order. */
static void keep_torch(const struct uw_import *im, const struct uw_onnx_tensor *t,
                       struct uw_import_param *p)
{
    const struct uw_value *v = t->name[0] != '\0' ? uw_names_slot(&im->values, t->name)->value
                                                  : NULL;
    const struct uw_onnx_tensor *whole = v != NULL && v->kind == UW_VALUE_CONST ? &v->t : NULL;
    if (whole == NULL || whole->data != t->data || t->computed || !uw_import_in_order(t) ||
        !uw_import_in_order(whole) || uw_onnx_tensor_size(whole) != uw_onnx_tensor_size(t) ||
        !(uw_onnx_is_parameter(&im->graph, t->name) || uw_import_has_name(t))) {
        return;
    }
    p->origin = t->name;
    p->torch_n = 1;
    p->torch[0] = (struct uw_convert_part){.name = t->name, .rank = whole->rank};
    for (uint32_t a = 0; a < whole->rank; a++) {
        p->torch[0].dim[a] = (uint32_t)whole->dim[a];
    }
}

int uw_import_param(struct uw_import *im, struct uw_import_layer *l, uint32_t slot,
                    const char *suffix, const struct uw_onnx_tensor *t, float fill, uint32_t rank,
                    const uint64_t *dim)
{
    struct uw_import_param *p = &l->param[slot];
    uint64_t n = 1;
    for (uint32_t a = 0; a < rank; a++) {
        p->dim[a] = (uint32_t)dim[a];
        n *= dim[a];
    }
    p->suffix = suffix;
    p->rank = rank;
    p->role = t != NULL ? t->role : UW_ONNX_ROLE_UNKNOWN;
    p->folded_from = t != NULL && t->computed ? t->folded_from : NULL;
    if (t != NULL && uw_onnx_tensor_size(t) != n) {
        return uw_import_refuse(im, l->node, UW_ERR_SHAPE,
                                "its %s '%.40s' has %llu elements, its input needs %llu", suffix,
                                t->name, (unsigned long long)uw_onnx_tensor_size(t),
                                (unsigned long long)n);
    }
    p->data = t != NULL ? uw_import_floats(im, t) : uw_pool_take(im->pool, n, sizeof(float));
    if (p->data == NULL) {
        return uw_import_nomem(im);
    }
    for (uint64_t i = 0; i < n && t == NULL; i++) {
        p->data[i] = fill;
    }
    bool same = t != NULL && t->rank == rank && t->name[0] != '\0';
    for (uint32_t a = 0; a < rank && same; a++) {
        same = t->dim[a] == dim[a] && (a == 0 || t->stride[a - 1] ==
                                       t->stride[a] * (int64_t)t->dim[a]);
    }
    p->source = same ? t->name : NULL;
    p->torch_n = 0;
    if (t != NULL) {
        keep_torch(im, t, p);
    }
    if (t != NULL && l->own_name == NULL) {
        l->own_name = module_of(im, t, suffix);
    }
    return UW_OK;
}

bool uw_view_ordered(const struct uw_view *v)
{
    uint64_t stride = 1;
    for (uint32_t i = v->atoms_n; i-- > 0;) {
        if (!v->atom[i].batch) {
            if (v->atom[i].stride != stride) {
                return false;
            }
            stride *= v->atom[i].size;
        }
    }
    return true;
}

void uw_import_set_ordered(struct uw_import *im, struct uw_view *v)
{
    const struct uw_import_layer *l = im->layer[im->layers_n - 1];
    uint64_t stride = 1;
    v->layer = im->layers_n;
    v->rank = l->rank;
    memcpy(v->dim, l->dim, sizeof v->dim);
    for (uint32_t i = v->atoms_n; i-- > 0;) {
        if (!v->atom[i].batch) {
            v->atom[i].stride = stride;
            stride *= v->atom[i].size;
        }
    }
}

/* Runs in more than one transpose: the run that is next in the order moves in front of those that
 * still stand before it in memory, [before][these][run][behind] to [before][run][these][behind]. */
static int order_runs(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      const struct uw_atom *run, uint32_t runs_n)
{
    uint32_t memory[UW_ATOMS_MAX];  /* numbers of runs as they lie in memory */
    for (uint32_t i = 0; i < runs_n; i++) {
        uint32_t at = 0;
        for (uint32_t j = 0; j < runs_n; j++) {
            at += run[j].stride > run[i].stride || (run[j].stride == run[i].stride && j < i);
        }
        memory[at] = i;
    }
    for (uint32_t next = 0; next < runs_n; next++) {
        uint64_t dim[4] = {1, 1, 1, 1};
        uint32_t at = next;
        while (memory[at] != next) {
            at++;
        }
        if (at == next) {
            continue;
        }
        for (uint32_t i = 0; i < runs_n; i++) {
            dim[i < next ? 0 : i < at ? 1 : i == at ? 2 : 3] *= run[memory[i]].size;
        }
        int rc = uw_import_shape(im, n, v, 4, dim);
        struct uw_import_layer *l =
            rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_TRANSPOSE, v->layer) : NULL;
        if (l == NULL) {
            return im->err->code;
        }
        static const uint32_t order[4] = {0, 2, 1, 3};
        memcpy(l->def.transpose.order, order, sizeof order);
        const uint64_t turned[4] = {dim[0], dim[2], dim[1], dim[3]};
        uw_import_sizes(l, 4, turned);
        v->layer = im->layers_n;
        v->rank = 4;
        memcpy(v->dim, l->dim, sizeof v->dim);
        memmove(memory + next + 1, memory + next, (at - next) * sizeof memory[0]);
        memory[next] = next;
    }
    uw_import_set_ordered(im, v);
    return UW_OK;
}

int uw_import_order(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v)
{
    struct uw_atom run[UW_ATOMS_MAX];   /* longest runs, in the order of the view */
    uint32_t runs_n = 0;
    uint64_t dim[3] = {1, 1, 1};
    uint32_t order[3] = {0, 0, 0};

    if (uw_view_ordered(v)) {
        return UW_OK;
    }
    for (uint32_t i = 0; i < v->atoms_n; i++) {
        const struct uw_atom *x = &v->atom[i];
        if (x->batch) {
            continue;
        }
        if (runs_n > 0 && run[runs_n - 1].stride == x->size * x->stride) {
            run[runs_n - 1].size *= x->size;
            run[runs_n - 1].stride = x->stride;
        } else {
            run[runs_n++] = *x;
        }
    }
    if (runs_n > 3) {
        return order_runs(im, n, v, run, runs_n);
    }
    for (uint32_t i = 0; i < runs_n; i++) {
        for (uint32_t j = 0; j < runs_n; j++) {
            order[i] += run[j].stride > run[i].stride ? 1 : 0;
        }
        dim[order[i]] = run[i].size;
    }
    int rc = uw_import_shape(im, n, v, runs_n, dim);
    struct uw_import_layer *l =
        rc == UW_OK ? uw_import_emit(im, n, UW_LAYER_TRANSPOSE, v->layer) : NULL;
    if (l == NULL) {
        return im->err->code;
    }
    memcpy(l->def.transpose.order, order, sizeof order);
    uw_import_dims(l, runs_n, run[0].size, runs_n > 1 ? run[1].size : 1,
                   runs_n > 2 ? run[2].size : 1);
    uw_import_set_ordered(im, v);
    return UW_OK;
}

int uw_import_reshape(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      const uint64_t *dims, uint32_t axes_n)
{
    uint64_t own[UW_ONNX_RANK_MAX];
    if (uw_view_reshape(v, dims, axes_n)) {
        return 1;
    }
    uw_view_dims(v, own);
    int rc = uw_import_order(im, n, v);
    /* in its own shape: parts of an axis that follow each other now become one */
    return rc < 0 ? rc
           : uw_view_reshape(v, own, v->axes_n) && uw_view_reshape(v, dims, axes_n) ? 1 : 0;
}

int uw_import_shape(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                    uint32_t rank, const uint64_t *dim)
{
    bool same = v->rank == rank;
    for (uint32_t a = 0; a < rank; a++) {
        same = same && v->dim[a] == dim[a];
    }
    if (same) {
        return UW_OK;
    }
    uint32_t from = v->layer;
    while (from != 0 && (im->layer[from - 1]->def.kind == UW_LAYER_RESHAPE ||
                         im->layer[from - 1]->def.kind == UW_LAYER_FLATTEN)) {
        from = im->layer[from - 1]->input[0];
    }
    struct uw_import_layer *l =
        uw_import_emit(im, n, rank == 1 ? UW_LAYER_FLATTEN : UW_LAYER_RESHAPE, from);
    if (l == NULL) {
        return im->err->code;
    }
    uw_import_sizes(l, rank, dim);
    for (uint32_t a = 0; a < rank && rank > 1; a++) {
        l->def.reshape.dim[a] = (uint32_t)dim[a];
        l->def.reshape.rank = rank;
    }
    v->layer = im->layers_n;
    v->rank = rank;
    memcpy(v->dim, l->dim, sizeof v->dim);
    return UW_OK;
}

int uw_import_arrange(struct uw_import *im, const struct uw_onnx_node *n, struct uw_view *v,
                      uint32_t rank)
{
    uint64_t dim[UW_AXES_MAX] = {1, 1, 1, 1};
    uint32_t axes = v->axes_n - 1;
    if (v->axes_n < 2 || !uw_view_is_batch(v, 0)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "the minibatch is not the first axis of its input");
    }
    for (uint32_t a = 0; a < axes; a++) {
        dim[a < rank ? a : rank - 1] *= uw_view_dim(v, a + 1);
    }
    int rc = uw_import_order(im, n, v);
    return rc == UW_OK ? uw_import_shape(im, n, v, axes < rank ? axes : rank, dim) : rc;
}
