/* SPDX-License-Identifier: Apache-2.0 */
#include "sha256.h"

static const uint32_t start[8] = {
    0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu,
    0x5be0cd19u};
static const uint32_t round_of[64] = {
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u,
    0xab1c5ed5u, 0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu,
    0x9bdc06a7u, 0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu,
    0x4a7484aau, 0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u,
    0xc6e00bf3u, 0xd5a79147u, 0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu,
    0x53380d13u, 0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu,
    0xc24b8b70u, 0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u,
    0x1e376c08u, 0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u,
    0x748f82eeu, 0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u,
    0xc67178f2u};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void take_block(struct uw_sha256 *s)
{
    uint32_t w[64], v[8];
    for (unsigned i = 0; i < 16; i++) {
        const uint8_t *p = s->block + 4 * i;
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    for (unsigned i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[i - 7] +
               (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
    for (unsigned i = 0; i < 8; i++) {
        v[i] = s->h[i];
    }
    for (unsigned i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 = v[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + round_of[i] + w[i];
        uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (unsigned j = 7; j > 0; j--) {
            v[j] = v[j - 1];
        }
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (unsigned i = 0; i < 8; i++) {
        s->h[i] += v[i];
    }
}

void uw_sha256_begin(struct uw_sha256 *s)
{
    for (unsigned i = 0; i < 8; i++) {
        s->h[i] = start[i];
    }
    s->bytes = 0;
}

void uw_sha256_add(struct uw_sha256 *s, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++) {
        s->block[s->bytes++ % 64] = p[i];
        if (s->bytes % 64 == 0) {
            take_block(s);
        }
    }
}

void uw_sha256_end(struct uw_sha256 *s, char text[65])
{
    uint64_t bits = s->bytes * 8;
    uint8_t byte = 0x80;
    do {
        uw_sha256_add(s, &byte, 1);
        byte = 0;
    } while (s->bytes % 64 != 56);
    for (unsigned i = 0; i < 8; i++) {
        byte = (uint8_t)(bits >> (56 - 8 * i));
        uw_sha256_add(s, &byte, 1);
    }
    for (unsigned i = 0; i < 64; i++) {
        text[i] = "0123456789abcdef"[s->h[i / 8] >> (28 - i % 8 * 4) & 15];
    }
    text[64] = '\0';
}
