/* SPDX-License-Identifier: Apache-2.0
 *
 * What every test program shares: cmocka, a replayable seed, buffers with poisoned guard zones.
 *
 * A random test calls uw_test_seed(): it prints "seed=..." and honours UWASA_TEST_SEED, so a
 * failure is replayed by setting that variable. */
#ifndef UWASA_TEST_SUPPORT_H
#define UWASA_TEST_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Seed of this run: UWASA_TEST_SEED, or `fallback`. Prints it. */
static inline uint64_t uw_test_seed(uint64_t fallback)
{
    const char *text = getenv("UWASA_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    printf("seed=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Does all take several times as long (UWASA_TEST_SLOW, which the presets of emulated processors
 * and of the address sanitizer set)? Tests of many random cases then have fewer. */
static inline bool uw_test_slow(void)
{
    return getenv("UWASA_TEST_SLOW") != NULL;
}

/* Where blocks come from. A GPU's tests take them where it and the processor see them. */
#ifdef UW_TEST_GPU_MEMORY
#include "table.h"
#define UW_TEST_TAKE(bytes) uw_gpu_test_take(bytes)
#define UW_TEST_GIVE(block) uw_gpu_test_give(block)
#else
#define UW_TEST_TAKE(bytes) aligned_alloc(64, bytes)
#define UW_TEST_GIVE(block) free(block)
#endif

#define UW_TEST_GUARD_BYTES 256u
#define UW_TEST_GUARD_FILL 0xa5u

/* A block with a guard zone on both sides, aligned to 64 bytes and filled with 0xff, so that
 * floats start as NaN. Free with uw_test_release, which fails the test if a guard changed. */
static inline void *uw_test_block(size_t bytes)
{
    size_t padded = (bytes + 63u) / 64u * 64u;
    size_t whole = 64u + UW_TEST_GUARD_BYTES + padded + UW_TEST_GUARD_BYTES;
    uint8_t *raw = UW_TEST_TAKE(whole);
    assert_non_null(raw);
    memset(raw, UW_TEST_GUARD_FILL, whole);
    memcpy(raw, &bytes, sizeof bytes);
    uint8_t *p = raw + 64u + UW_TEST_GUARD_BYTES;
    memset(p, 0xff, bytes);
    return p;
}

static inline float *uw_test_floats(size_t n)
{
    return uw_test_block(n * sizeof(float));
}

static inline void uw_test_release(void *block)
{
    uint8_t *p = block;
    uint8_t *raw = p - UW_TEST_GUARD_BYTES - 64u;
    size_t bytes;
    memcpy(&bytes, raw, sizeof bytes);
    for (size_t i = 0; i < UW_TEST_GUARD_BYTES; i++) {
        assert_int_equal(raw[64u + i], UW_TEST_GUARD_FILL);
        assert_int_equal(p[bytes + i], UW_TEST_GUARD_FILL);
    }
    UW_TEST_GIVE(raw);
}

#endif
