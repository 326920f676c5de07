/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_scenario.h - what a fleet is like, and the drawing of its devices
 *
 * A scenario says by groups what devices have: links, speed, when they are there; a draw makes the
 * table of sim_fleet.h of it. Every value of every device has a random stream of its own, made of
 * the seed, what it is and the device's number, so that a change to one of them moves no other.
 *
 *     s.groups = ...; s.groups_n = ...;                who fills it: scenario files, tests
 *     uw_sim_draw_open(&draw, &s, &cost, &err);        draw.fleet is what a world reads
 *     uw_sim_draw_close(&draw);
 *
 * Units      as written by people: seconds, bits a second; the fleet has microseconds
 * Memory     open takes what it needs from the heap; the scenario is borrowed until close
 * Blocking   never      Context  one thread. The same scenario gives the same fleet
 */
#ifndef UWASA_SIM_SCENARIO_H
#define UWASA_SIM_SCENARIO_H

#include "uwasa/cplusplus.h"
#include "uwasa/sim_devices.h"
#include "uwasa/sim_fleet.h"
#include "uwasa/status.h"

UW_C_BEGIN

#define UW_SIM_BITS_MIN 100.0       /* a second, where a rate is not 0; draws are kept within */
#define UW_SIM_BITS_MAX 1e12
#define UW_SIM_LATENCY_MAX 3600.0   /* seconds */
#define UW_SIM_STEP_MIN 1e-6
#define UW_SIM_STEP_MAX 1e7
#define UW_SIM_SECONDS_MAX 1e9      /* 30 years: microseconds and their sums fit */
#define UW_SIM_GROUPS_MAX 64u
#define UW_SIM_VALUES_MAX 64u
#define UW_SIM_ABSENCES_MAX 1000000u    /* drawn, of all devices; 4096 of one */

/* Where a value of each device comes from. */
enum uw_sim_spread_kind {
    UW_SIM_SAME = 0,                /* a */
    UW_SIM_UNIFORM,                 /* from a to b */
    UW_SIM_LOG_NORMAL,              /* median a, b the deviation of the natural logarithm */
    UW_SIM_VALUES                   /* one of value[0 .. values_n - 1], all as likely */
};

struct uw_sim_spread {
    enum uw_sim_spread_kind kind;
    double a, b;
    double value[UW_SIM_VALUES_MAX];
    uint32_t values_n;
};

/* The b of a log-normal spread whose 5th and 95th percentile are `decades` powers of ten apart. */
double uw_sim_sigma_of_decades(double decades);

/* Some are slower than they would be: round(share * devices) of them, chosen by the seed. */
struct uw_sim_stragglers {
    double share, factor;           /* of the time of a step; share 0: none */
};

enum uw_sim_step_kind {
    UW_SIM_STEP_MEASURED = 0,       /* as long as on this machine */
    UW_SIM_STEP_SECONDS,            /* given */
    UW_SIM_STEP_KIND                /* from the table of sim_devices.h */
};

enum uw_sim_there {
    UW_SIM_ALWAYS = 0,
    UW_SIM_DIURNAL,                 /* `up` of each `period`; where in it, is uniform in `spread`.
                                       Less than 1 us away: always there */
    UW_SIM_CHURN,                   /* exponential times: there `up` on average, away `down` */
    UW_SIM_TRACE                    /* given */
};

/* A line of a trace. */
struct uw_sim_away {
    uint32_t node;                  /* of the group, or of the fleet, from 0 */
    uint32_t line;                  /* of the file, for messages */
    struct uw_sim_absence absence;
};

struct uw_sim_availability {
    enum uw_sim_there kind;
    double period, up, down, spread;    /* seconds; up of UW_SIM_DIURNAL is a share */
    double forgets;                 /* share of the absences of UW_SIM_CHURN */
    bool whole;                     /* the trace counts the fleet's devices, not the group's */
    const struct uw_sim_away *away; /* [away_n], by node, then by time, not overlapping */
    uint32_t away_n;
};

/* Devices that have a network of their own. One of nodes, cells and sizes_n is not 0; all are 0:
 * there are no cells. */
struct uw_sim_cells {
    uint32_t nodes;                 /* of a cell; the last may have fewer */
    uint32_t cells;                 /* so many, as equal as can be */
    uint32_t size[UW_SIM_VALUES_MAX];
    uint32_t sizes_n;
    bool in_turns;                  /* device i is in cell i mod cells; else neighbours are */
    bool shared;
    bool own_latency;               /* latency counts; else its devices are as far apart as outside,
                                       on average */
    struct uw_sim_spread bits, latency, out_bits, out_latency;  /* of each cell */
};

struct uw_sim_group {
    char name[32];
    uint32_t count;
    const struct uw_sim_kind *kind; /* of the device; NULL: not given */
    struct uw_sim_spread up, down;  /* bits a second, 0: unlimited */
    bool one_rate;                  /* down is what was drawn for up */
    struct uw_sim_spread latency;   /* seconds to a device like it, one way; half of it is its */
    double loss;
    enum uw_sim_step_kind step;
    struct uw_sim_spread seconds;   /* of UW_SIM_STEP_SECONDS */
    struct uw_sim_spread speed;     /* a step takes so many times less */
    struct uw_sim_stragglers stragglers;
    struct uw_sim_availability there;
    struct uw_sim_cells cells;
};

struct uw_sim_scenario {
    uint64_t seed;
    struct uw_sim_group *groups;    /* [groups_n] */
    uint32_t groups_n;
    struct uw_sim_stragglers stragglers;    /* of the whole fleet; their groups then have none */
    struct uw_sim_cells cells;              /* the same */
};

/* What a local step costs, as far as the scenario asks. */
struct uw_sim_cost {
    uint64_t measured_us;           /* here */
    uint64_t multiply_adds;         /* of a training step on one minibatch */
};

struct uw_sim_draw {
    const struct uw_sim_scenario *scenario;
    struct uw_sim_fleet fleet;
    uint32_t *group;                /* [devices_n] of each device */
    bool *straggler;                /* [devices_n] */
    uint64_t until_us;              /* absences are drawn up to here, then all devices are there;
                                       UINT64_MAX: none was drawn */

    /* private */
    struct uw_sim_absence *absences;
    uint32_t absences_n, absences_cap;
};

/* Devices of all groups; UINT32_MAX when they are more than that. */
uint32_t uw_sim_scenario_devices(const struct uw_sim_scenario *s);

/* Devices of the largest cell; 0: there are no cells. */
uint32_t uw_sim_scenario_largest_cell(const struct uw_sim_scenario *s);

/* Does a group need cost.measured_us, or cost.multiply_adds? */
bool uw_sim_scenario_uses(const struct uw_sim_scenario *s, enum uw_sim_step_kind step);

/* Draw the devices, at least one. What a scenario file refuses is not checked again.
 * Returns UW_OK, UW_ERR_INVALID (cells whose sizes are not those of the devices, a trace about
 * devices that are not there; err says which) or UW_ERR_NOMEM. Close in every case. */
int uw_sim_draw_open(struct uw_sim_draw *d, const struct uw_sim_scenario *s,
                     const struct uw_sim_cost *cost, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_sim_draw_close(struct uw_sim_draw *d);

/* Share of the time before `until_us` that device i is there, 0 .. 1. */
double uw_sim_draw_there(const struct uw_sim_draw *d, uint32_t i, uint64_t until_us);

/* Read lines "node,from,to" or "node,from,to,forgets" (0 or 1), seconds of training time; empty
 * lines and those that begin with # do not count. A node's absences may not overlap.
 *
 *   away  [*away_n] by node, then by time; from the heap, the caller's to free; NULL after a
 *         mistake or without lines
 *
 * Returns UW_OK, UW_ERR_CORRUPT with err "file:line: what", UW_ERR_NOMEM. */
int uw_sim_trace_read(const char *file, const char *text, size_t text_bytes,
                      struct uw_sim_away **away, uint32_t *away_n, struct uw_error *err);

UW_C_END
#endif
