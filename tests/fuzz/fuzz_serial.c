/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes on a serial line: whatever comes, what is delivered has the frame's checksum and fits, and
 * the next message but one arrives. The corpus: what two ends say. */
#include "fuzz.h"

#include "serial_pipe.h"

#include "uwasa/link_serial.h"

#include <stdlib.h>

#define MTU 200u

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
    while ((n = uw_link_recv(&ends[0].link, &from, buf, sizeof buf)) != UW_ERR_AGAIN ||
           pipes[0].n > 0) {
        if (n == UW_ERR_AGAIN) {
            continue;                   /* it has looked at enough for once */
        }
        if (n < 0 || n > (int)MTU || from != 0) {
            return -1;
        }
        delivered++;
        heard = n == 5 && memcmp(buf, "hello", 5) == 0;
    }
    return heard ? delivered < 9 ? delivered : 9 : -1;
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"serial", add_inputs, try_one, 2000}, argc, argv);
}
