/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/arena.h - one region of memory, handed out during set-up and then sealed
 *
 * Measure, bind, seal: run the set-up once on an arena without memory to learn the bytes
 * needed, give it that much, run the same set-up again, seal. After the seal nothing allocates.
 *
 *     struct uw_arena a;
 *     uw_arena_init(&a, NULL, 0);                 measure: pointers are NULL, sizes are counted
 *     uw_arena_init(&a, memory, memory_bytes);    bind
 *     uw_arena_seal(&a);
 *
 * Units      bytes
 * Memory     the region is the caller's and must outlive everything taken from it
 * Blocking   never          Context  one thread at a time
 */
#ifndef UWASA_ARENA_H
#define UWASA_ARENA_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* Where uw_arena_take's blocks start: a cache line, and enough for any vector register. */
#define UW_ARENA_ALIGN 64u

struct uw_arena {
    uint8_t *base;          /* NULL while measuring */
    size_t capacity_bytes;
    size_t used_bytes;      /* includes alignment padding */
    size_t left_bytes;      /* of it, at its end, for small blocks */
    bool sealed;
    bool foreign;           /* see uw_arena_init_foreign */
};

/* Start over on `memory`; memory == NULL starts measuring. `memory` need not be aligned: a bound
 * arena skips to the first UW_ARENA_ALIGN boundary, so give it uw_arena_slack_bytes() more than
 * measured when its alignment is not known. */
void uw_arena_init(struct uw_arena *a, void *memory, size_t memory_bytes);

/* The same for memory that the processor must not touch: blocks are not filled with zeros. */
void uw_arena_init_foreign(struct uw_arena *a, void *memory, size_t memory_bytes);

/* Bytes that alignment of an arbitrary base address may cost. */
size_t uw_arena_slack_bytes(void);

/* Take a zero-filled block.
 *
 *   out  set to the block, aligned to UW_ARENA_ALIGN; NULL while measuring. bytes == 0 gives a
 *        valid, empty block.
 *
 * Returns UW_OK, UW_ERR_NOMEM (does not fit; *out is NULL, the arena unchanged), UW_ERR_SEALED. */
int uw_arena_take(struct uw_arena *a, size_t bytes, void **out);

/* Take several small blocks at once, of bytes[i] each, side by side, right after what was taken
 * before: aligned for any type of C, not to UW_ARENA_ALIGN. used_bytes is a multiple of that all
 * the same: what several set-ups measure adds up.
 *   bytes  [n] 0: no block
 *   out    [n] set to the blocks; NULL: none, and all while measuring or when it failed
 * Returns as uw_arena_take of them all. */
int uw_arena_take_each(struct uw_arena *a, uint32_t n, const size_t *bytes, void **out);

/* End set-up: every later uw_arena_take() returns UW_ERR_SEALED. Idempotent. */
void uw_arena_seal(struct uw_arena *a);

/* Bytes that a block of that size takes: rounded up to UW_ARENA_ALIGN, SIZE_MAX if that
 * overflows. */
size_t uw_arena_padded(size_t bytes);

/* a * b, or SIZE_MAX when that overflows: sizes computed from outside input saturate, and the
 * arena then refuses them. */
size_t uw_size_mul(size_t a, size_t b);

UW_C_END
#endif
