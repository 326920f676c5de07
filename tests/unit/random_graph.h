/* SPDX-License-Identifier: Apache-2.0
 *
 * Random small networks with branches, sums and values read many times. */
#ifndef UWASA_TEST_RANDOM_GRAPH_H
#define UWASA_TEST_RANDOM_GRAPH_H

#include "model_fixture.h"

#include <stdio.h>
#include <string.h>

#define RANDOM_LAYERS_MAX 24

struct random_graph {
    struct uw_layer_def layers[RANDOM_LAYERS_MAX];
    char names[RANDOM_LAYERS_MAX][16];
    struct uw_model_def def;
};

static inline struct uw_layer_def random_layer(struct uw_rng *r, const char *name)
{
    switch (uw_rng_below(r, 4)) {
    case 0:
        return (struct uw_layer_def)CONV(name, 2, 3, 1, 1);
    case 1:
        return (struct uw_layer_def)POOL(name, 3, 1, 1);
    case 2:
        return (struct uw_layer_def)RELU(name);
    default:
        return (struct uw_layer_def){.kind = UW_LAYER_ADD, .name = name};
    }
}

static inline bool graph_reads(const struct random_graph *g, uint32_t count, const char *name)
{
    for (uint32_t j = 0; j < count; j++) {
        for (uint32_t k = 0; k < UW_LAYER_INPUTS_MAX; k++) {
            if (g->layers[j].inputs[k] != NULL && strcmp(g->layers[j].inputs[k], name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Sum up what nobody reads, so that the graph is legal. Returns the new count. */
static inline uint32_t join_loose_ends(struct random_graph *g, uint32_t count)
{
    for (;;) {
        const char *loose[UW_LAYER_INPUTS_MAX] = {NULL};
        uint32_t loose_n = 0;
        for (uint32_t i = 0; i < count && loose_n < UW_LAYER_INPUTS_MAX; i++) {
            if (!graph_reads(g, count, g->layers[i].name)) {
                loose[loose_n++] = g->layers[i].name;
            }
        }
        if (loose_n < 2) {
            return count;
        }
        snprintf(g->names[count], sizeof g->names[count], "l%u", (unsigned)count);
        g->layers[count] = (struct uw_layer_def){.kind = UW_LAYER_ADD, .name = g->names[count]};
        memcpy(g->layers[count].inputs, loose, sizeof loose);
        count++;
    }
}

/* Input 1x4x3, three classes. */
static inline void random_graph(struct random_graph *g, struct uw_rng *r)
{
    uint32_t n = 1 + uw_rng_below(r, 9);

    *g = (struct random_graph){.layers = {CONV("stem", 2, 3, 1, 1)}};
    for (uint32_t i = 1; i <= n; i++) {
        snprintf(g->names[i], sizeof g->names[i], "l%u", (unsigned)i);
        g->layers[i] = random_layer(r, g->names[i]);
        g->layers[i].inputs[0] = g->layers[uw_rng_below(r, i)].name;
        if (g->layers[i].kind == UW_LAYER_ADD) {
            g->layers[i].inputs[0] = g->layers[i - 1].name;
            g->layers[i].inputs[1] = g->layers[uw_rng_below(r, i)].name;
        }
    }
    uint32_t count = join_loose_ends(g, n + 1);
    g->layers[count] = (struct uw_layer_def)FLATTEN("flat");
    g->layers[count + 1] = (struct uw_layer_def)DENSE("head", 3);
    g->def = (struct uw_model_def){"random", 1, 4, 3, g->layers, count + 2};
}

#endif
