/* SPDX-License-Identifier: Apache-2.0
 *
 * A node whose peers are a list (membership/member_list.c). It neither pings nor answers pings. */
#include "node_state.h"

static int check(struct uw_node_state *s, struct uw_error *err)
{
    const struct uw_node_config *c = &s->config;
    if (c->mode == UW_NODE_GOSSIP && !uw_node_needs_averages(c) && c->samples == NULL &&
        c->sleep.period_us == 0 && c->schedule == &uw_peer_schedule_random && c->seeds_n != 0 &&
        c->seeds_n < c->members_max) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_INVALID,
                        "static membership needs 1 to %u seeds, gossip by schedule random, and no "
                        "averages, samples or sleep",
                        (unsigned)c->members_max - 1u);
}

static void step(struct uw_node_state *s)
{
    (void)uw_members_listed.next(&s->membership, s->outer_us, NULL, NULL);
}

static void message(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes)
{
    (void)s;
    (void)station;
    (void)type;
    (void)bytes;
}

const struct uw_node_members uw_node_listed = {&uw_members_listed, check, step, message, NULL};
