/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "bench_link_cable.h"

#include "uwasa/board.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define BYTE_BITS 10u
#define LOOK_NS 200000
#define BURST_US 5000u              /* of silence that is made up for */
#define HELD_BYTES 4096u

/* One direction. */
struct lane {
    uint8_t held[HELD_BYTES];       /* read and not written yet */
    size_t held_n;
    uint64_t until_us;              /* the line is busy with what was read */
};

/* Read what the rate allows, write what the other side takes. */
static void carry(struct lane *l, int from, int to, uint32_t baud, uint64_t now_us)
{
    uint64_t least_us = now_us > BURST_US ? now_us - BURST_US : 0;
    l->until_us = l->until_us > least_us ? l->until_us : least_us;
    if (l->held_n == 0 && l->until_us < now_us) {
        uint64_t most = (now_us - l->until_us) * baud / (BYTE_BITS * UINT64_C(1000000));
        size_t n_most = most < HELD_BYTES ? (size_t)most : HELD_BYTES;
        ssize_t n = most > 0 ? read(from, l->held, n_most) : 0;
        l->held_n = n > 0 ? (size_t)n : 0;
        l->until_us += l->held_n * BYTE_BITS * UINT64_C(1000000) / baud;
    }
    ssize_t n = l->held_n > 0 ? write(to, l->held, l->held_n) : 0;
    if (n > 0) {
        l->held_n -= (size_t)n;
        memmove(l->held, l->held + n, l->held_n);
    }
}

static void *run(void *arg)
{
    struct uw_bench_cable *c = arg;
    struct lane lanes[2] = {{.held_n = 0}, {.held_n = 0}};
    while (!atomic_load(&c->quit)) {
        uint64_t now_us = uw_board_now_us();
        carry(&lanes[0], c->ends[0], c->ends[1], c->baud, now_us);
        carry(&lanes[1], c->ends[1], c->ends[0], c->baud, now_us);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return NULL;
}

/* A terminal without echo, and what is behind it. */
static bool open_end(struct uw_bench_cable *c, int i)
{
    struct termios t;
    c->ends[i] = posix_openpt(O_RDWR | O_NOCTTY);
    if (c->ends[i] < 0 || grantpt(c->ends[i]) != 0 || unlockpt(c->ends[i]) != 0 ||
        fcntl(c->ends[i], F_SETFL, O_NONBLOCK) != 0) {
        return false;
    }
    const char *name = ptsname(c->ends[i]);
    if (name == NULL || strlen(name) >= sizeof c->names[i]) {
        return false;
    }
    snprintf(c->names[i], sizeof c->names[i], "%s", name);
    c->lines[i] = open(name, O_RDWR | O_NOCTTY);
    if (c->lines[i] < 0 || tcgetattr(c->lines[i], &t) != 0) {
        return false;
    }
    t.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | ISTRIP | IXON);
    t.c_oflag &= ~(tcflag_t)OPOST;
    t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    return tcsetattr(c->lines[i], TCSANOW, &t) == 0;
}

int uw_bench_cable_open(struct uw_bench_cable *c, uint32_t baud, struct uw_error *err)
{
    *c = (struct uw_bench_cable){.ends = {-1, -1}, .lines = {-1, -1}, .baud = baud,
                                 .opened = true};
    if (!open_end(c, 0) || !open_end(c, 1)) {
        return uw_error_set(err, UW_ERR_IO, "no pseudo terminal is to be had");
    }
    if (pthread_create(&c->thread, NULL, run, c) != 0) {
        return uw_error_set(err, UW_ERR_IO, "the system refused another thread");
    }
    c->running = true;
    return UW_OK;
}

void uw_bench_cable_close(struct uw_bench_cable *c)
{
    if (!c->opened) {
        return;
    }
    if (c->running) {
        atomic_store(&c->quit, true);
        pthread_join(c->thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        if (c->lines[i] >= 0) {
            close(c->lines[i]);
        }
        if (c->ends[i] >= 0) {
            close(c->ends[i]);
        }
    }
    c->opened = c->running = false;
}
