/* SPDX-License-Identifier: Apache-2.0 */
#include "link_cost.h"

#include "uwasa/board.h"
#include "uwasa/link_frame.h"
#include "uwasa/secure.h"
#include "uwasa/secure_frames.h"

#include <math.h>

#define ADD_TIMES 5u
#define ADD_LEAST_N 1000000u         /* floats per measurement: the clock has microseconds */
#define WANT_CHUNKS 64.0
#define REPAIRS_MOST 3.0            /* limit for an average, in models, as in cast.c ... */
#define REPAIRS_SURE 2.8            /* ... with a margin for the worst of many nodes */
/* Links of frames: bytes of a data frame besides its floats; of a want. */
#define FRAME_HEAD_BYTES (UW_SECURE_FRAMES_OVERHEAD + 5u)
#define FRAME_WANT_BYTES (UW_SECURE_FRAMES_OVERHEAD + 15u + 11u)
/* Over DTLS: head and checksum of a data message, bytes 0 to 22 of it. */
#define DTLS_HEAD_BYTES (23u + UW_SECURE_OVERHEAD_BYTES)
#define DTLS_WANT_BYTES (32u + UW_SECURE_OVERHEAD_BYTES)

static uint32_t head_bytes(const struct uw_radio_profile *p)
{
    return p->frames ? FRAME_HEAD_BYTES : DTLS_HEAD_BYTES;
}

static uint32_t want_bytes(const struct uw_radio_profile *p)
{
    return p->frames ? FRAME_WANT_BYTES : DTLS_WANT_BYTES;
}

/* Round up to a whole number, ignoring rounding errors. */
static double whole(double x)
{
    return ceil(x - 1e-6);
}

static double airtime_s(const struct uw_radio_profile *p, uint32_t bytes)
{
    return (double)uw_radio_profile_airtime_ns(p, bytes) * 1e-9;
}

/* Cost of sending one model, of repeated frames, and of wants. */
static struct uw_air air_of(const struct uw_link_cost_config *c, const struct uw_link_cost *cost,
                            double repeats, double wants)
{
    const struct uw_radio_profile *p = &c->link;
    uint32_t full = head_bytes(p) + 4u * cost->chunk_n;
    uint32_t last = head_bytes(p) + 4u * (c->floats_n - (cost->chunks - 1u) * cost->chunk_n);
    double whole_n = cost->chunks - 1u + repeats;
    return (struct uw_air){
        .data_frames = whole_n + 1.0,
        .want_frames = wants,
        .bytes = whole_n * full + last + wants * want_bytes(p),
        .airtime_s = whole_n * airtime_s(p, full) + airtime_s(p, last) +
                     wants * airtime_s(p, want_bytes(p)),
    };
}

static double busy_s(const struct uw_radio_profile *p, const struct uw_air *a)
{
    return a->airtime_s + (a->data_frames + a->want_frames) * p->access_us * 1e-6;
}

/* Share of the time that a duty cycle leaves for parameters: without the saved-up allowance (a
 * sixteenth, or the longest frame, uwasa/link_frame.h) and membership's sixteenth
 * (net/node/node_bind.c). */
static double duty_left(const struct uw_radio_profile *p)
{
    double duty = p->duty_ppm * 1e-6, sixteenth = duty / 16.0;
    double longest = airtime_s(p, p->frame_bytes) / (UW_LINK_FRAME_WINDOW_US * 1e-6);
    return duty - fmin(fmax(sixteenth, longest), duty / 2.0) - sixteenth;
}

/* Time in which a station without saved-up allowance may send so much within its duty cycle. */
static double paced_s(const struct uw_radio_profile *p, double airtime)
{
    return p->duty_ppm != 0 ? airtime / duty_left(p) : 0.0;
}

static struct uw_air times(const struct uw_air *a, double n)
{
    return (struct uw_air){a->data_frames * n, a->want_frames * n, a->bytes * n, a->airtime_s * n,
                           0.0};
}

/* Expected number of times a frame is sent until n others have it. */
static double sent_until_all_have(double loss, uint32_t n)
{
    double sum = 0.0, missing = 1.0;    /* to one of them, after k times */
    for (double more = 1.0; more > 1e-12; missing *= loss) {
        more = 1.0 - pow(1.0 - missing, n);
        sum += more;
    }
    return sum;
}

static struct uw_air average_of(const struct uw_link_cost_config *c,
                                const struct uw_link_cost *cost, bool *exact)
{
    const struct uw_radio_profile *p = &c->link;
    uint32_t others = c->nodes_n - 1u;
    double again = whole(cost->chunks * (sent_until_all_have(c->loss, others) - 1.0));
    double wants = c->loss > 0.0
                       ? whole(others * whole(cost->chunks / WANT_CHUNKS) / (1.0 - c->loss)) : 0.0;
    double most = REPAIRS_MOST * cost->chunks;
    *exact = again <= REPAIRS_SURE * cost->chunks;
    if (again > most) {             /* repairs are limited, so fewer wants are answered */
        wants = whole(wants * most / again);
        again = most;
    }
    struct uw_air one = air_of(c, cost, again, wants);
    struct uw_air all = times(&one, c->nodes_n);
    all.seconds = fmax(busy_s(p, &all), paced_s(p, one.airtime_s));
    return all;
}

void uw_link_cost(const struct uw_link_cost_config *c, struct uw_link_cost *cost)
{
    const struct uw_radio_profile *p = &c->link;
    *cost = (struct uw_link_cost){.chunk_n = (p->frame_bytes - head_bytes(p)) / 4u};
    cost->chunks = (c->floats_n - 1u) / cost->chunk_n + 1u;

    double repeats = whole(cost->chunks * c->loss / (1.0 - c->loss));
    double wants = whole(whole((cost->chunks + repeats) / WANT_CHUNKS) / (1.0 - c->loss));
    struct uw_air served = air_of(c, cost, repeats, 0.0);
    cost->pull = air_of(c, cost, repeats, wants);
    cost->pull.seconds = fmax(busy_s(p, &cost->pull), paced_s(p, served.airtime_s));

    double own_s = paced_s(p, cost->pull.airtime_s);    /* a node serves one and asks one */
    cost->round = times(&cost->pull, c->nodes_n);
    double busy = busy_s(p, p->shared ? &cost->round : &cost->pull);
    cost->round.seconds = fmax(busy, own_s);
    cost->period_s = fmax(busy / c->share, own_s);
    if (p->broadcasts) {
        cost->average = average_of(c, cost, &cost->exact);
    }
}

uint32_t uw_link_cost_fits_n(const struct uw_link_cost_config *config, double seconds)
{
    struct uw_link_cost_config c = *config;
    struct uw_link_cost cost;
    uint64_t fits = 0, fails = (uint64_t)UINT32_MAX + 1u;
    while (fails - fits > 1u) {
        c.floats_n = (uint32_t)(fits + (fails - fits) / 2u);
        uw_link_cost(&c, &cost);
        if (cost.round.seconds <= seconds) {
            fits = c.floats_n;
        } else {
            fails = c.floats_n;
        }
    }
    return (uint32_t)fits;
}

double uw_add_time(float *x, uint32_t n)
{
    const uint32_t half = n / 2u, rounds = ADD_LEAST_N / half + 1u;
    uint64_t least_us = UINT64_MAX;
    for (uint32_t i = 0; i < ADD_TIMES; i++) {
        uint64_t from_us = uw_board_now_us();
        for (uint32_t k = 0; k < rounds; k++) {
            for (uint32_t j = 0; j < half; j++) {
                x[j] += x[half + j];
            }
        }
        uint64_t us = uw_board_now_us() - from_us;
        least_us = us < least_us ? us : least_us;
    }
    return (double)least_us * 1e-6 / ((double)rounds * half * sizeof(float));
}
