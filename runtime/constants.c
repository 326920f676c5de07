/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters that lie in constant memory. */
#include "graph.h"

#include "uwasa/parts.h"

#include <string.h>

static const struct uw_constant *constant_of(const struct uw_model_config *config,
                                             const char *layer, const char *suffix)
{
    size_t stem = strlen(layer);

    for (uint32_t i = 0; i < config->constants_n; i++) {
        const char *name = config->constants[i].name;
        if (strncmp(name, layer, stem) == 0 && name[stem] == '.' &&
            strcmp(name + stem + 1, suffix) == 0) {
            return &config->constants[i];
        }
    }
    return NULL;
}

/* A layer that never changes and whose tensors are all among the constants stays where they are.
 * Batch norm changes, by its running statistics, unless it is frozen. */
static int find(struct uw_layer *l, const struct uw_model_config *config, struct uw_error *err)
{
    bool inference = config->mode == UW_PLAN_INFERENCE;
    bool all = l->tensors_n > 0 && (l->trained == 0 || inference);

    for (uint32_t t = 0; t < l->tensors_n; t++) {
        struct uw_layer_tensor tensor = {0};
        l->ops->tensor(l, t, &tensor);
        const struct uw_constant *c = constant_of(config, l->def->name, tensor.suffix);
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

static const struct uw_constant *tensor_of(const struct uw_layer *l, uint32_t t,
                                           const struct uw_model_config *config)
{
    struct uw_layer_tensor tensor = {0};
    l->ops->tensor(l, t, &tensor);
    return constant_of(config, l->def->name, tensor.suffix);
}

static void use(struct uw_layer *l, const struct uw_model_config *config)
{
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        /* Nothing writes to tensors that are not trained. */
        l->param[t] = (float *)(uintptr_t)tensor_of(l, t, config)->data;
    }
}

static void copy(const struct uw_layer *l, const struct uw_model_config *config)
{
    for (uint32_t t = 0; t < l->tensors_n; t++) {
        const struct uw_constant *c = tensor_of(l, t, config);
        if (c != NULL) {
            memcpy(l->param[t], c->data, (size_t)c->n * sizeof *c->data);
        }
    }
}

const struct uw_constants uw_constants = {.find = find, .use = use, .copy = copy};
