/* SPDX-License-Identifier: Apache-2.0 */
#include "sets.h"

#include <stdio.h>

enum { CLASSES = 10, SIDE = 32, PIXELS_N = 3 * SIDE * SIDE, RECORD_BYTES = 1 + PIXELS_N };

static int check_file(const struct uw_file *f, uint32_t *records_n, struct uw_error *err)
{
    if (f->bytes == 0 || f->bytes % RECORD_BYTES != 0 || f->bytes / RECORD_BYTES > 1000000) {
        return uw_error_set(err, UW_ERR_CORRUPT,
                            "%.140s: %llu bytes; allowed are 1 to 1000000 records of %d bytes",
                            f->path, (unsigned long long)f->bytes, RECORD_BYTES);
    }
    *records_n = (uint32_t)(f->bytes / RECORD_BYTES);
    for (uint64_t at = 0; at < f->bytes; at += RECORD_BYTES) {
        uint8_t label;
        if (uw_file_read(f, at, &label, 1) < 0) {
            return uw_file_read_error(f, at, err);
        }
        if (label >= CLASSES) {
            return uw_error_set(err, UW_ERR_CORRUPT,
                                "%.140s: byte %llu: label %u; 0 .. 9 are allowed", f->path,
                                (unsigned long long)at, label);
        }
    }
    return UW_OK;
}

static int open_one(struct uw_cifar10 *d, const char *folder, const char *name,
                    struct uw_error *err)
{
    char path[UW_FILE_PATH_BYTES + 32];
    struct uw_file *f = &d->files[d->files_n];
    snprintf(path, sizeof path, "%.*s/%s", (int)UW_FILE_PATH_BYTES, folder, name);
    int rc = uw_file_open(f, path, "tools/get-data cifar10 DIR fetches the set", err);
    if (rc == UW_OK) {
        rc = check_file(f, &d->records_n[d->files_n++], err);
    }
    if (rc == UW_OK) {
        d->base.samples_n += d->records_n[d->files_n - 1];
    }
    return rc;
}

static int read_cifar10(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct uw_cifar10 *d = (const struct uw_cifar10 *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    uint32_t file = 0;
    while (index >= d->records_n[file]) {
        index -= d->records_n[file++];
    }
    const struct uw_file *f = &d->files[file];
    int rc = uw_file_read_label(f, index * RECORD_BYTES, UW_FILE_U8, CLASSES, label);
    return rc < 0 ? rc : uw_file_read_values(f, index * RECORD_BYTES + 1, UW_FILE_U8, x,
                                             PIXELS_N);
}

static const struct uw_dataset_ops cifar10_ops = {.name = "cifar10", .read = read_cifar10};

int uw_cifar10_open(struct uw_cifar10 *d, const char *folder, bool test, struct uw_error *err)
{
    static const char *const train_files[] = {"data_batch_1.bin", "data_batch_2.bin",
                                              "data_batch_3.bin", "data_batch_4.bin",
                                              "data_batch_5.bin"};
    *d = (struct uw_cifar10){
        .base = {
            .ops = &cifar10_ops, .channels = 3, .height = SIDE, .width = SIDE, .classes = CLASSES}};
    int rc = UW_OK;
    for (uint32_t i = 0; i < (test ? 1u : UW_CIFAR10_FILES_MAX) && rc == UW_OK; i++) {
        rc = open_one(d, folder, test ? "test_batch.bin" : train_files[i], err);
    }
    if (rc < 0) {
        uw_cifar10_close(d);
    }
    return rc;
}

void uw_cifar10_close(struct uw_cifar10 *d)
{
    for (uint32_t i = 0; i < UW_CIFAR10_FILES_MAX; i++) {
        uw_file_close(&d->files[i]);
    }
}
