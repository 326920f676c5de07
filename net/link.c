/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link.h"

static int check(const struct uw_link *l)
{
    if (l == NULL) {
        return UW_ERR_INVALID;
    }
    return l->ops != NULL ? UW_OK : UW_ERR_CLOSED;
}

int uw_link_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    return address != NULL && station != NULL ? l->ops->resolve(l, address, station)
                                              : UW_ERR_INVALID;
}

int uw_link_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    return text != NULL ? l->ops->describe(l, station, text) : UW_ERR_INVALID;
}

bool uw_link_hold(struct uw_link *l, uint16_t station, bool hold)
{
    return check(l) == UW_OK && l->ops->hold(l, station, hold);
}

int uw_link_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    if (buf_bytes > l->mtu_bytes) {
        return UW_ERR_TOOBIG;
    }
    return buf != NULL || buf_bytes == 0 ? l->ops->send(l, to, buf, buf_bytes) : UW_ERR_INVALID;
}

int uw_link_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    if (from == NULL || (buf == NULL && cap_bytes != 0)) {
        return UW_ERR_INVALID;
    }
    return l->ops->recv(l, from, buf, cap_bytes);
}

uint64_t uw_link_step(struct uw_link *l, uint64_t now_us)
{
    return check(l) == UW_OK ? l->ops->step(l, now_us) : UINT64_MAX;
}

void uw_link_deinit(struct uw_link *l)
{
    if (check(l) == UW_OK) {
        l->ops->deinit(l);
    }
}

void uw_link_forget(struct uw_link *l, uint16_t station)
{
    if (check(l) == UW_OK && l->ops->forget != NULL) {
        l->ops->forget(l, station);
    }
}
