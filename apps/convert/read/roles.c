/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the model trains: what the file tells of its constants, what the user names, and what
 * names and places suggest. */
#include "read.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct word {
    const char *text;
    size_t n;
};

/* The i-th name of a list between commas; text NULL: there is none. */
static struct word word_at(const char *list, uint32_t i)
{
    while (list != NULL && i > 0) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
        i--;
    }
    return (struct word){list, list != NULL ? strcspn(list, ",") : 0};
}

/* Whether w is the name, or that of a module it is in: "body" of "body.0.weight". */
static bool is(struct word w, const char *name)
{
    return w.text != NULL && w.n > 0 && strncmp(w.text, name, w.n) == 0 &&
           (name[w.n] == '\0' || name[w.n] == '.');
}

/* Length of the longest word of a list that is the name, or that of a module it is in; 0: none. */
static size_t listed(const char *list, const char *name)
{
    size_t longest = 0;
    for (uint32_t i = 0; word_at(list, i).text != NULL; i++) {
        const struct word w = word_at(list, i);
        longest = is(w, name) && w.n > longest ? w.n : longest;
    }
    return longest;
}

static bool lists(const char *list, const char *name)
{
    return listed(list, name) > 0;
}

/* Whether b is the matrix a, transposed. */
static bool is_turned(const struct uw_onnx_tensor *a, const struct uw_onnx_tensor *b)
{
    if (a->rank != 2 || b->rank != 2 || a->refused != NULL || b->refused != NULL ||
        !a->is_float || !b->is_float || a->dim[0] != b->dim[1] || a->dim[1] != b->dim[0]) {
        return false;
    }
    for (uint64_t i = 0; i < a->dim[0]; i++) {
        for (uint64_t k = 0; k < a->dim[1]; k++) {
            if (uw_import_number(a, i * a->dim[1] + k) != uw_import_number(b, k * b->dim[1] + i)) {
                return false;
            }
        }
    }
    return true;
}

/* The first parameter whose elements an exporter moved to make the constant; NULL: none. */
static const char *moved_from(const struct uw_import *im, const struct uw_onnx_tensor *t)
{
    const char *name;
    for (uint32_t i = 0; !t->computed && t->role == UW_ONNX_ROLE_UNKNOWN &&
                         uw_onnx_folded_name(im->pool, t, i, &name) == UW_OK; i++) {
        if (uw_onnx_is_parameter(&im->graph, name)) {
            return name;
        }
    }
    return NULL;
}

/* Whether an exporter wrote parameter p a second time, transposed, as the tied weight of a head.
 * Numbers that are equal everywhere tell nothing. */
static bool is_tied(const struct uw_import *im, const struct uw_onnx_tensor *p,
                    const struct uw_onnx_tensor *copy)
{
    bool written = copy->role == UW_ONNX_ROLE_UNKNOWN && strchr(copy->name, '.') == NULL &&
                   p->role != UW_ONNX_ROLE_FIXED && strchr(p->name, '.') != NULL;
    if (p == copy || !is_turned(p, copy)) {
        return false;
    }
    const char *from = written ? NULL : moved_from(im, p);
    const char *copied = from != NULL ? moved_from(im, copy) : NULL;
    if (!written && (copied == NULL || strcmp(from, copied) != 0)) {
        return false;
    }
    uint64_t size = uw_onnx_tensor_size(p);
    for (uint64_t i = 1; i < size; i++) {
        if (uw_import_number(p, i) != uw_import_number(p, 0)) {
            return true;
        }
    }
    return false;
}

/* More matrices than any network with a tied weight has; each pair of them is compared. */
#define MATRICES_MAX 2048u

static uint32_t count_matrices(const struct uw_onnx_graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        n += g->initializer[i].rank == 2 ? 1u : 0u;
    }
    return n;
}

static void tie_weights(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        struct uw_onnx_tensor *p = &g->initializer[i];
        bool one = p->rank == 2 && uw_import_in_order(p);
        for (uint32_t k = 0; k < g->initializers_n && one; k++) {
            struct uw_onnx_tensor *copy = &g->initializer[k];
            if (is_tied(im, p, copy)) {
                p->one = copy->one = true;
                copy->data = p->data;
                copy->stride[0] = p->stride[1];
                copy->stride[1] = p->stride[0];
            }
        }
    }
}

void uw_read_roles(struct uw_import *im)
{
    const struct uw_onnx_graph *g = &im->graph;
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        struct uw_onnx_tensor *t = &g->initializer[i];
        size_t fixed = listed(im->options->constant, t->name);
        size_t trained = listed(im->options->trained, t->name);
        t->role = fixed > trained ? UW_ONNX_ROLE_FIXED
                  : trained > 0   ? UW_ONNX_ROLE_TRAINS : t->role;
    }
    if (count_matrices(g) > MATRICES_MAX) {
        return;
    }
    for (uint32_t i = 0; i < g->initializers_n; i++) { /* exporters transpose in advance */
        const struct uw_onnx_tensor *t = &g->initializer[i];
        bool fixed = t->role == UW_ONNX_ROLE_FIXED && t->rank == 2;
        for (uint32_t k = 0; fixed && k < g->initializers_n; k++) {
            if (g->initializer[k].role == UW_ONNX_ROLE_UNKNOWN &&
                is_turned(t, &g->initializer[k])) {
                g->initializer[k].role = UW_ONNX_ROLE_FIXED;
            }
        }
    }
    tie_weights(im);
}

void uw_read_list_add(struct uw_read_list *l, const char *between, const char *format, ...)
{
    char part[sizeof l->text];
    size_t room = sizeof l->text - l->used;
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
    l->n++;
    if (strlen(part) + strlen(between) + 8 < room) {
        l->used += (size_t)snprintf(l->text + l->used, room, "%s%s", l->used > 0 ? between : "",
                                    part);
    } else if (room > 8 && l->used > 0 && l->text[l->used - 1] != '.') {
        l->used += (size_t)snprintf(l->text + l->used, room, ", ..");
    }
}

static void add_name(struct uw_read_list *l, const char *name)
{
    uw_read_list_add(l, ", ", "'%s'", name);
}

static bool is_lone(const struct uw_import_layer *l)
{
    return l->needed && l->def.kind == UW_LAYER_PARAMETER;
}

/* The same name in the other one of the lists --constant and --trained; text NULL: it lacks it. */
static struct word other_of(const char *other, struct word w)
{
    uint32_t i = 0;
    struct word o = word_at(other, i);
    while (o.text != NULL && (o.n != w.n || memcmp(o.text, w.text, w.n) != 0)) {
        o = word_at(other, ++i);
    }
    return o;
}

/* Find each name among the file's tensors, whose role it has set, and among the layers. Of a module
 * in one list and a part of it in the other, the part is as its own list says. */
static int set_named(struct uw_import *im, const char *list, bool trains)
{
    const char *other = trains ? im->options->constant : im->options->trained;
    for (uint32_t i = 0; word_at(list, i).text != NULL; i++) {
        const struct word w = word_at(list, i), twin = other_of(other, w);
        if (twin.text != NULL) {
            return uw_import_refuse(im, NULL, UW_ERR_INVALID, "%.*s is in --constant and in "
                                    "--trained: leave out one", (int)w.n, w.text);
        }
        bool found = !trains && is(w, "all");
        for (uint32_t k = 0; k < im->graph.initializers_n && !found; k++) {
            found = is(w, im->graph.initializer[k].name);
        }
        for (uint32_t k = 0; k < im->layers_n; k++) {
            struct uw_import_layer *l = im->layer[k];
            bool named = l->needed && is(w, l->def.name);
            found = found || named;
            named = named && listed(list, l->def.name) > listed(other, l->def.name);
            if (named && l->def.kind == UW_LAYER_PARAMETER) {
                l->def.parameter.constant = !trains;
            } else if (named) {
                l->def.frozen = !trains;
            }
        }
        if (!found) {
            struct uw_read_list lone = {.text = ""};
            for (uint32_t k = 0; k < im->layers_n; k++) {
                if (is_lone(im->layer[k])) {
                    add_name(&lone, im->layer[k]->def.name);
                }
            }
            return uw_import_refuse(im, NULL, UW_ERR_INVALID, "--%s %.*s: no tensor and no layer "
                                    "has that name; tensors that are no layer's weight: %s",
                                    trains ? "trained" : "constant", (int)(w.n < 60 ? w.n : 60),
                                    w.text, lone.n > 0 ? lone.text : "none");
        }
    }
    return UW_OK;
}

bool uw_read_is_index(const struct uw_import_layer *l)
{
    const struct uw_import_param *p = &l->param[0];
    bool same = l->def.kind == UW_LAYER_EMBEDDING && p->suffix != NULL && p->dim[1] == 1;
    for (uint32_t i = 0; same && i < p->dim[0]; i++) {
        same = p->data[i] == (float)i;
    }
    return same;
}

/* A layer whose weights are fixed is not trained. Batch norm's statistics are no weights. */
static void freeze(const struct uw_import *im, struct uw_import_layer *l,
                   struct uw_read_list *frozen, struct uw_read_list *mixed)
{
    bool fixed = false, trains = false;
    if (uw_read_is_index(l)) {
        l->def.frozen = true;
        return;
    }
    for (uint32_t p = 0; p < UW_PARAMS_MAX; p++) {
        bool has = l->param[p].suffix != NULL;
        fixed = fixed || (has && l->param[p].role == UW_ONNX_ROLE_FIXED);
        trains = trains || (has && l->param[p].role != UW_ONNX_ROLE_FIXED);
    }
    if (!l->needed || !fixed || lists(im->options->trained, l->def.name) ||
        l->def.kind == UW_LAYER_BATCHNORM || l->def.kind == UW_LAYER_PARAMETER) {
        return;
    }
    l->def.frozen = !trains;
    add_name(trains ? mixed : frozen, l->def.name);
}

static int tell(struct uw_import *im, const char *note)
{
    if (note == NULL) {
        return uw_import_nomem(im);
    }
    uw_import_note(im, note);
    return UW_OK;
}

/* Tell of the tensors that train as far as names and places tell. */
static int tell_lone(struct uw_import *im)
{
    struct uw_read_list lone = {.text = ""};
    for (uint32_t i = 0; i < im->layers_n; i++) {
        const struct uw_import_layer *l = im->layer[i];
        if (is_lone(l) && !l->def.parameter.constant &&
            l->param[0].role == UW_ONNX_ROLE_UNKNOWN && l->param[0].folded_from == NULL &&
            !lists(im->options->trained, l->def.name)) {
            add_name(&lone, l->def.name);
        }
    }
    if (lone.n == 0) {
        return UW_OK;
    }
    return tell(im, lone.n == 1
                        ? uw_pool_format(im->pool, "tensor %s, which is no layer's weight, trains: "
                                         "the file does not tell parameters from constants; "
                                         "--constant NAME keeps it as it is", lone.text)
                        : uw_pool_format(im->pool, "%u tensors that are no layer's weight train: "
                                         "%s: the file does not tell parameters from constants; "
                                         "--constant NAME,.. or all keeps them as they are",
                                         (unsigned)lone.n, lone.text));
}

/* TensorFlow's exporter leaves out biases of zeros. */
static int tell_no_biases(struct uw_import *im)
{
    struct uw_read_list without = {.text = ""};
    bool tensorflow = im->graph.producer != NULL && strcmp(im->graph.producer, "tf2onnx") == 0;
    for (uint32_t i = 0; i < im->layers_n && tensorflow; i++) {
        const struct uw_import_layer *l = im->layer[i];
        if (l->needed && ((l->def.kind == UW_LAYER_DENSE && l->def.dense.no_bias) ||
                          (l->def.kind == UW_LAYER_CONV2D && l->def.conv2d.no_bias))) {
            add_name(&without, l->def.name);
        }
    }
    return without.n == 0
               ? UW_OK
               : tell(im, uw_pool_format(im->pool, "layers without a bias: %s: tf2onnx leaves out "
                                         "biases that are all zero, as before training; a model "
                                         "that is exported after a step of training has them",
                                         without.text));
}

int uw_read_trained(struct uw_import *im)
{
    struct uw_read_list frozen = {.text = ""}, mixed = {.text = ""};
    bool all = lists(im->options->constant, "all");
    for (uint32_t i = 0; i < im->layers_n; i++) {
        struct uw_import_layer *l = im->layer[i];
        freeze(im, l, &frozen, &mixed);
        if (all && is_lone(l) && !(l->made_of != NULL &&
                                   lists(im->options->trained, l->made_of->name))) {
            l->def.parameter.constant = true;
        }
    }
    int rc = set_named(im, im->options->constant, false);
    rc = rc < 0 ? rc : set_named(im, im->options->trained, true);
    if (rc == UW_OK && frozen.n > 0) {
        rc = tell(im, uw_pool_format(im->pool, "not trained, because the file or --constant says "
                                     "that these weights are no parameters: %s; --trained NAME "
                                     "trains them", frozen.text));
    }
    if (rc == UW_OK && mixed.n > 0) {
        rc = tell(im, uw_pool_format(im->pool, "a layer trains as a whole, and of these one of "
                                     "weight and bias is a constant: %s; --constant with a layer's "
                                     "name keeps both as they are", mixed.text));
    }
    rc = rc < 0 ? rc : tell_no_biases(im);
    return rc < 0 ? rc : tell_lone(im);
}
