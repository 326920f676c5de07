/* SPDX-License-Identifier: Apache-2.0
 *
 * axes.h - the sizes of a sample as an array (private): [c], [c][w], [c][h][w] */
#ifndef UWASA_LAYERS_AXES_H
#define UWASA_LAYERS_AXES_H

#include "layer.h"

/* Sizes of the axes 0 .. rank-1; 1 behind them. */
static inline void uw_axes_of(const struct uw_shape *s, uint32_t dim[3])
{
    dim[0] = s->c;
    dim[1] = s->rank == 2 ? s->w : s->h;
    dim[2] = s->rank == 3 ? s->w : 1;
}

static inline struct uw_shape uw_shape_of_axes(uint32_t rank, const uint32_t dim[3])
{
    struct uw_shape s = {dim[0], 1, 1, rank};
    s.h = rank == 3 ? dim[1] : 1;
    s.w = rank == 3 ? dim[2] : rank == 2 ? dim[1] : 1;
    return s;
}

#endif
