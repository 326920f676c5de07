/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/cuda_group.h - averages of parameters between GPUs, by NCCL
 *
 * NCCL is loaded by open, not when the program is linked or started. Without NCCL, or in builds
 * without its header, open returns an error; averages over the network still work.
 *
 *     uw_cuda_group_open(&g, &config, &err);           before training
 *     uw_cuda_group_make_id(g, id);                    one member, for all
 *     uw_cuda_group_begin(g, id, rank, ranks, alike);
 *     while (uw_cuda_group_poll(g) == UW_ERR_AGAIN) {} x has the average
 *     uw_cuda_group_settle(g);                         copy it to the GPU's parameters, ...
 *     or uw_cuda_group_abort(g);                       ... or leave them unchanged
 *     uw_cuda_group_add_parts(g, parts, n);            between rounds: gradients of a step
 *     while (uw_cuda_group_poll(g) == UW_ERR_AGAIN) {} the parts have the average, or abort
 *     uw_cuda_group_close(g);                          before the GPU
 *
 * NCCL adds copies of all ranks' parameters, in an order of its own; then sum *= 1 / ranks, rounded
 * as averages over the network. NCCL computes each sum at one rank, so that all ranks should get
 * the same bits; the caller compares them. Gradients are handled likewise: they are in the
 * processor's memory, and are added in the memory of that copy, all at once.
 *
 * Memory     the copy, part of uw_cuda_own_bytes; NCCL allocates more when a group is joined
 * Blocking   open loads a library; close waits 3 s at most; all others return at once: leaving a
 *            group, which may wait, runs in a thread of its own
 * Context    one thread at a time, not necessarily the one that opened the GPU. From begin to
 *            settle or abort, no thread may use the GPU's queue; during add_parts another may
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
    float *x;                       /* [size_n] image of the parameters, in pinned memory */
    float *parameters;              /* [size_n] the parameters, in the GPU's memory */
    size_t size_n;
    size_t parts_n;                 /* floats of all parts together; 0: no parts */
};

/* A vector in the processor's memory; copies of pinned memory are faster. */
struct uw_cuda_group_part {
    float *x;
    uint32_t size_n;
};

/* Open. Returns UW_OK, UW_ERR_UNSUPPORTED (a build without NCCL's header, or a GPU that shares its
 * memory with the processor), UW_ERR_NOTFOUND (no NCCL, or older than 2.14), UW_ERR_NOMEM; err
 * names cause and remedy. */
int uw_cuda_group_open(struct uw_cuda_group **out, const struct uw_cuda_group_config *config,
                       struct uw_error *err);

/* NCCL's version, 22809: 2.28.9; members need equal versions. 0: a group is still being left. */
uint32_t uw_cuda_group_version(struct uw_cuda_group *g);

/* A unique number of the GPU, from its UUID; not 0. */
uint64_t uw_cuda_group_device(const struct uw_cuda_group *g);

/* Make the id of a new group. Returns UW_OK or UW_ERR_IO. */
int uw_cuda_group_make_id(struct uw_cuda_group *g, uint8_t id[UW_CUDA_GROUP_ID_BYTES]);

/* Begin an average in the group of an id. Joins it unless it is the group of the last average.
 *   alike  average the GPU's parameters; else x
 * Returns UW_OK, or UW_ERR_IO: call abort. */
int uw_cuda_group_begin(struct uw_cuda_group *g, const uint8_t id[UW_CUDA_GROUP_ID_BYTES],
                        uint32_t rank, uint32_t ranks, bool alike);

/* Returns UW_OK (the average is in x, or in the parts), UW_ERR_AGAIN, or UW_ERR_IO: call abort. */
int uw_cuda_group_poll(struct uw_cuda_group *g);

/* Begin the average of n vectors in the group of the last round, which was settled. All ranks call
 * this equally often, with the same sizes. p and its vectors are borrowed until abort, or until
 * poll returns anything but UW_ERR_AGAIN.
 * Returns UW_OK, UW_ERR_TOOBIG (more than config.parts_n), UW_ERR_INVALID (no group, or a busy
 * one), UW_ERR_IO: call abort. */
int uw_cuda_group_add_parts(struct uw_cuda_group *g, const struct uw_cuda_group_part *p,
                            uint32_t n);

/* Copy the average to the GPU's parameters, after poll returned UW_OK. Returns UW_OK or
 * UW_ERR_IO. */
int uw_cuda_group_settle(struct uw_cuda_group *g);

/* Leave the group and discard a running average. Waits for copies from and to the caller's vectors
 * that have begun; the vectors are the caller's again. */
void uw_cuda_group_abort(struct uw_cuda_group *g);

/* Leave the group and free everything. If NCCL does not release the GPU, it stays open until the
 * program ends. g may be NULL. */
void uw_cuda_group_close(struct uw_cuda_group *g);

UW_C_END
#endif
