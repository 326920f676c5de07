/* SPDX-License-Identifier: Apache-2.0
 *
 * slot_table.h - find the slot of a key in a table, or a free or replaceable one
 *
 *     static uint64_t rank(const void *slot, const void *key)
 *     {
 *         const struct entry *e = slot;
 *         return e->id == *(const uint32_t *)key ? UW_SLOT_OWN : UW_SLOT_FREE + e->used_us;
 *     }
 *     struct entry *e = uw_slots_find(entries, entries_n, sizeof *e, rank, &id);
 *
 * Blocking   never      Context  that of the table
 */
#ifndef UW_NET_SLOT_TABLE_H
#define UW_NET_SLOT_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Ranks; of used slots, the one with the lowest rank is replaced first. */
#define UW_SLOT_OWN UINT64_C(0)     /* the slot of the key */
#define UW_SLOT_FREE UINT64_C(1)
#define UW_SLOT_KEPT UINT64_MAX     /* must not be replaced */

/* The slot with the lowest rank, the first of equals; NULL: all must be kept. */
void *uw_slots_find(void *slots, uint32_t slots_n, size_t slot_bytes,
                    uint64_t (*rank)(const void *slot, const void *key), const void *key);

#endif
