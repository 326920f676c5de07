/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_flash.h"

#include <string.h>

enum { ERASED, PROGRAMMED, TORN };

static struct faulty_flash *self(struct uw_flash *f)
{
    return (struct faulty_flash *)f; /* base is the first member */
}

static uint32_t size_of(const struct uw_flash *f)
{
    return f->sector_bytes * f->sectors_n;
}

/* Some bytes of a torn unit, as they read this time. */
static void read_torn(struct faulty_flash *f, uint32_t at, uint8_t *out, uint32_t bytes)
{
    uint32_t kind = uw_rng_below(&f->rng, 4);
    for (uint32_t i = 0; i < bytes; i++) {
        uint8_t mask = (uint8_t)uw_rng_below(&f->rng, 256);
        uint8_t mixed = (uint8_t)((f->now[at + i] & mask) | (f->then[at + i] & ~mask));
        out[i] = kind == 0   ? f->now[at + i]
                 : kind == 1 ? f->then[at + i]
                 : kind == 2 ? mixed
                             : (uint8_t)uw_rng_below(&f->rng, 256);
    }
}

static int faulty_read(struct uw_flash *base, uint32_t at, void *buf, uint32_t bytes)
{
    struct faulty_flash *f = self(base);
    uint8_t *out = buf;
    if (at > size_of(base) || bytes > size_of(base) - at) {
        return UW_ERR_INVALID;
    }
    if (f->off) {
        return UW_ERR_IO;
    }
    while (bytes > 0) {
        uint32_t left = base->program_bytes - at % base->program_bytes;
        uint32_t n = left < bytes ? left : bytes;
        if (f->unit[at / base->program_bytes] == TORN) {
            read_torn(f, at, out, n);
        } else {
            memcpy(out, f->now + at, n);
        }
        at += n;
        out += n;
        bytes -= n;
    }
    return UW_OK;
}

/* Count an operation. Is it the one during which power fails? */
static bool is_cut(struct faulty_flash *f)
{
    f->failed = f->operations_n == f->fail_at;
    f->off = f->operations_n++ == f->cut_at;
    return f->off;
}

static int program_unit(struct faulty_flash *f, uint32_t at, const uint8_t *data)
{
    uint32_t n = f->base.program_bytes;
    uint8_t *state = &f->unit[at / n];
    bool bad = at / f->base.sector_bytes == f->bad_sector;
    f->misused_n += *state != ERASED;
    if (is_cut(f)) {
        memcpy(f->then + at, data, n);
        *state = TORN;
        return UW_ERR_IO;
    }
    *state = PROGRAMMED;
    memcpy(f->now + at, data, n);
    if (bad && (f->bad_program || f->bad_silently)) {
        f->now[at + n - 1u] ^= 1u;
        return f->bad_program ? UW_ERR_IO : UW_OK;
    }
    return f->failed ? UW_ERR_IO : UW_OK;
}

static int faulty_program(struct uw_flash *base, uint32_t at, const void *buf, uint32_t bytes)
{
    struct faulty_flash *f = self(base);
    int rc = f->off ? UW_ERR_IO : UW_OK;
    if (at > size_of(base) || bytes > size_of(base) - at || at % base->program_bytes != 0 ||
        bytes % base->program_bytes != 0) {
        f->misused_n++;
        return UW_ERR_INVALID;
    }
    for (uint32_t i = 0; i < bytes && rc == UW_OK; i += base->program_bytes) {
        rc = program_unit(f, at + i, (const uint8_t *)buf + i);
    }
    return rc;
}

static int faulty_erase(struct uw_flash *base, uint32_t sector)
{
    struct faulty_flash *f = self(base);
    uint32_t begin = sector * base->sector_bytes, n = base->program_bytes;
    if (sector >= base->sectors_n) {
        f->misused_n++;
        return UW_ERR_INVALID;
    }
    if (f->off || (sector == f->bad_sector && f->bad_erase)) {
        return UW_ERR_IO;
    }
    bool cut = is_cut(f);
    for (uint32_t at = begin; at < begin + base->sector_bytes; at += n) {
        memset(f->then + at, 0xff, n);
        if (!cut) {
            memset(f->now + at, 0xff, n);
        } else if (f->steady_sectors) {
            uint8_t once[32];
            read_torn(f, at, once, n);
            memcpy(f->now + at, once, n);
        }
        f->unit[at / n] = !cut ? ERASED : f->steady_sectors ? PROGRAMMED : TORN;
    }
    return cut || f->failed ? UW_ERR_IO : UW_OK;
}

static const struct uw_flash_ops faulty_ops = {
    .name = "faulty",
    .read = faulty_read,
    .program = faulty_program,
    .erase = faulty_erase,
};

size_t faulty_flash_bytes(uint32_t sector_bytes, uint32_t sectors_n, uint32_t program_bytes)
{
    size_t bytes = (size_t)sector_bytes * sectors_n;
    return 2u * bytes + bytes / program_bytes;
}

void faulty_flash_init(struct faulty_flash *f, void *memory, uint32_t sector_bytes,
                       uint32_t sectors_n, uint32_t program_bytes, uint64_t seed)
{
    size_t bytes = (size_t)sector_bytes * sectors_n;
    *f = (struct faulty_flash){.base = {.ops = &faulty_ops, .sector_bytes = sector_bytes,
                                        .sectors_n = sectors_n, .program_bytes = program_bytes},
                               .now = memory, .cut_at = FAULTY_FLASH_NEVER,
                               .fail_at = FAULTY_FLASH_NEVER,
                               .bad_sector = UINT32_MAX};
    f->then = f->now + bytes;
    f->unit = f->then + bytes;
    memset(f->now, 0xff, 2u * bytes);
    memset(f->unit, ERASED, bytes / program_bytes);
    uw_rng_seed(&f->rng, seed);
}

void faulty_flash_power(struct faulty_flash *f, uint64_t after)
{
    f->off = false;
    f->cut_at = after == FAULTY_FLASH_NEVER ? after : f->operations_n + after;
}
