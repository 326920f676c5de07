/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_file.h - --pcap FILE: write what a link carries to a file, as it happens
 *
 *     uw_capture_file_open(&c, file, lower, &err);   then use &c.link.link
 *
 * A record is written whole as soon as its message was sent or received, so a program that is
 * killed leaves a readable file. The file may be a pipe. While its reader is too slow, or the disk
 * is full (which standard error reports at once), records are dropped, and the next one says so
 * (UW_CAPTURE_GAP).
 *
 * Memory     the board's, allocated by open and freed by close; the lower link is borrowed
 * Blocking   as write(2) to a file; not for a pipe's reader, except close for at most 0.3 s
 * Context    one thread
 */
#ifndef UWASA_CLI_CAPTURE_FILE_H
#define UWASA_CLI_CAPTURE_FILE_H

#include "uwasa/link_capture.h"

struct uw_capture_file {
    struct uw_link_capture link;
    const char *path;
    int fd;                     /* valid while memory is not NULL */
    int error;                  /* errno of the first write that failed */
    uint64_t bytes;             /* of whole records */
    uint64_t again_us;          /* disk full: when to try again; 0: not full */
    uint8_t *rest;              /* [rest_bytes] rest of a record that a pipe took in part */
    uint32_t rest_bytes;
    void *memory;
    size_t memory_bytes;
};

/* Begin a file, removing its earlier content, and insert c->link between a link and its user.
 * Returns UW_OK, or UW_ERR_INVALID ("-"), UW_ERR_IO (the file cannot be written) or UW_ERR_NOMEM
 * with err filled; close in every case. */
int uw_capture_file_open(struct uw_capture_file *c, const char *path, struct uw_link *lower,
                         struct uw_error *err);

/* Check that everything so far was written.
 * Returns UW_OK (also of a zeroed struct), or UW_ERR_IO: a write failed, err filled. */
int uw_capture_file_check(const struct uw_capture_file *c, struct uw_error *err);

/* End the file and the link, leaving the lower one open. Safe on a zeroed struct and twice. */
void uw_capture_file_close(struct uw_capture_file *c);

#endif
