/* SPDX-License-Identifier: Apache-2.0
 *
 * revoked.h - the form of a list of revoked devices (uwasa/secure_keys.h)
 *
 * Reading says nothing of who wrote it: the caller verifies the signature. */
#ifndef UW_NET_REVOKED_H
#define UW_NET_REVOKED_H

#include <stdbool.h>
#include <stdint.h>

#define UW_REVOKED_HEAD_BYTES 16u
#define UW_REVOKED_NAME_BYTES 8u

struct uw_revoked {
    uint32_t root, number, names_n;
    const uint8_t *names;           /* [names_n][UW_REVOKED_NAME_BYTES] */
    const uint8_t *signature;
    uint32_t signed_bytes;          /* from the start of the list */
    uint32_t signature_bytes;
};

/* Read a list; r points into it. Returns UW_OK or UW_ERR_CORRUPT. */
int uw_revoked_read(const uint8_t *list, uint32_t bytes, struct uw_revoked *r);

/* Write what is before the names. */
void uw_revoked_write_head(uint8_t head[UW_REVOKED_HEAD_BYTES], uint32_t root, uint32_t number,
                           uint32_t names_n);

bool uw_revoked_has(const struct uw_revoked *r, const uint8_t name[UW_REVOKED_NAME_BYTES]);

#endif
