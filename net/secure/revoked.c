/* SPDX-License-Identifier: Apache-2.0 */
#include "revoked.h"

#include "base/bytes.h"

#include "uwasa/secure_keys.h"

#include <string.h>

static const uint8_t magic[5] = {'u', 'w', 'r', 'k', 1};

int uw_revoked_read(const uint8_t *list, uint32_t bytes, struct uw_revoked *r)
{
    if (bytes < UW_REVOKED_HEAD_BYTES || bytes > UW_REVOKED_BYTES_MAX ||
        memcmp(list, magic, sizeof magic) != 0 || list[5] > UW_REVOKED_MAX || list[6] != 0 ||
        list[7] != 0) {
        return UW_ERR_CORRUPT;
    }
    r->names_n = list[5];
    r->root = uw_get_u32(list + 8);
    r->number = uw_get_u32(list + 12);
    r->names = list + UW_REVOKED_HEAD_BYTES;
    r->signed_bytes = UW_REVOKED_HEAD_BYTES + r->names_n * UW_REVOKED_NAME_BYTES;
    if (bytes <= r->signed_bytes || r->number == 0) {
        return UW_ERR_CORRUPT;
    }
    r->signature = list + r->signed_bytes;
    r->signature_bytes = bytes - r->signed_bytes;
    return UW_OK;
}

void uw_revoked_write_head(uint8_t head[UW_REVOKED_HEAD_BYTES], uint32_t root, uint32_t number,
                           uint32_t names_n)
{
    memset(head, 0, UW_REVOKED_HEAD_BYTES);
    memcpy(head, magic, sizeof magic);
    head[5] = (uint8_t)names_n;
    uw_put_u32(head + 8, root);
    uw_put_u32(head + 12, number);
}

bool uw_revoked_has(const struct uw_revoked *r, const uint8_t name[UW_REVOKED_NAME_BYTES])
{
    bool found = false;
    for (uint32_t i = 0; i < r->names_n; i++) {
        found = found || memcmp(r->names + (size_t)i * UW_REVOKED_NAME_BYTES, name,
                                UW_REVOKED_NAME_BYTES) == 0;
    }
    return found;
}
