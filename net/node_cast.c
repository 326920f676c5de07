/* SPDX-License-Identifier: Apache-2.0 */
#include "node_cast.h"
#include "node_periods.h"

#include "bits.h"

#define SENDS_MOST 64u
#define PATIENCE_DEFAULT_US 30000000u

static bool takes_part(const struct uw_node_state *s, const struct uw_member *m)
{
    return m->state == UW_MEMBER_ALIVE && m->same_model && m->progress.version != 0 &&
           !m->progress.newcomer && m->station != UW_LINK_STATION_NONE &&
           s->now_us >= m->avoid_until_us &&
           uw_member_window(m, s->now_us).from_us <= s->now_us;
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    void *part[2];
    const size_t bytes[2] = {sizeof *s->cast, c->members_max * sizeof(uint32_t)};
    struct uw_node_cast spare;
    int rc = uw_arena_take_each(arena, 2, bytes, part);
    struct uw_node_cast *cast = part[0] != NULL ? part[0] : &spare;
    s->cast = part[0];
    if (rc == UW_OK) {
        rc = uw_cast_place(&cast->cast, arena, c->params->size_n, s->chunk_n,
                           c->members_max - 1u);
    }
    cast->round = cast->version = 0;
    cast->blocked_until_us = cast->bytes = 0;
    cast->ids = part[1];
    uint64_t rate = c->link->rate_bits_per_s;
    uint64_t bits = ((uint64_t)s->chunk_n * 4u + UW_WIRE_SHORT_DATA_BYTES) * 8u;
    cast->cast.chunk_us = rate != 0 ? (uint32_t)(bits * 1000000u / rate) + 1u
                                    : cast->cast.chunk_us;
    cast->cast.patience_us = c->gather_us != 0 ? c->gather_us : PATIENCE_DEFAULT_US;
    return rc;
}

/* What others see, and nobody else's turn began meanwhile. */
static uint32_t shown_version(const struct uw_node_state *s)
{
    return (uint32_t)atomic_load_explicit(&s->gossip.version, memory_order_acquire);
}

static bool begin(struct uw_node_state *s, uint32_t round)
{
    struct uw_node_cast *cast = s->cast;
    uint32_t n = 0;
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        if (takes_part(s, m)) {
            cast->ids[n++] = m->id;
        }
    }
    if (n == 0 || !uw_gossip_shows(&s->gossip) || uw_node_chunk_n(s) < cast->cast.chunk_n) {
        return false;
    }
    cast->round = round;
    cast->version = shown_version(s);
    cast->bytes = 0;
    if (s->period != NULL) {
        s->config.parts->periods->began(s);
    }
    uw_cast_begin(&cast->cast, s->membership.members[0].id, cast->ids, n, s->now_us);
    return true;
}

/* Returns false when the link takes no more now. */
static bool send_chunk(struct uw_node_state *s, uint32_t chunk)
{
    struct uw_cast *c = &s->cast->cast;
    uint32_t offset = chunk * c->chunk_n, version;
    bool end = chunk == c->chunks;
    uint32_t count = end ? 0 : uw_min_u32(c->chunk_n, c->size_n - offset);
    const float *x = uw_node_look(s, end ? 0 : offset, count, &version);
    if (x == NULL) {
        return false;
    }
    if (version != s->cast->version) {      /* published since */
        uw_cast_stop_sharing(c);
        return true;
    }
    int bytes = uw_message_write_cast(c->turn, chunk, x, count, s->buffer, s->buffer_bytes);
    int rc = bytes < 0 ? bytes
                       : uw_link_send(s->config.link, UW_LINK_STATION_BROADCAST, s->buffer,
                                      (uint32_t)bytes);
    if (rc == UW_ERR_AGAIN || rc == UW_ERR_IO || rc == UW_ERR_NOMEM) {
        return false;
    }
    if (rc == UW_ERR_TOOBIG) {      /* the link has become narrower */
        uw_cast_quit(c);
        return true;
    }
    uw_cast_sent(c, chunk, s->now_us);
    if (rc == UW_OK) {
        s->counters.sent_bytes += (uint32_t)bytes;
        s->counters.served_bytes += count * 4u;
    }
    return true;
}

static void send_chunks(struct uw_node_state *s)
{
    struct uw_node_cast *cast = s->cast;
    uint32_t chunk;
    for (uint32_t i = 0; i < SENDS_MOST && s->now_us >= cast->blocked_until_us &&
                         uw_cast_next(&cast->cast, s->now_us, &chunk); i++) {
        if (!send_chunk(s, chunk)) {
            cast->blocked_until_us = s->now_us + uw_node_retry_us(s);
        }
    }
}

static struct uw_member *member_of(struct uw_node_state *s, uint32_t id)
{
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        if (s->membership.members[i].id == id) {
            return &s->membership.members[i];
        }
    }
    return NULL;
}

static void send_asks(struct uw_node_state *s)
{
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    uint32_t id = 0, n, most = uw_message_short_wants(uw_node_mtu(s));
    while ((n = uw_cast_ask(&s->cast->cast, s->now_us, most, &id, wants)) != 0) {
        const struct uw_member *m = member_of(s, id);
        if (m == NULL || m->state == UW_MEMBER_DEAD || m->state == UW_MEMBER_LEFT) {
            uw_cast_give_up(&s->cast->cast, id);
            continue;
        }
        const struct uw_short_wants head = {.model = (uint32_t)s->model};
        int bytes = uw_message_write_short_wants(UW_WIRE_CAST_WANT, &head, wants, n, s->buffer);
        if (uw_node_send_buffer(s, m->station, (uint32_t)bytes) == UW_ERR_AGAIN) {
            uw_cast_unask(&s->cast->cast, id, s->now_us);
        }
    }
}

static void finish(struct uw_node_state *s)
{
    struct uw_node_cast *cast = s->cast;
    bool exact = uw_cast_is_exact(&cast->cast);
    if (s->period != NULL) {
        s->config.parts->periods->cast_ended(s);
    }
    s->counters.averages_done += exact;
    s->counters.averages_cut += !exact;
    s->counters.averaged_bytes += cast->bytes;
    uw_gossip_ended(&s->gossip, cast->round,
                    exact ? UW_GOSSIP_COMPLETE : UW_GOSSIP_CUT);
    cast->round = 0;
}

static uint64_t step(struct uw_node_state *s)
{
    struct uw_node_cast *cast = s->cast;
    struct uw_member *outlier = member_of(s, uw_gossip_outlier_id(&s->gossip));
    if (outlier != NULL) {
        uw_cast_give_up(&cast->cast, outlier->id);
        uw_node_punish(s, outlier);
    }
    send_chunks(s);
    send_asks(s);
    if (uw_cast_over(&cast->cast, s->now_us)) {
        finish(s);
    }
    uint64_t next_us = uw_cast_next_us(&cast->cast, s->now_us);
    return next_us > cast->blocked_until_us ? next_us : cast->blocked_until_us;
}

static void on_chunk(struct uw_node_state *s, uint16_t station, const struct uw_cast_chunk *in)
{
    struct uw_node_cast *cast = s->cast;
    struct uw_cast *c = &cast->cast;
    struct uw_member *m = uw_membership_heard(&s->membership, station, s->now_us);
    if (m == NULL || !m->same_model) {
        return;
    }
    int rc = uw_cast_check(c, m->id, in->turn, in->chunk, s->now_us);
    if (c->is_ahead && !c->active) {
        uw_gossip_hurry(&s->gossip);
    }
    uint32_t offset = in->chunk * c->chunk_n;
    bool fits = rc != UW_ERR_CORRUPT &&
                in->count_n == (in->chunk == c->chunks
                                    ? 0 : uw_min_u32(c->chunk_n, c->size_n - offset));
    if (!fits) {
        s->counters.refused_corrupt++;
    }
    struct uw_gossip_slot *slot = rc == UW_OK && fits ? uw_gossip_slot(&s->gossip) : NULL;
    if (slot == NULL || s->now_us < m->avoid_until_us) {
        return;
    }
    const struct uw_data d = {.floats = in->floats, .count_n = (uint16_t)in->count_n};
    if (uw_message_floats(&d, slot->x) < 0) {
        s->counters.refused_nonfinite++;
        uw_cast_give_up(c, m->id);
        uw_node_punish(s, m);
        return;
    }
    slot->round = cast->round;
    slot->offset_n = offset;
    slot->count_n = in->count_n;
    slot->adopt = false;
    slot->weight = uw_cast_weight(c);
    slot->from_id = m->id;
    uw_gossip_push(&s->gossip);
    uw_cast_arrived(c, m->id, in->chunk);
    cast->bytes += in->count_n * 4u;
    m->from_bytes += in->count_n * 4u;
    s->counters.pulled_bytes += in->count_n * 4u;
}

static void message(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes)
{
    struct uw_cast_chunk chunk;
    struct uw_short_wants head;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    if (type == UW_WIRE_CAST) {
        if (uw_message_read_cast(s->buffer, bytes, &chunk) < 0) {
            s->counters.refused_corrupt++;
        } else {
            on_chunk(s, station, &chunk);
        }
        return;
    }
    int n = uw_message_read_short_wants(s->buffer, bytes, &head, wants);
    s->counters.refused_corrupt += n < 0;
    for (int i = 0; i < n && head.model == (uint32_t)s->model; i++) {
        uw_cast_wanted(&s->cast->cast, (uint8_t)wants[i].transfer, wants[i].base,
                       wants[i].wanted, s->now_us);
    }
}

static void slept(struct uw_node_state *s, uint64_t slept_us)
{
    uw_cast_slept(&s->cast->cast, slept_us);
}

const struct uw_node_casts uw_node_casts = {
    .place = place,
    .begin = begin,
    .step = step,
    .message = message,
    .slept = slept,
};
