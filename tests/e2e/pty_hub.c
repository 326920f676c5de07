/* SPDX-License-Identifier: Apache-2.0
 *
 * A bus made of pseudo terminals: every whole frame (uwasa/serial_frames.h) that one of them writes
 * goes to all the others.
 *
 *     pty_hub N [--loss P] [--garbage P] [--seed S]
 *
 * Each receiver loses frames on its own, with probability P; before each byte that a receiver gets
 * there is one of garbage, with probability P. Prints the names of the terminals, one a line, and
 * runs until its standard input ends; then it prints what it did, as one line of JSON. */
#include "pty_pair.h"

#include "uwasa/rng.h"

#include <poll.h>
#include <stdbool.h>
#include <termios.h>

#define PORTS_MAX 32
#define FRAME_BYTES 4096u
#define OUT_BYTES 65536u

struct port {
    int master, own;            /* own: the other side, so that the terminal never hangs up */
    uint8_t frame[FRAME_BYTES]; /* what came since the last zero */
    size_t frame_n;
    bool too_long;
    uint8_t out[OUT_BYTES];     /* what the terminal has not taken */
    size_t out_n;
};

static struct port ports[PORTS_MAX];
static int ports_n;
static double loss, garbage;
static struct uw_rng rng;
static unsigned long frames_n, lost_n, full_n, garbage_n;

static bool chance(double p)
{
    return p > 0.0 && uw_rng_u32(&rng) < p * 4294967296.0;
}

static int open_port(struct port *p)
{
    char name[PTY_NAME_BYTES];
    struct termios t;
    p->master = pty_open(name);
    p->own = p->master >= 0 ? open(name, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (p->own < 0 || tcgetattr(p->own, &t) != 0) {
        return -1;
    }
    cfmakeraw(&t);              /* nothing is echoed before a node has set it up */
    if (tcsetattr(p->own, TCSANOW, &t) != 0) {
        return -1;
    }
    puts(name);
    return 0;
}

static void put(struct port *to, uint8_t byte)
{
    if (chance(garbage)) {
        to->out[to->out_n++] = (uint8_t)uw_rng_u32(&rng);
        garbage_n++;
    }
    to->out[to->out_n++] = byte;
}

static void relay(const struct port *from, struct port *to)
{
    if (chance(loss)) {
        lost_n++;
        return;
    }
    if (OUT_BYTES - to->out_n < 2u * (from->frame_n + 2u)) {
        full_n++;
        return;
    }
    put(to, 0);
    for (size_t i = 0; i < from->frame_n; i++) {
        put(to, from->frame[i]);
    }
    put(to, 0);
}

static void hear(struct port *p, uint8_t byte)
{
    if (byte != 0) {
        p->too_long = p->too_long || p->frame_n == FRAME_BYTES;
        if (!p->too_long) {
            p->frame[p->frame_n++] = byte;
        }
        return;
    }
    for (int i = 0; i < ports_n && p->frame_n > 0 && !p->too_long; i++) {
        if (&ports[i] != p) {
            relay(p, &ports[i]);
        }
    }
    frames_n += p->frame_n > 0 && !p->too_long;
    p->frame_n = 0;
    p->too_long = false;
}

static void carry(struct port *p, short events)
{
    uint8_t in[1024];
    ssize_t n = (events & POLLIN) != 0 ? read(p->master, in, sizeof in) : 0;
    for (ssize_t i = 0; i < n; i++) {
        hear(p, in[i]);
    }
    n = p->out_n > 0 && (events & POLLOUT) != 0 ? write(p->master, p->out, p->out_n) : 0;
    if (n > 0) {
        p->out_n -= (size_t)n;
        memmove(p->out, p->out + n, p->out_n);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: pty_hub N [--loss P] [--garbage P] [--seed S]\n");
    return 2;
}

static bool read_options(int argc, char **argv)
{
    unsigned long long seed = 1;
    ports_n = argc > 1 ? atoi(argv[1]) : 0;
    for (int i = 2; i + 1 < argc; i += 2) {
        char *end;
        if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], &end, 0);
        } else if (strcmp(argv[i], "--loss") == 0) {
            loss = strtod(argv[i + 1], &end);
        } else if (strcmp(argv[i], "--garbage") == 0) {
            garbage = strtod(argv[i + 1], &end);
        } else {
            return false;
        }
        if (*end != '\0') {
            return false;
        }
    }
    uw_rng_seed(&rng, seed);
    return argc % 2 == 0 && ports_n >= 2 && ports_n <= PORTS_MAX;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        return usage();
    }
    for (int i = 0; i < ports_n; i++) {
        if (open_port(&ports[i]) != 0) {
            fprintf(stderr, "pty_hub: this machine has no more pseudo terminals\n");
            return 77;
        }
    }
    fflush(stdout);
    for (;;) {
        struct pollfd fds[PORTS_MAX + 1] = {{.fd = 0, .events = POLLIN}};
        for (int i = 0; i < ports_n; i++) {
            fds[i + 1].fd = ports[i].master;
            fds[i + 1].events = (short)(POLLIN | (ports[i].out_n > 0 ? POLLOUT : 0));
        }
        if (poll(fds, (nfds_t)ports_n + 1, -1) < 0) {
            return 1;
        }
        char told[64];
        if (fds[0].revents != 0 && read(0, told, sizeof told) <= 0) {
            break;
        }
        for (int i = 0; i < ports_n; i++) {
            carry(&ports[i], fds[i + 1].revents);
        }
    }
    printf("{\"frames\":%lu,\"lost\":%lu,\"full\":%lu,\"garbage\":%lu}\n", frames_n, lost_n, full_n,
           garbage_n);
    return 0;
}
