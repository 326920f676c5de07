/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions: for what does not come, and whether what was sent has come. */
#include "allreduce_priv.h"

#include "base/bits.h"

#define NUDGES_MAX 4u
#define LOSSLESS_TRIES_MAX 6u

void uw_allreduce_tell(struct uw_allreduce *a, uint32_t rank, enum uw_part_type type,
                       uint32_t round, uint32_t step)
{
    struct uw_part p = {.type = type, .round = round, .step = (uint16_t)step};
    (void)uw_allreduce_send(a, rank, &p);
}

void uw_allreduce_tell_done(struct uw_allreduce *a, uint32_t rank, uint32_t round,
                            bool reply)
{
    struct uw_part p = {.type = UW_PART_DONE, .round = round, .reply = reply};
    (void)uw_allreduce_send(a, rank, &p);
}

void uw_allreduce_nudge_later(struct uw_allreduce *a)
{
    a->nudge_us = a->now_us + (a->patience_us << uw_min_u32(a->nudges++, NUDGES_MAX));
}

/* The last question may have been overtaken by the answer to one before it: that errs on the short
 * side, and the next one less. */
void uw_allreduce_answered(struct uw_allreduce *a)
{
    if (a->asked_us != 0) {
        uint64_t twice_us = 2u * (a->now_us - a->asked_us);
        a->patience_us = twice_us > a->patience_us ? twice_us : a->patience_us;
        a->asked_us = 0;
    }
}

uint64_t uw_allreduce_ask(struct uw_allreduce *a)
{
    struct uw_part p = {.type = UW_PART_WANT, .round = a->r.round, .step = (uint16_t)a->k};
    if (a->pull.active) {
        while (uw_pull_next(&a->pull, a->config.window_chunks, a->now_us, &p.want)) {
            a->meter.asked += uw_bits_in(p.want.wanted);
            (void)uw_allreduce_send(a, a->step.from, &p);
        }
        return uw_pull_next_us(&a->pull, a->config.window_chunks, a->now_us);
    }
    if (a->now_us >= a->ask_us) {
        p.want = (struct uw_want){.transfer = (uint16_t)a->k, .chunk_n = a->r.chunk_n,
                                  .wanted = 1};
        (void)uw_allreduce_send(a, a->step.from, &p);
        a->asked_us = a->now_us;
        uint32_t most = a->config.lossless ? LOSSLESS_TRIES_MAX : UW_ALLREDUCE_TRIES_MAX;
        a->ask_us = a->now_us + (a->patience_us << uw_min_u32(a->tries++, most));
    }
    return a->ask_us;
}

uint64_t uw_allreduce_nudge_for_got(struct uw_allreduce *a)
{
    if (a->held == UW_ALLREDUCE_NONE) {
        return UINT64_MAX;
    }
    if (a->now_us >= a->nudge_us) {
        struct uw_allreduce_step s = uw_allreduce_step_at(a, a->held);
        const struct uw_want want = {.transfer = (uint16_t)a->held, .chunk_n = a->r.chunk_n,
                                     .base = (s.send_n - 1) / a->r.chunk_n, .wanted = 1};
        uw_allreduce_add_out(a, s.to, a->r.round, &want);
        uw_allreduce_nudge_later(a);
    }
    return a->nudge_us;
}

uint64_t uw_allreduce_nudge_for_done(struct uw_allreduce *a)
{
    if (uw_allreduce_settled(a)) {
        return UINT64_MAX;
    }
    if (a->now_us >= a->nudge_us) {
        for (uint32_t k = 0; k < a->steps_n; k++) {
            struct uw_allreduce_step s = uw_allreduce_step_at(a, k);
            if (s.send_n > 0 && a->done[s.to] <= a->r.round) {
                uw_allreduce_tell_done(a, s.to, a->r.round, true);
            }
        }
        /* In the round before others may have been sent to. */
        const struct uw_allreduce_kept *old = &a->kept[(a->r.round + 1) % 2];
        for (uint32_t k = 0; k < old->steps_n; k++) {
            if (old->message[k].n != 0 && a->done[old->message[k].to] <= old->round) {
                uw_allreduce_tell_done(a, old->message[k].to, a->r.round, true);
            }
        }
        uw_allreduce_nudge_later(a);
    }
    return a->nudge_us;
}
