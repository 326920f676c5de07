/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_direct.h - averages between devices without the link, such as GPUs by NCCL
 *
 * Devices with memory of their own (uwasa/node_image.h) may reach each other faster than the link.
 * If all members of a cell can, they average between devices instead of an all-reduce over the
 * link. The rest of a round is unchanged:
 *
 *     READY   carries the protocol's version, the device, and the group that it has joined
 *     START   carries the id of a group if all versions are equal and all devices differ: the
 *             group that all have joined, or a new one made by the head
 *     begin, poll, poll, ...      instead of the messages of an all-reduce
 *     STATE   prepared carries a checksum of the average: the round commits only if all are equal
 *     settle or abort             as decided
 *
 * A member that fails or is late aborts the round. Its device keeps the old parameters, and the
 * next rounds of these members use the link, for half a minute at first, then longer (back-off);
 * not if the member only stopped or left. If a node lacks this interface (older ones do), the whole
 * cell uses the link; event UW_NODE_AVERAGE_WAY then reports the node and the reason once.
 *
 * After a committed round, a group of gradients (uwasa/node_gradients.h) averages its gradients
 * between the devices too, those of a step at once, when all of them are ready:
 *
 *     add, poll, poll, ...        every step, between rounds
 *     abort                       the group is given up during a step
 *
 * If this fails, the group is given up and the next one uses the link; it moves back to the devices
 * when the back-off ends.
 *
 * Not for pairs, or where uw_node_config.algorithm is set.
 *
 * Memory     borrowed by the node      Blocking   never: long work is polled
 * Context    network thread, and only while training waits for the average; version and make_id
 *            at any time; add, its poll and abort concurrently with training
 */
#ifndef UWASA_NODE_DIRECT_H
#define UWASA_NODE_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#define UW_NODE_DIRECT_ID_BYTES 128u

/* A round that begins. */
struct uw_node_direct_round {
    const uint8_t *id;              /* [UW_NODE_DIRECT_ID_BYTES] of the group. The group of the last
                                       begin is still joined unless it was aborted */
    uint32_t rank, ranks;
    bool alike;                     /* the device holds the values of params->x; false: copy x */
};

/* A vector in the processor's memory. */
struct uw_node_direct_part {
    float *x;
    uint32_t size_n;
};

struct uw_node_direct {
    const char *name;               /* "nccl", for events */
    uint64_t device;                /* unique, not 0 */
    /* Version of the protocol: only devices with equal versions can connect. 0: none, for now. */
    uint32_t (*version)(void *arg);
    /* Make the id of a new group. Returns UW_OK, or an error: the round uses the link. */
    int (*make_id)(void *arg, uint8_t id[UW_NODE_DIRECT_ID_BYTES]);
    /* Begin a round. r is valid during the call. Returns UW_OK, or an error: the round aborts. */
    int (*begin)(void *arg, const struct uw_node_direct_round *r);
    /* Returns UW_OK: params->x holds the average over all ranks, with the same bits everywhere;
     * UW_ERR_AGAIN: not yet; else an error. */
    int (*poll)(void *arg);
    /* The round is committed: make the average the device's parameters. Called only if `alike` was
     * true and x needs no other change. Returns UW_OK, or an error: x is then sent. */
    int (*settle)(void *arg);
    /* The round is aborted: leave the group at once, in any state. The device's parameters are
     * those before begin. */
    void (*abort)(void *arg);
    /* Begin the average of vectors in the group of the last round, which was committed. The device
     * owns the vectors until abort, or until poll returns anything but UW_ERR_AGAIN. Returns UW_OK,
     * or an error: abort follows. (optional: NULL means that gradients use the link) */
    int (*add)(void *arg, const struct uw_node_direct_part *parts, uint32_t parts_n);
    void *arg;
};

#endif
