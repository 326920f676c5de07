/* SPDX-License-Identifier: Apache-2.0
 *
 * A flash device as test_flash_zephyr.c makes it. */
#ifndef UWASA_TEST_ZEPHYR_FLASH_H
#define UWASA_TEST_ZEPHYR_FLASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct device;

struct flash_pages_info {
    off_t start_offset;
    size_t size;
    uint32_t index;
};

bool device_is_ready(const struct device *dev);
int flash_get_page_info_by_offs(const struct device *dev, off_t offset,
                                struct flash_pages_info *info);

#endif
