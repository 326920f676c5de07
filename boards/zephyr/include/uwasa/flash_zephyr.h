/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/flash_zephyr.h - a partition of Zephyr's flash map as raw flash (uwasa/flash.h)
 *
 *     struct uw_flash_zephyr f;
 *     uw_flash_zephyr_init(&f, FIXED_PARTITION_ID(storage_partition), &err);
 *
 * No other code may use the partition: not NVS, settings or a file system.
 *
 * Units      bytes      Memory  the caller's struct
 * Blocking   up to the device      Context  one thread
 */
#ifndef UWASA_FLASH_ZEPHYR_H
#define UWASA_FLASH_ZEPHYR_H

#include "uwasa/cplusplus.h"
#include "uwasa/flash.h"

UW_C_BEGIN

struct flash_area;

struct uw_flash_zephyr {
    struct uw_flash flash;              /* its idle is not called: other threads run meanwhile */
    const struct flash_area *area;
};

/* Open a partition. err (may be NULL) gets an error sentence.
 *
 * Returns UW_OK, UW_ERR_NOTFOUND (no such partition, or its device is not ready),
 * UW_ERR_UNSUPPORTED (sectors of several sizes, erased bytes that are not 0xff, program units that
 * are no power of two from 1 to 32). */
int uw_flash_zephyr_init(struct uw_flash_zephyr *f, uint8_t partition, struct uw_error *err);

UW_C_END
#endif
