/* SPDX-License-Identifier: Apache-2.0
 *
 * allreduce_world.h - ranks of an all-reduce on emulated links and virtual time, to measure how
 * long rounds take. The engine, the wire format and the links are those that ship; values are not
 * looked at: all ranks work on one vector of zeros. */
#ifndef UWASA_ALLREDUCE_WORLD_H
#define UWASA_ALLREDUCE_WORLD_H

#include "collective/allreduce.h"

#include "uwasa/link_emulated.h"
#include "uwasa/link_loopback.h"

#define WORLD_RANKS_MAX 16u

/* One kind of network: every station has a link with this rate and delay, or they share a medium
 * with this rate. */
struct world_network {
    const char *name;
    uint64_t rate_bits_per_s, delay_us, jitter_us;
    float loss;
    uint32_t mtu_bytes, overhead_bytes;
    uint32_t queue_n;           /* messages that a station may have on their way */
    bool shared;
    uint64_t access_us;         /* shared: before each message */
    uint32_t slow_rank;         /* not shared: the link of this one is so many times as slow; */
    uint32_t slower;            /* 0: of none */
};

struct world_rank {
    struct allreduce_world *world;
    uint32_t rank;
    struct uw_link_loopback end;
    struct uw_link_emulated link;
    struct uw_allreduce a;
    void *link_memory, *memory;
    uint64_t link_us, engine_us;    /* when they want to run */
    bool refused;                   /* the link was full when the engine ran last, */
    uint64_t retry_us;              /* which wanted to run after that time again */
    uint64_t done_us;
};

struct allreduce_world {
    struct world_network network;
    uint32_t p, chunk_n, size_n, round;
    uint64_t now_us;
    uint64_t messages_n, control_n; /* handed to the links; those without floats */
    struct uw_loopback_hub hub;
    struct uw_emulated_medium medium;
    void *hub_memory;
    float *x, *scratch;
    struct world_rank ranks[WORLD_RANKS_MAX];
    /* Who takes messages of round 0, instead of the engine; may be NULL. */
    void (*take)(struct allreduce_world *w, uint32_t rank, uint32_t from,
                 const struct uw_part *part);
    /* Runs with each rank's engine. Returns when it wants to run again; may be NULL. */
    uint64_t (*run)(struct allreduce_world *w, uint32_t rank);
    void *arg;
};

/* Open p ranks for vectors of up to size_n floats. */
void world_open(struct allreduce_world *w, const struct world_network *network, uint32_t p,
                uint32_t size_n);
void world_close(struct allreduce_world *w);

/* A rank sends; as the engine's send. */
int world_send(void *rank, uint32_t to, const struct uw_part *part);

/* Run until `until` says so, or nothing is left to do. */
void world_run(struct allreduce_world *w, bool (*until)(const struct allreduce_world *w));

/* One round, all ranks beginning at once, and what follows until the next may begin.
 *   rtt_us, floats_per_us  as in struct uw_allreduce_round
 * Returns the seconds until the last rank had the result. */
double world_round(struct allreduce_world *w, enum uw_allreduce_kind kind, uint32_t n,
                   uint64_t rtt_us, float floats_per_us);

#endif
