/* SPDX-License-Identifier: Apache-2.0
 *
 * change.h - a test kernel that shows that processor and GPU see the same memory
 *
 * Blocking  until the GPU has finished   Context  one thread
 */
#ifndef UW_BOARDS_JETSON_CHANGE_H
#define UW_BOARDS_JETSON_CHANGE_H

#include "uwasa/cplusplus.h"

#include <stddef.h>
#include <stdint.h>

UW_C_BEGIN

/* The value into which the kernel changes v, a uint32_t. */
#define UW_CHANGED(v) ((v) * 2654435761u + 1u)

/* Replace each of x[0..n-1] with UW_CHANGED of it, on the GPU. Returns a cudaError_t. */
int uw_change_on_gpu(uint32_t *x, size_t n);

UW_C_END
#endif
