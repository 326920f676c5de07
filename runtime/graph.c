/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include <string.h>

uint32_t uw_shape_size(const struct uw_shape *s)
{
    uint64_t n = (uint64_t)s->c * s->h;
    if (n > UINT32_MAX || n * s->w > UINT32_MAX) {
        return 0;
    }
    return (uint32_t)(n * s->w);
}

uint32_t uw_window_size(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t pad)
{
    uint64_t padded = (uint64_t)in + 2u * (uint64_t)pad;
    if (kernel == 0 || stride == 0 || padded < kernel) {
        return 0;
    }
    uint64_t out = (padded - kernel) / stride + 1;
    return out > UINT32_MAX ? 0 : (uint32_t)out;
}

uint32_t uw_graph_base(const struct uw_layer *layers, uint32_t value)
{
    while (value != UW_VALUE_INPUT && layers[value - 1].ops->view) {
        value = layers[value - 1].input[0];
    }
    return value;
}

static const struct uw_layer_ops *ops_of(enum uw_layer_kind kind)
{
    switch (kind) {
    case UW_LAYER_CONV2D:
        return &uw_layer_conv2d;
    case UW_LAYER_DENSE:
        return &uw_layer_dense;
    case UW_LAYER_MAXPOOL2D:
        return &uw_layer_maxpool2d;
    case UW_LAYER_RELU:
        return &uw_layer_relu;
    case UW_LAYER_FLATTEN:
        return &uw_layer_flatten;
    case UW_LAYER_ADD:
        return &uw_layer_add;
    }
    return NULL;
}

static int resolve_name(const struct uw_graph *g, const char *name, uint32_t before,
                        uint32_t *value)
{
    if (strcmp(name, "input") == 0) {
        *value = UW_VALUE_INPUT;
        return UW_OK;
    }
    for (uint32_t i = 0; i < before; i++) {
        if (strcmp(g->layers[i].def->name, name) == 0) {
            *value = i + 1;
            return UW_OK;
        }
    }
    return UW_ERR_NOTFOUND;
}

static int check_name(const struct uw_graph *g, const struct uw_layer_def *def, uint32_t index,
                      struct uw_error *err)
{
    uint32_t same;

    if (def->name == NULL || def->name[0] == '\0') {
        return uw_error_set(err, UW_ERR_INVALID, "layer %u has no name", (unsigned)index + 1);
    }
    if (strlen(def->name) > UW_LAYER_NAME_MAX) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            "layer %u: the name '%.20s...' is longer than %u bytes",
                            (unsigned)index + 1, def->name, UW_LAYER_NAME_MAX);
    }
    if (strncmp(def->name, "optimizer.", 10) == 0) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "layer %u: names that begin with 'optimizer.' are reserved",
                            (unsigned)index + 1);
    }
    if (resolve_name(g, def->name, index, &same) == UW_OK) {
        return uw_error_set(err, UW_ERR_INVALID,
                            same == UW_VALUE_INPUT
                                ? "layer %u: the name '%s' is reserved"
                                : "layer %u: the name '%s' is taken by an earlier layer",
                            (unsigned)index + 1, def->name);
    }
    return UW_OK;
}

static int resolve_inputs(const struct uw_graph *g, struct uw_layer *l, struct uw_error *err)
{
    const struct uw_layer_def *def = l->def;

    if (def->inputs[0] == NULL) {
        l->input[0] = l->index; /* the value of the layer before, or the model's input */
        l->inputs_n = 1;
    } else {
        for (uint32_t k = 0; k < UW_LAYER_INPUTS_MAX && def->inputs[k] != NULL; k++) {
            if (resolve_name(g, def->inputs[k], l->index, &l->input[k]) < 0) {
                return uw_error_set(err, UW_ERR_NOTFOUND,
                                    "layer '%s': input '%s' is no earlier layer (and not "
                                    "\"input\")",
                                    def->name, def->inputs[k]);
            }
            l->inputs_n = k + 1;
        }
    }
    if (l->inputs_n < l->ops->inputs_min || l->inputs_n > l->ops->inputs_max) {
        return uw_error_set(err, UW_ERR_INVALID, "layer '%s' (%s): %u inputs, needs %u to %u",
                            def->name, l->ops->name, (unsigned)l->inputs_n,
                            (unsigned)l->ops->inputs_min, (unsigned)l->ops->inputs_max);
    }
    return UW_OK;
}

static int infer_layer(struct uw_graph *g, struct uw_layer *l, struct uw_error *err)
{
    struct uw_shape in[UW_LAYER_INPUTS_MAX];
    struct uw_error inner = {0};

    for (uint32_t k = 0; k < l->inputs_n; k++) {
        in[k] = g->in;
        if (l->input[k] != UW_VALUE_INPUT) {
            in[k] = g->layers[l->input[k] - 1].out;
            g->layers[l->input[k] - 1].consumers_n++;
        }
    }
    l->in = in[0];
    l->in_n = uw_shape_size(&in[0]);
    int rc = l->ops->infer(l, in, &inner);
    if (rc == UW_OK) {
        l->out_n = uw_shape_size(&l->out);
        if (l->out_n == 0) {
            rc = uw_error_set(&inner, UW_ERR_TOOBIG, "its output %ux%ux%u does not fit 32 bits",
                              (unsigned)l->out.c, (unsigned)l->out.h, (unsigned)l->out.w);
        }
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "layer '%s' (%s): %.180s", l->def->name, l->ops->name,
                            inner.text);
    }
    return UW_OK;
}

static int count_parameters(struct uw_graph *g, struct uw_layer *l, struct uw_error *err)
{
    l->segment = g->segments_n;
    l->needs_gradient = l->tensors_n > 0;
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        if (l->input[k] != UW_VALUE_INPUT && g->layers[l->input[k] - 1].needs_gradient) {
            l->needs_gradient = true;
        }
    }
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        if (l->tensor[t].size_n > UINT32_MAX - g->parameters_n) {
            return uw_error_set(err, UW_ERR_TOOBIG,
                                "layer '%s': more than 2^32 - 1 parameters in all", l->def->name);
        }
        g->parameters_n += l->tensor[t].size_n;
        g->names_bytes += strlen(l->def->name) + strlen(l->tensor[t].suffix) + 2;
        g->segments_n++;
    }
    return UW_OK;
}

static void count_reader(struct uw_graph *g, uint32_t value, uint32_t reader)
{
    uint32_t base = uw_graph_base(g->layers, value);
    if (base != UW_VALUE_INPUT) {
        g->layers[base - 1].readers_n++;
        g->layers[base - 1].last_reader = reader;
    }
}

/* Every output must be read, or a mistyped "inputs" would silently cut a branch off. */
static int count_readers(struct uw_graph *g, struct uw_error *err)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        for (uint32_t k = 0; k < l->inputs_n && !l->ops->view; k++) {
            count_reader(g, l->input[k], i);
        }
    }
    count_reader(g, g->layers_n, g->layers_n);
    for (uint32_t i = 0; i + 1 < g->layers_n; i++) {
        if (g->layers[i].consumers_n == 0) {
            return uw_error_set(err, UW_ERR_INVALID, "layer '%s': no layer reads its output",
                                g->layers[i].def->name);
        }
    }
    return UW_OK;
}

static int check_definition(const struct uw_model_def *def, struct uw_shape *in,
                            struct uw_error *err)
{
    if (def == NULL || def->layers == NULL || def->layers_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "the model has no layers");
    }
    *in = (struct uw_shape){def->in_channels, def->in_h != 0 ? def->in_h : 1,
                            def->in_w != 0 ? def->in_w : 1};
    if (def->in_channels == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "the model's input has 0 channels");
    }
    if (uw_shape_size(in) == 0) {
        return uw_error_set(err, UW_ERR_TOOBIG, "the model's input does not fit 32 bits");
    }
    return UW_OK;
}

static int build_layer(struct uw_graph *g, const struct uw_layer_def *def, uint32_t index,
                       struct uw_error *err)
{
    struct uw_layer *l = &g->layers[index];

    *l = (struct uw_layer){.def = def, .ops = ops_of(def->kind), .index = index};
    int rc = check_name(g, def, index, err);
    if (rc < 0) {
        return rc;
    }
    if (l->ops == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "layer '%s': unknown kind %d", def->name,
                            (int)def->kind);
    }
    rc = resolve_inputs(g, l, err);
    if (rc == UW_OK) {
        rc = infer_layer(g, l, err);
    }
    return rc == UW_OK ? count_parameters(g, l, err) : rc;
}

int uw_graph_build(struct uw_graph *g, const struct uw_model_def *def, struct uw_layer *layers,
                   struct uw_error *err)
{
    struct uw_shape in;
    int rc = check_definition(def, &in, err);
    if (rc < 0) {
        return rc;
    }
    *g = (struct uw_graph){
        .layers = layers, .layers_n = def->layers_n, .in = in, .in_n = uw_shape_size(&in)};
    for (uint32_t i = 0; i < def->layers_n; i++) {
        rc = build_layer(g, &def->layers[i], i, err);
        if (rc < 0) {
            return rc;
        }
    }
    const struct uw_layer *last = &g->layers[g->layers_n - 1];
    if (last->out.h != 1 || last->out.w != 1) {
        return uw_error_set(err, UW_ERR_SHAPE,
                            "layer '%s': the last output is %ux%ux%u, the loss wants one row of "
                            "logits: end with flatten and dense",
                            last->def->name, (unsigned)last->out.c, (unsigned)last->out.h,
                            (unsigned)last->out.w);
    }
    g->classes = last->out.c;
    return count_readers(g, err);
}
