/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_direct.h - averages that devices make among themselves: GPUs by NCCL, for one
 *
 * Devices that hold the parameters in memories of their own (uwasa/node_image.h) may reach each
 * other by ways that no link here has. Where those of all members of a cell do, an exact average is
 * made so, in place of an all-reduce over the link. Everything else of a round is as it is without:
 *
 *     READY   tells the protocol's version, the device, and the group that it has joined
 *     START   carries the identity of a group, when all tell one version and no device is told
 *             twice: of the one that all have joined, or of a new one, which the head makes
 *     begin, poll, poll, ...      in place of the messages of an all-reduce
 *     STATE   prepared tells a checksum of the average: the round counts only if all are equal
 *     settle or abort             what is decided
 *
 * Who fails, or is late, aborts the round; the parameters on the device are as they were, and the
 * next rounds of these members go over the link, half a minute at first, then longer; not where a
 * member has only stopped or said goodbye in it. Nodes without this, older ones too, take part in
 * averages over the link, and the whole cell with them: UW_NODE_AVERAGE_WAY says once because of
 * whom, and why.
 *
 * A round that counts makes a group of gradients (uwasa/node_gradients.h) one whose gradients the
 * devices average too, a step's at once, when all of them are ready:
 *
 *     add, poll, poll, ...        every step, between rounds
 *     abort                       the group is given up in the middle of one
 *
 * If the device fails in that the group is given up, and the next one goes over the link; it is
 * made anew when the time has come to try the devices again.
 *
 * Not for pairs, or where uw_node_config.algorithm names one.
 *
 * Memory     borrowed by the node      Blocking   never: what takes time is polled
 * Context    network thread, and only while training waits for the average; version and make_id
 *            at any time; add, its poll and abort beside training
 */
#ifndef UWASA_NODE_DIRECT_H
#define UWASA_NODE_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#define UW_NODE_DIRECT_ID_BYTES 128u

/* A round, as its ranks begin it. */
struct uw_node_direct_round {
    const uint8_t *id;              /* [UW_NODE_DIRECT_ID_BYTES] of the group: what was begun with
                                       last and not aborted is still joined */
    uint32_t rank, ranks;
    bool alike;                     /* the device holds what params->x does; else take it from x */
};

/* A vector in the processor's memory. */
struct uw_node_direct_part {
    float *x;
    uint32_t size_n;
};

struct uw_node_direct {
    const char *name;               /* "nccl": what events say */
    uint64_t device;                /* no other has this number; not 0 */
    /* Of the protocol: devices with another cannot be reached. 0: this one cannot, for now. */
    uint32_t (*version)(void *arg);
    /* Make an identity for a new group. Returns UW_OK or an error: no direct round then. */
    int (*make_id)(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES]);
    /* Begin. r is read by this call alone. Returns UW_OK or an error: the round is aborted. */
    int (*begin)(void *arg, const struct uw_node_direct_round *r);
    /* Returns UW_OK: params->x has the average of what all ranks began with, the same bits
     * everywhere; UW_ERR_AGAIN: not yet; else an error. */
    int (*poll)(void *arg);
    /* The average counts, and nothing else is to be sent to a device that held what x did: make it
     * the device's parameters. Returns UW_OK or an error: x is sent then. Not called else. */
    int (*settle)(void *arg);
    /* It does not: leave the group, whatever state it is in, at once. The device's parameters are
     * those before begin. */
    void (*abort)(void *arg);
    /* Begin the average of vectors with the group that the last round was in, which counts. They
     * are the device's until poll says something else than UW_ERR_AGAIN, or abort. Returns UW_OK or
     * an error: abort follows. (optional: NULL: gradients go over the link) */
    int (*add)(void *arg, const struct uw_node_direct_part *parts, uint32_t parts_n);
    void *arg;
};

#endif
