/* SPDX-License-Identifier: Apache-2.0
 *
 * folder_list.h - the files of a folder, in a folder a class (private)
 *
 * Folders are classes in alphabetical order, or, if all names are numbers, in the order of these.
 * A folder that has files itself and no folders with files has no classes.
 */
#ifndef UWASA_DATA_FOLDER_LIST_H
#define UWASA_DATA_FOLDER_LIST_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_FOLDER_OTHERS "_unknown_"    /* a class for folders that are no class themselves */

/* Which files are meant. */
struct uw_folder_kind {
    const char *prefix;             /* "images" */
    const char *thing;              /* "image" */
    const char *endings;            /* for sentences */
    const char *options;            /* for sentences */
    bool (*is_name)(const char *name);
};

struct uw_folder_list {
    char **classes;                 /* [classes_n] */
    char **paths;                   /* [n], in order */
    uint32_t *labels;               /* [n] */
    uint32_t classes_n, n;
};

/* Returns UW_OK, UW_ERR_NOTFOUND (no such folder, or no file inside), UW_ERR_DENIED, UW_ERR_IO,
 * UW_ERR_NOMEM; err filled. Close in any case. */
int uw_folder_list_open(struct uw_folder_list *l, const struct uw_folder_kind *kind,
                        const char *folder, struct uw_error *err);

/* Number the classes as `names` has them; one that is not in it is UW_FOLDER_OTHERS, if that is.
 * Returns UW_OK, or UW_ERR_MISMATCH. */
int uw_folder_list_number(struct uw_folder_list *l, const char *const *names, uint32_t names_n,
                         const char *folder, struct uw_error *err);

/* Take a class with this name out; its files go to `to`, an empty list. Returns UW_OK or
 * UW_ERR_NOMEM. Close `to` in any case. */
int uw_folder_list_drop(struct uw_folder_list *l, const char *name, struct uw_folder_list *to);

void uw_folder_list_close(struct uw_folder_list *l);

#endif
