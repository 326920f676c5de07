/* SPDX-License-Identifier: Apache-2.0
 *
 * Lifetimes first, then offsets: the largest block goes first, each to the lowest offset where no
 * block that lives at the same time stands. Two blocks overlap in memory only if their lifetimes
 * are disjoint; tests check that over random graphs. */
#include "graph.h"

#include "uwasa/arena.h"

struct planner {
    const struct uw_graph *g;
    uint32_t batch_n;
    bool training;
    struct uw_slot *slots;
};

static void live(struct planner *p, uint32_t slot, uint32_t from, uint32_t to, size_t bytes)
{
    struct uw_slot *s = &p->slots[slot];
    if (s->bytes == 0) {
        *s = (struct uw_slot){.birth = from, .death = to, .bytes = bytes};
        return;
    }
    s->birth = from < s->birth ? from : s->birth;
    s->death = to > s->death ? to : s->death;
    s->bytes = bytes > s->bytes ? bytes : s->bytes;
}

static size_t batch_bytes(const struct planner *p, size_t sample_bytes)
{
    return uw_arena_padded(uw_size_mul(sample_bytes, p->batch_n));
}

/* May layer l write its output over its input, and its input's gradient over its output's? */
static bool shares_with_input(const struct uw_graph *g, const struct uw_layer *l, uint32_t *base)
{
    *base = uw_graph_base(g->layers, l->input[0]);
    if (!l->ops->in_place || *base == UW_VALUE_INPUT) {
        return false;
    }
    const struct uw_layer *producer = &g->layers[*base - 1];
    return producer->readers_n == 1 && !producer->ops->reads_y;
}

static void find_roots(const struct uw_graph *g)
{
    uint32_t base;

    for (uint32_t i = 0; i < g->layers_n; i++) {
        struct uw_layer *l = &g->layers[i];
        l->y_root = shares_with_input(g, l, &base) ? g->layers[base - 1].y_root : i;
        l->dy_root = i;
    }
    for (uint32_t i = g->layers_n; i-- > 0;) {
        if (shares_with_input(g, &g->layers[i], &base)) {
            g->layers[base - 1].dy_root = g->layers[i].dy_root;
        }
    }
}

/* The last step that reads the value of layer i. */
static uint32_t last_use(const struct planner *p, uint32_t i)
{
    const struct uw_graph *g = p->g;
    uint32_t end = 2 * g->layers_n;
    uint32_t last = g->layers[i].last_reader;

    if (p->training && g->layers[i].ops->reads_y && g->layers[i].needs_gradient) {
        last = end - i;
    }
    for (uint32_t r = i + 1; r < g->layers_n && p->training; r++) {
        const struct uw_layer *reader = &g->layers[r];
        if (!reader->ops->reads_x || reader->tensors_n == 0) {
            continue;
        }
        for (uint32_t k = 0; k < reader->inputs_n; k++) {
            if (uw_graph_base(g->layers, reader->input[k]) == i + 1 && end - r > last) {
                last = end - r;
            }
        }
    }
    return last;
}

static void find_lifetimes(struct planner *p)
{
    const struct uw_graph *g = p->g;
    uint32_t end = 2 * g->layers_n;

    for (uint32_t i = 0; i < g->layers_n; i++) {
        const struct uw_layer *l = &g->layers[i];
        if (l->ops->view) {
            continue;
        }
        size_t bytes = batch_bytes(p, uw_size_mul(l->out_n, sizeof(float)));
        live(p, UW_SLOT_Y(g, l->y_root), i, last_use(p, i), bytes);
        if (!p->training || !l->needs_gradient) {
            continue;
        }
        uint32_t first = l->last_reader == g->layers_n ? g->layers_n : end - l->last_reader;
        live(p, UW_SLOT_DY(g, l->dy_root), first, end - i, bytes);
        if (l->aux_sample_bytes > 0) {
            live(p, UW_SLOT_AUX(g, i), i, end - i, batch_bytes(p, l->aux_sample_bytes));
        }
    }
    live(p, UW_SLOT_P(g), g->layers_n, end, batch_bytes(p, uw_size_mul(g->classes, sizeof(float))));
}

/* Larger first, then older first, then by index: a total order, so plans are reproducible. */
static bool placed_before(const struct uw_slot *slots, uint32_t a, uint32_t b)
{
    if (slots[a].bytes != slots[b].bytes) {
        return slots[a].bytes > slots[b].bytes;
    }
    return slots[a].birth != slots[b].birth ? slots[a].birth < slots[b].birth : a < b;
}

static void sort_by_size(const struct uw_slot *slots, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = i;
        for (; j > 0 && placed_before(slots, i, order[j - 1]); j--) {
            order[j] = order[j - 1];
        }
        order[j] = i;
    }
}

static bool lifetimes_meet(const struct uw_slot *a, const struct uw_slot *b)
{
    return a->birth <= b->death && b->birth <= a->death;
}

/* Lowest offset free during the slot's whole life. order[0 .. placed-1] are placed and sorted by
 * offset. */
static size_t find_gap(const struct uw_slot *slots, const uint32_t *order, uint32_t placed,
                       const struct uw_slot *slot)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < placed; i++) {
        const struct uw_slot *other = &slots[order[i]];
        if (!lifetimes_meet(slot, other)) {
            continue;
        }
        if (other->offset >= offset && other->offset - offset >= slot->bytes) {
            break;
        }
        if (other->offset + other->bytes > offset) {
            offset = other->offset + other->bytes;
        }
    }
    return offset;
}

static size_t place_slots(struct uw_slot *slots, uint32_t *order, uint32_t n)
{
    size_t top = 0;

    sort_by_size(slots, order, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t next = order[i];
        struct uw_slot *slot = &slots[next];
        if (slot->bytes == 0) {
            continue;
        }
        slot->offset = find_gap(slots, order, i, slot);
        if (slot->bytes > SIZE_MAX / 2 || slot->offset > SIZE_MAX / 2) {
            return SIZE_MAX;
        }
        if (slot->offset + slot->bytes > top) {
            top = slot->offset + slot->bytes;
        }
        uint32_t j = i;
        for (; j > 0 && slots[order[j - 1]].offset > slot->offset; j--) {
            order[j] = order[j - 1];
        }
        order[j] = next;
    }
    return top;
}

size_t uw_plan_build(const struct uw_graph *g, uint32_t batch_n, bool training,
                     struct uw_slot *slots, uint32_t *order)
{
    struct planner p = {.g = g, .batch_n = batch_n, .training = training, .slots = slots};
    uint32_t n = UW_SLOTS_N(g->layers_n);

    for (uint32_t i = 0; i < n; i++) {
        slots[i] = (struct uw_slot){0};
    }
    find_roots(g);
    find_lifetimes(&p);
    return place_slots(slots, order, n);
}
