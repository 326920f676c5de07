/* SPDX-License-Identifier: Apache-2.0
 *
 * What the dataset tests share: a folder for files, and what they expect of a good or a malformed
 * one. */
#ifndef UWASA_TESTS_DATASET_FILES_H
#define UWASA_TESTS_DATASET_FILES_H

#include "test_support.h"

#include "uwasa/data.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static inline const char *at(const char *name)
{
    static char path[4][160];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/uwasa_dataset_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static inline int remove_all(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char inside[600];
        int n = snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (n < (int)sizeof inside && strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            (void)remove_all(inside);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return remove(path);
}

static inline int remove_folder(void **state)
{
    (void)state;
    return remove_all(folder);
}

static inline int empty_folder(void **state)
{
    return remove_folder(state) != 0 || mkdir(folder, 0700) != 0;
}

static inline void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static inline void expect_refused(const char *spec, const struct uw_data_config *config, int code,
                                  const char *part)
{
    struct uw_data d;
    struct uw_error err = {.text = ""};
    assert_int_equal(uw_data_open(&d, spec, config, &err), code);
    assert_null(d.base);
    assert_int_equal(err.code, code);
    if (strstr(err.text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, part);
    }
    uw_data_close(&d);
}

static inline void expect_error(const char *spec, int code, const char *part)
{
    expect_refused(spec, NULL, code, part);
}

static inline struct uw_data open_good(const char *spec, const struct uw_data_config *config)
{
    struct uw_data d;
    struct uw_error err = {.text = ""};
    if (uw_data_open(&d, spec, config, &err) < 0) {
        fail_msg("%s: %s", spec, err.text);
    }
    return d;
}

static inline void expect_sample(struct uw_data *d, uint64_t index, const float *x, uint32_t label)
{
    size_t n = (size_t)d->base->channels * d->base->height * d->base->width;
    float *got = uw_test_floats(n);
    uint32_t got_label = 99;
    assert_int_equal(d->base->ops->read(d->base, index, got, &got_label), UW_OK);
    assert_int_equal(got_label, label);
    assert_memory_equal(got, x, n * sizeof *x);
    uw_test_release(got);
}

static inline bool tells(const struct uw_data *d, const char *part)
{
    const char *note;
    for (uint32_t i = 0; (note = uw_data_note(d, i)) != NULL; i++) {
        if (strstr(note, part) != NULL) {
            return true;
        }
    }
    return false;
}

/* "csv:FILE", with options behind it. */
static inline const char *csv(const char *options)
{
    static char text[700];
    snprintf(text, sizeof text, "csv:%s%s", at("a.csv"), options);
    return text;
}

static inline void expect_told(const struct uw_data *d, const char *part)
{
    const char *note;
    if (!tells(d, part)) {
        for (uint32_t i = 0; (note = uw_data_note(d, i)) != NULL; i++) {
            print_message("told: %s\n", note);
        }
        fail_msg("not told: %s", part);
    }
}

static inline void expect_values(struct uw_data *d, uint64_t index, const float *want)
{
    float got[4];
    assert_int_equal(d->base->ops->read_target(d->base, index, got), UW_OK);
    assert_memory_equal(got, want, d->base->targets_n * sizeof *want);
}

#endif
