/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap_gate.h"

static uint32_t look(const atomic_uint_least32_t *number, memory_order order)
{
    return (uint32_t)atomic_load_explicit(number, order);
}

int uw_overlap_gate_place(struct uw_overlap_gate *g, struct uw_arena *arena,
                          struct uw_overlap *overlap)
{
    void *slots = NULL;
    uint32_t n = overlap->config.buckets_n;
    int rc = uw_arena_take(arena, uw_size_mul(n, sizeof *g->slots), &slots);
    *g = (struct uw_overlap_gate){.overlap = overlap, .slots = slots, .slots_n = n};
    for (uint32_t i = 0; i < n && slots != NULL; i++) {
        atomic_init(&g->slots[i].asked, 0);
        atomic_init(&g->slots[i].ended, 0);
        atomic_init(&g->slots[i].how, UW_OVERLAP_IDLE);
    }
    return rc;
}

/* ---- training thread ---- */

void uw_overlap_gate_ready(struct uw_overlap_gate *g, uint32_t bucket, float *x)
{
    struct uw_overlap_slot *s = &g->slots[bucket];
    s->x = x;
    atomic_fetch_add_explicit(&s->asked, 1, memory_order_release);
}

enum uw_overlap_state uw_overlap_gate_state(const struct uw_overlap_gate *g, uint32_t bucket)
{
    const struct uw_overlap_slot *s = &g->slots[bucket];
    if (look(&s->ended, memory_order_acquire) != look(&s->asked, memory_order_relaxed)) {
        return UW_OVERLAP_RUNNING;
    }
    return (enum uw_overlap_state)look(&s->how, memory_order_relaxed);
}

/* ---- network thread ---- */

uint64_t uw_overlap_gate_run(struct uw_overlap_gate *g, uint64_t now_us)
{
    for (uint32_t i = 0; i < g->slots_n; i++) {
        struct uw_overlap_slot *s = &g->slots[i];
        uint32_t asked = look(&s->asked, memory_order_acquire);
        if (asked != s->taken) {
            s->taken = asked;
            uw_overlap_ready(g->overlap, i, s->x, now_us);
        }
    }
    uint64_t next_us = uw_overlap_run(g->overlap, now_us);
    for (uint32_t i = 0; i < g->slots_n; i++) {
        struct uw_overlap_slot *s = &g->slots[i];
        enum uw_overlap_state state = uw_overlap_state(g->overlap, i);
        if (s->taken != look(&s->ended, memory_order_relaxed) && state != UW_OVERLAP_RUNNING) {
            atomic_store_explicit(&s->how, (uint32_t)state, memory_order_relaxed);
            atomic_store_explicit(&s->ended, s->taken, memory_order_release);
        }
    }
    return next_us;
}

bool uw_overlap_gate_idle(const struct uw_overlap_gate *g)
{
    bool idle = true;
    for (uint32_t i = 0; i < g->slots_n && idle; i++) {
        const struct uw_overlap_slot *s = &g->slots[i];
        idle = look(&s->asked, memory_order_acquire) == look(&s->ended, memory_order_relaxed);
    }
    return idle;
}
