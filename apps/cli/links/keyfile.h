/* SPDX-License-Identifier: Apache-2.0
 *
 * keyfile.h - the key of a run, in a file: 64 hex digits, readable by its owner only
 *
 * Blocking   the file's      Context  any thread
 */
#ifndef UWASA_CLI_KEYFILE_H
#define UWASA_CLI_KEYFILE_H

#include "base/args.h"

#include "uwasa/secure.h"

/* Write a fresh key. A file that is there is replaced with `force` only.
 * Returns UW_OK, UW_ERR_DENIED (there is one), UW_ERR_IO; err filled. */
int uw_keyfile_create(const char *file, bool force, struct uw_error *err);

/* Read a key.
 *
 *   exposed   set: others than the owner may read the file
 *
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_IO, UW_ERR_CORRUPT (no key inside); err filled. */
int uw_keyfile_read(const char *file, uint8_t key[UW_KEY_BYTES], bool *exposed,
                    struct uw_error *err);

#endif
