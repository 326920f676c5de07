/* SPDX-License-Identifier: Apache-2.0
 *
 * libraries.h - cuBLAS and cuDNN, loaded when a GPU is opened (private to kernels/cuda)
 *
 * A program built with CUDA starts without them; opening a GPU then fails with a message. The table
 * holds every function of theirs that this project calls, with its own name and its header's type.
 * With an emulated GPU, stand-ins of the same names are loaded (tests/gpu/emulated).
 *
 * The names are the same in cuBLAS 12 and 13, and in cuDNN 8 and 9. Enumerators differ (cuDNN 9
 * renumbered its statuses), so cuDNN must have the major version of the headers.
 *
 * Memory     the libraries' own      Context  one thread
 */
#ifndef UW_KERNELS_CUDA_LIBRARIES_H
#define UW_KERNELS_CUDA_LIBRARIES_H

#include "uwasa/status.h"

#include <cublas_v2.h>
#include <cudnn.h>

/* Sizes above 2^31 go to cublasSgemm_v2_64. */
#define UW_CUBLAS_ENTRIES(X)                                                                      \
    X(cublasGetVersion_v2)                                                                        \
    X(cublasCreate_v2)                                                                            \
    X(cublasDestroy_v2)                                                                           \
    X(cublasSetStream_v2)                                                                         \
    X(cublasSetWorkspace_v2)                                                                      \
    X(cublasSetMathMode)                                                                          \
    X(cublasSgemm_v2)                                                                             \
    X(cublasSgemm_v2_64)                                                                          \
    X(cublasSgemmStridedBatched)

#define UW_CUDNN_ENTRIES(X)                                                                       \
    X(cudnnGetVersion)                                                                            \
    X(cudnnGetErrorString)                                                                        \
    X(cudnnCreate)                                                                                \
    X(cudnnDestroy)                                                                               \
    X(cudnnSetStream)                                                                             \
    X(cudnnCreateTensorDescriptor)                                                                \
    X(cudnnSetTensor4dDescriptor)                                                                 \
    X(cudnnDestroyTensorDescriptor)                                                               \
    X(cudnnCreateFilterDescriptor)                                                                \
    X(cudnnSetFilter4dDescriptor)                                                                 \
    X(cudnnDestroyFilterDescriptor)                                                               \
    X(cudnnCreateConvolutionDescriptor)                                                           \
    X(cudnnSetConvolution2dDescriptor)                                                            \
    X(cudnnSetConvolutionGroupCount)                                                              \
    X(cudnnSetConvolutionMathType)                                                                \
    X(cudnnDestroyConvolutionDescriptor)                                                          \
    X(cudnnGetConvolutionForwardWorkspaceSize)                                                    \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                               \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                             \
    X(cudnnConvolutionForward)                                                                    \
    X(cudnnConvolutionBackwardData)                                                               \
    X(cudnnConvolutionBackwardFilter)

/* The graph API, which is optional. */
#define UW_CUDNN_GRAPH_ENTRIES(X)                                                                 \
    X(cudnnBackendCreateDescriptor)                                                               \
    X(cudnnBackendDestroyDescriptor)                                                              \
    X(cudnnBackendSetAttribute)                                                                   \
    X(cudnnBackendGetAttribute)                                                                   \
    X(cudnnBackendFinalize)                                                                       \
    X(cudnnBackendExecute)

struct uw_cuda_libraries {
#define UW_ENTRY(name) __typeof__(name) *name;
    UW_CUBLAS_ENTRIES(UW_ENTRY)
    UW_CUDNN_ENTRIES(UW_ENTRY)
    UW_CUDNN_GRAPH_ENTRIES(UW_ENTRY)    /* all of them or none */
#undef UW_ENTRY
    void *cublas, *cudnn;           /* handles of dlopen */
};

/* Load both and look up every function. If one of the graph API is missing, all of those are NULL.
 * They are never unloaded: CUDA libraries do not support that.
 *
 * Returns UW_OK or UW_ERR_NOTFOUND: a library or a function is missing, or cuDNN is of another
 * major version than this program was built for; err says which, and what to install. */
int uw_cuda_libraries_open(struct uw_cuda_libraries *l, struct uw_error *err);

#endif
