/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands at the end of a classifier beside its values: the class, maps from classes to
 * probabilities, and of one sigmoid p the pair 1 - p and p. */
#include "names.h"
#include "onnx_reader.h"

#include <string.h>

#define ONNX_STRING 8

struct ends {
    struct uw_pool *pool;
    struct uw_onnx_graph *g;
    struct uw_names made;           /* node index of each value; value: the node that makes it */
    uint32_t *readers;              /* [nodes_n] of output 0 of each node */
    bool *needed;                   /* [nodes_n] */
};

static bool is_label(const struct uw_onnx_value_info *v)
{
    return v->type == ONNX_STRING || v->type == UW_ONNX_INT64 || v->type == UW_ONNX_INT32 ||
           v->type == UW_ONNX_BOOL;
}

/* Outputs of classes, where others remain. Returns 1 (some were left out), 0, or UW_ERR_NOMEM. */
static int drop_labels(struct uw_pool *pool, struct uw_onnx_graph *g)
{
    uint32_t kept = 0, labels = 0;
    for (uint32_t i = 0; i < g->outputs_n; i++) {
        labels += is_label(&g->output[i]) ? 1 : 0;
    }
    if (labels == 0 || labels == g->outputs_n) {
        return 0;
    }
    for (uint32_t i = 0; i < g->outputs_n; i++) {
        if (is_label(&g->output[i])) {
            g->labels = g->labels == NULL
                            ? uw_pool_format(pool, "'%.60s'", g->output[i].name)
                            : uw_pool_format(pool, "%s, '%.60s'", g->labels, g->output[i].name);
            if (g->labels == NULL) {
                return UW_ERR_NOMEM;
            }
        } else {
            g->output[kept++] = g->output[i];
        }
    }
    g->outputs_n = kept;
    return 1;
}

/* The node that makes the value; NULL: none does. */
static struct uw_onnx_node *maker(const struct ends *e, const char *name)
{
    return uw_names_slot(&e->made, name)->value;
}

static uint32_t index_of(const struct ends *e, const struct uw_onnx_node *n)
{
    return (uint32_t)(n - e->g->node);
}

static void need(struct ends *e, const char *name)
{
    const struct uw_onnx_node *n = maker(e, name);
    if (n != NULL) {
        e->needed[index_of(e, n)] = true;
        e->readers[index_of(e, n)]++;
    }
}

static void need_inputs(struct ends *e, const struct uw_onnx_node *n)
{
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        need(e, n->input[k]);
    }
    for (uint32_t k = 0; k < n->attributes_n; k++) {
        const struct uw_onnx_graph *inner = n->attribute[k].g;
        for (uint32_t i = 0; inner != NULL && i < inner->nodes_n; i++) {
            need_inputs(e, &inner->node[i]);
        }
        for (uint32_t i = 0; inner != NULL && i < inner->outputs_n; i++) {
            need(e, inner->output[i].name);
        }
    }
}

static int begin(struct ends *e)
{
    uint64_t names = 0;
    for (uint32_t i = 0; i < e->g->nodes_n; i++) {
        names += e->g->node[i].outputs_n;
    }
    e->readers = uw_pool_take(e->pool, e->g->nodes_n, sizeof *e->readers);
    e->needed = uw_pool_take(e->pool, e->g->nodes_n, sizeof *e->needed);
    if (e->readers == NULL || e->needed == NULL || uw_names_init(&e->made, e->pool, names) < 0) {
        return UW_ERR_NOMEM;
    }
    memset(e->readers, 0, e->g->nodes_n * sizeof *e->readers);
    memset(e->needed, 0, e->g->nodes_n * sizeof *e->needed);
    for (uint32_t i = 0; i < e->g->nodes_n; i++) {
        struct uw_onnx_node *n = &e->g->node[i];
        for (uint32_t k = 0; k < n->outputs_n; k++) {
            *uw_names_slot(&e->made, n->output[k]) = (struct uw_name){.name = n->output[k],
                                                                      .value = n};
        }
    }
    for (uint32_t i = 0; i < e->g->outputs_n; i++) {
        need(e, e->g->output[i].name);
    }
    for (uint32_t i = e->g->nodes_n; i-- > 0;) {
        if (e->needed[i]) {
            need_inputs(e, &e->g->node[i]);
        }
    }
    return UW_OK;
}

/* The node whose only reader is n through its first input; NULL: it has others. */
static struct uw_onnx_node *below(const struct ends *e, const struct uw_onnx_node *n)
{
    struct uw_onnx_node *x = n->inputs_n > 0 ? maker(e, n->input[0]) : NULL;
    return x != NULL && e->readers[index_of(e, x)] == 1 && x->outputs_n == 1 ? x : NULL;
}

/* Whether the node gives the softmax in front of it another form. */
static bool keeps_softmax(const struct ends *e, const struct uw_onnx_node *n)
{
    const struct uw_onnx_node *x = below(e, n);
    bool form = strcmp(n->op, "ZipMap") == 0 || strcmp(n->op, "Identity") == 0 ||
                (strcmp(n->op, "Normalizer") == 0 &&
                 strcmp(uw_onnx_text(n, "norm", "MAX"), "L1") == 0);
    if (!form || x == NULL || n->outputs_n != 1) {
        return false;
    }
    return strcmp(x->op, "Softmax") == 0 || strcmp(x->op, "Gemm") == 0 || keeps_softmax(e, x) ||
           strcmp(x->op, "Concat") == 0;
}

static bool is_number(const struct ends *e, const char *name, double number)
{
    for (uint32_t i = 0; i < e->g->initializers_n; i++) {
        const struct uw_onnx_tensor *t = &e->g->initializer[i];
        float x = 0.0f;
        if (strcmp(t->name, name) == 0 && t->refused == NULL && t->is_float &&
            uw_onnx_tensor_size(t) == 1) {
            memcpy(&x, t->data, sizeof x);
            return (double)x == number;
        }
    }
    return false;
}

/* Make [1 - p, p], p the sigmoid of z, the softmax of [-z/2, z/2]: the node becomes the softmax,
 * and the nodes in front of it the pair. */
static int settle_pair(struct ends *e, struct uw_onnx_node *n)
{
    struct uw_onnx_node *rest = n->inputs_n == 2 ? maker(e, n->input[0]) : NULL;
    struct uw_onnx_node *p = n->inputs_n == 2 ? maker(e, n->input[1]) : NULL;
    if (strcmp(n->op, "Concat") != 0 || rest == NULL || p == NULL || strcmp(rest->op, "Sub") != 0 ||
        rest->inputs_n != 2 || strcmp(rest->input[1], n->input[1]) != 0 ||
        !is_number(e, rest->input[0], 1.0) || strcmp(p->op, "Sigmoid") != 0 ||
        e->readers[index_of(e, p)] != 2 || e->readers[index_of(e, rest)] != 1) {
        return UW_OK;
    }
    static const float factors[2] = {-0.5f, 0.5f};
    struct uw_onnx_node *parts = uw_pool_take(e->pool, 1, sizeof *parts);
    struct uw_onnx_attribute *values = uw_pool_take(e->pool, 1, sizeof *values);
    struct uw_onnx_attribute *axis = uw_pool_take(e->pool, 1, sizeof *axis);
    const char **in = uw_pool_take(e->pool, 2, sizeof *in);
    if (parts == NULL || values == NULL || axis == NULL || in == NULL) {
        return UW_ERR_NOMEM;
    }
    /* Sub becomes the constant [-1/2, 1/2], Sigmoid its product with z, Concat the softmax */
    *values = (struct uw_onnx_attribute){.name = "value_floats", .reference = "",
                                         .floats = factors, .floats_n = 2};
    *axis = (struct uw_onnx_attribute){.name = "axis", .reference = "", .i = 1};
    struct uw_onnx_node constant = *rest, product = *p;
    constant.op = "Constant";
    constant.inputs_n = 0;
    constant.attribute = values;
    constant.attributes_n = 1;
    product.op = "Mul";
    in[0] = p->input[0];
    in[1] = constant.output[0];
    product.input = in;
    product.inputs_n = 2;
    product.attributes_n = 0;
    bool ordered = rest > p; /* the constant has to come first */
    *(ordered ? p : rest) = constant;
    *(ordered ? rest : p) = product;
    n->op = "Softmax";
    n->input = &product.output[0];
    n->inputs_n = 1;
    n->attribute = axis;
    n->attributes_n = 1;
    return UW_OK;
}

/* Whether a node only gives an output its name or form. */
static bool names_an_end(const struct uw_onnx_graph *g, const struct uw_onnx_node *n)
{
    bool end = strcmp(n->op, "ZipMap") == 0;
    for (uint32_t i = 0; i < g->outputs_n && !end && strcmp(n->op, "Identity") == 0; i++) {
        end = n->outputs_n == 1 && strcmp(n->output[0], g->output[i].name) == 0;
    }
    return end;
}

int uw_onnx_ends(struct uw_pool *pool, struct uw_onnx_graph *g)
{
    struct ends e = {.pool = pool, .g = g};
    int dropped = drop_labels(pool, g);
    bool classic = false;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        classic = classic || names_an_end(g, &g->node[i]);
    }
    if (dropped < 0 || (dropped == 0 && !classic)) {
        return dropped;
    }
    int rc = begin(&e);
    for (uint32_t i = 0; i < g->outputs_n && rc == UW_OK; i++) {
        struct uw_onnx_node *n = maker(&e, g->output[i].name);
        while (n != NULL && keeps_softmax(&e, n)) {
            struct uw_onnx_node *x = below(&e, n);
            x->output[0] = n->output[0];
            e.needed[index_of(&e, n)] = false;
            n = x;
        }
        rc = n != NULL && n->outputs_n == 1 ? settle_pair(&e, n) : UW_OK;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->nodes_n && rc == UW_OK; i++) {
        if (e.needed[i]) {
            g->node[kept++] = g->node[i];
        }
    }
    g->nodes_n = rc == UW_OK ? kept : g->nodes_n;
    return rc;
}
