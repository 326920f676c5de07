/* SPDX-License-Identifier: Apache-2.0 */
#include "folder_list.h"

#include "columns.h"
#include "file.h"

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

/* The files in a folder, or without a kind its folders; sorted. */
static int list(const char *folder, const struct uw_folder_kind *kind, struct names *names,
                struct uw_error *err)
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
        if (entry->d_name[0] != '.' && (kind == NULL ? is_folder(folder, entry->d_name)
                                                     : kind->is_name(entry->d_name))) {
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

/* Add the files of a folder. */
static int add_files(struct uw_folder_list *l, const struct uw_folder_kind *kind,
                     const char *folder, uint32_t label, struct uw_error *err)
{
    struct names names = {.n = 0};
    int rc = list(folder, kind, &names, err);
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

/* A single file, of no class. */
static int add_one(struct uw_folder_list *l, const char *path, struct uw_error *err)
{
    l->paths = calloc(1, sizeof *l->paths);
    l->labels = calloc(1, sizeof *l->labels);
    char *copy = l->paths != NULL ? strdup(path) : NULL;
    if (copy == NULL || l->labels == NULL) {
        free(copy);
        return uw_error_set(err, UW_ERR_NOMEM, "%.140s: no memory", path);
    }
    l->paths[l->n++] = copy;
    return UW_OK;
}

int uw_folder_list_open(struct uw_folder_list *l, const struct uw_folder_kind *kind,
                        const char *folder, struct uw_error *err)
{
    struct names names = {.n = 0};
    *l = (struct uw_folder_list){.n = 0};
    if (strlen(folder) >= UW_FILE_PATH_BYTES) {
        return uw_error_set(err, UW_ERR_INVALID, "%.100s...: path longer than %u bytes", folder,
                            UW_FILE_PATH_BYTES - 1);
    }
    struct stat st;
    bool one = kind->is_name(folder) && stat(folder, &st) == 0 && S_ISREG(st.st_mode);
    if (one) {
        return add_one(l, folder, err);
    }
    int rc = list(folder, NULL, &names, err);
    l->classes = names.at;
    l->classes_n = names.n;
    for (uint32_t c = 0; c < names.n && rc == UW_OK; c++) {
        char path[2 * UW_FILE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, names.at[c]);
        rc = add_files(l, kind, path, c, err);
    }
    if (rc == UW_OK && l->n == 0) {     /* no classes */
        uw_names_free(l->classes, l->classes_n);
        l->classes = NULL;
        l->classes_n = 0;
        rc = add_files(l, kind, folder, 0, err);
    }
    return rc < 0 || l->n != 0
               ? rc
               : uw_error_set(err, UW_ERR_NOTFOUND,
                              "%.140s: no %s inside: a folder for each class is expected, with "
                              "files %s", folder, kind->thing, kind->endings);
}

static uint32_t find(const char *const *names, uint32_t n, const char *name)
{
    uint32_t k = 0;
    while (k < n && strcmp(names[k], name) != 0) {
        k++;
    }
    return k;
}

int uw_folder_list_number(struct uw_folder_list *l, const char *const *names, uint32_t names_n,
                         const char *folder, struct uw_error *err)
{
    for (uint32_t i = l->n; i-- > 0;) {     /* classes without files do not matter */
        uint32_t k = find(names, names_n, l->classes[l->labels[i]]);
        k = k < names_n ? k : find(names, names_n, UW_FOLDER_OTHERS);
        if (k == names_n) {
            return uw_error_set(err, UW_ERR_MISMATCH,
                                "%.100s: folder %.60s is none of the %u classes for training",
                                folder, l->classes[l->labels[i]], (unsigned)names_n);
        }
        l->labels[i] = k;
    }
    return UW_OK;
}

int uw_folder_list_drop(struct uw_folder_list *l, const char *name, struct uw_folder_list *to)
{
    uint32_t k = find((const char *const *)l->classes, l->classes_n, name), n = 0;
    *to = (struct uw_folder_list){.n = 0};
    if (k == l->classes_n) {
        return UW_OK;
    }
    to->paths = calloc((size_t)l->n + 1u, sizeof *to->paths);
    if (to->paths == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->labels[i] == k) {
            to->paths[to->n++] = l->paths[i];
        } else {
            l->paths[n] = l->paths[i];
            l->labels[n++] = l->labels[i] - (l->labels[i] > k ? 1u : 0u);
        }
    }
    l->n = n;
    free(l->classes[k]);
    l->classes_n--;
    memmove(l->classes + k, l->classes + k + 1, (l->classes_n - k) * sizeof *l->classes);
    return UW_OK;
}

void uw_folder_list_close(struct uw_folder_list *l)
{
    uw_names_free(l->classes, l->classes_n);
    uw_names_free(l->paths, l->n);
    free(l->labels);
    *l = (struct uw_folder_list){.n = 0};
}
