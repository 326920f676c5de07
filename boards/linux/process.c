/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "uwasa/board.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* "name: 123 kB" in one of the system's lists; 0: not there. */
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

/* Not getrusage: its figure survives exec, so a small program started by a large one would report
 * its parent's size. */
uint64_t uw_board_peak_rss_bytes(void)
{
    return listed_bytes("/proc/self/status", "VmHWM:");
}

uint64_t uw_board_free_bytes(void)
{
    return listed_bytes("/proc/meminfo", "MemAvailable:");
}
