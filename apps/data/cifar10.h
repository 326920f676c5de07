/* SPDX-License-Identifier: Apache-2.0
 *
 * cifar10.h - CIFAR-10 in its binary version
 *
 * Files of records; a record is one label byte and 32x32 bytes each of red, green and blue.
 */
#ifndef UWASA_DATA_CIFAR10_H
#define UWASA_DATA_CIFAR10_H

#include "file.h"
#include "uwasa/dataset.h"

#include <stdbool.h>

#define UW_CIFAR10_FILES_MAX 5

struct uw_cifar10 {
    struct uw_dataset base;     /* [3][32][32], ten classes */
    struct uw_file files[UW_CIFAR10_FILES_MAX];
    uint32_t records_n[UW_CIFAR10_FILES_MAX];
    uint32_t files_n;
};

/* Open data_batch_1.bin .. data_batch_5.bin or test_batch.bin in a folder, and check sizes and
 * every label. On failure nothing stays open. Returns the codes of uw_data_open. */
int uw_cifar10_open(struct uw_cifar10 *d, const char *folder, bool test, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_cifar10_close(struct uw_cifar10 *d);

#endif
