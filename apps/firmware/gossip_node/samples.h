/* SPDX-License-Identifier: Apache-2.0
 *
 * samples.h - a dataset of the newest samples that arrived over a serial line
 *
 * The other end (tools/send_samples) sends samples as one stream of bytes, divided into messages.
 * Each message is answered with the position in the stream that is wanted next; only then the next
 * message is sent. So no UART overruns, however rarely it is polled. Damaged messages are answered
 * too, and sent again; so are messages without an answer for a second.
 *
 *     Messages, in frames of uwasa/link_serial.h, numbers little-endian:
 *     'H'                   begin at byte 0 of the stream, and answer
 *     'D' u32 bytes...      these bytes of the stream, which begin at that position
 *     'A' u32 * 6           the answer: position wanted next, bytes of a sample, most bytes of the
 *                           stream in one message, classes, samples held, messages and samples
 *                           damaged since the start
 *
 * A sample is its label, one byte, then its pixels in the order of [C][H][W], one byte each: 0 ..
 * 255 becomes 0 .. 1 for the model, as in MNIST's files. A message does not extend past the end of
 * a sample. 'H' drops an incomplete sample; a board that has restarted asks for position 0.
 *
 * Memory     the caller's, borrowed      Blocking  never      Context  main loop */
#ifndef UW_FIRMWARE_SAMPLES_H
#define UW_FIRMWARE_SAMPLES_H

#include "uwasa/dataset.h"
#include "uwasa/link.h"

#include <stddef.h>

#define UW_SAMPLES_MESSAGE_BYTES 5u     /* of a message with data, beside the data */
#define UW_SAMPLES_MAX 60000u

struct uw_samples {
    struct uw_dataset base;     /* endless; samples_n is the capacity. Sample i is the (i mod
                                   held)th newest: it changes as others arrive */
    struct uw_link *link;
    uint8_t *message;           /* [UW_SAMPLES_MESSAGE_BYTES + sample_bytes] */
    uint8_t *ring;              /* [samples_n + 1][sample_bytes]; one is being filled */
    uint32_t sample_bytes, part_bytes;
    uint32_t filling;           /* the slot */
    uint32_t at, position;      /* bytes received of the sample, of the stream */
    uint32_t held, received, malformed;
};

/* Bytes of memory for n samples of base's shape. */
size_t uw_samples_bytes(const struct uw_dataset *base, uint32_t samples_n);

/* Start with nothing held.
 *
 *   base     its shape and classes; samples_n, 1 or more: the room
 *   link     borrowed; its messages are at most UW_SAMPLES_MESSAGE_BYTES + a sample
 *   burst    bytes that may arrive at once; 0: any number
 *   memory   uw_samples_bytes() */
void uw_samples_init(struct uw_samples *s, const struct uw_dataset *base, struct uw_link *link,
                     uint32_t burst_bytes, void *memory);

/* Receive messages and answer them. */
void uw_samples_step(struct uw_samples *s, uint64_t now_us);

/* Messages and samples dropped so far: damaged, malformed, or with an invalid class. */
uint32_t uw_samples_damaged(const struct uw_samples *s);

#endif
