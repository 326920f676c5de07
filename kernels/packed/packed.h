/* SPDX-License-Identifier: Apache-2.0
 *
 * packed.h - the kernel slots that run on a register tile
 *
 * Contracts are those of the slots in uwasa/kernels.h; the tile is that of the table in e or k.
 * Small shapes, and convolutions with few output channels a group (depthwise), take the reference
 * path. */
#ifndef UW_KERNELS_PACKED_H
#define UW_KERNELS_PACKED_H

#include "packed/tile.h"
#include "uwasa/kernels.h"

/* e with the workers that a call of that many multiply-adds and bytes deserves. */
static inline struct uw_exec uw_exec_for(const struct uw_exec *e, double work, double bytes)
{
    struct uw_exec here = *e;
    here.workers = uw_workers_for(e->workers, work, bytes);
    return here;
}

int uw_gemm_packed(const struct uw_exec *e, const struct uw_gemm *g, const float *a, const float *b,
                   float *c);
size_t uw_gemm_scratch_bytes_packed(const struct uw_kernels *k, const struct uw_gemm *g,
                                    uint32_t threads);

int uw_conv2d_fw_packed(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                        const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_conv2d_bw_input_packed(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                              const float *dy, const float *w, float *dx, bool accumulate);
int uw_conv2d_bw_param_packed(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                              const float *x, const float *dy, float scale, float *dw, float *db);
bool uw_conv2d_takes_norm_packed(const struct uw_kernels *k, const struct uw_conv2d *c,
                                 uint32_t batch_n);
size_t uw_conv2d_scratch_bytes_packed(const struct uw_kernels *k, const struct uw_conv2d *c,
                                      uint32_t batch_n, uint32_t threads);

int uw_sum_channels_packed(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,
                           size_t inner_n, const float *dy, float scale, float *db);

int uw_dense_fw_packed(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                       const float *x, const float *w, const float *b, float *y);
int uw_dense_bw_input_packed(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                             const float *dy, const float *w, float *dx, bool accumulate);
int uw_dense_bw_param_packed(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                             const float *x, const float *dy, float scale, float *dw, float *db);
int uw_dense_bw_step_packed(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                            const float *x, const float *dy, float keep, float scale, float *w,
                            float *b, float *dx, bool accumulate);
size_t uw_dense_scratch_bytes_packed(const struct uw_kernels *k, const struct uw_dense *d,
                                     uint32_t batch_n, uint32_t threads);

#endif
