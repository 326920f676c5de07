/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations and recurrent cells with the same bits as the reference: no fused multiply-adds. */
#define VEC_N 8u
#define IN_ORDER true
#define FAMILY(name) name##_exact
#include "packed/activation_inline.h"
#include "packed/sequence_inline.h"
