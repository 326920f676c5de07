/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.cuh"
extern "C" {
#include "uwasa/slots.h"
}

const struct uw_sequence_kernels uw_sequence_cuda = uw_sequence_none;
