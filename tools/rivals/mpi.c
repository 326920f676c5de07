/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI_Allreduce for tools/bench_collectives: mpirun ... mpi WINDOWS SECONDS BYTES... */
#include "window.h"

#include <mpi.h>

static void round_of(float *x, size_t n)
{
    MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static double slowest_of(double seconds)
{
    double slowest = 0.0;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv)
{
    int ranks, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int wrong = measure_all(argc, argv, ranks, rank);
    MPI_Finalize();
    return wrong;
}
