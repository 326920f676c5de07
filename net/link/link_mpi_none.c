/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces link_mpi.c in builds without MPI. */
#include "uwasa/link_mpi.h"

#include <string.h>

static int without(struct uw_error *err)
{
    return uw_error_set(err, UW_ERR_UNSUPPORTED, "built without MPI: install Open MPI or MPICH "
                                                 "with its headers, then build again");
}

int uw_link_mpi_begin(uint16_t *rank, uint16_t *ranks_n, struct uw_error *err)
{
    *rank = 0;
    *ranks_n = 1;
    return without(err);
}

void uw_link_mpi_end(int status)
{
    (void)status;
}

size_t uw_link_mpi_bytes(const struct uw_link_mpi_config *config)
{
    (void)config;
    return SIZE_MAX;
}

int uw_link_mpi_init(struct uw_link_mpi *l, const struct uw_link_mpi_config *config,
                     struct uw_error *err)
{
    (void)config;
    memset(l, 0, sizeof *l);
    l->link.fd = -1;
    return without(err);
}

bool uw_link_mpi_leave(struct uw_link_mpi *l)
{
    (void)l;
    return true;
}
