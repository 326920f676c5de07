/* SPDX-License-Identifier: Apache-2.0
 *
 * Set-up: what a configuration needs, and the memory. */
#include "node_lanes.h"
#include "node_limits.h"
#include "node_periods.h"
#include "node_ping.h"
#include "node_tell.h"
#include "shuffle/shuffle.h"

#include "base/bits.h"

#include <string.h>

#define WINDOW_DEFAULT_BYTES (512u * 1024u)
#define CHUNK_IP_N 256u             /* floats that any way through IP carries */
#define MEMBERS_DEFAULT 32u
#define MEMBERSHIP_DEFAULT 4096u    /* bytes a second ... */
#define LINK_PARTS 16u              /* ... and of a thin link at most one in so many */
#define LINK_PARTS_SHARED 64u       /* of one that all share, by all of them */
#define SLOTS_MIN 2u
#define SLOTS_MAX 4096u
#define PARTS_N 11u

enum uw_node_mode uw_node_mode_find(const char *name)
{
    return strcmp(name, "allreduce") == 0      ? UW_NODE_ALLREDUCE
           : strcmp(name, "hierarchical") == 0 ? UW_NODE_HIERARCHICAL
           : strcmp(name, "auto") == 0         ? UW_NODE_AUTO
           : strcmp(name, "broadcast") == 0    ? UW_NODE_BROADCAST
                                               : UW_NODE_GOSSIP;
}

static const struct uw_node_parts no_parts;

static bool needs_averages(const struct uw_node_config *c)
{
    bool averages = c->mode != UW_NODE_GOSSIP && c->mode != UW_NODE_BROADCAST;
    return averages || c->agree || c->gradients != NULL ||
           (c->rule != NULL && c->rule->over != UW_MIX_OVER_ANY);
}

static void default_us(uint64_t *us, uint64_t own_us)
{
    *us = *us != 0 ? *us : own_us;
}

static void set_defaults(struct uw_node_config *c)
{
    c->rule = c->rule != NULL ? c->rule : &uw_mix_none;
    c->parts = c->parts != NULL ? c->parts : &no_parts;
    if (c->schedule == NULL) {
        c->schedule = c->rule->over == UW_MIX_OVER_PAIRS ? c->parts->averages->pairs
                                                         : &uw_peer_schedule_random;
    }
    if (c->period_steps == 0) {
        c->period_steps = c->period_share > 0.0f ? UINT32_MAX : UW_PERIOD_FIRST;
    }
    c->members_max = c->members_max != 0 ? c->members_max : MEMBERS_DEFAULT;
    c->serves_max = c->serves_max != 0 ? c->serves_max : c->members_max;
    c->chunk_least_n = c->chunk_least_n > UW_CHUNK_MIN_N ? c->chunk_least_n : UW_CHUNK_MIN_N;
    default_us(&c->ping_us, UW_NODE_PING_US);
    default_us(&c->suspect_us, 3u * c->ping_us);
    default_us(&c->dead_us,
               3u * c->suspect_us > UW_NODE_DEAD_US ? 3u * c->suspect_us : UW_NODE_DEAD_US);
    default_us(&c->pull_us, UW_NODE_PULL_US);
    default_us(&c->pull_silence_us, UW_NODE_PULL_SILENCE_US);
    default_us(&c->poll_us, UW_NODE_POLL_US);
}

static int check_text(const char *what, const char *text, size_t cap, bool may_be_empty,
                      struct uw_error *err)
{
    if (text == NULL || (text[0] == '\0' && !may_be_empty)) {
        return uw_error_set(err, UW_ERR_INVALID, "%s: missing, needs 1 to %u characters", what,
                            (unsigned)(cap - 1u));
    }
    if (strlen(text) >= cap) {
        return uw_error_set(err, UW_ERR_INVALID, "%s \"%.40s...\": at most %u characters", what,
                            text, (unsigned)(cap - 1u));
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~') {
            return uw_error_set(err, UW_ERR_INVALID,
                                "%s: printable characters without spaces only", what);
        }
    }
    return UW_OK;
}

/* A part of the program, for set-up. */
struct part {
    const char *name;
    const struct uw_node_setup *setup;      /* NULL: the program lacks it */
    bool needed;
};

struct parts {
    struct part of[PARTS_N];
};

/* Every part's table begins with it. */
#define SETUP(part) ((const struct uw_node_setup *)(const void *)(part))

static struct parts list_parts(const struct uw_node_config *c)
{
    const struct uw_node_parts *p = c->parts != NULL ? c->parts : &no_parts;
    return (struct parts){{
        {"averages", SETUP(p->averages), needs_averages(c)},
        {"directs", SETUP(p->directs), c->direct != NULL},
        {"samples", SETUP(p->samples), c->samples != NULL},
        {"casts", SETUP(p->casts), c->mode == UW_NODE_BROADCAST},
        {"sleeps", SETUP(p->sleeps), c->sleep.period_us != 0 || c->sleep.awake_us != 0},
        {"periods", SETUP(p->periods), c->period_share != 0.0f},
        {"slices", SETUP(p->slices), c->slices_n > 1u},
        {"lanes", SETUP(p->lanes), c->pull_peers > 1u},
        {"codes", SETUP(p->codes), c->code},
        {"frames", SETUP(p->frames), c->link->frames || c->link->shared},
        {"answers", SETUP(p->answers), p->answers != NULL}}};
}

static int check_parts(const struct uw_node_config *c, struct uw_error *err)
{
    const struct parts parts = list_parts(c);
    int rc = UW_OK;
    for (const struct part *p = parts.of; rc == UW_OK && p < parts.of + PARTS_N; p++) {
        if (p->needed && p->setup == NULL) {
            return uw_error_set(err, UW_ERR_INVALID,
                                "config.parts lacks %s, which the configuration or its link needs",
                                p->name);
        }
        rc = p->needed && p->setup->check != NULL ? p->setup->check(c, err) : UW_OK;
    }
    return rc;
}

static int place_parts(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct parts parts = list_parts(&s->config);
    int rc = UW_OK;
    for (const struct part *p = parts.of; rc == UW_OK && p < parts.of + PARTS_N; p++) {
        rc = p->needed && p->setup->place != NULL ? p->setup->place(s, arena) : UW_OK;
    }
    return rc;
}

/* Rules look at it, and averages put it back when they fail. */
static int check_snapshot(const struct uw_node_config *c, struct uw_error *err)
{
    bool ruled = c->rule != NULL && (c->rule->end != NULL || c->rule->pair != NULL);
    if (c->snapshot != NULL || (!ruled && !needs_averages(c) && c->image == NULL)) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_INVALID, "node: snapshot missing, \"%s\" needs it",
                        ruled              ? c->rule->name
                        : c->image != NULL ? "image"
                                           : "averages");
}

static int check(const struct uw_node_config *c, struct uw_error *err)
{
    int rc = check_text("name", c->name, UW_NODE_NAME_BYTES, false, err);
    if (rc == UW_OK && c->address != NULL) {
        rc = check_text("address", c->address, UW_LINK_ADDRESS_BYTES, true, err);
    }
    if (rc == UW_OK && c->cell != NULL) {
        rc = check_text("cell", c->cell, UW_NODE_NAME_BYTES, true, err);
    }
    if (rc < 0) {
        return rc;
    }
    if (c->run == NULL || c->run[0] == '\0') {
        return uw_error_set(err, UW_ERR_INVALID, "run: missing, needs a name");
    }
    if (c->link == NULL || c->params == NULL || c->params->size_n == 0) {
        return uw_error_set(err, UW_ERR_INVALID, "node: link or parameters missing");
    }
    if (c->members_max == 1u || c->members_max > UW_NODE_MEMBERS_MAX) {
        return uw_error_set(err, UW_ERR_INVALID, "members_max %u: 2 to %u are allowed",
                            (unsigned)c->members_max, (unsigned)UW_NODE_MEMBERS_MAX);
    }
    rc = check_parts(c, err);
    return rc < 0 ? rc : check_snapshot(c, err);
}

int uw_node_check_wide(const struct uw_node_config *c, struct uw_error *err)
{
    if (!c->link->frames) {
        return UW_OK;
    }
    return uw_error_set(err, UW_ERR_UNSUPPORTED,
                        "link %s is narrow: gossip only, without exact averages or samples",
                        c->link->ops != NULL ? c->link->ops->name : "?");
}

static uint32_t run_tag(const char *run)
{
    uint32_t tag = uw_name_id(run);
    return tag != 0 ? tag : 1u;     /* 0 on the wire: any run */
}

/* Sizes that follow from the link. */
static int set_sizes(struct uw_node_state *s, struct uw_error *err)
{
    uint32_t mtu = s->config.link->mtu_bytes;
    bool stream = s->config.link->reliable || mtu >= UW_NODE_PARTS_MAX;
    s->buffer_bytes = uw_min_u32(mtu, stream ? UW_NODE_PARTS_MAX : UW_NODE_BUFFER_MAX);
    uint32_t least_n = s->config.chunk_least_n;
    uint32_t head_bytes = uw_wire_data_bytes(s->config.link->frames);
    uint32_t least_bytes = head_bytes + 4u * (least_n < UINT16_MAX ? least_n : UINT16_MAX);
    if (s->buffer_bytes < least_bytes) {
        return uw_error_set(err, UW_ERR_TOOBIG, "link carries %u bytes: needs %u or more",
                            (unsigned)s->buffer_bytes, (unsigned)least_bytes);
    }
    if (s->config.samples != NULL && s->buffer_bytes < UW_SHUFFLE_LEAST_BYTES) {
        return uw_error_set(err, UW_ERR_TOOBIG, "link carries %u bytes: samples need %u or more",
                            (unsigned)s->buffer_bytes, (unsigned)UW_SHUFFLE_LEAST_BYTES);
    }
    uint32_t chunk_bytes = uw_min_u32(s->buffer_bytes, UW_NODE_BUFFER_MAX);
    s->chunk_n = (chunk_bytes - head_bytes) / 4u;
    if (s->config.link->frames &&
        (s->config.params->size_n - 1u) / s->chunk_n >= UW_WIRE_SHORT_CHUNKS) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            "model of %u parameters: frames of %u bytes carry %u at most",
                            (unsigned)s->config.params->size_n, (unsigned)s->buffer_bytes,
                            (unsigned)(s->chunk_n * UW_WIRE_SHORT_CHUNKS));
    }
    if (s->config.link->frames) {   /* however short they become, chunks are told apart */
        uint32_t fewest_n = (s->config.params->size_n - 1u) / UW_WIRE_SHORT_CHUNKS + 1u;
        s->config.chunk_least_n = least_n > fewest_n ? least_n : fewest_n;
    }
    return UW_OK;
}

uint64_t uw_node_membership_rate(const struct uw_node_config *c)
{
    /* A duty cycle is each node's own: others have no part in what it leaves. */
    bool by_all = c->link->shared && c->link->duty_ppm == 0;
    uint32_t parts = by_all ? LINK_PARTS_SHARED : LINK_PARTS;
    uint64_t share = c->link->rate_bits_per_s * 125u / parts;       /* bits to thousandths */
    uint64_t rate = c->membership_rate != 0 ? c->membership_rate : MEMBERSHIP_DEFAULT;
    bool thin = c->membership_rate == 0 && c->link->rate_bits_per_s != 0 && share < rate * 1000u;
    rate = thin ? share : rate * 1000u;
    return rate != 0 ? rate : 1u;
}

static int place_membership(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    const struct uw_membership_config membership = {
        .name = c->name, .address = c->address, .incarnation = c->incarnation,
        .model = s->model, .seeds = c->seeds, .seeds_n = c->seeds_n,
        .members_max = c->members_max, .ping_us = c->ping_us, .suspect_us = c->suspect_us,
        .averages = needs_averages(c), .dead_us = c->dead_us,
        .rate_mbytes_per_s = uw_node_membership_rate(c),
        .sleep_us = c->sleep.period_us / 1000u * 1000u,
        .seed = uw_rng_mix(c->seed, uw_name_id(c->name)), .link = c->link,
        .changed = uw_node_member_changed, .spares = uw_node_spares, .arg = s,
        .beacons = c->link->shared ? c->parts->frames->beacons : NULL,
        .windows = c->parts->sleeps != NULL ? c->parts->sleeps->windows : NULL};
    return uw_membership_place(&s->membership, arena, &membership);
}

/* What floats a slot of the ring and a copy for others have room for. */
static uint32_t room_n(const struct uw_node_state *s)
{
    bool coded = s->config.code && s->config.link->frames;
    return coded ? uw_node_wide_n(s->chunk_n) : s->chunk_n;
}

/* What a round may bring at once, of IP in chunks that any path carries, of frames in those of the
 * shortest that they may become: no more waits. */
static size_t default_window(const struct uw_node_state *s)
{
    const struct uw_node_config *c = &s->config;
    uint32_t least_n = uw_min_u32(s->chunk_n, c->link->frames ? c->chunk_least_n : CHUNK_IP_N);
    uint64_t chunks = (c->params->size_n - 1u) / least_n + 1u;
    chunks *= c->mode == UW_NODE_BROADCAST ? c->members_max - 1u : 1u;
    chunks += c->pull_peers;        /* each takes a share, rounded up */
    uint64_t bytes = chunks * uw_gossip_slot_bytes(room_n(s));
    return bytes < WINDOW_DEFAULT_BYTES && !needs_averages(c) ? (size_t)bytes
                                                              : WINDOW_DEFAULT_BYTES;
}

static int place_pull(struct uw_node_state *s, struct uw_arena *arena, uint32_t slots_n)
{
    const struct uw_node_config *c = &s->config;
    struct uw_pull *t = &s->pull.transfer;
    int rc = uw_pull_place(t, arena, c->params->size_n, c->chunk_least_n, slots_n);
    return rc == UW_OK && c->code && c->link->frames ? uw_pull_place_parts(t, arena) : rc;
}

static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    uint32_t chunk_n = room_n(s);
    size_t slots = c->window_bytes / uw_gossip_slot_bytes(chunk_n);
    slots = slots < SLOTS_MIN ? SLOTS_MIN : slots > SLOTS_MAX ? SLOTS_MAX : slots;
    bool casts = c->mode == UW_NODE_BROADCAST;
    const struct uw_gossip_config gossip = {
        .params = c->params, .snapshot = c->snapshot, .velocity = c->velocity,
        .image = c->image,
        .newcomer = c->newcomer, .rule = c->rule, .constants = c->constants,
        .period_steps = c->period_share > 0.0f ? uw_min_u32(UW_PERIOD_FIRST, c->period_steps)
                                               : c->period_steps,
        .chunk_n = chunk_n, .slots_n = (uint32_t)slots,
        .adopt_only = (c->mode != UW_NODE_GOSSIP && !casts) || c->rule->over == UW_MIX_OVER_PAIRS,
        .holds = casts};
    bool sentences = c->parts->sentences != NULL || needs_averages(c);
    size_t chunk_bytes = c->snapshot != NULL ? chunk_n * sizeof(float) : 0;
    void *part[8];
    const size_t bytes[8] = {
        s->buffer_bytes, chunk_bytes > sizeof *s->message ? chunk_bytes : sizeof *s->message,
        c->members_max * sizeof(uint16_t), c->members_max * sizeof(bool), c->members_max,
        sentences ? UW_NODE_TEXT_BYTES : 0, c->link->frames ? s->buffer_bytes : 0,
        c->on_event != NULL ? UW_NODE_QUIETS * sizeof *s->quiet : 0};
    int rc = place_membership(s, arena);
    if (rc == UW_OK) {
        rc = uw_gossip_place(&s->gossip, arena, &gossip);
    }
    if (rc == UW_OK) {
        rc = place_pull(s, arena, (uint32_t)slots);
    }
    if (rc == UW_OK) {
        rc = uw_serve_place(&s->serve, arena, c->serves_max,
                            c->serves_max < c->members_max ? UW_SERVE_WANTS_FEW : UW_SERVE_WANTS,
                            c->params->size_n);
        s->serve.stale_us += uw_node_serve_us(c, s->limits.rate_bits_per_s);
    }
    if (rc == UW_OK) {
        rc = uw_arena_take_each(arena, 8, bytes, part);
    }
    if (rc < 0) {
        return rc;
    }
    s->buffer = part[0];
    s->message = part[1];
    s->chunk = part[1];
    s->candidates.place = part[2];
    s->candidates.usable = part[3];
    s->candidates.weight = part[4];
    s->text = part[5];
    s->late = part[6];
    s->quiet = part[7];
    return place_parts(s, arena);
}

static int bind_all(struct uw_node *n, struct uw_node_state *spare,
                    const struct uw_node_config *config, struct uw_arena *arena,
                    struct uw_error *err)
{
    void *memory = NULL;
    int rc = check(config, err);
    if (rc < 0) {
        return rc;
    }
    rc = uw_arena_take(arena, sizeof(struct uw_node_state), &memory);
    if (rc < 0) {
        return uw_error_set(err, rc, "node: %s", uw_status_text(rc));
    }
    struct uw_node_state *s = memory != NULL ? memory : spare;
    memset(s, 0, sizeof *s);
    s->config = *config;
    if (config->link->frames) {
        config->parts->frames->set_limits(s);
    }
    set_defaults(&s->config);
    s->run = config->link->frames ? 0 : run_tag(config->run);   /* frames are of one run */
    s->model = config->params->hash;
    uw_rng_seed(&s->rng, uw_rng_mix(config->seed, (uint64_t)uw_name_id(config->name) << 32));
    rc = set_sizes(s, err);
    if (rc < 0) {
        return rc;
    }
    if (s->config.window_bytes == 0) {
        s->config.window_bytes = default_window(s);
    }
    rc = place(s, arena);
    if (rc < 0) {
        return uw_error_set(err, rc, "node: %s", uw_status_text(rc));
    }
    rc = uw_node_check_mtu(s, err);
    n->state = rc == UW_OK ? memory : NULL;
    return rc;
}

int uw_node_measure(const struct uw_node_config *config, size_t *bytes, struct uw_error *err)
{
    struct uw_arena arena;
    struct uw_node n = {NULL};
    struct uw_node_state spare;
    uw_arena_init(&arena, NULL, 0);
    int rc = bind_all(&n, &spare, config, &arena, err);
    *bytes = arena.used_bytes;
    return rc;
}

int uw_node_bind(struct uw_node *n, const struct uw_node_config *config, struct uw_arena *arena,
                 struct uw_error *err)
{
    n->state = NULL;
    if (config->rule != NULL && config->rule->velocity && config->velocity == NULL) {
        return uw_error_set(err, UW_ERR_INVALID,
                            "mixing rule \"%s\" needs a velocity: plan with mixing_velocity",
                            config->rule->name);
    }
    if (needs_averages(config) && config->parts != NULL && config->parts->averages != NULL) {
        int rc = config->parts->averages->check_spare(config, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (arena->base == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "node: to measure, call uw_node_measure");
    }
    return bind_all(n, NULL, config, arena, err);
}
