/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases that judge kernel slots one by one, on every backend of this build. */
#ifndef UWASA_TEST_KERNEL_CASE_H
#define UWASA_TEST_KERNEL_CASE_H

#include "test_support.h"

#include "vectors.h"

#include "uwasa/backends.h"

typedef void check_fn(const struct vector_case *c, const struct uw_kernels *k);

/* Run check on every case of a kind in a file, and every backend. */
static inline void each_case(const char *file, const char *kind, check_fn *check)
{
    unsigned cases_n = 0;
    struct vectors v;
    struct vector_case c = {.numbers_n = 0};
    vectors_open(&v, file);
    while (vectors_next(&v, kind, &c)) {
        for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
            check(&c, uw_kernels_at(i));
        }
        cases_n++;
    }
    vectors_close(&v);
    assert_in_range(cases_n, 3, 100);
}

static inline float *filled(size_t n, uint32_t seed, float scale)
{
    float *x = uw_test_floats(n);
    vector_fill(x, n, seed, scale);
    return x;
}

static inline float *zeroed(size_t n)
{
    float *x = uw_test_floats(n);
    memset(x, 0, n * sizeof *x);
    return x;
}

/* Blocks may be NULL. */
static inline void release(float **blocks, size_t blocks_n)
{
    for (size_t i = 0; i < blocks_n; i++) {
        if (blocks[i] != NULL) {
            uw_test_release(blocks[i]);
        }
    }
}

#endif
