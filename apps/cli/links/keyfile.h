/* SPDX-License-Identifier: Apache-2.0
 *
 * keyfile.h - files with the keys of a run or of a device, readable by their owner only
 *
 *     uw_keyfile_open(&f, "attic.key", &err);      one key or two (uwasa/secure_keys.h)
 *     uw_keyfile_step(&f, &news);                  now and then: SIGHUP loads it again
 *     uw_keyfile_close(&f);
 *
 * Beside it is FILE.revoked with the lists of revoked devices: read with the key, and written
 * when a newer list has arrived, so that a restart knows of it.
 *
 * Blocking   the file's      Context  any thread; open files: one thread
 */
#ifndef UWASA_CLI_KEYFILE_H
#define UWASA_CLI_KEYFILE_H

#include "base/args.h"

#include "uwasa/secure.h"
#include "uwasa/secure_keys.h"

struct uw_keyfile {
    struct uw_secure_keys keys;
    const char *file;           /* borrowed; NULL: not open */
    bool exposed;               /* others than the owner may read it */
    uint32_t hangups_n;         /* heeded (base/stop.h) */
    uint32_t changes_n;         /* of keys, at the last step */
    uint32_t numbers;           /* of all lists, added: those that are stored */
};

/* What a step found. */
struct uw_keyfile_news {
    bool loaded;                /* other keys are set */
    uint32_t list_number;       /* of a list that is new; 0: none is */
    uint32_t devices_n;         /* that are revoked */
    char trouble[UW_ERROR_TEXT_BYTES];      /* a file could not be read or written; "" */
};

/* Write a new random run key. An existing file is replaced only with `force`.
 * Returns UW_OK, UW_ERR_DENIED (the file exists), UW_ERR_IO; err filled. */
int uw_keyfile_create(const char *file, bool force, struct uw_error *err);

/* Write a text in the same way.
 *   is_secret  only the owner may read it */
int uw_keyfile_write(const char *file, const char *text, bool is_secret, bool force,
                     struct uw_error *err);

/* Read a text of at most cap_bytes - 1 bytes.
 * Returns UW_OK, UW_ERR_NOTFOUND, UW_ERR_IO, UW_ERR_CORRUPT (too long, has zeros); err filled. */
int uw_keyfile_text(const char *file, char *text, size_t cap_bytes, bool *exposed,
                    struct uw_error *err);

/* Read the run key that boards take.
 * Returns UW_OK, or as above, UW_ERR_CORRUPT (no run key inside); err filled. */
int uw_keyfile_read(const char *file, uint8_t key[UW_KEY_BYTES], struct uw_error *err);

/* Read keys and lists. Returns UW_OK, as above, or as uw_secure_keys_init; err filled. */
int uw_keyfile_open(struct uw_keyfile *f, const char *file, struct uw_error *err);

/* Load the files again if SIGHUP has come, and store lists that are new. Files with errors change
 * nothing. Returns whether there is news. */
bool uw_keyfile_step(struct uw_keyfile *f, struct uw_keyfile_news *news);

/* Wipe the keys. After the links. Safe on a zeroed struct and twice. */
void uw_keyfile_close(struct uw_keyfile *f);

#endif
