/* SPDX-License-Identifier: Apache-2.0
 *
 * table_labels.h - classes by number, from labels as a table has them (private)
 */
#ifndef UWASA_DATA_TABLE_LABELS_H
#define UWASA_DATA_TABLE_LABELS_H

#include "table_roles.h"

/* A column of labels; table NULL: there is none. */
struct uw_label_column {
    const struct uw_table *table;
    const uint32_t *columns;        /* one; one-hot: several */
    uint32_t columns_n;
};

struct uw_labels {
    uint32_t *of[2];                /* [rows_n] class of each row, by column */
    char **names;                   /* [classes_n] what the file calls them */
    uint32_t classes_n;
};

/* Number the classes of two columns together, of training and test set.
 *   column   [2]
 *   outputs  of the model; 0: not known
 *   known    A+B+C, from option classes; NULL: not said
 *   like     the classes of an earlier set; may be NULL
 * Returns UW_OK, UW_ERR_CORRUPT (a label is missing, is none of the classes, or is no class; err
 * names file and line), UW_ERR_TOOBIG, UW_ERR_NOMEM. Close in any case. */
int uw_labels_read(struct uw_labels *l, const struct uw_label_column *column, uint32_t outputs,
                   const char *known, const struct uw_data_columns *like, struct uw_notes *notes,
                   struct uw_error *err);

/* Find out what classes numbers of labels stand for: those from 0 that the model has are classes
 * themselves, those from 1 to its last one are counted from 0. Others are numbered in their order
 * if there are as many as outputs, so that parts of one set are not numbered differently.
 *   label    [labels_n] whole, at least one; sorted then
 *   outputs  of the model; 0: not known
 *   remedy   what says it where labels from 1 on are taken for classes themselves
 *   number   set to [classes] the label of each class, sorted; of the heap, free it in any case
 *   names    set to these numbers as text; as number
 * Returns how many classes there are, UW_ERR_TOOBIG or UW_ERR_NOMEM. */
int uw_label_numbers(float *label, size_t labels_n, uint32_t outputs, const char *remedy,
                     struct uw_notes *notes, float **number, char ***names);

/* The class of that name, or of the same number; numbers that floats do not tell apart are words.
 * Where no name is a number, a number is the class itself, from 0.
 *   names  [n] of the classes
 * UINT32_MAX: there is none. */
uint32_t uw_class_find(char *const *names, uint32_t n, const struct uw_cell *cell);

/* Free all. Safe on a zeroed struct and twice. */
void uw_labels_close(struct uw_labels *l);

#endif
