/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/flash.h - raw flash memory: sectors that are erased whole and programmed once
 * (implemented by a board)
 *
 * What uwasa/storage_flash.h needs of a device. Erased bytes read 0xff. A program unit is written
 * once between two erasures. Power may fail at any moment: the unit being programmed and the
 * sector being erased then hold anything.
 *
 * Units      bytes; addresses begin at 0 with the first sector that is the caller's
 * Memory     caller owns the struct; nothing is kept after return
 * Blocking   up to the device: erasing takes seconds on some      Context  main loop
 */
#ifndef UWASA_FLASH_H
#define UWASA_FLASH_H

#include "uwasa/status.h"

#include <stdint.h>

struct uw_flash;

struct uw_flash_ops {
    const char *name;               /* "qspi", "file" */

    /* Returns UW_OK, UW_ERR_INVALID (beyond the end), UW_ERR_IO. */
    int (*read)(struct uw_flash *f, uint32_t at, void *buf, uint32_t bytes);

    /* at and bytes are multiples of program_bytes.
     * Returns UW_OK, UW_ERR_INVALID, UW_ERR_IO (the device reports it, or what was written reads
     * otherwise). */
    int (*program)(struct uw_flash *f, uint32_t at, const void *buf, uint32_t bytes);

    /* Erase one sector. Returns UW_OK, UW_ERR_INVALID, UW_ERR_IO. */
    int (*erase)(struct uw_flash *f, uint32_t sector);
};

struct uw_flash {
    const struct uw_flash_ops *ops;
    uint32_t sector_bytes;
    uint32_t sectors_n;
    uint32_t program_bytes;         /* a power of two, 1 to 32 */
    void (*idle)(void *arg);        /* called now and then while it erases or much is read, to feed
                                       a watchdog; may not use the flash; may be NULL */
    void *idle_arg;
};

#endif
