/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse.h"

#include <string.h>

uint32_t uw_fuse_below(const struct uw_fuse *f, uint32_t layer)
{
    const struct uw_import_layer *l = uw_fuse_at(f, layer);
    while (l != NULL && (l->def.kind == UW_LAYER_RESHAPE || l->def.kind == UW_LAYER_FLATTEN)) {
        layer = l->input[0];
        l = uw_fuse_at(f, layer);
    }
    return layer;
}

uint32_t uw_fuse_input(const struct uw_fuse *f, const struct uw_import_layer *l, uint32_t k)
{
    return uw_fuse_below(f, l->input[k]);
}

bool uw_fuse_is_function(const struct uw_import_layer *l, enum uw_function function)
{
    return l != NULL && l->def.kind == UW_LAYER_FUNCTION && l->def.function.function == function;
}

bool uw_fuse_is_op(const struct uw_import_layer *l, enum uw_arithmetic_op op)
{
    return l != NULL && ((l->def.kind == UW_LAYER_ARITHMETIC && l->def.arithmetic.op == op) ||
                         (l->def.kind == UW_LAYER_ADD && op == UW_ARITHMETIC_ADD &&
                          l->inputs_n == 2));
}

static uint64_t size_of(const uint64_t *dim)
{
    return dim[0] * dim[1] * dim[2] * dim[3];
}

static const uint64_t *dim_of(const struct uw_fuse *f, uint32_t layer)
{
    return layer != 0 ? f->im->layer[layer - 1]->dim : f->im->input->view.dim;
}

bool uw_fuse_is_plain(const struct uw_fuse *f, const struct uw_import_layer *l,
                      enum uw_arithmetic_op op)
{
    if (!uw_fuse_is_op(l, op)) {
        return false;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const struct uw_import_layer *in = uw_fuse_at(f, uw_fuse_input(f, l, k));
        if (size_of(dim_of(f, l->input[k])) != size_of(l->dim) ||
            (in != NULL && in->def.kind == UW_LAYER_PARAMETER)) {
            return false;
        }
    }
    return true;
}

uint32_t uw_fuse_parameter_of(const struct uw_fuse *f, const struct uw_import_layer *l, uint32_t k,
                              bool last)
{
    const struct uw_import_layer *p = uw_fuse_at(f, l->input[k]);
    uint32_t axis = last ? l->rank - 1 : 0;
    if (p == NULL || p->def.kind != UW_LAYER_PARAMETER || p->rank > l->rank ||
        p->def.parameter.constant) {
        return 0;
    }
    for (uint32_t a = 0; a < l->rank; a++) {
        uint32_t skip = l->rank - p->rank;
        uint64_t d = a >= skip ? p->dim[a - skip] : 1;
        if (a == axis ? d != l->dim[a] : d != 1) {
            return 0;
        }
    }
    return l->input[k];
}

bool uw_fuse_same_shape(const struct uw_fuse *f, uint32_t a, uint32_t b)
{
    uint32_t rank_a = a != 0 ? f->im->layer[a - 1]->rank : f->im->input->view.rank;
    uint32_t rank_b = b != 0 ? f->im->layer[b - 1]->rank : f->im->input->view.rank;
    return rank_a == rank_b &&
           memcmp(dim_of(f, a), dim_of(f, b), rank_a * sizeof(uint64_t)) == 0;
}

void uw_fuse_reshape(struct uw_import_layer *l, uint32_t layer)
{
    struct uw_import_layer is = {.input = {layer}, .inputs_n = 1, .rank = l->rank, .node = l->node,
                                 .needed = true};
    memcpy(is.dim, l->dim, sizeof is.dim);
    is.def.kind = UW_LAYER_RESHAPE;
    is.def.reshape.rank = l->rank;
    for (uint32_t a = 0; a < l->rank; a++) {
        is.def.reshape.dim[a] = (uint32_t)l->dim[a];
    }
    *l = is;
}

/* Readers of every needed layer, not counting changes of shape that nobody reads. */
static void count_readers(struct uw_fuse *f, const uint32_t *outputs, uint32_t outputs_n)
{
    struct uw_import *im = f->im;
    memset(f->readers, 0, (im->layers_n + 1) * sizeof *f->readers);
    uw_import_need(im, outputs, outputs_n);
    for (uint32_t i = 0; i < outputs_n; i++) {
        f->readers[outputs[i]]++;
    }
    for (uint32_t i = 0; i < im->layers_n; i++) {
        const struct uw_import_layer *l = im->layer[i];
        for (uint32_t k = 0; k < l->inputs_n && l->needed; k++) {
            f->readers[l->input[k]]++;
        }
    }
}

int uw_fuse_all(struct uw_import *im, const uint32_t *outputs, uint32_t outputs_n)
{
    static uw_fuse_pattern *const patterns[] = {
        uw_fuse_bias,      uw_fuse_scale,  uw_fuse_take, uw_fuse_activation,
        uw_fuse_layernorm, uw_fuse_affine, uw_fuse_lrn,  uw_fuse_attention,
    };
    struct uw_fuse f = {.im = im,
                        .readers = uw_pool_take(im->pool, im->layers_n + 1u, sizeof *f.readers)};
    if (f.readers == NULL) {
        return uw_import_nomem(im);
    }
    for (size_t p = 0; p < sizeof patterns / sizeof patterns[0]; p++) {
        count_readers(&f, outputs, outputs_n);
        for (uint32_t i = 1; i <= im->layers_n; i++) {
            int rc = im->layer[i - 1]->needed ? patterns[p](&f, i) : 0;
            if (rc < 0) {
                return rc;
            }
            if (rc > 0) {
                count_readers(&f, outputs, outputs_n);
            }
        }
    }
    return UW_OK;
}
