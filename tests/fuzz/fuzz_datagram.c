/* SPDX-License-Identifier: Apache-2.0
 *
 * Datagrams into a secure channel, from the address of a peer whose session is up: whatever they
 * are, nothing is delivered, the session lives, and a real message still passes. The corpus is
 * what two channels said to each other. Then the same bytes from the peer itself, encrypted: they
 * are delivered as they are behind the byte that marks a message, and else dropped. And from one
 * who is being called, whose handshake they disturb. */
#include "fuzz.h"
#include "fuzz_form.h"

#include "secure/secure_slots.h"

#include "uwasa/link_loopback.h"
#include "uwasa/rng.h"
#include "uwasa/secure.h"

#include <stdlib.h>
#include <string.h>

#define MTU 1232u
#define MIDDLE 2u               /* both ends believe their peer to be here */
#define CALLED 3u               /* end 0 calls, and it never answers well */
#define WIRES 4u

static struct uw_loopback_hub hub;
static struct uw_link_loopback wire[WIRES];
static struct uw_secure_dtls ends[2];
static struct uw_rng entropy_rng;
static uint64_t now_us = 1000000;

static int entropy(void *user, uint8_t *out, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)uw_rng_u32(&entropy_rng);
    }
    return 0;
}

/* Carry everything that waits at the middle to the other side, and keep a copy. */
static void relay(struct uw_fuzz_corpus *corpus)
{
    uint8_t buf[MTU];
    uint16_t from;
    int n;
    while ((n = uw_link_recv(&wire[MIDDLE].link, &from, buf, sizeof buf)) >= 0) {
        if (corpus != NULL) {
            uw_fuzz_add(corpus, buf, (size_t)n);
        }
        (void)uw_link_send(&wire[MIDDLE].link, from == 0 ? 1 : 0, buf, (uint32_t)n);
    }
}

/* 1 when a message sent by end 0 reaches end 1 within some steps. */
static int talk(struct uw_fuzz_corpus *corpus)
{
    uint8_t buf[MTU];
    uint16_t from;
    int sent = 0;
    for (int i = 0; i < 200; i++) {
        now_us += 1000;
        (void)uw_link_step(&ends[0].link, now_us);
        (void)uw_link_step(&ends[1].link, now_us);
        if (!sent) {
            sent = uw_link_send(&ends[0].link, MIDDLE, "hello", 5) == UW_OK;
        }
        relay(corpus);
        (void)uw_link_recv(&ends[0].link, &from, buf, sizeof buf);
        if (uw_link_recv(&ends[1].link, &from, buf, sizeof buf) == 5) {
            return memcmp(buf, "hello", 5) == 0;
        }
    }
    return 0;
}

static void *memory(size_t bytes)
{
    void *p = malloc(bytes);
    if (p == NULL) {
        abort();
    }
    return p;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    struct uw_loopback_config c = {.endpoints_n = WIRES, .mtu_bytes = MTU};
    c.memory_bytes = uw_loopback_hub_bytes(&c);
    c.memory = memory(c.memory_bytes);
    uw_rng_seed(&entropy_rng, 1);
    int bad = uw_loopback_hub_init(&hub, &c);
    for (uint16_t i = 0; i < WIRES; i++) {
        bad |= uw_link_loopback_init(&wire[i], &hub, i);
    }
    for (size_t i = 0; i < 2; i++) {
        struct uw_secure_dtls_config d = {.lower = &wire[i].link, .identity = "fuzz", .key = {1},
                                          .entropy = entropy};
        d.memory_bytes = uw_secure_dtls_bytes(&d);
        d.memory = memory(d.memory_bytes);
        bad |= uw_secure_dtls_init(&ends[i], &d);
    }
    if (bad != 0 || !talk(corpus) || !talk(corpus)) {
        abort();
    }
}

/* What the peer encrypts, without the mark that the channel puts in front: 0, or -1. */
static int try_inside(const uint8_t *input, size_t bytes)
{
    uint8_t buf[MTU];
    uint16_t from;
    struct uw_secure_slot *slot = uw_secure_find(&ends[1], MIDDLE, UW_SECURE_UP);
    if (slot == NULL || bytes == 0 || bytes > ends[1].link.mtu_bytes) {
        return slot != NULL ? 0 : -1;
    }
    if (uw_tls_write(slot->tls, input, (uint32_t)bytes) != UW_OK) {
        return -1;
    }
    relay(NULL);
    int n = uw_link_recv(&ends[0].link, &from, buf, sizeof buf);
    if (input[0] != UW_SECURE_MESSAGE_MARK) {
        return n == UW_ERR_AGAIN ? 0 : -1;
    }
    return n == (int)bytes - 1 && memcmp(buf, input + 1, bytes - 1u) == 0 ? 0 : -1;
}

/* While a handshake with the sender is under way: 0, or -1. */
static int try_called(const uint8_t *input, size_t bytes)
{
    uint8_t buf[MTU];
    uint16_t from;
    int rc = uw_link_send(&ends[0].link, CALLED, "x", 1);
    (void)uw_link_send(&wire[CALLED].link, 0, input, (uint32_t)bytes);
    if (rc == UW_OK || uw_link_recv(&ends[0].link, &from, buf, sizeof buf) != UW_ERR_AGAIN ||
        uw_secure_dtls_is_up(&ends[0], CALLED)) {
        return -1;
    }
    while (uw_link_recv(&wire[CALLED].link, &from, buf, sizeof buf) >= 0) {
    }
    return 0;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    static uint32_t tries;
    uint8_t buf[MTU];
    uint16_t from;
    struct uw_secure_dtls *s = &ends[0];
    struct uw_secure_dtls_stats before = s->stats;
    now_us += 20000;
    (void)uw_link_step(&s->link, now_us);
    (void)uw_link_send(&wire[MIDDLE].link, 0, input, (uint32_t)bytes);
    if (uw_link_recv(&s->link, &from, buf, sizeof buf) != UW_ERR_AGAIN ||
        !uw_secure_dtls_is_up(s, MIDDLE)) {
        return -1;
    }
    while (uw_link_recv(&wire[MIDDLE].link, &from, buf, sizeof buf) >= 0) {
    }
    if (try_inside(input, bytes) < 0 || try_called(input, bytes) < 0 ||
        (tries++ % 64 == 0 && !talk(NULL))) {
        return -1;
    }
    return (s->stats.strangers_n != before.strangers_n) |
           (s->stats.limited_n != before.limited_n) << 1 |
           (s->stats.stray_n != before.stray_n) << 2 |
           (s->stats.failed_n != before.failed_n) << 3 |
           (s->stats.refused_n != before.refused_n) << 4;
}

/* Of a record, and of the hello in it. */
static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {
        {0, 1, true}, {1, 2, true}, {3, 2, true}, {5, 6, true}, {11, 2, true}, {13, 1, true},
        {14, 3, true}, {17, 2, true}, {19, 3, true}, {22, 3, true}, {59, 1, true}, {60, 1, true},
        {61, 1, true}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"datagram", add_inputs, try_one, MTU};
    int rc = uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, NULL}, argc, argv);
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(&ends[i].link);
    }
    return rc;
}
