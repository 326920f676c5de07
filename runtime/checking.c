/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of a definition beyond shapes. */
#include "graph.h"

#include "uwasa/parts.h"

#include <string.h>

/* Attention has a tensor "out_proj.weight"; a layer "<its name>.out_proj" would have it too. */
static bool tensors_collide(const struct uw_layer_def *attention, const struct uw_layer_def *other)
{
    size_t stem = strlen(attention->name);
    return attention->kind == UW_LAYER_ATTENTION &&
           strncmp(other->name, attention->name, stem) == 0 &&
           strcmp(other->name + stem, ".out_proj") == 0;
}

static int name(const struct uw_graph *g, const struct uw_layer_def *def, uint32_t index,
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
    if (uw_graph_resolve(g, def->name, index, &same) == UW_OK) {
        return uw_error_set(err, UW_ERR_INVALID,
                            same == UW_VALUE_INPUT
                                ? "layer %u: the name '%s' is reserved"
                                : "layer %u: the name '%s' is taken by an earlier layer",
                            (unsigned)index + 1, def->name);
    }
    for (uint32_t i = 0; i < index; i++) {
        const struct uw_layer_def *earlier = g->layers[i].def;
        if (tensors_collide(earlier, def) || tensors_collide(def, earlier)) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "layer %u: '%.80s' and '%.80s' would have tensors of one name",
                                (unsigned)index + 1, earlier->name, def->name);
        }
    }
    return UW_OK;
}

static int check_loss(const struct uw_loss_def *def, const char *name, struct uw_error *err)
{
    if (!(def->weight >= 0.0f) || !(def->label_smoothing >= 0.0f && def->label_smoothing < 1.0f) ||
        !(def->delta >= 0.0f)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "loss of layer '%s': weight and delta need 0 or more, label smoothing "
                            "0 to below 1", name);
    }
    return UW_OK;
}

/* Values for all samples: some layers cannot repeat them for each, and no loss is of one. */
static int check_shared(const struct uw_graph *g, const struct uw_layer *l, struct uw_error *err)
{
    if (l->shared_inputs != 0 && !l->shared && !l->ops->repeats) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "layer '%s' (%s): an input is a parameter, the others are not",
                            l->def->name, l->ops->name);
    }
    for (uint32_t h = 0; h < g->heads_n && l->shared; h++) {
        if (g->heads[h].value == l->index + 1) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "the loss of layer '%s', which does not depend on the sample",
                                l->def->name);
        }
    }
    return UW_OK;
}

/* Every output must be read: a mistyped "inputs" would otherwise drop a branch silently. */
static int whole(const struct uw_graph *g, struct uw_error *err)
{
    for (uint32_t i = 0; i < g->layers_n; i++) {
        if (g->layers[i].consumers_n == 0) {
            return uw_error_set(err, UW_ERR_INVALID, "layer '%s': no layer reads its output",
                                g->layers[i].def->name);
        }
        int rc = check_shared(g, &g->layers[i], err);
        if (rc < 0) {
            return rc;
        }
    }
    for (uint32_t h = 0; h < g->heads_n; h++) {
        int rc = check_loss(g->heads[h].def, g->layers[g->heads[h].value - 1].def->name, err);
        if (rc < 0) {
            return rc;
        }
    }
    return UW_OK;
}

const struct uw_checking uw_checking = {.name = name, .whole = whole};
