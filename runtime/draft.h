/* SPDX-License-Identifier: Apache-2.0
 *
 * draft.h - what measure, bind and describe work out in the workspace (private)
 */
#ifndef UWASA_DRAFT_H
#define UWASA_DRAFT_H

#include "step.h"

struct uw_draft {
    struct uw_graph graph;
    struct uw_slot *slots;
    struct uw_model_need need;
};

/* Graph, plan and bytes of a configuration. Returns what uw_model_measure returns. */
int uw_draft_model(struct uw_draft *d, const struct uw_model_config *config, struct uw_error *err);

/* Samples computed at a time. */
uint32_t uw_draft_micro_n(const struct uw_model_config *config);

/* Minibatches that the model has room for where kernels work: none, one, or a device's two. */
static inline uint32_t uw_draft_inputs(const struct uw_model_config *config)
{
    return uw_device(config->kernels) != NULL ? UW_DEVICE_STEPS_MAX : config->input ? 1 : 0;
}

/* Bytes of a block of n floats. */
size_t uw_draft_floats(size_t n);

#endif
