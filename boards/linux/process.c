/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "uwasa/board.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

uint32_t uw_board_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int allowed = CPU_COUNT(&set);
        if (allowed > 0) {
            return (uint32_t)allowed;
        }
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than cpu_set_t can name */
    return online > 0 ? (uint32_t)online : 1;
}

/* Not getrusage: its figure survives exec, so a small program started by a large one would report
 * its parent's size. */
uint64_t uw_board_peak_rss_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    if (f == NULL) {
        return 0;
    }
    char line[128];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "VmHWM: %llu", &kib) == 1) {
            break;
        }
    }
    fclose(f);
    return (uint64_t)kib * 1024u;
}
