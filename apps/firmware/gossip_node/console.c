/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip_node.h"

#include "uwasa/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RING_BYTES 2048u                /* a power of two */
#define LINE_BYTES 512u
#define TYPED_BYTES 512u

static struct {
    char ring[RING_BYTES];
    uint32_t head, tail;                /* head: next free */
    uint32_t dropped;
    char typed[TYPED_BYTES];
    uint32_t typed_n;
    bool too_long;
} c;

void uw_console_line(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1u, format, args);
    va_end(args);
    uint32_t bytes = n < 0 ? 0 : (uint32_t)n < sizeof line - 2u ? (uint32_t)n : sizeof line - 2u;
    line[bytes++] = '\n';
    if (RING_BYTES - (c.head - c.tail) < bytes) {
        c.dropped++;
        return;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        c.ring[c.head++ % RING_BYTES] = line[i];
    }
}

static const char *take(char byte)
{
    if (byte == '\b' || byte == 0x7f) {
        c.typed_n -= c.typed_n > 0 ? 1u : 0;
        return NULL;
    }
    if (byte != '\n' && byte != '\r') {
        c.too_long = c.too_long || c.typed_n + 1u >= TYPED_BYTES;
        c.typed[c.typed_n] = byte;
        c.typed_n += c.too_long ? 0 : 1u;
        return NULL;
    }
    c.typed[c.typed_n] = '\0';
    bool whole = c.typed_n > 0 && !c.too_long;
    if (c.too_long) {
        uw_console_line("that line is too long: at most %u characters", TYPED_BYTES - 1u);
    }
    c.typed_n = 0;
    c.too_long = false;
    return whole ? c.typed : NULL;
}

const char *uw_console_step(void)
{
    struct uw_serial *s = uw_machine.console;
    while (c.tail != c.head) {
        uint32_t at = c.tail % RING_BYTES;
        uint32_t run = RING_BYTES - at < c.head - c.tail ? RING_BYTES - at : c.head - c.tail;
        int n = s->ops->write(s, c.ring + at, run);
        if (n <= 0) {
            break;
        }
        c.tail += (uint32_t)n;
    }
    char byte;
    while (s->ops->read(s, &byte, 1) == 1) {
        const char *line = take(byte);
        if (line != NULL) {
            return line;
        }
    }
    return NULL;
}

bool uw_console_empty(void)
{
    return c.head == c.tail;
}

uint32_t uw_console_dropped(void)
{
    return c.dropped;
}
