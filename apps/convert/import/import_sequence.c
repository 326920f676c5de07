/* SPDX-License-Identifier: Apache-2.0 */
#include "import_parts.h"
#include "import_sequence.h"

#include <string.h>

/* ONNX's place of each gate in PyTorch's order: LSTM i f g o from i o f c, GRU r z n from z r h. */
static const uint32_t lstm_gates[4] = {0, 2, 3, 1};
static const uint32_t gru_gates[3] = {1, 0, 2};
static const uint32_t rnn_gates[1] = {0};

/* A parameter of all gates: [gates * hidden][columns]; a bias has no columns and begins at element
 * `at` of a direction. */
struct gates {
    const char *suffix;
    const struct uw_onnx_tensor *t;
    uint64_t columns, at;
};

/* Rows of one direction, gates in PyTorch's order. */
static int gate_param(struct uw_import *im, struct uw_import_layer *l, uint32_t slot,
                      const struct uw_import_recurrent *s, uint64_t direction,
                      const struct gates *g)
{
    const uint64_t dim[2] = {s->gates * s->hidden, g->columns};
    const struct uw_onnx_tensor *t = g->t;
    int rc = uw_import_param(im, l, slot, g->suffix, NULL, 0.0f, g->columns == 0 ? 1 : 2, dim);
    uint64_t row_n = g->columns == 0 ? 1 : g->columns;
    uint64_t all = t->dim[1] * (t->rank > 2 ? t->dim[2] : 1);
    for (uint64_t i = 0; rc == UW_OK && i < s->gates * s->hidden * row_n; i++) {
        uint64_t row = i / row_n;
        uint64_t from = s->gate[row / s->hidden] * s->hidden + row % s->hidden;
        l->param[slot].data[i] = (float)uw_import_number(
            t, direction * all + g->at + from * row_n + i % row_n);
    }
    return rc;
}

static int emit_direction(struct uw_import *im, const struct uw_onnx_node *n,
                          const struct uw_import_recurrent *s, uint64_t direction, bool last)
{
    struct uw_import_layer *l = uw_import_emit(im, n, s->kind, s->input);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.recurrent = (struct uw_recurrent_def){
        .hidden = (uint32_t)s->hidden, .no_bias = s->b == NULL,
        .reverse = s->reverse || direction == 1, .last = last, .relu = s->relu};
    uw_import_dims(l, last ? 1 : 2, last ? s->hidden : s->steps, last ? 1 : s->hidden, 1);
    const struct gates gates[4] = {{"weight_ih", s->w, s->in, 0},
                                   {"weight_hh", s->r, s->hidden, 0},
                                   {"bias_ih", s->b, 0, 0},
                                   {"bias_hh", s->b, 0, s->gates * s->hidden}};
    int rc = UW_OK;
    for (uint32_t slot = 0; slot < 4 && gates[slot].t != NULL && rc == UW_OK; slot++) {
        rc = gate_param(im, l, slot, s, direction, &gates[slot]);
    }
    return rc;
}

/* Whether a first state, input i, is left out or a constant of zeros. */
static bool is_zero_state(struct uw_import *im, const struct uw_onnx_node *n, uint32_t i)
{
    const struct uw_value *h = i < n->inputs_n ? uw_import_in(im, n, i) : NULL;
    if (h == NULL || h->kind != UW_VALUE_CONST) {
        return h == NULL;
    }
    struct uw_onnx_tensor t = h->t;
    for (uint32_t a = 0; a < t.rank; a++) {
        t.dim[a] = t.stride[a] == 0 && t.dim[a] > 1 ? 1 : t.dim[a]; /* repeated */
    }
    uint64_t count = uw_onnx_tensor_size(&t);
    bool zero = !uw_import_is_own(im, &h->t);
    for (uint64_t k = 0; zero && k < count; k++) {
        zero = uw_import_number(&t, k) == 0.0;
    }
    return zero;
}

static int check_recurrent(struct uw_import *im, const struct uw_onnx_node *n,
                           struct uw_import_recurrent *s)
{
    const struct uw_onnx_attribute *act = uw_onnx_attribute(n, "activations");
    const char *direction = uw_onnx_text(n, "direction", "forward");
    bool rnn = s->kind == UW_LAYER_RNN;
    uint32_t a_direction = s->kind == UW_LAYER_LSTM ? 3 : rnn ? 1 : 2;
    bool known = true;
    s->directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    s->reverse = strcmp(direction, "reverse") == 0;
    for (uint32_t i = 0; act != NULL && i < act->strings_n; i++) {
        const char *a = act->strings[i];
        bool relu = rnn && strcmp(a, "Relu") == 0;
        const char *usual = !rnn && i % a_direction == 0 ? "Sigmoid" : "Tanh";
        known = known && (relu || strcmp(a, usual) == 0) && (i == 0 || relu == s->relu);
        s->relu = relu;
    }
    if (!known || uw_onnx_attribute(n, "clip") != NULL || uw_onnx_int(n, "layout", 0) != 0 ||
        uw_onnx_int(n, "input_forget", 0) != 0 || uw_import_in(im, n, 4) != NULL ||
        (n->inputs_n > 7 && uw_import_in(im, n, 7) != NULL)) {
        return uw_import_refuse(im, n, UW_ERR_UNSUPPORTED, "only PyTorch's form: usual "
                                "activations, no clip, peepholes or sequence lengths");
    }
    s->resets_before = s->kind == UW_LAYER_GRU && uw_onnx_int(n, "linear_before_reset", 0) != 1;
    s->has_state = !is_zero_state(im, n, 5);
    s->has_cell = !is_zero_state(im, n, 6);
    return UW_OK;
}

/* Check that the first states, also zeros, are [directions][N][hidden]. */
static int check_states(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_import_recurrent *s)
{
    for (uint32_t i = 5; i < 7; i++) {
        const struct uw_value *h = uw_import_in(im, n, i);
        bool data = h != NULL && h->kind == UW_VALUE_DATA;
        if (h == NULL || (!data && h->kind != UW_VALUE_CONST)) {
            continue;
        }
        uint32_t rank = data ? h->view.axes_n : h->t.rank;
        uint64_t d[UW_ONNX_RANK_MAX] = {0};
        for (uint32_t a = 0; a < rank; a++) {
            d[a] = data ? uw_view_dim(&h->view, a) : h->t.dim[a];
        }
        if (rank != 3 || d[0] != s->directions || d[2] != s->hidden) {
            return uw_import_refuse(im, n, UW_ERR_SHAPE, "its first %s is of another size than "
                                    "[%llu][N][%llu]", i == 5 ? "state" : "cell",
                                    (unsigned long long)s->directions,
                                    (unsigned long long)s->hidden);
        }
    }
    return UW_OK;
}

static int read_recurrent(struct uw_import *im, const struct uw_onnx_node *n,
                          struct uw_import_recurrent *s)
{
    struct uw_value *x = uw_import_data(im, n, 0);
    *s = (struct uw_import_recurrent){.kind = n->op[0] == 'L'   ? UW_LAYER_LSTM
                                    : n->op[0] == 'G' ? UW_LAYER_GRU : UW_LAYER_RNN};
    s->gates = s->kind == UW_LAYER_LSTM ? 4 : s->kind == UW_LAYER_GRU ? 3 : 1;
    s->gate = s->gates == 4 ? lstm_gates : s->gates == 3 ? gru_gates : rnn_gates;
    s->w = uw_import_const(im, n, 1);
    s->r = uw_import_const(im, n, 2);
    s->b = uw_import_in(im, n, 3) != NULL ? uw_import_const(im, n, 3) : NULL;
    if (x == NULL || im->err->code != UW_OK) {
        return im->err->code;
    }
    int rc = check_recurrent(im, n, s);
    const struct uw_view v = x->view;
    if (rc < 0) {
        return rc;
    }
    if (v.axes_n != 3 || !uw_view_is_batch(&v, 1) || s->w->rank != 3 || s->r->rank != 3 ||
        (s->b != NULL && s->b->rank != 2)) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its input is not [steps][N][features], or "
                                "its weights are not of that kind");
    }
    s->steps = uw_view_dim(&v, 0);
    s->in = uw_view_dim(&v, 2);
    s->hidden = s->r->dim[2];
    uint64_t rows = s->gates * s->hidden;
    if (s->hidden == 0 || s->hidden > 65535 || s->w->dim[0] != s->directions ||
        s->r->dim[0] != s->directions || s->w->dim[1] != rows || s->r->dim[1] != rows ||
        s->w->dim[2] != s->in ||
        (s->b != NULL && (s->b->dim[0] != s->directions || s->b->dim[1] != 2 * rows))) {
        return uw_import_refuse(im, n, UW_ERR_SHAPE, "its weights do not fit %llu features and "
                                "%llu hidden", (unsigned long long)s->in,
                                (unsigned long long)s->hidden);
    }
    return check_states(im, n, s);
}

/* Bring the input into the order of a recurrent layer. */
static int arrange(struct uw_import *im, const struct uw_onnx_node *n,
                   struct uw_import_recurrent *s, const struct uw_value *x)
{
    struct uw_view v = x->view;
    const uint64_t dim[2] = {s->steps, s->in};
    int rc = uw_import_order(im, n, &v);
    rc = rc < 0 ? rc : uw_import_shape(im, n, &v, 2, dim);
    s->input = v.layer;
    return rc;
}

/* Concatenate two directions. */
static int join(struct uw_import *im, const struct uw_onnx_node *n, const uint32_t *layer)
{
    struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_CONCAT, layer[0]);
    if (l == NULL) {
        return im->err->code;
    }
    l->def.concat.axis = l->rank - 1;
    l->dim[l->rank - 1] *= 2;
    l->input[l->inputs_n++] = layer[1];
    return UW_OK;
}

/* The state after the last step of each direction, from the whole sequence. */
static int final_states(struct uw_import *im, const struct uw_onnx_node *n,
                        const struct uw_import_recurrent *s, uint32_t *layer)
{
    for (uint64_t d = 0; d < s->directions; d++) {
        struct uw_import_layer *l = uw_import_emit(im, n, UW_LAYER_SLICE, layer[d]);
        if (l == NULL) {
            return im->err->code;
        }
        bool reverse = s->reverse || d == 1;
        l->def.slice = (struct uw_slice_def){.start = reverse ? 0 : (int32_t)s->steps - 1,
                                             .length = 1, .squeeze = true};
        uw_import_dims(l, 1, s->hidden, 1, 1);
        layer[d] = im->layers_n;
    }
    return UW_OK;
}

int uw_op_recurrent(struct uw_import *im, const struct uw_onnx_node *n)
{
    struct uw_import_recurrent s;
    uint32_t layer[2] = {0, 0};
    struct uw_value *all = uw_import_out(im, n, 0);
    struct uw_value *state = uw_import_out(im, n, 1), *cell = uw_import_out(im, n, 2);
    bool whole = all != NULL && all->users_n > 0;
    bool final = state != NULL && state->users_n > 0;
    int rc = read_recurrent(im, n, &s);

    const struct uw_value *w = uw_import_in(im, n, 1), *r = uw_import_in(im, n, 2);
    bool shared = rc == UW_OK && (uw_import_is_shared(im, w) || w->derived || r->derived);
    if (rc == UW_OK && (shared || s.has_state || s.has_cell || s.resets_before ||
                        (cell != NULL && cell->users_n > 0))) {
        return uw_import_unroll(im, n, &s, uw_import_data(im, n, 0));
    }
    rc = rc < 0 ? rc : arrange(im, n, &s, uw_import_data(im, n, 0));
    for (uint64_t d = 0; rc == UW_OK && d < s.directions; d++) {
        rc = emit_direction(im, n, &s, d, !whole);
        layer[d] = im->layers_n;
    }
    if (rc == UW_OK && whole) {
        const uint64_t dims[4] = {s.steps, s.directions, im->batch, s.hidden};
        rc = s.directions == 2 ? join(im, n, layer) : UW_OK;
        rc = rc < 0 ? rc : uw_import_result(im, n, 0, dims, 4, 2);
    }
    if (rc == UW_OK && final) {
        const uint64_t dims[3] = {s.directions, im->batch, s.hidden};
        rc = whole ? final_states(im, n, &s, layer) : UW_OK;
        rc = rc < 0 || s.directions == 1 ? rc : join(im, n, layer);
        rc = rc < 0 ? rc : uw_import_result(im, n, 1, dims, 3, 1);
    }
    return rc;
}
