/* SPDX-License-Identifier: Apache-2.0
 *
 * keyfile.h - the file with the key of a run: 64 hex digits, readable by its owner only
 *
 * Blocking   the file's      Context  any thread
 */
#ifndef UWASA_CLI_KEYFILE_H
#define UWASA_CLI_KEYFILE_H

#include "base/args.h"

#include "uwasa/secure.h"

/* Write a new random key. An existing file is replaced only with `force`.
 * Returns UW_OK, UW_ERR_DENIED (the file exists), UW_ERR_IO; err filled. */
int uw_keyfile_create(const char *file, bool force, struct uw_error *err);

/* Read a key.
 *
 *   exposed   set: others than the owner may read the file
 *
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_IO, UW_ERR_CORRUPT (no key inside); err filled. */
int uw_keyfile_read(const char *file, uint8_t key[UW_KEY_BYTES], bool *exposed,
                    struct uw_error *err);

#endif
