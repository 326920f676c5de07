/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"
extern "C" {
#include "uwasa/slots.h"
}

const struct uw_norm_kernels uw_norm_cuda = uw_norm_none;
