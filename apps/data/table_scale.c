/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale of features, and of the values that a model computes. */
#include "table_set.h"
#include "value_classes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- of any data ---- */

int uw_scale_room(size_t n, float **mean, float **inverse, const char *what, struct uw_error *err)
{
    *mean = calloc(n + 1u, sizeof **mean);
    *inverse = calloc(n + 1u, sizeof **inverse);
    return *mean != NULL && *inverse != NULL
               ? UW_OK : uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory for its scale", what);
}

bool uw_scale_is_earlier(const struct uw_table_options *o, const struct uw_data_columns *like,
                         size_t n, struct uw_notes *notes)
{
    bool standard = o->scale == UW_SCALE_STANDARD;
    if (like == NULL || like->mean == NULL || like->features_n != n) {
        return false;
    }
    if (standard || !o->scale_said) {
        uw_note(notes, standard ? "features are scaled as in training, not by this data"
                                : "features are scaled as in training");
        return true;
    }
    if (o->scale == UW_SCALE_NONE || like->inverse[0] != 1.0f / 255.0f) {
        uw_note(notes, "WARNING: the model was trained on another scale, which scale replaces "
                       "here: leave it out");
    }
    return false;
}

bool uw_target_scale_is_earlier(const struct uw_table_options *o,
                                const struct uw_data_columns *like, size_t n,
                                struct uw_notes *notes)
{
    if (like == NULL || like->target_mean == NULL || like->targets_n != n) {
        return false;
    }
    bool same = o->target_scale == UW_TARGET_SCALE_DIVIDE && like->target_mean[0] == 0.0f &&
                like->target_inverse[0] == 1.0f / o->divisor;
    if (o->target_scale != UW_TARGET_SCALE_AUTO && o->target_scale != UW_TARGET_SCALE_STANDARD &&
        !same) {
        uw_note(notes, "WARNING: the model was trained on values of another scale, which the "
                       "target scale given replaces here: leave it out");
        return false;
    }
    uw_note(notes, "values are scaled as in training: losses are those of scaled values, answers "
                   "are in the units of the data");
    return true;
}

/* ---- features ---- */

int uw_table_scale(struct uw_table_set *p, float *mean)
{
    struct uw_data_columns *c = &p->d->columns;
    const struct uw_data_columns *like = p->config->like;
    size_t bytes = c->features_n * sizeof(float);
    if (p->config->unscaled) {
        bool known = like != NULL && like->mean != NULL && like->features_n == c->features_n;
        for (uint32_t k = 0; k < c->features_n && known; k++) {
            mean[k] = like->mean[k] != 0.0f ? like->mean[k] : mean[k];
        }
        return UW_OK;
    }
    bool earlier = uw_scale_is_earlier(&p->files.o, like, c->features_n, &p->d->notes);
    if (!earlier && p->files.o.scale == UW_SCALE_NONE) {
        return UW_OK;
    }
    int rc = uw_scale_room(c->features_n, &c->mean, &c->inverse, p->files.o.file, p->err);
    if (rc < 0) {
        return rc;
    }
    for (uint32_t k = 0; k < c->features_n; k++) {
        c->inverse[k] = 1.0f / 255.0f;
    }
    if (earlier) {
        memcpy(c->mean, like->mean, bytes);
        memcpy(c->inverse, like->inverse, bytes);
        for (uint32_t k = 0; k < c->features_n; k++) {
            mean[k] = like->mean[k] != 0.0f ? like->mean[k] : mean[k];  /* 0: not standard */
        }
    } else if (p->files.o.scale == UW_SCALE_STANDARD) {
        uw_table_moments(&p->rows[0], p->roles.features, p->roles.features_n, mean, c->inverse);
        memcpy(c->mean, mean, bytes);
    }
    return UW_OK;
}

/* ---- values ---- */

bool uw_values_are_far(float mean, float inverse, float least, float most)
{
    const float large = 4.0f, small = 0.1f;     /* beyond the one, or all within the other */
    float size = fmaxf(fabsf(least), fabsf(most));
    bool changes = least < most;
    return hypotf(mean, changes ? 1.0f / inverse : 0.0f) > large || (size < small && changes);
}

/* The first value that is far from 1, as a column; UINT32_MAX: there is none. */
static uint32_t find_far(const struct uw_table_set *p, const float *mean, const float *inverse)
{
    for (uint32_t k = 0; k < p->d->base.targets_n; k++) {
        const struct uw_column *c = &p->rows[0].table->columns[p->roles.targets[k]];
        if (uw_values_are_far(mean[k], inverse[k], c->least, c->most)) {
            return p->roles.targets[k];
        }
    }
    return UINT32_MAX;
}

/* The first value that is no class; targets_n: all are classes. */
static uint32_t first_value(const struct uw_table_set *p)
{
    uint32_t n = p->d->base.targets_n, k = 0;
    while (k < n && uw_value_classes(p->config, k, n) != 0) {
        k++;
    }
    return k;
}

static void tell_values(struct uw_table_set *p, bool chosen)
{
    const struct uw_data_columns *c = &p->d->columns;
    const struct uw_table_options *o = &p->files.o;
    uint32_t n = p->d->base.targets_n, k = first_value(p);
    char text[UW_NOTE_BYTES], column[64];
    uint32_t used = uw_note_add(text, 0, sizeof text, n == 1 ? "the value in %s is learned "
                                                    : "values are learned, the one in %s ",
                       uw_column_text(p->rows[0].table, p->roles.targets[k], column));
    if (o->target_scale == UW_TARGET_SCALE_DIVIDE) {
        uw_note_add(text, used, sizeof text, "divided by %g", (double)o->divisor);
    } else {
        uw_note_add(text, used, sizeof text, "minus %g and divided by %g",
                    (double)c->target_mean[k], 1.0 / (double)c->target_inverse[k]);
    }
    uw_note(&p->d->notes, "%s: losses are those of scaled values, answers are in the table's "
            "units%s", text, chosen ? "; target-scale=none leaves values as they are" : "");
}

/* Values far from 1 that nothing scales. */
static void doubt_values(struct uw_table_set *p, uint32_t column)
{
    const struct uw_column *c = &p->rows[0].table->columns[column];
    char text[64];
    if (p->config->advice == UW_DATA_ADVISES_NEW) {
        uw_note(&p->d->notes, "the values in %s go from %g to %g and are not scaled: target-scale="
                "standard is for a model that nobody has trained; weights of the model's own "
                "compute the units of their training",
                uw_column_text(p->rows[0].table, column, text), (double)c->least, (double)c->most);
        return;
    }
    uw_note(&p->d->notes, "WARNING: the values in %s go from %g to %g, which a model learns badly: "
            "target-scale=standard gives them mean 0 and deviation 1, target-scale=N divides by N",
            uw_column_text(p->rows[0].table, column, text), (double)c->least, (double)c->most);
}

/* The scale that is said, or that values far from 1 get. */
static void choose_values(struct uw_table_set *p, bool *scaled)
{
    const struct uw_table_options *o = &p->files.o;
    struct uw_data_columns *c = &p->d->columns;
    uint32_t n = p->d->base.targets_n;
    uw_table_moments(&p->rows[0], p->roles.targets, n, c->target_mean, c->target_inverse);
    uint32_t far = find_far(p, c->target_mean, c->target_inverse);
    bool standard = o->target_scale == UW_TARGET_SCALE_STANDARD;
    bool chosen = o->target_scale == UW_TARGET_SCALE_AUTO && far != UINT32_MAX &&
                  p->config->scale_values;
    for (uint32_t k = 0; k < n && o->target_scale == UW_TARGET_SCALE_DIVIDE; k++) {
        c->target_mean[k] = 0.0f;
        c->target_inverse[k] = 1.0f / o->divisor;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (uw_value_classes(p->config, k, n) != 0) {
            c->target_mean[k] = 0.0f;
            c->target_inverse[k] = 1.0f;
        }
    }
    *scaled = (standard || chosen || o->target_scale == UW_TARGET_SCALE_DIVIDE) &&
              first_value(p) < n;
    if (*scaled) {
        tell_values(p, chosen);
    } else if (far != UINT32_MAX && o->target_scale == UW_TARGET_SCALE_AUTO &&
               p->config->like == NULL && p->config->advice != UW_DATA_ADVISES_NOTHING) {
        doubt_values(p, far);
    }
}

int uw_table_scale_values(struct uw_table_set *p)
{
    struct uw_data_columns *c = &p->d->columns;
    const struct uw_table_options *o = &p->files.o;
    uint32_t n = p->d->base.targets_n;
    bool said = o->target_scale != UW_TARGET_SCALE_AUTO;
    bool scaled = false, others = p->config->outputs != 0 && n != p->config->outputs;
    if (n == 0) {
        return !said || p->config->wanted == UW_DATA_WANT_NOTHING
                   ? UW_OK
                   : uw_error_set(p->err, UW_ERR_INVALID, "target-scale= is for values, %.100s has "
                                  "none: target=NAME names their column", o->file);
    }
    const struct uw_data_columns *like = p->config->like;
    scaled = uw_target_scale_is_earlier(o, like, n, &p->d->notes);
    if (!scaled && !said && (p->config->leave_values || others)) {
        return UW_OK;
    }
    int rc = uw_scale_room(n, &c->target_mean, &c->target_inverse, o->file, p->err);
    if (rc < 0) {
        return rc;
    }
    if (scaled) {
        memcpy(c->target_mean, like->target_mean, n * sizeof(float));
        memcpy(c->target_inverse, like->target_inverse, n * sizeof(float));
    } else {
        choose_values(p, &scaled);
    }
    if (!scaled) {
        free(c->target_mean);
        free(c->target_inverse);
        c->target_mean = c->target_inverse = NULL;
    }
    return UW_OK;
}
