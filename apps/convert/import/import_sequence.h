/* SPDX-License-Identifier: Apache-2.0
 *
 * import_sequence.h - what an LSTM, GRU or RNN node says (private)
 *
 * Memory     as import.h      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_IMPORT_SEQUENCE_H
#define UWASA_CONVERT_IMPORT_SEQUENCE_H

#include "import.h"

struct uw_import_recurrent {
    enum uw_layer_kind kind;
    const uint32_t *gate;           /* ONNX's place of each gate in PyTorch's order */
    uint64_t gates, steps, in, hidden, directions;
    bool reverse, relu;
    bool has_state, has_cell;       /* the first state, or cell, is not zero */
    bool resets_before;             /* gru: linear_before_reset is 0 */
    const struct uw_onnx_tensor *w, *r, *b;     /* b may be NULL */
    uint32_t input;
};

/* The node's outputs as layers for each step over x, [steps][N][in]. Returns UW_OK or a code with
 * err set. */
int uw_import_unroll(struct uw_import *im, const struct uw_onnx_node *n,
                     const struct uw_import_recurrent *s, const struct uw_value *x);

#endif
