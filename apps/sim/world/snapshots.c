/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshots.h"

#include "uwasa/arena.h"

#include <stdlib.h>
#include <string.h>

int uw_snapshots_open(struct uw_snapshots *s, const struct uw_world *w, uint32_t more)
{
    uint32_t nodes_n = w->config.fleet->devices_n;
    s->size_n = w->config.params->size_n;
    s->n = s->unused_n = nodes_n + more;
    size_t bytes = uw_size_mul(more + 1u, s->size_n * sizeof(float));
    s->memory = bytes != SIZE_MAX ? calloc(1, bytes) : NULL;
    s->x = calloc(s->n, sizeof *s->x);
    s->refs = calloc(s->n, sizeof *s->refs);
    s->unused = calloc(s->n, sizeof *s->unused);
    if (s->memory == NULL || s->x == NULL || s->refs == NULL || s->unused == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        s->x[i] = i < nodes_n ? w->nodes[i].snapshot.data : s->memory + (i - nodes_n) * s->size_n;
        s->unused[i] = s->n - 1u - i;
    }
    return UW_OK;
}

void uw_snapshots_close(struct uw_snapshots *s)
{
    free(s->memory);
    free(s->x);
    free(s->refs);
    free(s->unused);
}

uint32_t uw_snapshot_hold(struct uw_snapshots *s, uint32_t at)
{
    s->refs[at]++;
    return at;
}

void uw_snapshot_drop(struct uw_snapshots *s, uint32_t *at)
{
    uint32_t i = *at;
    *at = UW_SNAPSHOT_NONE;
    if (i != UW_SNAPSHOT_NONE && --s->refs[i] == 0) {
        s->unused[s->unused_n++] = i;
    }
}

void uw_snapshot_write(struct uw_snapshots *s, uint32_t *at, const float *x)
{
    if (*at == UW_SNAPSHOT_NONE || s->refs[*at] > 1) {
        uw_snapshot_drop(s, at);
        *at = uw_snapshot_hold(s, s->unused[--s->unused_n]);
    }
    memcpy(s->x[*at], x, s->size_n * sizeof *x);
}
