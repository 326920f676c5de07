/* SPDX-License-Identifier: Apache-2.0
 *
 * What came before there was a place for it. */
#include "allreduce_priv.h"

#include <string.h>

static void note_next(struct uw_allreduce *a, const struct uw_part *p)
{
    uint32_t next = p->offset_n / a->r.chunk_n + 1u;
    if (p->step < a->steps_max && next > a->dropped[p->step].next) {
        a->dropped[p->step].next = next;
    }
}

void uw_allreduce_store_early(struct uw_allreduce *a, uint32_t from, const struct uw_part *p)
{
    for (uint32_t i = 0; i < a->early_n; i++) {
        if (a->early[i].round == p->round && a->early[i].step == p->step &&
            a->early[i].from == from && a->early[i].offset_n == p->offset_n) {
            return;
        }
    }
    if (a->early_n == UW_ALLREDUCE_EARLY_MAX || p->count_n > a->store_n - a->early_used_n) {
        if (p->step < a->steps_max && a->dropped[p->step].round != (p->round & (UINT32_MAX >> 1))) {
            struct uw_part stop = {.type = UW_PART_WAIT, .round = p->round, .step = p->step,
                                   .reply = true};
            (void)uw_allreduce_send(a, from, &stop);
            a->dropped[p->step].round = p->round & (UINT32_MAX >> 1);
            a->dropped[p->step].whole = p->reply;
            a->dropped[p->step].next = 0;
            a->dropped_us = a->now_us;
        }
        note_next(a, p);
        return;
    }
    a->early[a->early_n++] = (struct uw_allreduce_early){
        .round = p->round, .from = from, .at = a->early_used_n, .offset_n = p->offset_n,
        .count_n = p->count_n, .step = p->step, .whole = p->reply};
    memcpy(a->early_x + a->early_used_n, p->floats, p->count_n * sizeof(float));
    a->early_used_n += p->count_n;
}

void uw_allreduce_tidy_early(struct uw_allreduce *a)
{
    uint32_t n = 0, used_n = 0;
    for (uint32_t i = 0; i < a->early_n; i++) {
        struct uw_allreduce_early e = a->early[i];
        if (e.round > a->r.round || (e.round == a->r.round && e.step >= a->k)) {
            memmove(a->early_x + used_n, a->early_x + e.at, e.count_n * sizeof(float));
            e.at = used_n;
            used_n += e.count_n;
            a->early[n++] = e;
        }
    }
    a->early_n = n;
    a->early_used_n = used_n;
}
