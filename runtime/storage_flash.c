/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/storage_flash.h"

#include "uwasa/crc.h"
#include "uwasa/hash.h"

#include <stdbool.h>
#include <string.h>

#define MAGIC 0x626f7775u           /* "uwob" */
#define FORMAT 1u
#define COPY_BYTES 32u              /* one of the two copies of the header */
#define HEADER_BYTES UW_STORAGE_FLASH_HEADER_BYTES
#define CHUNK_BYTES 128u

/* Words of a header. */
enum { H_MAGIC, H_FORMAT, H_SEQUENCE, H_BYTES, H_NAME, H_DATA_CRC, H_CRC, H_WORDS };

/* What a slot holds. */
struct record {
    uint32_t at, bytes, sequence;   /* at: address of the slot */
    bool complete;                  /* its header was programmed to the end */
};

static struct uw_storage_flash *self(struct uw_storage *s)
{
    return (struct uw_storage_flash *)s; /* base is the first member */
}

/* ---- layout ---- */

static uint64_t slot_bytes(const struct uw_flash *f, const struct uw_storage_flash_object *o)
{
    uint64_t bytes = (uint64_t)HEADER_BYTES + o->bytes_max + f->sector_bytes - 1u;
    return bytes - bytes % f->sector_bytes;
}

static uint32_t slot_at(const struct uw_storage_flash *s, uint32_t object, uint32_t which)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < object; i++) {
        at += 2u * (uint32_t)slot_bytes(s->flash, &s->objects[i]);
    }
    return at + which * (uint32_t)slot_bytes(s->flash, &s->objects[object]);
}

/* Index of an object; objects_n: not found. */
static uint32_t find(const struct uw_storage_flash *s, const char *object)
{
    uint32_t i = 0;
    while (i < s->objects_n && strcmp(s->objects[i].name, object) != 0) {
        i++;
    }
    return i;
}

/* ---- reading ---- */

static uint32_t get_word(const uint8_t *bytes, uint32_t word)
{
    const uint8_t *p = bytes + 4u * word;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int data_crc(const struct uw_storage_flash *s, uint32_t slot, uint32_t bytes, uint32_t *crc)
{
    uint8_t chunk[CHUNK_BYTES];
    int rc = UW_OK;
    *crc = 0;
    for (uint32_t done = 0; rc == UW_OK && done < bytes;) {
        uint32_t n = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
        rc = s->flash->ops->read(s->flash, slot + HEADER_BYTES + done, chunk, n);
        *crc = uw_crc32c_portable(*crc, chunk, n);
        done += n;
        if (s->flash->idle != NULL) {
            s->flash->idle(s->flash->idle_arg);
        }
    }
    return rc;
}

/* Read a slot's header. Returns whether it describes this object. */
static bool read_header(const struct uw_storage_flash *s, uint32_t object, uint32_t which,
                        struct record *r, uint32_t *crc)
{
    uint8_t header[HEADER_BYTES];
    r->at = slot_at(s, object, which);
    if (s->flash->ops->read(s->flash, r->at, header, COPY_BYTES) < 0 ||
        get_word(header, H_MAGIC) != MAGIC || get_word(header, H_FORMAT) != FORMAT ||
        get_word(header, H_NAME) != uw_hash32_text(s->objects[object].name) ||
        get_word(header, H_CRC) != uw_crc32c_portable(0, header, 4u * H_CRC)) {
        return false;
    }
    r->sequence = get_word(header, H_SEQUENCE);
    r->bytes = get_word(header, H_BYTES);
    *crc = get_word(header, H_DATA_CRC);
    r->complete = s->flash->ops->read(s->flash, r->at + COPY_BYTES, header + COPY_BYTES,
                                      COPY_BYTES) == UW_OK &&
                  memcmp(header, header + COPY_BYTES, COPY_BYTES) == 0;
    return r->bytes <= s->objects[object].bytes_max;
}

/* Find the slot that holds an object. A header whose programming was interrupted may read correctly
 * once and not the next time, so a complete one is preferred. Of two incomplete ones the older is
 * preferred: it was readable when the write of the other began. */
static bool newest(const struct uw_storage_flash *s, uint32_t object, struct record *r)
{
    struct record record[2];
    uint32_t crc[2], found;
    bool there[2];
    for (uint32_t i = 0; i < 2; i++) {
        there[i] = read_header(s, object, i, &record[i], &crc[i]);
    }
    bool later = there[0] && there[1] && (int32_t)(record[1].sequence - record[0].sequence) > 0;
    bool second = !there[0] ||
                  (there[1] && (record[0].complete == record[1].complete
                                    ? later == record[0].complete
                                    : record[1].complete));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t which = (i == 0) == second ? 1u : 0u;
        if (there[which] && data_crc(s, record[which].at, record[which].bytes, &found) == UW_OK &&
            found == crc[which]) {
            *r = record[which];
            return true;
        }
    }
    return false;
}

bool uw_storage_flash_blank(const struct uw_storage_flash *s, uint32_t object)
{
    bool blank = true;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t word;
        int rc = s->flash->ops->read(s->flash, slot_at(s, object, i), &word, sizeof word);
        blank = blank && rc == UW_OK && (word == 0 || word == UINT32_MAX);
    }
    return blank;
}

static int flash_size(struct uw_storage *base, const char *object, uint64_t *bytes)
{
    struct uw_storage_flash *s = self(base);
    struct record r;
    uint32_t i = find(s, object);
    s->reading = s->objects_n;
    if (i == s->objects_n || !newest(s, i, &r)) {
        return UW_ERR_NOTFOUND;
    }
    s->reading = i;
    s->read_at = r.at + HEADER_BYTES;
    s->read_bytes = r.bytes;
    *bytes = r.bytes;
    return UW_OK;
}

static int flash_read(struct uw_storage *base, const char *object, uint64_t offset, void *buf,
                      size_t bytes)
{
    struct uw_storage_flash *s = self(base);
    if (s->reading == s->objects_n || s->reading != find(s, object)) {
        uint64_t ignored;
        int rc = flash_size(base, object, &ignored);
        if (rc < 0) {
            return rc;
        }
    }
    if (offset > s->read_bytes || bytes > s->read_bytes - offset) {
        return UW_ERR_CORRUPT;
    }
    return s->flash->ops->read(s->flash, s->read_at + (uint32_t)offset, buf, (uint32_t)bytes);
}

/* ---- writing ---- */

static int erase_at(struct uw_storage_flash *s, uint32_t at)
{
    return s->flash->ops->erase(s->flash, at / s->flash->sector_bytes);
}

static int flash_begin(struct uw_storage *base, const char *object)
{
    struct uw_storage_flash *s = self(base);
    struct record old;
    uint32_t i = find(s, object);
    if (s->writing != s->objects_n) {
        return UW_ERR_AGAIN;
    }
    if (i == s->objects_n) {
        return UW_ERR_NOTFOUND;
    }
    bool replaces = newest(s, i, &old);
    s->slot_at = slot_at(s, i, 0);
    s->sequence = 1;
    if (replaces) {
        s->slot_at = slot_at(s, i, old.at == s->slot_at ? 1 : 0);
        s->sequence = old.sequence + 1u;
    }
    s->write_bytes = s->unit_n = s->crc = 0;
    s->failed = UW_OK;
    s->writing = i;
    int rc = erase_at(s, s->slot_at);   /* erases the header before the data */
    if (rc < 0) {
        s->writing = s->objects_n;
    }
    return rc;
}

/* Program whole units after what was written. A sector is erased when the data reaches it. */
static int program(struct uw_storage_flash *s, const uint8_t *data, uint32_t bytes)
{
    int rc = UW_OK;
    while (rc == UW_OK && bytes > 0) {
        uint32_t at = s->slot_at + HEADER_BYTES + s->write_bytes;
        uint32_t in_sector = at % s->flash->sector_bytes;
        uint32_t room = s->flash->sector_bytes - in_sector;
        uint32_t n = bytes < room ? bytes : room;
        rc = in_sector == 0 ? erase_at(s, at) : UW_OK;
        rc = rc == UW_OK ? s->flash->ops->program(s->flash, at, data, n) : rc;
        s->write_bytes += n;
        data += n;
        bytes -= n;
    }
    return rc;
}

static int append(struct uw_storage_flash *s, const uint8_t *data, uint32_t bytes)
{
    uint32_t unit_bytes = s->flash->program_bytes;
    int rc = UW_OK;
    s->crc = uw_crc32c_portable(s->crc, data, bytes);
    while (rc == UW_OK && bytes > 0) {
        uint32_t n = s->unit_n == 0 ? bytes - bytes % unit_bytes : 0;
        if (n != 0) {
            rc = program(s, data, n);
        } else {
            n = unit_bytes - s->unit_n < bytes ? unit_bytes - s->unit_n : bytes;
            memcpy(s->unit + s->unit_n, data, n);
            s->unit_n += n;
            if (s->unit_n == unit_bytes) {
                rc = program(s, s->unit, unit_bytes);
                s->unit_n = 0;
            }
        }
        data += n;
        bytes -= n;
    }
    return rc;
}

static int flash_append(struct uw_storage *base, const void *buf, size_t bytes)
{
    struct uw_storage_flash *s = self(base);
    if (s->writing == s->objects_n) {
        return UW_ERR_INVALID;
    }
    uint32_t used = s->write_bytes + s->unit_n;
    if (s->failed == UW_OK) {
        s->failed = bytes > s->objects[s->writing].bytes_max - used
                        ? UW_ERR_FULL
                        : append(s, buf, (uint32_t)bytes);
    }
    return s->failed;
}

/* Program the header of what is written; the second copy marks it as complete. */
static int program_header(struct uw_storage_flash *s, uint32_t bytes)
{
    const uint32_t word[H_CRC] = {MAGIC, FORMAT, s->sequence, bytes,
                                  uw_hash32_text(s->objects[s->writing].name), s->crc};
    uint8_t header[COPY_BYTES];
    memset(header, 0xff, sizeof header);
    for (uint32_t i = 0; i < 4u * H_CRC; i++) {
        header[i] = (uint8_t)(word[i / 4u] >> 8u * (i % 4u));
    }
    uint32_t crc = uw_crc32c_portable(0, header, 4u * H_CRC);
    for (uint32_t i = 0; i < 4; i++) {
        header[4u * H_CRC + i] = (uint8_t)(crc >> 8u * i);
    }
    int rc = UW_OK;
    for (uint32_t copy = 0; copy < 2 && rc == UW_OK; copy++) {
        rc = s->flash->ops->program(s->flash, s->slot_at + copy * COPY_BYTES, header, COPY_BYTES);
    }
    return rc;
}

static int commit(struct uw_storage_flash *s)
{
    uint32_t bytes = s->write_bytes + s->unit_n, found;
    int rc = s->failed;
    if (rc == UW_OK && s->unit_n > 0) {
        memset(s->unit + s->unit_n, 0xff, s->flash->program_bytes - s->unit_n);
        rc = program(s, s->unit, s->flash->program_bytes);
    }
    rc = rc == UW_OK ? data_crc(s, s->slot_at, bytes, &found) : rc;
    if (rc == UW_OK && found != s->crc) {
        rc = UW_ERR_IO; /* the flash reads back other data */
    }
    if (rc == UW_OK) {
        rc = program_header(s, bytes);
        if (rc < 0) {
            (void)erase_at(s, s->slot_at); /* the old object stays */
        }
    }
    return rc;
}

static int flash_end(struct uw_storage *base, int committed)
{
    struct uw_storage_flash *s = self(base);
    if (s->writing == s->objects_n) {
        return UW_ERR_INVALID;
    }
    int rc = committed ? commit(s) : UW_OK;
    s->writing = s->objects_n;
    s->reading = s->objects_n; /* it may be of the object just replaced */
    return rc;
}

static const struct uw_storage_ops flash_ops = {
    .name = "flash",
    .size = flash_size,
    .read = flash_read,
    .begin = flash_begin,
    .append = flash_append,
    .end = flash_end,
};

/* ---- set-up ---- */

uint32_t uw_storage_flash_sectors(const struct uw_storage_flash_config *config)
{
    const struct uw_flash *f = config->flash;
    uint64_t bytes = 0;
    if (f == NULL || f->program_bytes == 0 || f->program_bytes > COPY_BYTES ||
        (f->program_bytes & (f->program_bytes - 1u)) != 0 || f->sector_bytes == 0 ||
        f->sector_bytes % HEADER_BYTES != 0 || config->objects_n == 0) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < config->objects_n; i++) {
        const struct uw_storage_flash_object *o = &config->objects[i];
        if (o->name == NULL || o->name[0] == '\0' || o->bytes_max == 0) {
            return UINT32_MAX;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(config->objects[k].name, o->name) == 0) {
                return UINT32_MAX;
            }
        }
        bytes += 2u * slot_bytes(f, o);
    }
    return bytes <= UINT32_MAX ? (uint32_t)(bytes / f->sector_bytes) : UINT32_MAX;
}

int uw_storage_flash_init(struct uw_storage_flash *s, const struct uw_storage_flash_config *config)
{
    uint32_t sectors = uw_storage_flash_sectors(config);
    memset(s, 0, sizeof *s);
    if (sectors == UINT32_MAX) {
        return UW_ERR_INVALID;
    }
    if (sectors > config->flash->sectors_n) {
        return UW_ERR_FULL;
    }
    s->base.ops = &flash_ops;
    s->flash = config->flash;
    s->objects = config->objects;
    s->objects_n = s->reading = s->writing = config->objects_n;
    return UW_OK;
}

