/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshots.h - a pool of vectors of parameters with references
 *
 * A vector that is on its way has a reference; its owner writes over it while it has the only one,
 * and takes another vector else. Nodes with equal parameters share one.
 *
 * Memory     from the heap, touched as far as it is used; the nodes' own snapshots come first
 */
#ifndef UWASA_SIM_SNAPSHOTS_H
#define UWASA_SIM_SNAPSHOTS_H

#include "uwasa/sim_world.h"

#define UW_SNAPSHOT_NONE UINT32_MAX

struct uw_snapshots {
    float **x;                      /* [n] vectors of size_n */
    float *memory;                  /* of those that no node owns */
    uint32_t *refs, *unused;        /* [n]; the numbers of those with no reference, a stack */
    uint32_t n, unused_n;
    size_t size_n;
};

/* The nodes' own and so many `more`. Returns UW_OK or UW_ERR_NOMEM; close in every case. */
int uw_snapshots_open(struct uw_snapshots *s, const struct uw_world *w, uint32_t more);

void uw_snapshots_close(struct uw_snapshots *s);

/* One more reference to a snapshot, which is returned. */
uint32_t uw_snapshot_hold(struct uw_snapshots *s, uint32_t at);

/* Give one reference back, and set it to NONE; of none: nothing. */
void uw_snapshot_drop(struct uw_snapshots *s, uint32_t *at);

/* Make *at, a reference or none, a snapshot of x that no other reference shares. */
void uw_snapshot_write(struct uw_snapshots *s, uint32_t *at, const float *x);

#endif
