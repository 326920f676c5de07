/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference's loops, which the compiler vectorizes for AVX2: the same bits. */
#include "x86/x86.h"

#define UW_TENSOR_NAME uw_tensor_avx2
#include "ref/tensor_inline.h"
