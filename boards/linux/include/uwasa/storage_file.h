/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/storage_file.h - struct uw_storage over files
 *
 * An object's name is a file path, absolute or relative to a directory. A write goes to
 * `<path>.part` in the same folder, is synced and renamed over the object: a reader finds the old
 * file or the new one. The next write of that object overwrites a partial file left by a crash.
 *
 * Reads use the file that the last `size` of that object has opened, even if another process
 * replaces it meanwhile.
 *
 *     struct uw_storage_file files;
 *     uw_storage_file_init(&files, "run1");
 *     uw_checkpoint_save(&model, &state, &files.base, "node.safetensors", &err);
 *     uw_storage_file_deinit(&files);
 *
 * A handle may hold an object for as long as it lives, so that no other one takes it for its own
 * (uw_storage_file_hold). The lock is of the file itself, and goes along when a write replaces it;
 * while there is no file yet, it is of an empty `<path>.part`. It ends with its process, however
 * that ends.
 *
 * Memory     caller owns the struct; the directory's name is copied
 * Blocking   up to the device          Context  one thread per handle
 * Errors     beside those of storage.h: begin returns UW_ERR_NOTFOUND (no such folder),
 *            UW_ERR_DENIED (permission, read-only file system), UW_ERR_AGAIN (another handle is
 *            writing this object now), UW_ERR_INVALID (the path names something that is not a
 *            regular file, or a write is open already), UW_ERR_TOOBIG (path too long)
 */
#ifndef UWASA_STORAGE_FILE_H
#define UWASA_STORAGE_FILE_H

#include "uwasa/cplusplus.h"
#include "uwasa/storage.h"

#include <stdbool.h>

UW_C_BEGIN

#define UW_STORAGE_FILE_PATH_BYTES 1024u

struct uw_storage_file {
    struct uw_storage base;
    char directory[UW_STORAGE_FILE_PATH_BYTES];
    char reading[UW_STORAGE_FILE_PATH_BYTES];   /* path behind read_fd */
    char writing[UW_STORAGE_FILE_PATH_BYTES];   /* path that the open write will replace */
    char held[UW_STORAGE_FILE_PATH_BYTES];      /* path that held_fd locks */
    int read_fd, write_fd, held_fd;             /* -1: none */
    bool write_failed;
    bool held_part;                             /* held_fd is of held with .part */
};

/* Set up; accesses no file.
 *
 *   directory  relative object names start here; NULL or "": the working directory
 *
 * Returns UW_OK or UW_ERR_TOOBIG (directory name too long). */
int uw_storage_file_init(struct uw_storage_file *s, const char *directory);

/* Hold an object, which need not exist; one per handle. Nothing is held where the file system has
 * no locks.
 * Returns UW_OK, UW_ERR_AGAIN (another handle, mostly of another process, holds or writes it), or
 * an error of begin. */
int uw_storage_file_hold(struct uw_storage_file *s, const char *object);

/* Let go of what is held, discard an open write and close every file. Safe after a failed init, on
 * a zeroed struct, and twice. */
void uw_storage_file_deinit(struct uw_storage_file *s);

UW_C_END
#endif
