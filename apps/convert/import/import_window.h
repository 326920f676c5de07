/* SPDX-License-Identifier: Apache-2.0
 *
 * import_window.h - windows of convolutions and pools: kernel, strides, padding (private)
 *
 * Memory     the import's pool      Blocking  never      Context  any thread
 */
#ifndef UWASA_CONVERT_IMPORT_WINDOW_H
#define UWASA_CONVERT_IMPORT_WINDOW_H

#include "import_parts.h"

/* One or two spatial axes. */
struct uw_window {
    uint32_t axes;
    uint32_t kernel[2], stride[2], dilation[2];
    int64_t front[2], behind[2];    /* padding */
    bool folded;                    /* some of it is from a Pad node: an average counts it */
    uint32_t pad[2];                /* of it, what is alike on both sides and left to the layer */
};

/* Read the window of node n over its input, v, arranged as [C][H][W] or [C][L]. Returns UW_OK or a
 * code, err set. */
int uw_window_read(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
                   struct uw_view *v);

/* Leave padding that is alike on both sides to the layer; other padding is a layer of its own.
 *   how  what to pad with: zeros, or for a maximum the edge, which is in every window that reaches
 *        beyond it */
int uw_window_pad(struct uw_import *im, const struct uw_onnx_node *n, struct uw_window *w,
                  struct uw_view *v, enum uw_import_padding how);

/* Output sizes of the window; false when it does not fit. */
bool uw_window_slide(const struct uw_window *w, const uint64_t *in, bool ceil_mode, uint64_t *out);

/* Entry `at` of output_padding. Returns UW_OK or UW_ERR_INVALID, told. */
int uw_window_behind(struct uw_import *im, const struct uw_onnx_node *n, uint32_t at,
                     uint32_t *behind);

/* v becomes the inputs of each output, [C][kernel][out] for [C][H][W]; beyond the edge zeros, or,
 * for a maximum, another input of the window. Returns UW_OK or a code, err set. */
int uw_window_patches(struct uw_import *im, const struct uw_onnx_node *n,
                      const struct uw_window *w, struct uw_view *v, const uint64_t out[2],
                      bool max);

/* Output 0 of the node is that of layer l: channels and out[axes]. Returns UW_OK or a code, err
 * set. */
int uw_window_result(struct uw_import *im, const struct uw_onnx_node *n,
                     struct uw_import_layer *l, uint32_t axes, uint64_t channels,
                     const uint64_t *out);

#endif
