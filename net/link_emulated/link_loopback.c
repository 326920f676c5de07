/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link_loopback.h"

#include "base/number.h"

#include "uwasa/arena.h"

#include <string.h>

#define ENDPOINTS_MAX 4096u
#define MTU_DEFAULT 1232u
#define QUEUE_DEFAULT 64u

struct uw_loopback_endpoint {
    uint32_t head, count;       /* ring of arrived messages */
    bool open;
};

/* One queued message; its bytes follow. */
struct slot {
    uint32_t bytes;
    uint16_t from;
};

static void lock(struct uw_loopback_hub *hub)
{
    while (atomic_flag_test_and_set_explicit(&hub->busy, memory_order_acquire)) {
    }
}

static void unlock(struct uw_loopback_hub *hub)
{
    atomic_flag_clear_explicit(&hub->busy, memory_order_release);
}

static uint32_t queue_of(const struct uw_loopback_config *c)
{
    return c->queue_n != 0 ? c->queue_n : QUEUE_DEFAULT;
}

static uint32_t mtu_of(const struct uw_loopback_config *c)
{
    return c->mtu_bytes != 0 ? c->mtu_bytes : MTU_DEFAULT;
}

static size_t slot_stride(const struct uw_loopback_config *c)
{
    size_t align = _Alignof(max_align_t);
    return (sizeof(struct slot) + mtu_of(c) + align - 1u) / align * align;
}

static size_t endpoints_bytes(const struct uw_loopback_config *c)
{
    size_t align = _Alignof(max_align_t);
    size_t bytes = c->endpoints_n * sizeof(struct uw_loopback_endpoint);
    return (bytes + align - 1u) / align * align;
}

size_t uw_loopback_hub_bytes(const struct uw_loopback_config *config)
{
    if (config == NULL || config->endpoints_n == 0 || config->endpoints_n > ENDPOINTS_MAX ||
        mtu_of(config) > INT32_MAX) {
        return SIZE_MAX;
    }
    size_t slots = uw_size_mul(uw_size_mul(config->endpoints_n, queue_of(config)),
                               slot_stride(config));
    size_t head = endpoints_bytes(config);
    return slots > SIZE_MAX - head ? SIZE_MAX : head + slots;
}

int uw_loopback_hub_init(struct uw_loopback_hub *hub, const struct uw_loopback_config *config)
{
    size_t need = uw_loopback_hub_bytes(config);
    if (hub == NULL || need == SIZE_MAX) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    hub->endpoints = config->memory;
    hub->slots = (uint8_t *)config->memory + endpoints_bytes(config);
    hub->slot_bytes = slot_stride(config);
    hub->mtu_bytes = mtu_of(config);
    hub->queue_n = queue_of(config);
    hub->endpoints_n = config->endpoints_n;
    memset(hub->endpoints, 0, config->endpoints_n * sizeof *hub->endpoints);
    atomic_flag_clear(&hub->busy);
    return UW_OK;
}

/* `place` counts from the endpoint's oldest message. */
static struct slot *slot_at(struct uw_loopback_hub *hub, uint16_t endpoint, uint32_t place)
{
    uint32_t index = (hub->endpoints[endpoint].head + place) % hub->queue_n;
    size_t nth = (size_t)endpoint * hub->queue_n + index;
    return (struct slot *)(void *)(hub->slots + nth * hub->slot_bytes);
}

static int loopback_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    struct uw_link_loopback *l = (struct uw_link_loopback *)link;
    uint32_t number;
    if (!uw_read_number(address, address + strlen(address), UINT16_MAX, &number)) {
        return UW_ERR_INVALID;
    }
    if (number >= l->hub->endpoints_n) {
        return UW_ERR_NOTFOUND;
    }
    *station = (uint16_t)number;
    return UW_OK;
}

static int loopback_describe(struct uw_link *link, uint16_t station,
                             char text[UW_LINK_ADDRESS_BYTES])
{
    struct uw_link_loopback *l = (struct uw_link_loopback *)link;
    if (station >= l->hub->endpoints_n) {
        return UW_ERR_NOTFOUND;
    }
    uw_write_number(station, text);
    return UW_OK;
}

/* Endpoint numbers never change their meaning: every station is held for ever. */
static bool loopback_hold(struct uw_link *link, uint16_t station, bool hold)
{
    struct uw_link_loopback *l = (struct uw_link_loopback *)link;
    (void)hold;
    return station < l->hub->endpoints_n;
}

/* Under the lock. false: no room. */
static bool deliver(struct uw_loopback_hub *hub, uint16_t from, uint16_t to, const void *buf,
                    uint32_t buf_bytes)
{
    struct uw_loopback_endpoint *e = &hub->endpoints[to];
    if (!e->open) {
        return true;
    }
    if (e->count == hub->queue_n) {
        return false;
    }
    struct slot *slot = slot_at(hub, to, e->count);
    slot->from = from;
    slot->bytes = buf_bytes;
    if (buf_bytes != 0) {
        memcpy(slot + 1, buf, buf_bytes);
    }
    e->count++;
    return true;
}

static int loopback_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_loopback *l = (struct uw_link_loopback *)link;
    struct uw_loopback_hub *hub = l->hub;
    if (to != UW_LINK_STATION_BROADCAST && to >= hub->endpoints_n) {
        return UW_ERR_NOTFOUND;
    }
    int rc = UW_OK;
    lock(hub);
    if (to != UW_LINK_STATION_BROADCAST) {
        rc = deliver(hub, l->self, to, buf, buf_bytes) ? UW_OK : UW_ERR_AGAIN;
    } else {
        for (uint16_t i = 0; i < hub->endpoints_n; i++) {
            if (i != l->self && !deliver(hub, l->self, i, buf, buf_bytes)) {
                link->stats.dropped_n++;
            }
        }
    }
    unlock(hub);
    if (rc == UW_OK) {
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
    }
    return rc;
}

static int loopback_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_loopback *l = (struct uw_link_loopback *)link;
    struct uw_loopback_hub *hub = l->hub;
    struct uw_loopback_endpoint *e = &hub->endpoints[l->self];
    int rc = UW_ERR_AGAIN;
    lock(hub);
    if (e->count != 0) {
        const struct slot *slot = slot_at(hub, l->self, 0);
        rc = slot->bytes <= cap_bytes ? (int)slot->bytes : UW_ERR_TOOBIG;
        if (rc > 0) {
            memcpy(buf, slot + 1, slot->bytes);
        }
        *from = slot->from;
        e->head = (e->head + 1u) % hub->queue_n;
        e->count--;
    }
    unlock(hub);
    if (rc >= 0) {
        link->stats.received_n++;
        link->stats.received_bytes += (uint64_t)rc;
    } else if (rc == UW_ERR_TOOBIG) {
        link->stats.dropped_n++;
    }
    return rc;
}

static uint64_t loopback_step(struct uw_link *link, uint64_t now_us)
{
    (void)link;
    (void)now_us;
    return UINT64_MAX;
}

static void loopback_deinit(struct uw_link *link)
{
    struct uw_link_loopback *l = (struct uw_link_loopback *)link;
    lock(l->hub);
    l->hub->endpoints[l->self] = (struct uw_loopback_endpoint){0};
    unlock(l->hub);
    l->hub = NULL;
    link->ops = NULL;
}

static const struct uw_link_ops loopback_ops = {
    .name = "loopback",
    .resolve = loopback_resolve,
    .describe = loopback_describe,
    .hold = loopback_hold,
    .send = loopback_send,
    .recv = loopback_recv,
    .step = loopback_step,
    .deinit = loopback_deinit,
};

int uw_link_loopback_init(struct uw_link_loopback *l, struct uw_loopback_hub *hub, uint16_t self)
{
    *l = (struct uw_link_loopback){.self = self};
    if (hub == NULL || self >= hub->endpoints_n) {
        return UW_ERR_INVALID;
    }
    lock(hub);
    bool taken = hub->endpoints[self].open;
    if (!taken) {
        hub->endpoints[self] = (struct uw_loopback_endpoint){.open = true};
    }
    unlock(hub);
    if (taken) {
        return UW_ERR_INVALID;
    }
    l->hub = hub;
    l->link.mtu_bytes = hub->mtu_bytes;
    l->link.reliable = true;
    l->link.numbered = true;
    l->link.own = self;
    l->link.fd = -1;
    l->link.ops = &loopback_ops;
    return UW_OK;
}

bool uw_link_loopback_waiting(const struct uw_link_loopback *l)
{
    lock(l->hub);
    bool waiting = l->hub->endpoints[l->self].count != 0;
    unlock(l->hub);
    return waiting;
}
