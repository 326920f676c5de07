/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kernels.h - the kernel table: all arithmetic of the runtime
 *
 * `kernels/` implements it: `ref` is the portable definition of every slot, the other tables
 * override the slots they tune. A table has no NULL slot. A backend is chosen by its pointer.
 *
 * Layout     f32, row-major, dense; images [N][C][H][W]; convolution weights
 *            [out_channels][in_channels/groups][kernel_h][kernel_w]; dense weights [out][in]
 * Memory     buffers are the caller's and never overlap unless the slot says so; scratch comes in
 *            struct uw_exec and is borrowed until return
 * Blocking   until computed      Context  any thread; one struct uw_exec per thread at a time
 * Errors     every int slot returns UW_OK, or UW_ERR_NOMEM if e->scratch_bytes is less than the
 *            matching *_scratch_bytes slot returns. Shapes are checked at model bind.
 * Numerics   NaN and infinity propagate (ReLU(NaN) is NaN). Results do not depend on the number of
 *            threads. Tables differ from ref by rounding only, and in the spread of NaN and
 *            infinity: a table that multiplies padding by zero spreads a NaN or infinite weight
 *            (bw_param: x or dy) to more elements, one that skips zeros of dy to fewer. A 3 x 3 or
 *            5 x 5 convolution by tiles spreads NaN, for infinity too, within a tile.
 */
#ifndef UWASA_KERNELS_H
#define UWASA_KERNELS_H

#include "uwasa/device.h"
#include "uwasa/kernels_fused.h"
#include "uwasa/kernels_layers.h"
#include "uwasa/kernels_tensor.h"
#include "uwasa/workers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_kernels;
struct uw_tile;                     /* private to kernels/ */

/* Resources of a kernel call. */
struct uw_exec {
    const struct uw_kernels *kernels;   /* the table of the slot that is called */
    struct uw_workers *workers;     /* NULL: one thread */
    void *scratch;                  /* aligned to UW_ARENA_ALIGN; NULL if no slot needs it */
    size_t scratch_bytes;
};

/* B of products that follow each other. A table may leave B packed in scratch. */
enum uw_gemm_b {
    UW_GEMM_B_ONCE,
    UW_GEMM_B_FIRST,                /* the next product has the same shape, B and scratch */
    UW_GEMM_B_AGAIN                 /* as the previous product, and nobody used its scratch since */
};

/* C = alpha * op(A) op(B) + beta * C, op(A) is [m][k], op(B) is [k][n], C is [m][n].
 * ld* is the number of elements from one stored row to the next. */
struct uw_gemm {
    bool trans_a, trans_b;          /* A is stored [k][m], B is stored [n][k] */
    uint32_t m, n, k;
    uint32_t lda, ldb, ldc;
    uint32_t rows_of;               /* m of the product of which these are some rows: they get the
                                       same bits as in it, unless the table has recurrence slots.
                                       0: a product of its own */
    float alpha, beta;
    enum uw_gemm_b b;
};

struct uw_conv2d {
    uint32_t in_channels, in_h, in_w;
    uint32_t out_channels, out_h, out_w;
    uint32_t kernel_h, kernel_w;
    uint32_t stride_h, stride_w;
    uint32_t pad_h, pad_w;          /* zeros on both sides */
    uint32_t dilation_h, dilation_w;
    uint32_t groups;                /* divides in_channels and out_channels */
    bool normed;                    /* the first member of a struct uw_normed_conv2d */
};

/* A batch norm, with or without a ReLU: y of batchnorm_fw. */
struct uw_input_norm {
    const float *stats;             /* [in_channels][2] */
    const float *gamma, *beta;      /* [in_channels], NULL: 1, 0 */
    float ceiling;                  /* as in struct uw_norm */
};

/* A convolution whose fw and bw_param apply a batch norm to x first, if conv2d_takes_norm allows
 * it. Padding stays 0. */
struct uw_normed_conv2d {
    struct uw_conv2d conv2d;        /* its normed is true */
    struct uw_input_norm norm;
};

#define UW_POOL_NONE 255u

struct uw_pool2d {
    uint32_t channels, in_h, in_w;
    uint32_t out_h, out_w;          /* a window may extend beyond x: outside values never win */
    uint32_t kernel_h, kernel_w;    /* max: kernel_h * kernel_w <= 255, the winner is a byte */
    uint32_t stride_h, stride_w;
    uint32_t pad_h, pad_w;          /* padding never wins */
    bool relu;                      /* max: of the window and 0; where 0 wins, the winner is
                                       UW_POOL_NONE and the gradient is dropped */
    bool exclude_pad;               /* average: divide by the number of values inside x; else by the
                                       size of the window within the padding, as PyTorch */
};

struct uw_dense {
    uint32_t in, out;
};

/* One step of stochastic gradient descent, as PyTorch defines it:
 *   g += weight_decay * w;  v = momentum * v + g;  w -= lr * (nesterov ? g + momentum * v : v)
 * momentum == 0 uses no v. `frozen` is quasi-global momentum's local step instead:
 *   w -= lr * (g + weight_decay * w + momentum * v), v unchanged. */
struct uw_sgd {
    float lr, momentum, weight_decay;
    bool nesterov, frozen;
};

struct uw_kernels {
    const char *name;               /* "ref", "avx2", "neon" */
    bool exact;                     /* every slot computes ref's bits, see uwasa/exact.h */
    const struct uw_tile *tile;     /* register tile under the packed slots; NULL in ref */

    /* C = alpha op(A) op(B) + beta C. beta == 0 never reads C. k == 0 scales C only. */
    int (*gemm)(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                float *c);
    size_t (*gemm_scratch_bytes)(const struct uw_kernels *k, const struct uw_gemm *g,
                                 uint32_t threads);

    /* y[n][co][oh][ow] = b[co] + sum over ci,kh,kw of w[co][ci][kh][kw] *
     *                    x[n][ci][oh*sh+kh*dh-ph][ow*sw+kw*dw-pw], taps outside x are 0.
     * b may be NULL; accumulate: y += instead. */
    int (*conv2d_fw)(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y, bool accumulate);
    /* dx = gradient of x, all of it written; accumulate: dx += instead. */
    int (*conv2d_bw_input)(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate);
    /* dw += scale * gradient of w, db += scale * gradient of b; either may be NULL. With
     * scale = -lr and dw = w this is the fused update of plan mode "immediate". */
    int (*conv2d_bw_param)(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db);
    /* May c be normed, in minibatches of up to batch_n? */
    bool (*conv2d_takes_norm)(const struct uw_kernels *k, const struct uw_conv2d *c,
                              uint32_t batch_n);
    /* Scratch for the largest of the three parts. As in every such slot, it holds for this batch_n
     * only: a smaller minibatch may need more, because it is split differently. */
    size_t (*conv2d_scratch_bytes)(const struct uw_kernels *k, const struct uw_conv2d *c,
                                   uint32_t batch_n, uint32_t threads);

    /* y[n][c][i] += b[c], i < inner_n */
    int (*add_channels)(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                        size_t inner_n, const float *b, float *y);
    /* db[c] += scale * sum over n, i of dy[n][c][i]. */
    int (*sum_channels)(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                        size_t inner_n, const float *dy, float scale, float *db);

    /* y[n][out] = x[n][in] w[out][in]^T + b[out]; b may be NULL. The parts as for conv2d. */
    int (*dense_fw)(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                    const float *x, const float *w, const float *b, float *y);
    int (*dense_bw_input)(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *dy, const float *w, float *dx, bool accumulate);
    int (*dense_bw_param)(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                          const float *x, const float *dy, float scale, float *dw, float *db);
    /* One step of plain SGD: dx of dense_bw_input, computed from the old w; then
     * w = keep * w + scale * gradient of w, and b likewise. dx and b may be NULL. */
    int (*dense_bw_step)(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                         const float *x, const float *dy, float keep, float scale, float *w,
                         float *b, float *dx, bool accumulate);
    size_t (*dense_scratch_bytes)(const struct uw_kernels *k, const struct uw_dense *d,
                                  uint32_t batch_n, uint32_t threads);

    /* y = maximum over each window; winner[n][c][oh][ow] = its tap kh * kernel_w + kw, the first
     * of equals. A NaN in the window wins. winner may be NULL (inference). */
    int (*maxpool2d_fw)(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                        const float *x, float *y, uint8_t *winner);
    /* dx = dy routed to the winners, 0 elsewhere; accumulate: dx += instead. */
    int (*maxpool2d_bw_input)(const struct uw_exec *e, const struct uw_pool2d *p,
                              uint32_t batch_n, const float *dy, const uint8_t *winner, float *dx,
                              bool accumulate);

    /* y = sum over each window / divisor, see exclude_pad. */
    int (*avgpool2d_fw)(const struct uw_exec *e, const struct uw_pool2d *p, uint32_t batch_n,
                        const float *x, float *y);
    int (*avgpool2d_bw_input)(const struct uw_exec *e, const struct uw_pool2d *p,
                              uint32_t batch_n, const float *dy, float *dx, bool accumulate);

    /* y = max(x, 0); y may be x. NaN stays NaN. */
    int (*relu_fw)(const struct uw_exec *e, size_t n, const float *x, float *y);
    /* dx = dy where y > 0, else 0; dx may be dy; accumulate: dx += instead (then dx is not dy). */
    int (*relu_bw_input)(const struct uw_exec *e, size_t n, const float *y, const float *dy,
                         float *dx, bool accumulate);

    /* p[n][classes] = softmax(logits), row maxima subtracted; *loss_sum = sum over n of
     * -sum over k of q[k] log p[n][k], with q = (1 - smoothing) onehot(label[n]) + smoothing /
     * classes; *correct_n = rows whose largest logit (first of equals) is the label.
     * p may be logits. Labels are below classes. */
    int (*softmax_xent_fw)(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                           float smoothing, const float *logits, const uint32_t *label, float *p,
                           double *loss_sum, uint32_t *correct_n);
    /* dlogits = scale * (p - q); dlogits may be p. */
    int (*softmax_xent_bw_input)(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,
                                 float smoothing, const float *p, const uint32_t *label,
                                 float scale, float *dlogits);

    /* y = a * x + b * y; b == 0 never reads y, b == 1 adds. y may be x. */
    int (*axpby)(const struct uw_exec *e, size_t n, float a, const float *x, float b, float *y);
    /* Update w (and v) from g; see struct uw_sgd. v may be NULL when momentum is 0. */
    int (*sgd_update)(const struct uw_exec *e, size_t n, const struct uw_sgd *s, const float *g,
                      float *w, float *v);
    /* True when no element is NaN or infinite. */
    bool (*all_finite)(const struct uw_exec *e, size_t n, const float *x);
    /* Sum over i of (x[i] - y[i])^2 in double; y == NULL counts as 0. */
    double (*distance_sq)(const struct uw_exec *e, size_t n, const float *x, const float *y);

    const struct uw_norm_kernels *norm;
    const struct uw_activation_kernels *activation;
    const struct uw_copy_kernels *copy;
    const struct uw_sequence_kernels *sequence;
    const struct uw_loss_kernels *loss;
    const struct uw_update_kernels *update;
    const struct uw_tensor_kernels *tensor;
    const struct uw_fused_kernels *fused;       /* NULL: none */
    const struct uw_device_kernels *device;     /* uwasa/device.h; NULL: runs on the processor */
};

#endif
