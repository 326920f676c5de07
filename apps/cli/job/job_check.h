/* SPDX-License-Identifier: Apache-2.0
 *
 * job_check.h - whether a model takes data
 *
 * Blocking   never      Context  one thread
 */
#ifndef UWASA_CLI_JOB_CHECK_H
#define UWASA_CLI_JOB_CHECK_H

#include "job.h"

#include "uwasa/dataset.h"

/* Check that the model's input and classes fit the data, which may lack classes. Call after plan;
 * `spec` names the data. Returns UW_OK, or UW_ERR_MISMATCH with a sentence that gives both shapes
 * and data that would fit. */
int uw_job_check_data(const struct uw_job *j, const struct uw_dataset *data, const char *spec,
                      struct uw_error *err);

#endif
