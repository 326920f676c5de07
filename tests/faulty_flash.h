/* SPDX-License-Identifier: Apache-2.0
 *
 * faulty_flash.h - struct uw_flash in memory that tears, forgets and wears out as told
 *
 * Programming a unit twice without an erasure is counted as misuse. With a cut set, power fails
 * during one operation (a unit programmed, a sector erased): it is torn, and everything fails until
 * faulty_flash_power. A torn unit reads otherwise each time: as before, as wanted, or as a mixture.
 *
 * Memory     uses the block that it is given; no heap      Context  one thread */
#ifndef UWASA_TEST_FAULTY_FLASH_H
#define UWASA_TEST_FAULTY_FLASH_H

#include "uwasa/flash.h"
#include "uwasa/rng.h"

#include <stdbool.h>
#include <stddef.h>

#define FAULTY_FLASH_NEVER UINT64_MAX

struct faulty_flash {
    struct uw_flash base;
    uint8_t *now, *then;        /* a byte reads so; of torn units: or so */
    uint8_t *unit;              /* of each: 0 erased, 1 programmed, 2 torn */
    struct uw_rng rng;
    uint64_t operations_n;      /* done so far */
    uint64_t cut_at;            /* this one is torn */
    uint64_t fail_at;           /* this one is done, and said to have failed */
    bool off, failed;           /* failed: the last one */
    bool steady_sectors;        /* a torn sector keeps the reading that it has at first */
    uint32_t bad_sector;        /* UINT32_MAX: none */
    bool bad_erase, bad_program, bad_silently;  /* what fails there; silently: a bit stays 1 */
    uint32_t misused_n;
};

/* Bytes of memory for so many sectors. */
size_t faulty_flash_bytes(uint32_t sector_bytes, uint32_t sectors_n, uint32_t program_bytes);

/* All erased, with power, no cut, nothing bad. memory: faulty_flash_bytes. */
void faulty_flash_init(struct faulty_flash *f, void *memory, uint32_t sector_bytes,
                       uint32_t sectors_n, uint32_t program_bytes, uint64_t seed);

/* Power is back; the next cut is during the operation `after` operations from now. */
void faulty_flash_power(struct faulty_flash *f, uint64_t after);

#endif
