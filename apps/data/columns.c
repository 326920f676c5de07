/* SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

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
