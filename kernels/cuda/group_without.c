/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds without CUDA, or without NCCL's header. */
#include "uwasa/cuda_group.h"

int uw_cuda_group_open(struct uw_cuda_group **out, const struct uw_cuda_group_config *config,
                       struct uw_error *err)
{
    (void)config;
    *out = NULL;
    return uw_error_set(err, UW_ERR_UNSUPPORTED, "this program was built without NCCL (nccl.h)");
}

uint32_t uw_cuda_group_version(struct uw_cuda_group *g)
{
    (void)g;
    return 0;
}

uint64_t uw_cuda_group_device(const struct uw_cuda_group *g)
{
    (void)g;
    return 0;
}

int uw_cuda_group_make_id(struct uw_cuda_group *g, uint8_t id[UW_CUDA_GROUP_ID_BYTES])
{
    (void)g;
    (void)id;
    return UW_ERR_IO;
}

int uw_cuda_group_begin(struct uw_cuda_group *g, const uint8_t id[UW_CUDA_GROUP_ID_BYTES],
                        uint32_t rank, uint32_t ranks, bool alike)
{
    (void)g;
    (void)id;
    (void)rank;
    (void)ranks;
    (void)alike;
    return UW_ERR_IO;
}

int uw_cuda_group_poll(struct uw_cuda_group *g)
{
    (void)g;
    return UW_ERR_IO;
}

int uw_cuda_group_add_parts(struct uw_cuda_group *g, const struct uw_cuda_group_part *p,
                            uint32_t n)
{
    (void)g;
    (void)p;
    (void)n;
    return UW_ERR_IO;
}

int uw_cuda_group_settle(struct uw_cuda_group *g)
{
    (void)g;
    return UW_ERR_IO;
}

void uw_cuda_group_abort(struct uw_cuda_group *g)
{
    (void)g;
}

void uw_cuda_group_close(struct uw_cuda_group *g)
{
    (void)g;
}
