/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_file.h - --pcap FILE: what a link carries, written to a file as it happens
 *
 *     uw_capture_file_open(&c, file, lower, &err);   then use &c.link.link
 *
 * A record is in the file, whole, as soon as its message was sent or received: a program that is
 * killed leaves a file that can be read. A pipe gets the same, and may be read meanwhile; while
 * its reader reads too slowly, or not at all, records are left out, and the next one says so
 * (UW_CAPTURE_GAP). So they are while the disk is full, which is told at once on standard error.
 *
 * Memory     the board's, taken by open and given back by close; the lower link is borrowed
 * Blocking   as write(2) to a file; never for a pipe's reader, but close for 0.3 s at most
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
    uint64_t again_us;          /* after one for which there was no room; 0: there was */
    uint8_t *rest;              /* [rest_bytes] of a record of which a pipe has taken a part */
    uint32_t rest_bytes;
    void *memory;
    size_t memory_bytes;
};

/* Begin a file, emptying what was there, and stand between a link and its user.
 * Returns UW_OK, or UW_ERR_INVALID ("-"), UW_ERR_IO (the file cannot be written) or UW_ERR_NOMEM
 * with err filled; close in every case. */
int uw_capture_file_open(struct uw_capture_file *c, const char *path, struct uw_link *lower,
                         struct uw_error *err);

/* Is all of it in the file so far?
 * Returns UW_OK (also of a zeroed struct), or UW_ERR_IO: a write failed, err filled. */
int uw_capture_file_check(const struct uw_capture_file *c, struct uw_error *err);

/* End the file and the link, leaving the lower one open. Safe on a zeroed struct and twice. */
void uw_capture_file_close(struct uw_capture_file *c);

#endif
