/* SPDX-License-Identifier: Apache-2.0
 *
 * Self-attention is recognized by what it computes: softmax of the product of queries and keys,
 * times values, all three columns of dense layers over the same sequence, and a dense layer
 * behind. */
#include "fuse.h"

#include <math.h>
#include <string.h>

/* Some elements of a dense layer's output: as a view, from column `offset` on. */
struct source {
    const struct uw_import_layer *dense;
    struct uw_view v;
    uint64_t offset;
    double scale;
};

/* Queries, keys or values of all heads: [heads][steps][width] columns of a dense layer. */
struct heads {
    uint64_t heads, steps, width;
};

/* Whether l only moves, cuts or scales its input; v, of the input, becomes that of its output. */
static bool follow(const struct uw_import_layer *l, const struct uw_import_layer *from,
                   struct uw_view *v, uint64_t *offset, double *scale)
{
    uint64_t dim[UW_AXES_MAX];
    memcpy(dim, l->dim, sizeof dim);
    if (uw_fuse_is_function(l, UW_FUNCTION_SCALE) && l->def.function.b == 0.0f) {
        *scale *= (double)l->def.function.a;
        return uw_view_reshape(v, dim, l->rank);
    }
    if (l->def.kind == UW_LAYER_RESHAPE || l->def.kind == UW_LAYER_FLATTEN) {
        return uw_view_reshape(v, dim, l->rank);
    }
    if (!uw_view_reshape(v, from->dim, from->rank)) {
        return false;
    }
    if (l->def.kind == UW_LAYER_TRANSPOSE) {
        uw_view_permute(v, l->def.transpose.order);
        return true;
    }
    if (l->def.kind != UW_LAYER_SLICE || l->def.slice.start < 0) {
        return false;
    }
    uint32_t axis = l->def.slice.axis, first = axis == 0 ? 0 : v->axis_end[axis - 1];
    uint64_t length = l->def.slice.length != 0 ? l->def.slice.length
                                               : from->dim[axis] - (uint64_t)l->def.slice.start;
    if (v->axis_end[axis] - first != 1) {
        return v->axis_end[axis] == first;
    }
    *offset += (uint64_t)l->def.slice.start * v->atom[first].stride;
    v->atom[first].size = length;
    memcpy(dim, from->dim, sizeof dim);
    dim[axis] = length;
    return uw_view_reshape(v, dim, from->rank) && uw_view_reshape(v, l->dim, l->rank);
}

/* What layer `layer` shows of the dense layer (or any layer, with `kind`) below it. */
static bool trace(const struct uw_fuse *f, uint32_t layer, enum uw_layer_kind kind,
                  struct source *s)
{
    uint32_t chain[16], n = 0;
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    while (l != NULL && l->def.kind != kind) {
        if (n == 16 || l->inputs_n != 1) {
            return false;
        }
        chain[n++] = layer;
        layer = l->input[0];
        l = uw_fuse_at(f, layer);
    }
    if (l == NULL) {
        return false;
    }
    *s = (struct source){.dense = l, .scale = 1.0};
    uw_view_start(&s->v, l->dim, l->rank, l->rank);
    uw_view_reshape(&s->v, l->dim, l->rank);
    for (const struct uw_import_layer *from = l; n > 0; n--) {
        const struct uw_import_layer *next = uw_fuse_at(f, chain[n - 1]);
        if (!follow(next, from, &s->v, &s->offset, &s->scale)) {
            return false;
        }
        from = next;
    }
    return true;
}

/* The only atom of an axis; size 1 if there is none. */
static bool atom_of(const struct uw_view *v, uint32_t axis, struct uw_atom *out)
{
    uint32_t first = axis == 0 ? 0 : v->axis_end[axis - 1];
    *out = (struct uw_atom){1, 0, false};
    if (v->axis_end[axis] - first > 1) {
        return false;
    }
    if (v->axis_end[axis] != first) {
        *out = v->atom[first];
    }
    return true;
}

/* [heads][steps][width], or with the last two exchanged; one head may have no axis. */
static bool read_heads(const struct source *s, bool exchanged, struct heads *h)
{
    const struct uw_view *v = &s->v;
    struct uw_atom head = {1, 0, false}, step, width;
    uint32_t last = v->axes_n - 1;
    if (v->axes_n < 2 || v->axes_n > 3 || (v->axes_n == 3 && !atom_of(v, 0, &head)) ||
        !atom_of(v, last - 1, exchanged ? &width : &step) ||
        !atom_of(v, last, exchanged ? &step : &width)) {
        return false;
    }
    uint64_t columns = s->dense->dim[s->dense->rank - 1];
    *h = (struct heads){head.size, step.size, width.size};
    return (width.size == 1 || width.stride == 1) &&
           (head.size == 1 || head.stride == width.size) &&
           (step.size == 1 || step.stride == columns) && s->dense->rank == 2 &&
           s->dense->dim[0] == step.size && s->offset + head.size * width.size <= columns;
}

/* Whether the constant hides steps after t from step t: adds a large negative number there. */
static bool is_causal(const struct uw_import_layer *p, uint64_t steps)
{
    if (p == NULL || p->def.kind != UW_LAYER_PARAMETER || !p->def.parameter.constant ||
        p->dim[0] * p->dim[1] * p->dim[2] * p->dim[3] != steps * steps) {
        return false;
    }
    for (uint64_t i = 0; i < steps * steps; i++) {
        bool hidden = p->param[0].data[i] < -1e4f;
        if (hidden != (i % steps > i / steps) || (!hidden && p->param[0].data[i] != 0.0f)) {
            return false;
        }
    }
    return true;
}

/* From the softmax back to the product of queries and keys; its number, or 0. */
static uint32_t scores(const struct uw_fuse *f, uint32_t layer, uint64_t steps, double *scale,
                       bool *causal)
{
    for (uint32_t i = 0; i < 8; i++) {
        layer = uw_fuse_below(f, layer);
        const struct uw_import_layer *l = uw_fuse_at(f, layer);
        if (l == NULL || l->def.kind == UW_LAYER_MATMUL) {
            return layer;
        }
        if (uw_fuse_is_function(l, UW_FUNCTION_SCALE) && l->def.function.b == 0.0f) {
            *scale *= (double)l->def.function.a;
            layer = l->input[0];
        } else if (uw_fuse_is_op(l, UW_ARITHMETIC_ADD)) {
            uint32_t k = is_causal(uw_fuse_at(f, l->input[0]), steps) ? 0 : 1;
            if (!is_causal(uw_fuse_at(f, l->input[k]), steps)) {
                return 0;
            }
            *causal = true;
            layer = l->input[1 - k];
        } else if (uw_fuse_is_op(l, UW_ARITHMETIC_MASK)) { /* zeros where the sum above hides */
            layer = l->input[0];
        } else {
            return 0;
        }
    }
    return 0;
}

/* The softmax under the weights; dropout of weights is left out. 0: none. */
static uint32_t softmax_of(struct uw_fuse *f, uint32_t layer)
{
    layer = uw_fuse_below(f, layer);
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    if (l != NULL && l->def.kind == UW_LAYER_DROPOUT) {
        uw_import_note(f->im, "dropout of attention weights is left out");
        layer = uw_fuse_below(f, l->input[0]);
        l = uw_fuse_at(f, layer);
    }
    return l != NULL && l->def.kind == UW_LAYER_SOFTMAX && !l->def.softmax.log ? layer : 0;
}

/* The tensors of the file that in_proj consists of: one of each dense layer, whole. */
static void keep_torch(struct uw_import_param *in, const struct source *s, uint32_t slot,
                       uint64_t features)
{
    uint32_t k = 0;
    for (in->torch_n = 0; k < 3; in->torch_n++) {
        const struct uw_import_param *p = &s[k].dense->param[slot];
        const uint64_t rows = p->dim[0];
        struct uw_convert_part *part = &in->torch[in->torch_n];
        bool whole = p->torch_n == 1 && k * features + rows <= 3 * features;
        *part = p->torch[0];
        part->first = (uint32_t)(k * features);
        part->rows = (uint32_t)rows;
        for (uint64_t at = 0; at < rows && whole; at += features, k++) {
            whole = s[k].dense == s[k - at / features].dense && s[k].offset == at;
        }
        if (!whole) {
            in->torch_n = 0;
            return;
        }
    }
}

/* Build in_proj from rows of three dense layers, and out_proj from the one behind. */
static int set_weights(struct uw_import *im, struct uw_import_layer *l, const struct source *s,
                       const struct uw_import_layer *out, uint64_t features)
{
    const size_t e = (size_t)features;
    const uint64_t dim[2] = {3 * features, features};
    bool biases = out->param[1].suffix != NULL; /* all are there, or none */
    int rc = uw_import_param(im, l, 0, "in_proj_weight", NULL, 0.0f, 2, dim);
    if (biases && rc == UW_OK) {
        rc = uw_import_param(im, l, 1, "in_proj_bias", NULL, 0.0f, 1, dim);
    }
    if (rc < 0) {
        return rc;
    }
    for (uint32_t k = 0; k < 3; k++) {
        const struct uw_import_param *w = &s[k].dense->param[0], *b = &s[k].dense->param[1];
        memcpy(l->param[0].data + k * e * e, w->data + (size_t)s[k].offset * e,
               e * e * sizeof(float));
        if (biases) {
            memcpy(l->param[1].data + k * e, b->data + s[k].offset, e * sizeof(float));
        }
    }
    keep_torch(&l->param[0], s, 0, features);
    if (biases) {
        keep_torch(&l->param[1], s, 1, features);
    }
    l->param[2] = out->param[0];
    l->param[2].suffix = "out_proj.weight";
    if (biases) {
        l->param[3] = out->param[1];
        l->param[3].suffix = "out_proj.bias";
    }
    l->def.attention.no_bias = !biases;
    l->own_name = s[0].dense->own_name;
    const char *name = out->own_name;
    size_t length = name != NULL ? strlen(name) : 0;
    if (length > 9 && strcmp(name + length - 9, ".out_proj") == 0) {
        l->own_name = uw_pool_text(im->pool, name, length - 9);
    }
    return UW_OK;
}

/* Whether all biases are there or none: attention has them all, and trains them. */
static bool biases_agree(const struct source *s, const struct uw_import_layer *out)
{
    bool first = out->param[1].suffix != NULL;
    for (uint32_t k = 0; k < 3; k++) {
        if ((s[k].dense->param[1].suffix != NULL) != first) {
            return false;
        }
    }
    return true;
}

int uw_fuse_attention(struct uw_fuse *f, uint32_t layer)
{
    struct uw_import_layer *l = uw_fuse_at(f, layer);
    struct source s[3], mixed;
    struct heads h[3];
    if (l->def.kind != UW_LAYER_DENSE || l->rank != 2 ||
        !trace(f, l->input[0], UW_LAYER_MATMUL, &mixed) || mixed.scale != 1.0) {
        return 0;
    }
    const struct uw_import_layer *mix = mixed.dense;
    uint32_t soft = !mix->def.matmul.trans_a ? softmax_of(f, mix->input[0]) : 0;
    if (soft == 0 || !trace(f, mix->input[1], UW_LAYER_DENSE, &s[2]) ||
        !read_heads(&s[2], mix->def.matmul.trans_b, &h[2])) {
        return 0;
    }
    uint64_t e = h[2].heads * h[2].width;
    double scale = mix->def.matmul.scale != 0.0f ? (double)mix->def.matmul.scale : 1.0;
    bool causal = false;
    uint32_t product = scores(f, uw_fuse_at(f, soft)->input[0], h[2].steps, &scale, &causal);
    const struct uw_import_layer *qk = uw_fuse_at(f, product);
    if (qk == NULL || !trace(f, qk->input[0], UW_LAYER_DENSE, &s[0]) ||
        !trace(f, qk->input[1], UW_LAYER_DENSE, &s[1]) ||
        !read_heads(&s[0], qk->def.matmul.trans_a, &h[0]) ||
        !read_heads(&s[1], !qk->def.matmul.trans_b, &h[1])) {
        return 0;
    }
    const struct uw_import_layer *p = uw_fuse_at(f, soft);
    if (p->dim[p->rank - 1] != h[2].steps) {
        return 0;
    }
    scale *= qk->def.matmul.scale != 0.0f ? (double)qk->def.matmul.scale : 1.0;
    for (uint32_t i = 0; i < 3; i++) {
        scale *= s[i].scale;
        if (memcmp(&h[i], &h[2], sizeof h[i]) != 0 ||
            s[i].dense->input[0] != s[2].dense->input[0] ||
            s[i].dense->param[0].dim[1] != e) {
            return 0;
        }
    }
    /* what the dense layer reads: [steps][heads][width] of the product's [heads][steps][width] */
    const uint64_t cut[3] = {h[2].steps, h[2].heads, h[2].width};
    struct uw_atom t, head, width;
    bool ordered = uw_view_reshape(&mixed.v, cut, 3) && atom_of(&mixed.v, 0, &t) &&
                   atom_of(&mixed.v, 1, &head) && atom_of(&mixed.v, 2, &width) &&
                   (t.size == 1 || t.stride == h[2].width) &&
                   (head.size == 1 || head.stride == h[2].steps * h[2].width) &&
                   (width.size == 1 || width.stride == 1);
    if (!ordered || l->param[0].dim[0] != e || l->param[0].dim[1] != e ||
        l->dim[0] != h[2].steps || l->dim[1] != e || !biases_agree(s, l) ||
        fabs(scale * sqrt((double)h[2].width) - 1.0) > 1e-3) {
        return 0;
    }
    struct uw_import_layer is = {.input = {s[0].dense->input[0]}, .inputs_n = 1, .rank = 2,
                                 .dim = {h[2].steps, e, 1, 1}, .node = l->node, .needed = true};
    is.def.kind = UW_LAYER_ATTENTION;
    is.def.attention = (struct uw_attention_def){.heads = (uint32_t)h[2].heads, .causal = causal};
    int rc = set_weights(f->im, &is, s, l, e);
    *l = is;
    return rc < 0 ? rc : 1;
}
