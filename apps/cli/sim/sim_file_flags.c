/* SPDX-License-Identifier: Apache-2.0
 *
 * A scenario file together with the flags of the command line. */
#include "sim_file.h"

#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static bool any_cells(const struct uw_sim_scenario *s)
{
    bool some = uw_sim_has_cells(&s->cells);
    for (uint32_t g = 0; g < s->groups_n; g++) {
        some = some || uw_sim_has_cells(&s->groups[g].cells);
    }
    return some;
}

/* Apply them to every device. */
static void apply(struct uw_sim_group *g, const struct uw_sim_options *said)
{
    if (said->bandwidth != UINT64_MAX) {
        g->up = (struct uw_sim_spread){.a = (double)said->bandwidth};
        g->down = (struct uw_sim_spread){.a = 0.0};
        g->one_rate = false;
    }
    if (said->latency >= 0.0) {
        g->latency = (struct uw_sim_spread){.a = said->latency};
    }
    g->loss = said->loss >= 0.0 ? said->loss : g->loss;
    if (said->step_seconds >= 0.0) {
        g->step = said->step_seconds > 0.0 ? UW_SIM_STEP_SECONDS : UW_SIM_STEP_MEASURED;
        g->seconds = (struct uw_sim_spread){.a = said->step_seconds};
    }
}

int uw_sim_file_flags(struct uw_sim_file *f, const struct uw_sim_options *said, bool cells,
                      struct uw_error *err)
{
    struct uw_sim_scenario *s = &f->scenario;
    if (said->nodes != 0 && f->grouped) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "--nodes %u: %.120s has groups of nodes, each with a count",
                            (unsigned)said->nodes, f->json.file);
    }
    if (said->cell_nodes != 0 && any_cells(s)) {
        return uw_error_set(err, UW_ERR_INVALID, "--cell-nodes %u: %.120s defines the cells",
                            (unsigned)said->cell_nodes, f->json.file);
    }
    s->groups[0].count = said->nodes != 0 ? said->nodes : s->groups[0].count;
    for (uint32_t g = 0; g < s->groups_n; g++) {
        apply(&s->groups[g], said);
    }
    if (cells && !any_cells(s)) {
        s->cells = (struct uw_sim_cells){
            .nodes = said->cell_nodes != 0 ? said->cell_nodes : UW_SIM_CELL_NODES};
    }
    return UW_OK;
}

int uw_sim_file_check_radio(const struct uw_sim_file *f, struct uw_error *err)
{
    static const char *const keys[] = {"bandwidth", "latency", "mtu", "cells", "radio"};
    const cJSON *root = f->json.root, *m = NULL;
    const cJSON *nodes = get(root, "nodes");
    const cJSON *groups = cJSON_IsArray(nodes) ? nodes->child : NULL;
    const cJSON *object = get(root, "link") != NULL ? root : NULL;
    for (; object != NULL && m == NULL; object = object == root ? groups : object->next) {
        for (size_t i = 0; i < sizeof keys / sizeof keys[0] && m == NULL; i++) {
            m = get(object, keys[i]);
        }
    }
    return m == NULL ? UW_OK
                     : uw_error_set(err, UW_ERR_INVALID,
                                    "%.120s:%u: \"%s\" cannot be combined with \"link\", a radio "
                                    "with its own rate, frames and no latency: leave one of them "
                                    "out",
                                    f->json.file, (unsigned)uw_json_line(&f->json, m), m->string);
}

/* m NULL: it has none. */
static bool has_value(const cJSON *m, const char *value)
{
    const char *text = cJSON_IsTrue(m) ? "true" : cJSON_GetStringValue(m);
    return cJSON_IsNumber(m) ? m->valuedouble == strtod(value, NULL)
                             : text != NULL && strcmp(text, value) == 0;
}

const char *uw_sim_file_where(const struct uw_sim_file *f, const char *flag, const char *value,
                              char *text, size_t text_bytes)
{
    char key[32];
    uw_opt_key(flag, key, sizeof key);
    const cJSON *m = get(f->json.root, key);
    if (has_value(m, value)) {
        snprintf(text, text_bytes, "%.120s:%u: \"%s\" %.60s", f->json.file,
                 (unsigned)uw_json_line(&f->json, m), key, value);
    } else if (strcmp(value, "true") == 0) {
        snprintf(text, text_bytes, "--%s", flag);
    } else {
        snprintf(text, text_bytes, "--%s %.60s", flag, value);
    }
    return text;
}
