/* SPDX-License-Identifier: Apache-2.0
 *
 * sha256.h - SHA-256 for tests that run where no library is. Source: FIPS 180-4. */
#ifndef UWASA_TEST_SHA256_H
#define UWASA_TEST_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct uw_sha256 {
    uint32_t h[8];
    uint8_t block[64];
    uint64_t bytes;
};

void uw_sha256_begin(struct uw_sha256 *s);
void uw_sha256_add(struct uw_sha256 *s, const void *data, size_t bytes);

/* Lower case, with its NUL. */
void uw_sha256_end(struct uw_sha256 *s, char text[65]);

#endif
