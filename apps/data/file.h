/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - a regular file, read at any offset
 *
 * Reads use pread rather than a mapping, so that a file truncated while in use gives an error code
 * and not a signal. A file that gzip has packed is read unpacked, from a temporary file.
 *
 * Context    any thread may read; open and close belong to one
 */
#ifndef UWASA_DATA_FILE_H
#define UWASA_DATA_FILE_H

#include "uwasa/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UW_FILE_PATH_BYTES 1024u

struct uw_file {
    char path[UW_FILE_PATH_BYTES];
    uint64_t bytes;
    int handle;                 /* file descriptor + 1, so that a zeroed struct is closed */
};

/* Open for reading.
 *   hint  added to the sentence when the file is not there; NULL: nothing
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_INVALID (not a regular file, path too
 * long), UW_ERR_IO; of a packed file UW_ERR_CORRUPT, UW_ERR_UNSUPPORTED (no zlib). */
int uw_file_open(struct uw_file *f, const char *path, const char *hint, struct uw_error *err);

/* Read exactly `bytes`. Returns UW_OK or UW_ERR_IO (the file ends before, or the device fails). */
int uw_file_read(const struct uw_file *f, uint64_t offset, void *buf, size_t bytes);

/* Read all of it. *bytes is the caller's, with room for one more, to be freed; NULL on failure.
 * Returns UW_OK, UW_ERR_NOMEM or UW_ERR_IO, err filled. */
int uw_file_load(const struct uw_file *f, uint8_t **bytes, struct uw_error *err);

/* The sentence for a failed uw_file_read. Returns UW_ERR_IO. */
int uw_file_read_error(const struct uw_file *f, uint64_t offset, struct uw_error *err);

/* Types of values, big-endian; the numbers are those of IDX. */
enum uw_file_type {
    UW_FILE_U8 = 0x08, UW_FILE_I8 = 0x09, UW_FILE_I16 = 0x0b, UW_FILE_I32 = 0x0c,
    UW_FILE_F32 = 0x0d, UW_FILE_F64 = 0x0e
};

/* Bytes of a value; 0: there is no such type. */
uint32_t uw_file_type_bytes(enum uw_file_type type);

/* Read n whole numbers, of a type that has no floats. Returns UW_OK or UW_ERR_IO. */
int uw_file_read_wholes(const struct uw_file *f, uint64_t offset, enum uw_file_type type,
                        int32_t *x, size_t n);

/* Read a whole number, a label that was below `classes` when the file was opened. Returns UW_OK or
 * UW_ERR_IO (also if the file has changed since). */
int uw_file_read_label(const struct uw_file *f, uint64_t offset, enum uw_file_type type,
                       uint32_t classes, uint32_t *label);

/* Read n values as floats: unsigned bytes are divided by 255, others are as they are. Returns UW_OK
 * or UW_ERR_IO. */
int uw_file_read_values(const struct uw_file *f, uint64_t offset, enum uw_file_type type, float *x,
                        size_t n);

/* Safe on a zeroed struct and twice. */
void uw_file_close(struct uw_file *f);

#endif
