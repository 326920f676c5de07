/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between opsets in a way that an operator's reader would have to know. Lists that are
 * an attribute in one opset and an input in another (axes, shape, starts, split) need nothing here:
 * uw_import_ints reads either. */
#include "onnx_reader.h"

#include <string.h>

struct upgrade {
    struct uw_pool *pool;
    struct uw_onnx_node *out;
    uint32_t n, cap;
    int64_t opset;
    bool failed;                    /* out of memory */
};

static void add(struct upgrade *u, const struct uw_onnx_node *node)
{
    u->out = uw_pool_grow(u->pool, u->out, u->n, &u->cap, sizeof *u->out);
    u->failed = u->failed || u->out == NULL;
    if (!u->failed) {
        u->out[u->n++] = *node;
    }
}

/* Room for inputs, "" so far, of which the first `keep` are the node's. */
static const char **new_inputs(struct upgrade *u, const struct uw_onnx_node *n, uint32_t count,
                               uint32_t keep)
{
    const char **in = uw_pool_take(u->pool, count, sizeof *in);
    u->failed = u->failed || in == NULL;
    for (uint32_t i = 0; in != NULL && i < count; i++) {
        in[i] = i < keep && i < n->inputs_n ? n->input[i] : "";
    }
    return in;
}

/* A Constant with that attribute of `n`, under a new name. The attribute becomes `as`: value_float,
 * value_ints and so on. Returns the name of its value; "" when n has no such attribute. */
static const char *constant(struct upgrade *u, const struct uw_onnx_node *n, const char *attribute,
                            const char *as)
{
    const struct uw_onnx_attribute *a = uw_onnx_attribute(n, attribute);
    struct uw_onnx_node c = {.op = "Constant", .domain = "", .overload = "", .attributes_n = 1,
                             .outputs_n = 1};
    if (a == NULL || n->outputs_n == 0) {
        return "";
    }
    c.name = uw_pool_format(u->pool, "%s/%s", n->output[0], attribute);
    c.attribute = uw_pool_take(u->pool, 1, sizeof *c.attribute);
    c.output = uw_pool_take(u->pool, 1, sizeof *c.output);
    if (c.name == NULL || c.attribute == NULL || c.output == NULL) {
        u->failed = true;
        return "";
    }
    c.attribute[0] = *a;
    c.attribute[0].name = as;
    c.output[0] = c.name;
    add(u, &c);
    return c.name;
}

/* An attribute more, of text. */
static void text(struct upgrade *u, struct uw_onnx_node *n, const char *name, const char *value)
{
    struct uw_onnx_attribute *all =
        uw_pool_take(u->pool, (uint64_t)n->attributes_n + 1, sizeof *all);
    if (all == NULL) {
        u->failed = true;
        return;
    }
    if (n->attributes_n > 0) {
        memcpy(all, n->attribute, n->attributes_n * sizeof *all);
    }
    all[n->attributes_n++] =
        (struct uw_onnx_attribute){.name = name, .reference = "", .s = value};
    n->attribute = all;
}

/* Clip 6: min and max are attributes. */
static void clip(struct upgrade *u, struct uw_onnx_node *n)
{
    const char *low = constant(u, n, "min", "value_float");
    const char *high = constant(u, n, "max", "value_float");
    const char **in = new_inputs(u, n, 3, 1);
    if (in != NULL) {
        in[1] = low;
        in[2] = high;
        n->input = in;
        n->inputs_n = 3;
    }
}

/* Pad 2: pads and value are attributes. */
static void pad(struct upgrade *u, struct uw_onnx_node *n)
{
    const char *pads = constant(u, n, "pads", "value_ints");
    const char *value = constant(u, n, "value", "value_float");
    const char **in = new_inputs(u, n, 3, 1);
    if (in != NULL) {
        in[1] = pads;
        in[2] = value;
        n->input = in;
        n->inputs_n = 3;
    }
}

/* Upsample 7 and 9, Resize 10: a Resize that takes the nearest element in front. */
static void resize(struct upgrade *u, struct uw_onnx_node *n)
{
    const char *scales = n->inputs_n > 1 ? n->input[1] : constant(u, n, "scales", "value_floats");
    const char **in = new_inputs(u, n, 3, 1);
    if (in != NULL) {
        in[2] = scales;
        n->input = in;
        n->inputs_n = 3;
    }
    n->op = "Resize";
    text(u, n, "coordinate_transformation_mode", "asymmetric");
    text(u, n, "nearest_mode", "floor");
}

static void upgrade(struct upgrade *u, const struct uw_onnx_node *from)
{
    struct uw_onnx_node n = *from;
    bool own = n.domain[0] != '\0' && strcmp(n.domain, "ai.onnx") != 0;
    if (own) {
        add(u, &n);
        return;
    }
    if (u->opset < 11 && strcmp(n.op, "Clip") == 0) {
        clip(u, &n);
    } else if (u->opset < 11 && strcmp(n.op, "Pad") == 0) {
        pad(u, &n);
    } else if (strcmp(n.op, "Upsample") == 0 || (u->opset < 11 && strcmp(n.op, "Resize") == 0)) {
        resize(u, &n);
    } else if (u->opset < 9 && strcmp(n.op, "BatchNormalization") == 0 &&
               uw_onnx_int(&n, "spatial", 1) == 0) {
        n.refused = "spatial 0, statistics of every pixel: only those of a channel are known";
    }
    add(u, &n);
}

int uw_onnx_upgrade(struct uw_pool *pool, struct uw_onnx_node **node, uint32_t *nodes_n,
                    int64_t opset)
{
    struct upgrade u = {.pool = pool, .opset = opset};
    for (uint32_t i = 0; i < *nodes_n; i++) {
        struct uw_onnx_node *n = &(*node)[i];
        for (uint32_t k = 0; k < n->attributes_n; k++) {
            struct uw_onnx_graph *g = n->attribute[k].g;
            if (g != NULL && uw_onnx_upgrade(pool, &g->node, &g->nodes_n, opset) < 0) {
                return UW_ERR_NOMEM;
            }
        }
        upgrade(&u, n);
    }
    *node = u.out;
    *nodes_n = u.n;
    return u.failed ? UW_ERR_NOMEM : UW_OK;
}
