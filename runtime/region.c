/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/region.h"

#include "uwasa/model.h"

size_t uw_model_need_of(const struct uw_model_need *need, enum uw_purpose purpose)
{
    switch (purpose) {
    case UW_PURPOSE_SCRATCH:
        return need->scratch_bytes;
    case UW_PURPOSE_ACTIVATIONS:
        return need->activations_bytes;
    case UW_PURPOSE_INPUT:
        return need->input_bytes;
    case UW_PURPOSE_GRADIENTS:
        return need->gradients_bytes;
    case UW_PURPOSE_PARAMETERS:
        return need->parameters_bytes;
    case UW_PURPOSE_OPTIMIZER:
        return need->optimizer_bytes;
    case UW_PURPOSE_GRAPH:
        return need->graph_bytes;
    case UW_PURPOSE_SNAPSHOT:
        return need->snapshot_bytes;
    case UW_PURPOSES_N:
        break;
    }
    return 0;
}

const char *uw_purpose_name(enum uw_purpose purpose)
{
    static const char *const names[UW_PURPOSES_N] = {
        [UW_PURPOSE_SCRATCH] = "scratch",       [UW_PURPOSE_ACTIVATIONS] = "activations",
        [UW_PURPOSE_INPUT] = "input",           [UW_PURPOSE_GRADIENTS] = "gradients",
        [UW_PURPOSE_PARAMETERS] = "parameters", [UW_PURPOSE_OPTIMIZER] = "optimizer",
        [UW_PURPOSE_GRAPH] = "graph",           [UW_PURPOSE_SNAPSHOT] = "snapshot"};
    return purpose < UW_PURPOSES_N ? names[purpose] : "";
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
