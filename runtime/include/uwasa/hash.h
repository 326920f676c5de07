/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/hash.h - FNV-1a, for names, layouts and damaged files; not for keys or hostile input
 *
 * Blocking   never          Context  any thread
 * Source     Fowler, Noll and Vo; the constants of the IETF draft "The FNV Non-Cryptographic Hash"
 */
#ifndef UWASA_HASH_H
#define UWASA_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UW_HASH64_START 0xcbf29ce484222325u

/* Continue a 64-bit hash over more bytes; start with UW_HASH64_START. */
static inline uint64_t uw_hash64(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ p[i]) * 0x100000001b3u;
    }
    return hash;
}

/* The same over words of 32 bits, the last one filled up with zeros: four times as fast. Whatever
 * changes within one word changes the hash. */
static inline uint64_t uw_hash64_words(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)data;
    uint32_t word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    if (bytes != 0) {
        word = 0;
        memcpy(&word, p, bytes);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

/* 32-bit hash of a text without its NUL. */
static inline uint32_t uw_hash32_text(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    }
    return hash;
}

#endif
