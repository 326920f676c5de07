/* SPDX-License-Identifier: Apache-2.0 */
#include "image.h"

#include "base/bits.h"

#include "uwasa/status.h"

#include <stddef.h>

static void send_changes(struct uw_image *i)
{
    if (i->to_n != 0 && i->failed >= 0) {
        i->failed = i->hooks->send(i->hooks->arg, i->from_n, i->to_n - i->from_n);
    }
    if (i->velocity && i->failed >= 0) {
        i->failed = i->hooks->send_velocity(i->hooks->arg);
    }
    i->to_n = 0;
    i->velocity = false;
}

int uw_image_fetch(struct uw_image *i, uint32_t at_n, uint32_t n)
{
    if (i->hooks == NULL || i->held || i->current || n == 0) {
        return UW_OK;
    }
    send_changes(i);                /* fetching would overwrite them */
    if (i->failed >= 0) {
        i->failed = i->hooks->fetch(i->hooks->arg, at_n, n);
    }
    i->current = i->failed >= 0 && n == i->size_n;
    return i->failed;
}

int uw_image_fetch_all(struct uw_image *i)
{
    return uw_image_fetch(i, 0, i->size_n);
}

void uw_image_changed(struct uw_image *i, uint32_t at_n, uint32_t n)
{
    if (i->hooks != NULL && n != 0) {
        i->from_n = i->to_n != 0 ? uw_min_u32(i->from_n, at_n) : at_n;
        i->to_n = at_n + n > i->to_n ? at_n + n : i->to_n;
    }
}

void uw_image_velocity(struct uw_image *i)
{
    i->velocity = i->hooks != NULL;
}

void uw_image_hold(struct uw_image *i)
{
    i->held = true;
}

bool uw_image_is_alike(const struct uw_image *i)
{
    return i->hooks != NULL && i->to_n == 0;
}

void uw_image_release(struct uw_image *i, bool changed)
{
    i->held = false;
    i->current = true;
    uw_image_changed(i, 0, changed ? i->size_n : 0);
}

int uw_image_end(struct uw_image *i, int rc)
{
    i->current = false;
    if (i->hooks != NULL && !i->held) {
        send_changes(i);
    }
    return i->failed < 0 ? i->failed : rc;
}
