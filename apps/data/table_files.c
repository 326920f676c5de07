/* SPDX-License-Identifier: Apache-2.0 */
#include "table_files.h"

#include "value_classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool has_test_file(const struct uw_table_files *f)
{
    return f->o.test != NULL && !same_file(f->o.file, f->o.test);
}

/* ---- text ---- */

/* Only one of them can decide. */
static int check_text(const struct uw_table_options *o, struct uw_error *err)
{
    if (o->label != NULL && o->target != NULL && strcmp(o->label, "none") != 0) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "label=%.40s and target=%.40s: a sample has a class or values, give "
                            "one of them", o->label, o->target);
    }
    if (o->labels != NULL && (o->label != NULL || o->target != NULL)) {
        return uw_error_set(err, UW_ERR_INVALID, "labels=%.80s: the labels are there, so label= "
                            "and target= name no column", o->labels);
    }
    if (o->labels != NULL && o->test != NULL && o->test_labels == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "labels=%.60s: the test set %.60s needs "
                            "test-labels=FILE", o->labels, o->test);
    }
    if (o->test_labels != NULL && (o->test == NULL || o->labels == NULL)) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "test-labels=%.80s: needs test=FILE and labels=FILE", o->test_labels);
    }
    return UW_OK;
}

/* Open a file of one label for each line of a table. */
static int open_names(struct uw_table_files *f, int i, const char *path, struct uw_error *err)
{
    int rc = uw_table_open(&f->names[i], path, &(struct uw_table_options){.skip = -1}, err);
    if (rc == UW_OK && f->names[i].rows_n != f->table[i].rows_n) {
        rc = uw_error_set(err, UW_ERR_MISMATCH, "%.90s has %u labels, %.90s %u lines", path,
                          (unsigned)f->names[i].rows_n, f->table[i].path,
                          (unsigned)f->table[i].rows_n);
    }
    return rc;
}

/* A line of INDEX:VALUE has one label or value in front. */
static int check_sparse(struct uw_table_files *f, struct uw_error *err)
{
    const struct uw_table_options *o = &f->o;
    if (o->target != NULL || o->labels != NULL || o->drop != NULL ||
        (o->label != NULL && strcmp(o->label, "none") != 0)) {
        return uw_error_set(err, UW_ERR_INVALID, "%.100s: lines of INDEX:VALUE have their label or "
                            "value in front: label=, labels=, target= and drop= name no columns",
                            o->file);
    }
    f->o.behind_n = o->label == NULL ? 1 : 0;
    f->o.drop = o->label != NULL ? "last" : NULL;
    return UW_OK;
}

static int open_text(struct uw_table_files *f, const struct uw_data_config *config,
                     struct uw_error *err)
{
    uint32_t h = config->height != 0 ? config->height : 1;
    uint32_t w = config->width != 0 ? config->width : 1;
    f->o.test = f->o.parts_n > 1 ? f->o.part[1] : f->o.test;
    f->o.least_n = config->channels * h * w;
    f->o.indices_from = config->like != NULL ? config->like->indices_from : 0;
    int rc = check_text(&f->o, err);
    rc = rc < 0 ? rc : uw_table_open(&f->table[0], f->o.file, &f->o, err);
    f->o.indices_from = f->table[0].indices_from;
    if (rc == UW_OK && has_test_file(f)) {
        rc = uw_table_open(&f->table[1], f->o.test, &f->o, err);
    }
    if (rc == UW_OK && f->table[0].indices_from != 0) {
        rc = check_sparse(f, err);
    }
    if (rc == UW_OK && f->o.labels != NULL) {
        rc = open_names(f, 0, f->o.labels, err);
        rc = rc < 0 || !has_test_file(f) ? rc : open_names(f, 1, f->o.test_labels, err);
    }
    return rc;
}

/* ---- arrays ---- */

/* The arrays of one set; y empty: there is none. */
struct pair {
    struct uw_array x, y;
};

/* Options about columns, which arrays have not. */
static int check_arrays(const struct uw_table_options *o, struct uw_error *err)
{
    const char *label = o->label;
    if (o->target != NULL || o->labels != NULL || o->test_labels != NULL || o->drop != NULL ||
        o->delimiter != '\0' || o->skip >= 0 ||
        (label != NULL && strcmp(label, "none") != 0)) {
        return uw_error_set(err, UW_ERR_INVALID, "%.100s: target, labels, drop, delimiter, skip "
                            "and label but label=none are for tables of text", o->file);
    }
    return UW_OK;
}

static int open_npy(struct uw_table_files *f, struct pair pair[2], struct uw_error *err)
{
    const char *const *part = f->o.part;
    if (f->o.parts_n == 3) {
        return uw_error_set(err, UW_ERR_INVALID, "npy:%.100s: a test set has two files, X and Y",
                            part[0]);
    }
    if (f->o.test != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "test=%.100s: needs a share of the samples from 0 "
                            "to below 1; a test set of files is npy:X,Y,TESTX,TESTY", f->o.test);
    }
    int rc = UW_OK;
    for (uint32_t i = 0; i < f->o.parts_n && rc == UW_OK; i++) {
        struct pair *p = &pair[i / 2];
        rc = uw_array_open_npy(i % 2 == 0 ? &p->x : &p->y, part[i], err);
    }
    f->o.test = f->o.parts_n == 4 ? part[2] : NULL;
    return rc;
}

/* An array that may be missing if no name was given. */
static int open_optional(struct uw_array *a, const char *path, const char *given,
                         const char *usual, struct uw_error *err)
{
    int rc = uw_array_open_npz(a, path, given != NULL ? given : usual, err);
    return rc == UW_ERR_NOTFOUND && given == NULL ? UW_OK : rc;
}

static const char npz_x[] = "x_train|X_train|train_images|train_x|x|X|images|data|features|arr_0";
static const char npz_y[] = "y_train|Y_train|train_labels|train_y|y|Y|labels|label|target|targets|"
                            "arr_1";
static const char npz_masks[] = "masks|mask";
static const char npz_test_x[] = "x_test|X_test|test_images|test_x";
static const char npz_test_y[] = "y_test|Y_test|test_labels|test_y";

/* Labels or values, or else masks. */
static int open_npz_y(struct uw_array *y, const char *path, const char *given,
                      struct uw_error *err)
{
    int rc = open_optional(y, path, given, npz_y, err);
    return rc < 0 || y->n != 0 ? rc : open_optional(y, path, NULL, npz_masks, err);
}

/* A test set in an archive of its own, by the names of a test set or those of a training set. */
static int open_npz_test(struct uw_table_files *f, struct pair *p, struct uw_error *err)
{
    const struct uw_table_options *o = &f->o;
    const char *file = o->test, *x = o->test_x, *y = o->test_y;
    if (access(file, F_OK) != 0) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "test=%.100s: is neither a file nor a share of "
                            "the samples from 0 to below 1", file);
    }
    int rc = open_optional(&p->x, file, x, npz_test_x, err);
    if (rc == UW_OK && p->x.n == 0) {
        rc = uw_array_open_npz(&p->x, file, o->x != NULL ? o->x : npz_x, err);
    }
    rc = rc < 0 ? rc : open_optional(&p->y, file, y, npz_test_y, err);
    return rc < 0 || p->y.n != 0 ? rc : open_npz_y(&p->y, file, o->y, err);
}

static int open_npz(struct uw_table_files *f, struct pair pair[2], struct uw_error *err)
{
    const struct uw_table_options *o = &f->o;
    int rc = uw_array_open_npz(&pair[0].x, o->file, o->x != NULL ? o->x : npz_x, err);
    rc = rc < 0 ? rc : open_npz_y(&pair[0].y, o->file, o->y, err);
    if (rc == UW_OK && has_test_file(f)) {
        return open_npz_test(f, &pair[1], err);
    }
    if (rc == UW_OK && o->test == NULL) {
        rc = open_optional(&pair[1].x, o->file, o->test_x, npz_test_x, err);
        rc = rc < 0 ? rc : open_optional(&pair[1].y, o->file, o->test_y, npz_test_y, err);
        f->o.test = pair[1].x.n != 0 ? o->file : NULL;
    }
    return rc;
}

/* Images of both sets have their axes in one order. */
static int check_axes(const struct uw_array *a, const struct uw_array *b, struct uw_error *err)
{
    char one[160], two[160];
    bool images = a->rank == 4 && b->rank == 4;
    bool same = !images || memcmp(a->dim + 1, b->dim + 1, 3 * sizeof *a->dim) == 0;
    return same ? UW_OK
                : uw_error_set(err, UW_ERR_MISMATCH, "%.110s and %.110s: samples of training and "
                               "test set differ in shape", uw_array_text(a, one),
                               uw_array_text(b, two));
}

/* The axes of a sample, channels first. Returns whether they are last in the array. */
static bool set_shape(uint32_t shape[3], const struct uw_array *x,
                      const struct uw_data_config *config)
{
    const uint64_t *d = x->dim;
    if (x->rank < 3 || x->rank > 4) {
        shape[0] = (uint32_t)(x->n / d[0]);
        shape[1] = shape[2] = 1;
        return false;
    }
    uint64_t c = x->rank == 4 ? d[1] : 1, h = d[x->rank - 2], w = d[x->rank - 1];
    bool as_wanted = c == config->channels && h == config->height && w == config->width;
    bool last = x->rank == 4 && !as_wanted && (w == 1 || w == 3 || w == 4) && c > 4;
    shape[0] = (uint32_t)(last ? w : c);
    shape[1] = (uint32_t)(last ? c : h);
    shape[2] = (uint32_t)(last ? h : w);
    return last;
}

/* Whether y has its channels last and the model's output has them first. */
static bool is_y_last(const struct uw_table_files *f, const struct uw_array *y, bool x_last,
                      const struct uw_data_config *config)
{
    const uint64_t *d = y->dim + 1;
    const uint32_t *out = config->output, *in = f->shape;
    if (y->rank != 4) {
        return false;
    }
    if (out[0] != 0) {
        return d[0] == out[1] && d[1] == out[2] && d[2] == out[0] &&
               (d[0] != out[0] || d[1] != out[1]);
    }
    bool first = in[0] == config->channels && in[1] == config->height && in[2] == config->width;
    bool as_input = d[0] == in[1] && d[1] == in[2] && (d[1] != in[1] || d[2] != in[2]);
    return first && (as_input || (x_last && d[0] > 4 && (d[2] == 3 || d[2] == 4)));
}

/* Whether 255 in masks of bytes can only mean that a place does not count. */
static bool has_void(const struct uw_array *y, const struct uw_data_config *config)
{
    uint64_t n = y->n != 0 ? y->n / y->dim[0] : 0;
    return y->kind == 'u' && y->item_bytes == 1 && n <= UINT32_MAX &&
           uw_values_are_mask(config, (uint32_t)n) && config->mask_outputs / n < 256;
}

static int join(struct uw_table_files *f, struct pair pair[2], const struct uw_data_config *config,
                struct uw_error *err)
{
    const struct uw_array *x = &pair[0].x, *y = &pair[0].y;
    bool none = f->o.label != NULL, last[2] = {set_shape(f->shape, x, config)};
    last[1] = !none && y->n != 0 && is_y_last(f, y, last[0], config);
    uint64_t outputs = none || y->n == 0 ? 0 : y->n / y->dim[0];
    int rc = pair[1].x.n != 0 ? check_axes(x, &pair[1].x, err) : UW_OK;
    if (x->rank > 2 && x->kind == 'u' && x->item_bytes == 1 && !f->o.scale_said) {
        f->o.scale = UW_SCALE_255;      /* images of bytes, as those of IDX files */
    }
    for (int i = 0; i < 2 && rc == UW_OK && pair[i].x.n != 0; i++) {
        bool has_label = !none && pair[i].y.n != 0;
        rc = uw_table_from_arrays(&f->table[i], i == 0 ? f->o.file : f->o.test, &pair[i].x,
                                  has_label ? &pair[i].y : NULL, last,
                                  has_label && has_void(&pair[i].y, config), err);
    }
    f->o.label = outputs == 0 ? "none" : NULL;
    f->o.behind_n = (uint32_t)outputs;
    return rc;
}

static int open_arrays(struct uw_table_files *f, enum uw_table_kind kind,
                       const struct uw_data_config *config, struct uw_error *err)
{
    struct pair pair[2] = {{{.n = 0}, {.n = 0}}, {{.n = 0}, {.n = 0}}};
    int rc = check_arrays(&f->o, err);
    rc = rc < 0 ? rc : (kind == UW_TABLE_NPY ? open_npy : open_npz)(f, pair, err);
    rc = rc < 0 ? rc : join(f, pair, config, err);
    for (int i = 0; i < 2; i++) {
        uw_array_close(&pair[i].x);
        uw_array_close(&pair[i].y);
    }
    return rc;
}

int uw_table_files_open(struct uw_table_files *f, enum uw_table_kind kind, const char *text,
                        const struct uw_data_config *config, struct uw_error *err)
{
    static const struct uw_table_form kinds[] = {
        [UW_TABLE_CSV] = {"csv:FILE and csv:FILE,TESTFILE",
                          "label, target, labels, test-labels, classes, drop, scale, "
                          "target-scale, test, missing, delimiter and skip", 2},
        [UW_TABLE_NPY] = {"npy:X,Y and npy:X,Y,TESTX,TESTY",
                          "label=none, classes, scale, target-scale, test and missing", 4},
        [UW_TABLE_NPZ] = {"npz:FILE", "x, y, test-x, test-y, label=none, classes, scale, "
                          "target-scale, test and missing", 1}};
    *f = (struct uw_table_files){.shape = {0}};
    int rc = uw_table_options_read(&f->o, text, &kinds[kind], err);
    if (rc < 0) {
        return rc;
    }
    return kind == UW_TABLE_CSV ? open_text(f, config, err) : open_arrays(f, kind, config, err);
}

void uw_table_files_close(struct uw_table_files *f)
{
    for (int i = 0; i < 2; i++) {
        uw_table_close(&f->table[i]);
        uw_table_close(&f->names[i]);
    }
}
