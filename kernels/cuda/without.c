/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds without CUDA. */
#include "uwasa/cuda.h"

int uw_cuda_open(struct uw_cuda **out, const struct uw_cuda_config *config, struct uw_error *err)
{
    (void)config;
    *out = NULL;
    return uw_error_set(err, UW_ERR_UNSUPPORTED,
                        "this program was built without CUDA (-DUWASA_CUDA=ON)");
}

int uw_cuda_open_unseen(struct uw_cuda **out, struct uw_error *err)
{
    return uw_cuda_open(out, NULL, err);
}

int uw_cuda_probe(uint32_t device, struct uw_cuda_info *info, struct uw_error *err)
{
    (void)device;
    *info = (struct uw_cuda_info){.major = 0};
    return uw_error_set(err, UW_ERR_UNSUPPORTED,
                        "this program was built without CUDA (-DUWASA_CUDA=ON)");
}

enum uw_cuda_pages uw_cuda_pages(const struct uw_cuda_info *info, bool at_once)
{
    (void)info;
    (void)at_once;
    return UW_CUDA_PAGES_NONE;
}

int uw_cuda_pages_take(enum uw_cuda_pages pages, size_t bytes, void **base, void **device)
{
    (void)pages;
    (void)bytes;
    *base = *device = NULL;
    return UW_ERR_UNSUPPORTED;
}

void uw_cuda_pages_give(enum uw_cuda_pages pages, void *base)
{
    (void)pages;
    (void)base;
}

const struct uw_kernels *uw_cuda_kernels(const struct uw_cuda *c)
{
    (void)c;
    return NULL;
}

void uw_cuda_info(const struct uw_cuda *c, struct uw_cuda_info *info)
{
    (void)c;
    *info = (struct uw_cuda_info){.major = 0};
}

int uw_cuda_take(struct uw_cuda *c, enum uw_cuda_memory kind, size_t bytes, void **out,
                 struct uw_error *err)
{
    (void)c;
    (void)kind;
    (void)bytes;
    *out = NULL;
    return uw_error_set(err, UW_ERR_UNSUPPORTED, "this program was built without CUDA");
}

size_t uw_cuda_free_bytes(const struct uw_cuda *c)
{
    (void)c;
    return 0;
}

size_t uw_cuda_own_bytes(const struct uw_cuda *c)
{
    (void)c;
    return 0;
}

const char *uw_cuda_failure(struct uw_cuda *c)
{
    (void)c;
    return NULL;
}

void uw_cuda_close(struct uw_cuda *c)
{
    (void)c;
}
