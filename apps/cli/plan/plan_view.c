/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_view.h"

#include "base/progress.h"

#include "uwasa/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_COLUMNS 40u
#define CHART_COLUMNS 64u
#define CHART_ROWS 8u

struct view {
    struct uw_layer_info *layers;
    struct uw_block_info *blocks;
    uint32_t layers_n, blocks_n;
    uint32_t end;               /* last step of the plan */
    bool training;
};

static void add_layer(void *arg, const struct uw_layer_info *layer)
{
    struct view *v = arg;
    v->layers[v->layers_n++] = *layer;
    v->end = v->training && layer->backward_step > v->end ? layer->backward_step : v->end;
}

static void add_block(void *arg, const struct uw_block_info *block)
{
    struct view *v = arg;
    v->blocks[v->blocks_n++] = *block;
    v->end = block->death > v->end ? block->death : v->end;
}

static int collect(const struct uw_job *job, struct view *v, struct uw_error *err)
{
    struct uw_model_config config = job->config;
    struct uw_workers planned = job->planned;
    size_t n = config.def->layers_n;
    const struct uw_visitor visitor = {add_layer, add_block, v};

    *v = (struct view){.layers = calloc(n, sizeof *v->layers),
                       .blocks = calloc(5 * n + 1, sizeof *v->blocks),
                       .training = config.mode != UW_PLAN_INFERENCE};
    if (v->layers == NULL || v->blocks == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    config.workers = &planned;
    return uw_model_describe(&config, &visitor, err);
}

static void print_shape(const struct uw_layer_info *l)
{
    char text[40];
    size_t used = 0;
    for (uint32_t i = 0; i < l->out_rank; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, i > 0 ? "x%u" : "%u",
                                 (unsigned)l->out[i]);
    }
    printf(" %-12s", text);
}

static void print_bar(const struct view *v, uint32_t layer)
{
    static const char marks[] = "#=-#-#";
    char bar[BAR_COLUMNS + 1];

    memset(bar, ' ', BAR_COLUMNS);
    bar[BAR_COLUMNS] = '\0';
    for (uint32_t i = 0; i < v->blocks_n; i++) {
        const struct uw_block_info *b = &v->blocks[i];
        if (b->layer != layer) {
            continue;
        }
        uint32_t from = b->birth * (BAR_COLUMNS - 1) / (v->end > 0 ? v->end : 1);
        uint32_t to = b->death * (BAR_COLUMNS - 1) / (v->end > 0 ? v->end : 1);
        for (uint32_t c = from; c <= to; c++) {
            bar[c] = bar[c] == '#' ? '#' : marks[b->kind];
        }
    }
    printf(" |%s|\n", bar);
}

static void print_layer(const struct view *v, uint32_t i)
{
    const struct uw_layer_info *l = &v->layers[i];
    size_t bytes = 0;

    for (uint32_t k = 0; k < v->blocks_n; k++) {
        bytes += v->blocks[k].layer == i ? v->blocks[k].bytes : 0;
    }
    printf("%-16.16s %-12.12s", l->name, l->kind);
    print_shape(l);
    printf(" %10u %12llu %10zu", (unsigned)l->parameters_n, (unsigned long long)l->multiply_adds,
           bytes);
    print_bar(v, i);
}

static void print_layers(const struct view *v)
{
    printf("\n%-16s %-12s %-12s %10s %12s %10s  %s\n", "layer", "type", "output", "parameters",
           "multiply-add", "bytes", "in memory: # output, = gradient, - kept");
    for (uint32_t i = 0; i < v->layers_n; i++) {
        print_layer(v, i);
    }
}

/* Bytes alive at one step. */
static size_t alive(const struct view *v, uint32_t step)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < v->blocks_n; i++) {
        const struct uw_block_info *b = &v->blocks[i];
        sum += b->birth <= step && step <= b->death ? b->bytes : 0;
    }
    return sum;
}

/* Each column stands for several steps, or for a part of one: it shows the most of them. */
static size_t column_bytes(const struct view *v, uint32_t column)
{
    uint32_t steps = v->end + 1;
    uint32_t from = (uint32_t)((uint64_t)column * steps / CHART_COLUMNS);
    uint32_t to = (uint32_t)((uint64_t)(column + 1) * steps / CHART_COLUMNS);
    size_t most = alive(v, from);

    for (uint32_t s = from + 1; s < to; s++) {
        size_t now = alive(v, s);
        most = now > most ? now : most;
    }
    return most;
}

static void print_chart(const struct view *v)
{
    size_t column[CHART_COLUMNS], most = 0;
    char text[UW_TEXT_BYTES];

    for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
        column[c] = column_bytes(v, c);
        most = column[c] > most ? column[c] : most;
    }
    printf("\nactivations in use over one %s\n", v->training ? "training step" : "forward pass");
    for (uint32_t row = CHART_ROWS; row > 0; row--) {
        size_t level = most / CHART_ROWS * (row - 1);
        printf("%10s |", row == CHART_ROWS ? uw_text_bytes((double)most, text) : "");
        for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
            putchar(column[c] > level ? '#' : ' ');
        }
        putchar('\n');
    }
    uint32_t turn = v->layers_n * CHART_COLUMNS / (v->end + 1);
    printf("%10s +%-*.*s%s\n", "", (int)turn, (int)turn, "forward",
           v->training ? "backward" : "");
}

int uw_plan_view(const struct uw_job *job, bool layers, struct uw_error *err)
{
    struct view v;
    int rc = collect(job, &v, err);
    if (rc == UW_OK) {
        print_chart(&v);
    }
    if (rc == UW_OK && layers) {
        print_layers(&v);
    }
    free(v.layers);
    free(v.blocks);
    return rc;
}
