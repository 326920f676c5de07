/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/region.h"

#include "graph.h"

#include <stddef.h>

static const struct {
    char name[12];
    uint8_t offset;                 /* of the byte count in struct uw_model_need */
} purposes[UW_PURPOSES_N] = {
#define PURPOSE(number, name) [number] = {#name, offsetof(struct uw_model_need, name##_bytes)}
    PURPOSE(UW_PURPOSE_SCRATCH, scratch),       PURPOSE(UW_PURPOSE_ACTIVATIONS, activations),
    PURPOSE(UW_PURPOSE_INPUT, input),           PURPOSE(UW_PURPOSE_GRADIENTS, gradients),
    PURPOSE(UW_PURPOSE_PARAMETERS, parameters), PURPOSE(UW_PURPOSE_OPTIMIZER, optimizer),
    PURPOSE(UW_PURPOSE_GRAPH, graph),           PURPOSE(UW_PURPOSE_SNAPSHOT, snapshot)};

size_t *uw_purpose_bytes(struct uw_model_need *need, enum uw_purpose purpose)
{
    return (size_t *)(void *)((char *)need + purposes[purpose].offset);
}

size_t uw_model_need_of(const struct uw_model_need *need, enum uw_purpose purpose)
{
    struct uw_model_need *readable = (struct uw_model_need *)(uintptr_t)need;
    return purpose < UW_PURPOSES_N ? *uw_purpose_bytes(readable, purpose) : 0;
}

const char *uw_purpose_name(enum uw_purpose purpose)
{
    return purpose < UW_PURPOSES_N ? purposes[purpose].name : "";
}

int uw_regions_place(struct uw_regions *r, const struct uw_model_need *need, struct uw_error *err)
{
    size_t left[UW_REGIONS_MAX];

    if (r->n == 0 || r->n > UW_REGIONS_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "%u regions: needs 1 to %u", (unsigned)r->n,
                            UW_REGIONS_MAX);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        left[i] = r->region[i].bytes;
    }
    for (uint32_t p = 0; p < UW_PURPOSES_N; p++) {
        size_t bytes = uw_model_need_of(need, (enum uw_purpose)p);
        uint8_t i = 0;
        while (i < r->n && left[i] < bytes) {
            i++;
        }
        if (i == r->n) {
            return uw_error_set(err, UW_ERR_NOMEM, "the %s, %lu bytes, fit into no region",
                                uw_purpose_name((enum uw_purpose)p), (unsigned long)bytes);
        }
        r->of[p] = i;
        left[i] -= bytes;
    }
    return UW_OK;
}
