/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that a board takes over its second UART: whatever messages come, what it holds is whole
 * and of a class, in its own memory, and every message has an answer. */
#include "fuzz.h"

#include "samples.h"

#include <stdlib.h>
#include <string.h>

#define PIXELS 6u
#define SAMPLE (1u + PIXELS)
#define ROOM 3u
#define CLASSES 4u
#define ANSWER 25u

/* The input as a link: a byte that tells a message's length, then the message. */
struct lines {
    struct uw_link link;
    const uint8_t *at, *end;
    uint32_t answers_n;
    uint8_t answer[ANSWER];
};

static int line_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t bytes)
{
    struct lines *l = (struct lines *)link;
    l->answers_n += to == 0 && bytes == ANSWER;
    memcpy(l->answer, buf, bytes < ANSWER ? bytes : ANSWER);
    return UW_OK;
}

static int line_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct lines *l = (struct lines *)link;
    size_t left = (size_t)(l->end - l->at);
    if (left == 0) {
        return UW_ERR_AGAIN;
    }
    uint32_t bytes = *l->at < left - 1u ? *l->at : (uint32_t)left - 1u;
    bytes = bytes < cap_bytes ? bytes : cap_bytes;
    *from = 0;
    memcpy(buf, l->at + 1, bytes);
    l->at += 1u + bytes;
    return (int)bytes;
}

static uint64_t line_step(struct uw_link *link, uint64_t now_us)
{
    (void)link;
    return now_us;
}

static const struct uw_link_ops ops = {
    .name = "lines", .send = line_send, .recv = line_recv, .step = line_step};

static uint32_t put(uint8_t *out, uint32_t position, const uint8_t *data, uint32_t n)
{
    const uint8_t head[] = {(uint8_t)(5u + n), 'D', (uint8_t)position, 0, 0, 0};
    memcpy(out, head, sizeof head);
    memcpy(out + sizeof head, data, n);
    return (uint32_t)sizeof head + n;
}

/* Whole samples, then in parts, one twice, one of no class, and a sender that begins anew. */
static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const uint8_t sample[SAMPLE] = {3, 0, 1, 127, 128, 254, 255};
    static const uint8_t none[SAMPLE] = {CLASSES};
    static const uint8_t hello[] = {1, 'H'};
    uint8_t text[300];
    for (uint32_t part = 1; part <= SAMPLE; part += 3u) {
        uint32_t n = 0;
        memcpy(text, hello, sizeof hello);
        n += (uint32_t)sizeof hello;
        for (uint32_t at = 0; at < SAMPLE; at += part) {
            uint32_t bytes = SAMPLE - at < part ? SAMPLE - at : part;
            n += put(text + n, at, sample + at, bytes);
            n += put(text + n, at, sample + at, bytes);
        }
        n += put(text + n, SAMPLE, none, SAMPLE);
        n += put(text + n, 2u * SAMPLE, sample, SAMPLE);
        uw_fuzz_add(corpus, text, n);
    }
}

static int check(const struct uw_samples *s)
{
    float x[PIXELS];
    uint32_t label;
    int good = s->held <= ROOM && s->at < s->sample_bytes && s->filling <= ROOM;
    for (uint32_t i = 0; i < s->held && good; i++) {
        good = s->base.ops->read((struct uw_dataset *)&s->base, i, x, &label) == UW_OK &&
               label < CLASSES;
        for (uint32_t k = 0; k < PIXELS && good; k++) {
            good = x[k] >= 0.0f && x[k] <= 1.0f;
        }
    }
    return good;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    const struct uw_dataset shape = {.channels = 1, .height = 2, .width = 3, .classes = CLASSES,
                                     .samples_n = ROOM};
    struct lines l = {.link = {.ops = &ops, .mtu_bytes = 64, .fd = -1}, .at = input,
                      .end = input + bytes};
    struct uw_samples s;
    void *memory = malloc(uw_samples_bytes(&shape, ROOM));
    uint32_t messages_n = 0;
    int good = memory != NULL;
    uw_samples_init(&s, &shape, &l.link, 0, memory);
    while (good && l.at < l.end) {
        uw_samples_step(&s, 0);
        good = check(&s) && l.answers_n == ++messages_n && l.answer[0] == 'A' &&
               l.answer[1] == (uint8_t)s.position && l.answer[17] == s.held;
    }
    free(memory);
    return good ? (int)(s.held + 4u * (s.malformed < 9u ? s.malformed : 9u)) : -1;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"samples", add_inputs, try_one, 1000}, argc, argv);
}
