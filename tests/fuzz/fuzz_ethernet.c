/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames into lwIP as boards have it: whatever arrives, only UDP for its port is delivered, no
 * buffer is lost, and a real message still passes. The corpus: what two ends say. */
#include "ethernet_memory.h"
#include "fuzz.h"

#include <stdlib.h>

#define ADDRESS_A "10.0.0.1/24:4433"
#define ADDRESS_B "10.0.0.2/24:4433"

static struct ethernet_memory card[2];
static struct uw_link_lwip end[2];
static uint16_t to[2];
static uint64_t now_us = 1000000;
static struct uw_fuzz_corpus *listener;

/* 1 when a message from each end reaches the other. */
static int talk(void)
{
    uint8_t buf[UW_LINK_LWIP_MTU_MAX];
    uint16_t from;
    int arrived = 0;
    for (size_t at = 0; at < 2; at++) {
        while (uw_link_recv(&end[at].link, &from, buf, sizeof buf) != UW_ERR_AGAIN) {
        }
        (void)uw_link_send(&end[at].link, to[at], "hello", 5);
    }
    for (int i = 0; i < 400 && arrived != 3; i++) {
        now_us += 20000;                /* an address may have to be asked for anew */
        for (size_t at = 0; at < 2; at++) {
            (void)uw_link_step(&end[at].link, now_us);
            for (uint32_t k = 0; listener != NULL && k < card[at].n; k++) {
                uint32_t slot = (card[at].first + k) % ETHERNET_FRAMES;
                uw_fuzz_add(listener, card[at].frame[slot], card[at].bytes[slot]);
            }
            int n = uw_link_recv(&end[at].link, &from, buf, sizeof buf);
            arrived |= n == 5 && memcmp(buf, "hello", 5) == 0 ? 1 << at : 0;
        }
        if (i % 50 == 49) {
            (void)uw_link_send(&end[0].link, to[0], "hello", 5);
            (void)uw_link_send(&end[1].link, to[1], "hello", 5);
        }
    }
    return arrived == 3;
}

static int open_end(size_t i)
{
    struct uw_link_lwip_config c = {.ethernet = &card[i].base,
                                    .address = i == 0 ? ADDRESS_A : ADDRESS_B};
    c.memory_bytes = uw_link_lwip_bytes_a(&c);
    c.memory = malloc(c.memory_bytes);
    int rc = i == 0 ? uw_link_lwip_init_a(&end[0], &c, NULL)
                    : uw_link_lwip_init_b(&end[1], &c, NULL);
    return rc != UW_OK || uw_link_resolve(&end[i].link, i == 0 ? "10.0.0.2:4433" : "10.0.0.1:4433",
                                          &to[i]) != UW_OK;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    /* A question for our address, an echo request, and what IP allows and lwIP here does not:
     * options, a fragment. */
    static const uint8_t question[] = {
        255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1,
        2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1};
    static const uint8_t echo[] = {
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 1, 0x66, 0xda,
        10, 0, 0, 2, 10, 0, 0, 1, 8, 0, 0xf3, 0xf9, 0, 0, 0, 0, 1, 2, 3, 4};
    static const uint8_t options[] = {
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x46, 0, 0, 36, 0, 1, 0x20, 0, 64, 17, 0x3a, 0xc2,
        10, 0, 0, 2, 10, 0, 0, 1, 7, 4, 4, 0, 0x11, 0x51, 0x11, 0x51, 0, 12, 0, 0, 1, 2, 3, 4};
    ethernet_memory_init(&card[0], &card[1], 1);
    ethernet_memory_init(&card[1], &card[0], 2);
    listener = corpus;
    if (open_end(0) || open_end(1) || !talk() || !talk()) {
        abort();
    }
    listener = NULL;
    uw_fuzz_add(corpus, question, sizeof question);
    uw_fuzz_add(corpus, echo, sizeof echo);
    uw_fuzz_add(corpus, options, sizeof options);
}

static int try_one(const uint8_t *input, size_t bytes)
{
    static uint32_t tries;
    uint8_t buf[UW_LINK_LWIP_MTU_MAX];
    uint16_t from;
    uint32_t sent_n = card[0].sent_n;
    now_us += 1000;
    (void)uw_link_step(&end[0].link, now_us);
    card[0].other = NULL;               /* what it answers tells nobody */
    ethernet_memory_arrive(&card[0], input, (uint32_t)bytes);
    int n = uw_link_recv(&end[0].link, &from, buf, sizeof buf);
    card[0].other = &card[1];
    if (n >= 0 && (bytes < 42u || (size_t)n > bytes - 42u)) {
        return -1;                      /* it has read what did not arrive */
    }
    if (tries++ % 64 == 0 && !talk()) {
        return -1;
    }
    return (n >= 0) | (card[0].sent_n != sent_n) << 1;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"ethernet", add_inputs, try_one, UW_ETHERNET_FRAME_MAX};
    return uw_fuzz_run(&target, argc, argv);
}
