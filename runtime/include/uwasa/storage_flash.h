/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/storage_flash.h - struct uw_storage over struct uw_flash: a few objects, two slots each
 *
 * The objects and their largest sizes are declared at init. Each object has two slots of whole
 * sectors, from sector 0 on. A write goes to the slot that does not hold the current object: both
 * wear equally. The header is written last and makes the object visible. After a power failure at
 * any program or erase, a reader finds the complete old or new object, even if an interrupted unit
 * or sector reads differently each time.
 *
 *     static const struct uw_storage_flash_object objects[] = {{"model", 266240}, {"name", 32}};
 *     uw_storage_flash_init(&storage, &(struct uw_storage_flash_config){
 *         .flash = machine->flash, .objects = objects, .objects_n = 2});
 *     uw_checkpoint_save(&model, &state, &storage.base, "model", &err);
 *
 * `size` checks the CRC of the whole object; later reads do not. A slot that cannot be read, or
 * belongs to another layout (names or sizes of an older program), counts as empty: keep the order
 * and the sizes of objects that must survive an update of the program.
 *
 * In flash    header of UW_STORAGE_FLASH_HEADER_BYTES, data, 0xff up to the next program unit.
 *             Header: "uwob", format 1, sequence number, length of the data, hash of the name,
 *             CRC-32C of the data, CRC-32C of the six words before, 4 bytes 0xff; all words are
 *             u32, little-endian. A second copy marks the first one as complete
 * Memory     the caller owns the struct; flash and objects are borrowed until its end
 * Blocking   up to the device: begin and append erase      Context  one thread, one handle a flash
 * Errors     beside those of storage.h: size and begin return UW_ERR_NOTFOUND for an undeclared
 *            object, size also if no slot can be read; append UW_ERR_FULL beyond bytes_max; begin,
 *            append and end UW_ERR_IO for a bad sector: the old object stays. A commit after a
 *            failed append returns the code of that append
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
    const char *name;               /* unique, not empty */
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
    uint32_t reading, read_at, read_bytes;      /* found by size; reading == objects_n: none */
    uint32_t writing, slot_at, write_bytes;     /* writing == objects_n: no open write */
    uint32_t sequence, crc;
    int failed;                                 /* first error of the open write, or UW_OK */
    uint32_t unit_n;                            /* bytes in unit */
    uint8_t unit[32];
};

/* Sectors of all objects; UINT32_MAX when the configuration is not allowed. */
uint32_t uw_storage_flash_sectors(const struct uw_storage_flash_config *config);

/* Is an object's flash blank: all ones (erased), or all zeros (memory that replaces flash)?
 * Distinguishes an object that was never written from a damaged one.
 *
 *   object   index below objects_n */
bool uw_storage_flash_blank(const struct uw_storage_flash *s, uint32_t object);

/* Set up; reads and writes nothing.
 *
 * Returns UW_OK, UW_ERR_INVALID (no objects, an empty or duplicate name, bytes_max 0, a program
 * unit that is not a power of two up to 32, sectors that are not a multiple of a header),
 * UW_ERR_FULL (the flash has fewer sectors than uw_storage_flash_sectors). */
int uw_storage_flash_init(struct uw_storage_flash *s, const struct uw_storage_flash_config *config);

UW_C_END
#endif
