/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch calls the weights of recurrent layers: a module has all layers and directions of
 * nn.LSTM, nn.GRU or nn.RNN, here each of them is a layer of its own. */
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
    if (n->module == NULL) {
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

int uw_read_torch_names(struct uw_import *im)
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
        if (features == 0 || features == l->param[0].dim[1]) {
            l->torch_part = uw_pool_format(im->pool, "_l%u%s", (unsigned)level,
                                           l->def.recurrent.reverse ? "_reverse" : "");
            if (l->torch_part == NULL) {
                return uw_import_nomem(im);
            }
        }
    }
    return UW_OK;
}
