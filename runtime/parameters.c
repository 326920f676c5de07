/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include "uwasa/parts.h"

#include <string.h>

uint32_t uw_layer_trained_n(const struct uw_layer *l)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
        n += (l->trained & 1u << t) != 0 ? uw_tensor_size(&tensor) : 0;
    }
    return n;
}

static bool tensor_is_trained(const struct uw_layer *l, const struct uw_adapt *adapt, uint32_t t)
{
    const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
    if (tensor.statistic || l->def->frozen) {
        return false;
    }
    if (adapt->lora_rank != 0) {
        return l->lora && t + 2 >= l->tensors_n;
    }
    return !adapt->bias_only || tensor.bias;
}

/* Choose the trained tensors and the layers that need gradients for them. */
static int choose_trained(struct uw_graph *g, const struct uw_adapt *adapt, struct uw_error *err)
{
    uint32_t left = adapt->last_n != 0 ? adapt->last_n : UINT32_MAX;

    for (uint32_t i = g->layers_n; i-- > 0 && left > 0;) {
        struct uw_layer *l = &g->layers[i];
        for (uint32_t t = 0; t < l->tensors_n; t++) {
            l->trained = (uint8_t)(l->trained | (uint32_t)tensor_is_trained(l, adapt, t) << t);
        }
        left -= l->tensors_n > 0 ? 1 : 0;
    }
    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        bool below = false;
        for (uint32_t k = 0; k < l->inputs_n; k++) {
            below = below || (l->input[k] != UW_VALUE_INPUT &&
                              g->layers[l->input[k] - 1].needs_gradient);
        }
        if (below && !l->view && l->ops->bw_input == NULL) {
            return uw_error_set(err, UW_ERR_UNSUPPORTED,
                                "layer '%s' (%s): no gradient reaches the trained layers below",
                                l->def->name, l->ops->name);
        }
        l->passes_down = below;
        l->needs_gradient = below || l->trained != 0;
    }
    return UW_OK;
}

bool uw_layer_trains_weights(const struct uw_layer *l)
{
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
        if ((l->trained & 1u << t) != 0 && !tensor.bias) {
            return true;
        }
    }
    return false;
}

static int count_tensor(struct uw_graph *g, const struct uw_layer *l, uint32_t t,
                        struct uw_error *err)
{
    const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
    uint32_t n = uw_tensor_size(&tensor);
    uint32_t weights = tensor.statistic ? 0 : n;

    if (n == 0 || n > UINT32_MAX - g->parameters_n - g->constants_n) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            n == 0 ? "layer '%s': its %s does not fit 32 bits"
                                   : "layer '%s': %s: more than 2^32 - 1 parameters in all",
                            l->def->name, tensor.suffix);
    }
    g->weights_n += weights;
    g->auxiliary_n += l->auxiliary ? weights : 0;
    g->trainable_n += (l->trained & 1u << t) != 0 ? n : 0;
    if (l->constant) {
        g->constants_n += n;
        return UW_OK;
    }
    g->parameters_n += n;
    g->names_bytes += strlen(l->def->name) + strlen(tensor.suffix) + 2;
    g->segments_n++;
    return UW_OK;
}

int uw_graph_parameters(struct uw_graph *g, const struct uw_model_config *config,
                        struct uw_error *err)
{
    if (config->constants_n != 0 && uw_parts.constants == NULL) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED, "this program uses no constants");
    }
    int rc = choose_trained(g, &config->adapt, err);

    for (uint32_t i = 0; i < g->layers_n && rc == UW_OK; i++) {
        struct uw_layer *l = &g->layers[i];
        l->segment = g->segments_n;
        rc = config->constants_n != 0 ? uw_parts.constants->find(l, config, err) : UW_OK;
        for (uint32_t t = 0; t < l->tensors_n && rc == UW_OK; t++) {
            rc = count_tensor(g, l, t, err);
        }
    }
    return rc;
}

/* ---- parameters in constant memory ---- */

/* The constant for tensor t of the layer; NULL: none. */
static const struct uw_constant *constant_of(const struct uw_model_config *config,
                                             const struct uw_layer *l, uint32_t t)
{
    const char *layer = l->def->name, *suffix = l->ops->tensor(l, t).suffix;
    size_t stem = strlen(layer);

    for (uint32_t i = 0; i < config->constants_n; i++) {
        const char *name = config->constants[i].name;
        if (strncmp(name, layer, stem) == 0 && name[stem] == (suffix[0] != '\0' ? '.' : '\0') &&
            (suffix[0] == '\0' || strcmp(name + stem + 1, suffix) == 0)) {
            return &config->constants[i];
        }
    }
    return NULL;
}

/* A layer that never changes uses the constants in place if they contain all its tensors. Batch
 * norm changes its running statistics unless it is frozen. */
static int find(struct uw_layer *l, const struct uw_model_config *config, struct uw_error *err)
{
    bool inference = config->mode == UW_PLAN_INFERENCE;
    bool all = l->tensors_n > 0 && (l->trained == 0 || inference);

    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_layer_tensor tensor = l->ops->tensor(l, t);
        const struct uw_constant *c = constant_of(config, l, t);
        all = all && c != NULL && (!tensor.statistic || l->def->frozen || inference);
        if (c != NULL && c->n != uw_tensor_size(&tensor)) {
            return uw_error_set(err, UW_ERR_MISMATCH,
                                "constant %s has %u floats, the model needs %u", c->name,
                                (unsigned)c->n, (unsigned)uw_tensor_size(&tensor));
        }
    }
    l->constant = all;
    return UW_OK;
}

static void use(struct uw_layer *l, const struct uw_model_config *config)
{
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        /* Nothing writes to tensors that are not trained. */
        l->param[t] = (float *)(uintptr_t)constant_of(config, l, t)->data;
    }
}

static void copy(const struct uw_layer *l, const struct uw_model_config *config)
{
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_constant *c = constant_of(config, l, t);
        if (c != NULL) {
            memcpy(l->param[t], c->data, (size_t)c->n * sizeof *c->data);
        }
    }
}

const struct uw_constants uw_constants = {.find = find, .use = use, .copy = copy};
