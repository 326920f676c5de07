/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/node_image.h - parameters that live elsewhere: in a GPU's own memory
 *
 * Where training does not work in params->x, that is an image of the parameters in the processor's
 * memory. A node mixes in the image: it has what it looks at fetched before, and sends what it has
 * changed after, both within one uw_node_after_step. So the device trains between two calls and
 * never while the image is ahead of it: nothing that it learned is overwritten, and no segment is
 * half of one value and half of another. A call that neither looks nor changes copies nothing.
 *
 *     uw_node_after_step       chunks have come: fetch(their range), mix, send(their range)
 *                              something is published: fetch(all)
 *                              an average begins: fetch(all); from then on the image is ahead
 *     ...                      UW_NODE_AVERAGING: the network works in the image, nobody trains
 *     uw_node_after_step       it has ended: send(all)
 *
 * The velocity of a mixing rule is changed by the node alone: it is sent and never fetched.
 *
 * Devices that reach each other directly average among themselves: uwasa/node_direct.h.
 *
 * Units      _n floats
 * Memory     borrowed by the node      Blocking   until copied
 * Context    training, within uw_node_after_step
 */
#ifndef UWASA_NODE_IMAGE_H
#define UWASA_NODE_IMAGE_H

#include <stdint.h>

struct uw_node_image {
    /* Bring floats offset_n .. offset_n + count_n - 1 of params->x up to date.
     * Returns UW_OK or an error, which uw_node_after_step returns from then on: nothing more is
     * mixed or published. */
    int (*fetch)(void *arg, uint32_t offset_n, uint32_t count_n);
    /* Those floats have changed in params->x. Returns UW_OK or an error, as fetch. */
    int (*send)(void *arg, uint32_t offset_n, uint32_t count_n);
    /* The whole velocity has changed. Returns UW_OK or an error, as fetch. */
    int (*send_velocity)(void *arg);
    void *arg;
};

#endif
