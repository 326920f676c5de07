/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of layers: those of their weights, else of the nodes that they come from. */
#include "read.h"

#include <ctype.h>
#include <string.h>

void uw_read_module(const char *node, char module[UW_READ_MODULE_BYTES])
{
    size_t used = 0;
    size_t start = 0; /* of the part that the next one may repeat */
    const char *p = node[0] == '/' ? node + 1 : node;
    for (const char *end; (end = strchr(p, '/')) != NULL; p = end + 1) {
        size_t bytes = (size_t)(end - p);
        size_t before = used - start;
        bool again = used > 0 && bytes > before && strncmp(p, module + start, before) == 0 &&
                     p[before] == '.';
        used = again ? start : used;
        if (used > 0 && !again && used < UW_READ_MODULE_BYTES - 2) {
            module[used++] = '.';
        }
        start = used;
        for (size_t i = 0; i < bytes && used < UW_READ_MODULE_BYTES - 1; i++) {
            module[used++] = p[i];
        }
    }
    module[used] = '\0';
}

/* A node's module, or without one its name in small letters: "/Relu_3" is relu_3. */
static const char *name_of_node(struct uw_import *im, const struct uw_onnx_node *n)
{
    char out[UW_READ_MODULE_BYTES];
    const char *p = n->name[0] == '/' ? n->name + 1 : n->name;
    size_t used = 0;
    if (strchr(p, '/') != NULL) {
        uw_read_module(n->name, out);
        used = strlen(out);
    }
    for (; strchr(p, '/') == NULL && p[used] != '\0' && used < sizeof out - 1; used++) {
        out[used] = (char)tolower((unsigned char)p[used]);
    }
    return uw_pool_text(im->pool, used > 0 ? out : "layer", used > 0 ? used : 5);
}

static void keep_name(struct uw_names *names, const char *name)
{
    *uw_names_slot(names, name) = (struct uw_name){.name = name, .at = 2};
}

/* The name of a layer's tensor. */
static const char *name_of_tensor(struct uw_import *im, const char *layer, const char *suffix)
{
    return suffix[0] != '\0' ? uw_pool_format(im->pool, "%s.%s", layer, suffix) : layer;
}

/* Whether the layer or one of its tensors would have a name that is there already. */
static bool is_taken(struct uw_import *im, const struct uw_names *names,
                     const struct uw_import_layer *l, const char *name)
{
    bool taken = uw_names_slot(names, name)->name != NULL;
    for (uint32_t p = 0; p < UW_PARAMS_MAX && !taken; p++) {
        const char *suffix = l->param[p].suffix;
        const char *tensor = suffix != NULL ? name_of_tensor(im, name, suffix) : NULL;
        taken = tensor != NULL && uw_names_slot(names, tensor)->name != NULL;
    }
    return taken;
}

static int take_name(struct uw_import *im, struct uw_names *names, struct uw_import_layer *l,
                     const char *name)
{
    keep_name(names, name);
    for (uint32_t p = 0; p < UW_PARAMS_MAX; p++) {
        const char *suffix = l->param[p].suffix;
        const char *tensor = suffix != NULL ? name_of_tensor(im, name, suffix) : name;
        if (tensor == NULL) {
            return uw_import_nomem(im);
        }
        if (tensor != name) {
            keep_name(names, tensor);
        }
    }
    l->def.name = name;
    return UW_OK;
}

/* Whether a layer of its own weights, or the same elements of a tensor that another one has. */
static bool copies(const struct uw_import *im, const struct uw_import_layer *l)
{
    bool same = l->made_of == NULL;
    for (uint32_t k = 0; k < UW_PARAMS_MAX; k++) {
        const struct uw_import_param *p = &l->param[k];
        if (p->origin != NULL && p->torch_n > 0 && strcmp(p->torch[0].name, p->origin) != 0) {
            return false;           /* a parameter of its own, which was equal */
        }
    }
    for (uint32_t i = 0; i < im->layers_n && !same && !l->def.parameter.constant; i++) {
        const struct uw_import_layer *other = im->layer[i];
        same = other != l && other->needed && other->made_of != NULL &&
               other->made_of->data == l->made_of->data;
    }
    return same;
}

/* names: those so far, each with the number to try first for the next layer of that name. */
static int give_name(struct uw_import *im, struct uw_names *names, struct uw_import_layer *l,
                     const char *wish)
{
    size_t length = wish != NULL ? strlen(wish) : 0;
    const char *base = wish;
    if (wish != NULL && length > UW_LAYER_NAME_MAX - 8) {
        base = wish + length - (UW_LAYER_NAME_MAX - 8);
    }
    if (base != NULL && strncmp(base, "optimizer.", 10) == 0) {
        base = uw_pool_format(im->pool, "model.%s", base);
    }
    if (base == NULL) {
        return uw_import_nomem(im);
    }
    const char *name = base;
    struct uw_name *first = uw_names_slot(names, base);
    uint32_t number = first->name != NULL ? first->at : 2;
    bool again = is_taken(im, names, l, base);
    if (again && wish == l->own_name && !uw_read_is_recurrent(l->def.kind) && copies(im, l)) {
        uw_import_note(im, "weights that several layers share are copied: each layer trains its "
                           "own, and PyTorch's state_dict has no place for the copies");
    }
    while (again && name != NULL) {
        name = uw_pool_format(im->pool, "%s_%u", base, (unsigned)number++);
        again = name != NULL && is_taken(im, names, l, name);
    }
    if (first->name != NULL) {
        first->at = number;
    }
    return name != NULL ? take_name(im, names, l, name) : uw_import_nomem(im);
}

/* Name of a layer without weights: its module, or what it does to the shape. */
static const char *plain_name(struct uw_import *im, const struct uw_import_layer *l)
{
    switch (l->def.kind) {
    case UW_LAYER_FLATTEN:
        return "flatten";
    case UW_LAYER_RESHAPE:
        return "reshape";
    case UW_LAYER_TRANSPOSE:
        return "transpose";
    default:
        return name_of_node(im, l->node);
    }
}

int uw_read_names(struct uw_import *im)
{
    struct uw_names names;
    int rc = UW_OK;
    if (uw_names_init(&names, im->pool, (uint64_t)im->layers_n * (1 + UW_PARAMS_MAX) + 1) < 0) {
        return uw_import_nomem(im);
    }
    keep_name(&names, "input");
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < im->layers_n && rc == UW_OK; i++) {
            struct uw_import_layer *l = im->layer[i];
            if (l->needed && (l->own_name != NULL) == (pass == 0)) {
                rc = give_name(im, &names, l, pass == 0 ? l->own_name : plain_name(im, l));
            }
        }
    }
    return rc;
}
