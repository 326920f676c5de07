/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/radio_world.h"

static struct radio_world *of(const struct world_node *n)
{
    return (struct radio_world *)n->world->user;
}

static int no_chance(void *user, uint8_t *out, size_t bytes)
{
    struct uw_rng *rng = user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(rng);
    }
    return 0;
}

/* The link of a profile's radio, over what is emulated. */
static struct uw_link *link_below(struct world_node *n)
{
    struct radio_world *r = of(n);
    struct radio_link *l = &r->links[n->place];
    if (r->profile.frame_bytes == 0) {
        n->emulated.link.rate_bits_per_s =
            (uint64_t)RADIO_BITS_PER_S * n->emulated.link.mtu_bytes /
            (RADIO_FRAME_BYTES + RADIO_PHY_BYTES);
        return &n->emulated.link;
    }
    const struct uw_radio_link_config c = {
        .lower = &n->emulated.link, .medium = &r->medium, .duty_ppm = r->profile.duty_ppm,
        .no_broadcasts = !r->profile.broadcasts};
    assert_int_equal(uw_radio_link_init(&l->radio, &c), UW_OK);
    const struct uw_link_frame_config f = {.radio = &l->radio.base};
    assert_int_equal(uw_link_frame_init(&l->frame, &f), UW_OK);
    return &l->frame.link;
}

static struct uw_link *frames_above(struct world_node *n)
{
    struct radio_world *r = of(n);
    struct radio_link *l = &r->links[n->place];
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_rng_mix(n->world->seed, (uint64_t)n->world->incarnation << 8 | n->place));
    n->emulated.link.shared = true;
    struct uw_secure_frames_config c = {
        .lower = link_below(n), .run = "radio", .id = l->id, .store = l->store,
        .epoch_frames = r->epoch_frames, .reserve_n = r->reserve_n,
        .entropy = no_chance, .user = &rng};
    memcpy(c.key, r->key, sizeof c.key);
    c.memory_bytes = uw_secure_frames_bytes(&c);
    c.memory = l->memory = malloc(c.memory_bytes);
    assert_non_null(l->memory);
    assert_int_equal(uw_secure_frames_init(&l->frames, &c), UW_OK);
    return &l->frames.link;
}

static void frames_down(struct world_node *n)
{
    struct radio_link *l = &of(n)->links[n->place];
    uw_link_deinit(&l->frames.link);
    uw_link_deinit(&l->frame.link);
    free(l->memory);
}

static struct radio_world *world_of(uint32_t n, uint32_t size_n, uint32_t mtu_bytes, float loss)
{
    struct radio_world *r = calloc(1, sizeof *r);
    assert_non_null(r);
    struct world *w = world_new(n, size_n, mtu_bytes);
    r->w = w;
    w->medium = &r->medium;
    w->queue_n = RADIO_QUEUE;
    w->user = r;
    w->impairment = (struct uw_impairment){0};
    w->arriving.loss = loss;
    w->above = frames_above;
    w->above_down = frames_down;
    w->config.seeds_n = 0;
    return r;
}

struct radio_world *radio_world_new(uint32_t n, uint32_t size_n, float loss)
{
    struct radio_world *r = world_of(n, size_n, RADIO_FRAME_BYTES - RADIO_MAC_BYTES, loss);
    r->medium = (struct uw_emulated_medium){
        .rate_bits_per_s = RADIO_BITS_PER_S,
        .overhead_bytes = RADIO_MAC_BYTES + RADIO_PHY_BYTES};
    return r;
}

struct radio_world *radio_world_of(const char *profile, uint32_t n, uint32_t size_n, float loss)
{
    struct uw_radio_profile p;
    assert_int_equal(uw_radio_profile_find(profile, &p), UW_OK);
    struct radio_world *r = world_of(n, size_n, p.frame_bytes, loss);
    r->profile = p;
    uw_radio_profile_medium(&r->profile, &r->medium);
    return r;
}

void radio_world_free(struct radio_world *r)
{
    world_free(r->w);
    free(r);
}

static int jammed_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    (void)l;
    (void)to;
    (void)buf;
    (void)buf_bytes;
    return UW_ERR_AGAIN;
}

void radio_jam(struct radio_world *r, uint32_t i, bool jam)
{
    static const struct uw_link_ops *free_ops;
    static struct uw_link_ops jammed_ops;
    struct uw_link *l = &r->w->nodes[i].emulated.link;
    free_ops = l->ops != &jammed_ops ? l->ops : free_ops;
    jammed_ops = *free_ops;
    jammed_ops.send = jammed_send;
    l->ops = jam ? &jammed_ops : free_ops;
}

void radio_narrow(struct radio_world *r, uint32_t i, uint32_t frame_bytes)
{
    r->w->nodes[i].emulated.link.mtu_bytes = frame_bytes - RADIO_MAC_BYTES;
}

void radio_adapt(struct radio_world *r, const char *profile)
{
    struct uw_radio_profile p;
    assert_int_equal(uw_radio_profile_find(profile, &p), UW_OK);
    r->profile = p;
    for (uint32_t i = 0; i < r->w->n; i++) {
        r->links[i].radio.base.frame_bytes = p.frame_bytes;
    }
}

double radio_capacity_bytes(uint64_t us)
{
    double frame_us = (RADIO_FRAME_BYTES + RADIO_PHY_BYTES) * 8e6 / RADIO_BITS_PER_S;
    return (double)us / frame_us * RADIO_FRAME_BYTES;
}
