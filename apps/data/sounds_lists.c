/* SPDX-License-Identifier: Apache-2.0 */
#include "sounds_lists.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TESTING "testing_list.txt"
#define VALIDATION "validation_list.txt"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_there(const struct uw_folders *f, const char *name, char *path, size_t path_bytes)
{
    struct stat st;
    snprintf(path, path_bytes, "%s/%s", f->folder[0], name);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Cut the text into its lines, sorted. Returns how many; *lines NULL: no memory. */
static size_t cut(char *text, char ***lines)
{
    size_t n = 0, most = 1;
    for (const char *c = text; *c != '\0'; c++) {
        most += *c == '\n';
    }
    *lines = malloc(most * sizeof **lines);
    for (char *at = text; *lines != NULL && at != NULL;) {
        char *next = strchr(at, '\n');
        at[strcspn(at, "\r\n")] = '\0';
        if (*at != '\0') {
            (*lines)[n++] = at;
        }
        at = next != NULL ? next + 1 : NULL;
    }
    if (n != 0) {
        qsort(*lines, n, sizeof **lines, by_text);
    }
    return n;
}

/* Mark the files that a list names. Returns how many, or an error. */
static int mark(struct uw_folders *f, const char *path, bool *marks)
{
    struct uw_file file;
    uint8_t *bytes = NULL;
    char **lines = NULL;
    int found = 0, rc = uw_file_open(&file, path, NULL, f->err);
    rc = rc < 0 ? rc : uw_file_load(&file, &bytes, f->err);
    if (rc < 0) {
        uw_file_close(&file);
        return rc;
    }
    bytes[file.bytes] = '\0';
    uw_file_close(&file);
    size_t n = cut((char *)bytes, &lines), folder_bytes = strlen(f->folder[0]) + 1u;
    for (uint32_t i = 0; lines != NULL && i < f->list[0].n; i++) {
        const char *name = f->list[0].paths[i] + folder_bytes;
        if (bsearch(&name, lines, n, sizeof *lines, by_text) != NULL) {
            marks[i] = true;
            found++;
        }
    }
    rc = lines != NULL ? found : uw_folders_no_memory(f);
    free(lines);
    free(bytes);
    return rc;
}

int uw_sounds_take_lists(struct uw_folders *f, bool validation, char *how, size_t how_bytes)
{
    char test[UW_FILE_PATH_BYTES + 64], other[UW_FILE_PATH_BYTES + 64];
    const char *name = validation ? VALIDATION : TESTING, *left = validation ? TESTING : VALIDATION;
    bool has = is_there(f, name, test, sizeof test), more = is_there(f, left, other, sizeof other);
    if (f->folder[1][0] != '\0' || (!has && !validation)) {
        return UW_OK;
    }
    if (!has) {
        return uw_error_set(f->err, UW_ERR_NOTFOUND,
                            "%.160s: is not there, test=validation needs it", test);
    }
    f->test = calloc((size_t)f->list[0].n + 1u, sizeof *f->test);
    f->out = calloc((size_t)f->list[0].n + 1u, sizeof *f->out);
    if (f->test == NULL || f->out == NULL) {
        return uw_folders_no_memory(f);
    }
    snprintf(how, how_bytes, ", by %s", name);
    int rc = mark(f, test, f->test), n = rc < 0 || !more ? rc : mark(f, other, f->out);
    if (n > 0 && more) {
        uw_note(f->notes, "%s names %d clips that are in neither set%s", left, n,
                validation ? "" : "; test=validation tests with them");
    }
    return n < 0 ? n : UW_OK;
}

/* Count the clips of each class that one of the sets has. */
static void count(const struct uw_folders *f, bool of_test, uint32_t *n)
{
    for (uint32_t i = 0; i < f->list[0].n; i++) {
        bool in = (f->out == NULL || !f->out[i]) && (f->test != NULL && f->test[i]) == of_test;
        n[f->list[0].labels[i]] += in;
    }
}

int uw_sounds_thin_others(struct uw_folders *f)
{
    const struct uw_data_columns *c = f->columns;
    uint32_t others = 0, all = 0, kept = 0;
    while (others < c->classes_n && strcmp(c->classes[others], UW_FOLDER_OTHERS) != 0) {
        others++;
    }
    if (others == c->classes_n) {
        return UW_OK;
    }
    f->out = f->out != NULL ? f->out : calloc((size_t)f->list[0].n + 1u, sizeof *f->out);
    uint32_t *n = calloc(c->classes_n, sizeof *n);
    for (int of_test = 0; of_test < 2 && n != NULL && f->out != NULL; of_test++) {
        uint32_t most = 0, seen = 0;
        memset(n, 0, c->classes_n * sizeof *n);
        count(f, of_test != 0, n);
        for (uint32_t k = 0; k < c->classes_n; k++) {
            most = k != others && n[k] > most ? n[k] : most;
        }
        most = n[others] < most ? n[others] : most;
        for (uint32_t i = 0; i < f->list[0].n; i++) {
            bool in = !f->out[i] && (f->test != NULL && f->test[i]) == (of_test != 0);
            if (in && f->list[0].labels[i] == others) {     /* evenly over all folders */
                seen++;
                f->out[i] = (uint64_t)seen * most / n[others] ==
                            (uint64_t)(seen - 1u) * most / n[others];
                kept += !f->out[i];
                all++;
            }
        }
    }
    bool good = n != NULL && f->out != NULL;
    free(n);
    if (kept < all) {
        uw_note(f->notes, "%s has %u of the %u clips in other folders, not more than the largest "
                          "class", UW_FOLDER_OTHERS, (unsigned)kept, (unsigned)all);
    }
    return good ? UW_OK : uw_folders_no_memory(f);
}
