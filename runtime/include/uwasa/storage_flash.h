/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/storage_flash.h - struct uw_storage over struct uw_flash: a few objects, two slots each
 *
 * The objects and their largest sizes are declared at init; that lays out the flash, from sector 0
 * on: for each object two slots of whole sectors. A write goes to the slot that does not hold the
 * object now, so that the two wear alike. It becomes visible by its header, which comes last: after
 * a power cut at any program or erase a reader finds the old object or the new one, whole, also
 * where a unit or a sector that was cut short reads otherwise each time.
 *
 *     static const struct uw_storage_flash_object objects[] = {{"model", 266240}, {"name", 32}};
 *     uw_storage_flash_init(&storage, &(struct uw_storage_flash_config){
 *         .flash = machine->flash, .objects = objects, .objects_n = 2});
 *     uw_checkpoint_save(&model, &state, &storage.base, "model", &err);
 *
 * `size` checks the CRC of the whole object; the reads after it stream, without a check. A slot
 * that cannot be read, or that belongs to another layout (other names or sizes before an update of
 * the program), is empty: keep the order of the objects and their sizes where they must outlive
 * one.
 *
 * In flash    header of UW_STORAGE_FLASH_HEADER_BYTES, data, 0xff up to the next program unit.
 *             Header: "uwob", format 1, sequence number, length of the data, hash of the name,
 *             CRC-32C of the data, CRC-32C of the six words before, 4 bytes 0xff; all words are
 *             u32, little-endian. Then the same once more: it marks the first one as complete
 * Memory     the caller owns the struct; flash and objects are borrowed until its end
 * Blocking   up to the device: begin and append erase      Context  one thread, one handle a flash
 * Errors     beside those of storage.h: size gives UW_ERR_NOTFOUND for an object that was not
 *            declared and for one of which no slot can be read, begin for the first; append
 *            UW_ERR_FULL beyond bytes_max; begin, append and end UW_ERR_IO where a sector is bad:
 *            the old object stays. A commit after an append that failed gives that one's code
 */
#ifndef UWASA_STORAGE_FLASH_H
#define UWASA_STORAGE_FLASH_H

#include "uwasa/cplusplus.h"
#include "uwasa/flash.h"
#include "uwasa/storage.h"

#include <stdbool.h>

UW_C_BEGIN

#define UW_STORAGE_FLASH_HEADER_BYTES 64u   /* of each slot */

struct uw_storage_flash_object {
    const char *name;               /* not empty, unlike the others */
    uint32_t bytes_max;
};

struct uw_storage_flash_config {
    struct uw_flash *flash;
    const struct uw_storage_flash_object *objects;
    uint32_t objects_n;
};

struct uw_storage_flash {
    struct uw_storage base;
    struct uw_flash *flash;
    const struct uw_storage_flash_object *objects;
    uint32_t objects_n;
    uint32_t reading, read_at, read_bytes;      /* what size found; reading == objects_n: nothing */
    uint32_t writing, slot_at, write_bytes;     /* writing == objects_n: no write is open */
    uint32_t sequence, crc;
    int failed;                                 /* of the open write: first code, or UW_OK */
    uint32_t unit_n;                            /* bytes that wait in unit */
    uint8_t unit[32];
};

/* Sectors that the objects take; UINT32_MAX when the configuration is not allowed. */
uint32_t uw_storage_flash_sectors(const struct uw_storage_flash_config *config);

/* Does an object's flash hold nothing, not even what is damaged: ones, as it is erased, or zeros,
 * as memory in place of flash begins? Tells an object that size does not find because it was never
 * written from one that was.
 *
 *   object   number of it, below objects_n */
bool uw_storage_flash_blank(const struct uw_storage_flash *s, uint32_t object);

/* Set up; reads and writes nothing.
 *
 * Returns UW_OK, UW_ERR_INVALID (no objects, a name empty or there twice, bytes_max 0, a program
 * unit that is no power of two to 32, sectors that are no multiple of a header), UW_ERR_FULL (the
 * flash has fewer sectors than uw_storage_flash_sectors). */
int uw_storage_flash_init(struct uw_storage_flash *s, const struct uw_storage_flash_config *config);

UW_C_END
#endif
