/* SPDX-License-Identifier: Apache-2.0 */
#include "columns.h"

#include "uwasa/data.h"

#include <stdlib.h>

void uw_names_free(char **names, uint32_t n)
{
    for (uint32_t i = 0; names != NULL && i < n; i++) {
        free(names[i]);
    }
    free(names);
}

void uw_data_columns_free(struct uw_data_columns *c)
{
    uw_names_free(c->features, c->features_n);
    uw_names_free(c->classes, c->classes_n);
    uw_names_free(c->targets, c->targets_n);
    free(c->mean);
    free(c->inverse);
    free(c->target_mean);
    free(c->target_inverse);
    free(c->places);
    free(c->counts);
    free(c->sound);
    *c = (struct uw_data_columns){.features_n = 0};
}
