/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_keys.h - the keys of a run: its shared key, or a key of each device with a root
 *
 * A run key is a secret that all nodes share. Who has it is in, and it cannot be taken back from
 * one device. With device keys a run has a root: a key that signs the certificate of each device's
 * own key and a list of the devices that are revoked. A node knows the root's certificate, so that
 * it verifies both by itself.
 *
 *     uw_secure_keys_init(&keys, text, &err);      the text of a key file
 *     dtls_config.keys = &keys;                    or stream_config.keys
 *     uw_secure_keys_revoke(&keys, list, bytes);   a list that a peer or a file has
 *     uw_secure_keys_load(&keys, text, &err);      the file has changed
 *     uw_secure_keys_deinit(&keys);                after the links
 *
 * Two keys A key file has one key or two, one after the other. The node shows the first to peers
 *         that it calls, and the next one where a peer refuses it; it accepts both. So a run
 *         changes its key, or the kind of its keys, while nodes have the old one, both or the new
 *         one.
 * Load    Sessions end, and are made anew with the keys that are then there.
 * List    Names of up to UW_REVOKED_MAX devices, as hashes, for good: another key for a revoked
 *         name is no use. It has a number that grows; the greatest number counts. A node passes the
 *         list on (uw_node_config.keys). Sessions with a device on it end in the link's next step,
 *         over TCP before the next byte is sent to it or received from it.
 * Clock   Certificates do not expire, because devices may have no clock.
 *
 *     list    "uwrk" 1, number of names 1 byte, 0 0, root 4, number 4     16 bytes
 *             first 8 bytes of SHA-256 of each name
 *             signature of everything before: ECDSA in DER over SHA-256
 *
 * Numbers in it are little-endian.
 *
 * Units      bytes
 * Memory     Mbed TLS's allocator: 4 KB a key and, in sessions with device keys, 3 KB
 * Blocking   never; a list that is newer costs the verification of one signature, 1 ms
 * Context    the thread of the links that use it
 * Source     RFC 5280 (certificates), RFC 8422 (ECDHE-ECDSA), RFC 6066 3 (the name of the key, in
 *            place of a host's)
 */
#ifndef UWASA_SECURE_KEYS_H
#define UWASA_SECURE_KEYS_H

#include "uwasa/cplusplus.h"
#include "uwasa/secure.h"

UW_C_BEGIN

#define UW_SECURE_KEYS_MAX 2u           /* in a key file */
#define UW_DEVICE_NAME_BYTES 32u        /* with its NUL */
#define UW_REVOKED_MAX 64u
#define UW_REVOKED_BYTES_MAX (16u + 8u * UW_REVOKED_MAX + 80u)
#define UW_REVOKED_TEXT_BYTES 1024u     /* of a list */
#define UW_DEVICE_TEXT_BYTES 4096u      /* of a key or a root */
#define UW_KEYFILE_TEXT_BYTES 16384u

struct uw_secure_keys_ops;              /* private */
struct uw_key_set;

struct uw_revoked_list {
    uint32_t root;                      /* identity of the root that signed it */
    uint32_t number;                    /* 0: there is no list yet */
    uint32_t bytes;
    uint8_t list[UW_REVOKED_BYTES_MAX];
};

struct uw_secure_keys {
    const struct uw_secure_keys_ops *ops;
    uint32_t loads_n;                   /* times that keys were set */
    uint32_t changes_n;                 /* loads, and lists that were accepted */
    uint32_t keys_n;
    uint32_t roots_n;                   /* roots of the keys; 0: only run keys */
    struct uw_revoked_list lists[UW_SECURE_KEYS_MAX];   /* [roots_n] */
    struct uw_key_set *set;
};

/* Parse a key file: per key 64 hex digits, or a private key, its certificate and the root's
 * certificate in PEM. Lines that start with # are ignored.
 *
 * Returns UW_OK, UW_ERR_CORRUPT (no key, an incomplete one, more than two), UW_ERR_DENIED (the root
 * did not sign the certificate), UW_ERR_NOMEM; err filled. */
int uw_secure_keys_init(struct uw_secure_keys *k, const char *text, struct uw_error *err);

/* The same for a file that may have changed. Lists of roots that are still there stay.
 *
 * Returns 1 (other keys are set), 0 (nothing has changed), or as above: the keys stay. */
int uw_secure_keys_load(struct uw_secure_keys *k, const char *text, struct uw_error *err);

/* Take a list if it is newer.
 *
 * Returns 1 (taken), 0 (not newer), UW_ERR_CORRUPT (malformed), UW_ERR_NOTFOUND (of another root),
 * UW_ERR_DENIED (the root did not sign it). */
int uw_secure_keys_revoke(struct uw_secure_keys *k, const uint8_t *list, uint32_t bytes);

/* Take the lists of a file that uw_secure_keys_lists wrote. "" has none.
 *
 * Returns their number, those of other roots included, or a code of uw_secure_keys_revoke. */
int uw_secure_keys_revoke_text(struct uw_secure_keys *k, const char *text);

/* Print all lists as a text. Returns its length. */
uint32_t uw_secure_keys_lists(const struct uw_secure_keys *k,
                              char text[UW_SECURE_KEYS_MAX * UW_REVOKED_TEXT_BYTES]);

/* Number of revoked devices, of all lists. *number: the greatest number of a list. */
uint32_t uw_secure_keys_revoked_n(const struct uw_secure_keys *k, uint32_t *number);

/* The first run key, or NULL. */
const uint8_t *uw_secure_keys_run_key(const struct uw_secure_keys *k);

/* Name of the device of key i; "": a run key. */
const char *uw_secure_keys_device(const struct uw_secure_keys *k, uint32_t i);

/* Is the device of key i revoked? */
bool uw_secure_keys_is_revoked(const struct uw_secure_keys *k, uint32_t i);

/* Wipe and free. Safe on a zeroed struct and twice. */
void uw_secure_keys_deinit(struct uw_secure_keys *k);

/* ---- making keys, with the operating system's random numbers ---- */

/* Make a root: its private key and certificate, in PEM.
 * Returns UW_OK, UW_ERR_NOMEM, UW_ERR_IO (no entropy); err filled. */
int uw_root_create(char text[UW_DEVICE_TEXT_BYTES], struct uw_error *err);

/* Make the key of a device: a key file.
 *
 *   root   text of the root
 *   lists  text of the root's list; "": none yet
 *   name   1 to 31 letters, digits, '.', '_' or '-'
 *
 * Returns UW_OK, UW_ERR_INVALID (name), UW_ERR_CORRUPT (root or list), UW_ERR_DENIED (the name is
 * revoked), UW_ERR_NOMEM, UW_ERR_IO; err filled. */
int uw_root_device(const char *root, const char *lists, const char *name,
                   char text[UW_DEVICE_TEXT_BYTES], struct uw_error *err);

/* Add a device to the root's list.
 *
 *   lists  in: text of the list; "": none yet. out: text of the next one
 *
 * Returns the number of devices on it, UW_ERR_INVALID, UW_ERR_CORRUPT, UW_ERR_FULL (64 devices),
 * UW_ERR_NOMEM, UW_ERR_IO; err filled. A device that is on the list already changes nothing. */
int uw_root_revoke(const char *root, char lists[UW_REVOKED_TEXT_BYTES], const char *name,
                   struct uw_error *err);

UW_C_END
#endif
