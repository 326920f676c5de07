/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/exact.h - exact mode: the same weights, bit for bit, on every processor
 *
 * A table whose `exact` is true gives the bits of the reference kernels. Trained with one, a model
 * has the same weights after every step on x86-64, AArch64, 32-bit Arm and Cortex-M, with any
 * compiler, optimization level and number of threads, in any memory budget. Minibatch, micro-batch
 * and plan mode are part of the recipe: each sums in an order of its own. What that takes:
 *
 * Order      gemm and dense: a sum begins at what C holds (beta C, the bias), its terms come in
 *            ascending k, in blocks of 64 that begin at 0 and are added one after the other.
 *            Convolution, forward and input gradient: a sum begins at what the output holds plus
 *            the bias and takes its terms one by one, in ascending channel, kernel row and column.
 *            Weight gradient: blocks are whole rows of the output, as many as give up to 64
 *            positions; the sum of all blocks of all images, times scale, is added in the end. No
 *            sum begins at -0. Every other slot: as kernels/ref has it.
 * Rounding   Multiplication and addition are separate, each rounded to float (double where the
 *            reference says so), to nearest, ties to even; subnormals are kept. Not fused, because
 *            where there is no such instruction fmaf is a call: 69 instructions a multiply-add in
 *            place of 4 on ARMv7 with VFPv3, 69 in place of 2 on x86-64 below AVX2, 189 in place
 *            of 90 on a Cortex-M3; on a Cortex-M4F or M7 it would save 1 of 5. And newlib's fmaf
 *            rounds twice. Where vector instructions flush subnormals (Cortex-M55) the reference
 *            is to be built without them, as boards/mps3_an547 does.
 * Functions  exp, log, tanh, erf, sin and cos are those of uwasa/fmath.h. Of the C library only
 *            sqrt and sqrtf are called, which IEEE 754 defines to the last bit.
 *
 * It holds while all values are finite: what becomes of NaN and infinity is for each table to say,
 * and training stops there. It is about arithmetic: in a gossip run the moment of an exchange
 * decides what is mixed, and a schedule that ends after some time depends on the clock.
 *
 * Cost       Training takes 1.8 to 9.4 times as long as with the fastest table of an AVX-512
 *            processor (README); the memory is that of the plan.
 *
 * Memory     tables are constant and live for ever
 * Blocking   never          Context  any thread
 * Source     IEEE 754-2019, sections 4.3.1, 5.4.1
 */
#ifndef UWASA_EXACT_H
#define UWASA_EXACT_H

#include "uwasa/cplusplus.h"
#include "uwasa/kernels.h"

UW_C_BEGIN

/* The fastest exact table that this processor can run; ref when there is no other. */
const struct uw_kernels *uw_kernels_exact(void);

/* Does this thread's arithmetic allow it? Looks at the rounding mode, at subnormals, at excess
 * precision and at contracted multiply-adds. Call it once, before training.
 *
 * Returns UW_OK, or UW_ERR_UNSUPPORTED. */
int uw_exact_check(void);

UW_C_END
#endif
