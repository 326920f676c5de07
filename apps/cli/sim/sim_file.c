/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_file.h"

#include "sim.h"
#include "base/open_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_BYTES_MAX (16u << 20)
#define KEYS_MAX 64u
#define KEY_BYTES 24u

/* Of the root and of a group. */
#define DEVICE_KEYS \
    "device|bandwidth|latency|loss|step|speed|stragglers|availability|cells|radio|attack"

/* Of a cell; shared is a key of those that are no radio's. */
#define CELL_KEYS "nodes|count|sizes|deal|bandwidth|latency|out_bandwidth|out_latency"

/* Tracks the path of what it reads, "nodes[1].bandwidth.up", for messages. After the first mistake,
 * which is kept, all values are ignored. */
struct reader {
    struct uw_sim_file *f;
    struct uw_json *j;                  /* the file's */
    const cJSON *object;                /* the root or a group, whose keys of devices are read */
    char path[120];
};

struct range {
    double min, max;
    bool unlimited;                     /* 0 is allowed, too, though it is below min */
};

static const struct range bits_range = {UW_SIM_BITS_MIN, UW_SIM_BITS_MAX, true};
static const struct range latency_range = {0.0, UW_SIM_LATENCY_MAX, false};
static const struct range seconds_range = {UW_SIM_STEP_MIN, 86400.0, false};
static const struct range speed_range = {1e-6, 1e6, false};

/* ---- the path, and mistakes ---- */

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* Extend the path by a member. Returns what leave needs to undo this. */
static size_t enter(struct reader *r, const char *key)
{
    size_t up = strlen(r->path);
    snprintf(r->path + up, sizeof r->path - up, "%s%.40s", up != 0 ? "." : "", key);
    return up;
}

static size_t enter_item(struct reader *r, uint32_t index)
{
    size_t up = strlen(r->path);
    snprintf(r->path + up, sizeof r->path - up, "[%u]", (unsigned)index);
    return up;
}

static void leave(struct reader *r, size_t up)
{
    r->path[up] = '\0';
}

/* Keep the mistake `"path" sentence` about a value. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void wrong(struct reader *r, const cJSON *at, const char *format, ...)
{
    char sentence[UW_ERROR_TEXT_BYTES] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    uw_json_fail(r->j, at, "\"%s\" %s", r->path, sentence);
}

/* Check that the object at the path has these keys ("up|down") and no others. */
static bool has_keys(struct reader *r, const cJSON *object, const char *keys)
{
    char what[sizeof r->path + 2u];
    snprintf(what, sizeof what, "\"%s\"", r->path);
    uw_json_keys(r->j, object, what, keys);
    return r->j->err.code == UW_OK;
}

/* Exactly one of the keys. Returns its member, NULL after a mistake. */
static const cJSON *one_of(struct reader *r, const cJSON *object, const char *keys)
{
    if (!has_keys(r, object, keys)) {
        return NULL;
    }
    if (object->child == NULL || object->child->next != NULL) {
        wrong(r, object, "needs exactly one of %s", keys);
        return NULL;
    }
    return object->child;
}

/* A number of min .. max. */
static double number_at(struct reader *r, const cJSON *value, double min, double max)
{
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(v >= min && v <= max)) {
        wrong(r, value, "needs a number from %.10g to %.10g", min, max);
        return min;
    }
    return v;
}

/* A member that is a number; `fallback` if missing. fallback below 0: it is required. */
static double number(struct reader *r, const cJSON *object, const char *key, double min, double max,
                     double fallback)
{
    const cJSON *m = get(object, key);
    size_t up = enter(r, key);
    if (m == NULL && fallback < 0.0) {
        wrong(r, object, "is missing, needs a number from %.10g to %.10g", min, max);
        fallback = min;
    }
    double v = m != NULL ? number_at(r, m, min, max) : fallback;
    leave(r, up);
    return v;
}

/* A whole number of min .. max. */
static uint32_t whole(struct reader *r, const cJSON *value, uint32_t min, uint32_t max)
{
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(v >= (double)min && v <= (double)max) || floor(v) != v) {
        wrong(r, value, "needs a whole number from %u to %u", (unsigned)min, (unsigned)max);
        return min;
    }
    return (uint32_t)v;
}

/* A text that is not empty; "" after a mistake. */
static const char *text_of(struct reader *r, const cJSON *value)
{
    if (!cJSON_IsString(value) || value->valuestring[0] == '\0') {
        wrong(r, value, "needs a text that is not empty");
        return "";
    }
    return value->valuestring;
}

/* Read true or, if or_false, also false. */
static bool is_true(struct reader *r, const cJSON *value, bool or_false)
{
    if (!cJSON_IsTrue(value) && !(or_false && cJSON_IsFalse(value))) {
        wrong(r, value, "needs true%s", or_false ? " or false" : "");
    }
    return cJSON_IsTrue(value);
}

/* ---- values of devices ---- */

static bool within(const struct range *range, double v)
{
    return v >= range->min && v <= range->max;
}

/* {"uniform": [from, to]} */
static void read_uniform(struct reader *r, const cJSON *m, const struct range *range,
                         struct uw_sim_spread *s)
{
    const cJSON *from = cJSON_IsArray(m) ? m->child : NULL, *to = from != NULL ? from->next : NULL;
    s->kind = UW_SIM_UNIFORM;
    s->a = cJSON_IsNumber(from) ? from->valuedouble : NAN;
    s->b = cJSON_IsNumber(to) && to->next == NULL ? to->valuedouble : NAN;
    if (!within(range, s->a) || !within(range, s->b) || s->a > s->b) {
        wrong(r, m, "needs [from, to], two numbers from %.10g to %.10g, the smaller first",
              range->min, range->max);
    }
}

/* {"log-normal": {"median": m, "sigma": s}}, or "decades" instead of sigma */
static void read_log_normal(struct reader *r, const cJSON *m,
                            const struct range *range, struct uw_sim_spread *s)
{
    if (!has_keys(r, m, "median|sigma|decades")) {
        return;
    }
    const cJSON *sigma = get(m, "sigma");
    const cJSON *decades = get(m, "decades");
    s->kind = UW_SIM_LOG_NORMAL;
    s->a = number(r, m, "median", range->min > 0.0 ? range->min : 1e-9, range->max, -1.0);
    if ((sigma != NULL) == (decades != NULL)) {
        wrong(r, m, "needs \"sigma\" (of the natural logarithm) or \"decades\" (from the "
              "5th to the 95th percentile)");
    } else if (sigma != NULL) {
        s->b = number(r, m, "sigma", 0.0, 10.0, -1.0);
    } else {
        s->b = uw_sim_sigma_of_decades(number(r, m, "decades", 0.0, 10.0, -1.0));
    }
}

/* {"values": [...]} */
static void read_values(struct reader *r, const cJSON *m, const struct range *range,
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
        wrong(r, m, "needs 1 to %u numbers from %.10g to %.10g%s", UW_SIM_VALUES_MAX,
              range->min, range->max, range->unlimited ? ", or 0: unlimited" : "");
    }
}

/* The value at the path: a number, or {"uniform": ...} and the like. */
static void read_spread(struct reader *r, const cJSON *value, const struct range *range,
                   struct uw_sim_spread *s)
{
    static const char kinds[] = "uniform|log-normal|values";
    double v = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!cJSON_IsObject(value)) {
        if (!within(range, v) && !(range->unlimited && v == 0.0)) {
            wrong(r, value, "needs a number from %.10g to %.10g%s, or one of {\"uniform\": "
                  "...}, {\"log-normal\": ...}, {\"values\": ...}",
                  range->min, range->max, range->unlimited ? " (0: unlimited)" : "");
        }
        *s = (struct uw_sim_spread){.a = v};
        return;
    }
    const cJSON *m = one_of(r, value, kinds);
    if (m == NULL) {
        return;
    }
    size_t up = enter(r, m->string);
    *s = (struct uw_sim_spread){.kind = UW_SIM_SAME};
    (m->string[0] == 'u' ? read_uniform : m->string[0] == 'l' ? read_log_normal : read_values)(
        r, m, range, s);
    leave(r, up);
}

/* The same of a member, which is left alone when it is missing. */
static void read_spread_of(struct reader *r, const cJSON *object, const char *key,
                      const struct range *range, struct uw_sim_spread *s)
{
    const cJSON *m = get(object, key);
    if (m != NULL) {
        size_t up = enter(r, key);
        read_spread(r, m, range, s);
        leave(r, up);
    }
}

/* ---- keys of devices: each reads a member, over what the group has already ---- */

/* The members that a key needs when there is "cells" or "radio". */
static void read_sizes(struct reader *r, const cJSON *m, struct uw_sim_cells *c)
{
    if (!cJSON_IsArray(m) || m->child == NULL) {
        wrong(r, m, "needs an array of numbers of nodes");
    }
    for (const cJSON *v = cJSON_IsArray(m) ? m->child : NULL; v != NULL; v = v->next) {
        if (c->sizes_n == UW_SIM_VALUES_MAX) {
            wrong(r, m, "has more than %u sizes", UW_SIM_VALUES_MAX);
            break;
        }
        size_t item = enter_item(r, c->sizes_n);
        c->size[c->sizes_n++] = whole(r, v, 1, UINT32_MAX);
        leave(r, item);
    }
}

static void read_deal(struct reader *r, const cJSON *m, struct uw_sim_cells *c)
{
    const char *word = cJSON_GetStringValue(m);
    c->in_turns = word != NULL && strcmp(word, "turns") == 0;
    if (!c->in_turns && (word == NULL || strcmp(word, "neighbours") != 0)) {
        wrong(r, m, "needs neighbours or turns");
    } else if (c->in_turns && c->sizes_n != 0) {
        wrong(r, m, "turns is not for \"sizes\"");
    }
}

/* How many nodes a cell has. */
static void read_shape(struct reader *r, const cJSON *m, struct uw_sim_cells *c)
{
    const cJSON *nodes = get(m, "nodes"), *count = get(m, "count"), *sizes = get(m, "sizes");
    const cJSON *deal = get(m, "deal");
    const cJSON *shape = nodes != NULL ? nodes : count != NULL ? count : sizes;
    if ((nodes != NULL) + (count != NULL) + (sizes != NULL) != 1) {
        wrong(r, m, "needs exactly one of \"nodes\" (of a cell), \"count\" (of cells), \"sizes\"");
        return;
    }
    size_t up = enter(r, shape->string);
    if (sizes != NULL) {
        read_sizes(r, sizes, c);
    } else {
        *(nodes != NULL ? &c->nodes : &c->cells) = whole(r, shape, 1, UINT32_MAX);
    }
    leave(r, up);
    if (deal != NULL) {
        up = enter(r, "deal");
        read_deal(r, deal, c);
        leave(r, up);
    }
}

/* "cells" or "radio" */
static void read_cells(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    const cJSON *shared = get(m, "shared");
    struct uw_sim_cells *c = &g->cells;
    bool radio = m->string[0] == 'r';
    if (radio && get(r->object, "cells") != NULL) {
        return;
    }
    *c = (struct uw_sim_cells){.shared = radio, .own_latency = get(m, "latency") != NULL};
    if (get(r->object, radio ? "cells" : "radio") != NULL) {
        wrong(r, m, "and \"radio\": give one of them; a radio cell is a cell whose \"shared\" is "
              "true");
    } else if (has_keys(r, m, radio ? CELL_KEYS : CELL_KEYS "|shared")) {
        if (shared != NULL) {
            size_t up = enter(r, "shared");
            c->shared = is_true(r, shared, true);
            leave(r, up);
        }
        read_shape(r, m, c);
        read_spread_of(r, m, "bandwidth", &bits_range, &c->bits);
        read_spread_of(r, m, "latency", &latency_range, &c->latency);
        read_spread_of(r, m, "out_bandwidth", &bits_range, &c->out_bits);
        read_spread_of(r, m, "out_latency", &latency_range, &c->out_latency);
        if (c->shared && c->bits.kind == UW_SIM_SAME && c->bits.a == 0.0) {
            wrong(r, m, "needs \"bandwidth\": the rate of the channel that is shared");
        }
    }
}

static void read_stragglers(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    if (has_keys(r, m, "share|factor")) {
        g->stragglers.share = number(r, m, "share", 0.0, 1.0, -1.0);
        g->stragglers.factor = number(r, m, "factor", 1.0, 1e6, -1.0);
    }
}

static const struct uw_sim_kind *read_kind(struct reader *r, const cJSON *m)
{
    const char *name = text_of(r, m);
    const struct uw_sim_kind *kind = uw_sim_kind_find(name), *other;
    struct uw_guess g = {.word = name, .word_bytes = strlen(name)};
    for (uint32_t i = 0; kind == NULL && (other = uw_sim_kind_at(i)) != NULL; i++) {
        uw_guess_try(&g, other->name, strlen(other->name));
    }
    if (kind == NULL) {
        wrong(r, m, "%.40s is no known device%s", name,
              uw_guess_hint(&g, "\"", ", uwasa sim --devices lists them"));
    }
    return kind;
}

/* "device": also sets the group's link if the root gives no rate. */
static void read_device(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    bool root_rate = r->object != r->j->root && get(r->j->root, "bandwidth") != NULL;
    g->kind = read_kind(r, m);
    g->step = UW_SIM_STEP_KIND;
    if (g->kind != NULL && g->kind->link_bits_per_s != 0 && !root_rate) {
        g->up = g->down = (struct uw_sim_spread){.a = (double)g->kind->link_bits_per_s};
        g->one_rate = true;
    }
}

/* A value for both ways, or {"up": value, "down": value} */
static void read_bandwidth(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    g->one_rate = get(m, "up") == NULL && get(m, "down") == NULL;
    if (g->one_rate) {
        read_spread(r, m, &bits_range, &g->up);
        g->down = g->up;
    } else if (has_keys(r, m, "up|down")) {
        g->up = g->down = (struct uw_sim_spread){.kind = UW_SIM_SAME};
        read_spread_of(r, m, "up", &bits_range, &g->up);
        read_spread_of(r, m, "down", &bits_range, &g->down);
    }
}

static void read_draw(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    bool speed = m->string[0] == 's';
    read_spread(r, m, speed ? &speed_range : &latency_range, speed ? &g->speed : &g->latency);
}

static void read_loss(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    g->loss = number_at(r, m, 0.0, 1.0);
}

/* {"seconds": value}, {"measured": true} or {"device": name} */
static void read_step(struct reader *r, const cJSON *step, struct uw_sim_group *g)
{
    const cJSON *m = one_of(r, step, "seconds|measured|device");
    size_t up = enter(r, m != NULL ? m->string : "");
    if (m != NULL && m->string[0] == 's') {
        g->step = UW_SIM_STEP_SECONDS;
        read_spread(r, m, &seconds_range, &g->seconds);
    } else if (m != NULL && m->string[0] == 'd') {
        g->step = UW_SIM_STEP_KIND;
        g->kind = read_kind(r, m);
    } else if (m != NULL) {
        g->step = UW_SIM_STEP_MEASURED;
        (void)is_true(r, m, false);
    }
    leave(r, up);
}

static void read_trace(struct reader *r, const cJSON *m, struct uw_sim_availability *v)
{
    struct uw_sim_file *f = r->f;
    const char *name = text_of(r, m), *scenario = f->json.file;
    char path[1024];
    size_t n;
    int dir = name[0] == '/' ? 0 : (int)(uw_file_name(scenario) - scenario);
    struct uw_error why = {.text = ""};
    if (r->j->err.code < 0 || f->traces_n == UW_SIM_TRACES_MAX) {
        return;
    }
    bool fits = snprintf(path, sizeof path, "%.*s%s", dir, scenario, name) < (int)sizeof path;
    char *text = fits ? uw_read_file(path, TRACE_BYTES_MAX, &n) : NULL;
    if (text == NULL) {
        wrong(r, m, "%.80s cannot be read%s", name,
              fits && errno == EFBIG ? ": it has more than 16 MiB" : "");
    } else if (uw_sim_trace_read(uw_file_name(path), text, n, &f->traces[f->traces_n], &v->away_n,
                                 &why) < 0) {
        wrong(r, m, "%.160s", why.text);
    } else {
        v->away = f->traces[f->traces_n];
        f->trace_files[f->traces_n++] = strdup(path);
    }
    free(text);
}

/* {"always": true}, {"diurnal": ...}, {"churn": ...} or {"trace": FILE} */
static void read_there(struct reader *r, const cJSON *there, struct uw_sim_group *g)
{
    struct uw_sim_availability *v = &g->there;
    const cJSON *m = one_of(r, there, "always|diurnal|churn|trace");
    size_t up = enter(r, m != NULL ? m->string : "");
    *v = (struct uw_sim_availability){.kind = UW_SIM_ALWAYS, .whole = r->object == r->j->root};
    if (m != NULL && m->string[0] == 'd' && has_keys(r, m, "period|up|spread")) {
        v->kind = UW_SIM_DIURNAL;
        v->period = number(r, m, "period", 0.001, UW_SIM_SECONDS_MAX, -1.0);
        v->up = number(r, m, "up", 0.001, 1.0, -1.0);
        v->spread = number(r, m, "spread", 0.0, v->period, v->period);
    } else if (m != NULL && m->string[0] == 'c' && has_keys(r, m, "up|down|forgets")) {
        v->kind = UW_SIM_CHURN;
        v->up = number(r, m, "up", 0.001, UW_SIM_SECONDS_MAX, -1.0);
        v->down = number(r, m, "down", 0.001, UW_SIM_SECONDS_MAX, -1.0);
        v->forgets = number(r, m, "forgets", 0.0, 1.0, 0.0);
    } else if (m != NULL && m->string[0] == 't') {
        v->kind = UW_SIM_TRACE;
        read_trace(r, m, v);
    } else if (m != NULL && m->string[0] == 'a') {
        (void)is_true(r, m, false);
    }
    leave(r, up);
}

static void read_attack(struct reader *r, const cJSON *m, struct uw_sim_group *g)
{
    if (!uw_sim_attack_read(text_of(r, m), &g->attack, &g->strength)) {
        wrong(r, m, "needs one of %s, some with :STRENGTH, up to 1e6", uw_sim_attacks);
    }
}

/* ---- groups ---- */

/* Read the keys of an object about devices into g, over earlier values; checks the keys. */
static void read_devices(struct reader *r, const cJSON *object, struct uw_sim_group *g)
{
    static const struct {
        const char *key;
        void (*read)(struct reader *r, const cJSON *m, struct uw_sim_group *g);
    } keys[] = {{"device", read_device}, {"bandwidth", read_bandwidth}, {"latency", read_draw},
                {"loss", read_loss}, {"step", read_step}, {"speed", read_draw},
                {"availability", read_there}, {"stragglers", read_stragglers},
                {"cells", read_cells}, {"radio", read_cells}, {"attack", read_attack}};
    r->object = object;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const cJSON *m = get(object, keys[i].key);
        if (m != NULL) {
            size_t up = enter(r, keys[i].key);
            keys[i].read(r, m, g);
            leave(r, up);
        }
    }
}

static void read_group(struct reader *r, const cJSON *object, struct uw_sim_group *g)
{
    const cJSON *name = get(object, "name"), *count = get(object, "count");
    if (!has_keys(r, object, "name|count|" DEVICE_KEYS)) {
        return;
    }
    read_devices(r, object, g);
    size_t up = enter(r, "name");
    const char *text = name != NULL ? text_of(r, name) : g->kind != NULL ? g->kind->name : "";
    if (strlen(text) >= sizeof g->name) {
        wrong(r, name, "needs at most %u characters", (unsigned)sizeof g->name - 1u);
    }
    snprintf(g->name, sizeof g->name, "%.31s", text);
    if (text[0] == '\0') {
        snprintf(g->name, sizeof g->name, "group %u", (unsigned)r->f->scenario.groups_n);
    }
    leave(r, up);
    up = enter(r, "count");
    g->count = count != NULL ? whole(r, count, 1, UINT32_MAX) : 1u;
    leave(r, up);
}

/* "nodes": a number, or groups; groups[0] has the keys of the root. */
static void read_nodes(struct reader *r)
{
    struct uw_sim_file *f = r->f;
    const cJSON *nodes = get(f->json.root, "nodes");
    struct uw_sim_group all = f->scenario.groups[0];
    size_t up = enter(r, "nodes");
    if (nodes != NULL && !cJSON_IsArray(nodes)) {
        f->scenario.groups[0].count = whole(r, nodes, 1, UINT32_MAX);
    } else if (nodes != NULL) {
        f->grouped = true;
        f->scenario.groups_n = 0;
        for (const cJSON *m = nodes->child; m != NULL && r->j->err.code == UW_OK; m = m->next) {
            uint32_t i = f->scenario.groups_n;
            size_t item = enter_item(r, i);
            if (i == UW_SIM_GROUPS_MAX) {
                wrong(r, m, "is one too many: %u groups at most", UW_SIM_GROUPS_MAX);
            } else {
                f->scenario.groups[i] = all;
                f->scenario.groups_n++;
                read_group(r, m, &f->scenario.groups[i]);
            }
            leave(r, item);
        }
        if (f->scenario.groups_n == 0) {
            wrong(r, nodes, "needs one group at least");
        }
    }
    leave(r, up);
}

/* Refuse keys in a group that the root already sets for the whole fleet. */
static void check_groups(struct uw_sim_file *f)
{
    static const char *const keys[] = {"stragglers", "cells", "radio"};
    const cJSON *nodes = get(f->json.root, "nodes");
    uint32_t i = 0;
    for (const cJSON *m = cJSON_IsArray(nodes) ? nodes->child : NULL; m != NULL; m = m->next, i++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const cJSON *own = get(m, keys[k]);
            if (own != NULL && (k == 0 ? f->scenario.stragglers.share > 0.0
                                       : uw_sim_has_cells(&f->scenario.cells))) {
                uw_json_fail(&f->json, own, "\"nodes[%u].%s\" is given for the whole fleet "
                                            "already",
                             (unsigned)i, keys[k]);
            }
        }
    }
}

/* ---- the file ---- */

/* A flag as a key: - replaced. */
static const struct uw_opt *find_key(struct uw_opts opts, const char *key)
{
    for (uint32_t i = 0; i < opts.n; i++) {
        char name[KEY_BYTES];
        uw_opt_key(opts.row[i].name, name, sizeof name);
        if (strcmp(name, key) == 0 && !uw_sim_flag_is(UW_SIM_FLAG_NO_KEY, opts.row[i].name)) {
            return &opts.row[i];
        }
    }
    return NULL;
}

static void read_key(struct uw_json *j, struct uw_opts opts, const cJSON *m, void *options)
{
    struct uw_guess g = {.word = m->string, .word_bytes = strlen(m->string)};
    const struct uw_opt *o = find_key(opts, m->string);
    char names[KEYS_MAX][KEY_BYTES];
    if (o != NULL) {
        struct uw_opt key = *o;
        key.name = m->string;
        uw_json_option(j, &key, m, options);
        return;
    }
    if (uw_word_find("nodes|" DEVICE_KEYS, &g) >= 0) {
        return;
    }
    for (uint32_t i = 0; i < opts.n && i < KEYS_MAX; i++) {
        uw_opt_key(opts.row[i].name, names[i], sizeof names[i]);
        if (!uw_sim_flag_is(UW_SIM_FLAG_NO_KEY, opts.row[i].name)) {
            uw_guess_try(&g, names[i], strlen(names[i]));
        }
    }
    bool step = strcmp(m->string, "step_seconds") == 0;
    if (step || strcmp(m->string, "cell_nodes") == 0) {
        uw_json_fail(j, m, "unknown key \"%s\": use \"%s\": {\"%s\": ...}", m->string,
                     step ? "step" : "cells", step ? "seconds" : "nodes");
    } else {
        uw_json_fail(j, m, "unknown key \"%.60s\"%s%s", m->string,
                     uw_guess_hint(&g, "\"", "; the keys are the flags of uwasa sim, nodes and "),
                     g.nearest != NULL ? "" : DEVICE_KEYS);
    }
}

static void read_root(struct uw_sim_file *f, struct uw_opts opts, void *options)
{
    struct uw_json *j = &f->json;
    struct reader r = {.f = f, .j = j, .path = ""};
    if (!cJSON_IsObject(j->root)) {
        uw_json_fail(j, j->root, "a scenario needs an object {...}");
        return;
    }
    for (const cJSON *m = j->root->child; m != NULL; m = m->next) {
        if (get(j->root, m->string) != m) {
            uw_json_fail(j, m, "key \"%.60s\" comes twice", m->string);
        }
        read_key(j, opts, m, options);
    }
    if (j->err.code < 0) {
        return;
    }
    struct uw_sim_group *all = &f->scenario.groups[0];
    read_devices(&r, j->root, all);
    f->scenario.stragglers = all->stragglers;
    f->scenario.cells = all->cells;
    all->stragglers = (struct uw_sim_stragglers){.share = 0.0};
    all->cells = (struct uw_sim_cells){.nodes = 0};
    read_nodes(&r);
    check_groups(f);
}

int uw_sim_file_plain(struct uw_sim_file *f, struct uw_error *err)
{
    *f = (struct uw_sim_file){.traces_n = 0};
    f->scenario.groups = calloc(UW_SIM_GROUPS_MAX, sizeof *f->scenario.groups);
    if (f->scenario.groups == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "out of memory");
    }
    f->scenario.groups_n = 1;
    f->scenario.groups[0] = (struct uw_sim_group){
        .name = "nodes", .count = UW_SIM_NODES, .up = {.a = UW_SIM_BANDWIDTH},
        .latency = {.a = UW_SIM_LATENCY}, .speed = {.a = 1.0}};
    return UW_OK;
}

static int read_file(struct uw_sim_file *f, int rc, struct uw_opts opts, void *options,
                     struct uw_error *err)
{
    if (rc == UW_OK) {
        read_root(f, opts, options);
        rc = f->json.err.code;
    }
    return rc < 0 ? uw_error_set(err, rc, "%s", f->json.err.text) : UW_OK;
}

int uw_sim_file_load(struct uw_sim_file *f, const char *file, struct uw_opts opts, void *options,
                     struct uw_error *err)
{
    int rc = uw_sim_file_plain(f, err);
    return rc < 0 ? rc : read_file(f, uw_json_open_file(&f->json, file), opts, options, err);
}

int uw_sim_file_parse(struct uw_sim_file *f, const char *file, const char *text, size_t text_bytes,
                      struct uw_opts opts, void *options, struct uw_error *err)
{
    int rc = uw_sim_file_plain(f, err);
    return rc < 0 ? rc : read_file(f, uw_json_open_text(&f->json, file, text, text_bytes), opts,
                                   options, err);
}

void uw_sim_file_close(struct uw_sim_file *f)
{
    while (f->traces_n != 0) {
        free(f->traces[--f->traces_n]);
        free(f->trace_files[f->traces_n]);
    }
    free(f->scenario.groups);
    uw_json_close(&f->json);
    f->scenario = (struct uw_sim_scenario){.groups_n = 0};
}
