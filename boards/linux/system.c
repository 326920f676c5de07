/* SPDX-License-Identifier: Apache-2.0
 *
 * Clock, randomness, memory and cores. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "uwasa/board.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t uw_board_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

int uw_board_entropy(void *buf, size_t bytes)
{
    uint8_t *p = buf;
    while (bytes > 0) {
        ssize_t got = getrandom(p, bytes, 0);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return UW_ERR_IO;
        }
        p += got;
        bytes -= (size_t)got;
    }
    return UW_OK;
}

/* From this size on, small pages cost more than a huge page that is partly unused. */
#define HUGE_WORTH ((size_t)4 * 1024 * 1024)

/* mmap refuses a length of 0. */
static size_t mapped_bytes(size_t bytes)
{
    return bytes == 0 ? 1 : bytes;
}

int uw_board_memory_take(size_t bytes, void **out)
{
    void *p =
        mmap(NULL, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *out = p == MAP_FAILED ? NULL : p;
#ifdef MADV_HUGEPAGE
    if (*out != NULL && bytes >= HUGE_WORTH) {
        (void)madvise(p, bytes, MADV_HUGEPAGE); /* a hint: only speed depends on it */
    }
#endif
    return *out == NULL ? UW_ERR_NOMEM : UW_OK;
}

void uw_board_memory_release(void *p, size_t bytes)
{
    if (p != NULL) {
        munmap(p, mapped_bytes(bytes));
    }
}

uint32_t uw_board_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int allowed = CPU_COUNT(&set);
        if (allowed > 0) {
            return (uint32_t)allowed;
        }
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than cpu_set_t has room for */
    return online > 0 ? (uint32_t)online : 1;
}

/* Bytes of the line "name: 123 kB" in a list such as /proc/meminfo; 0: not found. */
static uint64_t listed_bytes(const char *list, const char *name)
{
    FILE *f = fopen(list, "re");
    if (f == NULL) {
        return 0;
    }
    char line[128];
    unsigned long long kib = 0;
    size_t name_bytes = strlen(name);
    while (kib == 0 && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, name_bytes) == 0) {
            kib = strtoull(line + name_bytes, NULL, 10);
        }
    }
    fclose(f);
    return (uint64_t)kib * 1024u;
}

/* Not getrusage: its figure survives exec, so a program would report a larger parent's size. */
uint64_t uw_board_peak_rss_bytes(void)
{
    return listed_bytes("/proc/self/status", "VmHWM:");
}

uint64_t uw_board_free_bytes(void)
{
    return listed_bytes("/proc/meminfo", "MemAvailable:");
}
