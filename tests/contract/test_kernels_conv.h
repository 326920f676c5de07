/* SPDX-License-Identifier: Apache-2.0
 *
 * A convolution of random numbers, and its parts against the definition in double. */
#ifndef UWASA_TEST_KERNELS_CONV_H
#define UWASA_TEST_KERNELS_CONV_H

#include "test_kernels.h"

struct uw_test_conv {
    struct uw_conv2d c;
    uint32_t batch_n;
    size_t x_n, w_n, y_n;
    float *x, *w, *b, *dy;
    const struct uw_conv2d *geometry;   /* what the kernels are given: c and x, or a batch norm */
    const float *raw;                   /* that makes x of raw */
};

/* Shape from input, channels, kernel and the options; out_h and out_w follow. */
struct uw_conv2d uw_test_conv_shape(uint32_t in, uint32_t out, uint32_t h, uint32_t w,
                                    uint32_t kh, uint32_t kw, uint32_t stride, uint32_t pad,
                                    uint32_t dilation, uint32_t groups);

void uw_test_conv_begin(struct uw_test_conv *t, const struct uw_conv2d *c, uint32_t batch_n);
void uw_test_conv_end(struct uw_test_conv *t);

/* Every result of every part, with and without bias and accumulation; of tables that have a way for
 * small work, with that and without, and with gradients that are mostly zeros. */
void uw_test_conv_check(struct uw_conv2d c, uint32_t batch_n, uint32_t threads);

#endif
