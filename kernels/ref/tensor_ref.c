/* SPDX-License-Identifier: Apache-2.0 */
#define UW_TENSOR_NAME uw_tensor_ref
#include "ref/tensor_inline.h"
