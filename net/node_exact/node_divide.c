/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells of any number of nodes.
 *
 * A round takes as many ranks as fit a START, and a node averages only with members of its table.
 * So a cell with more nodes is divided: its nodes are halved by a bit of their identities, the
 * halves again, until each part fits. Every node decides this by its own table, and reports the
 * name of its part as that of its cell; nodes whose tables differ meet again when these agree.
 * Parts exchange their models as cells do, through their heads (node_bridge.c).
 *
 * Where a table lacks a place for others of the run, only the nodes of its own part must stay in it
 * (uw_node_averages.needs); a quarter is left for other parts. */
#include "node_averages.h"

#include "base/bits.h"

#include <stdio.h>
#include <string.h>

#define LOOK_US 500000u
#define BITS_MAX 8u
#define WHOLE_MAX (UW_NODE_NAME_BYTES - 2u - BITS_MAX)  /* of a name, before those of its parts */
#define CROWDED_US 10000000u        /* a table lacks places when it has done so for so long */
#define JOIN_US 10000000u           /* halves that fit together for so long join */

/* Identities of similar names differ in few bits. */
static uint32_t spread(uint32_t id)
{
    uint32_t x = (id ^ id >> 16) * 0x7feb352du;
    return x ^ x >> 15;
}

static bool same_part(uint32_t a, uint32_t b, uint32_t bits)
{
    return bits == 0 || (spread(a) ^ spread(b)) >> (32u - bits) == 0;
}

bool uw_node_in_part(const struct uw_node_state *s, enum uw_average_scope scope, uint32_t id)
{
    return same_part(s->membership.members[0].id, id, s->cell->divisions[scope].bits);
}

/* Is it the cell of this name, or a part of it? */
static bool is_of(const char *whole, const char *cell)
{
    size_t n = strlen(whole);
    const char *part = cell[0] != '\0' ? strchr(cell + 1, UW_CELL_DIVIDED) : NULL;
    if (part == NULL) {
        return strcmp(cell, whole) == 0;
    }
    n = n < WHOLE_MAX ? n : WHOLE_MAX;
    return (size_t)(part - cell) == n && strncmp(cell, whole, n) == 0;
}

/* Nodes of a scope in this node's part of so many bits. */
static uint32_t count(const struct uw_node_state *s, enum uw_average_scope scope, uint32_t bits)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool of_scope = scope == UW_AVERAGE_RUN || is_of(s->cell->whole, m->averaging->cell);
        n += of_scope && uw_node_averages_too(m) &&
             same_part(s->membership.members[0].id, m->id, bits);
    }
    return n;
}

/* A table that is full for a moment, as when nodes change their names, is no reason to divide. */
static bool is_crowded(struct uw_node_state *s)
{
    uint64_t last_us = s->membership.crowded_us;
    bool now = last_us != 0 && s->outer_us - last_us < CROWDED_US;
    uint64_t since_us = s->cell->crowded_us != 0 ? s->cell->crowded_us : last_us;
    s->cell->crowded_us = now ? since_us : 0;
    return now && s->outer_us - since_us >= CROWDED_US;
}

/* Set the bits of a scope so that its parts have up to `most` nodes. */
static void divide(struct uw_node_state *s, enum uw_average_scope scope, uint32_t most,
                   bool crowded)
{
    struct uw_node_division *d = &s->cell->divisions[scope];
    uint32_t before = d->bits;
    while (d->bits < BITS_MAX && count(s, scope, d->bits) > most) {
        d->bits++;
    }
    bool fits = !crowded && before == d->bits && before != 0 &&
                count(s, scope, before - 1u) <= most - most / 4u;
    d->fits_us = !fits ? 0 : d->fits_us != 0 ? d->fits_us : s->now_us;
    if (fits && s->now_us - d->fits_us >= JOIN_US) {
        d->fits_us = 0;
        d->bits--;
    }
    s->cell->stale = s->cell->stale || d->bits != before;
}

static void name_part(struct uw_node_state *s)
{
    uint32_t bits = s->cell->divisions[UW_AVERAGE_CELL].bits;
    uint32_t own = spread(s->membership.members[0].id);
    char name[UW_NODE_NAME_BYTES];
    int at = snprintf(name, sizeof name, "%.*s", (int)(bits != 0 ? WHOLE_MAX : sizeof name),
                      s->cell->whole);
    for (uint32_t i = 0; i <= bits && bits != 0; i++) {
        name[at++] = i == 0 ? UW_CELL_DIVIDED : (own >> (32u - i) & 1u) != 0 ? '1' : '0';
    }
    name[at] = '\0';
    s->cell->scopes[UW_AVERAGE_CELL].cell.config.first_n = bits != 0 ? 0 : s->config.cell_first_n;
    if (strcmp(name, s->cell->name) != 0) {
        strcpy(s->cell->name, name);
        s->cell->stale = true;
        uw_membership_hurry(&s->membership, s->outer_us);
    }
}

uint64_t uw_node_divide(struct uw_node_state *s)
{
    struct uw_node_cell *c = s->cell;
    if (s->now_us < c->divide_us) {
        return c->divide_us;
    }
    c->divide_us = s->now_us + LOOK_US;
    uint32_t most = c->scopes[UW_AVERAGE_RUN].cell.config.ranks_max;
    uint32_t places = s->config.members_max;
    bool crowded = is_crowded(s);
    most = crowded ? uw_min_u32(most, places - places / 4u) : most;
    if (c->whole[0] != '\0') {
        divide(s, UW_AVERAGE_CELL, most, crowded);
        name_part(s);
    }
    divide(s, UW_AVERAGE_RUN, most, crowded);
    return c->divide_us;
}
