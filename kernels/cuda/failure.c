/* SPDX-License-Identifier: Apache-2.0
 *
 * Why the GPU failed. What a kernel did wrong CUDA tells at every later call; what a call itself
 * could not do it tells once, and libraries tell by a status, so that is kept. */
#include "gpu.h"

#include <stdio.h>

void uw_cuda_keep_failure(struct uw_cuda *c, const char *who, const char *why)
{
    if (c->failure[0] == '\0') {
        snprintf(c->failure, sizeof c->failure, "%.40s: %.50s", who, why);
    }
}

void uw_cuda_forget_failure(struct uw_cuda *c)
{
    c->failure[0] = '\0';
}

const char *uw_cuda_failure(struct uw_cuda *c)
{
    cudaError_t rc = c->stream != NULL ? cudaStreamSynchronize(c->stream) : cudaSuccess;
    if (uw_cuda_status(rc) == UW_ERR_IO) {
        uw_cuda_forget_failure(c);      /* a library's status, if there is one, comes of this */
        uw_cuda_keep_failure(c, cudaGetErrorName(rc), cudaGetErrorString(rc));
    }
    return c->failure[0] != '\0' ? c->failure : NULL;
}
