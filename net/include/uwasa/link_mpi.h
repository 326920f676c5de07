/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_mpi.h - the link between the ranks of an MPI job, for clusters that have MPI
 *
 * A station is a rank; its address is the rank's number, "3". Messages go point to point over MPI's
 * transport (shared memory, InfiniBand, TCP). MPI neither authenticates nor encrypts: it is as safe
 * as the cluster.
 *
 *     uw_link_mpi_begin(&rank, &ranks_n, &err);       once in a process, by all ranks
 *     uw_link_mpi_init(&l, &config, &err);
 *     ... send and receive ...
 *     while (!uw_link_mpi_leave(&l)) { wait a little }    until all ranks do so
 *     uw_link_deinit(&l.link);
 *     uw_link_mpi_end(0);
 *
 * MPI has no descriptor to wait for (fd is -1). step returns the time of the next poll: at once
 * while messages arrive, at growing intervals while none do.
 *
 * Units      bytes unless a name ends in _us
 * Memory     caller supplies uw_link_mpi_bytes(), borrowed until deinit
 * Blocking   begin and end, until all ranks do the same; nothing else
 * Context    begin and end: the main thread; a link: one thread at a time, never while another
 *            thread is in MPI
 * Source     MPI: A Message-Passing Interface Standard, version 3.1, chapters 3 and 5
 */
#ifndef UWASA_LINK_MPI_H
#define UWASA_LINK_MPI_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"

UW_C_BEGIN

#define UW_LINK_MPI_MTU_DEFAULT (256u * 1024u + 64u)    /* 65536 floats and their head */
#define UW_LINK_MPI_MTU_MAX (64u * 1024u * 1024u)
#define UW_LINK_MPI_CHANNEL_MAX 32767u

struct uw_link_mpi_config {
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint32_t mtu_bytes;         /* the same on all ranks; 0: UW_LINK_MPI_MTU_DEFAULT */
    uint16_t sends_n;           /* sends in flight; 0: 32 */
    uint16_t receives_n;        /* receives posted; 0: 16 */
    uint16_t channel;           /* up to UW_LINK_MPI_CHANNEL_MAX; links with the same channel are
                                   connected. A rank may have several links */
};

struct uw_link_mpi_requests;

struct uw_link_mpi {
    struct uw_link link;
    struct uw_link_mpi_requests *requests;
    uint8_t *tx, *rx;           /* [sends_n], [receives_n] of slot_bytes */
    uint32_t slot_bytes;
    uint16_t sends_n, receives_n, rank, ranks_n, channel;
    uint16_t oldest;            /* the receive that was posted first */
    uint64_t now_us, heard_us;
    bool leaving;
};

/* Join the MPI job of this process; without mpirun the job has one rank.
 *
 *   rank, ranks_n  set to the rank of this process and the number of ranks
 *
 * Returns UW_OK, UW_ERR_UNSUPPORTED (built without MPI, or an MPI without thread support),
 * UW_ERR_TOOBIG (more ranks than a link has stations), UW_ERR_IO. */
int uw_link_mpi_begin(uint16_t *rank, uint16_t *ranks_n, struct uw_error *err);

/* Leave the job. A status other than 0 aborts the job on all ranks. Does nothing when begin failed
 * or was not called. */
void uw_link_mpi_end(int status);

/* Bytes of memory; SIZE_MAX when a size is not allowed. */
size_t uw_link_mpi_bytes(const struct uw_link_mpi_config *config);

/* Open the link, between begin and end.
 *
 * Returns UW_OK, UW_ERR_INVALID (mtu, channel), UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_UNSUPPORTED. */
int uw_link_mpi_init(struct uw_link_mpi *l, const struct uw_link_mpi_config *config,
                     struct uw_error *err);

/* Drain the link before deinit, on all ranks; without it, messages in flight may be lost. Received
 * messages are dropped; send returns UW_ERR_CLOSED from then on. Never waits.
 *
 * Returns true once all ranks leave and their messages have arrived; also for a closed link. */
bool uw_link_mpi_leave(struct uw_link_mpi *l);

UW_C_END
#endif
