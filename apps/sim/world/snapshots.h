/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshots.h - a pool of reference-counted parameter vectors
 *
 * A vector in transit is referenced. Its owner overwrites it only while it holds the only reference
 * and otherwise uses another vector. Nodes with equal parameters share one.
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
    uint32_t *refs, *unused;        /* [n] counts; stack of the vectors with no reference */
    uint32_t n, unused_n;
    size_t size_n;
};

/* Set up the nodes' own vectors and `more`. Returns UW_OK or UW_ERR_NOMEM; close in every case. */
int uw_snapshots_open(struct uw_snapshots *s, const struct uw_world *w, uint32_t more);

void uw_snapshots_close(struct uw_snapshots *s);

/* Add a reference to a snapshot. Returns it. */
uint32_t uw_snapshot_hold(struct uw_snapshots *s, uint32_t at);

/* Drop a reference and set it to NONE; does nothing if it is NONE. */
void uw_snapshot_drop(struct uw_snapshots *s, uint32_t *at);

/* Set *at, a reference or NONE, to a copy of x that no other reference shares. */
void uw_snapshot_write(struct uw_snapshots *s, uint32_t *at, const float *x);

#endif
