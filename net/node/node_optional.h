/* SPDX-License-Identifier: Apache-2.0
 *
 * node_optional.h - the interfaces of a node's optional parts (uwasa/node_parts.h): a table each
 *
 * The node calls a part through the table in its configuration only. The state of a part is
 * allocated from the arena if the configuration needs it.
 *
 * Blocking   never      Context  network thread, except after_step and touches of averages
 */
#ifndef UW_NET_NODE_OPTIONAL_H
#define UW_NET_NODE_OPTIONAL_H

#include "gossip/gossip.h"
#include "gossip/period.h"
#include "shuffle/shuffle.h"
#include "wire/message.h"

#include "uwasa/arena.h"
#include "uwasa/node.h"
#include "uwasa/node_parts.h"

#include <stddef.h>

struct uw_beacons;
struct uw_member;
struct uw_member_windows;
struct uw_membership;
struct uw_membership_config;
struct uw_node_range;
struct uw_node_state;

/* First member of every part's table. */
struct uw_node_setup {
    /* Check a configuration that needs the part, but not its memory. NULL: no check.
     * Returns UW_OK, UW_ERR_INVALID or UW_ERR_UNSUPPORTED. */
    int (*check)(const struct uw_node_config *c, struct uw_node_fault *fault);
    /* Allocate the part's memory. NULL: none. Returns UW_OK or what uw_arena_take returns. */
    int (*place)(struct uw_node_state *s, struct uw_arena *arena);
};

/* For checks: set the fault. Returns UW_ERR_INVALID. */
static inline int uw_node_fault(struct uw_node_fault *fault, size_t field, const char *name,
                                const char *sentence)
{
    *fault = (struct uw_node_fault){field, name, sentence};
    return UW_ERR_INVALID;
}
#define UW_NODE_FAULT(fault, member, sentence) \
    uw_node_fault(fault, offsetof(struct uw_node_config, member), #member, sentence)

/* node_bind.c. The checks of both uw_node_check and uw_node_bind. Returns as checks do. */
int uw_node_check_choices(const struct uw_node_config *c, struct uw_node_fault *fault);

/* node_bind.c. For checks: is it gossip or broadcast, without exact averages or samples? */
bool uw_node_only_pulls(const struct uw_node_config *c);

/* node_bind.c. For checks: UW_ERR_UNSUPPORTED on a link of frames. */
int uw_node_check_wide(const struct uw_node_config *c, struct uw_node_fault *fault);

/* For checks: does it average exactly? */
static inline bool uw_node_needs_averages(const struct uw_node_config *c)
{
    return (c->mode != UW_NODE_GOSSIP && c->mode != UW_NODE_BROADCAST) || c->agree ||
           c->gradients != NULL || (c->rule != NULL && c->rule->over != UW_MIX_OVER_ANY);
}

/* For checks: is its rule over pairs? */
static inline bool uw_node_pairs_up(const struct uw_node_config *c)
{
    return c->rule != NULL && c->rule->over == UW_MIX_OVER_PAIRS;
}

/* The source of a node's peers: discovery (node_swim.c), or a static list (uw_node_bind_listed).
 * The first four work on the member table: membership/membership.h. */
struct uw_node_members {
    int (*place)(struct uw_membership *m, struct uw_arena *arena,
                 const struct uw_membership_config *config);
    uint64_t (*next_us)(const struct uw_membership *m);
    struct uw_member *(*heard)(struct uw_membership *m, uint16_t station, uint64_t now_us);
    void (*doubt)(struct uw_membership *m, struct uw_member *it, uint64_t now_us);
    void (*step)(struct uw_node_state *s);      /* do what is due */
    /* After allocation: check that its messages fit the link. NULL: it sends none.
     * Returns UW_OK or UW_ERR_TOOBIG. */
    int (*check)(struct uw_node_state *s, struct uw_error *err);
    /* Handle a hello, ping, ack or goodbye. NULL: ignored, and members report no progress. */
    void (*message)(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes);
    bool (*spares)(void *arg, const struct uw_member *m);   /* struct uw_membership_config */
    bool (*wants)(void *arg, uint32_t id);
};
extern const struct uw_node_members uw_node_swim;

/* node_bind.c. For uw_node_check_listed. */
int uw_node_check_list(const struct uw_node_config *c, struct uw_node_fault *fault);

/* node_averages.c. All but the checks, widest and message only while s->averages is set. */
struct uw_node_averages {
    struct uw_node_setup setup;

    /* The largest report of averages in a ping. */
    void (*widest)(const struct uw_node_config *c, uwasa_Averaging *p);

    /* Gather, average, decide. Returns the time of the next call if no message arrives. */
    uint64_t (*step)(struct uw_node_state *s);
    /* Has the report of averages in a ping changed since that of the member known at its station,
     * or NULL? Withdraws a report of another protocol. */
    bool (*otherwise)(const struct uw_member *known, uwasa_Ping *ping);

    /* The member table has changed; a member died, left or restarted. */
    void (*stale)(struct uw_node_state *s);
    void (*gone)(struct uw_node_state *s, uint32_t id);

    /* A place of the table has another member, or one that restarted. */
    void (*forget)(struct uw_node_state *s, uint32_t place);

    /* Handle a message in s->buffer, of type UW_WIRE_CELL or UW_WIRE_PART. */
    void (*message)(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes);

    /* Fill the report of this node's averages. */
    void (*fill)(const struct uw_node_state *s, uwasa_Averaging *p);

    /* Must this member stay in a full table? Must an unknown device get a place in it at once? */
    bool (*needs)(const struct uw_node_state *s, const struct uw_member *m);
    bool (*wants)(const struct uw_node_state *s, uint32_t id);

    /* Pulls from another cell (node_bridge.c): the peer; another peer; handle chunks; the end. */
    uint32_t (*pull_from)(struct uw_node_state *s);
    uint32_t (*pull_another)(struct uw_node_state *s, uint32_t chunk_n,
                             const struct uw_member *but);
    int (*pull_step)(struct uw_node_state *s);
    void (*pull_ended)(struct uw_node_state *s, enum uw_gossip_end how);

    /* Training. As uw_node_after_step, uw_node_touches. */
    int (*after_step)(struct uw_node_state *s, const struct uw_node_progress *p);
    bool (*touches)(const struct uw_node_state *s);

    const struct uw_peer_schedule *pairs;   /* of rules over pairs, where none is given */
};

/* node_shuffle.c. All but message only while s->samples is set. */
struct uw_node_shuffle {
    struct uw_shuffle leases;
    const struct uw_peer_schedule *schedule;
};

struct uw_node_samples {
    struct uw_node_setup setup;
    uint64_t (*step)(struct uw_node_state *s);      /* returns the time of the next call */
    void (*message)(struct uw_node_state *s, uint16_t station, uint32_t bytes);
    void (*stop)(struct uw_node_state *s);
};

/* node_cast.c. All but setup only while s->cast is set. */
struct uw_node_casts {
    struct uw_node_setup setup;
    /* Begin a turn in this round. Returns 0: no node to average with; UW_NODE_LATER: another node
     * has to begin. */
    uint32_t (*begin)(struct uw_node_state *s, uint32_t round);
    uint64_t (*step)(struct uw_node_state *s);      /* returns the time of the next call */
    void (*message)(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes);
    void (*gone)(struct uw_node_state *s, uint32_t id);     /* dead, left, or restarted */
    void (*forget)(struct uw_node_state *s, uint32_t place);    /* as above */
};

/* node_frames.c. Timeouts that follow the rate of a link of frames. */
struct uw_node_limits {
    uint64_t rate_bits_per_s;       /* the rate that they are set for; 0: not known */
    uint32_t open;                  /* bitmap of timeouts that are not configured */
};
#define UW_NODE_PULL_OPEN 8u        /* pull_us */

/* node_frames.c. For a link of frames: as the functions of these names in message.h. */
struct uw_node_frames {
    struct uw_node_setup setup;
    /* Remove one more field from a ping that does not fit; restore the removed fields of a received
     * one from the member table. */
    void (*leave_out)(uwasa_Ping *ping);
    void (*fill_in)(struct uw_node_state *s, uint16_t station, uwasa_Ping *ping);
    /* Largest message that a station, or all stations, can receive. */
    uint32_t (*mtu_to)(const struct uw_node_state *s, uint16_t station);
    /* Must the first pull wait until more than usable_n peers are usable? */
    bool (*waits_turn)(struct uw_node_state *s, uint32_t usable_n);
    int (*write_data)(const struct uw_data *d, uint32_t chunk, const float *floats, void *buf,
                      uint32_t cap_bytes);
    int (*read_data)(const void *buf, uint32_t buf_bytes, const struct uw_short_data *known,
                     struct uw_data *d);
    uint32_t (*wants)(uint32_t cap_bytes);
    int (*write_wants)(enum uw_wire_type type, const struct uw_short_wants *head,
                       const struct uw_want *wants, uint32_t n, void *buf);
    int (*read_wants)(const void *buf, uint32_t buf_bytes, struct uw_short_wants *head,
                      struct uw_want wants[UW_SHORT_WANTS_MOST]);
    /* Set the timeouts that are not configured by the link's rate: at set-up, and when the rate has
     * changed. */
    void (*set_limits)(struct uw_node_state *s);
    void (*follow_rate)(struct uw_node_state *s);
    const struct uw_beacons *beacons;       /* for a shared link: membership.h */
};

/* node_lanes.c */
struct uw_node_slices {
    struct uw_node_setup setup;
    /* As uw_node_pick_slice, for a configuration with slices.
     *   range  in: all chunks; out: those of the slice */
    void (*pick)(struct uw_node_state *s, struct uw_node_range *range);
};

/* node_periods.c. The period of gossip by the duration of pulls. On a shared link, where members
 * take turns, a pull counts at least as long as its messages take within the duty cycle, and as the
 * pulls of all members take without it. A pull that was refused, given up for a silent peer, or
 * stale does not count; one that timed out does. A broadcast average counts as the air time of all
 * members' models, not as its duration, which includes waiting for longer periods. */
struct uw_node_period {
    struct uw_period period;
    uint64_t since_us;              /* end of the last pull that counted; 0: none began yet */
    uint32_t since_step;
};

struct uw_node_periods {
    struct uw_node_setup setup;
    void (*began)(struct uw_node_state *s);         /* a pull began */
    void (*ended)(struct uw_node_state *s);         /* a pull that counts ended */
    /* A broadcast average ended, after began; all_us: time of all models at this node's pace, for
     * links without a rate. */
    void (*cast_ended)(struct uw_node_state *s, uint64_t all_us);
};

/* node_sleep.c. step, heard and fill only while s->sleeper is set. */
struct uw_node_sleeps {
    struct uw_node_setup setup;
    const struct uw_member_windows *windows;        /* of peers: membership.h */
    /* Make sleeping candidates unusable if any is awake. Returns the number of usable ones. */
    uint32_t (*prefer_awake)(struct uw_node_state *s, uint32_t usable_n);
    /* Is this node asleep? next_us is set to the next change, or the next window. Calls
     * uw_node_slept after waking up. */
    bool (*step)(struct uw_node_state *s, uint64_t *next_us);
    /* A member has reported its windows. */
    void (*heard)(struct uw_node_state *s, const struct uw_member *m);
    /* Fill the report of this node's windows. */
    void (*fill)(const struct uw_node_state *s, uwasa_Progress *p);
};

/* node_answers.c */
struct uw_node_answers {
    struct uw_node_setup setup;
    void (*message)(struct uw_node_state *s, uint16_t station, uint32_t bytes);
};

/* node_queries.c; s->config.queries is set */
struct uw_node_queries {
    struct uw_node_setup setup;
    /* Take the question in a status request of so many bytes and reply to it.
     * Returns false if there is none in it. */
    bool (*message)(struct uw_node_state *s, uint16_t station, const uwasa_StatusRequest *request,
                    uint32_t bytes);
};

/* The reason why a pull ended, moved to another peer, or was refused. */
enum uw_node_why {
    UW_WHY_NONE,
    UW_WHY_CHUNK,                   /* a chunk was refused */
    UW_WHY_LATE,
    UW_WHY_GONE,
    UW_WHY_SILENT,
    UW_WHY_NOT_READY,
    UW_WHY_MODEL,
    UW_WHY_NARROW,
    UW_WHY_SLEEPS,
    UW_WHYS_N
};

/* Details for the sentence of an event. */
struct uw_node_cause {
    const struct uw_member *m;      /* NULL: not known, but maybe its name */
    const char *name;
    enum uw_node_why why;           /* of the end of a pull */
    uint64_t hash;                  /* of the peer's model */
    bool own;                       /* the duplicate name is this node's */
};

/* node_sentences.c */
struct uw_node_sentences {
    /* Write the sentence of an event to s->text; averages write their own. */
    void (*write)(struct uw_node_state *s, const struct uw_node_event *e,
                  const struct uw_node_cause *c);
};

/* A time in a sentence: whole seconds, and tenths. */
static inline unsigned uw_whole_s(uint64_t us)
{
    return (unsigned)(us / 1000000u);
}

static inline unsigned uw_tenth_s(uint64_t us)
{
    return (unsigned)(us / 100000u % 10u);
}

#endif
