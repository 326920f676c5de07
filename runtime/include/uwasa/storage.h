/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/storage.h - named byte objects that survive power loss (implemented by a board)
 *
 * On a host an object is a file, on a board a slot of flash. Writes are atomic: after a crash at
 * any point, a reader finds the old object or the new one.
 *
 * Blocking   up to the device      Context  one thread per handle
 */
#ifndef UWASA_STORAGE_H
#define UWASA_STORAGE_H

#include "uwasa/status.h"

#include <stddef.h>
#include <stdint.h>

struct uw_storage;

struct uw_storage_ops {
    const char *name;
    /* Size of an object in bytes: UW_OK, UW_ERR_NOTFOUND, UW_ERR_DENIED, UW_ERR_IO. */
    int (*size)(struct uw_storage *s, const char *object, uint64_t *bytes);
    /* Read exactly `bytes` at `offset`: UW_OK, UW_ERR_CORRUPT (object ends before), UW_ERR_IO. */
    int (*read)(struct uw_storage *s, const char *object, uint64_t offset, void *buf,
                size_t bytes);
    /* Begin to replace an object. One write at a time: UW_ERR_AGAIN during another. */
    int (*begin)(struct uw_storage *s, const char *object);
    /* Append to the object begun: UW_OK, UW_ERR_FULL (no space left), UW_ERR_IO. */
    int (*append)(struct uw_storage *s, const void *buf, size_t bytes);
    /* Commit: make the object durable and visible. commit == false: discard it. */
    int (*end)(struct uw_storage *s, int commit);
};

struct uw_storage {
    const struct uw_storage_ops *ops;
};

#endif
