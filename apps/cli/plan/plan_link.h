/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_link.h - plan --link: the cost of exchanging a model over a link, and advice if it is too
 * high
 */
#ifndef UWASA_CLI_PLAN_LINK_H
#define UWASA_CLI_PLAN_LINK_H

#include "job/job.h"

#include "uwasa/radio_profile.h"

struct uw_plan_link {
    const char *link;               /* NULL: not asked for */
    uint32_t nodes;
    double loss, share;
    double steps_per_s;             /* 0: not given */
};

/* Default number of nodes: 2 on a line with two ends. */
uint32_t uw_plan_link_nodes(const char *link);

/* Check the options. Returns UW_OK or UW_ERR_INVALID with a sentence that names the flag. */
int uw_plan_link_check(const struct uw_plan_link *o, struct uw_error *err);

/* Print the costs, for people or as one JSON object; o must have been checked.
 * Returns UW_OK, or what uw_job_plan returns for a built-in model. */
int uw_plan_link_show(const struct uw_plan_link *o, const struct uw_job *job, bool json,
                      struct uw_error *err);

#endif
