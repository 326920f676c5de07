/* SPDX-License-Identifier: Apache-2.0
 *
 * Depth first, in the file's order: a node is placed when all that it reads is placed. What is in
 * order already stays as it is. */
#include "names.h"
#include "onnx_reader.h"

enum state { NEW = 0, OPEN, PLACED };

struct sort {
    const struct uw_onnx_graph *g;
    struct uw_names makers;         /* by value: the node whose output it is */
    uint8_t *state;                 /* by node */
    uint32_t *open;                 /* nodes that wait for what they read, the newest last */
    uint32_t open_n;
    struct uw_onnx_node *out;
    uint32_t out_n;
};

/* Whether the value comes from a node that is not placed yet. */
static bool is_missing(const struct sort *s, const char *value, uint32_t *maker)
{
    const struct uw_name *slot = value[0] != '\0' ? uw_names_slot(&s->makers, value) : NULL;
    if (slot == NULL || slot->name == NULL || s->state[slot->at] == PLACED) {
        return false;
    }
    *maker = slot->at;
    return true;
}

static bool branch_lacks(const struct sort *s, const struct uw_onnx_node *n, uint32_t *maker);

/* Whether the node reads a value from a node that is not placed yet. */
static bool node_lacks(const struct sort *s, const struct uw_onnx_node *n, uint32_t *maker)
{
    for (uint32_t k = 0; k < n->inputs_n; k++) {
        if (is_missing(s, n->input[k], maker)) {
            return true;
        }
    }
    return branch_lacks(s, n, maker);
}

/* The same for the graphs within the node, which see the values around them. */
static bool branch_lacks(const struct sort *s, const struct uw_onnx_node *n, uint32_t *maker)
{
    for (uint32_t k = 0; k < n->attributes_n; k++) {
        const struct uw_onnx_graph *g = n->attribute[k].g;
        for (uint32_t i = 0; g != NULL && i < g->nodes_n; i++) {
            if (node_lacks(s, &g->node[i], maker)) {
                return true;
            }
        }
        for (uint32_t i = 0; g != NULL && i < g->outputs_n; i++) {
            if (is_missing(s, g->output[i].name, maker)) {
                return true;
            }
        }
    }
    return false;
}

/* Place a node and all that it needs. Returns false when it needs itself. */
static bool place(struct sort *s, uint32_t node)
{
    s->open[s->open_n++] = node;
    s->state[node] = OPEN;
    while (s->open_n > 0) {
        uint32_t at = s->open[s->open_n - 1], maker;
        if (!node_lacks(s, &s->g->node[at], &maker)) {
            s->state[at] = PLACED;
            s->out[s->out_n++] = s->g->node[at];
            s->open_n--;
        } else if (s->state[maker] == OPEN) {
            return false;
        } else {
            s->state[maker] = OPEN;
            s->open[s->open_n++] = maker;
        }
    }
    return true;
}

static int sort_branches(struct uw_pool *pool, const struct uw_onnx_graph *g,
                         const struct uw_onnx_node **at)
{
    int rc = UW_OK;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        for (uint32_t k = 0; k < g->node[i].attributes_n && rc == UW_OK; k++) {
            struct uw_onnx_graph *inner = g->node[i].attribute[k].g;
            rc = inner != NULL ? uw_onnx_sort(pool, inner, at) : UW_OK;
        }
    }
    return rc;
}

int uw_onnx_sort(struct uw_pool *pool, struct uw_onnx_graph *g, const struct uw_onnx_node **at)
{
    struct sort s = {.g = g};
    uint64_t values = 0;
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        values += g->node[i].outputs_n;
    }
    s.state = uw_pool_take(pool, g->nodes_n, sizeof *s.state);
    s.open = uw_pool_take(pool, g->nodes_n, sizeof *s.open);
    s.out = uw_pool_take(pool, g->nodes_n, sizeof *s.out);
    if (uw_names_init(&s.makers, pool, values) < 0 || s.state == NULL || s.open == NULL ||
        s.out == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        for (uint32_t k = 0; k < g->node[i].outputs_n; k++) {
            struct uw_name *slot = uw_names_slot(&s.makers, g->node[i].output[k]);
            if (slot->name == NULL && g->node[i].output[k][0] != '\0') {
                *slot = (struct uw_name){.name = g->node[i].output[k], .at = i};
            }
        }
    }
    for (uint32_t i = 0; i < g->nodes_n; i++) {
        if (s.state[i] == NEW && !place(&s, i)) {
            *at = &g->node[s.open[s.open_n - 1]];
            return UW_ERR_CORRUPT;
        }
    }
    g->node = s.out;
    return sort_branches(pool, g, at);
}
