/* SPDX-License-Identifier: Apache-2.0
 *
 * profile_view.h - reports the time of training steps by layer
 */
#ifndef UWASA_CLI_PROFILE_VIEW_H
#define UWASA_CLI_PROFILE_VIEW_H

#include "base/events.h"

#include "uwasa/describe.h"

/* Report m's profile over so many samples: one "profile" event per layer, and a table on standard
 * output unless events go there. Does nothing if m has no profile. */
void uw_profile_report(const struct uw_model *m, uint64_t samples, struct uw_events *events);

#endif
