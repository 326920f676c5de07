/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever lies in a flash: an object is found whole or not at all, within its bounds, and a new
 * one can be written and read. The checksums of the headers are made right after each mutation,
 * or nothing would get past them. */
#include "fuzz.h"

#include "faulty_flash.h"

#include "uwasa/crc.h"
#include "uwasa/storage_flash.h"

#include <stdlib.h>
#include <string.h>

#define SECTOR_BYTES 128u
#define SECTORS 8u
#define BYTES (SECTOR_BYTES * SECTORS)
#define COPY_BYTES 32u              /* of a header, with its checksum behind six words */

static const struct uw_storage_flash_object objects[] = {{"model", 150}, {"settings", 40}};
static const uint32_t slots[] = {0, 256, 512, 640};
static struct faulty_flash flash;
static struct uw_storage_flash storage;

static void open_flash(const uint8_t *content, size_t bytes)
{
    static uint8_t memory[3 * BYTES];
    const struct uw_storage_flash_config c = {.flash = &flash.base, .objects = objects,
                                              .objects_n = 2};
    faulty_flash_init(&flash, memory, SECTOR_BYTES, SECTORS, 8, 1);
    memcpy(flash.now, content, bytes);
    if (uw_storage_flash_init(&storage, &c) != UW_OK) {
        abort();
    }
}

static int put(uint32_t object, uint32_t bytes, uint8_t fill)
{
    struct uw_storage *s = &storage.base;
    uint8_t data[160];
    memset(data, fill, bytes);
    if (s->ops->begin(s, objects[object].name) < 0 || s->ops->append(s, data, bytes) < 0) {
        return -1;
    }
    return s->ops->end(s, 1);
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    open_flash((const uint8_t *)"", 0);
    for (uint32_t i = 0; i < 4; i++) {
        if (put(0, 50u + 30u * i, (uint8_t)i) < 0 || put(1, 10u * i, (uint8_t)(9u + i)) < 0) {
            abort();
        }
        uw_fuzz_add(corpus, flash.now, BYTES);
    }
}

/* -1, or the size; -2: not there. All of it can be read, and nothing beyond. */
static int look(uint32_t object)
{
    struct uw_storage *s = &storage.base;
    uint8_t data[160];
    uint64_t bytes = 0;
    int rc = s->ops->size(s, objects[object].name, &bytes);
    if (rc < 0) {
        return rc == UW_ERR_NOTFOUND ? -2 : -1;
    }
    bool whole = bytes <= objects[object].bytes_max &&
                 s->ops->read(s, objects[object].name, 0, data, (size_t)bytes) == UW_OK &&
                 s->ops->read(s, objects[object].name, bytes, data, 1) == UW_ERR_CORRUPT &&
                 s->ops->read(s, objects[object].name, UINT64_MAX, data, 1) == UW_ERR_CORRUPT;
    return whole ? (int)bytes : -1;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    int found = 0;
    open_flash(input, bytes);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t *copy = flash.now + slots[i / 2u] + COPY_BYTES * (i & 1u);
        uint32_t crc = uw_crc32c_portable(0, copy, 24);
        for (uint32_t k = 0; k < 4; k++) {
            copy[24u + k] = (uint8_t)(crc >> 8u * k);
        }
    }
    for (uint32_t object = 0; object < 2; object++) {
        int size = look(object);
        if (size == -1 || put(object, 40, 0x5a) < 0 || look(object) != 40) {
            return -1;
        }
        found |= (size >= 0) << object;
    }
    return flash.misused_n == 0 ? found : -1;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"flash", add_inputs, try_one, BYTES}, argc, argv);
}
