/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"

#include "uwasa/status.h"

#include <string.h>

#define ANSWER_WORDS 6u
#define LINE_BYTES 12u                  /* added by framing, in addition to a 64th */

static void put_u32(uint8_t *p, uint32_t v)
{
    for (uint32_t i = 0; i < 4u; i++) {
        p[i] = (uint8_t)(v >> 8u * i);
    }
}

static uint32_t get_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t bytes_of(const struct uw_dataset *d)
{
    return 1u + d->channels * d->height * d->width;
}

static uint8_t *slot(const struct uw_samples *s, uint32_t number)
{
    return s->ring + (size_t)number * s->sample_bytes;
}

static int read_sample(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    struct uw_samples *s = (struct uw_samples *)base;
    if (s->held == 0) {
        return UW_ERR_INVALID;
    }
    uint32_t slots = base->samples_n + 1u, back = 1u + (uint32_t)(index % s->held);
    const uint8_t *p = slot(s, (s->filling + slots - back) % slots);
    *label = p[0];
    for (uint32_t i = 1; i < s->sample_bytes; i++) {
        x[i - 1u] = (float)p[i] / 255.0f;
    }
    return UW_OK;
}

static const struct uw_dataset_ops ops = {.name = "samples", .read = read_sample};

size_t uw_samples_bytes(const struct uw_dataset *base, uint32_t samples_n)
{
    return UW_SAMPLES_MESSAGE_BYTES + (size_t)bytes_of(base) * (samples_n + 2u);
}

void uw_samples_init(struct uw_samples *s, const struct uw_dataset *base, struct uw_link *link,
                     uint32_t burst_bytes, void *memory)
{
    *s = (struct uw_samples){.base = *base, .link = link, .message = memory,
                             .sample_bytes = bytes_of(base), .part_bytes = bytes_of(base)};
    uint32_t frame = UW_SAMPLES_MESSAGE_BYTES + LINE_BYTES + burst_bytes / 64u;
    if (burst_bytes != 0 && burst_bytes < frame + s->part_bytes) {
        s->part_bytes = burst_bytes > frame ? burst_bytes - frame : 1u;
    }
    s->base.ops = &ops;
    s->base.endless = true;
    s->ring = s->message + UW_SAMPLES_MESSAGE_BYTES + s->sample_bytes;
}

uint32_t uw_samples_damaged(const struct uw_samples *s)
{
    return (uint32_t)s->link->stats.dropped_n + s->malformed;
}

static void end_sample(struct uw_samples *s)
{
    s->at = 0;
    if (slot(s, s->filling)[0] >= s->base.classes) {
        s->malformed++;
        return;
    }
    s->filling = (s->filling + 1u) % (s->base.samples_n + 1u);
    s->held += s->held < s->base.samples_n ? 1u : 0;
    s->received++;
}

/* Process a message. Returns whether it is valid. */
static bool take(struct uw_samples *s, uint32_t bytes)
{
    if (bytes == 1u && s->message[0] == 'H') {
        s->at = s->position = 0;
        return true;
    }
    if (bytes <= UW_SAMPLES_MESSAGE_BYTES || s->message[0] != 'D') {
        return false;
    }
    bytes -= UW_SAMPLES_MESSAGE_BYTES;
    if (get_u32(s->message + 1) != s->position) {
        return true;                    /* a duplicate, or from before this board's start */
    }
    if (bytes > s->sample_bytes - s->at) {
        return false;
    }
    memcpy(slot(s, s->filling) + s->at, s->message + UW_SAMPLES_MESSAGE_BYTES, bytes);
    s->at += bytes;
    s->position += bytes;
    if (s->at == s->sample_bytes) {
        end_sample(s);
    }
    return true;
}

static void answer(struct uw_samples *s)
{
    const uint32_t word[ANSWER_WORDS] = {s->position, s->sample_bytes, s->part_bytes,
                                         s->base.classes, s->held, uw_samples_damaged(s)};
    uint8_t text[1u + 4u * ANSWER_WORDS] = {'A'};
    for (uint32_t i = 0; i < ANSWER_WORDS; i++) {
        put_u32(text + 1u + 4u * i, word[i]);
    }
    (void)uw_link_send(s->link, 0, text, sizeof text);  /* if lost, the other end repeats */
}

void uw_samples_step(struct uw_samples *s, uint64_t now_us)
{
    uint16_t from;
    uint32_t damaged = uw_samples_damaged(s);
    int n = uw_link_recv(s->link, &from, s->message,
                         UW_SAMPLES_MESSAGE_BYTES + s->sample_bytes);
    if (n >= 0 && !take(s, (uint32_t)n)) {
        s->malformed++;
    }
    if (n >= 0 || uw_samples_damaged(s) != damaged) {
        answer(s);
    }
    (void)uw_link_step(s->link, now_us);
}
