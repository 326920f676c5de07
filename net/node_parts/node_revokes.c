/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of revoked devices: pings tell which ones a node has; who has a newer one sends it. A list
 * that is new goes to all members at once. */
#include "node/node_pull.h"
#include "secure/secure_tls.h"

#include <string.h>

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    return c->link->frames ? UW_NODE_FAULT(fault, keys, "are not for a link of frames") : UW_OK;
}

static void fill(const struct uw_node_state *s, uwasa_Ping *ping)
{
    const struct uw_secure_keys *k = s->config.keys;
    for (uint32_t i = 0; i < k->roots_n; i++) {
        ping->revoked[ping->revoked_count++] = (uint64_t)k->lists[i].root << 32 |
                                               k->lists[i].number;
    }
}

/* A list that does not fit the link is not sent. */
static void send_list(struct uw_node_state *s, uint16_t station, const struct uw_revoked_list *l)
{
    uint32_t bytes = UW_WIRE_HEAD_BYTES + l->bytes;
    if (bytes <= uw_node_mtu(s)) {
        memcpy(s->buffer + UW_WIRE_HEAD_BYTES, l->list, l->bytes);
        uw_wire_seal(s->buffer, UW_WIRE_REVOKED, bytes);
        (void)uw_node_send_buffer(s, station, bytes);
    }
}

static void heard(struct uw_node_state *s, uint16_t station, const uwasa_Ping *ping)
{
    const struct uw_secure_keys *k = s->config.keys;
    for (uint32_t i = 0; i < k->roots_n; i++) {
        for (pb_size_t n = 0; n < ping->revoked_count; n++) {
            if ((uint32_t)(ping->revoked[n] >> 32) == k->lists[i].root &&
                (uint32_t)ping->revoked[n] < k->lists[i].number) {
                send_list(s, station, &k->lists[i]);
            }
        }
    }
}

static void message(struct uw_node_state *s, uint32_t bytes)
{
    struct uw_secure_keys *k = s->config.keys;
    int rc = k->ops->revoke(k, s->in + UW_WIRE_HEAD_BYTES, bytes - UW_WIRE_HEAD_BYTES);
    if (rc == UW_ERR_CORRUPT || rc == UW_ERR_DENIED) {
        s->counters.refused_corrupt++;
    }
}

static void step(struct uw_node_state *s)
{
    const struct uw_secure_keys *k = s->config.keys;
    if (s->keys_told == k->changes_n) {
        return;
    }
    s->keys_told = k->changes_n;
    for (uint32_t i = 0; i < k->roots_n; i++) {
        for (uint32_t m = 1; k->lists[i].number != 0 && m < s->membership.members_n; m++) {
            if (uw_member_is_live(&s->membership.members[m])) {
                send_list(s, s->membership.members[m].station, &k->lists[i]);
            }
        }
    }
}

const struct uw_node_revokes uw_node_revokes = {.setup = {.check = check}, .fill = fill,
                                               .heard = heard, .message = message, .step = step};
