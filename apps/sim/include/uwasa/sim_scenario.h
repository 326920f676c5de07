/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_scenario.h - describes a fleet by distributions, and draws its devices
 *
 * A scenario describes groups of devices: their links, their speed, when they are present. A draw
 * makes the table of sim_fleet.h from it. Each value of each device has its own random stream, by
 * seed, kind of value and the device's number, so that a change of one value changes no other.
 *
 *     s.groups = ...; s.groups_n = ...;                filled by scenario files or tests
 *     uw_sim_draw_open(&draw, &s, &cost, &err);        a world reads draw.fleet
 *     uw_sim_draw_close(&draw);
 *
 * Units      seconds and bits a second, as users write them; the fleet has microseconds
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

#define UW_SIM_BITS_MIN 100.0       /* per second, of rates that are not 0; draws are clamped */
#define UW_SIM_BITS_MAX 1e12
#define UW_SIM_LATENCY_MAX 3600.0   /* seconds */
#define UW_SIM_STEP_MIN 1e-6
#define UW_SIM_STEP_MAX 1e7
#define UW_SIM_SECONDS_MAX 1e9      /* 30 years: sums of microseconds fit 64 bits */
#define UW_SIM_GROUPS_MAX 64u
#define UW_SIM_VALUES_MAX 64u
#define UW_SIM_ABSENCES_MAX 1000000u    /* drawn, of all devices; 4096 of each */

/* How each device's value is chosen. */
enum uw_sim_spread_kind {
    UW_SIM_SAME = 0,                /* a */
    UW_SIM_UNIFORM,                 /* from a to b */
    UW_SIM_LOG_NORMAL,              /* median a, b the deviation of the natural logarithm */
    UW_SIM_VALUES                   /* one of value[0 .. values_n - 1], equally likely */
};

struct uw_sim_spread {
    enum uw_sim_spread_kind kind;
    double a, b;
    double value[UW_SIM_VALUES_MAX];
    uint32_t values_n;
};

/* The b of a log-normal spread whose 5th and 95th percentile are `decades` powers of ten apart. */
double uw_sim_sigma_of_decades(double decades);

/* Devices that are slowed down: round(share * devices) of them, chosen by the seed. */
struct uw_sim_stragglers {
    double share, factor;           /* factor on a step's time; share 0: none */
};

enum uw_sim_step_kind {
    UW_SIM_STEP_MEASURED = 0,       /* as long as on this machine */
    UW_SIM_STEP_SECONDS,            /* given */
    UW_SIM_STEP_KIND                /* from the table of sim_devices.h */
};

enum uw_sim_there {
    UW_SIM_ALWAYS = 0,
    UW_SIM_DIURNAL,                 /* `up` of each `period`, shifted by a uniform time in `spread`.
                                       Less than 1 us away: always present */
    UW_SIM_CHURN,                   /* exponential times: present `up` on average, away `down` */
    UW_SIM_TRACE                    /* given */
};

/* One line of a trace. */
struct uw_sim_away {
    uint32_t node;                  /* index in the group, or in the fleet */
    uint32_t line;                  /* of the file, for messages */
    struct uw_sim_absence absence;
};

struct uw_sim_availability {
    enum uw_sim_there kind;
    double period, up, down, spread;    /* seconds; up of UW_SIM_DIURNAL is a share */
    double forgets;                 /* share of the absences of UW_SIM_CHURN */
    bool whole;                     /* the trace has indices in the fleet, not in the group */
    const struct uw_sim_away *away; /* [away_n] by node, then by time, not overlapping */
    uint32_t away_n;
};

/* Cells: devices with a network of their own. At most one of nodes, cells and sizes_n is not 0; if
 * all are 0, there are no cells. */
struct uw_sim_cells {
    uint32_t nodes;                 /* devices of each cell; the last may have fewer */
    uint32_t cells;                 /* number of cells, with sizes as equal as possible */
    uint32_t size[UW_SIM_VALUES_MAX];
    uint32_t sizes_n;
    bool in_turns;                  /* device i is in cell i mod cells; else neighbours are */
    bool shared;
    bool own_latency;               /* use `latency`; false: the mean latency between its devices
                                       outside the cell */
    struct uw_sim_spread bits, latency, out_bits, out_latency;  /* of each cell */
};

struct uw_sim_group {
    char name[32];
    uint32_t count;
    const struct uw_sim_kind *kind; /* of the device; NULL: not given */
    struct uw_sim_spread up, down;  /* bits a second, 0: unlimited */
    bool one_rate;                  /* down has the value drawn for up */
    struct uw_sim_spread latency;   /* seconds between two such devices, one way; each has half */
    double loss;
    enum uw_sim_step_kind step;
    struct uw_sim_spread seconds;   /* of UW_SIM_STEP_SECONDS */
    struct uw_sim_spread speed;     /* divides the time of a step */
    struct uw_sim_stragglers stragglers;
    struct uw_sim_availability there;
    struct uw_sim_cells cells;
    enum uw_sim_attack attack;
    float strength;
};

struct uw_sim_scenario {
    uint64_t seed;
    struct uw_sim_group *groups;    /* [groups_n] */
    uint32_t groups_n;
    struct uw_sim_stragglers stragglers;    /* of the whole fleet; then groups have none */
    struct uw_sim_cells cells;              /* the same */
};

/* The cost of a local step, as far as uw_sim_scenario_uses it. */
struct uw_sim_cost {
    uint64_t measured_us;           /* on this machine */
    uint64_t multiply_adds;         /* of a training step on one minibatch */
};

struct uw_sim_draw {
    const struct uw_sim_scenario *scenario;
    struct uw_sim_fleet fleet;
    uint32_t *group;                /* [devices_n] the group of each device */
    bool *straggler;                /* [devices_n] */
    uint64_t until_us;              /* absences are drawn up to here; later all devices are present.
                                       UINT64_MAX: none was drawn */

    /* private */
    struct uw_sim_absence *absences;
    uint32_t absences_n, absences_cap;
};

/* The words of enum uw_sim_attack, in its order, with | between them. */
extern const char uw_sim_attacks[];

/* Read "KIND" or "KIND:STRENGTH". Returns false for another text. */
bool uw_sim_attack_read(const char *text, enum uw_sim_attack *attack, float *strength);

/* The number of devices of all groups, at most UINT32_MAX. */
uint32_t uw_sim_scenario_devices(const struct uw_sim_scenario *s);

/* The number of devices of the largest cell; 0: there are no cells. */
uint32_t uw_sim_scenario_largest_cell(const struct uw_sim_scenario *s);

/* Whether a group has this kind of step, and so needs measured_us or multiply_adds of the cost. */
bool uw_sim_scenario_uses(const struct uw_sim_scenario *s, enum uw_sim_step_kind step);

/* Draw the devices, at least one. What the reader of scenario files checks is not checked again.
 * Returns UW_OK, UW_ERR_INVALID (cell sizes that do not add up to the devices, a trace with unknown
 * devices; err says which) or UW_ERR_NOMEM. Close in every case. */
int uw_sim_draw_open(struct uw_sim_draw *d, const struct uw_sim_scenario *s,
                     const struct uw_sim_cost *cost, struct uw_error *err);

/* Safe on a zeroed struct and twice. */
void uw_sim_draw_close(struct uw_sim_draw *d);

/* The share of the time before `until_us` in which device i is present, 0 .. 1. */
double uw_sim_draw_there(const struct uw_sim_draw *d, uint32_t i, uint64_t until_us);

/* Read lines "node,from,to" or "node,from,to,forgets" (0 or 1), in seconds of training time. Empty
 * lines and lines that begin with # are skipped. A node's absences may not overlap.
 *
 *   away  [*away_n] by node, then by time; from the heap, the caller frees it; NULL after an error
 *         or without lines
 *
 * Returns UW_OK, UW_ERR_CORRUPT with err "file:line: what", UW_ERR_NOMEM. */
int uw_sim_trace_read(const char *file, const char *text, size_t text_bytes,
                      struct uw_sim_away **away, uint32_t *away_n, struct uw_error *err);

UW_C_END
#endif
