/* SPDX-License-Identifier: Apache-2.0
 *
 * janitor.h - a temporary directory that disappears with its owner, however that ends
 *
 * A small process of its own waits for the owner's end (the other end of a pipe closes even
 * after SIGKILL), then removes the directory.
 *
 * Blocking   close: until the directory is gone      Context  main thread
 */
#ifndef UWASA_CLI_JANITOR_H
#define UWASA_CLI_JANITOR_H

#include "uwasa/status.h"

#include <sys/types.h>

#define UW_JANITOR_PATH_BYTES 256

struct uw_janitor {
    char path[UW_JANITOR_PATH_BYTES];
    int owner_fd;                       /* -1: closed */
    pid_t pid;
};

/* Make a directory (in TMPDIR or /tmp, readable by its owner only) and set the janitor to it.
 * Returns UW_OK or UW_ERR_IO, err filled. */
int uw_janitor_open(struct uw_janitor *j, const char *prefix, struct uw_error *err);

/* In a child, between fork and exec: let go of the pipe. (exec does it as well.) */
void uw_janitor_disown(struct uw_janitor *j);

/* Have the directory removed now. Safe on a closed one. */
void uw_janitor_close(struct uw_janitor *j);

#endif
