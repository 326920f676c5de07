/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/slots.h - slots by name, for a program with a kernel table of its own
 *
 * The linker includes the kernels that a table lists: a table with the kernels of one model omits
 * all others. Contracts are those of the slots in uwasa/kernels.h. tools/board_model writes such
 * tables.
 */
#ifndef UWASA_SLOTS_H
#define UWASA_SLOTS_H

#include "uwasa/cplusplus.h"
#include "uwasa/kernels.h"

/* The functions of one variant, uw_gemm_<of> and so on, each for the entry of struct uw_kernels of
 * that name: products, and the others. Each is followed by the macro argument for its return type:
 * `code` (int), `size` (size_t), `truth` (bool) or `number` (double). */
#define UW_PRODUCT_FUNCTIONS(of, code, size, truth)                                              \
    int uw_gemm_##of(const struct uw_exec *e, const struct uw_gemm *g, const float *a,           \
                     const float *b, float *c) code                                              \
    size_t uw_gemm_scratch_bytes_##of(const struct uw_kernels *k, const struct uw_gemm *g,       \
                                      uint32_t threads) size                                     \
    int uw_conv2d_fw_##of(const struct uw_exec *e, const struct uw_conv2d *c,                    \
                          uint32_t batch_n, const float *x, const float *w, const float *b,      \
                          float *y, bool accumulate) code                                        \
    int uw_conv2d_bw_input_##of(const struct uw_exec *e, const struct uw_conv2d *c,              \
                                uint32_t batch_n, const float *dy, const float *w, float *dx,    \
                                bool accumulate) code                                            \
    int uw_conv2d_bw_param_##of(const struct uw_exec *e, const struct uw_conv2d *c,              \
                                uint32_t batch_n, const float *x, const float *dy,               \
                                float scale, float *dw, float *db) code                          \
    bool uw_conv2d_takes_norm_##of(const struct uw_kernels *k, const struct uw_conv2d *c,        \
                                   uint32_t batch_n) truth                                       \
    size_t uw_conv2d_scratch_bytes_##of(const struct uw_kernels *k, const struct uw_conv2d *c,   \
                                        uint32_t batch_n, uint32_t threads) size                 \
    int uw_sum_channels_##of(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,       \
                             size_t inner_n, const float *dy, float scale, float *db) code       \
    int uw_dense_fw_##of(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,    \
                         const float *x, const float *w, const float *b, float *y) code          \
    int uw_dense_bw_input_##of(const struct uw_exec *e, const struct uw_dense *d,                \
                               uint32_t batch_n, const float *dy, const float *w, float *dx,     \
                               bool accumulate) code                                             \
    int uw_dense_bw_param_##of(const struct uw_exec *e, const struct uw_dense *d,                \
                               uint32_t batch_n, const float *x, const float *dy, float scale,   \
                               float *dw, float *db) code                                        \
    int uw_dense_bw_step_##of(const struct uw_exec *e, const struct uw_dense *d,                 \
                              uint32_t batch_n, const float *x, const float *dy, float keep,     \
                              float scale, float *w, float *b, float *dx, bool accumulate) code  \
    size_t uw_dense_scratch_bytes_##of(const struct uw_kernels *k, const struct uw_dense *d,     \
                                       uint32_t batch_n, uint32_t threads) size

#define UW_OTHER_FUNCTIONS(of, code, truth, number)                                              \
    int uw_add_channels_##of(const struct uw_exec *e, uint32_t batch_n, uint32_t channels,       \
                             size_t inner_n, const float *b, float *y) code                      \
    int uw_maxpool2d_fw_##of(const struct uw_exec *e, const struct uw_pool2d *p,                 \
                             uint32_t batch_n, const float *x, float *y, uint8_t *winner) code   \
    int uw_maxpool2d_bw_input_##of(const struct uw_exec *e, const struct uw_pool2d *p,           \
                                   uint32_t batch_n, const float *dy, const uint8_t *winner,     \
                                   float *dx, bool accumulate) code                              \
    int uw_avgpool2d_fw_##of(const struct uw_exec *e, const struct uw_pool2d *p,                 \
                             uint32_t batch_n, const float *x, float *y) code                    \
    int uw_avgpool2d_bw_input_##of(const struct uw_exec *e, const struct uw_pool2d *p,           \
                                   uint32_t batch_n, const float *dy, float *dx,                 \
                                   bool accumulate) code                                         \
    int uw_relu_fw_##of(const struct uw_exec *e, size_t n, const float *x, float *y) code        \
    int uw_relu_bw_input_##of(const struct uw_exec *e, size_t n, const float *y,                 \
                              const float *dy, float *dx, bool accumulate) code                  \
    int uw_softmax_xent_fw_##of(const struct uw_exec *e, uint32_t batch_n, uint32_t classes,     \
                                float smoothing, const float *logits, const uint32_t *label,     \
                                float *p, double *loss_sum, uint32_t *correct_n) code            \
    int uw_softmax_xent_bw_input_##of(const struct uw_exec *e, uint32_t batch_n,                 \
                                      uint32_t classes, float smoothing, const float *p,         \
                                      const uint32_t *label, float scale, float *dlogits) code   \
    int uw_axpby_##of(const struct uw_exec *e, size_t n, float a, const float *x, float b,       \
                      float *y) code                                                             \
    int uw_sgd_update_##of(const struct uw_exec *e, size_t n, const struct uw_sgd *s,            \
                           const float *g, float *w, float *v) code                              \
    bool uw_all_finite_##of(const struct uw_exec *e, size_t n, const float *x) truth             \
    double uw_distance_sq_##of(const struct uw_exec *e, size_t n, const float *x,                \
                               const float *y) number

/* Declare the slots of one variant, followed by a semicolon: products only, and all. */
#define UW_PRODUCT_SLOTS(of) UW_PRODUCT_FUNCTIONS(of, ;, ;, ;) struct uw_kernels

#define UW_SLOTS(of)                                                                             \
    UW_PRODUCT_SLOTS(of);                                                                        \
    UW_OTHER_FUNCTIONS(of, ;, ;, ;)                                                              \
    extern const struct uw_copy_kernels uw_copy_##of;                                            \
    extern const struct uw_sequence_kernels uw_sequence_##of;                                    \
    extern const struct uw_norm_kernels uw_norm_##of;                                            \
    extern const struct uw_activation_kernels uw_activation_##of;                                \
    extern const struct uw_loss_kernels uw_loss_##of;                                            \
    extern const struct uw_update_kernels uw_update_##of;                                        \
    extern const struct uw_tensor_kernels uw_tensor_##of

UW_C_BEGIN

/* The slots of uw_kernels_ref. uw_dense_bw_step_ref calls the slots dense_bw_* and axpby of its
 * table. */
UW_SLOTS(ref);

/* Same bits as the reference, faster on a scalar FPU and with less code. Sides of images and their
 * padding are below 2^31. */
int uw_conv2d_fw_lean(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                      const float *x, const float *w, const float *b, float *y, bool accumulate);
int uw_conv2d_bw_input_lean(const struct uw_exec *e, const struct uw_conv2d *c, uint32_t batch_n,
                            const float *dy, const float *w, float *dx, bool accumulate);
int uw_dense_fw_lean(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                     const float *x, const float *w, const float *b, float *y);
int uw_dense_bw_input_lean(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *dy, const float *w, float *dx, bool accumulate);
int uw_dense_bw_param_lean(const struct uw_exec *e, const struct uw_dense *d, uint32_t batch_n,
                           const float *x, const float *dy, float scale, float *dw, float *db);

/* Slots for operations that a model does not use: they return UW_ERR_UNSUPPORTED, 0, false or
 * NaN. */
UW_SLOTS(none);

UW_C_END
#endif
