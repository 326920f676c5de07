/* SPDX-License-Identifier: Apache-2.0 */
#include "world_clock.h"

#include "uwasa/status.h"

#include <stdlib.h>

#define BRANCHES 4u

static bool earlier(const struct uw_sim_due *a, const struct uw_sim_due *b)
{
    if (a->at_us != b->at_us) {
        return a->at_us < b->at_us;
    }
    return a->turn != b->turn ? a->turn < b->turn : a->place < b->place;
}

int uw_sim_clock_open(struct uw_sim_clock *c, uint32_t nodes_n)
{
    *c = (struct uw_sim_clock){.nodes_n = nodes_n};
    c->heap = calloc(nodes_n, sizeof *c->heap);
    c->where = calloc(nodes_n, sizeof *c->where);
    if (c->heap == NULL || c->where == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < nodes_n; i++) {
        c->heap[i] = (struct uw_sim_due){.at_us = UINT64_MAX, .turn = UW_SIM_NETWORK, .place = i};
        c->where[i] = i;
    }
    return UW_OK;
}

static void put(struct uw_sim_clock *c, uint32_t i, const struct uw_sim_due *due)
{
    c->heap[i] = *due;
    c->where[due->place] = i;
}

void uw_sim_clock_set(struct uw_sim_clock *c, uint32_t place, uint64_t at_us,
                      enum uw_sim_turn turn)
{
    const struct uw_sim_due due = {.at_us = at_us, .turn = (uint32_t)turn, .place = place};
    uint32_t i = c->where[place];
    while (i != 0 && earlier(&due, &c->heap[(i - 1u) / BRANCHES])) {
        put(c, i, &c->heap[(i - 1u) / BRANCHES]);
        i = (i - 1u) / BRANCHES;
    }
    for (;;) {
        uint32_t first = BRANCHES * i + 1u;
        uint32_t end = first + BRANCHES < c->nodes_n ? first + BRANCHES : c->nodes_n;
        for (uint32_t k = first + 1u; k < end; k++) {
            first = earlier(&c->heap[k], &c->heap[first]) ? k : first;
        }
        if (first >= c->nodes_n || !earlier(&c->heap[first], &due)) {
            break;
        }
        put(c, i, &c->heap[first]);
        i = first;
    }
    put(c, i, &due);
}

void uw_sim_clock_close(struct uw_sim_clock *c)
{
    free(c->heap);
    free(c->where);
    *c = (struct uw_sim_clock){.heap = NULL};
}
