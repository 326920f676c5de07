/* SPDX-License-Identifier: Apache-2.0 */
#include "slot_table.h"

void *uw_slots_find(void *slots, uint32_t slots_n, size_t slot_bytes,
                    uint64_t (*rank)(const void *slot, const void *key), const void *key)
{
    uint8_t *slot = slots;
    void *best = NULL;
    uint64_t lowest = UW_SLOT_KEPT;
    for (uint32_t i = 0; i < slots_n && lowest != UW_SLOT_OWN; i++, slot += slot_bytes) {
        uint64_t its = rank(slot, key);
        if (its < lowest) {
            best = slot;
            lowest = its;
        }
    }
    return best;
}
