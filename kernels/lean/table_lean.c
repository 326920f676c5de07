/* SPDX-License-Identifier: Apache-2.0
 *
 * Small kernels with the reference's bits, for small minibatches on a scalar FPU. */
#include "uwasa/backends.h"

#include "ref/table.h"

const struct uw_kernels uw_kernels_lean = {
    .name = "lean",
    .exact = true,
    UW_PRODUCT_ENTRIES(ref),
    UW_OTHER_ENTRIES(ref),
    .conv2d_fw = uw_conv2d_fw_lean,
    .conv2d_bw_input = uw_conv2d_bw_input_lean,
    .dense_fw = uw_dense_fw_lean,
    .dense_bw_input = uw_dense_bw_input_lean,
    .dense_bw_param = uw_dense_bw_param_lean,
};
