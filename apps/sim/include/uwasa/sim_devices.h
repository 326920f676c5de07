/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_devices.h - training speeds of kinds of devices: assumptions, each with its source
 *
 * The rate is clock * multiply-adds per cycle * efficiency. The first two come from the documents
 * and counts named in `source`. The efficiency is a guess of the share that whole training steps
 * reach, until somebody measures it. A local step takes
 *
 *     multiply-adds of a training step * minibatch / rate
 *
 * A training step has the multiply-adds of the forward pass, of the gradients of inputs and of
 * those of weights: three times the forward pass, less gradients that are not needed (of the
 * model's input, of frozen weights), as uw_model_describe counts its passes.
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
    const char *what;               /* the chip that the figures describe */
    double clock_hz;
    double per_cycle;               /* fp32 multiply-adds of all cores that train */
    double efficiency;              /* the share that training reaches, 0 .. 1 */
    uint64_t link_bits_per_s;       /* its typical link, each way; 0: none is known */
    const char *source;             /* of clock and per_cycle, and the reason of efficiency */
    const char *link_source;        /* NULL: no link */
};

/* Multiply-adds per second of a kind in training. */
double uw_sim_kind_rate(const struct uw_sim_kind *kind);

/* Find a kind by name; NULL if there is none. */
const struct uw_sim_kind *uw_sim_kind_find(const char *name);

/* Kind i of the table, slowest first; NULL after the last. */
const struct uw_sim_kind *uw_sim_kind_at(uint32_t i);

UW_C_END
#endif
