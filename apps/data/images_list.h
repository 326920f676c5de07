/* SPDX-License-Identifier: Apache-2.0
 *
 * images_list.h - the images of a folder, in a folder a class (private)
 *
 * Folders are classes in alphabetical order, or, if all names are numbers, in the order of these.
 * A folder that has images itself and no folders with images has no classes.
 */
#ifndef UWASA_DATA_IMAGES_LIST_H
#define UWASA_DATA_IMAGES_LIST_H

#include "uwasa/status.h"

#include <stdint.h>

struct uw_image_list {
    char **classes;                 /* [classes_n] */
    char **paths;                   /* [n], in order */
    uint32_t *labels;               /* [n] */
    uint32_t classes_n, n;
};

/* Returns UW_OK, UW_ERR_NOTFOUND (no such folder, or no image inside), UW_ERR_DENIED, UW_ERR_IO,
 * UW_ERR_NOMEM; err filled. Close in any case. */
int uw_image_list_open(struct uw_image_list *l, const char *folder, struct uw_error *err);

/* Number the classes as `names` has them. Returns UW_OK, or UW_ERR_MISMATCH: one is not in it. */
int uw_image_list_number(struct uw_image_list *l, const char *const *names, uint32_t names_n,
                         const char *folder, struct uw_error *err);

void uw_image_list_close(struct uw_image_list *l);

#endif
