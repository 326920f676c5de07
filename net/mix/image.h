/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h - is the image of the parameters up to date, and what of it is to be sent
 *
 *     uw_image_fetch(&i, at_n, n);        before x[at_n .. at_n + n) is looked at or changed
 *     uw_image_changed(&i, at_n, n);      after it was
 *     uw_image_hold(&i);                  the network has x: nothing is fetched or sent until
 *     uw_image_release(&i, changed);      training has it back
 *     rc = uw_image_end(&i, rc);          the end of uw_node_after_step: changes are sent
 *
 * Without hooks, where training works in x itself, all of it does nothing.
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
    const struct uw_node_image *hooks;      /* NULL: x is no image */
    uint32_t size_n;
    uint32_t from_n, to_n;          /* changed and not sent yet; to_n 0: nothing */
    bool velocity;                  /* the same of the velocity */
    bool current;                   /* all of it is, for as long as this call lasts */
    bool held;                      /* by the network */
    int failed;                     /* UW_OK, or a hook's first error: nothing is copied then */
};

/* Bring a range up to date. Returns UW_OK, or i->failed: it may not be looked at. */
int uw_image_fetch(struct uw_image *i, uint32_t at_n, uint32_t n);

/* The same, of everything. */
int uw_image_fetch_all(struct uw_image *i);

/* A part of what was fetched last, or of what is held, has changed. */
void uw_image_changed(struct uw_image *i, uint32_t at_n, uint32_t n);

/* The whole velocity has changed, if there is one. */
void uw_image_velocity(struct uw_image *i);

/* From here on the image is ahead of the device. All of it was fetched. */
void uw_image_hold(struct uw_image *i);

/* Nothing is to be sent: the device has what was fetched. False without one. */
bool uw_image_is_alike(const struct uw_image *i);

/* Training has x back; changed: the network did change it. */
void uw_image_release(struct uw_image *i, bool changed);

/* Send what has changed, unless the image is held. Returns i->failed, or rc if nothing has. */
int uw_image_end(struct uw_image *i, int rc);

#endif
