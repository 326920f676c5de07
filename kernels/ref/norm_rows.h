/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_rows.h - what batch norm's loops are about: the rows of a channel, and its numbers
 */
#ifndef UW_KERNELS_NORM_ROWS_H
#define UW_KERNELS_NORM_ROWS_H

#include <stddef.h>

/* `count` rows of n floats, stride floats from one to the next. What lies `ahead` floats further on
 * is wanted soon. */
struct norm_rows {
    size_t count, stride, n, ahead;
};

struct norm_channel {
    float mean, second, gamma, beta;
    float ceiling;              /* 0: no ReLU */
};

#endif
