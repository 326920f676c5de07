/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors.h - tensors of a safetensors file, held against the segments of a model (private)
 *
 * Memory     half a kilobyte of stack      Blocking  the storage's
 */
#ifndef UWASA_TENSORS_H
#define UWASA_TENSORS_H

#include "safetensors.h"

/* Is the entry of the segment's type, shape and size? Returns UW_OK, UW_ERR_MISMATCH,
 * UW_ERR_CORRUPT. */
int uw_tensor_check(const struct uw_safetensors *st, const struct uw_segment *segment,
                    const struct uw_safetensors_entry *e, struct uw_error *err);

/* Returns UW_OK, UW_ERR_NONFINITE (it holds a NaN or an infinity), or what reading gives. */
int uw_tensor_check_finite(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                           struct uw_error *err);

/* Read n floats from number `first` on. */
int uw_tensor_read(const struct uw_safetensors *st, const struct uw_safetensors_entry *e,
                   uint64_t first, uint64_t n, float *out, struct uw_error *err);

/* Low-rank additions beside a dense layer's weight: w += scale * lora_b lora_a; nothing when the
 * file has none.
 *
 *   weight  its segment, "<layer>.weight", rank 2
 *   w       [out][in]; NULL: only check them
 *
 * Returns UW_OK, UW_ERR_NOTFOUND (only one of the two is there), or what the others above give. */
int uw_tensor_merge_addition(const struct uw_safetensors *st, const struct uw_segment *weight,
                             float scale, float *w, struct uw_error *err);

#endif
