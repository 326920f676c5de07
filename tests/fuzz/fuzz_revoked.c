/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of revoked devices from anybody: what is read lies within it, and its head is written
 * again as the same bytes. */
#include "fuzz.h"
#include "fuzz_form.h"

#include "secure/revoked.h"

#include "uwasa/secure_keys.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST (UW_REVOKED_BYTES_MAX + 8u)

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const uint32_t names_n[] = {0, 1, 2, UW_REVOKED_MAX - 1u, UW_REVOKED_MAX};
    uint8_t list[LONGEST];
    for (size_t i = 0; i < sizeof names_n / sizeof names_n[0]; i++) {
        for (size_t k = 0; k < sizeof list; k++) {
            list[k] = (uint8_t)(k * 7u);
        }
        uw_revoked_write_head(list, 0x12345678u, (uint32_t)i + 1u, names_n[i]);
        uw_fuzz_add(corpus, list, UW_REVOKED_HEAD_BYTES + names_n[i] * UW_REVOKED_NAME_BYTES + 71u);
    }
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_revoked r;
    uint8_t head[UW_REVOKED_HEAD_BYTES], none[UW_REVOKED_NAME_BYTES] = {0};
    int rc = uw_revoked_read(input, (uint32_t)bytes, &r);
    if (rc == UW_ERR_CORRUPT) {
        return 0;
    }
    uw_revoked_write_head(head, r.root, r.number, r.names_n);
    if (rc != UW_OK || r.number == 0 || r.names_n > UW_REVOKED_MAX || r.signature_bytes == 0 ||
        r.signed_bytes + r.signature_bytes != bytes || r.signature != input + r.signed_bytes ||
        memcmp(head, input, sizeof head) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < r.names_n; i++) {
        if (!uw_revoked_has(&r, r.names + (size_t)i * UW_REVOKED_NAME_BYTES)) {
            return -1;
        }
    }
    return 1 + (int)r.names_n * 2 + uw_revoked_has(&r, none);
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {
        {0, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 4}, {12, 4}, {16, 8}, {24, 8}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"revoked", add_inputs, try_one, LONGEST};
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, NULL}, argc, argv);
}
