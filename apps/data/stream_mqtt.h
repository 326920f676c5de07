/* SPDX-License-Identifier: Apache-2.0
 *
 * stream_mqtt.h - lines of text from the messages of an MQTT topic (private)
 *
 * libmosquitto's thread writes each message, with an end of line behind it, to a pipe whose other
 * end is read like a sender's. A connection that is lost is opened again, after 1 to 4 s, and the
 * topic asked for again. While nobody reads, the thread waits and the broker keeps the messages, as
 * many as it is configured to.
 *
 * Memory     libmosquitto's, of the heap       Context  one thread at a time
 * Blocking   open: while the host's name is looked up; close: never long
 */
#ifndef UWASA_DATA_STREAM_MQTT_H
#define UWASA_DATA_STREAM_MQTT_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>

struct uw_mqtt;

/* Paths of files, "": none. */
struct uw_mqtt_files {
    char password[256];         /* its first line */
    char ca[256];               /* certificates that sign the broker's; "": those of the system */
    char cert[256], key[256];   /* of this program, for the broker */
};

/* Connect to mqtt://[USER@]HOST[:PORT]/TOPIC, or mqtts:// for TLS.
 *   url   also named in sentences; borrowed until close
 *   fd    set to the pipe that lines are read from; the caller closes it before uw_mqtt_close
 * Returns UW_OK, UW_ERR_INVALID, UW_ERR_NOTFOUND or UW_ERR_DENIED (a file), UW_ERR_IO (no broker),
 * UW_ERR_NOMEM or UW_ERR_UNSUPPORTED (built without libmosquitto), err filled. */
int uw_mqtt_open(struct uw_mqtt **mqtt, const char *url, const struct uw_mqtt_files *files,
                 int *fd, struct uw_error *err);

/* Whether the broker has refused the connection or the topic, or there was no connection yet and
 * it failed, or had no answer for 10 s; with a sentence. */
bool uw_mqtt_is_refused(struct uw_mqtt *m, char *text, size_t text_bytes);

/* The next sentence about the connection: lost, or there again. Returns whether there is one. */
bool uw_mqtt_news(struct uw_mqtt *m, char *text, size_t text_bytes);

/* Safe on NULL. */
void uw_mqtt_close(struct uw_mqtt *m);

#endif
