/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct uw_convert_tensor *find(const struct uw_convert_model *c, const char *name,
                                            uint32_t hint)
{
    for (uint32_t i = 0; i < c->tensors_n; i++) {
        const struct uw_convert_tensor *t = &c->tensors[(hint + i) % c->tensors_n];
        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}

static void dims_text(char text[64], const uint32_t *dim, uint32_t rank)
{
    size_t used = (size_t)snprintf(text, 64, "[");
    for (uint32_t a = 0; a < rank && used < 60; a++) {
        used += (size_t)snprintf(text + used, 64 - used, a > 0 ? ",%u" : "%u", (unsigned)dim[a]);
    }
    if (used < 63) {
        snprintf(text + used, 64 - used, "]");
    }
}

static int check(const struct uw_convert_model *c, const struct uw_segment *s, uint32_t hint,
                 struct uw_error *err)
{
    const struct uw_convert_tensor *t = find(c, s->name, hint);
    if (t == NULL) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "%.80s: no weights for %s inside", c->def.name,
                            s->name);
    }
    bool same = t->rank == s->rank;
    for (uint32_t a = 0; a < t->rank && same; a++) {
        same = t->dim[a] == s->dim[a];
    }
    if (!same) {
        char have[64];
        char want[64];
        dims_text(have, t->dim, t->rank);
        dims_text(want, s->dim, s->rank);
        return uw_error_set(err, UW_ERR_MISMATCH, "%.60s: tensor %s is %s, the model needs %s",
                            c->def.name, s->name, have, want);
    }
    for (uint32_t i = 0; i < s->size_n; i++) {
        if (!isfinite(t->data[i])) {
            return uw_error_set(err, UW_ERR_NONFINITE, "%.60s: tensor %s holds a NaN or an "
                                "infinity", c->def.name, s->name);
        }
    }
    return UW_OK;
}

/* Low-rank additions are not part of a file's model: they keep their initial values. */
static bool is_addition(const struct uw_model *m, const struct uw_segment *s)
{
    const char *dot = strrchr(s->name, '.');
    return m->config.adapt.lora_rank != 0 && dot != NULL && strncmp(dot, ".lora_", 6) == 0;
}

const char *uw_convert_entry(const struct uw_convert_model *c, const char *key)
{
    const char *value = NULL;
    for (uint32_t i = 0; i < c->entries_n; i++) {
        value = strcmp(c->entry[i].key, key) == 0 ? c->entry[i].value : value;
    }
    return value;
}

int uw_convert_apply(const struct uw_convert_model *c, struct uw_model *m, struct uw_error *err)
{
    const struct uw_params *p = &m->params;
    for (uint32_t i = 0; i < p->segments_n; i++) {
        if (is_addition(m, &p->segments[i])) {
            continue;
        }
        int rc = check(c, &p->segments[i], i, err);
        if (rc < 0) {
            return rc;
        }
    }
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *s = &p->segments[i];
        if (is_addition(m, s)) {
            continue;
        }
        memcpy(p->x + s->offset_n, find(c, s->name, i)->data, (size_t)s->size_n * sizeof(float));
    }
    const char *threshold = uw_convert_entry(c, UW_CONVERT_THRESHOLD);
    float value = threshold != NULL ? strtof(threshold, NULL) : 0.0f;
    m->anomaly_threshold = value > 0.0f && isfinite(value) ? value : m->anomaly_threshold;
    (void)uw_model_push(m); /* the first step reports a failed device */
    return UW_OK;
}
