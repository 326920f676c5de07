/* SPDX-License-Identifier: Apache-2.0
 *
 * Between two computations of a step: measures their time and calls the program's function. */
#include "flight.h"

#include "uwasa/parts.h"

uint64_t uw_profile_start(const struct uw_model *m)
{
    return m->profile != NULL ? m->profile->now_us(m->profile->arg) : 0;
}

void uw_profile_lap(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                    uint64_t *since_us)
{
    if (m->profile != NULL && uw_parts.profiling != NULL) {
        if (uw_device_of(m) != NULL) {
            (void)uw_device_of(m)->wait(&m->exec); /* a failure is reported at the step's end */
        }
        uw_parts.profiling->lap(m, row, part, since_us);
    }
}

void uw_profile_span(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                     uint64_t since_us)
{
    if (m->profile != NULL && uw_parts.profiling != NULL) {
        uw_parts.profiling->span(m, row, part, since_us, uw_profile_start(m));
    }
}

static uint64_t *counter_of(const struct uw_model *m, uint32_t row, enum uw_profile_part part)
{
    struct uw_profile_row *r = &m->profile->rows[row];
    switch (part) {
    case UW_PROFILE_FORWARD: return &r->forward_us;
    case UW_PROFILE_BW_INPUT: return &r->bw_input_us;
    case UW_PROFILE_WAIT: return &r->wait_us;
    default: return &r->bw_param_us;
    }
}

static void span(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                 uint64_t from_us, uint64_t until_us)
{
    if (m->profile->span != NULL) {
        m->profile->span(m->profile->arg, row, part, from_us, until_us);
    }
}

static void lap(const struct uw_model *m, uint32_t row, enum uw_profile_part part,
                uint64_t *since_us)
{
    uint64_t now_us = uw_profile_start(m);
    *counter_of(m, row, part) += now_us - *since_us;
    span(m, row, part, *since_us, now_us);
    *since_us = now_us;
}

const struct uw_profiling uw_profiling = {.lap = lap, .span = span};

void uw_step_between(const struct uw_model *m)
{
    if (m->between != NULL) {
        m->between(m->between_arg);
    }
}
