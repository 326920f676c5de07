/* SPDX-License-Identifier: Apache-2.0
 *
 * open_file.h - open files without waiting
 *
 * fopen of a named pipe waits for a process at the other end, possibly for ever, and SIGINT does
 * not end that wait because the program blocks the signal.
 *
 * Memory     the stream is the caller's      Blocking  never      Context  any thread
 */
#ifndef UWASA_CLI_OPEN_FILE_H
#define UWASA_CLI_OPEN_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* What follows the last slash of a path. */
const char *uw_file_name(const char *path);

/* Open a file for reading, or for writing from its start (created if needed). A pipe without a
 * writer is empty; one without a reader is an error (ENXIO). Reads and writes block as usual.
 * Returns NULL and errno on failure. */
FILE *uw_open_file(const char *path, bool to_write);

/* The same for writing, without a stream. Returns a descriptor, or -1 and errno. */
int uw_open_fd(const char *path);

/* Read a file of at most `most` bytes. Sets *bytes.
 * Returns the bytes from the heap, NUL-terminated; NULL and errno on failure, EFBIG: too large. */
char *uw_read_file(const char *path, size_t most, size_t *bytes);

/* Open a file for appending, created if needed. As uw_open_file. */
FILE *uw_open_file_again(const char *path);

/* Whether the last byte of a file ends a line. True of an empty one, and of what is no file. */
bool uw_file_ends_a_line(const char *path);

/* Remove its earlier content; for files that are emptied only after all others could be opened. */
void uw_empty_file(FILE *f);

/* Whether this errno of a write means that the disk is full, which may pass. */
bool uw_file_is_full(int error);

/* Truncate a file to so many bytes and continue to write there. False: it is a pipe. */
bool uw_cut_file(int fd, off_t bytes);

#endif
