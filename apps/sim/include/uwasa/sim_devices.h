/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_devices.h - how fast kinds of devices train: assumptions, each with its source
 *
 * The rate is clock * multiply-adds a cycle * efficiency. The first two are from documents and
 * counts, named in the source; the efficiency is a guess of what is left of them in whole training
 * steps, and is there to be corrected by whoever has measured. A local step takes
 *
 *     multiply-adds of a training step * minibatch / rate
 *
 * where a training step has the products of the forward pass, of the gradients of inputs and of
 * those of weights: three times the forward pass, less what is not wanted (the gradient of the
 * model's own input, of frozen weights), as uw_model_describe counts its passes.
 *
 * Units      multiply-adds a second, hertz, bits a second      Context  any thread
 */
#ifndef UWASA_SIM_DEVICES_H
#define UWASA_SIM_DEVICES_H

#include "uwasa/cplusplus.h"

#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

struct uw_sim_kind {
    const char *name;               /* "cortex-m7" */
    const char *what;               /* the chip that the figures are those of */
    double clock_hz;
    double per_cycle;               /* fp32 multiply-adds, of all cores that train */
    double efficiency;              /* share of it, 0 .. 1 */
    uint64_t link_bits_per_s;       /* its typical link, either way; 0: no typical one is known */
    const char *source;             /* of clock and multiply-adds a cycle, and why the efficiency */
    const char *link_source;        /* NULL: no link */
};

/* Multiply-adds a second that a kind sustains in training. */
double uw_sim_kind_rate(const struct uw_sim_kind *kind);

/* Find a kind by name; NULL when there is none. */
const struct uw_sim_kind *uw_sim_kind_find(const char *name);

/* Kind i of the table, slowest first; NULL behind the last. */
const struct uw_sim_kind *uw_sim_kind_at(uint32_t i);

UW_C_END
#endif
