/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"
#include "images_list.h"
#include "sets.h"
#include "table_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTED 16u

struct opening {
    struct uw_images *d;
    const struct uw_data_config *config;
    struct uw_error *err;
    struct uw_table_options o;
    char folder[2][UW_FILE_PATH_BYTES + 16];    /* of training and test set; "": none */
    struct uw_image_list list[2];
    bool *test;                     /* of the first list; NULL: not split */
    uint32_t resized_n;
    uint32_t width, height;         /* of the first image that was resized */
};

static int no_memory(const struct opening *p)
{
    return uw_error_set(p->err, UW_ERR_NOMEM, "%.120s: no memory for its images", p->folder[0]);
}

/* ---- folders ---- */

static bool find_folder(char path[UW_FILE_PATH_BYTES + 16], const char *folder,
                        const char *const *names)
{
    struct stat st;
    for (; *names != NULL; names++) {
        snprintf(path, UW_FILE_PATH_BYTES + 16, "%.1023s/%s", folder, *names);
        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            return true;
        }
    }
    path[0] = '\0';
    return false;
}

/* DIR may have a folder for training and one for testing. */
static int choose_folders(struct opening *p)
{
    static const char *const train[] = {"train", "training", NULL};
    static const char *const test[] = {"test", "testing", "val", "valid", "validation", NULL};
    const struct uw_table_options *o = &p->o;
    bool none = o->label != NULL && strcmp(o->label, "none") == 0;
    if ((o->label != NULL && !none) || o->target != NULL || o->labels != NULL || o->drop != NULL ||
        o->scale_said || o->missing != UW_MISSING_REFUSE || o->delimiter != '\0' || o->skip >= 0) {
        return uw_error_set(p->err, UW_ERR_INVALID,
                            "images:%.100s: of the options it takes test, classes and label=none",
                            o->file);
    }
    const char *second = o->parts_n > 1 ? o->part[1] : o->test;
    if (strlen(o->file) >= UW_FILE_PATH_BYTES ||
        (second != NULL && strlen(second) >= UW_FILE_PATH_BYTES)) {
        return uw_error_set(p->err, UW_ERR_INVALID, "%.100s...: path longer than %u bytes",
                            o->file, UW_FILE_PATH_BYTES - 1);
    }
    if (find_folder(p->folder[0], o->file, train)) {
        find_folder(p->folder[1], o->file, test);
    } else {
        snprintf(p->folder[0], sizeof p->folder[0], "%s", o->file);
    }
    if (second != NULL) {
        snprintf(p->folder[1], sizeof p->folder[1], "%s", second);
    }
    return UW_OK;
}

/* The classes are those of option classes, of an earlier set, or the training set's folders. */
static int number_classes(struct opening *p)
{
    const struct uw_data_columns *like = p->config->like;
    struct uw_data_columns *c = &p->d->columns;
    const char *known = p->o.classes;
    bool earlier = known == NULL && like != NULL && like->classes_n != 0;
    uint32_t n = earlier ? like->classes_n : p->list[0].classes_n;
    for (const char *k = known; k != NULL && *k != '\0'; k++) {
        n = (k == known ? 1 : n) + (*k == '+');
    }
    if (p->list[0].classes_n == 0) {
        return UW_OK;
    }
    c->classes = calloc(n, sizeof *c->classes);
    c->counts = calloc(n, sizeof *c->counts);
    if (c->classes == NULL || c->counts == NULL) {
        return no_memory(p);
    }
    c->classes_n = n;
    for (uint32_t k = 0; k < n; k++) {
        const char *word = earlier ? like->classes[k] : p->list[0].classes[k < p->list[0].classes_n
                                                                               ? k : 0];
        size_t bytes = known != NULL ? uw_list_next(&known, &word) : strlen(word);
        c->classes[k] = strndup(word, bytes);
        if (c->classes[k] == NULL) {
            return no_memory(p);
        }
    }
    int rc = UW_OK;
    for (int i = 0; i < 2 && rc == UW_OK; i++) {
        if (p->list[i].n != 0 && p->list[i].classes_n == 0) {
            rc = uw_error_set(p->err, UW_ERR_MISMATCH, "%.120s: has no folder for each class",
                              p->folder[i]);
        } else if (p->list[i].n != 0) {
            rc = uw_image_list_number(&p->list[i], (const char *const *)c->classes, n,
                                      p->folder[i], p->err);
        }
    }
    return rc;
}

static int list_images(struct opening *p)
{
    int rc = uw_image_list_open(&p->list[0], p->folder[0], p->err);
    if (rc == UW_OK && p->folder[1][0] != '\0') {
        rc = uw_image_list_open(&p->list[1], p->folder[1], p->err);
    }
    rc = rc < 0 ? rc : number_classes(p);
    if (rc < 0 || p->folder[1][0] != '\0' || p->o.test_share <= 0.0) {
        return rc;
    }
    const struct uw_image_list *l = &p->list[0];
    p->test = calloc((size_t)l->n + 1u, sizeof *p->test);
    int n = p->test == NULL ? UW_ERR_NOMEM
                            : uw_table_split(l->n, l->classes_n != 0 ? l->labels : NULL,
                                             p->d->columns.classes_n, p->o.test_share, p->test);
    if (n == 0) {
        free(p->test);
        p->test = NULL;
    }
    return n < 0 ? no_memory(p) : UW_OK;
}

/* ---- sizes ---- */

static uint32_t side_of(uint32_t n)
{
    uint32_t side = 1;
    while (side * side < n && side < UW_IMAGE_SIDE_MAX) {
        side++;
    }
    return side * side == n ? side : 0;
}

/* A model of n inputs without axes takes a square, grey or in colour, unless images fit. */
static void choose_flat(struct uw_dataset *base, uint32_t n)
{
    uint32_t pixels_n = base->height * base->width, grey = side_of(n);
    uint32_t colour = n % 3u == 0 ? side_of(n / 3u) : 0;
    if (n == pixels_n || n == 3u * pixels_n) {
        base->channels = n == pixels_n ? 1 : 3;
    } else if (grey != 0 || colour != 0) {
        base->channels = grey != 0 ? 1 : 3;
        base->height = base->width = grey != 0 ? grey : colour;
    }
}

/* The size of all images: the model's, or that of the first image. */
static int choose_size(struct opening *p)
{
    const struct uw_data_config *c = p->config;
    struct uw_dataset *base = &p->d->base;
    struct uw_image first;
    int rc = uw_image_open(&first, p->list[0].paths[0], p->err);
    base->channels = first.channels;
    base->height = first.height;
    base->width = first.width;
    uw_image_close(&first);
    if (rc < 0 || c->channels == 0) {
        return rc;
    }
    bool last = c->height > 4 && (c->width == 1 || c->width == 3) && c->channels > 4;
    if (c->height == 0 && c->width == 0) {
        choose_flat(base, c->channels);
    } else if (c->height == 0) {            /* a sequence of rows */
        base->channels = 1;
        base->height = c->channels;
        base->width = c->width;
    } else {
        base->channels = last ? c->width : c->channels;
        base->height = last ? c->channels : c->height;
        base->width = last ? c->height : c->width;
    }
    return base->channels == 1 || base->channels == 3
               ? UW_OK
               : uw_error_set(p->err, UW_ERR_MISMATCH,
                              "images:%.100s: images have 1 or 3 channels, the model takes %u",
                              p->o.file, (unsigned)base->channels);
}

/* ---- samples ---- */

/* A second list is not split: all of it is wanted. */
static bool is_wanted(const struct opening *p, uint32_t i)
{
    return p->test == NULL || p->test[i] == p->config->test;
}

static int decode_one(struct opening *p, const char *path, uint8_t *out)
{
    const struct uw_dataset *base = &p->d->base;
    struct uw_image m;
    int rc = uw_image_open(&m, path, p->err);
    if (rc == UW_OK) {
        bool same = m.width == base->width && m.height == base->height;
        if (!same && p->resized_n++ == 0) {
            p->width = m.width;
            p->height = m.height;
        }
        uw_image_fit(&m, base->channels, base->height, base->width, out);
    }
    uw_image_close(&m);
    return rc;
}

static int decode(struct opening *p)
{
    struct uw_images *d = p->d;
    const struct uw_image_list *l = &p->list[p->config->test && p->list[1].n != 0 ? 1 : 0];
    size_t bytes = (size_t)d->base.channels * d->base.height * d->base.width;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        n += is_wanted(p, i);
    }
    d->bytes = bytes < SIZE_MAX / ((size_t)n + 1u) ? malloc(bytes * n + 1u) : NULL;
    d->labels = calloc((size_t)n + 1u, sizeof *d->labels);
    if (d->bytes == NULL || d->labels == NULL) {
        return no_memory(p);
    }
    int rc = UW_OK;
    for (uint32_t i = 0; i < l->n && rc == UW_OK; i++) {
        if (is_wanted(p, i)) {
            d->labels[d->base.samples_n] = l->classes_n != 0 ? l->labels[i] : 0;
            rc = decode_one(p, l->paths[i], d->bytes + bytes * d->base.samples_n++);
        }
    }
    return rc;
}

static void tell(struct opening *p)
{
    const struct uw_image_list *l = p->list;
    struct uw_data_columns *c = &p->d->columns;
    uint32_t test_n = l[1].n, train_n = 0, used = 0;
    char text[UW_NOTE_BYTES];
    for (uint32_t i = 0; i < l[0].n; i++) {
        bool trains = p->test == NULL || !p->test[i];
        train_n += trains;
        test_n += !trains;
        if (c->classes_n != 0) {
            c->counts[l[0].labels[i]] += trains;
        }
    }
    for (uint32_t k = 0; k < c->classes_n && k < LISTED; k++) {
        used = uw_note_add(text, used, sizeof text, "%s%.24s (%u)", k == 0 ? ": " : ", ",
                           c->classes[k], (unsigned)c->counts[k]);
    }
    text[used] = '\0';
    if (c->classes_n != 0) {
        uw_note(&p->d->notes, "%u classes for training%s%s", (unsigned)c->classes_n, text,
                c->classes_n > LISTED ? ", ..." : "");
    }
    uw_note(&p->d->notes, "%u images for training, %u for testing%s; bytes divided by 255",
            (unsigned)train_n, (unsigned)(p->test == NULL && l[1].n == 0 ? train_n : test_n),
            p->test != NULL    ? ", by a hash of their number"
            : l[1].n == 0      ? ", the same ones"
                               : "");
    if (p->resized_n != 0) {
        uw_note(&p->d->notes, "%u images are brought to %u x %u, the first from %u x %u",
                (unsigned)p->resized_n, (unsigned)p->d->base.width, (unsigned)p->d->base.height,
                (unsigned)p->width, (unsigned)p->height);
    }
}

/* ---- the dataset ---- */

static int read_images(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_images *d = (const struct uw_images *)base;
    size_t n = d->columns.features_n;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    const uint8_t *bytes = d->bytes + index * n;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)bytes[i] / 255.0f;
    }
    *label = d->labels[index];
    return UW_OK;
}

static const struct uw_dataset_ops images_ops = {.name = "images", .read = read_images};

int uw_images_open(struct uw_images *d, const char *text, const struct uw_data_config *config,
                   struct uw_error *err)
{
    *d = (struct uw_images){.base = {.ops = &images_ops}};
    struct opening *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "images:%.100s: no memory", text);
    }
    p->d = d;
    p->config = config;
    p->err = err;
    int rc = uw_table_options_read(&p->o, text, "images:DIR and images:DIR,TESTDIR", 2, err);
    rc = rc < 0 ? rc : choose_folders(p);
    rc = rc < 0 ? rc : list_images(p);
    rc = rc < 0 ? rc : choose_size(p);
    if (rc == UW_OK) {
        d->columns.features_n = d->base.channels * d->base.height * d->base.width;
        d->base.classes = d->columns.classes_n > 2 ? d->columns.classes_n : 2;
        rc = decode(p);
    }
    if (rc == UW_OK) {
        tell(p);
    }
    uw_image_list_close(&p->list[0]);
    uw_image_list_close(&p->list[1]);
    free(p->test);
    free(p);
    if (rc < 0) {
        uw_images_close(d);
    }
    return rc;
}

void uw_images_close(struct uw_images *d)
{
    uw_data_columns_free(&d->columns);
    free(d->bytes);
    free(d->labels);
    d->bytes = NULL;
    d->labels = NULL;
}
