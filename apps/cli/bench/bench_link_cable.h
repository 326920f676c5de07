/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_link_cable.h - a serial cable between two pseudo terminals, at a line's rate
 *
 * Both directions at once, each of so many bits a second, ten for a byte.
 *
 * Blocking   close: until its thread has ended      Context  one thread; the cable has its own
 */
#ifndef UWASA_CLI_BENCH_LINK_CABLE_H
#define UWASA_CLI_BENCH_LINK_CABLE_H

#include "uwasa/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define UW_BENCH_CABLE_NAME_BYTES 64u

struct uw_bench_cable {
    int ends[2];                    /* behind the terminals; -1: none */
    int lines[2];                   /* the terminals, kept open; -1: none */
    char names[2][UW_BENCH_CABLE_NAME_BYTES];
    uint32_t baud;
    pthread_t thread;
    bool opened, running;
    atomic_bool quit;
};

/* Lay it. Returns UW_OK, UW_ERR_IO (no terminal or thread is to be had). Close in every case. */
int uw_bench_cable_open(struct uw_bench_cable *c, uint32_t baud, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_bench_cable_close(struct uw_bench_cable *c);

#endif
