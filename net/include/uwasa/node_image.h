/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_image.h - parameters in the memory of a device, such as a GPU
 *
 * Training works in the device's memory; params->x is an image of the parameters in the processor's
 * memory. A node mixes in the image: within one uw_node_after_step it fetches what it reads and
 * sends what it has changed. The device trains between two calls, and never while the image is
 * ahead of it: no progress is overwritten, and no segment is a mixture of two versions. A call that
 * neither reads nor changes parameters copies nothing.
 *
 *     uw_node_after_step       received chunks: fetch(their range), mix, send(their range)
 *                              publish: fetch(all)
 *                              an average begins: fetch(all); from then on the image is ahead
 *     ...                      UW_NODE_AVERAGING: the network changes the image, training rests
 *     uw_node_after_step       the average has ended: send(all)
 *
 * Only the node changes the velocity of a mixing rule: it is sent and never fetched.
 *
 * For averages between devices see uwasa/node_direct.h.
 *
 * Units      _n floats
 * Memory     borrowed by the node      Blocking   until copied
 * Context    training, within uw_node_after_step
 */
#ifndef UWASA_NODE_IMAGE_H
#define UWASA_NODE_IMAGE_H

#include <stdint.h>

struct uw_node_image {
    /* Copy floats offset_n .. offset_n + count_n - 1 from the device to params->x.
     * Returns UW_OK, or an error that uw_node_after_step returns from then on: the node neither
     * mixes nor publishes any more. */
    int (*fetch)(void *arg, uint32_t offset_n, uint32_t count_n);
    /* Copy those floats from params->x to the device. Returns as fetch. */
    int (*send)(void *arg, uint32_t offset_n, uint32_t count_n);
    /* Copy the whole velocity to the device. Returns as fetch. */
    int (*send_velocity)(void *arg);
    void *arg;
};

#endif
