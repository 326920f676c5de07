/* SPDX-License-Identifier: Apache-2.0
 *
 * Self-attention is recognized by what it computes, not by its exact nodes: the product of
 * probabilities and values, whose operands are views of dense layers with the same input. */
#include "import.h"

#include <math.h>
#include <string.h>

/* One of query, key, value: which columns of which dense layer. */
struct source {
    const struct uw_import_layer *dense;
    uint64_t offset, heads, steps, width;
};

/* The atom of the axes begin .. end - 1 that is not the minibatch; fails if there are several. A
 * minibatch of 1 may be anywhere. */
static bool one_atom(const struct uw_view *v, uint32_t begin, uint32_t end, struct uw_atom *out,
                     bool batch)
{
    uint32_t first = begin == 0 ? 0 : v->axis_end[begin - 1];
    uint32_t last = v->axis_end[end - 1];
    uint32_t found = 0;
    bool here = false;
    bool one = false;
    *out = (struct uw_atom){1, 0, false};
    for (uint32_t i = 0; i < v->atoms_n; i++) {
        bool inside = i >= first && i < last;
        if (v->atom[i].batch) {
            here = here || inside;
            one = one || v->atom[i].size == 1;
        } else if (inside) {
            *out = v->atom[i];
            found++;
        }
    }
    return found <= 1 && (one || here == batch);
}

/* Go from a layer back to its dense layer, adding up the offsets of slices. */
static const struct uw_import_layer *dense_below(const struct uw_import *im, uint32_t layer,
                                                 uint64_t steps, uint64_t *offset)
{
    while (layer != 0) {
        const struct uw_import_layer *l = im->layer[layer - 1];
        if (l->def.kind == UW_LAYER_DENSE) {
            return l;
        }
        if (l->def.kind == UW_LAYER_SLICE && l->input[0] != 0) {
            const struct uw_import_layer *from = im->layer[l->input[0] - 1];
            uint64_t before = 1;
            uint64_t behind = 1;
            for (uint32_t a = 0; a < from->rank; a++) {
                before *= a < l->def.slice.axis ? from->dim[a] : 1;
                behind *= a > l->def.slice.axis ? from->dim[a] : 1;
            }
            if (before != steps) {
                return NULL;
            }
            *offset += (uint64_t)l->def.slice.start * behind;
        } else if (l->def.kind != UW_LAYER_RESHAPE && l->def.kind != UW_LAYER_FLATTEN) {
            return NULL;
        }
        layer = l->input[0];
    }
    return NULL;
}

/* v is [N][heads][steps][width], or with its last two axes exchanged, after any other axes. */
static bool find_source(const struct uw_import *im, const struct uw_value *v, bool exchanged,
                        struct source *out)
{
    struct uw_atom head;
    struct uw_atom step;
    struct uw_atom width;
    if (v == NULL || v->kind != UW_VALUE_DATA || v->view.axes_n < 3) {
        return false;
    }
    uint32_t last = v->view.axes_n - 1;
    if (!one_atom(&v->view, 0, last - 1, &head, true) ||
        !one_atom(&v->view, last - 1, last, exchanged ? &width : &step, false) ||
        !one_atom(&v->view, last, last + 1, exchanged ? &step : &width, false)) {
        return false;
    }
    uint64_t features = head.size * width.size;
    if ((width.size > 1 && width.stride != 1) || (head.size > 1 && head.stride != width.size) ||
        (step.size > 1 && step.stride != features) || v->view.n != step.size * features) {
        return false;
    }
    *out = (struct source){.heads = head.size, .steps = step.size, .width = width.size};
    out->dense = dense_below(im, v->view.layer, step.size, &out->offset);
    return out->dense != NULL && out->offset + features <= out->dense->def.dense.out &&
           out->dense->param[0].dim[1] == features;
}

/* Whether the mask hides steps after t from step t. */
static bool is_causal(const struct uw_onnx_tensor *t, uint64_t steps, bool additive)
{
    uint64_t n = uw_onnx_tensor_size(t);
    if (n != steps * steps || t->rank < 2 || t->dim[t->rank - 1] != steps) {
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        double m = uw_import_number(t, i);
        bool hidden = additive ? m < -1e4 : m != 0.0;
        if (hidden != (i % steps > i / steps) || (additive && !hidden && m != 0.0)) {
            return false;
        }
    }
    return true;
}

/* Go from the softmax's input back to the product of queries and keys.
 * Returns that node, or NULL. */
static const struct uw_onnx_node *scores(struct uw_import *im, const struct uw_value *v,
                                         uint64_t steps, double *scale, bool *causal)
{
    for (uint32_t i = 0; i < 8 && v != NULL && v->node != NULL; i++) {
        const struct uw_onnx_node *n = v->node;
        const struct uw_value *a = uw_import_in(im, n, 0);
        const struct uw_value *b = uw_import_in(im, n, 1);
        double c;
        if (strcmp(n->op, "MatMul") == 0) {
            return n;
        }
        if (strcmp(n->op, "Where") == 0) {
            double fill = 0.0;
            if (a == NULL || a->kind != UW_VALUE_CONST || !uw_import_scalar(b, &fill) ||
                fill > -1e4 || !is_causal(&a->t, steps, false)) {
                return NULL;
            }
            *causal = true;
            v = uw_import_in(im, n, 2);
        } else if (strcmp(n->op, "Add") == 0 && a != NULL && b != NULL) {
            const struct uw_value *mask = a->kind == UW_VALUE_CONST ? a : b;
            if (mask->kind != UW_VALUE_CONST || !is_causal(&mask->t, steps, true)) {
                return NULL;
            }
            *causal = true;
            v = mask == a ? b : a;
        } else if (strcmp(n->op, "Div") == 0 && uw_import_scalar(b, &c)) {
            *scale /= c;
            v = a;
        } else if (strcmp(n->op, "Mul") == 0 &&
                   (uw_import_scalar(b, &c) || uw_import_scalar(a, &c))) {
            *scale *= c;
            v = b != NULL && b->kind == UW_VALUE_CONST ? a : b;
        } else {
            return NULL;
        }
    }
    return NULL;
}

/* Build in_proj from rows of three dense layers. */
static int set_in_proj(struct uw_import *im, struct uw_import_layer *l, const struct source *s)
{
    const size_t e = (size_t)(s[0].heads * s[0].width);     /* of weights that are in memory */
    const uint64_t dim[2] = {3 * (uint64_t)e, e};
    int rc = uw_import_param(im, l, 0, "in_proj_weight", NULL, 0.0f, 2, dim);
    rc = rc < 0 ? rc : uw_import_param(im, l, 1, "in_proj_bias", NULL, 0.0f, 1, dim);
    if (rc < 0) {
        return rc;
    }
    l->def.attention.no_bias = true;
    for (uint32_t k = 0; k < 3; k++) {
        const struct uw_import_param *w = &s[k].dense->param[0];
        const struct uw_import_param *b = &s[k].dense->param[1];
        memcpy(l->param[0].data + k * e * e, w->data + (size_t)s[k].offset * e,
               e * e * sizeof(float));
        if (b->suffix != NULL) {
            l->def.attention.no_bias = false;
            memcpy(l->param[1].data + k * e, b->data + s[k].offset, e * sizeof(float));
        }
    }
    l->own_name = s[0].dense->own_name;
    return UW_OK;
}

/* The softmax's input; *axis: its axis, as in the file. */
static const struct uw_value *behind_softmax(struct uw_import *im, const struct uw_value *p,
                                             int64_t *axis)
{
    if (p != NULL && p->node != NULL && strcmp(p->node->op, "Dropout") == 0) {
        double rate = 0.0;
        uw_import_scalar(uw_import_in(im, p->node, 1), &rate);
        if (rate > 0.0) {
            uw_import_note(im, "dropout of attention weights is left out");
        }
        p = uw_import_in(im, p->node, 0);
    }
    if (p == NULL || p->node == NULL || p->kind != UW_VALUE_OPAQUE ||
        strcmp(p->node->op, "Softmax") != 0) {
        return NULL;
    }
    *axis = uw_onnx_int(p->node, "axis", im->graph.opset < 13 ? 1 : -1);
    return uw_import_in(im, p->node, 0);
}

int uw_op_attention(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct source s[3];
    const struct uw_value *value = uw_import_in(im, n, 1);
    int64_t axis = 0;
    const struct uw_value *scored = behind_softmax(im, uw_import_in(im, n, 0), &axis);
    struct uw_value *y = uw_import_out(im, n, 0);
    bool causal = false;
    double scale = 1.0;
    const char *why = "a product of two computed values is known in self-attention only";

    if (scored == NULL || y == NULL || !find_source(im, value, false, &s[2])) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "%s", why);
    }
    const struct uw_onnx_node *qk = scores(im, scored, s[2].steps, &scale, &causal);
    const struct uw_value *q = qk != NULL ? uw_import_in(im, qk, 0) : NULL;
    const struct uw_value *k = qk != NULL ? uw_import_in(im, qk, 1) : NULL;
    if (!find_source(im, q, false, &s[0]) || !find_source(im, k, true, &s[1]) ||
        (axis != -1 && axis != (int64_t)q->view.axes_n - 1)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "%s", why);
    }
    scale *= (double)q->view.scale * (double)k->view.scale * (double)value->view.scale;
    for (uint32_t i = 0; i < 3; i++) {
        if (s[i].heads != s[0].heads || s[i].steps != s[0].steps || s[i].width != s[0].width ||
            s[i].dense->input[0] != s[0].dense->input[0]) {
            return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "queries, keys and values are not "
                                    "of one sequence");
        }
    }
    if (fabs(scale * sqrt((double)s[0].width) - 1.0) > 1e-3) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "its scale is %g, only 1 / sqrt(%llu) is trained", scale,
                                (unsigned long long)s[0].width);
    }
    struct uw_import_layer *l =
        uw_import_emit(im, n, UW_LAYER_ATTENTION, s[0].dense->input[0]);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.attention = (struct uw_attention_def){.heads = (uint32_t)s[0].heads, .causal = causal};
    l->wants_projection = true;
    uw_import_dims(l, 2, s[0].steps, s[0].heads * s[0].width, 1);
    y->kind = UW_VALUE_DATA;
    y->view = q->view;
    y->view.scale = 1.0f;
    y->view.layer = im->layers_n;
    y->view.rank = 2;
    memcpy(y->view.dim, l->dim, sizeof l->dim);
    return set_in_proj(im, l, s);
}

int uw_import_projection(struct uw_import *im, const struct uw_onnx_node *n,
                         const struct uw_view *x, struct uw_import_layer *dense)
{
    struct uw_import_layer *a = x->layer != 0 ? im->layer[x->layer - 1] : NULL;
    if (a == NULL || a->def.kind != UW_LAYER_ATTENTION || !a->wants_projection) {
        return 0;
    }
    const uint64_t e = a->dim[1];
    if (dense->param[0].dim[0] != e || dense->param[0].dim[1] != e) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED,
                                "attention of %llu features is followed by a dense layer of "
                                "%u to %u", (unsigned long long)e,
                                (unsigned)dense->param[0].dim[1], (unsigned)dense->param[0].dim[0]);
    }
    /* the dense layer becomes the attention; the other one is no longer needed */
    struct uw_import_layer out = *a;
    const char *name = dense->own_name;
    size_t length = name != NULL ? strlen(name) : 0;
    if (length > 9 && strcmp(name + length - 9, ".out_proj") == 0) {
        out.own_name = uw_pool_text(im->pool, name, length - 9);
    }
    out.wants_projection = false;
    out.param[2] = dense->param[0];
    out.param[2].suffix = "out_proj.weight";
    out.param[3] = dense->param[1];
    bool bias = out.param[3].suffix != NULL;
    out.affine = bias ? 2 : 1;
    out.def.attention.no_bias = a->def.attention.no_bias && !bias;
    if (!bias) {
        int rc = uw_import_param(im, &out, 3, "out_proj.bias", NULL, 0.0f, 1, &e);
        if (rc < 0) {
            return rc;
        }
    }
    out.param[3].suffix = "out_proj.bias";
    for (uint32_t i = 1; i < 4; i += 2) {
        out.param[i].suffix = out.def.attention.no_bias ? NULL : out.param[i].suffix;
    }
    *dense = out;
    return 1;
}

int uw_import_attention_bias(struct uw_import *im, struct uw_import_layer *l,
                             const struct uw_onnx_tensor *t)
{
    const uint64_t e = l->dim[1];
    l->affine = 2;
    l->def.attention.no_bias = false;
    l->param[1].suffix = "in_proj_bias";
    return uw_import_param(im, l, 3, "out_proj.bias", t, 0.0f, 1, &e);
}
