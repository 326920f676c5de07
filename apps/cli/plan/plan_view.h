/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_view.h - a memory plan for people: the layers, and what lives when
 */
#ifndef UWASA_CLI_PLAN_VIEW_H
#define UWASA_CLI_PLAN_VIEW_H

#include "job/job.h"

/* Print every layer: shape, parameters, multiply-adds, and a bar that shows when its output (#),
 * its gradient (=) or what it keeps (-) is in memory. */
int uw_plan_view_layers(const struct uw_job *job, struct uw_error *err);

/* Print the bytes of activations in use over the training step. */
int uw_plan_view_chart(const struct uw_job *job, struct uw_error *err);

#endif
