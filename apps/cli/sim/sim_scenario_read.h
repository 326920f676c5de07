/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_scenario_read.h - between sim_scenario.c and the readers of its values
 *
 * A reader keeps the path of what it reads, "nodes[1].bandwidth.up", for sentences. After the first
 * mistake, which is kept, nothing that is read counts. */
#ifndef UWASA_CLI_SIM_SCENARIO_READ_H
#define UWASA_CLI_SIM_SCENARIO_READ_H

#include "sim_scenario.h"

struct uw_sim_reader {
    struct uw_json *j;
    char path[120];
};

/* Go down to a member; `up` is what uw_sim_leave takes back. */
size_t uw_sim_enter(struct uw_sim_reader *r, const char *key);
size_t uw_sim_enter_item(struct uw_sim_reader *r, uint32_t index);
void uw_sim_leave(struct uw_sim_reader *r, size_t up);

/* Keep the mistake `"path" sentence` about a value. */
void uw_sim_wrong(struct uw_sim_reader *r, const cJSON *at, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* The object at the path has these keys ("up|down") and no others. False: it has not. */
bool uw_sim_keys(struct uw_sim_reader *r, const cJSON *object, const char *keys);

/* Exactly one of the keys. Returns its member, NULL after a mistake. */
const cJSON *uw_sim_one_of(struct uw_sim_reader *r, const cJSON *object, const char *keys);

/* A member that is a number of min .. max; missing: `fallback`, below 0: it must be there. */
double uw_sim_number(struct uw_sim_reader *r, const cJSON *object, const char *key, double min,
                     double max, double fallback);

/* A whole number of min .. max. */
uint32_t uw_sim_whole(struct uw_sim_reader *r, const cJSON *value, uint32_t min, uint32_t max);

/* A text that is not empty; "" after a mistake. */
const char *uw_sim_text(struct uw_sim_reader *r, const cJSON *value);

struct uw_sim_range {
    double min, max;
    bool unlimited;                     /* 0 may be given, though it is below min */
};

extern const struct uw_sim_range uw_sim_bits, uw_sim_latency, uw_sim_seconds, uw_sim_speed;

/* The value at the path: a number, or {"uniform": ...} and the like. */
void uw_sim_spread(struct uw_sim_reader *r, const cJSON *value, const struct uw_sim_range *range,
                   struct uw_sim_spread *s);

/* The same of a member, which is left alone when it is missing. */
void uw_sim_spread_of(struct uw_sim_reader *r, const cJSON *object, const char *key,
                      const struct uw_sim_range *range, struct uw_sim_spread *s);

/* Of the members "cells" and "radio"; missing: nothing. */
void uw_sim_read_cells(struct uw_sim_reader *r, const cJSON *object, struct uw_sim_cells *c);

/* Of a member "stragglers"; missing: nothing. */
void uw_sim_read_stragglers(struct uw_sim_reader *r, const cJSON *object,
                            struct uw_sim_stragglers *s);

#endif
