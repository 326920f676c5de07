/* SPDX-License-Identifier: Apache-2.0 */
#include "images_list.h"

#include "columns.h"
#include "file.h"
#include "image.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct names {
    char **at;
    uint32_t n, most;
};

static bool add_name(struct names *names, const char *name)
{
    if (names->n == names->most) {
        uint32_t most = names->most == 0 ? 64 : 2 * names->most;
        char **bigger = realloc(names->at, most * sizeof *bigger);
        if (bigger == NULL) {
            return false;
        }
        names->at = bigger;
        names->most = most;
    }
    names->at[names->n] = strdup(name);
    return names->at[names->n++] != NULL;
}

static bool is_number(const char *name)
{
    return strspn(name, "0123456789") == strlen(name) && strlen(name) < 10;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_number(const void *a, const void *b)
{
    long x = atol(*(char *const *)a), y = atol(*(char *const *)b);
    return (x > y) - (x < y);
}

static bool is_folder(const char *folder, const char *name)
{
    char path[2 * UW_FILE_PATH_BYTES];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folders, or the images, in a folder; sorted. */
static int list(const char *folder, bool folders, struct names *names, struct uw_error *err)
{
    DIR *d = opendir(folder);
    const struct dirent *entry;
    bool good = true, numbers = true;
    if (d == NULL) {
        return uw_error_set(err, errno == ENOENT || errno == ENOTDIR ? UW_ERR_NOTFOUND
                                 : errno == EACCES                   ? UW_ERR_DENIED
                                                                     : UW_ERR_IO,
                            "%.140s: is no folder that can be read (%.60s)", folder,
                            strerror(errno));
    }
    while (good && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.' && (folders ? is_folder(folder, entry->d_name)
                                                : uw_image_is_name(entry->d_name))) {
            good = add_name(names, entry->d_name);
            numbers = numbers && is_number(entry->d_name);
        }
    }
    closedir(d);
    if (!good) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.140s: no memory for its names", folder);
    }
    if (names->n != 0) {
        qsort(names->at, names->n, sizeof *names->at, numbers ? by_number : by_text);
    }
    return UW_OK;
}

/* Add the images of a folder. */
static int add_images(struct uw_image_list *l, const char *folder, uint32_t label,
                      struct uw_error *err)
{
    struct names names = {.n = 0};
    int rc = list(folder, false, &names, err);
    uint32_t all = l->n + names.n;
    char **paths = rc < 0 ? NULL : realloc(l->paths, ((size_t)all + 1u) * sizeof *paths);
    l->paths = paths != NULL ? paths : l->paths;
    uint32_t *labels = rc < 0 ? NULL : realloc(l->labels, ((size_t)all + 1u) * sizeof *labels);
    l->labels = labels != NULL ? labels : l->labels;
    if (rc == UW_OK && (paths == NULL || labels == NULL)) {
        rc = uw_error_set(err, UW_ERR_NOMEM, "%.140s: no memory", folder);
    }
    for (uint32_t i = 0; i < names.n && rc == UW_OK; i++) {
        size_t bytes = strlen(folder) + strlen(names.at[i]) + 2u;
        char *path = malloc(bytes);
        if (path == NULL) {
            rc = uw_error_set(err, UW_ERR_NOMEM, "%.140s: no memory", folder);
            break;
        }
        snprintf(path, bytes, "%s/%s", folder, names.at[i]);
        l->labels[l->n] = label;
        l->paths[l->n++] = path;
    }
    uw_names_free(names.at, names.n);
    return rc;
}

int uw_image_list_open(struct uw_image_list *l, const char *folder, struct uw_error *err)
{
    struct names names = {.n = 0};
    *l = (struct uw_image_list){.n = 0};
    if (strlen(folder) >= UW_FILE_PATH_BYTES) {
        return uw_error_set(err, UW_ERR_INVALID, "%.100s...: path longer than %u bytes", folder,
                            UW_FILE_PATH_BYTES - 1);
    }
    int rc = list(folder, true, &names, err);
    l->classes = names.at;
    l->classes_n = names.n;
    for (uint32_t c = 0; c < names.n && rc == UW_OK; c++) {
        char path[2 * UW_FILE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, names.at[c]);
        rc = add_images(l, path, c, err);
    }
    if (rc == UW_OK && l->n == 0) {     /* no classes */
        uw_names_free(l->classes, l->classes_n);
        l->classes = NULL;
        l->classes_n = 0;
        rc = add_images(l, folder, 0, err);
    }
    return rc < 0 || l->n != 0
               ? rc
               : uw_error_set(err, UW_ERR_NOTFOUND,
                              "%.140s: no image inside: a folder for each class is expected, with "
                              "files .png, .jpg, .ppm or .pgm", folder);
}

int uw_image_list_number(struct uw_image_list *l, const char *const *names, uint32_t names_n,
                         const char *folder, struct uw_error *err)
{
    for (uint32_t i = l->n; i-- > 0;) {     /* classes without images do not matter */
        uint32_t k = 0;
        while (k < names_n && strcmp(names[k], l->classes[l->labels[i]]) != 0) {
            k++;
        }
        if (k == names_n) {
            return uw_error_set(err, UW_ERR_MISMATCH,
                                "%.100s: folder %.60s is none of the %u classes for training",
                                folder, l->classes[l->labels[i]], (unsigned)names_n);
        }
        l->labels[i] = k;
    }
    return UW_OK;
}

void uw_image_list_close(struct uw_image_list *l)
{
    uw_names_free(l->classes, l->classes_n);
    uw_names_free(l->paths, l->n);
    free(l->labels);
    *l = (struct uw_image_list){.n = 0};
}
