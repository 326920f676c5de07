/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/arena.h - one region of memory: allocate during set-up, then seal
 *
 * Measure, bind, seal: run the set-up on an arena without memory to measure the bytes needed, run
 * it again on that much memory, then seal. After the seal nothing allocates.
 *
 *     struct uw_arena a;
 *     uw_arena_init(&a, NULL, 0);                 measure: pointers are NULL, sizes are counted
 *     uw_arena_init(&a, memory, memory_bytes);    bind
 *     uw_arena_seal(&a);
 *
 * Units      bytes
 * Memory     the region is the caller's and must outlive all blocks
 * Blocking   never          Context  one thread at a time
 */
#ifndef UWASA_ARENA_H
#define UWASA_ARENA_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* Alignment of uw_arena_take's blocks: a cache line, enough for any vector register. */
#define UW_ARENA_ALIGN 64u

struct uw_arena {
    uint8_t *base;          /* NULL while measuring */
    size_t capacity_bytes;
    size_t used_bytes;      /* includes alignment padding */
    size_t left_bytes;      /* of these, free at the end for small blocks */
    bool sealed;
    bool foreign;           /* see uw_arena_init_foreign */
};

/* Set up an empty arena on `memory`; memory == NULL starts measuring. The arena skips to the first
 * UW_ARENA_ALIGN boundary: memory of unknown alignment needs uw_arena_slack_bytes() more. */
void uw_arena_init(struct uw_arena *a, void *memory, size_t memory_bytes);

/* The same for memory that the processor must not access: blocks are not filled with zeros. */
void uw_arena_init_foreign(struct uw_arena *a, void *memory, size_t memory_bytes);

/* Most bytes that aligning a base address can skip. */
size_t uw_arena_slack_bytes(void);

/* Allocate a zero-filled block.
 *
 *   out  set to the block, aligned to UW_ARENA_ALIGN; NULL while measuring. bytes == 0 gives a
 *        valid, empty block.
 *
 * Returns UW_OK, UW_ERR_NOMEM (does not fit; *out is NULL, the arena unchanged), UW_ERR_SEALED. */
int uw_arena_take(struct uw_arena *a, size_t bytes, void **out);

/* Allocate n small blocks of bytes[i] each, adjacent to the previous allocation and aligned for any
 * C type, not to UW_ARENA_ALIGN. used_bytes stays a multiple of UW_ARENA_ALIGN, so that measured
 * sizes can be added.
 *   bytes  [n] 0: no block
 *   out    [n] set to the blocks; NULL: no block, measuring, or failure
 * Returns as uw_arena_take, for all together. */
int uw_arena_take_each(struct uw_arena *a, uint32_t n, const size_t *bytes, void **out);

/* End set-up: every later uw_arena_take() returns UW_ERR_SEALED. Idempotent. */
void uw_arena_seal(struct uw_arena *a);

/* Size of a block rounded up to UW_ARENA_ALIGN; SIZE_MAX on overflow. */
size_t uw_arena_padded(size_t bytes);

/* a * b, or SIZE_MAX on overflow, which the arena rejects. */
size_t uw_size_mul(size_t a, size_t b);

UW_C_END
#endif
