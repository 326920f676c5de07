/* SPDX-License-Identifier: Apache-2.0
 *
 * columns.h - lists of names (private); uwasa/data.h has the columns that they belong to
 */
#ifndef UWASA_DATA_COLUMNS_H
#define UWASA_DATA_COLUMNS_H

#include <stdint.h>

/* Free names [n] of the heap, some of which may be NULL, and their list, which may be NULL. */
void uw_names_free(char **names, uint32_t n);

#endif
