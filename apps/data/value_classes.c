/* SPDX-License-Identifier: Apache-2.0 */
#include "value_classes.h"

#include <math.h>
#include <stdio.h>

bool uw_values_are_mask(const struct uw_data_config *config, uint32_t n)
{
    return config->classes == NULL && n > 1 && n < config->mask_outputs &&
           config->mask_outputs % n == 0;
}

uint32_t uw_value_classes(const struct uw_data_config *config, uint32_t k, uint32_t n)
{
    if (uw_values_are_mask(config, n)) {
        return config->mask_outputs / n;
    }
    return config->classes != NULL && config->classes_n == n ? config->classes[k] : 0;
}

uint32_t uw_value_classes_find(const struct uw_data_config *config, const float *row, uint32_t n)
{
    bool some = uw_values_are_mask(config, n) || config->classes != NULL;
    for (uint32_t k = 0; k < n && some; k++) {
        uint32_t classes = uw_value_classes(config, k, n);
        bool whole = row[k] == floorf(row[k]);
        if (classes != 0 && row[k] >= 0.0f && !(whole && row[k] < (float)classes)) {
            return k;
        }
    }
    return n;
}

int uw_value_classes_refuse(const struct uw_data_config *config, float value, uint32_t k,
                            uint32_t n, const char *where, struct uw_error *err)
{
    bool mask = uw_values_are_mask(config, n);
    char hint[120];
    if (value != floorf(value)) {
        snprintf(hint, sizeof hint, "values to compute are for %s",
                 mask ? "a model with as many outputs" : "--loss mse");
    } else if (mask) {
        snprintf(hint, sizeof hint, "numpy.where(y == %g, -1, y) makes it a place that does not "
                 "count", (double)value);
    } else {
        snprintf(hint, sizeof hint, "classes are counted from 0");
    }
    return uw_error_set(err, UW_ERR_CORRUPT, "%.140s has %g, where the model has classes 0 to %u; "
                        "%s", where, (double)value,
                        (unsigned)uw_value_classes(config, k, n) - 1u, hint);
}

int uw_value_classes_count(const struct uw_data_config *config, const float *rows, size_t rows_n,
                           uint32_t n, const char *what, struct uw_error *err)
{
    bool counts = rows_n == 0 || !uw_values_are_mask(config, n);
    for (size_t i = 0; i < rows_n * n && !counts; i++) {
        counts = !(rows[i] < 0.0f);
    }
    return counts ? UW_OK
                  : uw_error_set(err, UW_ERR_CORRUPT, "%.120s: nothing in the %s set counts: its "
                                 "masks are below 0 everywhere", what,
                                 config->test ? "test" : "training");
}
