/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/link.h"

#include <string.h>

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

/* The scope in the text of a link-local address, with its '%', up to the ']'; NULL: none. */
static const char *scope_of(const char *address, size_t *scope_bytes)
{
    bool local = strncmp(address, "[fe", 3) == 0 && address[3] != '\0' &&
                 strchr("89ab", address[3]) != NULL;
    const char *scope = local ? strchr(address, '%') : NULL;
    const char *end = scope != NULL ? strchr(scope, ']') : NULL;
    *scope_bytes = end != NULL ? (size_t)(end - scope) : 0;
    return end != NULL ? scope : NULL;
}

void uw_link_localize(struct uw_link *l, uint16_t peer, char address[UW_LINK_ADDRESS_BYTES])
{
    char seen[UW_LINK_ADDRESS_BYTES], text[UW_LINK_ADDRESS_BYTES];
    size_t told_bytes, bytes;
    const char *told = scope_of(address, &told_bytes);
    if (told == NULL || uw_link_describe(l, peer, seen) < 0) {
        return;
    }
    const char *scope = scope_of(seen, &bytes);
    size_t head = (size_t)(told - address), rest = strlen(told + told_bytes);
    if (scope != NULL && head + bytes + rest < sizeof text) {
        memcpy(text, address, head);
        memcpy(text + head, scope, bytes);
        memcpy(text + head + bytes, told + told_bytes, rest + 1u);
        memcpy(address, text, head + bytes + rest + 1u);
    }
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

/* Receive a message. It is copied to buf, or stays in the link where in_place is set, the link has
 * views, and buf is NULL or the message is aligned. */
static int receive(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes, void **view,
                   bool in_place)
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    if (from == NULL || view == NULL) {
        return UW_ERR_INVALID;
    }
    if (l->ops->recv_view == NULL || (!in_place && l->ops->recv != NULL)) {
        *view = buf;
        return buf != NULL || cap_bytes == 0 ? l->ops->recv(l, from, buf, cap_bytes)
                                             : UW_ERR_INVALID;
    }
    rc = l->ops->recv_view(l, from, view);
    if (rc < 0 || (in_place && (buf == NULL || (uintptr_t)*view % 4u == 0))) {
        return rc;
    }
    if ((uint32_t)rc > cap_bytes) {
        l->stats.received_n--;
        l->stats.received_bytes -= (uint64_t)rc;
        l->stats.dropped_n++;
        return UW_ERR_TOOBIG;
    }
    if (rc > 0) {
        memcpy(buf, *view, (size_t)rc);
    }
    *view = buf;
    return rc;
}

int uw_link_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    void *view;
    return buf != NULL || cap_bytes == 0 ? receive(l, from, buf, cap_bytes, &view, false)
                                         : UW_ERR_INVALID;
}

int uw_link_recv_view(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes,
                      void **view)
{
    return receive(l, from, buf, cap_bytes, view, true);
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

int uw_link_send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                       const void *body, uint32_t body_bytes, void *scratch)
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    if ((head == NULL && head_bytes != 0) || (body == NULL && body_bytes != 0)) {
        return UW_ERR_INVALID;
    }
    if (head_bytes > l->mtu_bytes || body_bytes > l->mtu_bytes - head_bytes) {
        return UW_ERR_TOOBIG;
    }
    if (l->ops->send_parts != NULL) {
        return l->ops->send_parts(l, to, head, head_bytes, body, body_bytes);
    }
    if (scratch == NULL) {
        return UW_ERR_UNSUPPORTED;
    }
    if (head_bytes != 0) {
        memcpy(scratch, head, head_bytes);
    }
    if (body_bytes != 0) {
        memcpy((uint8_t *)scratch + head_bytes, body, body_bytes);
    }
    return l->ops->send(l, to, scratch, head_bytes + body_bytes);
}

bool uw_link_views(const struct uw_link *l)
{
    return check(l) == UW_OK && l->ops->recv_view != NULL;
}

bool uw_link_gathers(const struct uw_link *l)
{
    return check(l) == UW_OK && l->ops->send_parts != NULL;
}

bool uw_link_defers(const struct uw_link *l)
{
    return check(l) == UW_OK && l->ops->defer != NULL;
}

int uw_link_defer(struct uw_link *l)
{
    int rc = check(l);
    if (rc < 0) {
        return rc;
    }
    return l->ops->defer != NULL ? l->ops->defer(l) : UW_ERR_UNSUPPORTED;
}

void uw_link_resume(struct uw_link *l)
{
    if (uw_link_defers(l)) {
        l->ops->resume(l);
    }
}
