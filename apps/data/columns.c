/* SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include "table_options.h"

#include <stdlib.h>
#include <string.h>

void uw_names_free(char **names, uint32_t n)
{
    for (uint32_t i = 0; names != NULL && i < n; i++) {
        free(names[i]);
    }
    free(names);
}

uint32_t uw_columns_find(const struct uw_cell *names, uint32_t n, const uint32_t *feature,
                         const char *name)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t k = 0; k < n; k++) {
        if (feature[k] != UINT32_MAX || !uw_cell_is(&names[k], name)) {
            continue;
        }
        if (memcmp(names[k].text, name, names[k].bytes) == 0) {
            return k;
        }
        found = found == UINT32_MAX ? k : found;
    }
    return found;
}

int uw_columns_match(const struct uw_data_columns *like, const struct uw_cell *names, uint32_t n,
                     uint32_t *feature, const char *where, struct uw_error *err)
{
    const char *missing = NULL;
    int found = 0;
    for (uint32_t k = 0; k < n; k++) {
        feature[k] = UINT32_MAX;
    }
    for (uint32_t k = 0; k < like->features_n; k++) {
        uint32_t at = uw_columns_find(names, n, feature, like->features[k]);
        if (at == UINT32_MAX) {
            missing = missing == NULL ? like->features[k] : missing;
            continue;
        }
        feature[at] = k;
        found++;
    }
    if (found == 0 || missing == NULL) {
        return found;
    }
    return uw_error_set(err, UW_ERR_MISMATCH, "%.100s: no column \"%.40s\", which the model was "
                        "trained on; it needs all %u, in any order", where, missing,
                        (unsigned)like->features_n);
}

int uw_names_copy(char ***to, char *const *from, uint32_t n)
{
    bool good = true;
    *to = from != NULL ? calloc((size_t)n + 1u, sizeof **to) : NULL;
    for (uint32_t i = 0; *to != NULL && i < n; i++) {
        (*to)[i] = strdup(from[i]);
        good = good && (*to)[i] != NULL;
    }
    return good && (*to != NULL || from == NULL) ? UW_OK : UW_ERR_NOMEM;
}

int uw_names_read(const char *list, char ***names, uint32_t *n)
{
    bool good = true;
    *n = uw_list_count(list);
    *names = calloc(*n, sizeof **names);
    for (uint32_t k = 0; *names != NULL && k < *n; k++) {
        const char *word;
        size_t bytes = uw_list_next(&list, &word);
        (*names)[k] = strndup(word, bytes);
        good = good && (*names)[k] != NULL;
    }
    return good && *names != NULL ? UW_OK : UW_ERR_NOMEM;
}

static void *copy_of(const void *from, size_t bytes, bool *good)
{
    void *copy = from != NULL ? malloc(bytes + 1u) : NULL;
    if (copy != NULL) {
        memcpy(copy, from, bytes);
    }
    *good = *good && (copy != NULL || from == NULL);
    return copy;
}

int uw_data_columns_copy(struct uw_data_columns *to, const struct uw_data_columns *from)
{
    size_t row = from->features_n * sizeof *from->mean;
    size_t values = from->targets_n * sizeof *from->mean;
    *to = (struct uw_data_columns){.features_n = from->features_n, .classes_n = from->classes_n,
                                   .targets_n = from->targets_n, .columns_n = from->columns_n,
                                   .indices_from = from->indices_from};
    bool good = uw_names_copy(&to->features, from->features, from->features_n) == UW_OK;
    good = uw_names_copy(&to->classes, from->classes, from->classes_n) == UW_OK && good;
    good = uw_names_copy(&to->targets, from->targets, from->targets_n) == UW_OK && good;
    to->label = copy_of(from->label, from->label != NULL ? strlen(from->label) + 1u : 0, &good);
    to->mean = copy_of(from->mean, row, &good);
    to->inverse = copy_of(from->inverse, row, &good);
    to->target_mean = copy_of(from->target_mean, values, &good);
    to->target_inverse = copy_of(from->target_inverse, values, &good);
    to->places = copy_of(from->places, from->features_n * sizeof *from->places, &good);
    to->sound = copy_of(from->sound, sizeof *from->sound, &good);
    return good ? UW_OK : UW_ERR_NOMEM;
}

void uw_data_columns_free(struct uw_data_columns *c)
{
    uw_names_free(c->features, c->features_n);
    uw_names_free(c->classes, c->classes_n);
    uw_names_free(c->targets, c->targets_n);
    free(c->label);
    free(c->mean);
    free(c->inverse);
    free(c->target_mean);
    free(c->target_inverse);
    free(c->places);
    free(c->counts);
    free(c->sound);
    *c = (struct uw_data_columns){.features_n = 0};
}
