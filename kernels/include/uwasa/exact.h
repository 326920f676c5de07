/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/exact.h - exact mode: the same weights, bit for bit, on every processor
 *
 * A table whose `exact` is true computes the bits of the reference kernels. A model trained with it
 * has the same weights after every step on x86-64, AArch64, 32-bit Arm and Cortex-M, with any
 * compiler, optimization level, number of threads and memory budget. Minibatch, micro-batch and
 * plan mode must be equal, because they change the order of sums. Exact tables follow these rules:
 *
 * Order      gemm and dense: a sum begins at the initial value of C (beta C, the bias); its terms
 *            are in ascending k, in blocks of 64 that begin at 0 and are added one after the other.
 *            Convolution, forward and input gradient: a sum begins at the initial output plus the
 *            bias; its terms are added one by one, in ascending channel, kernel row and column.
 *            Weight gradient: blocks are whole rows of the output, up to 64 positions; the sum of
 *            all blocks of all images, times scale, is added in the end. No sum begins at -0. Every
 *            other slot: as kernels/ref.
 * Rounding   Multiplication and addition are separate, each rounded to float (double where the
 *            reference does), to nearest, ties to even; subnormals are kept. Fused multiply-adds
 *            are not used: without an instruction, fmaf is a call of 69 instructions instead of 4
 *            on ARMv7 with VFPv3, 69 instead of 2 on x86-64 below AVX2, 189 instead of 90 on a
 *            Cortex-M3; a Cortex-M4F or M7 would save 1 of 5. Also, newlib's fmaf rounds twice. If
 *            vector instructions flush subnormals (Cortex-M55), build the reference without them,
 *            as boards/mps3_an547 does.
 * Functions  exp, log, tanh, erf, sin and cos are those of uwasa/fmath.h. Of the C library only
 *            sqrt and sqrtf are called, which IEEE 754 defines to the last bit.
 *
 * Exact mode holds for finite values: tables may differ in NaN and infinity, where training stops.
 * It covers arithmetic only: a gossip run depends on the time of exchanges, a schedule with a time
 * limit on the clock.
 *
 * Cost       Training takes 1.8 to 9.4 times as long as with the fastest table of an AVX-512
 *            processor (README); the memory is that of the plan.
 *
 * Memory     tables are constant
 * Blocking   never          Context  any thread
 * Source     IEEE 754-2019, sections 4.3.1, 5.4.1
 */
#ifndef UWASA_EXACT_H
#define UWASA_EXACT_H

#include "uwasa/cplusplus.h"
#include "uwasa/kernels.h"

UW_C_BEGIN

/* The fastest exact table that this processor can run, or ref. */
const struct uw_kernels *uw_kernels_exact(void);

/* Check that this thread's arithmetic allows exact mode: rounding mode, subnormals, excess
 * precision, contracted multiply-adds. Call it once, before training.
 *
 * Returns UW_OK, or UW_ERR_UNSUPPORTED. */
int uw_exact_check(void);

UW_C_END
#endif
