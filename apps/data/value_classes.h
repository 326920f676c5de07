/* SPDX-License-Identifier: Apache-2.0
 *
 * value_classes.h - values beside a sample that are classes: of a mask, or of one output of several
 * (private)
 *
 * Context  any thread
 */
#ifndef UWASA_DATA_VALUE_CLASSES_H
#define UWASA_DATA_VALUE_CLASSES_H

#include "uwasa/data.h"

/* How many classes value k of n has; 0: it is no class. */
uint32_t uw_value_classes(const struct uw_data_config *config, uint32_t k, uint32_t n);

/* Whether all values of a sample are classes of one output. */
bool uw_values_are_mask(const struct uw_data_config *config, uint32_t n);

/* The first of a row's n values that is none of its classes; n: there is none. Below 0 a value does
 * not count. */
uint32_t uw_value_classes_find(const struct uw_data_config *config, const float *row, uint32_t n);

/* Refuse value k of a row.
 *   where  "FILE:LINE: column 7", or as "sample 3, place 4"
 * Returns UW_ERR_CORRUPT; err names the value and what is allowed. */
int uw_value_classes_refuse(const struct uw_data_config *config, float value, uint32_t k,
                            uint32_t n, const char *where, struct uw_error *err);

/* Refuse a set of masks in which no place counts.
 * Returns UW_OK or UW_ERR_CORRUPT. */
int uw_value_classes_count(const struct uw_data_config *config, const float *rows, size_t rows_n,
                           uint32_t n, const char *what, struct uw_error *err);

#endif
