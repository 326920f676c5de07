/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the kernel contract share: the table under test, scratch of exactly the
 * stated size between guards, a pool that hands tasks out in a scrambled order, and comparison
 * against sums that a naive twin computed in double. */
#ifndef UWASA_TEST_KERNELS_H
#define UWASA_TEST_KERNELS_H

#include "test_support.h"

#include "uwasa/backends.h"
#include "uwasa/rng.h"
#include "uwasa/status.h"

/* The table under test. */
const struct uw_kernels *uw_test_table(void);

/* A GPU's table, which has no operators on tensors and no functions yet. */
bool uw_test_has_no_tensors(void);

/* An exec for `threads` threads whose scratch has exactly `bytes` bytes. threads > 1 uses a pool
 * that runs tasks last to first under changing thread numbers. */
struct uw_test_exec {
    struct uw_exec exec;
    struct uw_workers workers;
};
void uw_test_exec_begin(struct uw_test_exec *e, uint32_t threads, size_t bytes);
void uw_test_exec_end(struct uw_test_exec *e);

/* Random numbers in [-1, 1) from one generator for the whole program. */
float uw_test_random(void);
uint32_t uw_test_below(uint32_t n);
float *uw_test_random_floats(size_t n);
float *uw_test_copy_floats(size_t n, const float *x);

/* A sum computed in double, and the sum of the absolute values of its n terms. */
struct uw_sum {
    double value, size;
    size_t n;
};

static inline void uw_sum_add(struct uw_sum *s, double term)
{
    s->value += term;
    s->size += fabs(term);
    s->n++;
}

/* Fails unless `got` is the sum up to the rounding of an fp32 sum of its length. */
void uw_test_assert_sum(float got, const struct uw_sum *want);
void uw_test_assert_near(double got, double want, double tolerance);
void uw_test_assert_same_bits(size_t n, const float *a, const float *b);

extern const struct CMUnitTest uw_test_products[], uw_test_conv2d[], uw_test_pointwise[];
extern const size_t uw_test_products_n, uw_test_conv2d_n, uw_test_pointwise_n;
extern const struct CMUnitTest uw_test_norm[], uw_test_sequence[], uw_test_training[];
extern const struct CMUnitTest uw_test_activation[], uw_test_direct[];
extern const size_t uw_test_activation_n, uw_test_direct_n;
extern const size_t uw_test_norm_n, uw_test_sequence_n, uw_test_training_n;
extern const struct CMUnitTest uw_test_winograd[], uw_test_exact[];
extern const size_t uw_test_winograd_n, uw_test_exact_n;
extern const struct CMUnitTest uw_test_tensor[];
extern const size_t uw_test_tensor_n;

#endif
