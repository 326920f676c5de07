/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include "base/open_file.h"
#include "model/model_json.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static bool stat_folder(const char *path, struct stat *st)
{
    char folder[PATH_MAX];
    int n = snprintf(folder, sizeof folder, "%.*s.", (int)(uw_file_name(path) - path), path);
    return n < (int)sizeof folder && stat(folder, st) == 0;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Whether two names will be the same file, though it does not exist yet. */
static bool same_place(const char *a, const char *b)
{
    struct stat x, y;
    return strcmp(uw_file_name(a), uw_file_name(b)) == 0 && stat(a, &x) < 0 && stat_folder(a, &x) &&
           stat_folder(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether the name is one of MNIST's or CIFAR-10's, an image's, a sound's or a list's of them. */
static bool is_data_name(const char *path)
{
    static const char *const ends[] = {"-ubyte", "-ubyte.gz", ".bin", ".png", ".jpg", ".jpeg",
                                       ".pgm", ".ppm", ".wav", "_list.txt"};
    size_t n = strlen(path);
    bool found = false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t e = strlen(ends[i]);
        found = found || (n > e && strcasecmp(path + n - e, ends[i]) == 0);
    }
    return found;
}

/* Whether the file, or the target of its link, is in the folder or in one inside, and is named as
 * data are. Other files there are not read. */
static bool is_in(const char *file, const char *folder)
{
    struct stat st;
    char path[PATH_MAX], parent[PATH_MAX], top[PATH_MAX];
    if (realpath(file, path) == NULL) {     /* it does not exist yet */
        int n = snprintf(parent, sizeof parent, "%.*s.", (int)(uw_file_name(file) - file), file);
        if (n >= (int)sizeof parent || realpath(parent, path) == NULL) {
            return false;
        }
        snprintf(path + strlen(path), sizeof path - strlen(path), "/");
    }
    if (!is_data_name(file) && !is_data_name(path)) {
        return false;
    }
    size_t n = realpath(folder, top) != NULL ? strlen(top) : 0;
    return n != 0 && stat(top, &st) == 0 && S_ISDIR(st.st_mode) && strncmp(path, top, n) == 0 &&
           (path[n] == '/' || top[n - 1] == '/');
}

/* Whether the file is one of weights beside an ONNX model: "NAME.onnx.data", "NAME.onnx_data". */
static bool is_beside(const char *file, const char *model)
{
    struct stat x, y;
    const char *name = uw_file_name(model);
    return uw_args_ends_in(model, ".onnx") && strlen(uw_file_name(file)) > strlen(name) &&
           strncmp(uw_file_name(file), name, strlen(name)) == 0 && stat(file, &x) == 0 &&
           stat_folder(file, &x) && stat_folder(model, &y) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Whether the file is the input, or one of "FILE,word", "kind:FILE,FILE", or of "kind:FOLDER". */
static bool is_read(const char *file, const char *read)
{
    const char *kind = strchr(read, ':');
    if (same_file(file, read)) {
        return true;
    }
    for (const char *p = kind != NULL ? kind + 1 : read; p != NULL;) {
        char one[PATH_MAX];
        size_t n = strcspn(p, ",");
        if (n < sizeof one) {
            memcpy(one, p, n);
            one[n] = '\0';
            const char *value = strchr(one, '=');   /* "test=FILE" */
            if (same_file(file, one) || is_in(file, one) || is_beside(file, one) ||
                (value != NULL && same_file(file, value + 1))) {
                return true;
            }
        }
        p = p[n] == ',' ? p + n + 1 : NULL;
    }
    return false;
}

const char *uw_files_of_model(const char *model)
{
    return model != NULL && uw_model_builtin_find(model) == NULL ? model : NULL;
}

const char *uw_files_of_data(const char *data)
{
    return data != NULL && strchr(data, ':') != NULL ? data : NULL;
}

static bool goes_on(const struct uw_named_file *result, const struct uw_named_file *read)
{
    return result->goes_on != NULL && strcmp(result->goes_on, read->flag) == 0;
}

static bool is_file(const char *file)
{
    return file != NULL && strcmp(file, "-") != 0;
}

int uw_check_results(const struct uw_named_file *results, uint32_t results_n,
                     const struct uw_named_file *read, uint32_t read_n, struct uw_error *err)
{
    for (uint32_t i = 0; i < results_n; i++) {
        const char *file = results[i].file;
        for (uint32_t k = 0; is_file(file) && k < i; k++) {
            const char *other = results[k].file;
            if (is_file(other) && (same_file(file, other) || same_place(file, other))) {
                return uw_error_set(err, UW_ERR_INVALID, "%s %.120s: %s writes there",
                                    results[i].flag, file, results[k].flag);
            }
        }
        for (uint32_t k = 0; is_file(file) && k < read_n; k++) {
            if (read[k].file != NULL && !goes_on(&results[i], &read[k]) &&
                is_read(file, read[k].file)) {
                return uw_error_set(err, UW_ERR_INVALID,
                                    "%s %.120s: %s reads it, so it is not "
                                    "replaced", results[i].flag,
                                    file, read[k].flag);
            }
        }
    }
    return UW_OK;
}
