/* SPDX-License-Identifier: Apache-2.0
 *
 * Set-up: parts that a configuration needs, and memory. */
#include "node_addresses.h"
#include "node_pull.h"
#include "shuffle/shuffle.h"

#include "base/bits.h"

#include <string.h>

#define WINDOW_DEFAULT_BYTES (512u * 1024u)
#define CHUNK_IP_N 256u             /* floats that any IP path carries */
#define SLOTS_MIN 2u
#define SLOTS_MAX 4096u

static const struct uw_node_parts no_parts;

uint32_t uw_node_spare_n(enum uw_node_mode mode, const struct uw_mix_rule *rule, uint32_t size_n)
{
    if (rule->over == UW_MIX_OVER_PAIRS) {
        return 2u * size_n;
    }
    return mode != UW_NODE_GOSSIP && rule->end != NULL && rule->before == NULL ? size_n : 0;
}

static void default_us(uint64_t *us, uint64_t own_us)
{
    *us = *us != 0 ? *us : own_us;
}

void uw_node_default_silences(struct uw_node_config *c)
{
    default_us(&c->suspect_us, UW_NODE_SUSPECT_PINGS * c->ping_us);
    default_us(&c->dead_us, uw_max_u64(UW_NODE_DEAD_SUSPECTS * c->suspect_us, UW_NODE_DEAD_US));
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
    c->members_max = c->members_max != 0 ? c->members_max : UW_NODE_MEMBERS_DEFAULT;
    c->ranks_max = c->ranks_max != 0 ? c->ranks_max : UW_NODE_RANKS_DEFAULT;
    c->serves_max = c->serves_max != 0 ? c->serves_max : c->members_max;
    c->chunk_least_n = c->chunk_least_n > UW_CHUNK_MIN_N ? c->chunk_least_n : UW_CHUNK_MIN_N;
    default_us(&c->ping_us, UW_NODE_PING_US);
    uw_node_default_silences(c);
    default_us(&c->pull_us, UW_NODE_PULL_US);
    default_us(&c->pull_silence_us, UW_NODE_PULL_SILENCE_US);
    default_us(&c->poll_us, UW_NODE_POLL_US);
}

/* Is it a text of printable characters without spaces that fits? */
static bool is_name(const char *text, size_t cap)
{
    size_t n = 0;
    while (n < cap && text[n] > ' ' && text[n] <= '~') {
        n++;
    }
    return n < cap && text[n] == '\0';
}

/* The optional parts: the sentence for a missing one, and the offset of the pointer to its table,
 * which begins with struct uw_node_setup. */
static const struct {
    char lacks[15];
    uint8_t offset;
} optional_parts[] = {
#define PART(part) {"lacks " #part, offsetof(struct uw_node_parts, part)}
    PART(averages), PART(directs), PART(samples), PART(casts),  PART(sleeps), PART(periods),
    PART(slices),   PART(lanes),   PART(codes),   PART(frames), PART(answers), PART(queries),
    PART(guards),   PART(addresses), PART(revokes)};

/* Bitmap of the optional_parts that a configuration needs. */
static uint32_t needed_parts(const struct uw_node_config *c)
{
    const bool needed[] = {uw_node_needs_averages(c),
                           c->direct != NULL,
                           c->samples != NULL,
                           c->mode == UW_NODE_BROADCAST,
                           c->sleep.period_us != 0 || c->sleep.awake_us != 0,
                           c->period_share != 0.0f,
                           c->slices_n > 1u,
                           c->pull_peers > 1u,
                           c->code,
                           c->link->frames || c->link->shared,
                           c->parts != NULL && c->parts->answers != NULL,
                           c->queries != NULL,
                           c->guard,
                           c->own_addresses != NULL,
                           c->keys != NULL};
    uint32_t bits = 0;
    for (uint32_t i = 0; i < sizeof needed; i++) {
        bits |= (uint32_t)needed[i] << i;
    }
    return bits;
}

/* Check the parts that a configuration needs, or with s allocate their memory. */
static int set_up_parts(const struct uw_node_config *c, struct uw_node_fault *fault,
                        struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_parts *parts = c->parts != NULL ? c->parts : &no_parts;
    uint32_t needed = needed_parts(c);
    int rc = UW_OK;
    for (uint32_t i = 0; rc == UW_OK && needed >> i != 0; i++) {
        const struct uw_node_setup *setup;
        if ((needed >> i & 1u) == 0) {
            continue;
        }
        memcpy(&setup, (const char *)parts + optional_parts[i].offset, sizeof setup);
        if (setup == NULL) {
            return UW_NODE_FAULT(fault, parts, optional_parts[i].lacks);
        }
        rc = s != NULL ? (setup->place != NULL ? setup->place(s, arena) : UW_OK)
             : setup->check != NULL ? setup->check(c, fault) : UW_OK;
    }
    return rc;
}

/* Rules read it, and failed averages restore it. */
static bool needs_snapshot(const struct uw_node_config *c)
{
    bool ruled = c->rule != NULL && (c->rule->end != NULL || c->rule->pair != NULL);
    return ruled || uw_node_needs_averages(c) || c->image != NULL || c->mode == UW_NODE_BROADCAST;
}

int uw_node_check_choices(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    if (c->name == NULL || c->name[0] == '\0' || !is_name(c->name, UW_NODE_NAME_BYTES)) {
        return UW_NODE_FAULT(fault, name, "needs 1 to 31 printable characters without spaces");
    }
    if (c->address != NULL && !is_name(c->address, UW_LINK_ADDRESS_BYTES)) {
        return UW_NODE_FAULT(fault, address, "needs at most 63 printable characters");
    }
    if (c->cell != NULL && !is_name(c->cell, UW_NODE_NAME_BYTES)) {
        return UW_NODE_FAULT(fault, cell, "needs 1 to 31 printable characters without spaces");
    }
    if (c->run == NULL || c->run[0] == '\0') {
        return UW_NODE_FAULT(fault, run, "needs a name");
    }
    if (c->members_max == 1u || c->members_max > UW_NODE_MEMBERS_MAX) {
        return UW_NODE_FAULT(fault, members_max, "needs 2 to 4096");
    }
    if (c->gossip != UW_GOSSIP_PULL) {
        return UW_NODE_FAULT(fault, gossip, "must be to pull: the others are simulated only");
    }
    return set_up_parts(c, fault, NULL, NULL);
}

bool uw_node_only_pulls(const struct uw_node_config *c)
{
    return !uw_node_needs_averages(c) && c->samples == NULL;
}

int uw_node_check_wide(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    static const char wrong[] = "is not for a radio or a bus";
    if (!c->link->frames || uw_node_only_pulls(c)) {
        return UW_OK;
    }
    (void)(c->mode != UW_NODE_GOSSIP && c->mode != UW_NODE_BROADCAST
               ? UW_NODE_FAULT(fault, mode, "needs gossip or broadcast on a radio or a bus")
           : c->samples != NULL   ? UW_NODE_FAULT(fault, samples, wrong)
           : c->agree             ? UW_NODE_FAULT(fault, agree, wrong)
           : c->gradients != NULL ? UW_NODE_FAULT(fault, gradients, wrong)
                                  : UW_NODE_FAULT(fault, rule, wrong));
    return UW_ERR_UNSUPPORTED;
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
    s->buffer_bytes = uw_min_u32(mtu, s->config.link->reliable ? UW_NODE_PARTS_MAX
                                                               : UW_NODE_BUFFER_MAX);
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
    if (s->config.link->frames) {   /* chunk numbers suffice even for the shortest frames */
        uint32_t fewest_n = (s->config.params->size_n - 1u) / UW_WIRE_SHORT_CHUNKS + 1u;
        s->config.chunk_least_n = least_n > fewest_n ? least_n : fewest_n;
    }
    return UW_OK;
}

static int place_members(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    const struct uw_membership_config membership = {
        .name = c->name, .address = c->address, .incarnation = c->incarnation,
        .model = s->model, .seeds = c->seeds, .seeds_n = c->seeds_n,
        .members_max = c->members_max, .ping_us = c->ping_us, .suspect_us = c->suspect_us,
        .averages = uw_node_needs_averages(c), .dead_us = c->dead_us,
        .rate_mbytes_per_s = uw_node_membership_rate(c),
        .sleep_us = c->sleep.period_us / 1000u * 1000u,
        .seed = uw_rng_mix(c->seed, uw_name_id(c->name)), .link = c->link,
        .changed = uw_node_member_changed, .forget = uw_node_forget,
        .spares = s->members->spares, .wants = s->members->wants,
        .arg = s,
        .beacons = c->link->shared ? c->parts->frames->beacons : NULL,
        .addresses = c->own_addresses != NULL ? c->parts->addresses->members : NULL,
        .windows = c->parts->sleeps != NULL ? c->parts->sleeps->windows : NULL};
    return s->members->place(&s->membership, arena, &membership);
}

/* Floats of a slot of the ring, and of a chunk that is served. */
static uint32_t room_n(const struct uw_node_state *s)
{
    bool coded = s->config.code && s->config.link->frames;
    return coded ? uw_node_wide_n(s->chunk_n) : s->chunk_n;
}

/* Bytes of a whole round in the smallest chunks, as the largest useful window: on IP those of any
 * path, on frames those of the shortest frames. */
static size_t default_window(const struct uw_node_state *s)
{
    const struct uw_node_config *c = &s->config;
    uint32_t least_n = uw_min_u32(s->chunk_n, c->link->frames ? c->chunk_least_n : CHUNK_IP_N);
    uint64_t chunks = (c->params->size_n - 1u) / least_n + 1u;
    chunks *= c->mode == UW_NODE_BROADCAST ? c->members_max - 1u : 1u;
    chunks += c->pull_peers;        /* each takes a share, rounded up */
    uint64_t bytes = chunks * uw_gossip_slot_bytes(room_n(s));
    return bytes < WINDOW_DEFAULT_BYTES && !uw_node_needs_averages(c) ? (size_t)bytes
                                                              : WINDOW_DEFAULT_BYTES;
}

static int place_pull(struct uw_node_state *s, struct uw_arena *arena, uint32_t slots_n)
{
    const struct uw_node_config *c = &s->config;
    struct uw_pull *t = &s->pull.first.transfer;
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
        .pulls_n = c->pulls_n,
        .chunk_n = chunk_n, .slots_n = (uint32_t)slots,
        .adopt_only = (c->mode != UW_NODE_GOSSIP && !casts) || c->rule->over == UW_MIX_OVER_PAIRS,
        .holds = casts};
    bool sentences = c->parts->sentences != NULL || uw_node_needs_averages(c);
    size_t chunk_bytes = c->snapshot != NULL ? chunk_n * sizeof(float) : 0;
    void *part[9];
    const size_t bytes[9] = {
        s->buffer_bytes, chunk_bytes > sizeof *s->message ? chunk_bytes : sizeof *s->message,
        c->members_max * sizeof(uint16_t), c->members_max * sizeof(bool), c->members_max,
        sentences ? UW_NODE_TEXT_BYTES : 0, c->link->frames ? s->buffer_bytes : 0,
        c->on_event != NULL ? UW_NODE_QUIETS * sizeof *s->quiet : 0,
        c->members_max * sizeof *s->peers};
    int rc = place_members(s, arena);
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
        rc = uw_arena_take_each(arena, 9, bytes, part);
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
    s->peers = part[8];
    return set_up_parts(&s->config, NULL, s, arena);
}

static int refuse(struct uw_error *err, int rc, const struct uw_node_fault *fault)
{
    return uw_error_set(err, rc, "config.%s %s", fault->name, fault->sentence);
}

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    if (c->link == NULL) {
        return UW_NODE_FAULT(fault, link, "is missing");
    }
    if (c->params == NULL || c->params->size_n == 0) {
        return UW_NODE_FAULT(fault, params, "is missing");
    }
    int rc = uw_node_check_choices(c, fault);
    return rc < 0 || c->snapshot != NULL || !needs_snapshot(c)
               ? rc
               : UW_NODE_FAULT(fault, snapshot,
                               "is missing: this rule, mode or image needs it");
}

static int bind_all(struct uw_node *n, struct uw_node_state *spare,
                    const struct uw_node_members *members, const struct uw_node_config *config,
                    struct uw_arena *arena, struct uw_error *err)
{
    void *memory = NULL;
    struct uw_node_fault fault;
    int rc = check(config, &fault);
    if (rc < 0) {
        return refuse(err, rc, &fault);
    }
    rc = uw_arena_take(arena, sizeof(struct uw_node_state), &memory);
    if (rc < 0) {
        return uw_error_set(err, rc, "node: %s", uw_status_text(rc));
    }
    struct uw_node_state *s = memory != NULL ? memory : spare;
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->members = members;
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
    rc = s->members->check != NULL ? s->members->check(s, err) : UW_OK;
    n->state = rc == UW_OK ? memory : NULL;
    return rc;
}

static int measure(const struct uw_node_members *members, const struct uw_node_config *config,
                   size_t *bytes, struct uw_error *err)
{
    struct uw_arena arena;
    struct uw_node n = {NULL};
    struct uw_node_state spare;
    uw_arena_init(&arena, NULL, 0);
    int rc = bind_all(&n, &spare, members, config, &arena, err);
    *bytes = arena.used_bytes;
    return rc;
}

static int bind(struct uw_node *n, const struct uw_node_members *members,
                const struct uw_node_config *config, struct uw_arena *arena, struct uw_error *err)
{
    n->state = NULL;
    struct uw_node_fault fault;
    const struct uw_mix_rule *rule = config->rule;
    if (rule != NULL && rule->velocity && config->velocity == NULL) {
        UW_NODE_FAULT(&fault, velocity, "is missing: plan with mixing_velocity");
        return refuse(err, UW_ERR_INVALID, &fault);
    }
    if (rule != NULL && config->spare == NULL && config->params != NULL &&
        uw_node_spare_n(config->mode, rule, config->params->size_n) != 0) {
        UW_NODE_FAULT(&fault, spare, "is missing: see uw_node_spare_n");
        return refuse(err, UW_ERR_INVALID, &fault);
    }
    if (arena->base == NULL) {
        return uw_error_set(err, UW_ERR_INVALID, "node: a measuring arena needs uw_node_measure");
    }
    return bind_all(n, NULL, members, config, arena, err);
}

int uw_node_measure(const struct uw_node_config *config, size_t *bytes, struct uw_error *err)
{
    return measure(&uw_node_swim, config, bytes, err);
}

int uw_node_bind(struct uw_node *n, const struct uw_node_config *config, struct uw_arena *arena,
                 struct uw_error *err)
{
    return bind(n, &uw_node_swim, config, arena, err);
}

/* ---- static peers: pulls detect whether they are alive ---- */

static void step_list(struct uw_node_state *s)
{
    uw_member_list_step(&s->membership, s->outer_us);
}

static const struct uw_node_members members_of_list = {
    .place = uw_member_list_place, .next_us = uw_member_list_next_us,
    .heard = uw_member_list_heard, .doubt = uw_member_list_doubt, .step = step_list};

int uw_node_check_list(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    static const char wrong[] = "is not for static membership";
    uint32_t most = (c->members_max != 0 ? c->members_max : UW_NODE_MEMBERS_DEFAULT) - 1u;
    return c->mode != UW_NODE_GOSSIP
               ? UW_NODE_FAULT(fault, mode, "must be gossip with static peers")
           : c->schedule != NULL && c->schedule != &uw_peer_schedule_random
               ? UW_NODE_FAULT(fault, schedule, wrong)
           : c->agree                    ? UW_NODE_FAULT(fault, agree, wrong)
           : c->gradients != NULL        ? UW_NODE_FAULT(fault, gradients, wrong)
           : uw_node_needs_averages(c)   ? UW_NODE_FAULT(fault, rule, wrong)
           : c->samples != NULL          ? UW_NODE_FAULT(fault, samples, wrong)
           : c->sleep.period_us != 0     ? UW_NODE_FAULT(fault, sleep.period_us, wrong)
           : c->seeds_n - 1u >= most
               ? UW_NODE_FAULT(fault, seeds, "needs 1 or more, and fewer than members")
               : UW_OK;
}

static int check_list(const struct uw_node_config *config, struct uw_error *err)
{
    struct uw_node_fault fault;
    int rc = uw_node_check_list(config, &fault);
    return rc < 0 ? refuse(err, rc, &fault) : UW_OK;
}

int uw_node_measure_listed(const struct uw_node_config *config, size_t *bytes,
                           struct uw_error *err)
{
    int rc = check_list(config, err);
    return rc < 0 ? rc : measure(&members_of_list, config, bytes, err);
}

int uw_node_bind_listed(struct uw_node *n, const struct uw_node_config *config,
                        struct uw_arena *arena, struct uw_error *err)
{
    n->state = NULL;
    int rc = check_list(config, err);
    return rc < 0 ? rc : bind(n, &members_of_list, config, arena, err);
}
