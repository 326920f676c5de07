/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <math.h>
#include <string.h>

/* PyTorch's place of each gate in ONNX's order: i o f c from i f g o, z r h from r z n. */
static const uint32_t lstm_gates[4] = {0, 3, 1, 2};
static const uint32_t gru_gates[3] = {1, 0, 2};
static const uint32_t rnn_gates[1] = {0};

/* Rows of a parameter with the gates in ONNX's order; NULL: there is no such parameter. */
static void reorder(struct uw_export *e, const struct uw_segment *s, const uint32_t *gate,
                    uint32_t gates, float *out)
{
    uint32_t block = s->size_n / gates;
    for (uint32_t g = 0; g < gates; g++) {
        memcpy(out + (size_t)g * block, e->m->params.x + s->offset_n + (size_t)gate[g] * block,
               block * sizeof *out);
    }
}

const char *uw_export_recurrent(struct uw_export *e)
{
    static const char *const suffix[4] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    static const int64_t swap[3] = {1, 0, 2};
    enum uw_layer_kind kind = e->def->kind;
    const struct uw_recurrent_def *d = &e->def->recurrent;
    uint32_t gates = kind == UW_LAYER_LSTM ? 4 : kind == UW_LAYER_GRU ? 3 : 1;
    const uint32_t *gate = gates == 4 ? lstm_gates : gates == 3 ? gru_gates : rnn_gates;
    const int64_t rows = (int64_t)gates * d->hidden;
    const int64_t w_dim[3] = {1, rows, e->in.dim[1]};
    const int64_t r_dim[3] = {1, rows, d->hidden};
    const int64_t b_dim[2] = {1, 2 * rows};
    float *part[3] = {uw_pool_take(e->pool, (uint64_t)(rows * w_dim[2]), sizeof(float)),
                      uw_pool_take(e->pool, (uint64_t)(rows * r_dim[2]), sizeof(float)),
                      uw_pool_take(e->pool, (uint64_t)(2 * rows), sizeof(float))};

    for (uint32_t k = 0; k < 4; k++) {
        const struct uw_segment *s = uw_export_segment(e, suffix[k]);
        float *to = part[k < 2 ? k : 2];
        if (s != NULL && to != NULL) {
            reorder(e, s, gate, gates, k == 3 ? to + rows : to);
        }
    }
    const char *x = uw_export_transpose(e, e->x, 3, swap);
    const char *w = uw_export_const_floats(e, part[0], 3, w_dim);
    const char *r = uw_export_const_floats(e, part[1], 3, r_dim);
    struct uw_export_node *n = uw_export_node(
        e, kind == UW_LAYER_LSTM ? "LSTM" : kind == UW_LAYER_GRU ? "GRU" : "RNN",
        x, w, r);
    n->input[n->inputs_n++] = uw_export_const_floats(e, part[2], 2, b_dim);
    n->output[n->outputs_n++] = uw_export_new_name(e);
    uw_export_int(n, "hidden_size", d->hidden);
    uw_export_text(n, "direction", d->reverse ? "reverse" : "forward");
    if (kind == UW_LAYER_GRU) {
        uw_export_int(n, "linear_before_reset", 1);
    }
    if (kind == UW_LAYER_RNN && d->relu) {
        uw_export_text(n, "activations", "Relu");
        n->attribute[n->attributes_n - 1].type = 8; /* a list of one */
    }
    if (d->last) {
        return uw_export_squeeze(e, n->output[1], 0);
    }
    return uw_export_transpose(e, uw_export_squeeze(e, n->output[0], 1), 3, swap);
}

/* [N][T][E] seen as [N][heads][T][E / heads], or the last two axes exchanged */
static const char *heads_of(struct uw_export *e, const char *x, bool exchanged)
{
    uint32_t heads = e->def->attention.heads != 0 ? e->def->attention.heads : 1;
    const int64_t cut[3] = {e->in.dim[0], heads, e->in.dim[1] / heads};
    const int64_t order[4] = {0, 2, exchanged ? 3 : 1, exchanged ? 1 : 3};
    return uw_export_transpose(e, uw_export_reshape(e, x, 3, cut), 4, order);
}

static const char *causal_mask(struct uw_export *e)
{
    const int64_t dim[2] = {e->in.dim[0], e->in.dim[0]};
    uint32_t t = e->in.dim[0];
    float *mask = uw_pool_take(e->pool, (uint64_t)t * t, sizeof *mask);
    for (uint32_t i = 0; mask != NULL && i < t; i++) {
        for (uint32_t j = i + 1; j < t; j++) {
            mask[(size_t)i * t + j] = -INFINITY;
        }
    }
    return uw_export_const_floats(e, mask, 2, dim);
}

const char *uw_export_attention(struct uw_export *e)
{
    static const int64_t back[4] = {0, 2, 1, 3};
    uint32_t heads = e->def->attention.heads != 0 ? e->def->attention.heads : 1;
    const int64_t part = e->in.dim[1];
    const int64_t whole[2] = {e->in.dim[0], e->in.dim[1]};
    const char *in_weight = uw_export_param(e, "in_proj_weight");
    const char *all = uw_export_matmul(e, e->x, in_weight, uw_export_param(e, "in_proj_bias"));
    const char *qkv[3];

    for (int64_t k = 0; k < 3; k++) {
        qkv[k] = heads_of(e, uw_export_slice(e, all, 2, k * part, (k + 1) * part), k == 1);
    }
    float scale = 1.0f / sqrtf((float)(e->in.dim[1] / heads));
    const char *scores = uw_export_op(e, "MatMul", qkv[0], qkv[1]);
    scores = uw_export_op(e, "Mul", scores, uw_export_const_float(e, scale));
    if (e->def->attention.causal) {
        scores = uw_export_op(e, "Add", scores, causal_mask(e));
    }
    struct uw_export_node *p = uw_export_node(e, "Softmax", scores, NULL, NULL);
    uw_export_int(p, "axis", -1);
    const char *y = uw_export_op(e, "MatMul", p->output[0], qkv[2]);
    y = uw_export_reshape(e, uw_export_transpose(e, y, 4, back), 2, whole);
    const char *out_weight = uw_export_param(e, "out_proj.weight");
    return uw_export_matmul(e, y, out_weight, uw_export_param(e, "out_proj.bias"));
}
