/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_ccm.h - cryptography for secure frames: AES-128-CCM-8, HKDF, random bytes
 *
 * Blocking   never          Context  any one thread */
#ifndef UW_NET_SECURE_CCM_H
#define UW_NET_SECURE_CCM_H

#include "uwasa/secure.h"

#include <stddef.h>
#include <stdint.h>

#define UW_CCM_KEY_BYTES 16u
#define UW_CCM_NONCE_BYTES 13u
#define UW_CCM_TAG_BYTES 8u

struct uw_frames_key;

size_t uw_frames_key_bytes(void);

/* Make the key of an epoch; the key is zeroed memory of uw_frames_key_bytes(), or one that is
 * replaced. Returns UW_OK or UW_ERR_NOMEM. */
int uw_frames_key_derive(struct uw_frames_key *k, const uint8_t run_key[UW_KEY_BYTES],
                         const char *run, uint32_t epoch);

/* Frees the library's memory and wipes the key. Safe on zeroed memory and twice. */
void uw_frames_key_wipe(struct uw_frames_key *k);

/* A frame: a header that is authenticated, and a body that is encrypted in place. */
struct uw_ccm_frame {
    uint8_t nonce[UW_CCM_NONCE_BYTES];
    uint8_t head[32];
    uint32_t head_bytes;
    uint8_t *body;                  /* [body_bytes], then the tag */
    uint32_t body_bytes;
};

/* Encrypt and write the tag. Returns UW_OK or UW_ERR_IO. */
int uw_ccm_seal(struct uw_frames_key *k, const struct uw_ccm_frame *f);

/* Check the tag and decrypt. Returns UW_OK, UW_ERR_DENIED (forged or damaged; the body is lost)
 * or UW_ERR_IO. */
int uw_ccm_open(struct uw_frames_key *k, const struct uw_ccm_frame *f);

/* Fill with random bytes from `entropy` or, if NULL, from the operating system.
 * Returns UW_OK or UW_ERR_IO. */
int uw_ccm_random(int (*entropy)(void *user, uint8_t *out, size_t bytes), void *user,
                  uint8_t *out, size_t bytes);

#endif
