/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations and recurrent cells, with fused multiply-adds. */
#define VEC_N 4u
#define IN_ORDER false
#define FAMILY(name) name##_neon
#include "packed/activation_inline.h"
#include "packed/sequence_inline.h"
