/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/region.h - assign the blocks of a model to memory regions
 *
 * Boards have fast memory (tightly coupled), slow memory (external) and flash. uw_regions_place
 * assigns blocks by purpose: those accessed most often for their size go to the first region that
 * has space. uw_model_bind allocates each block from its region's arena. Parameters that never
 * change can stay in flash: struct uw_constant of uwasa/model.h.
 *
 * Memory     arenas are the caller's and must outlive the model
 */
#ifndef UWASA_REGION_H
#define UWASA_REGION_H

#include "uwasa/arena.h"
#include "uwasa/cplusplus.h"
#include "uwasa/status.h"

#include <stdint.h>

UW_C_BEGIN

#define UW_REGIONS_MAX 4

enum uw_purpose {
    UW_PURPOSE_SCRATCH = 0,         /* ordered by the benefit of fast memory */
    UW_PURPOSE_ACTIVATIONS,
    UW_PURPOSE_INPUT,
    UW_PURPOSE_GRADIENTS,
    UW_PURPOSE_PARAMETERS,
    UW_PURPOSE_OPTIMIZER,
    UW_PURPOSE_GRAPH,
    UW_PURPOSE_SNAPSHOT,
    UW_PURPOSES_N
};

struct uw_region {
    const char *name;               /* "dtcm" */
    struct uw_arena *arena;         /* may be NULL for uw_regions_place */
    size_t bytes;                   /* available for the model */
};

struct uw_regions {
    struct uw_region region[UW_REGIONS_MAX];    /* the fastest first */
    uint32_t n;
    uint8_t of[UW_PURPOSES_N];      /* region of each purpose */
};

struct uw_model_need;

/* Bytes of one purpose in a plan. */
size_t uw_model_need_of(const struct uw_model_need *need, enum uw_purpose purpose);

/* Name of a purpose: "activations". */
const char *uw_purpose_name(enum uw_purpose purpose);

/* Fill r->of. Returns UW_OK, or UW_ERR_NOMEM with err naming the purpose that fits nowhere. */
int uw_regions_place(struct uw_regions *r, const struct uw_model_need *need,
                     struct uw_error *err);

UW_C_END
#endif
