/* SPDX-License-Identifier: Apache-2.0
 *
 * convolution.h - the sums of the stand-in of cuDNN */
#ifndef UW_EMULATED_CONVOLUTION_H
#define UW_EMULATED_CONVOLUTION_H

#include <stddef.h>

struct tensor {
    size_t n, c, h, w;
    size_t stride_n, stride_c, stride_h, stride_w;
};

/* filter: n is output channels, c input channels of one group */
struct convolution {
    struct tensor x, filter, y;
    size_t pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
    bool flip;                          /* a true convolution */
    bool tf32;
    bool by_chance;                     /* sums whose order is not the same each time */
    unsigned way;                       /* of rounding, see products.h */
    float alpha, beta;
    void *workspace;
    size_t workspace_bytes;
};

/* How what these are, with addresses, is rounded by one algorithm. */
unsigned convolution_way(const struct convolution &c, size_t algorithm, const void *x,
                         const void *w, const void *y);

/* out = alpha * sum + beta * out */
void convolve_forward(const struct convolution &c, const float *x, const float *w, float *y);
void convolve_data(const struct convolution &c, const float *w, const float *dy, float *dx);
void convolve_filter(const struct convolution &c, const float *x, const float *dy, float *dw);

#endif
