/* SPDX-License-Identifier: Apache-2.0 */
#include "node_cast.h"
#include "node/node_pull.h"

#include "base/bits.h"
#include "mix/squares.h"

#include "uwasa/node_broadcast.h"

#define SENDS_MOST 64u
#define ALIKE 1e-9                  /* rounding error: squared difference / squares of the chunk */
#define PATIENCE_DEFAULT_US 30000000u

static bool is_here(const struct uw_member *m)
{
    return uw_member_is_live(m) && m->same_model;
}

/* A newcomer first takes over a model, unless all nodes are newcomers. */
static bool takes_part(const struct uw_node_state *s, const struct uw_member *m)
{
    bool new_too = uw_gossip_is_newcomer(&s->gossip);
    return is_here(m) && m->progress.version != 0 &&
           (new_too || !m->progress.newcomer) && m->station != UW_LINK_STATION_NONE &&
           s->outer_us >= uw_node_peer(s, m)->avoid_until_us &&
           uw_member_window(m, s->outer_us).from_us <= s->outer_us;
}

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    return c->link->frames && c->link->shared
               ? UW_OK : UW_NODE_FAULT(fault, mode, "broadcast needs a radio or a bus");
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    void *part[3];
    const size_t bytes[3] = {sizeof *s->cast, c->members_max * sizeof(uint32_t),
                             c->members_max * sizeof(bool)};
    struct uw_node_cast spare;
    int rc = uw_arena_take_each(arena, 3, bytes, part);
    struct uw_node_cast *cast = part[0] != NULL ? part[0] : &spare;
    s->cast = part[0];
    if (rc == UW_OK) {
        uint64_t rate = c->link->rate_bits_per_s;
        uint64_t bits = ((uint64_t)s->chunk_n * 4u + UW_WIRE_SHORT_DATA_BYTES) * 8u;
        rc = uw_cast_place(&cast->cast, arena, c->params->size_n, c->chunk_least_n, s->chunk_n,
                           c->members_max - 1u,
                           rate != 0 ? (uint32_t)(bits * 1000000u / rate) + 1u : 0);
    }
    cast->round = cast->version = 0;
    cast->blocked_until_us = cast->bytes = 0;
    cast->alike = cast->late = false;
    atomic_init(&cast->ended, false);
    atomic_init(&cast->agreed_n, 0);
    cast->ids = part[1];
    cast->mute = part[2];
    cast->cast.patience_us = c->gather_us != 0 ? c->gather_us : PATIENCE_DEFAULT_US;
    return rc;
}

struct others {
    bool train;                     /* some of those that take part */
    bool come;                      /* or a live member will */
};

/* Count the participants; mute: include those that sent nothing in the last turn. */
static uint32_t gather(struct uw_node_state *s, bool mute, struct others *o)
{
    uint32_t n = 0;
    *o = (struct others){false, false};
    for (uint32_t i = 1; i < s->membership.members_n; i++) {
        const struct uw_member *m = &s->membership.members[i];
        bool trains = m->progress.samples_per_s > 0.0f;
        o->come = o->come || (is_here(m) && (trains || m->progress.version == 0));
        if ((mute || !s->cast->mute[m->place]) && takes_part(s, m)) {
            s->cast->ids[n++] = m->id;
            o->train = o->train || trains;
        }
    }
    return n;
}

static void agree(struct uw_node_state *s, uint32_t nodes_n)
{
    atomic_store_explicit(&s->cast->agreed_n, nodes_n, memory_order_release);
}

/* Were all of them in the last turn, too? */
static bool are_known(const struct uw_node_cast *cast, uint32_t n)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < cast->cast.peers_n; k++) {
            const struct uw_cast_peer *p = &cast->cast.peers[k];
            known += p->id == cast->ids[i] && !p->gone;
        }
    }
    return known == n;
}

/* A node that has ended its training joins the turns of others, but does not begin them. If all
 * have one model, a node that does not know it yet begins. A turn also begins if a peer waits in an
 * earlier one, which ends only then. */
static bool waits(const struct uw_node_state *s, bool train)
{
    bool ended = uw_load_float(&s->gossip.samples_per_s) <= 0.0f;
    return !s->cast->cast.is_ahead && !s->cast->late &&
           ((ended && train) || uw_load(&s->cast->agreed_n) != 0);
}

static uint32_t begin(struct uw_node_state *s, uint32_t round)
{
    struct uw_node_cast *cast = s->cast;
    struct others others;
    uint32_t n = gather(s, false, &others);
    if (n == 0) {       /* or this node received nothing */
        n = gather(s, true, &others);
    }
    if (n == 0 || !uw_gossip_shows(&s->gossip) || uw_node_chunk_n(s) < cast->cast.least_n) {
        return 0;
    }
    if (others.come || !are_known(cast, n)) {
        agree(s, 0);
    }
    if (waits(s, others.train)) {
        return UW_NODE_LATER;
    }
    cast->alike = !others.come && atomic_load_explicit(&cast->ended, memory_order_acquire);
    cast->late = false;
    cast->round = round;
    cast->version = (uint32_t)atomic_load_explicit(&s->gossip.version, memory_order_acquire);
    cast->bytes = 0;
    cast->began_us = s->now_us;
    if (s->period != NULL) {
        s->config.parts->periods->began(s);
    }
    uw_cast_begin(&cast->cast, s->membership.members[0].id, cast->ids, n, uw_node_chunk_n(s),
                  s->now_us);
    return 1;
}

/* Returns false when the link is full. */
static bool send_chunk(struct uw_node_state *s, uint32_t chunk)
{
    struct uw_cast *c = &s->cast->cast;
    bool end = chunk == c->chunks;
    const struct uw_cast_chunk head = {.turn = c->turn, .tag = end ? 0 : uw_cast_tag(c, chunk),
                                       .chunk = end ? 0 : chunk,
                                       .count_n = end ? 0 : c->chunk_n};
    uint32_t version;
    const float *x = uw_node_read_shown(s, end ? 0 : uw_cast_offset(c, chunk), head.count_n,
                                        &version);
    if (x == NULL) {
        return false;
    }
    if (version != s->cast->version) {      /* published since */
        c->sharing = false;
        return true;
    }
    int bytes = uw_message_write_cast(&head, x, s->buffer, s->buffer_bytes);
    int rc = bytes < 0 ? bytes
                       : uw_link_send(s->config.link, UW_LINK_STATION_BROADCAST, s->buffer,
                                      (uint32_t)bytes);
    if (rc == UW_ERR_AGAIN || rc == UW_ERR_IO || rc == UW_ERR_NOMEM) {
        return false;
    }
    if (rc == UW_ERR_TOOBIG && !end) {
        uw_cast_narrowed(c);
        return true;
    }
    uw_cast_sent(c, chunk, s->now_us);
    if (rc == UW_OK) {
        s->counters.sent_bytes += (uint32_t)bytes;
        s->counters.served_bytes += head.count_n * 4u;
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

static void send_asks(struct uw_node_state *s)
{
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    uint32_t id = 0, n, most = uw_message_short_wants(uw_node_mtu(s));
    while ((n = uw_cast_ask(&s->cast->cast, s->now_us, most, &id, wants)) != 0) {
        const struct uw_member *m = uw_node_member(s, id);
        if (m == NULL) {
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

/* Exclude participants that sent nothing, also on request, until they send: they may average in
 * another mode. Returns their number; *first: one of them. */
static uint32_t find_mute(struct uw_node_state *s, const struct uw_member **first)
{
    const struct uw_cast *c = &s->cast->cast;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->peers_n; i++) {
        struct uw_member *m = uw_cast_is_mute(&c->peers[i]) ? uw_node_member(s, c->peers[i].id)
                                                            : NULL;
        if (m != NULL) {
            s->cast->mute[m->place] = true;
            *first = m;
            n++;
        }
    }
    return n;
}

static void report(struct uw_node_state *s, bool exact, const struct uw_member *mute,
                   uint32_t mute_n)
{
    struct uw_node_event e = {.kind = exact ? UW_NODE_AVERAGED : UW_NODE_AVERAGE_CUT,
                              .peer = mute != NULL ? mute->name : "", .address = "",
                              .station = UW_LINK_STATION_NONE,
                              .bytes = s->cast->bytes, .duration_us = s->now_us - s->cast->began_us,
                              .chunks_n = s->cast->cast.peers_n + 1u - mute_n,
                              .chunks_total_n = s->cast->cast.peers_n + 1u};
    uw_node_event_report(s, &e, &(struct uw_node_cause){.m = NULL});
}

/* If all nodes sent one model after their training, no further average changes it. */
static void judge(struct uw_node_state *s, bool exact)
{
    uint32_t was_n = uw_load(&s->cast->agreed_n), now_n = exact ? s->cast->cast.peers_n + 1u : 0;
    agree(s, !s->cast->alike ? 0 : now_n > was_n ? now_n : was_n);
}

static void finish(struct uw_node_state *s)
{
    struct uw_node_cast *cast = s->cast;
    bool exact = uw_cast_is_exact(&cast->cast);
    judge(s, exact);
    if (s->period != NULL) {
        const struct uw_cast *c = &cast->cast;
        uint64_t model_us = (uint64_t)c->chunks * c->pace.us;
        s->config.parts->periods->cast_ended(s, (c->peers_n + 1u) * model_us);
    }
    s->counters.averages_done += exact;
    s->counters.averages_cut += !exact;
    s->counters.averaged_bytes += cast->bytes;
    uw_gossip_ended(&s->gossip, cast->round,
                    exact ? UW_GOSSIP_COMPLETE : UW_GOSSIP_CUT);
    cast->round = 0;
    const struct uw_member *mute = NULL;
    uint32_t mute_n = find_mute(s, &mute);
    report(s, exact, mute, mute_n);
}

static uint64_t step(struct uw_node_state *s)
{
    struct uw_node_cast *cast = s->cast;
    struct uw_member *outlier = uw_node_member(s, uw_gossip_outlier_id(&s->gossip));
    if (outlier != NULL && s->gossip.guard != NULL) {
        uw_node_event_pull(s, outlier, UW_NODE_CHUNK_OUTLIER, UW_WHY_NONE);
    } else if (outlier != NULL) {
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

/* Does a peer's chunk equal this node's? Only checked after training. */
static bool is_alike(struct uw_node_state *s, const struct uw_gossip_slot *slot)
{
    uint32_t version = 0;
    const float *x = uw_node_read_shown(s, slot->offset_n, slot->count_n, &version);
    return x != NULL && version == s->cast->version &&
           uw_squares_apart(x, slot->x, slot->count_n) <= ALIKE * uw_squares(x, slot->count_n);
}

static void on_chunk(struct uw_node_state *s, uint16_t station, const struct uw_cast_chunk *in)
{
    struct uw_node_cast *cast = s->cast;
    struct uw_cast *c = &cast->cast;
    struct uw_member *m = uw_membership_heard(&s->membership, station, s->outer_us);
    if (m == NULL || !m->same_model) {
        return;
    }
    s->cast->mute[m->place] = false;
    uint32_t skip_n = 0;
    int rc = uw_cast_check(c, m->id, in, s->now_us, &skip_n);
    if (c->is_ahead && !c->active) {
        uw_gossip_shorten_round(&s->gossip);
    }
    cast->late = cast->late || (!c->active && in->turn != c->turn);
    s->counters.refused_corrupt += rc == UW_ERR_CORRUPT;
    struct uw_gossip_slot *slot = rc == UW_OK ? uw_gossip_slot(&s->gossip) : NULL;
    if (slot == NULL || s->outer_us < uw_node_peer(s, m)->avoid_until_us) {
        return;
    }
    const struct uw_data d = {.floats = in->floats + (size_t)skip_n * 4u,
                              .count_n = (uint16_t)(in->count_n - skip_n)};
    if (uw_message_floats(&d, slot->x) < 0) {
        s->counters.refused_nonfinite++;
        uw_cast_give_up(c, m->id);
        uw_node_punish(s, m);
        return;
    }
    slot->round = cast->round;
    slot->offset_n = in->chunk * in->count_n;
    slot->count_n = d.count_n;
    slot->adopt = false;
    slot->weight = uw_cast_weight(c);
    slot->from_id = m->id;
    cast->alike = cast->alike && is_alike(s, slot);
    uw_gossip_push(&s->gossip);
    uw_cast_arrived(c, m->id, in->chunk);
    cast->bytes += d.count_n * 4u;
    uw_node_peer(s, m)->from_bytes += d.count_n * 4u;
    s->counters.pulled_bytes += d.count_n * 4u;
}

static void message(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes)
{
    struct uw_cast_chunk chunk;
    struct uw_short_wants head;
    struct uw_want wants[UW_SHORT_WANTS_MOST];
    if (type == UW_WIRE_CAST) {
        if (uw_message_read_cast(s->in, bytes, &chunk) < 0) {
            s->counters.refused_corrupt++;
        } else {
            on_chunk(s, station, &chunk);
        }
        return;
    }
    int n = uw_message_read_short_wants(s->in, bytes, &head, wants);
    s->counters.refused_corrupt += n < 0;
    struct uw_cast *c = &s->cast->cast;
    for (int i = 0; i < n && head.model == (uint32_t)s->model; i++) {
        bool in_vain = !c->active && (wants[i].transfer != c->turn || !c->sharing);
        s->cast->late = s->cast->late || in_vain;
        uw_cast_wanted(c, &wants[i], s->now_us);
    }
}

bool uw_node_cast_end(struct uw_node *n)
{
    struct uw_node_cast *cast = n->state != NULL ? n->state->cast : NULL;
    if (cast == NULL || n->state->gossip.steps != 0) {
        return cast == NULL;
    }
    atomic_store_explicit(&cast->ended, true, memory_order_release);
    return true;
}

uint32_t uw_node_cast_agreed(const struct uw_node *n)
{
    return n->state != NULL && n->state->cast != NULL ? uw_load(&n->state->cast->agreed_n) : 0;
}

static void forget(struct uw_node_state *s, uint32_t place)
{
    s->cast->mute[place] = false;
}

static void gone(struct uw_node_state *s, uint32_t id)
{
    uw_cast_give_up(&s->cast->cast, id);
}

const struct uw_node_casts uw_node_casts = {
    .setup = {check, place},
    .begin = begin,
    .step = step,
    .message = message,
    .gone = gone,
    .forget = forget,
};
