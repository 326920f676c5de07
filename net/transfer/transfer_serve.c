/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer_serve.h"

#include "base/slot_table.h"

#define SPREAD_MAX_US 1000000u      /* limit of a want's spread */
#define STALE_US 2000000u           /* after the time in which a want should be answered */

int uw_serve_place(struct uw_serve *s, struct uw_arena *arena, uint32_t stations_n,
                   uint32_t wants_n, uint32_t size_n)
{
    const size_t queue_bytes = wants_n * sizeof(struct uw_serve_wait);
    const size_t bytes[3] = {uw_size_mul(stations_n, sizeof *s->slots),
                             uw_set_words(stations_n) * sizeof *s->busy,
                             uw_size_mul(stations_n, queue_bytes)};
    void *part[3];
    int rc = uw_arena_take_each(arena, 3, bytes, part);
    struct uw_serve_wait *queues = part[2];
    *s = (struct uw_serve){
        .slots = part[0], .busy = part[1], .slots_n = stations_n, .size_n = size_n,
        .stale_us = STALE_US};
    for (uint32_t i = 0; queues != NULL && i < stations_n; i++) {
        s->slots[i].queue = queues + (size_t)i * wants_n;
        s->slots[i].wants_n = (uint8_t)wants_n;
    }
    return rc;
}

/* Update a slot's bit after its count has changed. */
static void set_busy(struct uw_serve *s, const struct uw_serve_slot *slot)
{
    uw_set_put(s->busy, (uint32_t)(slot - s->slots), slot->count != 0);
}

static uint64_t rank(const void *slot, const void *station)
{
    const struct uw_serve_slot *it = slot;
    return it->used && it->station == *(const uint16_t *)station ? UW_SLOT_OWN
           : it->count != 0                                      ? UW_SLOT_KEPT
                                                                 : UW_SLOT_FREE + it->received_us;
}

/* The station's slot, else a free one, else the one idle for longest. */
static struct uw_serve_slot *slot_for(struct uw_serve *s, uint16_t station)
{
    struct uw_serve_slot *it = uw_slots_find(s->slots, s->slots_n, sizeof *it, rank, &station);
    if (it != NULL && !(it->used && it->station == station)) {
        *it = (struct uw_serve_slot){.station = station, .used = true, .queue = it->queue,
                                     .wants_n = it->wants_n};
    }
    return it;
}

static void drop_oldest(struct uw_serve_slot *slot)
{
    slot->head = (uint8_t)((slot->head + 1u) % slot->wants_n);
    slot->count--;
}

/* The chunks of a want that are not queued already: on a slow link a peer may ask again although
 * nothing was lost. */
static uint64_t not_waiting(const struct uw_serve_slot *slot, const struct uw_want *want,
                            uint64_t wanted)
{
    for (uint32_t i = 0; i < slot->count; i++) {
        const struct uw_serve_wait *w = &slot->queue[((uint32_t)slot->head + i) % slot->wants_n];
        if (w->transfer != want->transfer || w->chunk_n != want->chunk_n) {
            continue;
        }
        uint32_t up = w->base - want->base, down = want->base - w->base;
        wanted &= up < 64u ? ~(w->wanted << up) : down < 64u ? ~(w->wanted >> down) : ~(uint64_t)0;
    }
    return wanted;
}

int uw_serve_add(struct uw_serve *s, uint16_t station, const struct uw_want *want, uint64_t now_us)
{
    uint32_t chunk_n = uw_want_chunk_n(want);
    uint32_t chunks = chunk_n == 0 ? 0 : uw_chunks_in(s->size_n, chunk_n);
    if (want->base >= chunks || want->chunk_n > UINT16_MAX) {
        return UW_ERR_INVALID;
    }
    uint64_t wanted = want->wanted;
    if (chunks - want->base < 64u) {
        wanted &= ((uint64_t)1 << (chunks - want->base)) - 1u;
    }
    if (wanted == 0) {
        return UW_ERR_INVALID;
    }
    struct uw_serve_slot *slot = slot_for(s, station);
    if (slot == NULL) {
        return UW_ERR_FULL;
    }
    if (slot->count != 0 && slot->queue[slot->head].transfer != want->transfer) {
        slot->count = 0;
    }
    wanted = not_waiting(slot, want, wanted);
    slot->received_us = now_us;
    if (wanted == 0) {
        return UW_OK;
    }
    if (slot->count == slot->wants_n) {
        drop_oldest(slot);
    }
    uint32_t at = ((uint32_t)slot->head + slot->count) % slot->wants_n;
    slot->queue[at] = (struct uw_serve_wait){
        .wanted = wanted, .start_us = now_us, .base = want->base,
        .spread_us = uw_min_u32(want->spread_us, SPREAD_MAX_US),
        .chunk_n = (uint16_t)want->chunk_n, .transfer = want->transfer, .seq = want->seq};
    slot->count++;
    set_busy(s, slot);
    return UW_OK;
}

static uint64_t slot_due_us(const struct uw_serve_slot *slot)
{
    const struct uw_serve_wait *w = &slot->queue[slot->head];
    uint64_t due_us = w->start_us + w->spread_us * w->sent / (w->sent + uw_bits_in(w->wanted));
    return uw_max_u64(due_us, slot->blocked_until_us);
}

static uint64_t wait_ends_us(const struct uw_serve_slot *slot)
{
    return slot->queue[slot->head].start_us + slot->queue[slot->head].spread_us;
}

/* The first slot in [from, end) with a chunk that is due. */
static uint32_t next_due(struct uw_serve *s, uint32_t from, uint32_t end, uint64_t now_us)
{
    const uint32_t n = s->slots_n;
    for (uint32_t at = from; (at = uw_set_next(s->busy, n, at)) < end; at++) {
        struct uw_serve_slot *slot = &s->slots[at];
        while (slot->count != 0 && now_us > wait_ends_us(slot) + s->stale_us) {
            drop_oldest(slot);
        }
        set_busy(s, slot);
        if (slot->count != 0 && now_us >= slot_due_us(slot)) {
            return at;
        }
    }
    return end;
}

bool uw_serve_next(struct uw_serve *s, uint64_t now_us, struct uw_serve_item *item)
{
    uint32_t at = next_due(s, s->turn, s->slots_n, now_us);
    if (at == s->slots_n) {
        at = next_due(s, 0, s->turn, now_us);
        if (at == s->turn) {
            return false;
        }
    }
    const struct uw_serve_slot *slot = &s->slots[at];
    const struct uw_serve_wait *want = &slot->queue[slot->head];
    uint32_t chunk_n = want->chunk_n & ~UW_WANT_CODED;
    uint32_t chunk = want->base + uw_lowest_bit(want->wanted), offset = chunk * chunk_n;
    *item = (struct uw_serve_item){
        .slot = at, .station = slot->station, .transfer = want->transfer, .seq = want->seq,
        .chunk = chunk, .chunk_n = chunk_n, .offset_n = offset,
        .count_n = uw_min_u32(s->size_n - offset, chunk_n),
        .coded = chunk_n != want->chunk_n, .part = want->part};
    return true;
}

void uw_serve_sent(struct uw_serve *s, const struct uw_serve_item *item)
{
    struct uw_serve_slot *slot = &s->slots[item->slot];
    struct uw_serve_wait *w = &slot->queue[slot->head];
    s->turn = (item->slot + 1u) % s->slots_n;
    w->part = item->more;
    if (item->more) {
        return;
    }
    w->wanted &= w->wanted - 1u;
    w->sent++;
    if (w->wanted != 0) {
        return;
    }
    uint64_t ended_us = wait_ends_us(slot);
    drop_oldest(slot);
    set_busy(s, slot);
    if (slot->count != 0 && slot->queue[slot->head].start_us < ended_us) {
        slot->queue[slot->head].start_us = ended_us;
    }
}

void uw_serve_blocked(struct uw_serve *s, const struct uw_serve_item *item, uint64_t until_us)
{
    s->slots[item->slot].blocked_until_us = until_us;
    s->turn = (item->slot + 1u) % s->slots_n;
}

uint64_t uw_serve_next_us(const struct uw_serve *s)
{
    uint64_t next = UINT64_MAX;
    const uint32_t n = s->slots_n;
    for (uint32_t i = 0; (i = uw_set_next(s->busy, n, i)) < n; i++) {
        next = uw_min_u64(next, slot_due_us(&s->slots[i]));
    }
    return next;
}
