/* SPDX-License-Identifier: Apache-2.0
 *
 * table_options.h - what a user says of a table: FILE[,FILE...][,OPTION...], see uwasa/data.h
 *
 * Memory     a copy of the text, in the struct      Context  any thread
 */
#ifndef UWASA_DATA_TABLE_OPTIONS_H
#define UWASA_DATA_TABLE_OPTIONS_H

#include "file.h"
#include "uwasa/status.h"

#include <stdbool.h>

enum uw_table_scale { UW_SCALE_NONE = 0, UW_SCALE_255, UW_SCALE_STANDARD };
enum uw_target_scale { UW_TARGET_SCALE_AUTO = 0, UW_TARGET_SCALE_NONE, UW_TARGET_SCALE_STANDARD,
                       UW_TARGET_SCALE_DIVIDE };
enum uw_table_missing { UW_MISSING_AUTO = 0, UW_MISSING_REFUSE, UW_MISSING_MEAN, UW_MISSING_DROP };

#define UW_TABLE_PARTS_MAX 4u

struct uw_table_options {
    char copy[6 * UW_FILE_PATH_BYTES];
    const char *part[UW_TABLE_PARTS_MAX];   /* files, in order */
    uint32_t parts_n;
    const char *file, *test;        /* test NULL: lines of the file */
    const char *labels, *test_labels;   /* NULL: in the table */
    const char *label, *target, *drop, *classes;    /* NULL: not said */
    const char *x, *y, *test_x, *test_y;    /* names in an archive; NULL: the usual ones */
    double test_share;              /* of the lines */
    enum uw_table_scale scale;
    bool scale_said;
    enum uw_target_scale target_scale;
    float divisor;                  /* of values */
    enum uw_table_missing missing;
    char delimiter;                 /* 0: not said */
    int skip;                       /* -1: not said */
    uint32_t behind_n;              /* columns of a label or values behind an array's sample */
    uint32_t least_n;               /* features of text that leaves out zeros: it may lack the last
                                       ones */
    char indices_from;              /* '0' or '1', where its indices begin; 0: not known */
};

/* What one kind of data takes. */
struct uw_table_form {
    const char *files;              /* for the sentence about too many files or none */
    const char *options;            /* for the one about an option that is none */
    uint32_t files_max;             /* up to UW_TABLE_PARTS_MAX */
};

/* Read "FILE,FILE,OPTION=VALUE,...".
 * Returns UW_OK or UW_ERR_INVALID, err naming the option and what it takes. */
int uw_table_options_read(struct uw_table_options *o, const char *text,
                          const struct uw_table_form *form, struct uw_error *err);

/* Take the next of "A+B+C". *list moves behind it; NULL after the last.
 * Returns its length; *word is where it begins. */
size_t uw_list_next(const char **list, const char **word);

/* How many there are; list NULL: 0. */
uint32_t uw_list_count(const char *list);

#endif
