/* SPDX-License-Identifier: Apache-2.0
 *
 * table_roles.h - which columns of a table are features, which the label or the values (private)
 *
 * Options decide; without them the model's sizes, the columns' names and their values do. Every
 * column that is left out is told in a note.
 */
#ifndef UWASA_DATA_TABLE_ROLES_H
#define UWASA_DATA_TABLE_ROLES_H

#include "notes.h"
#include "table.h"
#include "uwasa/data.h"

enum uw_target_role {
    UW_ROLE_NOTHING = 0,            /* the sample itself is the target */
    UW_ROLE_LABEL,                  /* one column */
    UW_ROLE_ONE_HOT,                /* one column a class */
    UW_ROLE_VALUES
};

struct uw_roles {
    uint32_t *features, *targets;   /* columns, in order; label: targets[0] */
    uint32_t features_n, targets_n;
    enum uw_target_role role;
};

/* Choose the columns.
 *   config   the model's sizes, and what the samples are wanted for
 * Returns UW_OK, UW_ERR_INVALID (an option names no column), UW_ERR_CORRUPT (no column is left, or
 * one that is needed holds no numbers; err names the place), UW_ERR_MISMATCH (no column for the
 * label, or that of the training data is not there), UW_ERR_NOMEM. Close in any case. */
int uw_roles_choose(struct uw_roles *r, const struct uw_table *t, const struct uw_table_options *o,
                    const struct uw_data_config *config, struct uw_notes *notes,
                    struct uw_error *err);

/* Choose the columns of another file like those of the first one.
 * Returns UW_OK or UW_ERR_MISMATCH. */
int uw_roles_check_like(const struct uw_roles *r, const struct uw_table *first,
                        const struct uw_table *other, struct uw_error *err);

void uw_roles_close(struct uw_roles *r);

#endif
