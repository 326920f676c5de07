/* SPDX-License-Identifier: Apache-2.0
 *
 * key_set.h - the parsed keys of struct uw_secure_keys, and what is to know of roots and names
 *
 * secure_mbedtls_keys.c has the keys of a node, secure_mbedtls_issue.c makes new ones. */
#ifndef UW_NET_KEY_SET_H
#define UW_NET_KEY_SET_H

#include "revoked.h"
#include "secure_mbedtls.h"

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/pk.h>
#include <mbedtls/x509_crt.h>

#define UW_KEY_LABEL_BYTES 9u       /* 8 hex digits: names a key in a handshake */

struct uw_device_key {
    bool is_device;
    uint8_t run_key[UW_KEY_BYTES];  /* of a run key */
    char label[UW_KEY_LABEL_BYTES];
    uint32_t root_id;               /* from here on of a device */
    char name[UW_DEVICE_NAME_BYTES];
    mbedtls_pk_context own;
    mbedtls_x509_crt certificate, root;
};

struct uw_key_set {
    uint8_t digest[32];             /* of the text */
    uint32_t keys_n;
    struct uw_device_key key[UW_SECURE_KEYS_MAX];
    mbedtls_x509_crt roots;         /* all, chained */
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
};

/* Random numbers of the operating system. Returns 0 or a code of the library. */
int uw_random_init(mbedtls_entropy_context *entropy, mbedtls_ctr_drbg_context *random);

/* Parse a private key of a text, which ends with a NUL. Returns as the library. */
int uw_pk_parse(mbedtls_pk_context *pk, const char *text, mbedtls_ctr_drbg_context *random);

int uw_sha256(const uint8_t *bytes, size_t n, uint8_t digest[32]);

/* The identity of a root by its certificate. */
uint32_t uw_root_id(const mbedtls_x509_crt *root);

/* A name as it is on a list of revoked devices. */
void uw_name_hash(const char *name, uint8_t hash[UW_REVOKED_NAME_BYTES]);

/* Is it 1 to 31 letters, digits, '.', '_' or '-'? */
bool uw_is_device_name(const char *name, size_t bytes);

/* Is this device of a root on the list of that root? */
bool uw_keys_revoke(const struct uw_secure_keys *k, uint32_t root, const char *name);

/* The name in a certificate. Returns whether there is one as a root writes it. */
bool uw_read_name(const mbedtls_x509_crt *c, char name[UW_DEVICE_NAME_BYTES]);

/* Verify the signature of a list. Returns UW_OK, UW_ERR_DENIED. */
int uw_revoked_verify(const struct uw_revoked *r, const uint8_t *list, mbedtls_x509_crt *root);

/* Read the next list of a text. *text advances behind it.
 * Returns its bytes, 0 (there is none), UW_ERR_CORRUPT. */
int uw_revoked_next(const char **text, uint8_t list[UW_REVOKED_BYTES_MAX]);

/* Print a list. Returns the length of the text, 0 without memory. */
uint32_t uw_revoked_print(const uint8_t *list, uint32_t bytes, char text[UW_REVOKED_TEXT_BYTES]);

#endif
