/* SPDX-License-Identifier: Apache-2.0
 *
 * The flash map as test_flash_zephyr.c makes it. */
#ifndef UWASA_TEST_ZEPHYR_FLASH_MAP_H
#define UWASA_TEST_ZEPHYR_FLASH_MAP_H

#include <zephyr/drivers/flash.h>

struct flash_area {
    uint8_t fa_id;
    off_t fa_off;
    size_t fa_size;
    const struct device *fa_dev;
};

int flash_area_open(uint8_t id, const struct flash_area **fa);
int flash_area_read(const struct flash_area *fa, off_t off, void *dst, size_t len);
int flash_area_write(const struct flash_area *fa, off_t off, const void *src, size_t len);
int flash_area_erase(const struct flash_area *fa, off_t off, size_t len);
uint32_t flash_area_align(const struct flash_area *fa);
uint8_t flash_area_erased_val(const struct flash_area *fa);

#endif
