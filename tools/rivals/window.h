/* SPDX-License-Identifier: Apache-2.0
 *
 * window.h - how tools/bench_collectives measures an all-reduce of another library, in the same way
 * as `uwasa bench allreduce`: windows of rounds between barriers, of which the time of the slowest
 * rank counts. A sum is checked before and after.
 *
 * The program that includes this defines round_of(x, n), which replaces x by its sum over all
 * ranks, barrier(), and slowest_of(seconds), which gives every rank the largest value of all. */
#ifndef UWASA_RIVALS_WINDOW_H
#define UWASA_RIVALS_WINDOW_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void round_of(float *x, size_t n);
static void barrier(void);
static double slowest_of(double seconds);

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int check(float *x, size_t n, int ranks, int rank)
{
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((size_t)(rank + 1) * (i % 13 + 1));
    }
    round_of(x, n);
    for (size_t i = 0; i < n; i++) {
        wrong |= x[i] != (float)((size_t)(ranks * (ranks + 1) / 2) * (i % 13 + 1));
    }
    memset(x, 0, n * sizeof *x);
    return wrong;
}

static double window(float *x, size_t n, uint32_t rounds)
{
    barrier();
    double from = now_s();
    for (uint32_t i = 0; i < rounds; i++) {
        round_of(x, n);
    }
    return slowest_of(now_s() - from) / rounds;
}

/* Print {"bytes":..,"seconds":[..],"rounds":..,"wrong":0} at rank 0. Returns 1 for a wrong sum. */
static int measure(size_t n, int ranks, int rank, uint32_t windows, double seconds)
{
    float *x = (float *)aligned_alloc(4096, (n * sizeof(float) + 4095) / 4096 * 4096);
    int wrong = check(x, n, ranks, rank);
    (void)window(x, n, 1);
    double once = window(x, n, 2), rounds = once > 0.0 ? seconds / once : 100000.0;
    uint32_t count = rounds < 1.0 ? 1 : rounds < 100000.0 ? (uint32_t)rounds : 100000;
    if (rank == 0) {
        printf("{\"bytes\":%zu,\"seconds\":[", n * sizeof(float));
    }
    for (uint32_t i = 0; i < windows; i++) {
        double s = window(x, n, count);
        if (rank == 0) {
            printf("%s%.9g", i > 0 ? "," : "", s);
        }
    }
    wrong |= check(x, n, ranks, rank);
    if (rank == 0) {
        printf("],\"rounds\":%u,\"wrong\":%d}\n", count, wrong);
        fflush(stdout);
    }
    free(x);
    return wrong;
}

/* arguments: windows seconds bytes... */
static int measure_all(int argc, char **argv, int ranks, int rank)
{
    int wrong = 0;
    for (int i = 3; i < argc; i++) {
        wrong |= measure(strtoull(argv[i], NULL, 10) / sizeof(float), ranks, rank,
                         (uint32_t)atoi(argv[1]), atof(argv[2]));
    }
    return wrong;
}

#endif
