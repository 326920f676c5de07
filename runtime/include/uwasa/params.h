/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/params.h - the parameters as one flat vector with named segments, and its snapshot
 *
 * The interface between a model and `net/`. The training thread owns `x`. Between steps it
 * publishes a copy, the snapshot, which any thread may read piece by piece during training. Neither
 * side waits: UW_ERR_AGAIN means that the other is busy.
 *
 * Units      _n counts floats
 * Memory     everything here points into the model's arena
 * Blocking   never      Context  publish: training thread; read: any thread
 */
#ifndef UWASA_PARAMS_H
#define UWASA_PARAMS_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_SHAPE_RANK_MAX 4

/* One parameter tensor inside the flat vector. */
struct uw_segment {
    const char *name;               /* "conv1.weight" */
    uint32_t offset_n, size_n;
    uint32_t dim[UW_SHAPE_RANK_MAX];
    uint32_t rank;
    bool statistic;                 /* a running statistic: mixed like the others, not trained */
    bool variance;                  /* a running statistic that is never negative */
    uint32_t state_n;               /* offset of its gradient and optimizer state in vectors of the
                                       trained parameters; UINT32_MAX: not trained */
};

struct uw_params {
    float *x;                       /* [size_n], the live parameters */
    uint32_t size_n;
    const struct uw_segment *segments;
    uint32_t segments_n;
    uint64_t hash;                  /* FNV-1a 64 over names and dims: equal for equal layouts */
};

/* A published copy of the parameters. data == NULL: the model was planned without one. */
struct uw_snapshot {
    float *data;                    /* [size_n] */
    uint32_t size_n;
    uint32_t version;               /* 0: nothing published yet; then 1, 2, ... */
    uint64_t step;                  /* training steps done when it was published */
    uw_atomic_flag busy;
};

/* Version of the floats that were read. */
struct uw_snapshot_info {
    uint32_t version;
    uint64_t step;
};

/* Copy x into the snapshot and give it the next version.
 *
 * Returns UW_OK, UW_ERR_AGAIN (being read: publish after the next step instead),
 * UW_ERR_UNSUPPORTED (planned without a snapshot). */
int uw_snapshot_publish(struct uw_snapshot *s, const float *x, uint64_t step);

/* Copy floats offset_n .. offset_n+count_n-1 of the newest version, all from the same version.
 *
 *   out   [count_n] written only on success
 *
 * Returns UW_OK, UW_ERR_AGAIN (being published now, or nothing published yet), UW_ERR_INVALID
 * (range outside the vector), UW_ERR_UNSUPPORTED. */
int uw_snapshot_read(struct uw_snapshot *s, uint32_t offset_n, uint32_t count_n, float *out,
                     struct uw_snapshot_info *info);

/* Find a segment by its name; NULL for an unknown name. */
const struct uw_segment *uw_params_find(const struct uw_params *p, const char *name);

UW_C_END
#endif
