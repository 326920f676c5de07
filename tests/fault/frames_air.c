/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/frames_air.h"

#include "wire/wire.h"

#define STEP_US 10000u
#define NONCES (1u << 18)

/* ---- the air as a link ---- */

static struct air_node *self(struct uw_link *l)
{
    return (struct air_node *)l;        /* base is the first member */
}

static uint16_t station_of(const struct air_node *n)
{
    return n->lower.own;
}

/* Taken down in full; the frame has the counter's low part only. */
static void note_nonce(struct air_node *n, const uint8_t *frame)
{
    struct air *a = n->air;
    const struct uw_secure_frames *s = &n->frames;
    uint64_t counter = s->counter - 1u;
    uint32_t low = frame[0] >> 4 == 0 ? uw_get_u24(frame + 14) : uw_get_u24(frame + 1);
    assert_int_equal(low, counter & 0xffffffu);
    uint32_t at = (uint32_t)uw_rng_mix(s->id, counter) % NONCES;
    for (; a->nonces[at].id != 0; at = (at + 1u) % NONCES) {
        if (a->nonces[at].id == s->id && a->nonces[at].counter == counter) {
            if (a->copies) {
                a->twice_n++;
                return;
            }
            fail_msg("nonce %llu of %llx went out twice", (unsigned long long)counter,
                     (unsigned long long)s->id);
        }
    }
    a->nonces[at] = (struct air_nonce){s->id, counter};
    assert_true(++a->nonces_n < NONCES / 2u);
}

static uint32_t tape(struct air *a, uint16_t from, uint16_t to, const void *data, uint32_t bytes)
{
    if (a->tape_n == a->tape_cap) {
        a->tape_cap = a->tape_cap * 2u + 1024u;
        a->tape = realloc(a->tape, a->tape_cap * sizeof *a->tape);
        assert_non_null(a->tape);
    }
    struct air_frame *f = &a->tape[a->tape_n];
    *f = (struct air_frame){.from = from, .to = to, .bytes = bytes, .data = malloc(bytes + 1u)};
    assert_non_null(f->data);
    memcpy(f->data, data, bytes);
    return a->tape_n++;
}

void air_deliver(struct air *a, uint32_t frame, uint16_t at)
{
    struct air_node *n = &a->node[at];
    if (n->up && n->ring_n < AIR_RING) {
        n->ring[(n->ring_at + n->ring_n++) % AIR_RING] = frame;
    }
}

static void spread(struct air *a, uint32_t frame, uint32_t speaker)
{
    const struct air_frame *f = &a->tape[frame];
    for (uint16_t i = 0; i < AIR_STATIONS; i++) {
        bool all = f->to == UW_LINK_STATION_BROADCAST && speaker != i;
        bool meant = f->to == station_of(&a->node[i]) || all || (a->echo && speaker == i);
        if (meant && uw_rng_uniform(&a->rng) >= a->loss) {
            air_deliver(a, frame, i);
        }
    }
}

static int air_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct air_node *n = self(l);
    if (n->jammed) {
        return UW_ERR_AGAIN;
    }
    note_nonce(n, buf);
    uint32_t frame = tape(n->air, station_of(n), to, buf, buf_bytes);
    if (!n->air->held) {
        spread(n->air, frame, (uint32_t)(n - n->air->node));
    }
    return UW_OK;
}

static int air_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct air_node *n = self(l);
    if (n->ring_n == 0) {
        return UW_ERR_AGAIN;
    }
    const struct air_frame *f = &n->air->tape[n->ring[n->ring_at]];
    n->ring_at = (n->ring_at + 1u) % AIR_RING;
    n->ring_n--;
    if (f->bytes > cap_bytes) {
        return UW_ERR_TOOBIG;
    }
    memcpy(buf, f->data, f->bytes);
    *from = f->from;
    return (int)f->bytes;
}

static uint64_t air_step(struct uw_link *l, uint64_t now_us)
{
    (void)l;
    (void)now_us;
    return UINT64_MAX;
}

static int air_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    (void)l;
    snprintf(text, UW_LINK_ADDRESS_BYTES, "%u", (unsigned)station);
    return UW_OK;
}

static void air_deinit(struct uw_link *l)
{
    l->ops = NULL;
}

static const struct uw_link_ops air_ops = {
    .name = "air", .describe = air_describe, .send = air_send, .recv = air_recv, .step = air_step,
    .deinit = air_deinit};

/* ---- stations ---- */

struct air *air_new(uint64_t seed, uint32_t mtu_bytes)
{
    struct air *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->nonces = calloc(NONCES, sizeof *a->nonces);
    assert_non_null(a->nonces);
#ifdef UW_TEST_SECURE_BOARD
    a->tls = malloc(AIR_TLS_BYTES);
    assert_non_null(a->tls);
    uw_secure_memory_init(a->tls, AIR_TLS_BYTES);
#endif
    a->seed = seed;
    a->now_us = 1000000;
    uw_rng_seed(&a->rng, seed);
    for (uint16_t i = 0; i < AIR_STATIONS; i++) {
        a->node[i].air = a;
        a->node[i].lower = (struct uw_link){
            .ops = &air_ops, .mtu_bytes = mtu_bytes, .shared = true, .numbered = true, .own = i,
            .fd = -1};
    }
    return a;
}

void air_free(struct air *a)
{
    for (uint16_t i = 0; i < AIR_STATIONS; i++) {
        if (a->node[i].up) {
            air_down(a, i);
        }
    }
    for (uint32_t i = 0; i < a->tape_n; i++) {
        free(a->tape[i].data);
    }
    free(a->tape);
    free(a->nonces);
    free(a->tls);
    free(a);
}

static int chance(void *user, uint8_t *out, size_t bytes)
{
    struct air_node *n = user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(&n->entropy);
    }
    return 0;
}

static void on_event(void *user, const struct uw_secure_event *event)
{
    struct air_node *n = user;
    n->events[event->kind]++;
    snprintf(n->text[event->kind], UW_SECURE_TEXT_BYTES, "%s", event->text);
}

int air_try(struct air *a, uint16_t i, const struct uw_secure_frames_config *c)
{
    static const struct uw_secure_frames_config plain;
    static const uint8_t no_key[UW_KEY_BYTES];
    struct air_node *n = &a->node[i];
    struct uw_secure_frames_config config = c != NULL ? *c : plain;
    assert_false(n->up);
    uw_rng_seed(&n->entropy, uw_rng_mix(uw_rng_mix(a->seed, a->now_us), i));
    config.lower = &n->lower;
    if (memcmp(config.key, no_key, sizeof no_key) == 0) {
        memset(config.key, 7, sizeof config.key);
    }
    config.run = config.run != NULL ? config.run : "air";
    config.entropy = config.entropy != NULL ? config.entropy : chance;
    config.event = on_event;
    config.user = n;
    config.memory_bytes = uw_secure_frames_bytes(&config);
    config.memory = n->memory = uw_test_block(config.memory_bytes);
    int rc = uw_secure_frames_init(&n->frames, &config);
    n->ring_n = 0;
    if (rc < 0) {
        uw_test_release(n->memory);
        return rc;
    }
    n->up = true;
    (void)uw_link_step(&n->frames.link, a->now_us);
    return UW_OK;
}

struct air_node *air_up(struct air *a, uint16_t i, const struct uw_secure_frames_config *c)
{
    assert_int_equal(air_try(a, i, c), UW_OK);
    return &a->node[i];
}

void air_down(struct air *a, uint16_t i)
{
    struct air_node *n = &a->node[i];
    uw_link_deinit(&n->frames.link);
    uw_test_release(n->memory);
    n->up = false;
}

/* ---- messages ---- */

static uint8_t content(uint32_t number, uint32_t i)
{
    return (uint8_t)(number * 7u + i * 13u + (i >> 8));
}

int air_say(struct air *a, uint16_t from, uint16_t to, uint32_t bytes)
{
    uint8_t buf[UW_SECURE_FRAMES_LOWER_MAX + 1u];
    uint32_t number = a->number + 1u;
    assert_true(number < AIR_NUMBERS && bytes >= AIR_MESSAGE_MIN && bytes <= sizeof buf);
    buf[0] = uw_wire_first((enum uw_wire_type)(number % 15u + 1u));
    uw_put_u24(buf + 1, number);
    for (uint32_t i = AIR_MESSAGE_MIN; i < bytes; i++) {
        buf[i] = content(number, i);
    }
    int rc = uw_link_send(&a->node[from].frames.link, to, buf, bytes);
    a->number += rc == UW_OK;
    return rc;
}

static void listen_once(struct air_node *n, const uint8_t *buf, uint32_t bytes)
{
    assert_true(bytes >= AIR_MESSAGE_MIN);
    uint32_t number = uw_get_u24(buf + 1);
    assert_true(number < AIR_NUMBERS);
    assert_int_equal(buf[0], uw_wire_first((enum uw_wire_type)(number % 15u + 1u)));
    for (uint32_t i = AIR_MESSAGE_MIN; i < bytes; i++) {
        assert_int_equal(buf[i], content(number, i));
    }
    if (n->got[number]++ != 0) {
        fail_msg("station %u got message %u twice", (unsigned)station_of(n), (unsigned)number);
    }
    n->got_n++;
}

void air_run(struct air *a, uint64_t us)
{
    uint8_t buf[UW_SECURE_FRAMES_LOWER_MAX];
    for (uint64_t end_us = a->now_us + us; a->now_us < end_us;) {
        a->now_us += STEP_US;
        for (uint16_t i = 0; i < AIR_STATIONS; i++) {
            struct air_node *n = &a->node[i];
            uint16_t from;
            int bytes = UW_ERR_AGAIN;
            if (n->up) {
                (void)uw_link_step(&n->frames.link, a->now_us);
                bytes = uw_link_recv(&n->frames.link, &from, buf, sizeof buf);
            }
            for (; bytes >= 0; bytes = uw_link_recv(&n->frames.link, &from, buf, sizeof buf)) {
                listen_once(n, buf, (uint32_t)bytes);
            }
            assert_int_equal(bytes, UW_ERR_AGAIN);
        }
    }
}

uint64_t air_talk(struct air *a, uint16_t from, uint16_t to, uint64_t limit_us)
{
    uint64_t began_us = a->now_us;
    uint32_t before = a->node[to].got_n;
    while (a->node[to].got_n == before) {
        if (a->now_us - began_us > limit_us) {
            fail_msg("no talk from %u to %u, seed %llu", (unsigned)from, (unsigned)to,
                     (unsigned long long)a->seed);
        }
        (void)air_say(a, from, to, 20);
        air_run(a, 50000);
    }
    return a->now_us - began_us;
}

struct air *air_of_two(uint64_t seed, uint32_t mtu_bytes)
{
    struct air *a = air_new(seed, mtu_bytes);
    air_up(a, 0, NULL);
    air_up(a, 1, NULL);
    (void)air_talk(a, 0, 1, 1000000u);
    (void)air_talk(a, 1, 0, 1000000u);
    air_run(a, 1000000u);
    return a;
}

uint32_t air_forge(struct air *a, uint16_t from, uint16_t to, const void *data, uint32_t bytes)
{
    uint32_t frame = tape(a, from, to, data, bytes);
    spread(a, frame, from);
    return frame;
}

void air_replay(struct air *a, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        spread(a, i, a->tape[i].from);
    }
}
