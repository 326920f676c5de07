/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_mpi.h - the link between the ranks of an MPI job, for clusters that have MPI
 *
 * A station is a rank, its address the rank's number: "3". Messages go point to point over whatever
 * MPI has (shared memory, InfiniBand, TCP). MPI authenticates and encrypts nothing; it is as safe
 * as the cluster is.
 *
 *     uw_link_mpi_begin(&rank, &ranks_n, &err);       once in a process, by all ranks
 *     uw_link_mpi_init(&l, &config, &err);
 *     ... any link's life ...
 *     while (!uw_link_mpi_leave(&l)) { wait a little }    until all ranks do so
 *     uw_link_deinit(&l.link);
 *     uw_link_mpi_end(0);
 *
 * MPI has nothing to wait on (fd is -1): step says how soon to look again, which is at once while
 * messages come, and more and more seldom while none do.
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
    uint16_t sends_n;           /* messages on their way out at once; 0: 32 */
    uint16_t receives_n;        /* and in; 0: 16 */
    uint16_t channel;           /* links of one channel hear each other; a rank may have several,
                                   up to UW_LINK_MPI_CHANNEL_MAX */
};

struct uw_link_mpi_requests;

struct uw_link_mpi {
    struct uw_link link;
    struct uw_link_mpi_requests *requests;
    uint8_t *tx, *rx;           /* [sends_n], [receives_n] of slot_bytes */
    uint32_t slot_bytes;
    uint16_t sends_n, receives_n, rank, ranks_n, channel;
    uint16_t oldest;            /* of the receives, in the order in which they were posted */
    uint64_t now_us, heard_us;
    bool leaving;
};

/* Join the MPI job that this process was started in; without mpirun it is the only rank.
 *
 *   rank, ranks_n  set to this process's number and how many there are
 *
 * Returns UW_OK, UW_ERR_UNSUPPORTED (built without MPI, or this MPI is not for programs with
 * threads), UW_ERR_TOOBIG (more ranks than a link has stations), UW_ERR_IO. */
int uw_link_mpi_begin(uint16_t *rank, uint16_t *ranks_n, struct uw_error *err);

/* Leave the job. With a status other than 0 the whole job is ended, all ranks. Does nothing when
 * begin failed or was not called. */
void uw_link_mpi_end(int status);

/* Bytes of memory; SIZE_MAX when a size is not allowed. */
size_t uw_link_mpi_bytes(const struct uw_link_mpi_config *config);

/* Open the link, between begin and end.
 *
 * Returns UW_OK, UW_ERR_INVALID (mtu, channel), UW_ERR_NOMEM, UW_ERR_IO, UW_ERR_UNSUPPORTED. */
int uw_link_mpi_init(struct uw_link_mpi *l, const struct uw_link_mpi_config *config,
                     struct uw_error *err);

/* Take part in the end of all ranks: what arrives is dropped, nothing more can be sent (then
 * UW_ERR_CLOSED). Without it what is on its way at deinit may be lost. Never waits.
 *
 * Returns true once all ranks do the same and what they sent has arrived; also for a link that is
 * not open. */
bool uw_link_mpi_leave(struct uw_link_mpi *l);

UW_C_END
#endif
