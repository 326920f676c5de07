/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/collective.h - all-reduce over one link among a fixed group of ranks
 *
 * For programs with a group of their own, such as a cluster job or a benchmark. Nodes that join and
 * leave average through uwasa/node.h, which agrees on the group first.
 *
 *     uw_collective_init(&c, &config);
 *     uw_collective_begin(&c, UW_ALLREDUCE_HALVING, false, x, n, now_us);
 *     while (!uw_collective_done(&c)) {
 *         uint64_t next_us = uw_collective_step(&c, now_us);      wait on link->fd until then
 *     }
 *
 * Over a reliable link that defers (TCP), messages stream and the next round may begin at once.
 * Over other links lost messages are requested again; after a round, keep calling step until
 * uw_collective_settled. Every rank begins the same rounds in the same order. There are no
 * deadlines: if a rank or a connection dies, the round never ends, and the caller has to give up.
 *
 * Units      bytes unless a name ends in _n (floats) or _us (microseconds, monotonic)
 * Memory     caller supplies uw_collective_bytes(), borrowed like link and stations; the vector is
 *            borrowed until its round is settled
 * Blocking   never          Context  the link's thread
 */
#ifndef UWASA_COLLECTIVE_H
#define UWASA_COLLECTIVE_H

#include "uwasa/allreduce_steps.h"
#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

UW_C_BEGIN

struct uw_collective_config {
    struct uw_link *link;           /* received from by this collective only */
    const uint16_t *stations;       /* [ranks] held by the caller; the own entry is unused */
    uint32_t ranks, rank;
    uint32_t run;                   /* the same on all ranks; messages of other runs are dropped */
    uint32_t size_n;                /* largest vector */
    uint32_t chunk_n;               /* floats of a message, 8 or more; 0: 248 KiB, or the link's
                                       limit */
    uint32_t segment_n;             /* over TCP, floats processed at a time, the same on all ranks;
                                       0: 62 KiB a rank, at least 248 KiB */
    uint64_t rtt_us;                /* approximate round-trip time; 0: unknown */
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

/* Begin a round: x becomes the sum over all ranks, or the average (a sweep always averages).
 *   x  [n]  this rank's vector, changed in place, aligned to 4
 * Returns UW_OK, UW_ERR_INVALID (n above size_n), UW_ERR_AGAIN (the last round is not settled). */
int uw_collective_begin(struct uw_collective *c, enum uw_allreduce_kind kind, bool average,
                        float *x, uint32_t n, uint64_t now_us);

/* Receive, and send what is due. Returns the time of the next call; call earlier when link->fd is
 * readable. */
uint64_t uw_collective_step(struct uw_collective *c, uint64_t now_us);

/* Does x hold the result? */
bool uw_collective_done(const struct uw_collective *c);

/* May the next round begin, and may x change? */
bool uw_collective_settled(const struct uw_collective *c);

UW_C_END
#endif
