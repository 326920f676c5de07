/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/data.h"

#include "sets.h"
#include "stream.h"
#include "uwasa/digits.h"
#include "uwasa/keywords.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct uw_data_parts {
    struct uw_dataset *whole; /* the set named by the spec, one of the next five */
    struct uw_digits digits;
    struct uw_keywords keywords;
    struct uw_idx idx;
    struct uw_cifar10 cifar10;
    struct uw_csv csv;
    struct uw_stream_set stream;
    bool classes_chosen; /* the set itself applied classes_mask */
    struct uw_subset subset;
    struct uw_augment augment;
    struct uw_turned turned, turned_plain;
    struct uw_images images;
    struct uw_arrays arrays;
    struct uw_sounds sounds;
    const struct uw_data_columns *columns;      /* NULL: the set is no table */
    const struct uw_notes *notes;
};

static int open_keywords(struct uw_data_parts *p, const char *rest,
                         const struct uw_data_config *config, struct uw_error *err)
{
    if (*rest != '\0' || config->classes_mask != 0) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "keywords%.80s: \"keywords\" takes nothing after it and no classes",
                            rest);
    }
    p->whole = &p->keywords.base;
    uw_keywords_init(&p->keywords, &(struct uw_keywords_config){.seed = config->seed,
                                                                .test = config->test});
    return UW_OK;
}

static int open_digits(struct uw_data_parts *p, const char *rest,
                       const struct uw_data_config *config, struct uw_error *err)
{
    if (*rest != '\0') {
        return uw_error_set(err, UW_ERR_INVALID, "digits%.80s: \"digits\" takes nothing after it",
                            rest);
    }
    p->whole = &p->digits.base;
    p->classes_chosen = true;
    uint32_t mask = config->classes_mask;
    if (mask != 0 && (mask &= (1u << UW_DIGITS_CLASSES) - 1u) == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "digits: classes are 0 .. 9, none was chosen");
    }
    return uw_digits_init(&p->digits, &(struct uw_digits_config){.seed = config->seed,
                                                                 .classes_mask = mask,
                                                                 .test = config->test});
}

/* ---- IDX ---- */

/* Sets that are distributed as four IDX files, under MNIST's names or their own. */
static const struct idx_set {
    const char *prefix;
    const char *train, *test;       /* how the names of their files begin */
    uint32_t classes, first_label;
} idx_sets[] = {
    {"mnist:", "train", "t10k", 10, 0},
    {"fashion-mnist:", "train", "t10k", 10, 0},
    {"kmnist:", "train", "t10k", 10, 0},
    {"emnist-letters:", "emnist-letters-train", "emnist-letters-test", 26, 1},
    {"emnist-balanced:", "emnist-balanced-train", "emnist-balanced-test", 47, 0},
    {"emnist-byclass:", "emnist-byclass-train", "emnist-byclass-test", 62, 0},
    {"emnist-bymerge:", "emnist-bymerge-train", "emnist-bymerge-test", 47, 0},
    {"emnist-digits:", "emnist-digits-train", "emnist-digits-test", 10, 0},
    {"emnist-mnist:", "emnist-mnist-train", "emnist-mnist-test", 10, 0},
};

/* The file as it is unpacked, or packed. */
static void find_idx(char *path, size_t path_bytes, const char *folder, const char *which,
                     const char *kind)
{
    int n = snprintf(path, path_bytes, "%.*s/%s-%s-ubyte.gz", (int)UW_FILE_PATH_BYTES, folder,
                     which, kind);
    if (access(path, F_OK) != 0) {
        path[n - 3] = '\0';
    }
}

static int open_idx_set(struct uw_data_parts *p, const struct idx_set *set, const char *folder,
                        const struct uw_data_config *config, struct uw_error *err)
{
    char images[UW_FILE_PATH_BYTES + 64], labels[UW_FILE_PATH_BYTES + 64];
    const char *which = config->test ? set->test : set->train;
    find_idx(images, sizeof images, folder, which, "images-idx3");
    find_idx(labels, sizeof labels, folder, which, "labels-idx1");
    p->whole = &p->idx.base;
    return uw_idx_open(&p->idx, images, labels,
                       &(struct uw_idx_labels){.classes = set->classes, .first = set->first_label},
                       set == idx_sets ? "tools/get-data mnist DIR fetches the set" : NULL, err);
}

/* Copy `rest` to names and split it at its commas. Returns the number of parts, or 0 if there are
 * too many, one is empty, or they do not fit. */
static uint32_t split(const char *rest, char *names, size_t names_bytes, char **parts,
                      uint32_t parts_max)
{
    uint32_t n = 0;
    if (strlen(rest) >= names_bytes) {
        return 0;
    }
    memcpy(names, rest, strlen(rest) + 1);
    for (char *next = names; next != NULL;) {
        char *text = next;
        next = strchr(text, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        if (*text == '\0' || n == parts_max) {
            return 0;
        }
        parts[n++] = text;
    }
    return n;
}

/* Check that training and test set have the same shape, and give both the larger class count. */
static int agree(struct uw_dataset *a, const struct uw_dataset *b, const char *names,
                 struct uw_error *err)
{
    if (a->channels != b->channels || a->height != b->height || a->width != b->width) {
        return uw_error_set(err, UW_ERR_MISMATCH,
                            "%.120s: samples of training and test set differ in shape", names);
    }
    a->classes = a->classes > b->classes ? a->classes : b->classes;
    return UW_OK;
}

static int open_idx(struct uw_data_parts *p, const char *rest, const struct uw_data_config *config,
                    struct uw_error *err)
{
    char names[4 * UW_FILE_PATH_BYTES], *part[4];
    uint32_t n = split(rest, names, sizeof names, part, 4);
    if (n != 2 && n != 4) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "idx:%.100s: allowed are idx:IMAGES,LABELS and "
                            "idx:IMAGES,LABELS,TESTIMAGES,TESTLABELS",
                            rest);
    }
    p->whole = &p->idx.base;
    uint32_t mine = n == 4 && config->test ? 2 : 0, other = n == 4 ? 2 - mine : mine;
    const struct uw_idx_labels any = {.outputs = config->outputs};
    int rc = uw_idx_open(&p->idx, part[mine], part[mine + 1], &any, NULL, err);
    if (rc == UW_OK && other != mine) {
        struct uw_idx d;
        rc = uw_idx_open(&d, part[other], part[other + 1], &any, NULL, err);
        if (rc == UW_OK) {
            if (d.first_label == 1 && p->idx.first_label == 0 && p->idx.least_label == 1) {
                p->idx.first_label = 1;     /* this one lacks the last class */
                p->whole->classes -= p->whole->classes > 2 ? 1 : 0;
            }
            rc = agree(p->whole, &d.base, rest, err);
            uw_idx_close(&d);
        }
    }
    return rc;
}

/* ---- CIFAR-10 ---- */

static int open_cifar10(struct uw_data_parts *p, const char *folder,
                        const struct uw_data_config *config, struct uw_error *err)
{
    p->whole = &p->cifar10.base;
    return uw_cifar10_open(&p->cifar10, folder, config->test, err);
}

/* ---- tables ---- */

static int open_table(struct uw_data_parts *p, enum uw_table_kind kind, const char *rest,
                      const struct uw_data_config *config, struct uw_error *err)
{
    p->whole = &p->csv.base;
    p->columns = &p->csv.columns;
    p->notes = &p->csv.notes;
    return uw_csv_open(&p->csv, kind, rest, config, err);
}

static int open_csv(struct uw_data_parts *p, const char *rest, const struct uw_data_config *config,
                    struct uw_error *err)
{
    return open_table(p, UW_TABLE_CSV, rest, config, err);
}

static int open_npy(struct uw_data_parts *p, const char *rest, const struct uw_data_config *config,
                    struct uw_error *err)
{
    return open_table(p, UW_TABLE_NPY, rest, config, err);
}

static int open_npz(struct uw_data_parts *p, const char *rest, const struct uw_data_config *config,
                    struct uw_error *err)
{
    return open_table(p, UW_TABLE_NPZ, rest, config, err);
}

/* ---- arrays ---- */

/* Options of arrays: all other ones are of files. */
static bool is_array_scale(const char *rest)
{
    for (; rest != NULL && *rest != '\0'; rest = strchr(rest + 1, ',')) {
        if (strncmp(rest, ",scale=", 7) != 0 && strncmp(rest, ",target-scale=", 14) != 0) {
            return false;
        }
    }
    return true;
}

static int open_arrays(struct uw_data_parts *p, const char *rest,
                       const struct uw_data_config *config, struct uw_error *err)
{
    static const struct uw_table_form form = {"arrays", "scale and target-scale", 1};
    struct uw_table_options o;
    char text[120];
    snprintf(text, sizeof text, "arrays%.100s", rest);
    if (!is_array_scale(rest) || (config->test ? config->held : config->train) == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "data \"arrays%.20s\": are only for a program "
                            "that has them in memory", rest);
    }
    p->whole = &p->arrays.base;
    p->notes = &p->arrays.notes;
    int rc = uw_table_options_read(&o, text, &form, err);
    rc = rc < 0 ? rc : uw_arrays_open(&p->arrays, &o, config, err);
    p->columns = p->arrays.columns.features_n != 0 ? &p->arrays.columns : NULL;
    return rc;
}

/* ---- images and sounds ---- */

static int open_images(struct uw_data_parts *p, const char *rest,
                       const struct uw_data_config *config, struct uw_error *err)
{
    p->whole = &p->images.base;
    p->columns = &p->images.columns;
    p->notes = &p->images.notes;
    return uw_images_open(&p->images, rest, config, err);
}

static int open_sounds(struct uw_data_parts *p, const char *rest,
                       const struct uw_data_config *config, struct uw_error *err)
{
    p->whole = &p->sounds.base;
    p->columns = &p->sounds.columns;
    p->notes = &p->sounds.notes;
    return uw_sounds_open(&p->sounds, rest, config, err);
}

/* ---- live ---- */

static int open_live(struct uw_data_parts *p, const char *prefix, const char *rest,
                     const struct uw_data_config *config, struct uw_error *err)
{
    char name[1200];
    snprintf(name, sizeof name, "%s%.1100s", prefix, rest);
    if (!config->live) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "%.100s: arrives while uwasa train or node runs; this needs "
                            "data that is there", name);
    }
    if (config->classes_mask != 0) {
        return uw_error_set(err, UW_ERR_INVALID, "%.100s: takes no choice of classes", name);
    }
    p->whole = &p->stream.base;
    int rc = uw_stream_open(&p->stream, name, config, err);
    if (rc == UW_OK) {
        p->columns = uw_stream_columns(&p->stream);
        p->notes = uw_stream_notes(&p->stream);
    }
    return rc;
}

static int open_stream(struct uw_data_parts *p, const char *rest,
                       const struct uw_data_config *config, struct uw_error *err)
{
    return open_live(p, "stream:", rest, config, err);
}

static int open_mqtt(struct uw_data_parts *p, const char *rest,
                     const struct uw_data_config *config, struct uw_error *err)
{
    return open_live(p, "mqtt://", rest, config, err);
}

static int open_mqtts(struct uw_data_parts *p, const char *rest,
                      const struct uw_data_config *config, struct uw_error *err)
{
    return open_live(p, "mqtts://", rest, config, err);
}

bool uw_data_news(const struct uw_data *d, char *text, size_t text_bytes)
{
    return d->parts != NULL && d->parts->stream.stream != NULL &&
           uw_stream_news(&d->parts->stream, text, text_bytes);
}

/* ---- by name ---- */

static const struct {
    const char *prefix;
    int (*open)(struct uw_data_parts *p, const char *rest, const struct uw_data_config *config,
                struct uw_error *err);
} formats[] = {
    {"digits", open_digits},    {"keywords", open_keywords}, {"cifar10:", open_cifar10},
    {"idx:", open_idx},         {"csv:", open_csv},
    {"npy:", open_npy},         {"npz:", open_npz},          {"images:", open_images},
    {"sounds:", open_sounds},   {"stream:", open_stream},    {"arrays", open_arrays},
    {"mqtt://", open_mqtt},     {"mqtts://", open_mqtts},
};

bool uw_data_is_live(const char *spec)
{
    bool live = false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        live = live || (strncmp(spec, formats[i].prefix, strlen(formats[i].prefix)) == 0 &&
                        (formats[i].open == open_stream || formats[i].open == open_mqtt ||
                         formats[i].open == open_mqtts));
    }
    return live;
}

/* The format of a file by the end of its name; NULL: not known. */
static const char *format_of(const char *file)
{
    static const char *const ends[][2] = {{".csv", "csv"}, {".tsv", "csv"}, {".txt", "csv"},
                                          {".npz", "npz"}, {".npy", "npy"}};
    size_t n = strlen(file);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t tail = strlen(ends[i][0]);
        if (n > tail && strcmp(file + n - tail, ends[i][0]) == 0) {
            return ends[i][1];
        }
    }
    return NULL;
}

static int open_set(struct uw_data_parts *p, const char *spec, const struct uw_data_config *config,
                    struct uw_error *err)
{
    const char *format = format_of(spec);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t prefix_bytes = strlen(formats[i].prefix);
        if (strncmp(spec, formats[i].prefix, prefix_bytes) == 0) {
            return formats[i].open(p, spec + prefix_bytes, config, err);
        }
    }
    for (size_t i = 0; i < sizeof idx_sets / sizeof idx_sets[0]; i++) {
        size_t prefix_bytes = strlen(idx_sets[i].prefix);
        if (strncmp(spec, idx_sets[i].prefix, prefix_bytes) == 0) {
            return open_idx_set(p, &idx_sets[i], spec + prefix_bytes, config, err);
        }
    }
    if (format != NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "data \"%.100s\": say %s:%.100s", spec, format,
                            spec);
    }
    return uw_error_set(err, UW_ERR_INVALID,
                        "data \"%.30s\": allowed are digits, keywords, mnist:DIR, "
                        "fashion-mnist:DIR, kmnist:DIR, emnist-letters:DIR, cifar10:DIR, "
                        "idx:IMAGES,LABELS, csv:FILE, npy:X,Y, npz:FILE, images:DIR, sounds:DIR, "
                        "stream:- and mqtt://HOST/TOPIC",
                        spec);
}

static int choose(struct uw_data *d, const char *spec, const struct uw_data_config *config,
                  struct uw_error *err)
{
    struct uw_dataset *whole = d->parts->whole;
    uint32_t shards_n = config->shards_n != 0 ? config->shards_n : 1;
    uint32_t mask = d->parts->classes_chosen ? 0 : config->classes_mask;
    if (config->shard >= shards_n) {
        return uw_error_set(err, UW_ERR_INVALID, "%.120s: shard %u of %u; 0 .. %u are allowed",
                            spec, config->shard, shards_n, shards_n - 1);
    }
    d->base = whole;
    if (mask == 0 && shards_n == 1) {
        return UW_OK;
    }
    int rc = uw_subset_open(&d->parts->subset, whole, mask, config->shard, shards_n);
    if (rc < 0) {
        return uw_error_set(err, rc, "%.120s: shard %u of %u, class bits 0x%x: %s", spec,
                            config->shard, shards_n, config->classes_mask,
                            rc == UW_ERR_INVALID ? "no sample is left" : uw_status_text(rc));
    }
    d->base = &d->parts->subset.base;
    return UW_OK;
}

/* Whether the model takes the same images with their channels last. */
static bool wants_channels_last(const struct uw_dataset *d, const struct uw_data_config *config)
{
    return d->channels > 1 && d->height > 1 && d->width > 1 && config->channels == d->height &&
           config->height == d->width && config->width == d->channels &&
           (config->channels != d->channels || config->width != d->width);
}

/* Treat rows of numbers as images if they have the right length. */
static void shape_rows(struct uw_dataset *d, const struct uw_data_config *config)
{
    uint64_t n = (uint64_t)config->channels * config->height * config->width;
    if (d->height == 1 && d->width == 1 && config->height > 1 && d->channels == n) {
        d->channels = config->channels;
        d->height = config->height;
        d->width = config->width;
    }
}

/* Check that there are images to augment, and that a shift leaves part of the image. */
static int check_images(const struct uw_dataset *d, const char *spec,
                        const struct uw_data_config *config, struct uw_error *err)
{
    uint32_t side = d->height < d->width ? d->height : d->width;
    if (side < 2) {
        return uw_error_set(err, UW_ERR_INVALID, "%.120s: samples of %ux%u are no images to move "
                            "and mirror", spec, (unsigned)d->height, (unsigned)d->width);
    }
    if (config->crop >= side) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "%.120s: images of %ux%u can be moved by 1 to %u pixels, not %u", spec,
                            (unsigned)d->height, (unsigned)d->width, (unsigned)side - 1,
                            (unsigned)config->crop);
    }
    return UW_OK;
}

int uw_data_open(struct uw_data *d, const char *spec, const struct uw_data_config *config,
                 struct uw_error *err)
{
    const struct uw_data_config whole_training_set = {.seed = 0};
    if (config == NULL) {
        config = &whole_training_set;
    }
    *d = (struct uw_data){.parts = calloc(1, sizeof *d->parts)};
    if (d->parts == NULL) {
        return uw_error_set(err, UW_ERR_NOMEM, "%.120s: no memory to open it", spec);
    }
    int rc = open_set(d->parts, spec, config, err);
    if (rc == UW_OK) {
        shape_rows(d->parts->whole, config);
        rc = choose(d, spec, config, err);
    }
    d->plain = d->base;
    bool moves = !config->test && (config->crop != 0 || config->flip);
    if (rc == UW_OK && moves) {
        rc = check_images(d->base, spec, config, err);
    }
    if (rc == UW_OK && moves) {
        uw_augment_init(&d->parts->augment, d->base, config->seed, config->crop, config->flip);
        d->base = &d->parts->augment.base;
    }
    if (rc == UW_OK && wants_channels_last(d->base, config)) {
        uw_turned_init(&d->parts->turned, d->base);
        uw_turned_init(&d->parts->turned_plain, d->plain);
        d->base = &d->parts->turned.base;
        d->plain = &d->parts->turned_plain.base;
    }
    if (rc < 0) {
        uw_data_close(d);
    }
    return rc;
}

const struct uw_data_columns *uw_data_columns(const struct uw_data *d)
{
    return d->parts != NULL ? d->parts->columns : NULL;
}

bool uw_data_has_targets(const struct uw_data *d)
{
    const struct uw_data_parts *p = d->parts;
    const struct uw_data_columns *c = uw_data_columns(d);
    if (p == NULL || c == &p->arrays.columns) {
        return true;
    }
    return p->stream.stream != NULL ? uw_stream_is_labelled(&p->stream)
                                    : c == NULL || c->classes_n != 0 || c->targets_n != 0;
}

const char *uw_data_note(const struct uw_data *d, uint32_t i)
{
    const struct uw_notes *notes = d->parts != NULL ? d->parts->notes : NULL;
    return notes != NULL && i < notes->n ? notes->text[i] : NULL;
}

void uw_data_close(struct uw_data *d)
{
    if (d->parts != NULL) {
        uw_subset_close(&d->parts->subset);
        uw_idx_close(&d->parts->idx);
        uw_cifar10_close(&d->parts->cifar10);
        uw_csv_close(&d->parts->csv);
        uw_stream_close(&d->parts->stream);
        uw_images_close(&d->parts->images);
        uw_arrays_close(&d->parts->arrays);
        uw_sounds_close(&d->parts->sounds);
        free(d->parts);
    }
    *d = (struct uw_data){.base = NULL};
}
