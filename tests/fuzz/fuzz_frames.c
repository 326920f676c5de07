/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames into a secure channel of narrow links. As they come, from anybody: nothing is delivered.
 * Then encrypted by one who holds the run's key and says what it likes in it, also of whom it
 * answers: what is delivered is what it encrypted. Two honest devices go on talking. Inputs are
 * frames before their encryption, with room for the tag; numbers that are 0 become true ones. */
#include "fuzz.h"
#include "fuzz_form.h"

#include "secure/secure_frames_priv.h"

#include "uwasa/link_loopback.h"
#include "uwasa/rng.h"

#include <stdlib.h>
#include <string.h>

#define MTU 127u
#define MOST_BYTES 160u          /* longer than a frame can be */
#define SMALL 20u
#define FORGER 2u
#define FORGER_ID 0x1122334455667788u
#define OWN 1u
#define JOIN_BYTES 19u                  /* of a join before what is encrypted */
#define STEP_US 100000u
#define TALKS 400

static const uint8_t run_key[UW_KEY_BYTES] = {5};
static struct uw_loopback_hub hub;
static struct uw_link_loopback wire[3];
static struct uw_secure_frames ends[2];
static struct uw_frames_key *forged_key;
static uint32_t forged_epoch = UINT32_MAX;
static uint64_t forged_counter, now_us = 1000000;
static struct uw_rng entropy_rng;

static int entropy(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(&entropy_rng);
    }
    return 0;
}

static void open_world(void)
{
    static _Alignas(16) uint8_t hub_memory[1u << 16], memory[2][8192];
    const struct uw_loopback_config h = {.memory = hub_memory, .memory_bytes = sizeof hub_memory,
                                         .endpoints_n = 3, .mtu_bytes = MOST_BYTES};
    int bad = uw_loopback_hub_init(&hub, &h);
    for (uint16_t i = 0; i < 3; i++) {
        bad |= uw_link_loopback_init(&wire[i], &hub, i);
        wire[i].link.numbered = wire[i].link.shared = true;
        wire[i].link.own = i;
        wire[i].link.mtu_bytes = i == FORGER ? MOST_BYTES : MTU;
    }
    for (size_t i = 0; i < 2; i++) {
        struct uw_secure_frames_config c = {.lower = &wire[i].link, .run = "fuzz",
                                            .memory = memory[i], .entropy = entropy,
                                            .memory_bytes = sizeof memory[i], .peers_n = 4};
        memcpy(c.key, run_key, sizeof c.key);
        uw_link_deinit(&ends[i].link);
        bad |= uw_secure_frames_init(&ends[i], &c);
    }
    if (bad != 0) {
        abort();
    }
    forged_counter = 1;
}

static void empty(struct uw_link *l)
{
    uint8_t buf[MOST_BYTES];
    uint16_t from;
    while (uw_link_recv(l, &from, buf, sizeof buf) >= 0) {
    }
}

/* 1 when a message from end 0 reaches end 1 within some steps. */
static int talk(void)
{
    const uint8_t message[] = {UW_WIRE_VERSION << 4 | UW_WIRE_PING, 'h', 'i'};
    uint8_t buf[MTU];
    uint16_t from;
    for (int i = 0; i < TALKS; i++) {
        now_us += STEP_US / 10u;
        (void)uw_link_step(&ends[0].link, now_us);
        (void)uw_link_step(&ends[1].link, now_us);
        (void)uw_link_send(&ends[0].link, 1, message, sizeof message);
        (void)uw_link_recv(&ends[0].link, &from, buf, sizeof buf);
        int n = uw_link_recv(&ends[1].link, &from, buf, sizeof buf);
        if (n >= 0) {
            empty(&ends[1].link);
            return n == (int)sizeof message && from == 0 && memcmp(buf, message, 3) == 0;
        }
    }
    return 0;
}

/* ---- the forger ---- */

static uint64_t get_u40(const uint8_t *p)
{
    return uw_get_u32(p) | (uint64_t)p[4] << 32;
}

static void put_u40(uint8_t *p, uint64_t v)
{
    uw_put_u32(p, (uint32_t)v);
    p[4] = (uint8_t)(v >> 32);
}

/* Numbers that are 0 become those with which a join is a good one; identity 1 is that of end 0. */
static void fill_join(uint8_t *p, uint32_t bytes)
{
    if (uw_get_u32(p + 6) <= OWN && uw_get_u32(p + 10) == 0) {
        uint64_t id = uw_get_u32(p + 6) == OWN ? ends[0].id : FORGER_ID;
        uw_put_u32(p + 6, (uint32_t)id);
        uw_put_u32(p + 10, (uint32_t)(id >> 32));
    }
    if (get_u40(p + 14) == 0) {
        put_u40(p + 14, forged_counter++);
    }
    uint8_t *echo = p + JOIN_BYTES;
    if (bytes >= JOIN_BYTES + 14u + UW_CCM_TAG_BYTES) {
        if (uw_get_u32(echo) == 0 && uw_get_u32(echo + 4) == 0) {
            uw_put_u32(echo, (uint32_t)ends[0].id);
            uw_put_u32(echo + 4, (uint32_t)(ends[0].id >> 32));
        }
        if (get_u40(echo + 8) == 0) {
            put_u40(echo + 8, ends[0].counter - 1u);
        }
    }
}

/* Encrypt a frame where it lies. Returns whether it is long enough to be one. */
static bool seal_frame(uint8_t *p, uint32_t bytes)
{
    bool join = bytes > 0 && p[0] >> 4 == 0, all = bytes > 0 && (p[0] & UW_FRAMES_TO_ALL) != 0;
    uint32_t head = join ? JOIN_BYTES : UW_FRAMES_HEAD_BYTES;
    struct uw_ccm_frame f;
    if (bytes < head + UW_CCM_TAG_BYTES) {
        return false;
    }
    uint64_t id = FORGER_ID, counter = forged_counter;
    uint32_t epoch = ends[0].epoch;
    if (join) {
        fill_join(p, bytes);
        epoch = uw_get_u32(p + 2);
        id = uw_get_u32(p + 6) | (uint64_t)uw_get_u32(p + 10) << 32;
        counter = get_u40(p + 14);
    } else if (uw_get_u24(p + 1) == 0) {
        uw_put_u24(p + 1, (uint32_t)forged_counter++);
    } else {
        counter = uw_get_u24(p + 1);
    }
    if (epoch != forged_epoch &&
        uw_frames_key_derive(forged_key, run_key, "fuzz", epoch) != UW_OK) {
        abort();
    }
    forged_epoch = epoch;
    f.body = p + head;
    f.body_bytes = bytes - head - UW_CCM_TAG_BYTES;
    uw_frames_begin(&f, id, counter, FORGER, all ? UW_LINK_STATION_BROADCAST : 0, p, head);
    return uw_ccm_seal(forged_key, &f) == UW_OK;
}

static int hand_over(const uint8_t *frame, size_t bytes, uint8_t *buf, uint32_t cap_bytes)
{
    uint16_t from = FORGER;
    int n = UW_ERR_AGAIN;
    (void)uw_link_send(&wire[FORGER].link, 0, frame, (uint32_t)bytes);
    for (int i = 0; i < 3 && n == UW_ERR_AGAIN; i++) {
        n = uw_link_recv(&ends[0].link, &from, buf, cap_bytes);
    }
    empty(&wire[FORGER].link);
    return from == FORGER ? n : UW_ERR_INVALID;
}

/* Returns what is to be told apart, or -1. */
static int try_forged(const uint8_t *input, size_t bytes)
{
    uint8_t frame[MOST_BYTES], buf[MTU];
    uint32_t room = (bytes & 1u) != 0 ? MTU : SMALL;
    memcpy(frame, input, bytes);
    if (!seal_frame(frame, (uint32_t)bytes)) {
        return 0;
    }
    int n = hand_over(frame, bytes, buf, room);
    if (n < 0) {
        return n == UW_ERR_AGAIN || (n == UW_ERR_TOOBIG && bytes > room) ? 1 : -1;
    }
    bool same = n == (int)(bytes - UW_SECURE_FRAMES_OVERHEAD) && buf[0] >> 4 == UW_WIRE_VERSION &&
                (buf[0] & 15u) == (uint32_t)input[0] >> 4 &&
                memcmp(buf + 1, input + UW_FRAMES_HEAD_BYTES, (size_t)n - 1u) == 0;
    return same && uw_secure_frames_knows(&ends[0], FORGER) ? 2 : -1;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    static uint32_t tries;
    const uint8_t message[] = {UW_WIRE_VERSION << 4 | UW_WIRE_PING, 'x'};
    uint8_t buf[MTU];
    uint16_t from;
    now_us += STEP_US;
    (void)uw_link_step(&ends[0].link, now_us);
    (void)uw_link_step(&ends[1].link, now_us);
    uint16_t to = tries % 2u != 0 ? UW_LINK_STATION_BROADCAST : 1;
    (void)uw_link_send(&ends[0].link, to, message, sizeof message);     /* it counts on, ... */
    empty(&ends[1].link);
    (void)uw_link_send(&wire[0].link, 0, ends[0].out,
                       sizeof message + UW_SECURE_FRAMES_OVERHEAD);     /* ... and hears itself */
    if (uw_link_recv(&ends[0].link, &from, buf, sizeof buf) != UW_ERR_AGAIN) {
        return -1;
    }
    if (hand_over(input, bytes, buf, sizeof buf) != UW_ERR_AGAIN) {
        return -1;
    }
    (void)uw_link_send(&wire[0].link, 0, input, (uint32_t)bytes);   /* as if from itself */
    if (uw_link_recv(&ends[0].link, &from, buf, sizeof buf) != UW_ERR_AGAIN) {
        return -1;
    }
    int known = uw_secure_frames_knows(&ends[0], FORGER);
    const struct uw_secure_frames_stats before = ends[0].stats;
    int forged = try_forged(input, bytes);
    if (forged < 0) {
        return -1;
    }
    int outcome = forged + 4 * known + 8 * (ends[0].stats.replayed_n != before.replayed_n) +
                  16 * (ends[0].stats.refused_n != before.refused_n) +
                  32 * (ends[0].stats.joined_n != before.joined_n);
    if (ends[0].epoch > 3) {
        open_world();           /* whoever holds the key may use up epochs */
    }
    return tries++ % 64 == 0 && !talk() ? -1 : outcome;
}

/* ---- inputs ---- */

/* id: 0 or OWN. counter 0: the forger's next. */
static void add_join(struct uw_fuzz_corpus *corpus, uint8_t kind, uint32_t epoch, uint32_t id,
                     uint64_t counter)
{
    uint8_t p[MTU] = {(uint8_t)(epoch & UW_FRAMES_EPOCH_MASK), kind};
    uint32_t body = kind == 1 ? 0 : 14;
    uw_put_u32(p + 2, epoch);
    uw_put_u32(p + 6, id);
    put_u40(p + 14, counter);
    uw_fuzz_add(corpus, p, JOIN_BYTES + body + UW_CCM_TAG_BYTES);
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    uint8_t p[MOST_BYTES] = {UW_WIRE_PING << 4, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'};
    forged_key = calloc(1, uw_frames_key_bytes());
    if (forged_key == NULL) {
        abort();
    }
    uw_rng_seed(&entropy_rng, 1);
    open_world();
    add_join(corpus, 1, 0, 0, 0);
    add_join(corpus, 2, 0, 0, 0);
    uw_fuzz_add(corpus, p, 5u + UW_FRAMES_HEAD_BYTES + UW_CCM_TAG_BYTES);
    add_join(corpus, 3, 0, 0, 0);
    p[0] |= UW_FRAMES_TO_ALL;
    uw_fuzz_add(corpus, p, MTU);
    uw_fuzz_add(corpus, p, MTU - 1u);
    uw_fuzz_add(corpus, p, MOST_BYTES);
    add_join(corpus, 1, 1, 0, 0);
    add_join(corpus, 2, 1, 0, 0);
    add_join(corpus, 1, 0, OWN, 1);
    add_join(corpus, 2, 0, OWN, 2);
    add_join(corpus, 1, 0, OWN, 1u << 20);
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {{0, 1}, {1, 1}, {1, 3}, {2, 4}, {6, 8}, {14, 5},
                                                  {19, 8}, {27, 5}, {32, 1}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"frames", add_inputs, try_one, MOST_BYTES};
    int rc = uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, NULL}, argc, argv);
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(&ends[i].link);
    }
    if (forged_key != NULL) {
        uw_frames_key_wipe(forged_key);
    }
    free(forged_key);
    return rc;
}
