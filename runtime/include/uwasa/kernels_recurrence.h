/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/kernels_recurrence.h - optional slots of the kernel table for whole sequences
 *
 * For GPUs, where launches cost most. Without them recurrent layers call the cells of struct
 * uw_sequence_kernels and products step by step, and attention computes its products sample by
 * sample.
 *
 * Layout     gates a [batch_n][steps][kept][hidden], kept blocks of a step as struct uw_cell's
 *            cells have them: rnn 1, gru 4 (r z n m), lstm 5 (i f g o c); states h
 *            [batch_n][steps][hidden]; W_hh [gates][hidden][hidden], gates: rnn 1, gru 3, lstm 4
 * Memory, errors, numerics   those of uwasa/kernels.h
 */
#ifndef UWASA_KERNELS_RECURRENCE_H
#define UWASA_KERNELS_RECURRENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uw_exec;
struct uw_gemm;
struct uw_kernels;

enum uw_recurrence_cell {
    UW_RECURRENCE_RNN = 0,
    UW_RECURRENCE_GRU,
    UW_RECURRENCE_LSTM
};

/* One direction of one layer; before the first step the states are 0. */
struct uw_recurrence {
    enum uw_recurrence_cell cell;
    uint32_t batch_n, steps, hidden;
    bool reverse;                   /* the last step is computed first */
    bool relu;                      /* rnn: ReLU in place of tanh */
    bool keeps;                     /* fw: bw follows */
};

/* n[0] times n[1] products; product (i, j) is i * a[0] + j * a[1] floats behind the first one's A,
 * and so on. No C overlaps another. */
struct uw_gemm_batch {
    uint32_t n[2];
    size_t a[2], b[2], c[2];
};

struct uw_recurrence_kernels {
    /* May the other slots be called for r? Depends on cell and sizes; batch_n is the largest. */
    bool (*takes)(const struct uw_kernels *k, const struct uw_recurrence *r);
    /* All steps forward.
     *   a       in: W_ih x of every step in its first gates blocks (gru: r, z, n). Out, with
     *           r->keeps: as the cells write it; else undefined
     *   b_*     may be NULL: 0
     *   h       written, every step; may be NULL without keeps
     *   last    [batch_n][hidden] the state that was computed last; may be NULL */
    int (*fw)(const struct uw_exec *e, const struct uw_recurrence *r, const float *w_hh,
              const float *b_ih, const float *b_hh, float *a, float *h, float *last);
    /* All steps backward: the gradients of pre-activations replace the gates.
     *   dy      [batch_n][steps][hidden] gradient of h; may be NULL: 0
     *   dlast   [batch_n][hidden] gradient of fw's last; may be NULL: 0 */
    int (*bw)(const struct uw_exec *e, const struct uw_recurrence *r, const float *w_hh,
              const float *h, const float *dy, const float *dlast, float *a);
    /* dw_hh += scale * sum of da[step] h[step - 1]^T, db_* += scale * sums of da, with the a of bw;
     * each may be NULL. */
    int (*bw_param)(const struct uw_exec *e, const struct uw_recurrence *r, const float *a,
                    const float *h, float scale, float *dw_hh, float *db_ih, float *db_hh);
    /* Scratch of bw_param; enough for smaller batch_n, too. */
    size_t (*scratch_bytes)(const struct uw_kernels *k, const struct uw_recurrence *r);
    /* Products of one shape, each as gemm's; needs no scratch. */
    int (*products)(const struct uw_exec *e, const struct uw_gemm *g,
                    const struct uw_gemm_batch *batch, const float *a, const float *b, float *c);
};

#endif
