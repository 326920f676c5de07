/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"
extern "C" {
#include "uwasa/slots.h"
}

const struct uw_copy_kernels uw_copy_cuda = uw_copy_none;
