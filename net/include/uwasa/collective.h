/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/collective.h - all-reduce among ranks that are known and stay, over one link
 *
 * For programs that bring their own group: a cluster job, a benchmark. Nodes that come and go
 * average through uwasa/node.h, which agrees on the group first.
 *
 *     uw_collective_init(&c, &config);
 *     uw_collective_begin(&c, UW_ALLREDUCE_HALVING, false, x, n, now_us);
 *     while (!uw_collective_done(&c)) {
 *         uint64_t next_us = uw_collective_step(&c, now_us);      wait on link->fd until then
 *     }
 *
 * Over a link that is reliable and defers (TCP) messages stream and the next round may begin at
 * once; over others what is lost is asked for again, and between two rounds step goes on until
 * uw_collective_settled. Every rank begins the same rounds in the same order. There are no
 * deadlines: when a rank or a connection dies, the round never ends; the caller gives up by its
 * own clock.
 *
 * Units      bytes unless a name ends in _n (floats) or _us (microseconds, monotonic)
 * Memory     caller supplies uw_collective_bytes(), borrowed as link and stations are; the vector
 *            is borrowed until its round is settled
 * Blocking   never          Context  the link's thread
 */
#ifndef UWASA_COLLECTIVE_H
#define UWASA_COLLECTIVE_H

#include "uwasa/allreduce_steps.h"
#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

UW_C_BEGIN

struct uw_collective_config {
    struct uw_link *link;           /* nobody else receives from it */
    const uint16_t *stations;       /* [ranks] held by the caller; the own one is not looked at */
    uint32_t ranks, rank;
    uint32_t run;                   /* the same for all; messages of others are dropped */
    uint32_t size_n;                /* largest vector */
    uint32_t chunk_n;               /* floats of a message, 8 or more; 0: 248 KiB, or what fits the
                                       link */
    uint32_t segment_n;             /* over TCP, floats worked at a time, the same for all;
                                       0: 62 KiB a rank, at least 248 KiB */
    uint64_t rtt_us;                /* about; 0: not known */
    void *memory;                   /* aligned as from malloc or an arena */
    size_t memory_bytes;
};

struct uw_collective_core;

struct uw_collective {
    struct uw_collective_config config;
    struct uw_collective_core *core;
};

/* Bytes of memory for a configuration; SIZE_MAX when it is not allowed (more than 32768 ranks,
 * rank, chunk_n, or a link whose messages are too small). */
size_t uw_collective_bytes(const struct uw_collective_config *config);

/* Set up. Returns UW_OK, UW_ERR_INVALID, UW_ERR_NOMEM. */
int uw_collective_init(struct uw_collective *c, const struct uw_collective_config *config);

/* Begin a round: x becomes the sum over all ranks, or the average (a sweep always averages). The
 * round before is settled.
 *   x  [n]  this rank's vector, changed in place, aligned to 4
 * Returns UW_OK, UW_ERR_INVALID (n above size_n), UW_ERR_AGAIN (the last round is not settled). */
int uw_collective_begin(struct uw_collective *c, enum uw_allreduce_kind kind, bool average,
                        float *x, uint32_t n, uint64_t now_us);

/* Receive and send what is there and due. Returns when to call again: up to now_us at once, else
 * then or when link->fd is readable. */
uint64_t uw_collective_step(struct uw_collective *c, uint64_t now_us);

/* Is the round done: does x hold the result? */
bool uw_collective_done(const struct uw_collective *c);

/* May the next round begin, and x change? */
bool uw_collective_settled(const struct uw_collective *c);

UW_C_END
#endif
