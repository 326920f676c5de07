/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/exact.h - exact mode: the same weights, bit for bit, on every processor
 *
 * A table whose `exact` is true gives the bits of the reference kernels. Trained with one, a model
 * has the same weights after every step on x86-64, AArch64, 32-bit Arm and Cortex-M, with any
 * compiler, optimization level and number of threads, in any memory budget. What that takes:
 *
 * Order      A sum of products begins at what its output holds or at its bias, + 0 so that it is
 *            never -0, and takes its terms one by one: dense and gemm in ascending k; convolution
 *            in ascending channel, then kernel row and column. Sums over a minibatch that train a
 *            parameter begin at 0, run over one image, then over images, and are added to the
 *            target in the end, times scale. Every other slot: as kernels/ref has it.
 * Rounding   Multiplication and addition are separate, each rounded to float (double where the
 *            reference says so), to nearest, ties to even; subnormals are kept. Not fused:
 *            Cortex-M3, ARMv7 without VFPv4 and x86-64 below AVX2 have no such instruction, and
 *            there fmaf is a call that takes 15 to 90 times as long (README).
 * Functions  exp, log, tanh, erf, sin and cos are those of uwasa/fmath.h. Of the C library only
 *            sqrt and sqrtf are called, which IEEE 754 defines to the last bit.
 *
 * It holds while all values are finite: what becomes of NaN and infinity is for each table to say,
 * and training stops there. It is about arithmetic: in a gossip run the moment of an exchange
 * decides what is mixed, and a schedule that ends after some time depends on the clock.
 *
 * Memory     tables are constant and live for ever
 * Blocking   never          Context  any thread
 * Source     IEEE 754-2019, sections 4.3.1, 5.4.1
 */
#ifndef UWASA_EXACT_H
#define UWASA_EXACT_H

#include "uwasa/kernels.h"

/* The fastest exact table that this processor can run; ref when there is no other. */
const struct uw_kernels *uw_kernels_exact(void);

/* Does this thread's arithmetic allow it? Looks at the rounding mode, at subnormals, at excess
 * precision and at contracted multiply-adds. Call it once, before training.
 *
 * Returns UW_OK, or UW_ERR_UNSUPPORTED. */
int uw_exact_check(void);

#endif
