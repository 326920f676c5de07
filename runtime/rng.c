/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/rng.h"

#include "uwasa/fmath.h"

#include <stdbool.h>

static uint64_t finalize(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static const uint64_t golden = 0x9e3779b97f4a7c15u;

#define FEISTEL_ROUNDS 6u

uint64_t uw_rng_mix(uint64_t seed, uint64_t stream)
{
    return finalize(finalize(seed + golden) + (stream + 1) * golden);
}

void uw_rng_seed(struct uw_rng *r, uint64_t seed)
{
    uint64_t a = finalize(seed + golden);
    uint64_t b = finalize(seed + 2 * golden);
    r->s[0] = (uint32_t)a;
    r->s[1] = (uint32_t)(a >> 32);
    r->s[2] = (uint32_t)b;
    r->s[3] = (uint32_t)(b >> 32);
    if ((r->s[0] | r->s[1] | r->s[2] | r->s[3]) == 0) {
        r->s[0] = 1; /* the generator could never leave the all-zero state */
    }
}

static uint32_t rotl(uint32_t x, int k)
{
    return (x << k) | (x >> (32 - k));
}

uint32_t uw_rng_u32(struct uw_rng *r)
{
    uint32_t *s = r->s;
    uint32_t result = rotl(s[0] + s[3], 7) + s[0];
    uint32_t t = s[1] << 9;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 11);
    return result;
}

uint32_t uw_rng_below(struct uw_rng *r, uint32_t n)
{
    if (n == 0) {
        return 0;
    }
    /* Reject 2^32 mod n values, which would make low results more likely. */
    uint32_t reject = (0u - n) % n;
    uint64_t product;
    do {
        product = (uint64_t)uw_rng_u32(r) * n;
    } while ((uint32_t)product < reject);
    return (uint32_t)(product >> 32);
}

float uw_rng_uniform(struct uw_rng *r)
{
    return (float)(uw_rng_u32(r) >> 8) * 0x1p-24f;
}

float uw_rng_normal(struct uw_rng *r)
{
    float u, v, s;
    do {
        u = 2.0f * uw_rng_uniform(r) - 1.0f;
        v = 2.0f * uw_rng_uniform(r) - 1.0f;
        s = u * u + v * v;
    } while (s >= 1.0f || s == 0.0f);
    return u * uw_sqrtf(-2.0f * uw_logf(s) / s);
}

/* Half of the bits of a number below n, rounded up. */
static uint32_t half_bits_of(uint32_t n)
{
    uint32_t half_bits = 1;
    while (half_bits < 16 && ((uint64_t)1 << (2 * half_bits)) < n) {
        half_bits++;
    }
    return half_bits;
}

static uint32_t scramble(uint64_t key, uint32_t round, uint32_t right)
{
    return (uint32_t)(finalize(key + golden * (round + 1) + right) >> 32);
}

/* A Feistel network, repeated until the result is below n (cycle walking). The inverse (back) swaps
 * the halves and runs the rounds from the last to the first. */
static uint32_t permute(uint64_t key, uint32_t n, uint32_t i, bool back)
{
    if (n < 2) {
        return 0;
    }
    uint32_t half_bits = half_bits_of(n), mask = (1u << half_bits) - 1u;
    do {
        uint32_t left = back ? i & mask : i >> half_bits;
        uint32_t right = back ? i >> half_bits : i & mask;
        for (uint32_t k = 0; k < FEISTEL_ROUNDS; k++) {
            uint32_t round = back ? FEISTEL_ROUNDS - 1 - k : k;
            uint32_t next = left ^ (scramble(key, round, right) & mask);
            left = right;
            right = next;
        }
        i = back ? (right << half_bits) | left : (left << half_bits) | right;
    } while (i >= n);
    return i;
}

uint32_t uw_rng_permute(uint64_t key, uint32_t n, uint32_t i)
{
    return permute(key, n, i, false);
}

uint32_t uw_rng_permute_back(uint64_t key, uint32_t n, uint32_t i)
{
    return permute(key, n, i, true);
}
