/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include "uwasa/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int uw_zero(const struct uw_exec *e, void *x, size_t bytes)
{
    if (uw_device(e->kernels) != NULL) {
        return uw_device(e->kernels)->zero(e, x, bytes);
    }
    memset(x, 0, bytes);
    return UW_OK;
}

uint32_t uw_shape_size(const struct uw_shape *s)
{
    uint32_t dim[UW_AXES_MAX];
    uint64_t n = 1;
    uw_axes_of(s, dim);
    for (uint32_t i = 0; i < UW_AXES_MAX; i++) {
        n *= dim[i];
        if (n > UINT32_MAX) {
            return 0;
        }
    }
    return (uint32_t)n;
}

void uw_axes_of(const struct uw_shape *s, uint32_t dim[UW_AXES_MAX])
{
    const uint32_t all[UW_AXES_MAX] = {s->c, s->d, s->h, s->w};
    for (uint32_t i = 0; i < UW_AXES_MAX; i++) {
        dim[i] = i == 0 ? s->c : i < s->rank ? all[UW_AXES_MAX - s->rank + i] : 1;
    }
}

struct uw_shape uw_shape_of_axes(uint32_t rank, const uint32_t dim[UW_AXES_MAX])
{
    uint32_t all[UW_AXES_MAX] = {1, 1, 1, 1};
    for (uint32_t i = 1; i < rank; i++) {
        all[UW_AXES_MAX - rank + i] = dim[i];
    }
    return (struct uw_shape){dim[0], all[1], all[2], all[3], rank};
}

const char *uw_shape_text(const struct uw_shape *s, char text[UW_SHAPE_TEXT_BYTES])
{
    uint32_t dim[UW_AXES_MAX], n = 0;
    uw_axes_of(s, dim);
    for (uint32_t i = 0; i < s->rank; i++) {
        n += (uint32_t)snprintf(text + n, UW_SHAPE_TEXT_BYTES - n, i == 0 ? "%u" : "x%u",
                                (unsigned)dim[i]);
    }
    return text;
}

uint32_t uw_tensor_size(const struct uw_layer_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dim[i] == 0 || n > UINT32_MAX / t->dim[i]) {
            return 0;
        }
        n *= t->dim[i];
    }
    return (uint32_t)n;
}

uint32_t uw_window_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad,
                        bool ceil_mode)
{
    uint64_t most = (uint64_t)in + 2u * (uint64_t)pad + (ceil_mode ? stride - 1u : 0u);
    if (most < kernel) {
        return 0;
    }
    uint64_t out = (most - kernel) / stride + 1;
    if (ceil_mode && (out - 1) * stride >= (uint64_t)in + pad) {
        out--;
    }
    return out > UINT32_MAX ? 0 : (uint32_t)out;
}

int uw_want_rank(const struct uw_shape *in, uint32_t rank, const char *needs, struct uw_error *err)
{
    char text[UW_SHAPE_TEXT_BYTES];

    if (in->rank == rank) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_SHAPE, "its input is %s: needs %s", uw_shape_text(in, text),
                        needs != NULL ? needs
                        : rank == 3   ? "channels x height x width"
                                      : "channels x length");
}

/* How often a sample uses each weight. */
static uint64_t uses_per_weight(const struct uw_layer *l)
{
    switch (l->def->kind) {
    case UW_LAYER_CONV2D:
    case UW_LAYER_CONV1D:
        return (uint64_t)l->out.h * l->out.w;
    case UW_LAYER_CONV_TRANSPOSE2D:
        return (uint64_t)l->in.h * l->in.w;
    case UW_LAYER_DENSE:
        return l->in.rank == 2 ? l->in.c : 1;
    case UW_LAYER_RNN:
    case UW_LAYER_GRU:
    case UW_LAYER_LSTM:
    case UW_LAYER_ATTENTION:
        return l->in.c;
    default:
        return 0;
    }
}

uint64_t uw_layer_multiply_adds(const struct uw_layer *l)
{
    uint64_t uses = uses_per_weight(l), sum = 0;

    for (uint32_t t = 0; t < l->tensors_n && uses != 0; t++) {
        const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
        sum += tensor.rank > 1 ? uses * uw_tensor_size(&tensor) : 0;
    }
    if (l->def->kind == UW_LAYER_ATTENTION) {
        sum += 2 * (uint64_t)l->in.c * l->in.c * l->in.w; /* q k^T, and P v */
    }
    return sum;
}

uint32_t uw_draft_micro_n(const struct uw_model_config *config)
{
    return config->micro_n != 0 && config->micro_n < config->batch_n ? config->micro_n
                                                                     : config->batch_n;
}

uint32_t uw_graph_base(const struct uw_layer *layers, uint32_t value)
{
    while (value != UW_VALUE_INPUT && layers[value - 1].view) {
        value = layers[value - 1].input[0];
    }
    return value;
}

const float *uw_value_of(const struct uw_model *m, uint32_t value, const float *x)
{
    uint32_t base = uw_graph_base(m->layers, value);
    return base == UW_VALUE_INPUT ? x : m->layers[base - 1].y;
}

int uw_graph_resolve(const struct uw_graph *g, const char *name, uint32_t index, uint32_t *value)
{
    if (strcmp(name, "input") == 0) {
        *value = UW_VALUE_INPUT;
        return UW_OK;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(g->layers[i].def->name, name) == 0) {
            *value = i + 1;
            return UW_OK;
        }
    }
    return UW_ERR_NOTFOUND;
}

static int resolve_inputs(const struct uw_graph *g, struct uw_layer *l, struct uw_error *err)
{
    const struct uw_layer_def *def = l->def;

    if (def->kind == UW_LAYER_PARAMETER) {
        return UW_OK;
    }
    if (def->inputs[0] == NULL) {
        l->input[0] = (uint16_t)l->index; /* output of the previous layer, or the model's input */
        l->inputs_n = 1;
    } else {
        for (uint32_t k = 0; k < UW_LAYER_INPUTS_MAX && def->inputs[k] != NULL; k++) {
            uint32_t value;
            if (uw_graph_resolve(g, def->inputs[k], l->index, &value) < 0) {
                return uw_error_set(err, UW_ERR_NOTFOUND,
                                    "layer '%s': input '%s' is no earlier layer (and not "
                                    "\"input\")",
                                    def->name, def->inputs[k]);
            }
            l->input[k] = (uint16_t)value;
            l->inputs_n = (uint8_t)(k + 1);
        }
    }
    bool several = l->ops->several;
    if ((l->inputs_n > 1) != several) {
        return uw_error_set(err, UW_ERR_INVALID, "layer '%s' (%s): %u inputs, needs %u to %u",
                            def->name, l->ops->name, (unsigned)l->inputs_n, several ? 2u : 1u,
                            several ? UW_LAYER_INPUTS_MAX : 1u);
    }
    return UW_OK;
}

static int infer_layer(struct uw_graph *g, const struct uw_kernels *k, struct uw_layer *l,
                       struct uw_error *err)
{
    struct uw_shape in[UW_LAYER_INPUTS_MAX];
    struct uw_error inner = {0};
    char text[UW_SHAPE_TEXT_BYTES];

    in[0] = g->in;
    for (uint32_t i = 0; i < l->inputs_n; i++) {
        in[i] = g->in;
        if (l->input[i] != UW_VALUE_INPUT) {
            struct uw_layer *from = &g->layers[l->input[i] - 1];
            in[i] = from->out;
            from->consumers_n++;
            l->shared_inputs |= (uint8_t)(from->shared << i);
        }
    }
    l->shared = l->shared_inputs == (1u << l->inputs_n) - 1u;
    l->in = l->out = in[0];
    l->in_n = uw_shape_size(&in[0]);
    int rc = l->ops->infer != NULL ? l->ops->infer(l, in, &inner) : UW_OK;
    if (uw_device(k) != NULL && l->ops->processor_only) {
        rc = uw_error_set(&inner, UW_ERR_UNSUPPORTED, "has no GPU kernel yet");
    }
    if (rc == UW_OK) {
        l->out_n = uw_shape_size(&l->out);
        if (l->out_n == 0) {
            rc = uw_error_set(&inner, UW_ERR_TOOBIG, "its output %s does not fit 32 bits",
                              uw_shape_text(&l->out, text));
        }
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "layer '%s' (%s): %.180s", l->def->name, l->ops->name,
                            inner.text);
    }
    return UW_OK;
}

static void count_reader(struct uw_graph *g, uint32_t value, uint32_t reader)
{
    uint32_t base = uw_graph_base(g->layers, value);
    if (base != UW_VALUE_INPUT) {
        g->layers[base - 1].readers_n++;
        g->layers[base - 1].last_reader = (uint16_t)reader;
    }
}

static void count_readers(struct uw_graph *g)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        for (uint32_t k = 0; k < l->inputs_n && !l->view; k++) {
            count_reader(g, l->input[k], i);
        }
    }
    for (uint32_t h = 0; h < g->heads_n; h++) {
        count_reader(g, g->heads[h].value, g->layers_n);
        g->layers[g->heads[h].value - 1].consumers_n++;
    }
}

/* Mark the layers that the first loss does not need. */
static void find_auxiliary(struct uw_graph *g)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].auxiliary = i + 1 != g->heads[0].value;
    }
    for (uint32_t i = g->layers_n; i-- > 0;) {
        const struct uw_layer *l = &g->layers[i];
        for (uint32_t k = 0; k < l->inputs_n && !l->auxiliary; k++) {
            if (l->input[k] != UW_VALUE_INPUT) {
                g->layers[l->input[k] - 1].auxiliary = false;
            }
        }
    }
}

static int check_target(struct uw_graph *g, const struct uw_head *h, const struct uw_kernels *k,
                        struct uw_error *err)
{
    const struct uw_layer *l = &g->layers[h->value - 1];
    char out[UW_SHAPE_TEXT_BYTES];

    if (h->def->target == UW_TARGET_LABEL && h->n != l->out.c) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "layer '%s': its output is %s, a loss with labels wants one row of "
                            "logits: end with flatten and dense",
                            l->def->name, uw_shape_text(&l->out, out));
    }
    if (h->def->kind == UW_LOSS_CROSS_ENTROPY && h->def->target == UW_TARGET_LABEL) {
        return UW_OK;
    }
    if (uw_parts.elementwise == NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "this program has no loss but cross-entropy");
    }
    return uw_parts.elementwise->check(g, h, k, err);
}

static int resolve_losses(struct uw_graph *g, const struct uw_model_def *def,
                          const struct uw_kernels *k, struct uw_error *err)
{
    static const struct uw_loss_def cross_entropy = {.kind = UW_LOSS_CROSS_ENTROPY};
    const struct uw_loss_def *losses = def->losses != NULL ? def->losses : &cross_entropy;

    g->heads_n = def->losses != NULL ? def->losses_n : 1;
    if (g->heads_n == 0 || g->heads_n > UW_LOSSES_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "%u losses: needs 1 to %u",
                            (unsigned)g->heads_n, UW_LOSSES_MAX);
    }
    for (uint32_t i = 0; i < g->heads_n; i++) {
        struct uw_head *h = &g->heads[i];
        *h = (struct uw_head){.def = &losses[i], .value = g->layers_n};
        if (h->def->layer != NULL &&
            (uw_graph_resolve(g, h->def->layer, g->layers_n, &h->value) < 0 ||
             h->value == UW_VALUE_INPUT)) {
            return uw_error_set(err, UW_ERR_NOTFOUND, "the loss names layer '%s', there is none",
                                h->def->layer);
        }
        h->n = g->layers[h->value - 1].out_n;
        for (uint32_t j = 0; j < i; j++) {
            if (uw_graph_base(g->layers, g->heads[j].value) ==
                uw_graph_base(g->layers, h->value)) {
                return uw_error_set(err, UW_ERR_INVALID, "layer '%s' has two losses",
                                    g->layers[h->value - 1].def->name);
            }
        }
        int rc = check_target(g, h, k, err);
        if (rc < 0) {
            return rc;
        }
    }
    return UW_OK;
}

struct uw_shape uw_graph_input(const struct uw_model_def *def)
{
    return (struct uw_shape){def->in_channels, 1, def->in_h != 0 ? def->in_h : 1,
                             def->in_w != 0 ? def->in_w : 1,
                             def->in_h != 0 ? 3 : def->in_w != 0 ? 2 : 1};
}

static int check_definition(const struct uw_model_def *def, struct uw_shape *in,
                            struct uw_error *err)
{
    if (def == NULL || def->layers == NULL || def->layers_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "the model has no layers");
    }
    if (def->layers_n > UW_LAYERS_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG, "%u layers: at most %u are allowed",
                            (unsigned)def->layers_n, UW_LAYERS_MAX);
    }
    *in = uw_graph_input(def);
    if (def->in_channels == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "the model's input has 0 channels");
    }
    if (uw_shape_size(in) == 0) {
        return uw_error_set(err, UW_ERR_TOOBIG, "the model's input does not fit 32 bits");
    }
    return UW_OK;
}

bool uw_graph_is_head(const struct uw_graph *g, const struct uw_layer *l)
{
    for (uint32_t h = 0; h < g->heads_n; h++) {
        if (uw_graph_base(g->layers, g->heads[h].value) == l->index + 1) {
            return true;
        }
    }
    return false;
}

/* max(relu(x)) = relu(max(x)), with equal gradients. So a ReLU that only a max pool reads is done
 * by the pool on its smaller output; the pool's input is then free after the forward pass. */
static void fold_relus(struct uw_graph *g)
{
    for (uint32_t i = 1; i < g->layers_n; i++) {
        struct uw_layer *pool = &g->layers[i];
        struct uw_layer *relu = pool->input[0] != UW_VALUE_INPUT ? &g->layers[pool->input[0] - 1]
                                                                 : NULL;
        if (pool->ops->take_relu != NULL && relu != NULL && relu->def->kind == UW_LAYER_RELU &&
            relu->consumers_n == 1 && !uw_graph_is_head(g, relu)) {
            relu->view = true;
            relu->reads_y = false;
            pool->ops->take_relu(pool);
        }
    }
}

/* Find the outputs that reach a ReLU before another layer with weights. Goes from the last layer
 * to the first, since the readers of a layer come after it. */
static void find_feeding_relus(struct uw_graph *g)
{
    for (uint32_t i = g->layers_n; i-- > 0;) {
        const struct uw_layer *l = &g->layers[i];
        bool feeds = l->tensors_n == 0 && l->feeds_relu;
        switch (l->def->kind) {
        case UW_LAYER_RELU:
        case UW_LAYER_RELU6:
        case UW_LAYER_LEAKY_RELU:
            feeds = true;
            break;
        case UW_LAYER_BATCHNORM:
        case UW_LAYER_GROUPNORM:
        case UW_LAYER_LAYERNORM:
            feeds = l->feeds_relu;
            break;
        default:
            break;
        }
        for (uint32_t k = 0; k < l->inputs_n && feeds; k++) {
            if (l->input[k] != UW_VALUE_INPUT) {
                g->layers[l->input[k] - 1].feeds_relu = true;
            }
        }
    }
}

float uw_lora_scale(const struct uw_adapt *adapt)
{
    return adapt->lora_alpha != 0.0f ? adapt->lora_alpha / (float)adapt->lora_rank : 1.0f;
}

static const struct uw_layer_ops *ops_of(enum uw_layer_kind kind)
{
    return (uint32_t)kind < UW_LAYER_KINDS_N ? uw_parts.layer[kind] : NULL;
}

static int build_layer(struct uw_graph *g, const struct uw_model_config *config, uint32_t index,
                       struct uw_error *err)
{
    struct uw_layer *l = &g->layers[index];
    const struct uw_layer_def *def = &config->def->layers[index];

    *l = (struct uw_layer){.def = def, .ops = ops_of(def->kind), .index = index};
    int rc = uw_parts.checking != NULL ? uw_parts.checking->name(g, def, index, err) : UW_OK;
    if (rc < 0) {
        return rc;
    }
    if (l->ops == NULL) {
        bool known = def->kind != 0 && (uint32_t)def->kind < UW_LAYER_KINDS_N;
        return uw_error_set(err, known ? UW_ERR_UNSUPPORTED : UW_ERR_INVALID,
                            known ? "layer '%s': this program is linked without kind %d"
                                  : "layer '%s': unknown kind %d", def->name, (int)def->kind);
    }
    l->view = l->ops->view;
    l->reads_y = l->ops->reads_y;
    if (def->kind == UW_LAYER_DENSE && config->adapt.lora_rank != 0) {
        if (uw_parts.lora == NULL) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED, "linked without low-rank additions");
        }
        l->lora = true;
        l->geometry.lora_rank = config->adapt.lora_rank;
        l->geometry.lora_scale = uw_lora_scale(&config->adapt);
    }
    rc = resolve_inputs(g, l, err);
    return rc < 0 ? rc : infer_layer(g, config->kernels, l, err);
}

void uw_graph_undefer(struct uw_graph *g)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        g->layers[i].deferred = false;
        g->layers[i].normed_by = 0;
    }
}

int uw_graph_build(struct uw_graph *g, const struct uw_model_config *config,
                   struct uw_layer *layers, struct uw_error *err)
{
    const struct uw_model_def *def = config->def;
    struct uw_shape in;
    int rc = check_definition(def, &in, err);
    if (rc < 0) {
        return rc;
    }
    *g = (struct uw_graph){
        .layers = layers, .layers_n = def->layers_n, .in = in, .in_n = uw_shape_size(&in)};
    for (uint32_t i = 0; i < def->layers_n; i++) {
        rc = build_layer(g, config, i, err);
        if (rc < 0) {
            return rc;
        }
    }
    rc = resolve_losses(g, def, config->kernels, err);
    if (rc < 0) {
        return rc;
    }
    find_feeding_relus(g);
    fold_relus(g);
    if (uw_parts.fusing != NULL) {
        uw_parts.fusing->fold_relus(g, config->kernels);
    }
    count_readers(g);
    rc = uw_parts.checking != NULL ? uw_parts.checking->whole(g, err) : UW_OK;
    if (rc < 0) {
        return rc;
    }
    find_auxiliary(g);
    return UW_OK;
}
