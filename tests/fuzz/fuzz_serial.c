/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes on a serial line: whatever comes, what is delivered has the frame's checksum and fits, and
 * the next message but one arrives. The corpus: what two ends say. The checksums of most short
 * frames are made right after a mutation. */
#include "fuzz.h"
#include "line_form.h"

#include "serial_pipe.h"

#include "uwasa/link_serial.h"

#include <stdlib.h>

#define MTU 200u
#define SMALL 5u                /* room for "hello" */

static struct serial_pipe pipes[2];
static struct uw_link_serial ends[2];

static int open_ends(void)
{
    static _Alignas(16) uint8_t memory[2][4096];
    int rc = UW_OK;
    serial_pipe_join(&pipes[0], &pipes[1]);
    for (size_t i = 0; i < 2 && rc == UW_OK; i++) {
        const struct uw_link_serial_config c = {.serial = &pipes[i].base, .memory = memory[i],
                                                .memory_bytes = sizeof memory[i],
                                                .mtu_bytes = MTU};
        rc = uw_link_serial_init(&ends[i], &c);
    }
    return rc;
}

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const uint32_t sizes[] = {0, 1, 5, 60, MTU};
    uint8_t line[SERIAL_PIPE_BYTES];
    if (open_ends() < 0) {
        abort();
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t message[MTU];
        for (uint32_t k = 0; k < sizes[i]; k++) {
            message[k] = (uint8_t)(i < 3 ? 0 : k);
        }
        (void)uw_link_send(&ends[1].link, 0, message, sizes[i]);
        (void)uw_link_step(&ends[1].link, 1);
        int n = pipes[0].base.ops->read(&pipes[0].base, line, sizeof line);
        uw_fuzz_add(corpus, line, (size_t)n);
    }
    (void)uw_link_send(&ends[1].link, 0, "hello", 5);
    (void)uw_link_send(&ends[1].link, 0, "hello, hello", 12);
    (void)uw_link_step(&ends[1].link, 1);
    uw_fuzz_add(corpus, line, (size_t)pipes[0].base.ops->read(&pipes[0].base, line, sizeof line));
}

/* A stream that brings the input and is closed then. */
struct ending {
    struct uw_serial base;
    const uint8_t *at;
    size_t left;
};

static int end_read(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    struct ending *e = (struct ending *)s;
    size_t n = e->left < cap_bytes ? e->left : cap_bytes;
    memcpy(buf, e->at, n);
    e->at += n;
    e->left -= n;
    return n > 0 ? (int)n : UW_ERR_CLOSED;
}

/* What came whole is delivered, then it is said that there is no more: how many, or -1. */
static int try_ending(const uint8_t *input, size_t bytes)
{
    static const struct uw_serial_ops ops = {.name = "ending", .read = end_read};
    static _Alignas(16) uint8_t memory[4096];
    struct ending e = {.base = {.ops = &ops, .fd = 7}, .at = input, .left = bytes};
    const struct uw_link_serial_config c = {.serial = &e.base, .memory = memory,
                                            .memory_bytes = sizeof memory, .mtu_bytes = MTU};
    struct uw_link_serial l;
    uint8_t buf[MTU];
    uint16_t from;
    int n, delivered = 0;
    if (uw_link_serial_init(&l, &c) < 0) {
        return -1;
    }
    while ((n = uw_link_recv(&l.link, &from, buf, MTU)) != UW_ERR_CLOSED) {
        if (n < 0 && n != UW_ERR_AGAIN) {
            return -1;
        }
        delivered += n >= 0;
    }
    return l.link.fd == -1 && uw_link_recv(&l.link, &from, buf, MTU) == UW_ERR_CLOSED ? delivered
                                                                                      : -1;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    uint8_t buf[MTU];
    uint16_t from;
    int n, delivered = 0, heard = 0;
    for (size_t i = 0; i < bytes; i++) {
        serial_pipe_put(&pipes[0], input[i]);
    }
    for (int i = 0; i < 2; i++) {
        (void)uw_link_send(&ends[1].link, 0, "hello", 5);
        (void)uw_link_step(&ends[1].link, 1);
    }
    while ((n = uw_link_recv(&ends[0].link, &from, buf, heard ? SMALL : MTU)) != UW_ERR_AGAIN ||
           pipes[0].n > 0) {
        if (n == UW_ERR_AGAIN || (n == UW_ERR_TOOBIG && heard)) {
            heard = n == UW_ERR_AGAIN && heard;
            continue;                   /* it has looked at enough for once */
        }
        if (n < 0 || n > (int)MTU || from != 0) {
            return -1;
        }
        delivered++;
        heard = n == 5 && memcmp(buf, "hello", 5) == 0;
    }
    int ended = try_ending(input, bytes);   /* without the two that say hello */
    return heard && ended >= 0 ? delivered < 9 ? delivered : 9 : -1;
}

static void seal(uint8_t *input, size_t bytes)
{
    uw_fuzz_seal_line(input, bytes, UW_LINK_SERIAL_CRC_START);
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"serial", add_inputs, try_one, 2000};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){.seal = seal}, argc, argv);
}
