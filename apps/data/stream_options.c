/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_options.h"

#include "columns.h"
#include "sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is said ---- */

/* A whole number of an option, 1 to 10 million. */
static bool take_number(const char *text, const char *key, uint32_t *n)
{
    size_t bytes = strlen(key);
    if (strncmp(text, key, bytes) != 0 || text[bytes] < '1' || text[bytes] > '9') {
        return false;
    }
    char *end;
    unsigned long value = strtoul(text + bytes, &end, 10);
    *n = (uint32_t)value;
    return *end == '\0' && value <= 10000000;
}

/* The path of an option. */
static bool take_path(const char *text, const char *key, char *path, size_t path_bytes)
{
    size_t bytes = strlen(key), n = strlen(text);
    if (strncmp(text, key, bytes) != 0 || n == bytes || n - bytes >= path_bytes) {
        return false;
    }
    memcpy(path, text + bytes, n - bytes + 1u);
    return true;
}

static bool take_file(struct uw_mqtt_files *f, const char *text)
{
    return take_path(text, "password=", f->password, sizeof f->password) ||
           take_path(text, "ca=", f->ca, sizeof f->ca) ||
           take_path(text, "cert=", f->cert, sizeof f->cert) ||
           take_path(text, "key=", f->key, sizeof f->key);
}

/* Keep an option that tables have too for its reader. */
static bool take_common(const char *text, char *common, size_t common_bytes)
{
    static const char *const keys[] = {"classes=", "scale=", "target-scale=", "label=", "target=",
                                       "drop="};
    size_t used = strlen(common);
    bool found = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        found = found || strncmp(text, keys[i], strlen(keys[i])) == 0;
    }
    if (!found) {
        return false;
    }
    snprintf(common + used, common_bytes - used, ",%s", text);
    return true;
}

int uw_stream_options_read(struct uw_stream_options *o, const char *name, struct uw_error *err)
{
    static const struct uw_table_form form = {"one stream", "keep, epoch, label, target, "
                                              "drop, classes, scale and target-scale", 1};
    char common[UW_STREAM_NAME_BYTES + 8u] = "stream";
    snprintf(o->address, sizeof o->address, "%s", name);
    char *part = strchr(o->address, ',');
    bool good = true, mqtt = strncmp(o->address, "mqtt", 4) == 0;
    while (part != NULL && good) {
        *part++ = '\0';
        char *next = strchr(part, ',');
        char one[UW_STREAM_NAME_BYTES];
        snprintf(one, sizeof one, "%.*s", (int)strcspn(part, ","), part);
        good = take_number(one, "keep=", &o->keep_n) || take_number(one, "epoch=", &o->epoch_n) ||
               take_common(one, common, sizeof common) || (mqtt && take_file(&o->files, one));
        part = next;
    }
    if (!good) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "%.80s: options are keep=N and epoch=N, whole numbers from 1 to "
                            "10000000, label=NAME, target=NAME+..., drop=NAME+..., "
                            "classes=A+B+..., scale=255 and target-scale=N%s", name,
                            mqtt ? ", password=FILE, ca=FILE, cert=FILE and key=FILE" : "");
    }
    return uw_table_options_read(&o->table, common, &form, err);
}

/* ---- what samples mean ---- */

/* Whether a list begins with these names, in this order. */
static bool begins_with(const char *said, char *const *names, uint32_t n)
{
    bool same = true;
    for (uint32_t k = 0; k < n && same; k++) {
        const char *word = NULL;
        size_t bytes = said != NULL ? uw_list_next(&said, &word) : 0;
        same = word != NULL && strlen(names[k]) == bytes && memcmp(names[k], word, bytes) == 0;
    }
    return same;
}

/* The classes that are said, in place of those of earlier training. */
static int take_classes(struct uw_data_columns *c, const char *said, struct uw_notes *notes)
{
    if (!begins_with(said, c->classes, c->classes_n)) {
        uw_note(notes, "WARNING: the model was trained on other classes, \"%.30s\" to \"%.30s\", "
                "which classes= replaces here: leave it out", c->classes[0],
                c->classes[c->classes_n - 1u]);
    }
    uw_names_free(c->classes, c->classes_n);
    return uw_names_read(said, &c->classes, &c->classes_n);
}

/* Leave out what a set with labels does not have, or one with so many values. */
static void leave_out(struct uw_data_columns *c, uint32_t values_n)
{
    if (values_n != 0) {
        uw_names_free(c->classes, c->classes_n);
        free(c->label);
        c->classes = NULL;
        c->label = NULL;
        c->classes_n = 0;
    }
    if (c->targets_n != values_n) {
        uw_names_free(c->targets, c->targets_n);
        free(c->target_mean);
        free(c->target_inverse);
        c->targets = NULL;
        c->target_mean = c->target_inverse = NULL;
        c->targets_n = 0;
    }
}

static int fail_standard(const struct uw_stream_options *o, const char *option,
                         struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_INVALID, "%.60s: %s=standard needs all samples beforehand: "
                        "train on a table with %s=standard first, and give what it saves to "
                        "--weights", o->address, option, option);
}

static int divide(float **mean, float **inverse, uint32_t n, float divisor,
                  const struct uw_stream_options *o, struct uw_error *err)
{
    free(*mean);
    free(*inverse);
    int rc = uw_scale_room(n, mean, inverse, o->address, err);
    for (uint32_t k = 0; rc == UW_OK && k < n; k++) {
        (*inverse)[k] = 1.0f / divisor;
    }
    return rc;
}

/* The scale of features, in place of the one that was copied. */
static int take_scale(struct uw_data_columns *c, const struct uw_stream_options *o,
                      const struct uw_data_columns *like, uint32_t n, struct uw_notes *notes,
                      struct uw_error *err)
{
    if (uw_scale_is_earlier(&o->table, like, n, notes)) {
        return UW_OK;
    }
    if (o->table.scale == UW_SCALE_STANDARD) {
        return fail_standard(o, "scale", err);
    }
    if (o->table.scale == UW_SCALE_255) {
        return divide(&c->mean, &c->inverse, n, 255.0f, o, err);
    }
    free(c->mean);
    free(c->inverse);
    c->mean = c->inverse = NULL;
    return UW_OK;
}

/* The same of n values. */
static int take_target_scale(struct uw_data_columns *c, const struct uw_stream_options *o,
                             const struct uw_data_columns *like, uint32_t n,
                             struct uw_notes *notes, struct uw_error *err)
{
    if (uw_target_scale_is_earlier(&o->table, like, n, notes)) {
        return UW_OK;
    }
    if (o->table.target_scale == UW_TARGET_SCALE_STANDARD) {
        return fail_standard(o, "target-scale", err);
    }
    if (o->table.target_scale == UW_TARGET_SCALE_DIVIDE) {
        uw_note(notes, "%s learned divided by %g: losses are those of scaled values, answers are "
                "in the units of the data", n == 1 ? "the value is" : "values are",
                (double)o->table.divisor);
        return divide(&c->target_mean, &c->target_inverse, n, o->table.divisor, o, err);
    }
    free(c->target_mean);
    free(c->target_inverse);
    c->target_mean = c->target_inverse = NULL;
    return UW_OK;
}

/* Refuse options of a label where there are values, and the other way round. */
static int check_said(const struct uw_stream_options *o, uint32_t values_n, struct uw_error *err)
{
    bool scale = o->table.target_scale > UW_TARGET_SCALE_NONE;
    if (values_n == 0 && (scale || o->table.target != NULL)) {
        return uw_error_set(err, UW_ERR_INVALID, "%.60s: %s= is for values, here are labels: "
                            "--loss mse learns values", o->address,
                            scale ? "target-scale" : "target");
    }
    return values_n == 0 || o->table.label == NULL
               ? UW_OK
               : uw_error_set(err, UW_ERR_INVALID, "%.60s: label= is for classes, here are values: "
                              "target=NAME+... names them", o->address);
}

int uw_stream_columns_take(struct uw_data_columns *columns, const struct uw_stream_options *o,
                           const struct uw_data_config *config, uint32_t sample_n,
                           uint32_t values_n, struct uw_notes *notes, struct uw_error *err)
{
    const struct uw_data_columns *like = config->like;
    *columns = (struct uw_data_columns){.features_n = 0};
    int rc = check_said(o, values_n, err);
    if (rc < 0) {
        return rc;
    }
    if (like != NULL && sample_n != 0 && like->features_n == sample_n) {
        rc = uw_data_columns_copy(columns, like);
        leave_out(columns, values_n);
    }
    if (rc == UW_OK && o->table.classes != NULL && values_n == 0) {
        rc = take_classes(columns, o->table.classes, notes);
    }
    if (rc < 0) {
        return uw_error_set(err, rc, "%.60s: no memory for names of columns", o->address);
    }
    rc = take_scale(columns, o, like, sample_n, notes, err);
    rc = rc < 0 || values_n == 0 ? rc : take_target_scale(columns, o, like, values_n, notes, err);
    columns->targets_n = values_n;
    if (columns->mean != NULL || columns->classes != NULL || values_n != 0) {
        columns->features_n = sample_n;
    }
    return rc;
}
