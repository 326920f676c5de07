/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/flash.h - raw flash memory: sectors that are erased whole and programmed once
 * (implemented by a board)
 *
 * Used by uwasa/storage_flash.h. Erased bytes read 0xff. A program unit is written once between two
 * erasures. After a power failure the unit being programmed and the sector being erased have any
 * content.
 *
 * Units      bytes; address 0 is the start of the first sector for the caller
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
     * Returns UW_OK, UW_ERR_INVALID, UW_ERR_IO (the device reports an error, or reads back other
     * bytes). */
    int (*program)(struct uw_flash *f, uint32_t at, const void *buf, uint32_t bytes);

    /* Erase one sector. Returns UW_OK, UW_ERR_INVALID, UW_ERR_IO. */
    int (*erase)(struct uw_flash *f, uint32_t sector);
};

struct uw_flash {
    const struct uw_flash_ops *ops;
    uint32_t sector_bytes;
    uint32_t sectors_n;
    uint32_t program_bytes;         /* a power of two, 1 to 32 */
    void (*idle)(void *arg);        /* called during erasures and long reads, to feed a watchdog;
                                       must not use the flash; may be NULL */
    void *idle_arg;
};

#endif
