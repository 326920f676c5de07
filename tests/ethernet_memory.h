/* SPDX-License-Identifier: Apache-2.0
 *
 * Two Ethernet controllers on one cable, in memory: each holds as many frames as a LAN9118 does and
 * loses the next. lwIP is linked twice, since it has one set of static variables: the two ends of a
 * cable are uw_link_lwip_init_a and _b. */
#ifndef UWASA_TEST_ETHERNET_MEMORY_H
#define UWASA_TEST_ETHERNET_MEMORY_H

#include "uwasa/link_lwip.h"

#include <string.h>

#define ETHERNET_FRAMES 9u

int uw_link_lwip_init_a(struct uw_link_lwip *l, const struct uw_link_lwip_config *config,
                        struct uw_error *err);
int uw_link_lwip_init_b(struct uw_link_lwip *l, const struct uw_link_lwip_config *config,
                        struct uw_error *err);
size_t uw_link_lwip_bytes_a(const struct uw_link_lwip_config *config);

struct ethernet_memory {
    struct uw_ethernet base;
    struct ethernet_memory *other;      /* NULL: no cable */
    uint8_t frame[ETHERNET_FRAMES][UW_ETHERNET_FRAME_MAX];
    uint32_t bytes[ETHERNET_FRAMES];
    uint32_t first, n;
    uint32_t sent_n;
    uint64_t lose;                      /* bit i: the (i + 1)th next frame that is sent gets lost */
    uint8_t last;                       /* of its address */
};

static inline int ethernet_memory_start(struct uw_ethernet *base,
                                        uint8_t mac[UW_ETHERNET_MAC_BYTES])
{
    struct ethernet_memory *e = (struct ethernet_memory *)base;
    const uint8_t own[UW_ETHERNET_MAC_BYTES] = {2, 0, 0, 0, 0, e->last};
    memcpy(mac, own, sizeof own);
    e->n = 0;
    return UW_OK;
}

/* What the cable brings to e. */
static inline void ethernet_memory_arrive(struct ethernet_memory *e, const void *frame,
                                          uint32_t bytes)
{
    if (e->n == ETHERNET_FRAMES) {
        e->base.dropped_n++;
        return;
    }
    uint32_t at = (e->first + e->n++) % ETHERNET_FRAMES;
    memcpy(e->frame[at], frame, bytes);
    e->bytes[at] = bytes;
}

static inline int ethernet_memory_send(struct uw_ethernet *base, const void *frame, uint32_t bytes)
{
    struct ethernet_memory *e = (struct ethernet_memory *)base;
    if (bytes > UW_ETHERNET_FRAME_MAX) {
        return UW_ERR_TOOBIG;
    }
    bool lost = (e->lose & 1u) != 0;
    e->lose >>= 1;
    e->sent_n++;
    if (!lost && e->other != NULL) {
        ethernet_memory_arrive(e->other, frame, bytes);
    }
    return UW_OK;
}

static inline int ethernet_memory_recv(struct uw_ethernet *base, void *frame, uint32_t cap_bytes)
{
    struct ethernet_memory *e = (struct ethernet_memory *)base;
    if (e->n == 0) {
        return UW_ERR_AGAIN;
    }
    uint32_t bytes = e->bytes[e->first];
    if (bytes <= cap_bytes) {
        memcpy(frame, e->frame[e->first], bytes);
    }
    e->first = (e->first + 1u) % ETHERNET_FRAMES;
    e->n--;
    return bytes <= cap_bytes ? (int)bytes : UW_ERR_AGAIN;
}

static inline void ethernet_memory_init(struct ethernet_memory *e, struct ethernet_memory *other,
                                        uint8_t last)
{
    static const struct uw_ethernet_ops ops = {.name = "memory", .start = ethernet_memory_start,
                                               .send = ethernet_memory_send,
                                               .recv = ethernet_memory_recv};
    memset(e, 0, sizeof *e);
    e->base.ops = &ops;
    e->base.burst_bytes = 8192;
    e->base.burst_n = ETHERNET_FRAMES;
    e->other = other;
    e->last = last;
}

#endif
