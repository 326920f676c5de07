/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/flash_emulated.h"

#include "semihosting.h"

#include "uwasa/machine.h"

#include <string.h>

#define PROGRAM_BYTES 8u
#define ERASED 0xff

volatile uint32_t uw_flash_emulated_erase_us;

static bool inside(const struct uw_flash *f, uint32_t at, uint32_t bytes)
{
    uint32_t size = f->sector_bytes * f->sectors_n;
    return at <= size && bytes <= size - at;
}

static int flash_read(struct uw_flash *base, uint32_t at, void *buf, uint32_t bytes)
{
    struct uw_flash_emulated *f = (struct uw_flash_emulated *)base;
    if (!inside(base, at, bytes)) {
        return UW_ERR_INVALID;
    }
    if (f->file >= 0) {
        return uw_semihosting_read(f->file, at, buf, bytes) ? UW_OK : UW_ERR_IO;
    }
    memcpy(buf, f->memory + at, bytes);
    return UW_OK;
}

static int program(struct uw_flash *base, uint32_t at, const void *buf, uint32_t bytes)
{
    struct uw_flash_emulated *f = (struct uw_flash_emulated *)base;
    const uint8_t *p = (const uint8_t *)buf;
    if (!inside(base, at, bytes) || at % PROGRAM_BYTES != 0 || bytes % PROGRAM_BYTES != 0) {
        return UW_ERR_INVALID;
    }
    for (uint32_t done = 0; done < bytes;) {
        uint32_t n = bytes - done < base->sector_bytes ? bytes - done : base->sector_bytes;
        uint8_t *cell = f->file >= 0 ? f->memory : f->memory + at + done;
        if (f->file >= 0 && !uw_semihosting_read(f->file, at + done, cell, n)) {
            return UW_ERR_IO;
        }
        for (uint32_t i = 0; i < n; i++) {
            cell[i] &= p[done + i];
        }
        if (f->file >= 0 && !uw_semihosting_write(f->file, at + done, cell, n)) {
            return UW_ERR_IO;
        }
        if (memcmp(cell, p + done, n) != 0) {
            return UW_ERR_IO;
        }
        done += n;
    }
    return UW_OK;
}

static int erase(struct uw_flash *base, uint32_t sector)
{
    struct uw_flash_emulated *f = (struct uw_flash_emulated *)base;
    uint64_t begin_us = uw_machine_now_us();
    if (sector >= base->sectors_n) {
        return UW_ERR_INVALID;
    }
    while (uw_machine_now_us() - begin_us < uw_flash_emulated_erase_us) {
        if (base->idle != NULL) {
            base->idle(base->idle_arg);
        }
    }
    uint32_t at = sector * base->sector_bytes;
    if (f->file < 0) {
        memset(f->memory + at, ERASED, base->sector_bytes);
        return UW_OK;
    }
    memset(f->memory, ERASED, base->sector_bytes);
    return uw_semihosting_write(f->file, at, f->memory, base->sector_bytes) ? UW_OK : UW_ERR_IO;
}

static const struct uw_flash_ops ops = {
    .name = "emulated", .read = flash_read, .program = program, .erase = erase};

void uw_flash_emulated_init(struct uw_flash_emulated *f, uint32_t sector_bytes,
                            uint32_t sectors_n, void *memory)
{
    f->base = (struct uw_flash){.ops = &ops, .sector_bytes = sector_bytes,
                                .sectors_n = sectors_n, .program_bytes = PROGRAM_BYTES};
    f->memory = memory;
    f->file = -1;
}

int uw_flash_emulated_open(struct uw_flash_emulated *f, const char *path)
{
    f->file = uw_semihosting_open(path);
    long bytes = f->file >= 0 ? uw_semihosting_length(f->file) : -1;
    int rc = bytes >= 0 ? UW_OK : UW_ERR_IO;
    uint32_t known = bytes > 0 ? (uint32_t)bytes / f->base.sector_bytes : 0;
    for (uint32_t i = known; rc == UW_OK && i < f->base.sectors_n; i++) {
        rc = erase(&f->base, i);
    }
    return rc;
}
