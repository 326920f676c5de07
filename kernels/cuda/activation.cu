/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"
extern "C" {
#include "uwasa/slots.h"
}

const struct uw_activation_kernels uw_activation_cuda = uw_activation_none;
