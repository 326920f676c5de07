/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/rng.h - seeded random numbers, the same on every device
 *
 * xoshiro128++ (32-bit state words, fast on a microcontroller) seeded by splitmix64. The state is
 * plain data: save and restore it to replay. Not for keys.
 *
 * Memory     caller owns struct uw_rng      Blocking  never      Context  one thread per state
 * Source     Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021
 */
#ifndef UWASA_RNG_H
#define UWASA_RNG_H

#include "uwasa/cplusplus.h"

#include <stdint.h>

UW_C_BEGIN

struct uw_rng {
    uint32_t s[4];
};

/* Seed all four words; any 64-bit seed is good, also 0. */
void uw_rng_seed(struct uw_rng *r, uint64_t seed);

/* Next 32 random bits. */
uint32_t uw_rng_u32(struct uw_rng *r);

/* Uniform in 0 .. n-1 without bias; 0 when n is 0. */
uint32_t uw_rng_below(struct uw_rng *r, uint32_t n);

/* Uniform in [0, 1), 24 bits. */
float uw_rng_uniform(struct uw_rng *r);

/* Normal with mean 0 and variance 1 (Marsaglia's polar method; no state kept between calls). */
float uw_rng_normal(struct uw_rng *r);

/* Mix a seed with a stream number into an independent seed (splitmix64's finalizer). */
uint64_t uw_rng_mix(uint64_t seed, uint64_t stream);

/* Position of element i in a pseudo-random permutation of 0 .. n-1 chosen by `key`: a Feistel
 * network over the next even power of two, repeated until the result is below n. Needs no memory:
 * the shuffle of an epoch is resumed from (key, i).
 *
 *   i   0 .. n-1
 *
 * Returns a value in 0 .. n-1; distinct i give distinct values. */
uint32_t uw_rng_permute(uint64_t key, uint32_t n, uint32_t i);

/* The inverse: the element whose position is i. */
uint32_t uw_rng_permute_back(uint64_t key, uint32_t n, uint32_t i);

UW_C_END
#endif
