/* SPDX-License-Identifier: Apache-2.0
 *
 * open_file.h - files that are opened without waiting
 *
 * A named pipe makes fopen wait for the process at its other end, for ever if need be, and deaf to
 * SIGINT while the program keeps that for itself.
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

/* Open a file to read, or to write from its start (made if need be). A pipe without a writer is
 * empty; one without a reader cannot be written (ENXIO). What is open blocks as usual.
 * Returns NULL and errno on failure. */
FILE *uw_open_file(const char *path, bool to_write);

/* The same to write, without a stream. Returns a descriptor, or -1 and errno. */
int uw_open_fd(const char *path);

/* Read a file, `most` bytes of it at most. Sets *bytes.
 * Returns them with a NUL behind, from the heap; NULL and errno on failure, EFBIG: it has more. */
char *uw_read_file(const char *path, size_t most, size_t *bytes);

/* Open a file to write after what is in it, made if need be. As uw_open_file. */
FILE *uw_open_file_again(const char *path);

/* Drop what was in it before: for files that are emptied once all others are open, too. */
void uw_empty_file(FILE *f);

/* Is this errno of a write that the place is full, and may have room later? */
bool uw_file_is_full(int error);

/* Drop what of a file comes after so many bytes, and write there next. False: it is a pipe. */
bool uw_cut_file(int fd, off_t bytes);

#endif
