/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_scenario_read.h"

#include "base/open_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_BYTES_MAX (16u << 20)
#define KEYS_MAX 64u

/* Of the root and of a group. */
#define DEVICE_KEYS \
    "device|bandwidth|latency|loss|step|speed|stragglers|availability|cells|radio"

/* Flags that are no keys: where results go, and what the keys of the devices say better. */
#define NO_KEYS \
    "|config|scenario|advise|advise-seconds|advise-runs|dry-run|devices|json|csv|resume|nodes|" \
    "cell-nodes|bandwidth|latency|loss|step-seconds|"

/* ---- one device's keys ---- */

static const struct uw_sim_kind *read_kind(struct uw_sim_reader *r, const cJSON *m)
{
    const char *name = uw_sim_text(r, m);
    const struct uw_sim_kind *kind = uw_sim_kind_find(name), *other;
    struct uw_guess g = {.word = name, .word_bytes = strlen(name)};
    for (uint32_t i = 0; kind == NULL && (other = uw_sim_kind_at(i)) != NULL; i++) {
        uw_guess_try(&g, other->name, strlen(other->name));
    }
    if (kind == NULL && g.nearest != NULL) {
        uw_sim_wrong(r, m, "%.40s is no known device, did you mean \"%s\"?", name, g.nearest);
    } else if (kind == NULL) {
        uw_sim_wrong(r, m, "%.40s is no known device, uwasa sim --devices lists them", name);
    }
    return kind;
}

static void read_device(struct uw_sim_reader *r, const cJSON *object, bool said_rate,
                        struct uw_sim_group *g)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, "device");
    if (m == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, "device");
    g->kind = read_kind(r, m);
    g->step = UW_SIM_STEP_KIND;
    if (g->kind != NULL && g->kind->link_bits_per_s != 0 && !said_rate) {
        g->up = g->down = (struct uw_sim_spread){.a = (double)g->kind->link_bits_per_s};
        g->one_rate = true;
    }
    uw_sim_leave(r, up);
}

/* "bandwidth": a value for both ways, or {"up": value, "down": value} */
static void read_bandwidth(struct uw_sim_reader *r, const cJSON *object, struct uw_sim_group *g)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, "bandwidth");
    if (m == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, "bandwidth");
    g->one_rate = cJSON_GetObjectItemCaseSensitive(m, "up") == NULL &&
                  cJSON_GetObjectItemCaseSensitive(m, "down") == NULL;
    if (g->one_rate) {
        uw_sim_spread(r, m, &uw_sim_bits, &g->up);
        g->down = g->up;
    } else if (uw_sim_keys(r, m, "up|down")) {
        g->up = g->down = (struct uw_sim_spread){.kind = UW_SIM_SAME};
        uw_sim_spread_of(r, m, "up", &uw_sim_bits, &g->up);
        uw_sim_spread_of(r, m, "down", &uw_sim_bits, &g->down);
    }
    uw_sim_leave(r, up);
}

/* "step": {"seconds": value}, {"measured": true} or {"device": name} */
static void read_step(struct uw_sim_reader *r, const cJSON *object, struct uw_sim_group *g)
{
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(object, "step");
    if (step == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, "step");
    const cJSON *m = uw_sim_one_of(r, step, "seconds|measured|device");
    size_t key = uw_sim_enter(r, m != NULL ? m->string : "");
    if (m != NULL && m->string[0] == 's') {
        g->step = UW_SIM_STEP_SECONDS;
        uw_sim_spread(r, m, &uw_sim_seconds, &g->seconds);
    } else if (m != NULL && m->string[0] == 'd') {
        g->step = UW_SIM_STEP_KIND;
        g->kind = read_kind(r, m);
    } else if (m != NULL) {
        g->step = UW_SIM_STEP_MEASURED;
        if (!cJSON_IsTrue(m)) {
            uw_sim_wrong(r, m, "needs true");
        }
    }
    uw_sim_leave(r, key);
    uw_sim_leave(r, up);
}

/* ---- when devices are there ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void read_trace(struct uw_sim_file *f, struct uw_sim_reader *r, const cJSON *m,
                       struct uw_sim_availability *v)
{
    const char *name = uw_sim_text(r, m), *scenario = f->json.file;
    char path[1024];
    size_t n = 0;
    int dir = name[0] == '/' ? 0 : (int)(base_of(scenario) - scenario);
    struct uw_error why = {.text = ""};
    if (r->j->err.code < 0 || f->traces_n == UW_SIM_TRACES_MAX) {
        return;
    }
    bool fits = snprintf(path, sizeof path, "%.*s%s", dir, scenario, name) < (int)sizeof path;
    FILE *file = fits ? uw_open_file(path, false) : NULL;
    char *text = file != NULL ? malloc(TRACE_BYTES_MAX) : NULL;
    if (text != NULL) {
        n = fread(text, 1, TRACE_BYTES_MAX, file);
    }
    if (text == NULL || n == TRACE_BYTES_MAX || ferror(file)) {
        uw_sim_wrong(r, m, "%.80s cannot be read%s", name,
                     n == TRACE_BYTES_MAX ? ": it has 16 MiB or more" : "");
    } else if (uw_sim_trace_read(base_of(path), text, n, &f->traces[f->traces_n], &v->away_n,
                                 &why) < 0) {
        uw_sim_wrong(r, m, "%.160s", why.text);
    } else {
        v->away = f->traces[f->traces_n];
        f->trace_files[f->traces_n++] = strdup(path);
    }
    free(text);
    if (file != NULL) {
        fclose(file);
    }
}

static void read_diurnal(struct uw_sim_reader *r, const cJSON *m, struct uw_sim_availability *v)
{
    if (uw_sim_keys(r, m, "period|up|spread")) {
        v->period = uw_sim_number(r, m, "period", 0.001, UW_SIM_SECONDS_MAX, -1.0);
        v->up = uw_sim_number(r, m, "up", 0.001, 1.0, -1.0);
        v->spread = uw_sim_number(r, m, "spread", 0.0, v->period, v->period);
    }
}

static void read_churn(struct uw_sim_reader *r, const cJSON *m, struct uw_sim_availability *v)
{
    if (uw_sim_keys(r, m, "up|down|forgets")) {
        v->up = uw_sim_number(r, m, "up", 0.001, UW_SIM_SECONDS_MAX, -1.0);
        v->down = uw_sim_number(r, m, "down", 0.001, UW_SIM_SECONDS_MAX, -1.0);
        v->forgets = uw_sim_number(r, m, "forgets", 0.0, 1.0, 0.0);
    }
}

static void read_there(struct uw_sim_file *f, struct uw_sim_reader *r, const cJSON *object,
                       bool whole, struct uw_sim_availability *v)
{
    const cJSON *there = cJSON_GetObjectItemCaseSensitive(object, "availability");
    if (there == NULL) {
        return;
    }
    size_t up = uw_sim_enter(r, "availability");
    const cJSON *m = uw_sim_one_of(r, there, "always|diurnal|churn|trace");
    size_t key = uw_sim_enter(r, m != NULL ? m->string : "");
    *v = (struct uw_sim_availability){.whole = whole};
    if (m == NULL) {
        v->kind = UW_SIM_ALWAYS;
    } else if (m->string[0] == 'd') {
        v->kind = UW_SIM_DIURNAL;
        read_diurnal(r, m, v);
    } else if (m->string[0] == 'c') {
        v->kind = UW_SIM_CHURN;
        read_churn(r, m, v);
    } else if (m->string[0] == 't') {
        v->kind = UW_SIM_TRACE;
        read_trace(f, r, m, v);
    } else if (!cJSON_IsTrue(m)) {
        uw_sim_wrong(r, m, "needs true");
    }
    uw_sim_leave(r, key);
    uw_sim_leave(r, up);
}

/* ---- groups ---- */

/* What an object says of devices, over what g has already; its keys are checked. */
static void read_devices(struct uw_sim_file *f, struct uw_sim_reader *r, const cJSON *object,
                         bool said_rate, bool whole, struct uw_sim_group *g)
{
    read_device(r, object, said_rate, g);
    read_bandwidth(r, object, g);
    uw_sim_spread_of(r, object, "latency", &uw_sim_latency, &g->latency);
    g->loss = uw_sim_number(r, object, "loss", 0.0, 1.0, g->loss);
    read_step(r, object, g);
    uw_sim_spread_of(r, object, "speed", &uw_sim_speed, &g->speed);
    read_there(f, r, object, whole, &g->there);
}

static void read_group(struct uw_sim_file *f, struct uw_sim_reader *r, const cJSON *object,
                       struct uw_sim_group *g)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(object, "name");
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(object, "count");
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(f->json.root, "bandwidth");
    if (!uw_sim_keys(r, object, "name|count|" DEVICE_KEYS)) {
        return;
    }
    read_devices(f, r, object, rate != NULL, false, g);
    uw_sim_read_stragglers(r, object, &g->stragglers);
    uw_sim_read_cells(r, object, &g->cells);
    size_t up = uw_sim_enter(r, "name");
    const char *text = name != NULL ? uw_sim_text(r, name) : g->kind != NULL ? g->kind->name : "";
    if (strlen(text) >= sizeof g->name) {
        uw_sim_wrong(r, name, "needs at most %u characters", (unsigned)sizeof g->name - 1u);
    }
    if (text[0] == '\0') {
        snprintf(g->name, sizeof g->name, "group %u", (unsigned)f->scenario.groups_n);
    } else {
        snprintf(g->name, sizeof g->name, "%.31s", text);
    }
    uw_sim_leave(r, up);
    up = uw_sim_enter(r, "count");
    g->count = count != NULL ? uw_sim_whole(r, count, 1, UINT32_MAX) : 1u;
    uw_sim_leave(r, up);
}

/* "nodes": a number, or groups; groups[0] has what the root says of all. */
static void read_nodes(struct uw_sim_file *f, struct uw_sim_reader *r)
{
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(f->json.root, "nodes");
    struct uw_sim_group all = f->scenario.groups[0];
    size_t up = uw_sim_enter(r, "nodes");
    if (nodes != NULL && !cJSON_IsArray(nodes)) {
        f->scenario.groups[0].count = uw_sim_whole(r, nodes, 1, UINT32_MAX);
    } else if (nodes != NULL) {
        f->grouped = true;
        f->scenario.groups_n = 0;
        for (const cJSON *m = nodes->child; m != NULL && r->j->err.code == UW_OK; m = m->next) {
            uint32_t i = f->scenario.groups_n;
            size_t item = uw_sim_enter_item(r, i);
            if (i == UW_SIM_GROUPS_MAX) {
                uw_sim_wrong(r, m, "is one too many: %u groups at most", UW_SIM_GROUPS_MAX);
            } else {
                f->scenario.groups[i] = all;
                f->scenario.groups_n++;
                read_group(f, r, m, &f->scenario.groups[i]);
            }
            uw_sim_leave(r, item);
        }
        if (f->scenario.groups_n == 0) {
            uw_sim_wrong(r, nodes, "needs one group at least");
        }
    }
    uw_sim_leave(r, up);
}

/* What the root says of the whole fleet no group may say of itself. */
static void check_groups(struct uw_sim_file *f, struct uw_sim_reader *r)
{
    static const char *const keys[] = {"stragglers", "cells", "radio"};
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(f->json.root, "nodes");
    uint32_t i = 0;
    for (const cJSON *m = cJSON_IsArray(nodes) ? nodes->child : NULL; m != NULL; m = m->next, i++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const cJSON *own = cJSON_GetObjectItemCaseSensitive(m, keys[k]);
            bool cells = k != 0 && (f->scenario.cells.nodes != 0 || f->scenario.cells.cells != 0 ||
                                    f->scenario.cells.sizes_n != 0);
            if (own != NULL && (cells || (k == 0 && f->scenario.stragglers.share > 0.0))) {
                uw_json_fail(r->j, own, "\"nodes[%u].%s\" is said of the whole fleet already",
                             (unsigned)i, keys[k]);
            }
        }
    }
}

/* ---- the file ---- */

/* The flags as keys, - replaced. */
struct keys {
    struct uw_opt row[KEYS_MAX];
    char name[KEYS_MAX][24];
    uint32_t n;
};

static void make_keys(struct keys *k, struct uw_opts opts)
{
    k->n = 0;
    for (uint32_t i = 0; i < opts.n && k->n < KEYS_MAX; i++) {
        char quoted[32];
        snprintf(quoted, sizeof quoted, "|%s|", opts.row[i].name);
        if (strstr(NO_KEYS, quoted) != NULL) {
            continue;
        }
        char *name = k->name[k->n];
        uw_opt_key(opts.row[i].name, name, sizeof k->name[0]);
        k->row[k->n] = opts.row[i];
        k->row[k->n++].name = name;
    }
}

/* Is it one of "a|b|c"? Else it is considered as a suggestion. */
static bool is_one(const char *words, const char *word, struct uw_guess *g)
{
    for (const char *p = words; *p != '\0';) {
        size_t n = strcspn(p, "|");
        if (n == strlen(word) && memcmp(p, word, n) == 0) {
            return true;
        }
        uw_guess_try(g, p, n);
        p += n + (p[n] == '|' ? 1u : 0u);
    }
    return false;
}

static void read_key(struct uw_json *j, const struct keys *k, const cJSON *m, void *options)
{
    struct uw_opts opts = {k->row, k->n};
    struct uw_guess g = {.word = m->string, .word_bytes = strlen(m->string)};
    const struct uw_opt *o = uw_opt_find(opts, m->string, g.word_bytes);
    if (o != NULL) {
        uw_json_option(j, o, m, options);
        return;
    }
    if (is_one("nodes|" DEVICE_KEYS, m->string, &g)) {
        return;
    }
    for (uint32_t i = 0; i < k->n; i++) {
        uw_guess_try(&g, k->row[i].name, strlen(k->row[i].name));
    }
    if (strcmp(m->string, "step_seconds") == 0) {
        uw_json_fail(j, m, "unknown key \"step_seconds\": \"step\": {\"seconds\": ...} says it");
    } else if (strcmp(m->string, "cell_nodes") == 0) {
        uw_json_fail(j, m, "unknown key \"cell_nodes\": \"cells\": {\"nodes\": ...} says it");
    } else if (g.nearest != NULL) {
        uw_json_fail(j, m, "unknown key \"%.60s\", did you mean \"%.*s\"?", m->string,
                     (int)g.nearest_bytes, g.nearest);
    } else {
        uw_json_fail(j, m, "unknown key \"%.60s\"; the keys are the flags of uwasa sim, nodes and "
                           DEVICE_KEYS, m->string);
    }
}

static void read_root(struct uw_sim_file *f, struct uw_opts opts, void *options)
{
    struct uw_json *j = &f->json;
    struct uw_sim_reader r = {.j = j, .path = ""};
    struct keys keys;
    if (!cJSON_IsObject(j->root)) {
        uw_json_fail(j, j->root, "a scenario needs an object {...}");
        return;
    }
    make_keys(&keys, opts);
    for (const cJSON *m = j->root->child; m != NULL; m = m->next) {
        if (cJSON_GetObjectItemCaseSensitive(j->root, m->string) != m) {
            uw_json_fail(j, m, "key \"%.60s\" comes twice", m->string);
        }
        read_key(j, &keys, m, options);
    }
    if (j->err.code < 0) {
        return;
    }
    struct uw_sim_group *all = &f->scenario.groups[0];
    read_devices(f, &r, j->root, false, true, all);
    uw_sim_read_stragglers(&r, j->root, &f->scenario.stragglers);
    uw_sim_read_cells(&r, j->root, &f->scenario.cells);
    read_nodes(f, &r);
    check_groups(f, &r);
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
        .name = "nodes", .count = UW_SIM_NODES,
        .up = {.a = UW_SIM_BANDWIDTH},
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
