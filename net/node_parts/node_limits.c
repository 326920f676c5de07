/* SPDX-License-Identifier: Apache-2.0
 *
 * What follows from the rate of a link of frames, which may change: a radio's data rate adapts, its
 * duty cycle is another one. */
#include "node/node_limits.h"
#include "node/node_pull.h"

#define MESSAGE_BYTES 128u
#define PING_MESSAGES 8u            /* that a thin link carries meanwhile, at least */
#define SILENCE_MESSAGES 64u
#define PULL_MODELS 16u

/* Of these, which are not configured. */
enum { PING = 1, SUSPECT = 2, DEAD = 4, PULL = UW_NODE_PULL_OPEN, PULL_SILENCE = 16 };

static void set_us(struct uw_node_state *s, uint32_t which, uint64_t *us, uint64_t least_us,
                   uint64_t slow_us)
{
    s->limits.open |= *us == 0 ? which : 0;
    if ((s->limits.open & which) != 0) {
        *us = least_us > slow_us ? least_us : slow_us;
    }
}

void uw_node_set_limits(struct uw_node_state *s)
{
    struct uw_node_config *c = &s->config;
    uint64_t rate = c->link->rate_bits_per_s;
    uint64_t message_us = uw_node_rate_us(rate, MESSAGE_BYTES);
    uint64_t model_us = uw_node_rate_us(rate, c->params->size_n * sizeof(float));
    s->limits.rate_bits_per_s = rate;
    set_us(s, PING, &c->ping_us, UW_NODE_PING_US, PING_MESSAGES * message_us);
    set_us(s, SUSPECT, &c->suspect_us, 0, 3u * c->ping_us);
    set_us(s, DEAD, &c->dead_us, UW_NODE_DEAD_US, 3u * c->suspect_us);
    set_us(s, PULL, &c->pull_us, UW_NODE_PULL_US, PULL_MODELS * model_us);
    set_us(s, PULL_SILENCE, &c->pull_silence_us, UW_NODE_PULL_SILENCE_US,
           SILENCE_MESSAGES * message_us);
}

/* Small changes, as of frames that carry a byte less, are within what limits allow for. */
static bool is_another(uint64_t rate, uint64_t before)
{
    return 4u * rate < 3u * before || 3u * rate > 4u * before;
}

void uw_node_follow_rate(struct uw_node_state *s)
{
    const struct uw_node_config *c = &s->config;
    struct uw_membership_config *m = &s->membership.config;
    uint64_t rate = c->link->rate_bits_per_s, before = s->limits.rate_bits_per_s;
    if (!is_another(rate, before)) {
        return;
    }
    uw_node_set_limits(s);
    s->serve.stale_us += uw_node_serve_us(c, rate) - uw_node_serve_us(c, before);
    s->pull.took.took_n = 0;        /* of another link, as it were */
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        s->peers[i].floats_per_us = 0.0f;
    }
    m->ping_us = c->ping_us;
    m->suspect_us = c->suspect_us;
    m->dead_us = c->dead_us;
    m->rate_mbytes_per_s = uw_node_membership_rate(c);
    if (s->membership.heap != NULL) {       /* it calls members */
        uw_membership_follow(&s->membership, s->outer_us);
    }
}
