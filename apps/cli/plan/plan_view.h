/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_view.h - a memory plan for people: the layers, and what lives when
 */
#ifndef UWASA_CLI_PLAN_VIEW_H
#define UWASA_CLI_PLAN_VIEW_H

#include "job/job.h"

/* Print the bytes of activations in use over the training step, then, if asked for, every layer:
 * shape, parameters, multiply-adds, and a bar that shows when its output (#), its gradient (=) or
 * what it keeps (-) is in memory. Returns UW_OK, or what uw_model_describe returns, err filled. */
int uw_plan_view(const struct uw_job *job, bool layers, struct uw_error *err);

#endif
