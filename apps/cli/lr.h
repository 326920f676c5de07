/* SPDX-License-Identifier: Apache-2.0
 *
 * lr.h - how the learning rate changes over a run
 *
 *   constant     as given
 *   step:N:F     times F after every N epochs
 *   cosine       from the given rate to 0 over the whole run: lr/2 (1 + cos(pi step / steps))
 *
 * The rate depends on the step alone, so a resumed run goes on as if never stopped. Only a node
 * whose run has a time limit and no number of steps goes by its time instead, both in microseconds.
 */
#ifndef UWASA_CLI_LR_H
#define UWASA_CLI_LR_H

#include <stdint.h>

enum uw_lr_kind { UW_LR_CONSTANT, UW_LR_STEP, UW_LR_COSINE };

struct uw_lr {
    enum uw_lr_kind kind;
    uint32_t epochs;    /* step: N */
    double factor;      /* step: F */
};

/* Read "constant", "step:N:F" or "cosine". Returns UW_OK or UW_ERR_INVALID. */
int uw_lr_parse(const char *text, struct uw_lr *s);

/* Learning rate of step number `step` (from 0) of `steps` (cosine: of any unit that both have), in
 * epoch `epoch` (from 0). */
float uw_lr_at(const struct uw_lr *s, double lr, uint64_t step, uint64_t steps,
               uint64_t epoch);

#endif
