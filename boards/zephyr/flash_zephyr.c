/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/flash_zephyr.h"

#include <string.h>

#include <zephyr/drivers/flash.h>
#include <zephyr/storage/flash_map.h>

#define ERASED 0xffu
#define PROGRAM_MAX 32u
#define COMPARE_BYTES 64u

static const struct flash_area *area_of(const struct uw_flash *f)
{
    return ((const struct uw_flash_zephyr *)f)->area;
}

static bool is_inside(const struct uw_flash *f, uint32_t at, uint32_t bytes)
{
    uint32_t size = f->sector_bytes * f->sectors_n;
    return at <= size && bytes <= size - at;
}

static int flash_read_at(struct uw_flash *f, uint32_t at, void *buf, uint32_t bytes)
{
    if (!is_inside(f, at, bytes)) {
        return UW_ERR_INVALID;
    }
    return bytes == 0 || flash_area_read(area_of(f), (off_t)at, buf, bytes) == 0 ? UW_OK
                                                                                : UW_ERR_IO;
}

static int flash_program(struct uw_flash *f, uint32_t at, const void *buf, uint32_t bytes)
{
    const uint8_t *from = buf;
    uint8_t back[COMPARE_BYTES];
    if (!is_inside(f, at, bytes) || (at | bytes) % f->program_bytes != 0) {
        return UW_ERR_INVALID;
    }
    if (bytes != 0 && flash_area_write(area_of(f), (off_t)at, buf, bytes) != 0) {
        return UW_ERR_IO;
    }
    for (uint32_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < sizeof back ? bytes - done : (uint32_t)sizeof back;
        if (flash_read_at(f, at + done, back, n) < 0 || memcmp(back, from + done, n) != 0) {
            return UW_ERR_IO;
        }
    }
    return UW_OK;
}

static int flash_erase_sector(struct uw_flash *f, uint32_t sector)
{
    if (sector >= f->sectors_n) {
        return UW_ERR_INVALID;
    }
    off_t at = (off_t)(sector * f->sector_bytes);
    return flash_area_erase(area_of(f), at, f->sector_bytes) == 0 ? UW_OK : UW_ERR_IO;
}

static const struct uw_flash_ops zephyr_ops = {
    .name = "zephyr",
    .read = flash_read_at,
    .program = flash_program,
    .erase = flash_erase_sector,
};

/* The first and the last sector have one size, and a whole number of them fills the partition. */
static bool find_sectors(const struct flash_area *area, uint32_t *sector_bytes)
{
    struct flash_pages_info first, last;
    off_t end = area->fa_off + (off_t)area->fa_size - 1;
    if (flash_get_page_info_by_offs(area->fa_dev, area->fa_off, &first) != 0 ||
        flash_get_page_info_by_offs(area->fa_dev, end, &last) != 0) {
        return false;
    }
    *sector_bytes = (uint32_t)first.size;
    return first.size != 0 && first.size == last.size && first.start_offset == area->fa_off &&
           area->fa_size % first.size == 0;
}

int uw_flash_zephyr_init(struct uw_flash_zephyr *f, uint8_t partition, struct uw_error *err)
{
    uint32_t sector_bytes;
    memset(f, 0, sizeof *f);
    if (flash_area_open(partition, &f->area) != 0 || !device_is_ready(f->area->fa_dev)) {
        return uw_error_set(err, UW_ERR_NOTFOUND, "flash partition %u is missing or not ready",
                            (unsigned)partition);
    }
    if (!find_sectors(f->area, &sector_bytes)) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "flash partition %u needs whole sectors of one size",
                            (unsigned)partition);
    }
    uint32_t unit = flash_area_align(f->area);
    if (unit == 0 || unit > PROGRAM_MAX || (unit & (unit - 1u)) != 0 ||
        flash_area_erased_val(f->area) != ERASED) {
        return uw_error_set(err, UW_ERR_UNSUPPORTED,
                            "flash partition %u: program units of 1 to 32 bytes, and 0xff where it "
                            "is erased, are needed",
                            (unsigned)partition);
    }
    f->flash.ops = &zephyr_ops;
    f->flash.sector_bytes = sector_bytes;
    f->flash.sectors_n = (uint32_t)(f->area->fa_size / sector_bytes);
    f->flash.program_bytes = unit;
    return UW_OK;
}
