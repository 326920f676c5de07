/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch calls the weights: a module has all layers and directions of nn.LSTM, nn.GRU or
 * nn.RNN, here each of them is a layer of its own; what several modules have, as a tied weight or
 * one that was equal when it was exported, is once in the file. */
#include "read.h"

#include <string.h>

/* The older exporter leaves out of a node's name what is no call, as nn.ModuleDict; names of the
 * weights, where they are not folded, have all of it. Returns the only module that ends like this,
 * with a dot behind it; NULL: there is none, or several. */
static const char *whole_module(struct uw_import *im, const char *path)
{
    static const char weight[] = "weight_ih_l0";
    const char *found = NULL;
    size_t tail = sizeof weight - 1, end = strlen(path);
    uint32_t found_n = 0;
    for (uint32_t i = 0; i < im->graph.initializers_n && end > 0; i++) {
        const char *name = im->graph.initializer[i].name;
        size_t n = strlen(name), before = n - tail;
        if (n > tail + end && strcmp(name + before, weight) == 0 && name[before - 1] == '.' &&
            strncmp(name + before - 1 - end, path, end) == 0 &&
            (before - 1 == end || name[before - 2 - end] == '.')) {
            found = uw_pool_text(im->pool, name, before);
            found_n++;
        }
    }
    return found_n == 1 ? found : NULL;
}

/* The module in front of the node, with a dot behind it; "" for the outermost; NULL: not told. */
static const char *module_of(struct uw_import *im, const struct uw_onnx_node *n)
{
    char path[UW_READ_MODULE_BYTES];
    size_t length;
    if (n == NULL || n->module == NULL) {
        return NULL;
    }
    if (n->name[0] == '/' && n->module[0] != '[') {
        uw_read_module(n->name, path);
        length = strlen(path);
        const char *whole = whole_module(im, path);
        if (whole != NULL) {
            return whole;
        }
    } else {                        /* "['', 'net', 'net.lstm'" */
        const char *end = strrchr(n->module, '\''), *begin = end;
        while (begin != NULL && begin > n->module && begin[-1] != '\'') {
            begin--;
        }
        length = begin != NULL ? (size_t)(end - begin) : sizeof path;
        if (begin == NULL || begin == n->module || length >= sizeof path) {
            return NULL;
        }
        memcpy(path, begin, length);
        path[length] = '\0';
    }
    return uw_pool_format(im->pool, "%s%s", path, length > 0 ? "." : "");
}

/* The node's number among those of the module, and what it must read: the features of the one
 * before. *features 0: the first reads anything. */
static uint32_t level_of(const struct uw_import *im, uint32_t at, uint64_t *features)
{
    const struct uw_import_layer *l = im->layer[at];
    const struct uw_onnx_node *last = NULL;
    uint32_t level = 0;
    *features = 0;
    for (uint32_t i = 0; i < at; i++) {
        const struct uw_import_layer *o = im->layer[i];
        if (o->def.kind != l->def.kind || o->node == l->node || o->torch_module == NULL ||
            strcmp(o->torch_module, l->torch_module) != 0) {
            continue;
        }
        level += o->node != last ? 1 : 0;
        *features = (o->node == last ? *features : 0) + o->def.recurrent.hidden;
        last = o->node;
    }
    return level;
}

static int name_recurrent(struct uw_import *im, struct uw_import_layer *l, uint32_t level)
{
    for (uint32_t i = 0; i < UW_PARAMS_MAX; i++) {
        struct uw_import_param *p = &l->param[i];
        if (p->suffix == NULL) {
            continue;
        }
        const char *name = uw_pool_format(im->pool, "%s%s_l%u%s", l->torch_module, p->suffix,
                                          (unsigned)level,
                                          l->def.recurrent.reverse ? "_reverse" : "");
        if (name == NULL) {
            return uw_import_nomem(im);
        }
        p->torch[0] = (struct uw_convert_part){.name = name, .rank = p->rank};
        memcpy(p->torch[0].dim, p->dim, p->rank * sizeof p->dim[0]);
        p->torch_n = 1;
    }
    return UW_OK;
}

int uw_read_recurrent_names(struct uw_import *im)
{
    for (uint32_t i = 0; i < im->layers_n; i++) {
        struct uw_import_layer *l = im->layer[i];
        uint64_t features;
        if (!uw_read_is_recurrent(l->def.kind)) {
            continue;
        }
        l->torch_module = module_of(im, l->node);
        if (l->torch_module == NULL) {
            continue;
        }
        uint32_t level = level_of(im, i, &features);
        if ((features == 0 || features == l->param[0].dim[1]) &&
            name_recurrent(im, l, level) < 0) {
            return im->err->code;
        }
    }
    return UW_OK;
}

/* ---- parameters that several modules have ---- */

/* The parameter of the node's module, "layers.1.norm.weight", that the file has once as another
 * module's, "layers.0.norm.weight"; NULL: none. */
static const char *twin_of(struct uw_import *im, const char *module, const char *origin)
{
    for (const char *tail = origin + strlen(origin); tail > origin; tail--) {
        const char *name = tail[-1] == '.' ? uw_pool_format(im->pool, "%s%s", module, tail) : NULL;
        if (name != NULL && uw_onnx_is_parameter(&im->graph, name)) {
            return uw_names_slot(im->graph.parameters, name)->at != 1 ? name : NULL;
        }
    }
    return NULL;
}

/* Name a weight that has no name in the file, as the exporter has transposed it, and a bias of
 * zeros that it left out: "m.in_proj_bias" beside "m.in_proj_weight". */
static void name_lost(struct uw_import *im, const char *module, struct uw_import_layer *l,
                      struct uw_import_param *p)
{
    static const char weight[] = "weight";
    const struct uw_import_param *first = &l->param[0];
    const char *beside = p != first && first->torch_n == 1 ? first->torch[0].name : "";
    size_t n = strlen(beside), tail = sizeof weight - 1;
    bool ends = n > tail && strcmp(beside + n - tail, weight) == 0;
    const char *name = ends ? uw_pool_format(im->pool, "%.*s%s", (int)(n - tail), beside, p->suffix)
                            : uw_pool_format(im->pool, "%s%s", module, p->suffix);
    if (p == first && p->rank == 2 && p->dim[0] == 3 * p->dim[1] && name != NULL &&
        !uw_onnx_is_parameter(&im->graph, name)) {
        name = uw_pool_format(im->pool, "%sin_proj_weight", module);
    }
    if (name != NULL && uw_onnx_is_parameter(&im->graph, name)) {
        p->torch[0] = (struct uw_convert_part){.name = name, .rank = p->rank};
        memcpy(p->torch[0].dim, p->dim, p->rank * sizeof p->dim[0]);
        p->torch_n = 1;
    }
}

void uw_read_module_names(struct uw_import *im)
{
    for (uint32_t i = 0; i < im->layers_n && im->graph.parameters != NULL; i++) {
        struct uw_import_layer *l = im->layer[i];
        const char *module = module_of(im, l->node);
        for (uint32_t k = 0; k < UW_PARAMS_MAX && module != NULL; k++) {
            struct uw_import_param *p = &l->param[k];
            const char *twin = p->torch_n == 1 ? twin_of(im, module, p->torch[0].name) : NULL;
            if (twin != NULL) {
                p->torch[0].name = twin;
            } else if (p->torch_n == 0 && p->suffix != NULL && p->suffix[0] != '\0' &&
                       p->folded_from == NULL && !uw_read_is_index(l)) {
                name_lost(im, module, l, p);
            }
        }
    }
}

/* ---- of the tensors of the model ---- */

static bool claim(const struct uw_names *taken, const char *name)
{
    struct uw_name *slot = uw_names_slot(taken, name);
    bool first = slot->name == NULL;
    slot->name = name;
    return first;
}

/* A parameter that no tensor has so far is another name of the one that its module reads. */
static int add_tied(struct uw_import *im, const struct uw_names *taken)
{
    const struct uw_onnx_graph *g = &im->graph;
    for (uint32_t i = 0; i < g->parameters_n; i++) {
        const char *name = g->parameter[i];
        if (uw_names_slot(taken, name)->name != NULL) {
            continue;
        }
        const char *file = uw_names_slot(g->parameters, name)->at == 1 ? name
                                                                       : uw_read_tied(im, name);
        for (uint32_t k = 0; k < im->layers_n * UW_PARAMS_MAX && file != NULL; k++) {
            struct uw_import_layer *l = im->layer[k / UW_PARAMS_MAX];
            struct uw_import_param *p = &l->param[k % UW_PARAMS_MAX];
            if (l->needed && p->torch_n > 0 && p->torch_n < UW_CONVERT_PARTS_MAX &&
                p->origin != NULL && strcmp(p->origin, file) == 0) {
                p->torch[p->torch_n] = p->torch[0];
                p->torch[p->torch_n++].name = name;
                claim(taken, name);
                break;
            }
        }
    }
    return UW_OK;
}

int uw_read_torch_names(struct uw_import *im)
{
    struct uw_names taken;
    if (uw_names_init(&taken, im->pool, (uint64_t)im->layers_n * UW_PARAMS_MAX *
                                                UW_CONVERT_PARTS_MAX +
                                            im->graph.parameters_n) < 0) {
        return uw_import_nomem(im);
    }
    for (uint32_t i = 0; i < im->layers_n * UW_PARAMS_MAX; i++) {
        struct uw_import_layer *l = im->layer[i / UW_PARAMS_MAX];
        struct uw_import_param *p = &l->param[i % UW_PARAMS_MAX];
        for (uint32_t k = 0; k < p->torch_n && l->needed; k++) {
            p->torch_n = claim(&taken, p->torch[k].name) ? p->torch_n : 0;
        }
    }
    return add_tied(im, &taken);
}
