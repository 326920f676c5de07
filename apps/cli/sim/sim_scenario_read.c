/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_scenario_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct uw_sim_range uw_sim_bits = {UW_SIM_BITS_MIN, UW_SIM_BITS_MAX, true};
const struct uw_sim_range uw_sim_latency = {0.0, UW_SIM_LATENCY_MAX, false};
const struct uw_sim_range uw_sim_seconds = {UW_SIM_STEP_MIN, 86400.0, false};
const struct uw_sim_range uw_sim_speed = {1e-6, 1e6, false};

size_t uw_sim_enter(struct uw_sim_reader *r, const char *key)
{
    size_t up = strlen(r->path);
    snprintf(r->path + up, sizeof r->path - up, "%s%.40s", up != 0 ? "." : "", key);
    return up;
}

size_t uw_sim_enter_item(struct uw_sim_reader *r, uint32_t index)
{
    size_t up = strlen(r->path);
    snprintf(r->path + up, sizeof r->path - up, "[%u]", (unsigned)index);
    return up;
}

void uw_sim_leave(struct uw_sim_reader *r, size_t up)
{
    r->path[up] = '\0';
}

void uw_sim_wrong(struct uw_sim_reader *r, const cJSON *at, const char *format, ...)
{
    char sentence[UW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    if (vsnprintf(sentence, sizeof sentence, format, args) < 0) {
        sentence[0] = '\0';
    }
    va_end(args);
    uw_json_fail(r->j, at, "\"%s\" %s", r->path, sentence);
}

bool uw_sim_keys(struct uw_sim_reader *r, const cJSON *object, const char *keys)
{
    char what[sizeof r->path + 2u];
    snprintf(what, sizeof what, "\"%s\"", r->path);
    uw_json_keys(r->j, object, what, keys);
    return r->j->err.code == UW_OK;
}

const cJSON *uw_sim_one_of(struct uw_sim_reader *r, const cJSON *object, const char *keys)
{
    if (!uw_sim_keys(r, object, keys)) {
        return NULL;
    }
    if (object->child == NULL || object->child->next != NULL) {
        uw_sim_wrong(r, object, "needs exactly one of %s", keys);
        return NULL;
    }
    return object->child;
}

double uw_sim_number(struct uw_sim_reader *r, const cJSON *object, const char *key, double min,
                     double max, double fallback)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, key);
    if (m == NULL && fallback >= 0.0) {
        return fallback;
    }
    double v = cJSON_IsNumber(m) ? m->valuedouble : NAN;
    if (!(v >= min && v <= max)) {
        size_t up = uw_sim_enter(r, key);
        uw_sim_wrong(r, m != NULL ? m : object, "%sneeds a number from %.10g to %.10g",
                     m != NULL ? "" : "is missing, ", min, max);
        uw_sim_leave(r, up);
        return min;
    }
    return v;
}

uint32_t uw_sim_whole(struct uw_sim_reader *r, const cJSON *value, uint32_t min, uint32_t max)
{
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(v >= (double)min && v <= (double)max) || floor(v) != v) {
        uw_sim_wrong(r, value, "needs a whole number from %u to %u", (unsigned)min, (unsigned)max);
        return min;
    }
    return (uint32_t)v;
}

const char *uw_sim_text(struct uw_sim_reader *r, const cJSON *value)
{
    if (!cJSON_IsString(value) || value->valuestring[0] == '\0') {
        uw_sim_wrong(r, value, "needs a text that is not empty");
        return "";
    }
    return value->valuestring;
}

/* ---- values of devices ---- */

static bool within(const struct uw_sim_range *range, double v)
{
    return v >= range->min && v <= range->max;
}

/* {"uniform": [from, to]} */
static void read_uniform(struct uw_sim_reader *r, const cJSON *m, const struct uw_sim_range *range,
                         struct uw_sim_spread *s)
{
    const cJSON *from = cJSON_IsArray(m) ? m->child : NULL, *to = from != NULL ? from->next : NULL;
    s->kind = UW_SIM_UNIFORM;
    s->a = cJSON_IsNumber(from) ? from->valuedouble : NAN;
    s->b = cJSON_IsNumber(to) && to->next == NULL ? to->valuedouble : NAN;
    if (!within(range, s->a) || !within(range, s->b) || s->a > s->b) {
        uw_sim_wrong(r, m, "needs [from, to], two numbers from %.10g to %.10g, the smaller first",
                     range->min, range->max);
    }
}

/* {"log-normal": {"median": m, "sigma": s}}, or "decades" instead of sigma */
static void read_log_normal(struct uw_sim_reader *r, const cJSON *m,
                            const struct uw_sim_range *range, struct uw_sim_spread *s)
{
    if (!uw_sim_keys(r, m, "median|sigma|decades")) {
        return;
    }
    const cJSON *sigma = cJSON_GetObjectItemCaseSensitive(m, "sigma");
    const cJSON *decades = cJSON_GetObjectItemCaseSensitive(m, "decades");
    s->kind = UW_SIM_LOG_NORMAL;
    s->a = uw_sim_number(r, m, "median", range->min > 0.0 ? range->min : 1e-9, range->max, -1.0);
    if ((sigma != NULL) == (decades != NULL)) {
        uw_sim_wrong(r, m, "needs \"sigma\" (of the natural logarithm) or \"decades\" (from the "
                           "5th to the 95th percentile)");
    } else if (sigma != NULL) {
        s->b = uw_sim_number(r, m, "sigma", 0.0, 10.0, -1.0);
    } else {
        s->b = uw_sim_sigma_of_decades(uw_sim_number(r, m, "decades", 0.0, 10.0, -1.0));
    }
}

/* {"values": [...]} */
static void read_values(struct uw_sim_reader *r, const cJSON *m, const struct uw_sim_range *range,
                        struct uw_sim_spread *s)
{
    s->kind = UW_SIM_VALUES;
    s->values_n = 0;
    bool good = cJSON_IsArray(m) && m->child != NULL;
    for (const cJSON *v = good ? m->child : NULL; good && v != NULL; v = v->next) {
        good = s->values_n < UW_SIM_VALUES_MAX && cJSON_IsNumber(v) &&
               (within(range, v->valuedouble) || (range->unlimited && v->valuedouble == 0.0));
        if (good) {
            s->value[s->values_n++] = v->valuedouble;
        }
    }
    if (!good) {
        uw_sim_wrong(r, m, "needs 1 to %u numbers from %.10g to %.10g%s", UW_SIM_VALUES_MAX,
                     range->min, range->max, range->unlimited ? ", or 0: unlimited" : "");
    }
}

void uw_sim_spread(struct uw_sim_reader *r, const cJSON *value, const struct uw_sim_range *range,
                   struct uw_sim_spread *s)
{
    static const char kinds[] = "uniform|log-normal|values";
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!cJSON_IsObject(value)) {
        if (!within(range, v) && !(range->unlimited && v == 0.0)) {
            uw_sim_wrong(r, value, "needs a number from %.10g to %.10g%s, or one of {\"uniform\": "
                                   "...}, {\"log-normal\": ...}, {\"values\": ...}",
                         range->min, range->max, range->unlimited ? " (0: unlimited)" : "");
        }
        *s = (struct uw_sim_spread){.a = v};
        return;
    }
    const cJSON *m = uw_sim_one_of(r, value, kinds);
    if (m == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, m->string);
    *s = (struct uw_sim_spread){.kind = UW_SIM_SAME};
    (m->string[0] == 'u' ? read_uniform : m->string[0] == 'l' ? read_log_normal : read_values)(
        r, m, range, s);
    uw_sim_leave(r, up);
}

void uw_sim_spread_of(struct uw_sim_reader *r, const cJSON *object, const char *key,
                      const struct uw_sim_range *range, struct uw_sim_spread *s)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, key);
    if (m != NULL) {
        size_t up = uw_sim_enter(r, key);
        uw_sim_spread(r, m, range, s);
        uw_sim_leave(r, up);
    }
}

/* ---- cells, stragglers ---- */

static void read_sizes(struct uw_sim_reader *r, const cJSON *m, struct uw_sim_cells *c)
{
    size_t up = uw_sim_enter(r, "sizes");
    if (!cJSON_IsArray(m) || m->child == NULL) {
        uw_sim_wrong(r, m, "needs an array of numbers of nodes");
    }
    for (const cJSON *v = cJSON_IsArray(m) ? m->child : NULL; v != NULL; v = v->next) {
        if (c->sizes_n == UW_SIM_VALUES_MAX) {
            uw_sim_wrong(r, m, "has more than %u sizes", UW_SIM_VALUES_MAX);
            break;
        }
        size_t item = uw_sim_enter_item(r, c->sizes_n);
        c->size[c->sizes_n++] = uw_sim_whole(r, v, 1, UINT32_MAX);
        uw_sim_leave(r, item);
    }
    uw_sim_leave(r, up);
}

/* How many nodes a cell has. */
static void read_shape(struct uw_sim_reader *r, const cJSON *m, struct uw_sim_cells *c)
{
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(m, "nodes");
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(m, "count");
    const cJSON *sizes = cJSON_GetObjectItemCaseSensitive(m, "sizes");
    const cJSON *deal = cJSON_GetObjectItemCaseSensitive(m, "deal");
    if ((nodes != NULL) + (count != NULL) + (sizes != NULL) != 1) {
        uw_sim_wrong(r, m, "needs exactly one of \"nodes\" (of a cell), \"count\" (of cells), "
                           "\"sizes\"");
        return;
    }
    size_t up = uw_sim_enter(r, nodes != NULL ? "nodes" : "count");
    c->nodes = nodes != NULL ? uw_sim_whole(r, nodes, 1, UINT32_MAX) : 0;
    c->cells = count != NULL ? uw_sim_whole(r, count, 1, UINT32_MAX) : 0;
    uw_sim_leave(r, up);
    if (sizes != NULL) {
        read_sizes(r, sizes, c);
    }
    if (deal != NULL) {
        c->in_turns = cJSON_IsString(deal) && strcmp(deal->valuestring, "turns") == 0;
        bool good = c->in_turns ||
                    (cJSON_IsString(deal) && strcmp(deal->valuestring, "neighbours") == 0);
        up = uw_sim_enter(r, "deal");
        if (!good || (c->in_turns && sizes != NULL)) {
            uw_sim_wrong(r, deal, good ? "turns is not for \"sizes\""
                                       : "needs neighbours or turns");
        }
        uw_sim_leave(r, up);
    }
}

static void read_shared(struct uw_sim_reader *r, const cJSON *m, struct uw_sim_cells *c)
{
    const cJSON *shared = cJSON_GetObjectItemCaseSensitive(m, "shared");
    if (shared != NULL && !cJSON_IsBool(shared)) {
        size_t up = uw_sim_enter(r, "shared");
        uw_sim_wrong(r, shared, "needs true or false");
        uw_sim_leave(r, up);
    }
    c->shared = c->shared || cJSON_IsTrue(shared);
}

void uw_sim_read_cells(struct uw_sim_reader *r, const cJSON *object, struct uw_sim_cells *c)
{
    const cJSON *cells = cJSON_GetObjectItemCaseSensitive(object, "cells");
    const cJSON *radio = cJSON_GetObjectItemCaseSensitive(object, "radio");
    const cJSON *m = cells != NULL ? cells : radio;
    if (m == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, m->string);
    *c = (struct uw_sim_cells){.shared = radio != NULL,
                                .own_latency = cJSON_GetObjectItemCaseSensitive(m, "latency")};
    if (cells != NULL && radio != NULL) {
        uw_sim_wrong(r, m, "and \"radio\": give one of them; a radio cell is a cell whose "
                           "\"shared\" is true");
    } else if (uw_sim_keys(r, m, cells != NULL ? "nodes|count|sizes|deal|shared|bandwidth|latency|"
                                                 "out_bandwidth|out_latency"
                                               : "nodes|count|sizes|deal|bandwidth|latency|"
                                                 "out_bandwidth|out_latency")) {
        read_shared(r, m, c);
        read_shape(r, m, c);
        uw_sim_spread_of(r, m, "bandwidth", &uw_sim_bits, &c->bits);
        uw_sim_spread_of(r, m, "latency", &uw_sim_latency, &c->latency);
        uw_sim_spread_of(r, m, "out_bandwidth", &uw_sim_bits, &c->out_bits);
        uw_sim_spread_of(r, m, "out_latency", &uw_sim_latency, &c->out_latency);
        if (c->shared && c->bits.kind == UW_SIM_SAME && c->bits.a == 0.0) {
            uw_sim_wrong(r, m, "needs \"bandwidth\": the rate of the channel that is shared");
        }
    }
    uw_sim_leave(r, up);
}

void uw_sim_read_stragglers(struct uw_sim_reader *r, const cJSON *object,
                            struct uw_sim_stragglers *s)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, "stragglers");
    if (m == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, "stragglers");
    if (uw_sim_keys(r, m, "share|factor")) {
        s->share = uw_sim_number(r, m, "share", 0.0, 1.0, -1.0);
        s->factor = uw_sim_number(r, m, "factor", 1.0, 1e6, -1.0);
    }
    uw_sim_leave(r, up);
}
