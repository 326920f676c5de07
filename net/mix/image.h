/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h - synchronise the image of the parameters with a device
 *
 *     uw_image_fetch(&i, at_n, n);        before x[at_n .. at_n + n) is read or changed
 *     uw_image_changed(&i, at_n, n);      after it was changed
 *     uw_image_hold(&i);                  the network owns x: no copies until
 *     uw_image_release(&i, changed);      training owns it again
 *     rc = uw_image_end(&i, rc);          at the end of uw_node_after_step: send changes
 *
 * Without hooks, when training works in x itself, these functions do nothing.
 *
 * Units      _n floats      Memory     the hooks are borrowed
 * Blocking   as the hooks (uwasa/node_image.h)      Context  training thread
 */
#ifndef UW_NET_IMAGE_H
#define UW_NET_IMAGE_H

#include "uwasa/node_image.h"

#include <stdbool.h>
#include <stdint.h>

struct uw_image {
    const struct uw_node_image *hooks;      /* NULL: no device */
    uint32_t size_n;
    uint32_t from_n, to_n;          /* range to send; to_n 0: none */
    bool velocity;                  /* the velocity has to be sent */
    bool current;                   /* all of x was fetched in this call */
    bool held;                      /* by the network */
    int failed;                     /* UW_OK, or the first error of a hook: no more copies */
};

/* Fetch a range. Returns UW_OK, or i->failed: it must not be read. */
int uw_image_fetch(struct uw_image *i, uint32_t at_n, uint32_t n);

/* Fetch all. */
int uw_image_fetch_all(struct uw_image *i);

/* Mark a part of the range that was fetched last, or that is held, as changed. */
void uw_image_changed(struct uw_image *i, uint32_t at_n, uint32_t n);

/* Mark the velocity, if any, as changed. */
void uw_image_velocity(struct uw_image *i);

/* Hand x over to the network, after uw_image_fetch_all. */
void uw_image_hold(struct uw_image *i);

/* Are image and device equal, with nothing to send? False without a device. */
bool uw_image_is_alike(const struct uw_image *i);

/* Hand x back to training; changed: the network has changed it. */
void uw_image_release(struct uw_image *i, bool changed);

/* Send changes unless the image is held. Returns i->failed, or rc if that is UW_OK. */
int uw_image_end(struct uw_image *i, int rc);

#endif
