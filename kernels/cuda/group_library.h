/* SPDX-License-Identifier: Apache-2.0
 *
 * group_library.h - NCCL, loaded when a group is opened (private to kernels/cuda)
 *
 * As in libraries.h: every function of NCCL that this project calls, with its own name and its type
 * in nccl.h.
 *
 * Memory     the library's own      Context  one thread
 */
#ifndef UW_KERNELS_CUDA_GROUP_LIBRARY_H
#define UW_KERNELS_CUDA_GROUP_LIBRARY_H

#include "uwasa/status.h"

#include <nccl.h>

#define UW_NCCL_ENTRIES(X)                                                                        \
    X(ncclGetVersion)                                                                             \
    X(ncclGetErrorString)                                                                         \
    X(ncclGetUniqueId)                                                                            \
    X(ncclCommInitRankConfig)                                                                     \
    X(ncclCommGetAsyncError)                                                                      \
    X(ncclAllReduce)                                                                              \
    X(ncclCommFinalize)                                                                           \
    X(ncclCommDestroy)                                                                            \
    X(ncclCommAbort)

struct uw_cuda_group_library {
#define UW_ENTRY(name) __typeof__(name) *name;
    UW_NCCL_ENTRIES(UW_ENTRY)
#undef UW_ENTRY
    int version;                    /* 22809: 2.28.9 */
};

/* Load it and look up every function. It stays loaded.
 *
 * Returns UW_OK or UW_ERR_NOTFOUND: it or a function is missing, or it is too old; err says which,
 * and what to install. */
int uw_cuda_group_library_open(struct uw_cuda_group_library *l, struct uw_error *err);

#endif
