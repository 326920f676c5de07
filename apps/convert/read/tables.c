/* SPDX-License-Identifier: Apache-2.0
 *
 * The imported layers as a model: names, inputs, tensors, losses. */
#include "read.h"

#include "fuse/fuse.h"

#include <string.h>

/* Let a recurrent layer of which only the last step is read output only that step. */
static void fold_last_steps(struct uw_import *im)
{
    for (uint32_t i = 0; i < im->layers_n; i++) {
        struct uw_import_layer *s = im->layer[i];
        uint32_t users = 0;
        if (!s->needed || s->def.kind != UW_LAYER_SLICE || s->input[0] == 0) {
            continue;
        }
        struct uw_import_layer *r = im->layer[s->input[0] - 1];
        if (!uw_read_is_recurrent(r->def.kind) || r->def.recurrent.last ||
            r->def.recurrent.reverse || s->def.slice.axis != 0 || s->def.slice.length != 1 ||
            s->def.slice.start + 1 != (int32_t)r->dim[0]) {
            continue;
        }
        for (uint32_t j = 0; j < im->layers_n; j++) {
            for (uint32_t k = 0; k < im->layer[j]->inputs_n && im->layer[j]->needed; k++) {
                users += im->layer[j]->input[k] == s->input[0] ? 1 : 0;
            }
        }
        if (users == 1) {
            r->def.recurrent.last = true;
            uw_import_dims(r, 1, r->dim[1], 1, 1);
            s->def.kind = UW_LAYER_FLATTEN; /* of one axis: gone below */
        }
    }
}

/* Skip a flatten or reshape that changes nothing. */
static uint32_t step_over(const struct uw_import *im, uint32_t layer)
{
    while (layer != 0) {
        const struct uw_import_layer *l = im->layer[layer - 1];
        bool view = l->def.kind == UW_LAYER_FLATTEN || l->def.kind == UW_LAYER_RESHAPE;
        uint32_t below = l->input[0];
        uint32_t rank = below != 0 ? im->layer[below - 1]->rank : im->input->view.rank;
        const uint64_t *dim = below != 0 ? im->layer[below - 1]->dim : im->input->view.dim;
        if (!view || rank != l->rank || memcmp(dim, l->dim, rank * sizeof *dim) != 0) {
            break;
        }
        layer = below;
    }
    return layer;
}

static void set_inputs(struct uw_import *im, struct uw_import_layer *l, uint32_t previous)
{
    if (l->inputs_n == 1 && l->input[0] == previous) {
        return;
    }
    for (uint32_t k = 0; k < l->inputs_n; k++) {
        l->def.inputs[k] = l->input[k] != 0 ? im->layer[l->input[k] - 1]->def.name : "input";
    }
}

/* What PyTorch calls the tensor. Constants of its code are none of its state_dict. */
static int set_torch(struct uw_import *im, const struct uw_import_layer *l,
                     const struct uw_import_param *from, struct uw_convert_tensor *t)
{
    struct uw_convert_part *part = uw_pool_take(im->pool, from->torch_n, sizeof *part);
    if (part == NULL) {
        return uw_import_nomem(im);
    }
    for (uint32_t i = 0; i < from->torch_n; i++) {
        part[i] = from->torch[i];
        part[i].rows = part[i].rows != 0 ? part[i].rows : from->dim[0];
    }
    t->torch = part;
    t->torch_n = from->torch_n;
    t->aside = t->torch_n == 0 && (uw_read_is_index(l) || (l->def.kind == UW_LAYER_PARAMETER &&
                                                           l->def.parameter.constant));
    return UW_OK;
}

static int build_tables(struct uw_import *im, struct uw_convert_model *m)
{
    uint32_t layers = 0;
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < im->layers_n; i++) {
        for (uint32_t p = 0; im->layer[i]->needed && p < UW_PARAMS_MAX; p++) {
            tensors += im->layer[i]->param[p].suffix != NULL ? 1 : 0;
        }
        layers += im->layer[i]->needed ? 1 : 0;
    }
    struct uw_layer_def *def = uw_pool_take(im->pool, layers, sizeof *def);
    struct uw_convert_tensor *t = uw_pool_take(im->pool, tensors, sizeof *t);
    if (def == NULL || t == NULL) {
        return uw_import_nomem(im);
    }
    m->def.layers = def;
    m->tensors = t;
    uint32_t previous = 0;
    for (uint32_t i = 0; i < im->layers_n; i++) {
        struct uw_import_layer *l = im->layer[i];
        if (!l->needed) {
            continue;
        }
        set_inputs(im, l, previous);
        previous = i + 1;
        for (uint32_t p = 0; p < UW_PARAMS_MAX; p++) {
            const struct uw_import_param *from = &l->param[p];
            if (from->suffix == NULL) {
                continue;
            }
            t->name = from->suffix[0] != '\0'
                          ? uw_pool_format(im->pool, "%s.%s", l->def.name, from->suffix)
                          : l->def.name;
            if (t->name == NULL) {
                return uw_import_nomem(im);
            }
            t->rank = from->rank;
            memcpy(t->dim, from->dim, sizeof t->dim);
            t->data = from->data;
            t->source = from->source;
            if (set_torch(im, l, from, t) < 0) {
                return im->err->code;
            }
            t++;
            m->tensors_n++;
        }
        def[m->def.layers_n++] = l->def;
    }
    return UW_OK;
}

/* Of all outputs those after the first are auxiliary heads. What the loss of a single output is,
 * its data decides; what those of chosen ones are, --loss: a squared error stands in. */
static int set_losses(struct uw_import *im, struct uw_convert_model *m,
                      struct uw_value *const *outputs, uint32_t outputs_n)
{
    if (outputs_n == 1) {
        return UW_OK;
    }
    struct uw_loss_def *loss = uw_pool_take(im->pool, outputs_n, sizeof *loss);
    if (loss == NULL) {
        return uw_import_nomem(im);
    }
    bool chosen = im->options->output != NULL;
    if (!chosen) {
        uw_import_note(im, "the outputs after the first are taken for auxiliary heads, weight 0.3");
    }
    for (uint32_t i = 0, first = 0; i < outputs_n; i++) {
        loss[i].layer = im->layer[outputs[i]->view.layer - 1]->def.name;
        if (chosen) {
            loss[i].kind = UW_LOSS_MSE;
            loss[i].target = UW_TARGET_VALUES;
            loss[i].first = first;
            first += (uint32_t)outputs[i]->view.n;
        } else {
            loss[i].weight = i == 0 ? 1.0f : 0.3f;
        }
    }
    m->def.losses = loss;
    m->def.losses_n = outputs_n;
    return UW_OK;
}

int uw_read_tables(struct uw_import *im, struct uw_convert_model *m,
                     struct uw_value *const *outputs, uint32_t outputs_n)
{
    uint32_t layers[UW_LOSSES_MAX] = {0};
    for (uint32_t i = 0; i < outputs_n; i++) {
        layers[i] = outputs[i]->view.layer;
    }
    uw_read_module_names(im);
    int rc = im->options->unfused ? UW_OK : uw_fuse_all(im, layers, outputs_n);
    if (rc < 0) {
        return rc;
    }
    uw_import_need(im, layers, outputs_n);
    fold_last_steps(im);
    for (uint32_t i = 0; i < im->layers_n; i++) {
        for (uint32_t k = 0; k < im->layer[i]->inputs_n; k++) {
            im->layer[i]->input[k] = step_over(im, im->layer[i]->input[k]);
        }
    }
    for (uint32_t i = 0; i < outputs_n; i++) {
        uint32_t layer = step_over(im, layers[i]);
        layers[i] = layer != 0 ? layer : layers[i];
        outputs[i]->view.layer = layers[i];
    }
    uw_import_need(im, layers, outputs_n);
    rc = uw_read_names(im);
    rc = rc < 0 ? rc : uw_read_recurrent_names(im);
    rc = rc < 0 ? rc : uw_read_torch_names(im);
    rc = rc < 0 ? rc : uw_read_trained(im);
    rc = rc < 0 ? rc : uw_read_origins(im);
    rc = rc < 0 ? rc : build_tables(im, m);
    return rc < 0 ? rc : set_losses(im, m, outputs, outputs_n);
}
