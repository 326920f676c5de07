/* SPDX-License-Identifier: Apache-2.0
 *
 * storage_memory.h - one object of uwasa/storage.h in memory, whatever its name
 *
 * Memory     heap, freed by close      Blocking  never      Context  one thread
 */
#ifndef UWASA_CLI_STORAGE_MEMORY_H
#define UWASA_CLI_STORAGE_MEMORY_H

#include "uwasa/storage.h"

#include <stdbool.h>

struct uw_storage_memory {
    struct uw_storage base;
    unsigned char *bytes;       /* [cap] of the heap, or [bytes_n] borrowed */
    size_t bytes_n, cap;
};

/* Start empty. */
void uw_storage_memory_init(struct uw_storage_memory *s);

/* Start with bytes to read, which are borrowed until close. */
void uw_storage_memory_borrow(struct uw_storage_memory *s, const void *bytes, size_t bytes_n);

/* Safe on a zeroed struct and twice. */
void uw_storage_memory_close(struct uw_storage_memory *s);

#endif
