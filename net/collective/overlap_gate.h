/* SPDX-License-Identifier: Apache-2.0
 *
 * overlap_gate.h - buckets handed between the training thread and the network thread
 *
 * The training thread hands a gradient over as backward has made it, and looks before the next
 * forward pass needs it; the network thread has it in between.
 *
 *     training:  ready(bucket, x) . . . . . . . . . . . state(bucket) is not running: update
 *     network:         run(): overlap.h in x . . . . . ended
 *
 * So m->bucket_ready of a model with late updates (uwasa/bucket.h) is uw_overlap_gate_ready, and
 * m->bucket_wait looks at uw_overlap_gate_state until it is another than UW_OVERLAP_RUNNING. The
 * network thread begins a group while the gate is idle, and gives one up at any time.
 *
 * Memory     a few words a bucket from an arena; gradients are lent from ready to the end
 * Blocking   never      Context  each function names its thread
 */
#ifndef UW_NET_OVERLAP_GATE_H
#define UW_NET_OVERLAP_GATE_H

#include "overlap.h"

#include <stdatomic.h>

struct uw_overlap_slot {
    float *x;                               /* written before asked */
    atomic_uint_least32_t asked, ended;     /* times; training, network */
    atomic_uint_least32_t how;              /* enum uw_overlap_state, written before ended */
    uint32_t taken;                         /* network */
};

struct uw_overlap_gate {
    struct uw_overlap *overlap;
    struct uw_overlap_slot *slots;          /* [slots_n] a bucket each */
    uint32_t slots_n;
};

/* For an overlap that is placed already. Returns UW_OK or what uw_arena_take returns. */
int uw_overlap_gate_place(struct uw_overlap_gate *g, struct uw_arena *arena,
                          struct uw_overlap *overlap);

/* Training. Hand a bucket's gradient over; the bucket is not running. */
void uw_overlap_gate_ready(struct uw_overlap_gate *g, uint32_t bucket, float *x);

/* Training. UW_OVERLAP_RUNNING from ready on; then UW_OVERLAP_DONE or UW_OVERLAP_STOPPED, and x is
 * the training thread's again. UW_OVERLAP_IDLE before the first ready. */
enum uw_overlap_state uw_overlap_gate_state(const struct uw_overlap_gate *g, uint32_t bucket);

/* Network. Take what was handed over, run, hand back what has ended. Returns when it wants to run
 * again, if nothing arrives and nothing is handed over; UINT64_MAX: never. */
uint64_t uw_overlap_gate_run(struct uw_overlap_gate *g, uint64_t now_us);

/* Network. Is every bucket with the training thread? */
bool uw_overlap_gate_idle(const struct uw_overlap_gate *g);

#endif
