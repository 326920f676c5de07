/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_source.h - lines of text that arrive: on standard input, a Unix socket or a TCP port of
 * this machine, or as messages of an MQTT topic
 *
 * A socket is listened on; up to UW_SOURCE_SENDERS may send at a time, each whole lines.
 *
 * Memory     UW_SOURCE_LINE_BYTES of the heap for each sender      Context  one thread at a time
 * Blocking   wait: as long as it is told; take: never
 */
#ifndef UWASA_DATA_STREAM_SOURCE_H
#define UWASA_DATA_STREAM_SOURCE_H

#include "stream_mqtt.h"
#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_SOURCE_SENDERS 8u
#define UW_SOURCE_LINE_BYTES (1u << 20)

struct uw_sender {
    int fd;                     /* -1: none */
    char *text;                 /* [UW_SOURCE_LINE_BYTES] */
    size_t used, line_at;       /* bytes; where the next line begins */
    uint64_t line_n;            /* of the last line, from 1 */
    bool too_long, ended;
};

struct uw_source {
    int listener;               /* -1: standard input */
    const char *path;           /* of a Unix socket, to remove; NULL: none. Borrowed */
    struct uw_sender sender[UW_SOURCE_SENDERS];
    struct uw_mqtt *mqtt;       /* NULL: none */
    bool over;                  /* standard input has ended */
};

/* Open "stream:-", "stream:unix:PATH", "stream:tcp:127.0.0.1:PORT", or what uw_mqtt_open opens,
 * which the files are for. A socket's file that nobody listens on is replaced.
 * Returns UW_OK, UW_ERR_INVALID (none of them), UW_ERR_IO, UW_ERR_NOMEM or the codes of
 * uw_mqtt_open, err filled. */
int uw_source_open(struct uw_source *s, const char *address, const struct uw_mqtt_files *files,
                   struct uw_error *err);

/* Wait until something has arrived, at most wait_ms. */
void uw_source_wait(const struct uw_source *s, int wait_ms);

/* Take the next line that has arrived. Call it until it returns 0.
 *   text    set to the line without its end, NUL-terminated, valid until the next call
 *   line_n  set to its number at its sender, of one that was dropped too
 *   from    set to the sender
 * Returns 1, 0 (none now), or UW_ERR_TOOBIG (a line that is too long was dropped). */
int uw_source_take(struct uw_source *s, char **text, uint64_t *line_n, uint32_t *from);

/* Safe after a failed open, and twice. */
void uw_source_close(struct uw_source *s);

#endif
