/* SPDX-License-Identifier: Apache-2.0
 *
 * membership.h - the member table of the run: failure detection and dissemination (SWIM)
 *
 * Every device pings every member in its table and judges by the messages that it receives itself:
 * any authenticated message is a sign of life. Rumours never declare a member dead, so that there
 * are no accusations to refute, and the restart of a whole site recovers by itself. Rumours carry
 * names and addresses; a rumour that a member is silent is a reason to ping it at once.
 *
 *     alive --silence--> suspect --silence--> dead --any message--> alive (rejoined)
 *
 * On a shared link (struct uw_link) every device sends beacons, pings to all without an answer, and
 * is pinged only when several of its beacons are missing. N devices send N messages per pace, and a
 * new device is discovered at once. Each device counts the stations whose beacons it receives, in
 * its table or not, so that all together cost config.rate.
 *
 * The cost does not grow with the table: a device spends config.rate on pings and answers. In a
 * small table every member is pinged every ping_us. In a larger table, or on a thin link, pings are
 * further apart (the pace, which every device sends to the others: no device is pinged faster than
 * its own pace), and an exchange counts for both of its sides. Silence then begins with an
 * unanswered ping. The first device to detect it does so within about a ping for any table size and
 * sends a rumour; receivers ping the member themselves. After Das, Gupta, Motivala: SWIM (2002),
 * which pings one member a period and sends rumours log N times.
 *
 * Members that sleep (uwasa/node_sleep.h) are pinged within their windows, and only these count as
 * silence.
 *
 * Dead and unknown members and lost seeds are pinged for ever, with a back-off up to 5 s.
 * Incarnations distinguish a restart from a duplicate name: the newer one wins, the older one is
 * refused while the newer is alive. A device that receives its own name with a higher incarnation,
 * after a restart with a stopped clock, takes a higher one.
 *
 * A run may have more members than the table. A full table replaces dead and left members, at once
 * by a device that sends a hello, later by one in a rumour. If there are none, an unknown device
 * replaces a live member drawn at random, at most once in suspect_us: tables become and stay a
 * random choice of the run, and late devices get a place in time. A device without a place still
 * gets answers.
 *
 * Units      _us microseconds      Memory  the table comes from an arena
 * Blocking   never      Context  network thread
 */
#ifndef UW_NET_MEMBERSHIP_H
#define UW_NET_MEMBERSHIP_H

#include "wire/part.h"

#include "uwasa/arena.h"
#include "uwasa/node_event.h"
#include "uwasa/node_status.h"
#include "uwasa/rng.h"

#include <stdbool.h>
#include <stdint.h>

#define UW_RUMOUR_SENT_MAX 40u      /* times that a rumour is sent, at most */
#define UW_GATHER_MAX UW_MESSAGE_PEERS_MOST
#define UW_CROWD_BITS 256u

struct uw_member {      /* small fields first: boards access them with short instructions */
    uint32_t id;                    /* FNV-1a 32 of the name */
    uint16_t station;
    uint8_t state;                  /* enum uw_member_state */
    uint8_t patience;               /* factor of suspect_us, in quarters; grows with false alarms,
                                       for lossy links */
    bool same_model;
    bool doubted;                   /* to be pinged, even after a recent message */
    uint8_t tries;                  /* pings without an answer; if many, modulo 8 */
    uint8_t unanswered;             /* of these in a row, approximate */
    uint8_t rumour_sent_n;          /* times that its rumour was sent; the maximum: no rumour */
    uint8_t hellos;                 /* in a row: it knows this device, but does not hear it */
    uint16_t place;                 /* index in the table, and in tables of other modules */
    uint16_t in_heap;               /* these are places; 0 ends chains and lists */
    uint16_t at_station_next, at_name_next, news_next, news_before;
    uint16_t was_station;
    uint32_t srtt_us;
    uint64_t heard_us;              /* last sign of life */
    uint64_t told_us;               /* last rumour that it is alive; 0: none */
    uint64_t asked_us;              /* first ping since; 0: none */
    uint64_t next_us;               /* next ping */
    uint64_t due_us;                /* key in the heap, not later than its next event */
    uint32_t incarnation;
    uint32_t ping_seq;
    uint64_t ping_us;               /* time of the ping whose round trip is measured; 0: none */
    char *address;                  /* [address_bytes of the table] as it reports, may be "" */
    uint32_t pace_us;               /* as it reports; 0: none */
    char name[UW_NODE_NAME_BYTES];
    uwasa_Progress progress;        /* as it reports, ... */
    uwasa_Averaging *averaging;     /* ... and of averages; NULL: this device does not average */
    uint64_t window_us;             /* start of one of its windows, if it sleeps by its progress */
};

struct uw_seed {
    const char *address;
    uint16_t station;               /* UW_LINK_STATION_NONE until resolved */
    uint64_t next_us;
    uint32_t tries;
    bool self;                      /* this device's own address */
    bool reported;                      /* reported that it does not resolve */
    bool asking;                    /* lookup of its name in progress */
};

struct uw_membership_config {
    struct uw_link *link;           /* to resolve, describe and hold; the node sends */
    /* Parts for shared links and for members that sleep; NULL: not linked. */
    const struct uw_beacons *beacons;
    const struct uw_member_windows *windows;
    /* For members with several addresses; NULL: not linked. */
    const struct uw_member_addresses *addresses;
    const char *name, *address;
    uint32_t incarnation;
    uint64_t model;
    const char *const *seeds;
    uint32_t seeds_n, members_max;
    uint64_t ping_us, suspect_us, dead_us;
    uint64_t sleep_us;              /* period of this device's windows; 0: never sleeps */
    uint64_t rate_mbytes_per_s;     /* thousandths of bytes, of hellos, pings and their answers */
    bool averages;                  /* store members' reports of averages */
    uint64_t seed;
    /* A member's state has changed, after a silence of silent_us. */
    void (*changed)(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                    uint64_t silent_us);
    /* A place has another member, or (restarted) the same member after a restart: drop what is
     * stored by place. May be NULL. */
    void (*forget)(void *arg, const struct uw_member *m, bool restarted);
    /* May an unknown device replace this live member? NULL: no. */
    bool (*spares)(void *arg, const struct uw_member *m);
    /* Must a device of this identity get a place at once? NULL: no. */
    bool (*wants)(void *arg, uint32_t id);
    void *arg;
};

struct uw_membership {
    struct uw_member *members;      /* [members_max]; [0] is this device */
    uint32_t members_n;
    uint32_t address_bytes;         /* of an address with its NUL; few on numbered links */
    struct uw_seed *seeds;
    uint16_t *heap;                 /* [members_max] places, the next due first */
    uint16_t *by_station, *by_name; /* [buckets_n] first of a chain */
    uint32_t buckets_n;
    struct uw_news_list {
        uint16_t first, last;
    } *news;                        /* lists of rumours by the times that they were sent */
    uint32_t states_n[UW_MEMBER_LEFT + 1u];     /* members of each state, without this device */
    uint32_t message_bytes;         /* average size of a message */
    uint32_t seq, turn;
    uint32_t unmet_seq, met_seq;    /* last seq before it received its own name, first one after */
    struct uw_membership_config config;
    uint64_t paid_us, own_us;       /* token buckets of the rate, and of its part for pings */
    uint64_t now_us, late_us;       /* late: average delay of steps */
    uint64_t swap_us;               /* no live member is replaced before */
    uint64_t crowded_us;            /* the table last lacked a place for another device; 0: never */
    uint64_t beacon_us;             /* the next beacon, on a shared link */
    uint32_t beacons_n;             /* since the last new device */
    struct uw_crowd {
        uint32_t n;                 /* devices on the shared link, approximate */
        uint64_t since_us;
        uint32_t heard[UW_CROWD_BITS / 32u];    /* hashes of stations with beacons since */
    } crowd;
    uint16_t gathered[UW_GATHER_MAX];
    struct uw_member_also *also;    /* member_addresses.h; NULL: config.addresses is not set */
    bool started;
    struct uw_rng rng;
};

/* Allocate the tables. The texts of the configuration stay borrowed.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_membership_place(struct uw_membership *m, struct uw_arena *arena,
                        const struct uw_membership_config *config);

/* The last member at a station; counts as a sign of life. NULL: none. */
struct uw_member *uw_membership_heard(struct uw_membership *m, uint16_t station, uint64_t now_us);

/* The same for a static list (member_list.c): the members are config.seeds; only pulls detect
 * whether they are alive. Of the other functions use those marked "For both" only. step resolves
 * addresses; next_us and doubt are as below. */
int uw_member_list_place(struct uw_membership *m, struct uw_arena *arena,
                         const struct uw_membership_config *config);
struct uw_member *uw_member_list_heard(struct uw_membership *m, uint16_t station, uint64_t now_us);
void uw_member_list_step(struct uw_membership *m, uint64_t now_us);
uint64_t uw_member_list_next_us(const struct uw_membership *m);
void uw_member_list_doubt(struct uw_membership *m, struct uw_member *member, uint64_t now_us);

/* For both. The last member at a station; NULL: none. */
struct uw_member *uw_membership_at(struct uw_membership *m, uint16_t station);

/* Update a member from its own ping, hello or ack from `station`. Many hellos in a row, which were
 * all answered, are no sign of life: it does not hear this device.
 *   member  set on success; may be NULL
 * Returns UW_OK, UW_ERR_INVALID (it is this device itself), UW_ERR_DENIED (another device with its
 * name, or with that of a member that is alive elsewhere and as new or newer), UW_ERR_FULL. */
int uw_membership_update(struct uw_membership *m, uint16_t station, bool hello,
                         const uwasa_Ping *ping, uint64_t now_us, struct uw_member **member);

/* Handle a rumour about another member, or about this device. */
void uw_membership_rumour(struct uw_membership *m, const uwasa_Peer *peer, uint64_t now_us);

/* Do others hear a member that this device has not heard for twice as long as makes it suspect, or
 * never? */
bool uw_membership_is_deaf(const struct uw_membership *m, const struct uw_member *it,
                           uint64_t now_us);

/* Handle a goodbye: the member is not pinged until it sends a hello again. Ignored from another
 * station, and for an older incarnation. */
void uw_membership_goodbye(struct uw_membership *m, uint16_t station, const uwasa_Peer *peer,
                           uint64_t now_us);

/* Handle an ack: measure the round trip. */
void uw_membership_acked(struct uw_membership *m, struct uw_member *member, uint32_t seq,
                         uint64_t now_us);

/* For both. Call first in a step. Time for which this device itself slept or was stopped does not
 * count as silence of members. A device whose steps are all late is busy, not asleep.
 *   promised_us  latest time of the step
 * Returns how long it slept; 0: it did not. */
uint64_t uw_membership_wake(struct uw_membership *m, uint64_t promised_us, uint64_t now_us);

/* The current or next window of a member. */
struct uw_window {
    uint64_t from_us, to_us;
};
struct uw_window uw_member_window(const struct uw_member *it, uint64_t now_us);

/* The same; all the time if this device does not support others' windows. */
struct uw_window uw_membership_window(const struct uw_membership *m, const struct uw_member *it,
                                      uint64_t now_us);

/* Optional parts: members that sleep, beacons on a shared link, members with several addresses. */
extern const struct uw_member_windows uw_member_windows;
extern const struct uw_beacons uw_beacons;
extern const struct uw_member_addresses uw_member_addresses;

/* This device has slept as planned. */
void uw_membership_slept(struct uw_membership *m, uint64_t slept_us, uint64_t now_us);

/* Send the next beacon within soon_us if it is due within pause_us. */
void uw_membership_beacon_soon(struct uw_membership *m, uint64_t pause_us, uint64_t soon_us,
                               uint64_t now_us);

/* Detect silence, and get the next ping that is due.
 *   station  set to the destination, UW_LINK_STATION_BROADCAST for a beacon
 *   seq      set to the ping's number; 0: no answer is expected
 * Returns the type to send, UW_WIRE_PING or UW_WIRE_HELLO, or 0 when nothing is due. */
int uw_membership_next(struct uw_membership *m, uint64_t now_us, uint16_t *station, uint32_t *seq);

/* The next time at which uw_membership_next has work; UINT64_MAX: never. */
uint64_t uw_membership_next_us(const struct uw_membership *m);

/* Choose members for a message: rumours that were sent least often, then `others` in turn, so that
 * in the end all members know all. Returns their number; gathered gets the record of each. */
uint32_t uw_membership_gather(struct uw_membership *m, uint32_t others);
void uw_membership_gathered(const struct uw_membership *m, uint32_t i, uwasa_Peer *peer);

/* A message was sent, with the first `told` records of the last uw_membership_gather. */
void uw_membership_sent(struct uw_membership *m, uint32_t bytes, uint32_t told);

/* Interval of this device's pings to a member as limited by the rate; 0: as configured. */
uint64_t uw_membership_pace_us(const struct uw_membership *m);

/* An expected message of a member is missing: ping it soon. */
void uw_membership_doubt(struct uw_membership *m, struct uw_member *member, uint64_t now_us);

/* Ping all members soon, or send a beacon: this device has news. */
void uw_membership_hurry(struct uw_membership *m, uint64_t now_us);
/* The link's rate, and config with it, has changed: reschedule deferred pings. */
void uw_membership_follow(struct uw_membership *m, uint64_t now_us);

/* For both. The record of a member, with its source address if it reports none. */
void uw_membership_record(const struct uw_membership *m, const struct uw_member *member,
                          uwasa_Peer *peer);
/* The record of this device, and its pace. */
void uw_membership_self(const struct uw_membership *m, uwasa_Peer *peer);

/* Live: alive or suspect. Gone: dead or left. */
static inline bool uw_member_is_live(const struct uw_member *it)
{
    return it->state == UW_MEMBER_ALIVE || it->state == UW_MEMBER_SUSPECT;
}

static inline bool uw_member_is_gone(const struct uw_member *it)
{
    return it->state == UW_MEMBER_DEAD || it->state == UW_MEMBER_LEFT;
}

/* For both. Number of alive members, without this device. */
static inline uint32_t uw_membership_alive(const struct uw_membership *m)
{
    return m->states_n[UW_MEMBER_ALIVE];
}

/* Identity of a name: FNV-1a 32. Copy a text, truncated to fit. */
uint32_t uw_name_id(const char *name);
void uw_copy_text(char *to, const char *from, size_t cap_bytes);

#endif
