/* SPDX-License-Identifier: Apache-2.0 */
#include "station_table.h"

#include "base/slot_table.h"

#include <string.h>

struct uw_station {
    struct uw_ip_address address;
    uint64_t used_at;           /* 0: the slot is free */
    bool held;
};

static uint16_t slots_of(uint16_t slots_n)
{
    return slots_n != 0 ? slots_n : UW_STATIONS_DEFAULT;
}

size_t uw_stations_bytes(uint16_t slots_n, uint32_t mtu_bytes)
{
    if (slots_of(slots_n) >= UW_LINK_STATION_BROADCAST) {
        return SIZE_MAX;
    }
    return slots_of(slots_n) * sizeof(struct uw_station) + mtu_bytes + 1u;
}

void uw_stations_init(struct uw_stations *t, void *memory, uint16_t slots_n)
{
    memset(t, 0, sizeof *t);
    t->slots = memory;
    t->slots_n = slots_of(slots_n);
    memset(t->slots, 0, t->slots_n * sizeof *t->slots);
    t->datagram = (uint8_t *)(t->slots + t->slots_n);
}

static struct uw_station *station_at(struct uw_stations *t, uint16_t number)
{
    return number < t->slots_n && t->slots[number].used_at != 0 ? &t->slots[number] : NULL;
}

static uint64_t rank(const void *slot, const void *address)
{
    const struct uw_station *s = slot;
    return s->used_at != 0 && uw_ip_address_equal(&s->address, address) ? UW_SLOT_OWN
           : s->held                                                    ? UW_SLOT_KEPT
                                                                        : UW_SLOT_FREE + s->used_at;
}

int uw_stations_enter(struct uw_stations *t, const struct uw_ip_address *a, uint16_t *number,
                      bool *is_new)
{
    struct uw_station *s = station_at(t, t->last);
    if (s == NULL || !uw_ip_address_equal(&s->address, a)) {
        s = uw_slots_find(t->slots, t->slots_n, sizeof *s, rank, a);
    }
    if (s == NULL) {
        return UW_ERR_FULL;
    }
    *is_new = s->used_at == 0 || !uw_ip_address_equal(&s->address, a);
    if (*is_new) {
        *s = (struct uw_station){.address = *a};
    }
    s->used_at = ++t->uses_n;
    *number = t->last = (uint16_t)(s - t->slots);
    return UW_OK;
}

int uw_stations_resolve(struct uw_stations *t, const struct uw_ip_address *a, uint16_t *number)
{
    bool is_new;
    int rc = uw_stations_enter(t, a, number, &is_new);
    if (rc == UW_OK) {
        t->slots[*number].held = true;
    }
    return rc;
}

const struct uw_ip_address *uw_stations_address(struct uw_stations *t, uint16_t number, bool use)
{
    struct uw_station *s = station_at(t, number);
    if (s == NULL) {
        return NULL;
    }
    if (use) {
        s->used_at = ++t->uses_n;
    }
    return &s->address;
}

bool uw_stations_hold(struct uw_stations *t, uint16_t number, bool hold)
{
    struct uw_station *s = station_at(t, number);
    bool before = s != NULL && s->held;
    if (s != NULL) {
        s->held = hold;
    }
    return before;
}

int uw_stations_describe(struct uw_stations *t, uint16_t number, char text[UW_LINK_ADDRESS_BYTES])
{
    const struct uw_ip_address *a = uw_stations_address(t, number, false);
    return a != NULL ? uw_ip_address_print(a, text) : UW_ERR_NOTFOUND;
}

int uw_stations_receive(struct uw_stations *t, struct uw_link *link,
                        const struct uw_ip_address *sender, size_t bytes, uint16_t *from)
{
    bool is_new;
    if (sender == NULL || uw_stations_enter(t, sender, from, &is_new) < 0) {
        link->stats.dropped_n++;
        return UW_ERR_AGAIN;
    }
    if (bytes > link->mtu_bytes) {
        link->stats.dropped_n++;
        return UW_ERR_TOOBIG;
    }
    link->stats.received_n++;
    link->stats.received_bytes += bytes;
    return (int)bytes;
}
