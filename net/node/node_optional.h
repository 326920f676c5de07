/* SPDX-License-Identifier: Apache-2.0
 *
 * node_optional.h - what a node calls of its optional parts (uwasa/node_parts.h): a table each
 *
 * The node itself names no function of a part, only the table of its configuration. The state of a
 * part is taken from the arena when the configuration needs it.
 *
 * Blocking   never      Context  network thread, but for what averages do after a step
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

/* What the table of every part begins with. */
struct uw_node_setup {
    /* Does a configuration that needs the part make sense, whatever memory is there? NULL: yes.
     * Returns UW_OK, UW_ERR_INVALID or UW_ERR_UNSUPPORTED. */
    int (*check)(const struct uw_node_config *c, struct uw_node_fault *fault);
    /* Take the part's memory. NULL: it has none. Returns UW_OK or what uw_arena_take returns. */
    int (*place)(struct uw_node_state *s, struct uw_arena *arena);
};

#define UW_NODE_MEMBERS_DEFAULT 32u

/* For checks: why a member of the configuration is wrong. It is UW_ERR_INVALID. */
static inline int uw_node_fault(struct uw_node_fault *fault, size_t field, const char *name,
                                const char *sentence)
{
    *fault = (struct uw_node_fault){field, name, sentence};
    return UW_ERR_INVALID;
}
#define UW_NODE_FAULT(fault, member, sentence) \
    uw_node_fault(fault, offsetof(struct uw_node_config, member), #member, sentence)

/* node_bind.c. What uw_node_check and uw_node_bind both judge. Returns as checks do. */
int uw_node_check_choices(const struct uw_node_config *c, struct uw_node_fault *fault);

/* node_bind.c. For checks: is it gossip or broadcast, without exact averages or samples? */
bool uw_node_only_pulls(const struct uw_node_config *c);

/* node_bind.c. For checks: is the link wide enough for more? Else UW_ERR_UNSUPPORTED. */
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

/* How a node knows its peers: it finds and watches them (node_swim.c), or they are a list
 * (uw_node_bind_listed). The first four work on the member table: membership/membership.h. */
struct uw_node_members {
    int (*place)(struct uw_membership *m, struct uw_arena *arena,
                 const struct uw_membership_config *config);
    uint64_t (*next_us)(const struct uw_membership *m);
    struct uw_member *(*heard)(struct uw_membership *m, uint16_t station, uint64_t now_us);
    void (*doubt)(struct uw_membership *m, struct uw_member *it, uint64_t now_us);
    void (*step)(struct uw_node_state *s);      /* do what is due */
    /* Once all memory is there: does the link carry what it sends? NULL: it sends nothing.
     * Returns UW_OK or UW_ERR_TOOBIG. */
    int (*check)(struct uw_node_state *s, struct uw_error *err);
    /* A hello, ping, ack or goodbye in s->buffer. NULL: they are ignored, and members report no
     * progress: what the table has of theirs only lets them be pulled from. */
    void (*message)(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes);
    bool (*spares)(void *arg, const struct uw_member *m);   /* struct uw_membership_config */
};
extern const struct uw_node_members uw_node_swim;

/* node_bind.c. For uw_node_check_listed. */
int uw_node_check_list(const struct uw_node_config *c, struct uw_node_fault *fault);

/* node_averages.c. All but the checks, widest and message only while s->averages is set. */
struct uw_node_averages {
    struct uw_node_setup setup;

    /* What pings come to tell of a node's averages, at most. */
    void (*widest)(const struct uw_node_config *c, uwasa_Averaging *p);

    /* Gather, average, decide. Returns when it wants to run again, if nothing arrives. */
    uint64_t (*step)(struct uw_node_state *s);

    /* Does a ping tell other things about averages than before? known: who is at its station, or
     * NULL. */
    bool (*otherwise)(const struct uw_member *known, const uwasa_Ping *ping);

    /* The member table has changed; a member died, left or was started anew. */
    void (*stale)(struct uw_node_state *s);
    void (*gone)(struct uw_node_state *s, uint32_t id);

    /* A place of the table has another member now, or one that was started anew. */
    void (*forget)(struct uw_node_state *s, uint32_t place);

    /* What arrived in s->buffer, of type UW_WIRE_CELL or UW_WIRE_PART. */
    void (*message)(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes);

    /* What this node tells of its averages now. */
    void (*fill)(const struct uw_node_state *s, uwasa_Averaging *p);

    /* Must this member stay in a full table? */
    bool (*needs)(const struct uw_node_state *s, const struct uw_member *m);

    /* Pulls from another cell (node_bridge.c): whom from; whom else; look at what came; it is
     * over. */
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
    uint64_t (*step)(struct uw_node_state *s);      /* when it wants to run again */
    void (*message)(struct uw_node_state *s, uint16_t station, uint32_t bytes);
    void (*stop)(struct uw_node_state *s);
};

/* node_cast.c. All but setup only while s->cast is set. */
struct uw_node_casts {
    struct uw_node_setup setup;
    /* Begin a turn in this round. 0: there is nobody to average with; UW_NODE_LATER: it is for the
     * others to begin. */
    uint32_t (*begin)(struct uw_node_state *s, uint32_t round);
    uint64_t (*step)(struct uw_node_state *s);      /* when it wants to run again */
    void (*message)(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes);
    void (*gone)(struct uw_node_state *s, uint32_t id);     /* dead, left, or started anew */
    void (*forget)(struct uw_node_state *s, uint32_t place);    /* as above */
};

/* node_limits.c. On a link of frames. */
struct uw_node_limits {
    uint64_t rate_bits_per_s;       /* of the link, for which they are set; 0: none is known */
    uint32_t open;                  /* those that are not configured, a bit each */
};
#define UW_NODE_PULL_OPEN 8u        /* pull_us */

/* node_frames.c. On a link of frames: as the functions of these names in message.h. */
struct uw_node_frames {
    struct uw_node_setup setup;
    /* Leave one more thing out of a ping that does not fit; put back what was left out of one that
     * came from a station, as far as it is known. */
    void (*leave_out)(uwasa_Ping *ping);
    void (*fill_in)(struct uw_node_state *s, uint16_t station, uwasa_Ping *ping);
    /* Bytes of a message that a station hears, or all do. */
    uint32_t (*mtu_to)(const struct uw_node_state *s, uint16_t station);
    /* Is the first pull to wait until more than usable_n peers can be asked? */
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
    /* Pings, silences and pulls take as long as the link's rate asks for, where the configuration
     * does not say: at set-up, and again when the rate has become another one. */
    void (*set_limits)(struct uw_node_state *s);
    void (*follow_rate)(struct uw_node_state *s);
    const struct uw_beacons *beacons;       /* of a link that all share: membership.h */
};

/* node_slice.c */
struct uw_node_slices {
    struct uw_node_setup setup;
    /* As uw_node_pick_slice, of a configuration with slices.
     *   range  all chunks; written: those of the slice */
    void (*pick)(struct uw_node_state *s, struct uw_node_range *range);
};

/* node_periods.c. The period of gossip, as it follows from what pulls take: each counts as long as
 * it lasts. On a shared link it counts at least as long as its messages take within the duty cycle,
 * and as the pulls of all members together take without it: they take turns. A pull that was
 * refused, given up for a silent peer, or brought nothing new does not count; one that took too
 * long does. A broadcast average counts as the time that the models of all members take of
 * the medium together, not as long as it lasts: part of that is waiting for longer periods. */
struct uw_node_period {
    struct uw_period period;
    uint64_t since_us;              /* the last pull that counted ended then; 0: none began yet */
    uint32_t since_step;
};

struct uw_node_periods {
    struct uw_node_setup setup;
    void (*began)(struct uw_node_state *s);         /* a pull of gossip */
    void (*ended)(struct uw_node_state *s);         /* it did, and counts */
    /* A broadcast average did, of which began was told as well; all_us: what all its models take
     * together at this node's pace, where the link does not say. */
    void (*cast_ended)(struct uw_node_state *s, uint64_t all_us);
};

/* node_sleep.c. step, heard and fill only while s->sleeper is set. */
struct uw_node_sleeps {
    struct uw_node_setup setup;
    const struct uw_member_windows *windows;        /* of others: membership.h */
    /* Who sleeps is not asked while somebody does not. Returns how many candidates can be used. */
    uint32_t (*prefer_awake)(struct uw_node_state *s, uint32_t usable_n);
    /* Is this node asleep? next_us is set to when that changes, or a window begins. Who has woken
     * up calls uw_node_slept. */
    bool (*step)(struct uw_node_state *s, uint64_t *next_us);
    /* A member has told of its windows. */
    void (*heard)(struct uw_node_state *s, const struct uw_member *m);
    /* What this node tells of its own. */
    void (*fill)(const struct uw_node_state *s, uwasa_Progress *p);
};

/* node_answers.c */
struct uw_node_answers {
    struct uw_node_setup setup;
    void (*message)(struct uw_node_state *s, uint16_t station, uint32_t bytes);
};

/* Why a pull ended, went on with another peer, or was refused. */
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

/* What an event's sentence tells beside the event itself. */
struct uw_node_cause {
    const struct uw_member *m;      /* NULL: none is known */
    enum uw_node_why why;           /* of a pull that ended */
    uint64_t hash;                  /* of the other's model */
    bool own;                       /* the name that is taken is this node's */
};

/* node_sentences.c */
struct uw_node_sentences {
    /* Write s->text for an event of the node itself; averages write their own. */
    void (*write)(struct uw_node_state *s, const struct uw_node_event *e,
                  const struct uw_node_cause *c);
};

/* A time in a sentence: whole seconds, and tenths of the rest. */
static inline unsigned uw_whole_s(uint64_t us)
{
    return (unsigned)(us / 1000000u);
}

static inline unsigned uw_tenth_s(uint64_t us)
{
    return (unsigned)(us / 100000u % 10u);
}

#endif
