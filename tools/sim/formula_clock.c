/* SPDX-License-Identifier: Apache-2.0 */
#include "formula_clock.h"

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdlib.h>

int uw_formula_clock_open(struct uw_formula_clock *c, uint32_t alarms_n)
{
    *c = (struct uw_formula_clock){.due_us = malloc(alarms_n * sizeof *c->due_us),
                                   .heap = malloc(alarms_n * sizeof *c->heap),
                                   .at = malloc(alarms_n * sizeof *c->at),
                                   .alarms_n = alarms_n};
    if (c->due_us == NULL || c->heap == NULL || c->at == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < alarms_n; i++) {
        c->due_us[i] = UW_FORMULA_NEVER;
        c->heap[i] = c->at[i] = i;
    }
    return UW_OK;
}

void uw_formula_clock_close(struct uw_formula_clock *c)
{
    free(c->due_us);
    free(c->heap);
    free(c->at);
    *c = (struct uw_formula_clock){.due_us = NULL};
}

static bool before(const struct uw_formula_clock *c, uint32_t a, uint32_t b)
{
    return c->due_us[a] < c->due_us[b] || (c->due_us[a] == c->due_us[b] && a < b);
}

static void put(struct uw_formula_clock *c, uint32_t at, uint32_t alarm)
{
    c->heap[at] = alarm;
    c->at[alarm] = at;
}

void uw_formula_clock_set(struct uw_formula_clock *c, uint32_t alarm, uint64_t due_us)
{
    uint32_t at = c->at[alarm];
    c->due_us[alarm] = due_us;
    while (at > 0 && before(c, alarm, c->heap[(at - 1u) / 2u])) {
        put(c, at, c->heap[(at - 1u) / 2u]);
        at = (at - 1u) / 2u;
    }
    for (;;) {
        uint32_t child = 2u * at + 1u;
        if (child >= c->alarms_n) {
            break;
        }
        if (child + 1u < c->alarms_n && before(c, c->heap[child + 1u], c->heap[child])) {
            child++;
        }
        if (!before(c, c->heap[child], alarm)) {
            break;
        }
        put(c, at, c->heap[child]);
        at = child;
    }
    put(c, at, alarm);
}
