/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/flash_emulated.h - flash for boards in an emulator: a file of the host, or memory that
 * keeps its content over a reset
 *
 * Behaves like NOR flash: erasing sets all bits, programming only clears some. */
#ifndef UWASA_FLASH_EMULATED_H
#define UWASA_FLASH_EMULATED_H

#include "uwasa/cplusplus.h"
#include "uwasa/flash.h"

#include <stdint.h>

UW_C_BEGIN

struct uw_flash_emulated {
    struct uw_flash base;
    uint8_t *memory;                /* [sectors_n * sector_bytes] kept over a reset; with a file: a
                                       buffer of one sector */
    int file;                       /* handle of semihosting.h, -1: memory */
};

/* Time to erase a sector, set by a debugger to emulate real flash. */
extern volatile uint32_t uw_flash_emulated_erase_us;

/* Use memory with its current content. */
void uw_flash_emulated_init(struct uw_flash_emulated *f, uint32_t sector_bytes,
                            uint32_t sectors_n, void *memory);

/* Use a file of the host from now on; it is created or extended as needed.
 * Returns UW_OK or UW_ERR_IO. */
int uw_flash_emulated_open(struct uw_flash_emulated *f, const char *path);

UW_C_END
#endif
