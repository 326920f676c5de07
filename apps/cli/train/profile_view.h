/* SPDX-License-Identifier: Apache-2.0
 *
 * profile_view.h - where the time of the training steps went
 */
#ifndef UWASA_CLI_PROFILE_VIEW_H
#define UWASA_CLI_PROFILE_VIEW_H

#include "base/events.h"

#include "uwasa/describe.h"

/* One "profile" event a layer, and a table on standard output unless the events go there: what m's
 * profile has counted over so many samples. Nothing when m has none. */
void uw_profile_report(const struct uw_model *m, uint64_t samples, struct uw_events *events);

#endif
