/* SPDX-License-Identifier: Apache-2.0
 *
 * medium.h - the network of a simulated fleet: one link per device, over one pool of messages
 *
 * Messages go from hop to hop as described in sim_fleet.h. A heap orders them by the time of their
 * next event, then by insertion.
 *
 *     uw_sim_net_open(&net, &config);
 *     uw_link_send(&net.links[3].link, 7, buf, bytes);
 *     while (uw_sim_net_next_us(&net) <= until_us) {
 *         l = uw_sim_net_step(&net);               NULL, or who has a message to receive
 *     }
 *     uw_sim_net_close(&net);
 *
 * Units      bytes; _us microseconds of virtual time
 * Memory     from the heap. Messages share buffers, allocated in blocks when none is free. Without
 *            memory the sender sees a full queue
 * Blocking   never      Context  one thread
 */
#ifndef UWASA_SIM_LINK_H
#define UWASA_SIM_LINK_H

#include "uwasa/link.h"
#include "uwasa/rng.h"
#include "uwasa/sim_fleet.h"

#define UW_SIM_MESSAGE_SIZES 2u     /* buffers: small ones, and those of the largest message */

struct uw_radio_profile;
struct uw_sim_message;

/* A queue with a rate. */
struct uw_sim_hop {
    uint64_t bits_per_s;            /* 0: unlimited */
    uint64_t free_at_us;
    uint64_t rest, rest_of;         /* fraction of a microsecond left over: rest / rest_of */
    uint64_t waiting_bytes;         /* on a shared channel: of this sender, or of the thin link */
};

struct uw_sim_link {
    struct uw_link link;
    struct uw_sim_net *net;
    uint32_t place;
    bool away;                      /* device absent: arriving messages are lost */
    struct uw_sim_hop up, down;
    struct uw_rng rng;
    struct uw_sim_message *out_first;   /* radio: queue of messages to send */
    uint32_t out_n;
    uint64_t quiet_until_us;        /* its duty cycle */
    bool in_line;                   /* waits for the radio channel */
    struct uw_sim_message *first, *last;    /* queue of arrived messages */
};

struct uw_sim_net_cell {
    struct uw_sim_hop channel, out, in;
};

/* The next event of a message. */
struct uw_sim_net_event {
    uint64_t at_us, order;
    struct uw_sim_message *message;
};

struct uw_sim_pool {
    struct uw_sim_message *free;
    uint32_t cap_bytes;             /* of a message */
};

struct uw_sim_net_config {
    const struct uw_sim_fleet *fleet;
    uint32_t mtu_bytes;
    uint64_t seed;
    const struct uw_radio_profile *radio;   /* one channel for all replaces the fleet's hops;
                                       NULL: none. A frame is a whole message of a node */
};

/* The channel of a radio. */
struct uw_sim_air {
    bool busy;
    uint32_t turn;                  /* the last sender */
    uint64_t busy_us, frames_n;
};

struct uw_sim_net {
    struct uw_sim_net_config config;
    struct uw_sim_link *links;      /* [devices_n] */
    struct uw_sim_net_cell *cells;  /* [cells_n] */
    uint64_t now_us;                /* never goes back */
    uint64_t lost_n, overflow_n;    /* messages lost by chance, and in full queues */
    struct uw_sim_air air;

    struct uw_sim_net_event *heap;  /* [messages_n] or more */
    uint32_t heap_n;
    uint64_t order;
    struct uw_sim_pool pools[UW_SIM_MESSAGE_SIZES];
    void *blocks;                   /* a list */
    uint32_t messages_n;            /* of all blocks */
};

/* Set up the links of a fleet. Returns UW_OK or UW_ERR_NOMEM; close in every case. */
int uw_sim_net_open(struct uw_sim_net *n, const struct uw_sim_net_config *config);

/* Time of the next event, for uw_sim_net_step; UINT64_MAX: none. */
static inline uint64_t uw_sim_net_next_us(const struct uw_sim_net *n)
{
    return n->heap_n != 0 ? n->heap[0].at_us : UINT64_MAX;
}

/* Process the next event and set now_us to its time: a message goes to its next hop, is lost, or
 * arrives. Returns the link at which it arrived, or NULL. */
struct uw_sim_link *uw_sim_net_step(struct uw_sim_net *n);

/* Bytes of a node's message over a radio. */
uint32_t uw_sim_radio_mtu(const struct uw_radio_profile *p);

/* Fill in the properties of a link over a radio. */
void uw_sim_radio_link(struct uw_link *l, const struct uw_radio_profile *p, uint16_t own);

/* A device becomes absent, or returns. When it leaves, messages that it has not received yet are
 * lost. */
void uw_sim_link_away(struct uw_sim_link *l, bool away);

/* Safe on a zeroed struct and twice. */
void uw_sim_net_close(struct uw_sim_net *n);

#endif
