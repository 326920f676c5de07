/* SPDX-License-Identifier: Apache-2.0
 *
 * period_said.h - what `uwasa node` and `uwasa sim` are told of the period, and what goes together
 */
#ifndef UWASA_CLI_PERIOD_SAID_H
#define UWASA_CLI_PERIOD_SAID_H

#include <stdbool.h>
#include <stdint.h>

#define UW_PERIOD_SHARE 0.1             /* by default, with a period that adapts */

struct uw_period_said {
    const char *exchange, *rule;        /* one of the choices each */
    uint32_t period, slices;            /* period UW_AUTO: it adapts */
    double share;                       /* 0: not said */
};

/* Do nodes take what others show, and wait for nobody? */
bool uw_period_pulls(const char *exchange, const char *rule);

/* A period that adapts and slices go with pulls, and a share with a period that adapts.
 *   sentence  written when something is wrong: what the key needs, to stand behind it
 * Returns the key that is wrong, "period", "share" or "slices"; NULL: none. */
const char *uw_period_wrong(const struct uw_period_said *said, const char **sentence);

#endif
