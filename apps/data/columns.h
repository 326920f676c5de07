/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.h - names of columns (private); uwasa/data.h has the columns that they belong to
 */
#ifndef UWASA_DATA_COLUMNS_H
#define UWASA_DATA_COLUMNS_H

#include "table_text.h"

#include "uwasa/data.h"

#include <math.h>

/* 1 / deviation of a column; 1 if it is constant, up to rounding. */
static inline float uw_inverse_of(double deviation, float mean)
{
    bool varies = deviation > 1e-9 * fabs((double)mean) && deviation > 1e-30;
    return varies ? (float)(1.0 / deviation) : 1.0f;
}

/* Free names [n] of the heap, some of which may be NULL, and their list, which may be NULL. */
void uw_names_free(char **names, uint32_t n);

/* Copy names. from NULL: there are none. Returns UW_OK or UW_ERR_NOMEM; free *to in any case. */
int uw_names_copy(char ***to, char *const *from, uint32_t n);

/* Read "A+B+C". Returns UW_OK or UW_ERR_NOMEM; free *names, [*n], in any case. */
int uw_names_read(const char *list, char ***names, uint32_t *n);

/* The column of that name which is no feature yet, as it is written or else whatever its case;
 * UINT32_MAX: there is none.
 *   names    [n] of the columns
 *   feature  [n] which feature of the training data each of them is; UINT32_MAX: none */
uint32_t uw_columns_find(const struct uw_cell *names, uint32_t n, const uint32_t *feature,
                         const char *name);

/* Find the features of the training data by their names, in whatever columns they are now.
 *   names    [n] of the columns
 *   feature  [n] written: as above
 *   where    of the names, for sentences
 * Returns how many are found, all of them or 0, or UW_ERR_MISMATCH (some are missing). */
int uw_columns_match(const struct uw_data_columns *like, const struct uw_cell *names, uint32_t n,
                     uint32_t *feature, const char *where, struct uw_error *err);

/* Copy columns without their counts. Returns UW_OK or UW_ERR_NOMEM; free the copy in any case. */
int uw_data_columns_copy(struct uw_data_columns *to, const struct uw_data_columns *from);

#endif
