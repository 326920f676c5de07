/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cuda_group.h - GPUs that average their parameters among themselves, by NCCL
 *
 * NCCL is looked for when this is opened, never when the program is linked or started. Where it is
 * missing, and in builds without its header, open says so and everything else goes on.
 *
 *     uw_cuda_group_open(&g, &config, &err);           training has not begun
 *     uw_cuda_group_make_id(g, id);                    one member, for all
 *     uw_cuda_group_begin(g, id, rank, ranks, alike);
 *     while (uw_cuda_group_poll(g) == UW_ERR_AGAIN) {} x has the average
 *     uw_cuda_group_settle(g);                         the GPU's parameters have, too
 *     or uw_cuda_group_abort(g);                       or they are as they were
 *     uw_cuda_group_add_parts(g, parts, n);            between rounds: gradients of a step
 *     while (uw_cuda_group_poll(g) == UW_ERR_AGAIN) {} the parts have the average, or abort
 *     uw_cuda_group_close(g);                          before the GPU
 *
 * The average is made in a copy of the parameters: sum = all ranks' added by NCCL, then sum *= 1 /
 * ranks, rounded as averages over the network are; in what order it adds is NCCL's. It has one
 * result at one place and hands that on, so all ranks should have the same bits: whoever calls
 * this compares them. Gradients take the same way: they are the processor's (a step's copy of
 * them), and are added in the memory of that copy, all at once.
 *
 * Memory     the copy, in uw_cuda_own_bytes; NCCL takes more for itself when a group is joined
 * Blocking   open loads a library; close waits 3 s at most; all else returns at once: what of NCCL
 *            may wait, leaving a group, runs in a thread of its own
 * Context    one thread at a time, which need not be the one that opened the GPU; from begin to
 *            settle or abort nothing else is put into the GPU's queue; while parts are added
 *            another thread may
 * Source     NCCL user guide: communicators, fault tolerance
 */
#ifndef UWASA_CUDA_GROUP_H
#define UWASA_CUDA_GROUP_H

#include "uwasa/cplusplus.h"
#include "uwasa/cuda.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

#define UW_CUDA_GROUP_ID_BYTES 128u

struct uw_cuda_group;

struct uw_cuda_group_config {
    struct uw_cuda *cuda;
    float *x;                       /* [size_n] the parameters' image, in pinned memory */
    float *parameters;              /* [size_n] they themselves, the GPU's */
    size_t size_n;
    size_t parts_n;                 /* floats of all parts together; 0: no parts */
};

/* A vector in the processor's memory; copies of what is pinned are faster. */
struct uw_cuda_group_part {
    float *x;
    uint32_t size_n;
};

/* Returns UW_OK, UW_ERR_UNSUPPORTED (a build without NCCL's header, or a GPU that shares its memory
 * with the processor), UW_ERR_NOTFOUND (no NCCL, or one before 2.14), UW_ERR_NOMEM; err says which,
 * and what to do. */
int uw_cuda_group_open(struct uw_cuda_group **out, const struct uw_cuda_group_config *config,
                       struct uw_error *err);

/* Of NCCL, 22809: 2.28.9; only one version speaks with itself. 0: a group is still being left. */
uint32_t uw_cuda_group_version(struct uw_cuda_group *g);

/* A number that no other GPU has, from its identity; not 0. */
uint64_t uw_cuda_group_device(const struct uw_cuda_group *g);

/* Returns UW_OK or UW_ERR_IO. */
int uw_cuda_group_make_id(struct uw_cuda_group *g, uint8_t id[UW_CUDA_GROUP_ID_BYTES]);

/* Begin an average with the group of an id, which is joined if it is not the last one's.
 *   alike  take the GPU's parameters; else x
 * Returns UW_OK or UW_ERR_IO. Abort it then. */
int uw_cuda_group_begin(struct uw_cuda_group *g, const uint8_t id[UW_CUDA_GROUP_ID_BYTES],
                        uint32_t rank, uint32_t ranks, bool alike);

/* Returns UW_OK (x has the average), UW_ERR_AGAIN, or UW_ERR_IO: abort it. */
int uw_cuda_group_poll(struct uw_cuda_group *g);

/* Begin the average of n vectors, by the group of the last round, which is over and counts. All
 * ranks do that equally often, with the same sizes. p and its vectors are borrowed until poll says
 * something else than UW_ERR_AGAIN, or abort. Poll says UW_OK: they have the average.
 * Returns UW_OK, UW_ERR_TOOBIG (more than config.parts_n), UW_ERR_INVALID (no group, or one that is
 * busy), UW_ERR_IO: abort it. */
int uw_cuda_group_add_parts(struct uw_cuda_group *g, const struct uw_cuda_group_part *p,
                            uint32_t n);

/* After poll said UW_OK of parameters. Returns UW_OK or UW_ERR_IO. */
int uw_cuda_group_settle(struct uw_cuda_group *g);

/* Leave the group; an average that is under way ends nowhere. Its last copy to x, if it has begun,
 * is waited for, and so are the first ones of parts: their vectors are the caller's again. */
void uw_cuda_group_abort(struct uw_cuda_group *g);

/* Leave the group and give everything back. Where NCCL does not let go of the GPU, that stays open
 * until the program ends. g may be NULL. */
void uw_cuda_group_close(struct uw_cuda_group *g);

UW_C_END
#endif
