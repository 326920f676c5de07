/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of one of the model's functions becomes the function's nodes. Values within get the name
 * of the call in front of theirs, so that two calls do not meet; nodes do, too, which tells where
 * in the model they come from. */
#include "names.h"
#include "onnx_reader.h"

#include <string.h>

#define DEPTH_MAX 64u               /* of calls within calls */

struct inliner {
    struct uw_pool *pool;
    const struct uw_onnx_function *functions;
    uint32_t functions_n;
    uint64_t nodes_n, nodes_max;    /* made so far */
    uint32_t depth;
    int rc;
};

/* Nodes that are collected. */
struct nodes {
    struct uw_onnx_node *item;
    uint32_t n, cap;
};

/* A call: names within the function, as they are outside, and the attributes given. */
struct scope {
    struct uw_names names;
    const struct uw_onnx_function *f;
    const struct uw_onnx_node *call;
    const char *prefix;
};

static bool fail(struct inliner *in, int code)
{
    in->rc = in->rc < 0 ? in->rc : code;
    return false;
}

static const struct uw_onnx_function *function_of(const struct inliner *in,
                                                  const struct uw_onnx_node *n)
{
    for (uint32_t i = 0; i < in->functions_n; i++) {
        const struct uw_onnx_function *f = &in->functions[i];
        if (strcmp(f->name, n->op) == 0 && strcmp(f->domain, n->domain) == 0 &&
            strcmp(f->overload, n->overload) == 0) {
            return f;
        }
    }
    return NULL;
}

/* The names in a function's nodes, those in graphs of nodes too. */
static uint64_t count_names(const struct uw_onnx_node *node, uint32_t nodes_n)
{
    uint64_t names = 0;
    for (uint32_t i = 0; i < nodes_n; i++) {
        names += node[i].outputs_n + node[i].inputs_n;
        for (uint32_t k = 0; k < node[i].attributes_n; k++) {
            const struct uw_onnx_graph *g = node[i].attribute[k].g;
            if (g != NULL) {
                names += count_names(g->node, g->nodes_n) + g->initializers_n + g->inputs_n +
                         g->outputs_n;
            }
        }
    }
    return names;
}

/* The name of a value outside the function. */
static const char *outside(struct inliner *in, struct scope *s, const char *name)
{
    if (name[0] == '\0') {
        return name;
    }
    struct uw_name *slot = uw_names_slot(&s->names, name);
    if (slot->name == NULL) {
        const char *other = uw_pool_format(in->pool, "%s/%s", s->prefix, name);
        if (other == NULL) {
            fail(in, UW_ERR_NOMEM);
            return "";
        }
        *slot = (struct uw_name){.name = name, .other = other};
    }
    return slot->other;
}

static const char **rename_all(struct inliner *in, struct scope *s, const char **from, uint32_t n)
{
    const char **to = uw_pool_take(in->pool, n, sizeof *to);
    for (uint32_t i = 0; to != NULL && i < n; i++) {
        to[i] = outside(in, s, from[i]);
    }
    if (to == NULL) {
        fail(in, UW_ERR_NOMEM);
    }
    return to;
}

static bool copy_nodes(struct inliner *in, struct scope *s, const struct uw_onnx_node *from,
                       uint32_t from_n, struct nodes *to);

/* A graph within a node of the function. */
static struct uw_onnx_graph *copy_graph(struct inliner *in, struct scope *s,
                                        const struct uw_onnx_graph *from)
{
    struct uw_onnx_graph *g = uw_pool_take(in->pool, 1, sizeof *g);
    struct nodes nodes = {.item = NULL};
    if (g == NULL) {
        fail(in, UW_ERR_NOMEM);
        return NULL;
    }
    *g = *from;
    g->initializer = uw_pool_take(in->pool, from->initializers_n, sizeof *g->initializer);
    g->input = uw_pool_take(in->pool, from->inputs_n, sizeof *g->input);
    g->output = uw_pool_take(in->pool, from->outputs_n, sizeof *g->output);
    if (g->initializer == NULL || g->input == NULL || g->output == NULL) {
        fail(in, UW_ERR_NOMEM);
        return NULL;
    }
    for (uint32_t i = 0; i < g->initializers_n; i++) {
        g->initializer[i] = from->initializer[i];
        g->initializer[i].name = outside(in, s, from->initializer[i].name);
    }
    for (uint32_t i = 0; i < g->inputs_n; i++) {
        g->input[i] = from->input[i];
        g->input[i].name = outside(in, s, from->input[i].name);
    }
    for (uint32_t i = 0; i < g->outputs_n; i++) {
        g->output[i] = from->output[i];
        g->output[i].name = outside(in, s, from->output[i].name);
    }
    if (!copy_nodes(in, s, from->node, from->nodes_n, &nodes)) {
        return NULL;
    }
    g->node = nodes.item;
    g->nodes_n = nodes.n;
    return g;
}

/* The attribute of a call that a function's attribute refers to; NULL: it is left out. */
static const struct uw_onnx_attribute *given(const struct scope *s, const char *reference)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(s->call, reference);
    for (uint32_t i = 0; i < s->f->fallbacks_n && a == NULL; i++) {
        a = strcmp(s->f->fallback[i].name, reference) == 0 ? &s->f->fallback[i] : NULL;
    }
    return a;
}

static bool copy_attributes(struct inliner *in, struct scope *s, const struct uw_onnx_node *from,
                            struct uw_onnx_node *to)
{
    to->attribute = uw_pool_take(in->pool, from->attributes_n, sizeof *to->attribute);
    to->attributes_n = 0;
    if (to->attribute == NULL) {
        return fail(in, UW_ERR_NOMEM);
    }
    for (uint32_t i = 0; i < from->attributes_n; i++) {
        const struct uw_onnx_attribute *a = &from->attribute[i];
        bool refers = a->reference[0] != '\0';
        const struct uw_onnx_attribute *value = refers ? given(s, a->reference) : a;
        if (value == NULL) {
            continue;
        }
        struct uw_onnx_attribute *out = &to->attribute[to->attributes_n++];
        *out = *value;
        out->name = a->name;
        out->reference = "";
        if (!refers && a->g != NULL) {
            out->g = copy_graph(in, s, a->g);
            if (out->g == NULL) {
                return false;
            }
        }
    }
    return true;
}

static bool add(struct inliner *in, struct nodes *to, const struct uw_onnx_node *node)
{
    to->item = uw_pool_grow(in->pool, to->item, to->n, &to->cap, sizeof *to->item);
    if (to->item == NULL) {
        return fail(in, UW_ERR_NOMEM);
    }
    if (++in->nodes_n > in->nodes_max) {
        return fail(in, UW_ERR_TOOBIG);
    }
    to->item[to->n++] = *node;
    return true;
}

static bool expand(struct inliner *in, const struct uw_onnx_node *from, uint32_t from_n,
                   struct nodes *to);

static bool copy_nodes(struct inliner *in, struct scope *s, const struct uw_onnx_node *from,
                       uint32_t from_n, struct nodes *to)
{
    for (uint32_t i = 0; i < from_n; i++) {
        struct uw_onnx_node copy = from[i];
        copy.name = uw_pool_format(in->pool, "%s/%s", s->prefix,
                                   from[i].name[0] != '\0' ? from[i].name : from[i].op);
        copy.input = rename_all(in, s, from[i].input, from[i].inputs_n);
        copy.output = rename_all(in, s, from[i].output, from[i].outputs_n);
        if (copy.name == NULL || in->rc < 0) {
            return fail(in, UW_ERR_NOMEM);
        }
        if (!copy_attributes(in, s, &from[i], &copy) || !expand(in, &copy, 1, to)) {
            return false;
        }
    }
    return true;
}

/* Bind the names of a call's inputs and outputs. An output that is an input, or that two names of
 * the call stand for, is copied by an Identity. */
static bool bind_names(struct inliner *in, struct scope *s, struct nodes *to)
{
    const struct uw_onnx_function *f = s->f;
    for (uint32_t i = 0; i < f->inputs_n; i++) {
        struct uw_name *slot = uw_names_slot(&s->names, f->input[i]);
        *slot = (struct uw_name){.name = f->input[i],
                                 .other = i < s->call->inputs_n ? s->call->input[i] : ""};
    }
    for (uint32_t i = 0; i < f->outputs_n && i < s->call->outputs_n; i++) {
        struct uw_name *slot = uw_names_slot(&s->names, f->output[i]);
        if (slot->name == NULL && s->call->output[i][0] != '\0') {
            *slot = (struct uw_name){.name = f->output[i], .other = s->call->output[i]};
        } else if (slot->name != NULL && s->call->output[i][0] != '\0') {
            struct uw_onnx_node same = {.name = s->prefix, .op = "Identity", .domain = "",
                                        .overload = "", .inputs_n = 1, .outputs_n = 1};
            same.input = uw_pool_take(in->pool, 2, sizeof *same.input);
            if (same.input == NULL) {
                return fail(in, UW_ERR_NOMEM);
            }
            same.output = same.input + 1;
            same.input[0] = slot->other;
            same.output[0] = s->call->output[i];
            if (!add(in, to, &same)) {
                return false;
            }
        }
    }
    return true;
}

static bool call(struct inliner *in, const struct uw_onnx_function *f,
                 const struct uw_onnx_node *n, struct nodes *to)
{
    struct scope s = {.f = f, .call = n, .prefix = n->name};
    for (uint32_t i = 0; s.prefix[0] == '\0' && i < n->outputs_n; i++) {
        s.prefix = n->output[i];
    }
    if (in->depth == DEPTH_MAX) {
        return fail(in, UW_ERR_TOOBIG);
    }
    if (uw_names_init(&s.names, in->pool, count_names(f->node, f->nodes_n) + f->inputs_n +
                      f->outputs_n) < 0) {
        return fail(in, UW_ERR_NOMEM);
    }
    in->depth++;
    bool fits = bind_names(in, &s, to) && copy_nodes(in, &s, f->node, f->nodes_n, to);
    in->depth--;
    return fits;
}

/* Append the nodes, and for calls what they stand for. */
static bool expand(struct inliner *in, const struct uw_onnx_node *from, uint32_t from_n,
                   struct nodes *to)
{
    for (uint32_t i = 0; i < from_n; i++) {
        const struct uw_onnx_function *f = function_of(in, &from[i]);
        if (f != NULL ? !call(in, f, &from[i], to) : !add(in, to, &from[i])) {
            return false;
        }
    }
    return true;
}

/* Expand a graph in its place, and the graphs within its nodes. */
static bool expand_graph(struct inliner *in, struct uw_onnx_graph *g)
{
    struct nodes nodes = {.item = NULL};
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        for (uint32_t k = 0; k < g->node[i].attributes_n; k++) {
            struct uw_onnx_graph *inner = g->node[i].attribute[k].g;
            if (inner != NULL && !expand_graph(in, inner)) {
                return false;
            }
        }
    }
    if (!expand(in, g->node, g->nodes_n, &nodes)) {
        return false;
    }
    g->node = nodes.item;
    g->nodes_n = nodes.n;
    return true;
}

int uw_onnx_inline(struct uw_pool *pool, struct uw_onnx_graph *g,
                   const struct uw_onnx_function *functions, uint32_t functions_n)
{
    struct inliner in = {.pool = pool, .functions = functions, .functions_n = functions_n,
                         .nodes_max = 16384};
    if (functions_n == 0) {
        return UW_OK;
    }
    in.nodes_max += 16u * (uint64_t)g->nodes_n;
    for (uint32_t i = 0; i < functions_n; i++) {
        in.nodes_max += 16u * (uint64_t)functions[i].nodes_n;
    }
    expand_graph(&in, g);
    return in.rc;
}
