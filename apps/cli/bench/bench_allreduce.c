/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_allreduce.h"

#include "bench_rank.h"

#include "uwasa/board.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUB_MTU 65536u

double uw_bench_bus_bytes_per_s(uint32_t ranks, uint32_t n, double seconds)
{
    double bytes = (double)n * sizeof(float) * 2.0 * (ranks - 1u) / ranks;
    return seconds > 0.0 ? bytes / seconds : 0.0;
}

/* Ranks as processes. */
static void run_processes(struct uw_bench_meeting *m)
{
    pid_t pid[UW_BENCH_RANKS_MAX];
    uint32_t n = 0;
    pid_t parent = getpid();
    for (; n < m->b.ranks; n++) {
        pid[n] = fork();
        if (pid[n] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent) {
                uw_bench_rank(m, n, NULL);
            }
            _exit(0);
        }
        if (pid[n] < 0) {
            uw_bench_fail(m, UW_ERR_IO, "the system refused another process");
            break;
        }
    }
    while (n > 0) {         /* in the order of their ends: if one was killed, end the others */
        int status = 0;
        pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0 && errno != EINTR) {
            break;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (pid[i] == ended) {
                pid[i] = pid[--n];
                if (!WIFEXITED(status)) {
                    uw_bench_fail(m, UW_ERR_IO, "a rank was killed");
                }
            }
        }
    }
}

struct thread {
    struct uw_bench_meeting *m;
    struct uw_loopback_hub *hub;
    uint32_t rank;
    pthread_t id;
};

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    uw_bench_rank(t->m, t->rank, t->hub);
    return NULL;
}

/* Ranks as threads, over memory. */
static void run_threads(struct uw_bench_meeting *m)
{
    struct thread threads[UW_BENCH_RANKS_MAX];
    struct uw_loopback_hub hub;
    uint32_t n = 0;
    struct uw_loopback_config c = {.endpoints_n = (uint16_t)m->b.ranks,
                                   .mtu_bytes = HUB_MTU};
    c.memory_bytes = uw_loopback_hub_bytes(&c);
    if (c.memory_bytes == SIZE_MAX || uw_board_memory_take(c.memory_bytes, &c.memory) < 0 ||
        uw_loopback_hub_init(&hub, &c) < 0) {
        uw_bench_fail(m, UW_ERR_NOMEM, "no memory for the ranks' queues");
    }
    for (; n < m->b.ranks && atomic_load(&m->failed) == 0; n++) {
        threads[n] = (struct thread){.m = m, .hub = &hub, .rank = n};
        if (pthread_create(&threads[n].id, NULL, run_thread, &threads[n]) != 0) {
            uw_bench_fail(m, UW_ERR_IO, "the system refused another thread");
            break;
        }
    }
    while (n > 0) {
        pthread_join(threads[--n].id, NULL);
    }
    uw_board_memory_release(c.memory, c.memory_bytes);
}

int uw_bench_allreduce(struct uw_bench_allreduce *b, struct uw_bench_allreduce_result *result,
                       struct uw_error *err)
{
    struct uw_bench_meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) {
        return uw_error_set(err, UW_ERR_NOMEM, "no memory for the ranks to meet in");
    }
    m->b = *b;
    if (b->link == UW_BENCH_LOOPBACK) {
        run_threads(m);
    } else {
        fflush(NULL);
        run_processes(m);
    }
    int rc = atomic_load(&m->failed);
    if (rc < 0) {
        uw_error_set(err, rc, "%s", m->text);
    }
    b->kind = m->b.kind;
    *result = m->result;
    munmap(m, sizeof *m);
    return rc;
}
