/* SPDX-License-Identifier: Apache-2.0
 *
 * lr.h - a learning rate schedule as text
 *
 *   constant             as given
 *   step:N:G             times G after every N epochs; N steps with "step:2000s:0.1"
 *   multistep:N,M,..:G   times G at each of the epochs, or steps: "multistep:4000s,6000s:0.1"
 *   cosine  cosine:E     half a cosine down to 0, or to the share E, over the whole run
 *   linear  linear:E     a line down to 0, or to the share E
 *   warmup:N+...         any of them, rising in a line over the first N steps
 */
#ifndef UWASA_CLI_LR_H
#define UWASA_CLI_LR_H

#include "uwasa/schedule.h"

/* What a sentence about a bad schedule says is allowed. */
#define UW_LR_ALLOWED \
    "constant, cosine[:END], linear[:END], step:N:FACTOR or multistep:N,M:FACTOR (epochs, or "    \
    "steps as 2000s), with warmup:STEPS+ in front"

/* Returns UW_OK or UW_ERR_INVALID. */
int uw_lr_parse(const char *text, struct uw_schedule *s);

#endif
