/* SPDX-License-Identifier: Apache-2.0
 *
 * widening.h - the types of numbers in safetensors files that are read as floats (private)
 *
 * F16, BF16 and F64; a double is rounded. A program that reads F32 alone does not have it.
 *
 * Memory     none      Blocking  never      Context  any
 */
#ifndef UWASA_WIDENING_H
#define UWASA_WIDENING_H

#include "safetensors.h"

extern const struct uw_widening uw_widening;

#endif
