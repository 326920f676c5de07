/* SPDX-License-Identifier: Apache-2.0
 *
 * membership.h - who is in the run, who is silent, whom to call next
 *
 * Every device pings every member it knows and judges by what it hears itself: any authenticated
 * message is a sign of life. Nobody is declared dead by hearsay, so there is no accusation to
 * refute and a restart of the whole site heals by itself. Hearsay brings names and addresses, and
 * that somebody else hears nothing of a member is a reason to ask it at once.
 *
 *     alive --silence--> suspect --silence--> dead --any message--> alive (rejoined)
 *
 * Where one message reaches all (struct uw_link, shared), nobody is pinged while all is well: every
 * device tells of itself in a beacon, a ping to all that nobody answers, and is asked when several
 * of them did not come. So N devices cost N messages a pace, and who is new is heard at once. Each
 * counts whose beacons it hears, in its table or not, so that all together cost config.rate.
 *
 * What this costs does not grow with the table: a device spends config.rate on calls and answers.
 * In a small table everybody is pinged every ping_us. In a larger one, or on a thin link, the pings
 * are further apart (the pace, which every device tells the others: nobody is pinged faster than
 * its own pace), and an exchange counts for both of its sides. Then silence begins when a question
 * is not answered. Whoever is asked first finds out within about a ping, whatever the table's size,
 * and tells; those told ask for themselves. After Das, Gupta, Motivala: SWIM (2002), whose pings to
 * one member a period and records told log N times these are.
 *
 * Who sleeps (uwasa/node_sleep.h) is called within its windows, and only they count as silence.
 *
 * Dead members, unknown ones and lost seeds are called again for ever, at growing intervals up to
 * 5 s. Incarnations tell a restart from the same name used twice: the newer one wins, the older
 * one is refused while the newer is alive. A device that meets its own name with a higher
 * incarnation, after a restart with a stopped clock, goes above it.
 *
 * A run may have more members than the table. In a full one those who are gone make room, at once
 * for who says hello, later for who is heard of. When none is gone, a stranger takes the place of a
 * member drawn at random, once in suspect_us at most: so tables become and stay a random choice of
 * the run, and who came when they were full is not left out for ever. Who has no place is answered.
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

#define UW_TOLD_MAX 40u             /* times that news is told at most */
#define UW_GATHER_MAX UW_MESSAGE_PEERS_MOST
#define UW_CROWD_BITS 256u

struct uw_member {      /* small things first: boards reach them with short instructions */
    uint32_t id;                    /* FNV-1a 32 of the name */
    uint16_t station;
    uint8_t state;                  /* enum uw_member_state */
    uint8_t patience;               /* quarters of the configured silence; grows with false
                                       alarms, so that a lossy link is not cried wolf at */
    bool same_model;
    bool doubted;                   /* to be asked, however lately it was heard */
    uint8_t tries;                  /* calls without an answer; many: modulo 8 of them */
    uint8_t unanswered;             /* so many of those in a row, about */
    uint8_t told_n;                 /* how often its last news went out; UW_TOLD_MAX: it is none */
    uint16_t place;                 /* its own, by which others keep what they know of it */
    uint16_t in_heap;               /* places; in chains and lists 0 is the end */
    uint16_t at_station_next, at_name_next, news_next, news_before;
    uint16_t was_station;
    uint32_t srtt_us;
    uint64_t heard_us;              /* last sign of life */
    uint64_t asked_us;              /* first call since; 0: none */
    uint64_t next_us;               /* next call */
    uint64_t due_us;                /* its key in the heap; never later than what is due */
    uint32_t incarnation;
    uint32_t ping_seq;
    uint64_t ping_us;               /* the call whose round trip is taken; 0: none */
    char *address;                  /* [address_bytes of the table] as it says itself, maybe "" */
    uint32_t pace_us;               /* its own, as it said; 0: it has none */
    char name[UW_NODE_NAME_BYTES];
    uwasa_Progress progress;        /* as it said, and of its averages; */
    uwasa_Averaging *averaging;     /* NULL: this device does not average */
    uint64_t window_us;             /* one of its began then, where progress says that it sleeps */
};

struct uw_seed {
    const char *address;
    uint16_t station;               /* UW_LINK_STATION_NONE until resolved */
    uint64_t next_us;
    uint32_t tries;
    bool self;                      /* this device's own address */
    bool told;                      /* that it does not resolve */
    bool asking;                    /* its name is being looked up, maybe once more */
};

struct uw_membership_config {
    struct uw_link *link;           /* to resolve, describe and hold; sending is the node's part */
    /* Of a link that all share; of members that sleep; NULL: none are. */
    const struct uw_beacons *beacons;
    const struct uw_member_windows *windows;
    const char *name, *address;
    uint32_t incarnation;
    uint64_t model;
    const char *const *seeds;
    uint32_t seeds_n, members_max;
    uint64_t ping_us, suspect_us, dead_us;
    uint64_t sleep_us;              /* this device's windows are so far apart; 0: it never sleeps */
    uint64_t rate_mbytes_per_s;     /* thousandths of bytes, of hellos, pings and their answers */
    bool averages;                  /* keep what members tell of theirs */
    uint64_t seed;
    /* A member's state changed; silent_us is how long it had been quiet. */
    void (*changed)(void *arg, enum uw_node_event_kind kind, const struct uw_member *m,
                    uint64_t silent_us);
    /* Its place has another member now; restarted: the same, which was started anew. NULL: nobody
     * keeps anything by place. */
    void (*forget)(void *arg, const struct uw_member *m, bool restarted);
    /* May this live member make room for a stranger? NULL: none may. */
    bool (*spares)(void *arg, const struct uw_member *m);
    void *arg;
};

struct uw_membership {
    struct uw_member *members;      /* [members_max]; [0] is this device */
    uint32_t members_n;
    uint32_t address_bytes;         /* of a text with its NUL: a number's, where those are all */
    struct uw_seed *seeds;
    uint16_t *heap;                 /* [members_max] places, the next due first */
    uint16_t *by_station, *by_name; /* [buckets_n] first of a chain */
    uint32_t buckets_n;
    struct uw_news_list {
        uint16_t first, last;
    } *news;                        /* lists of those told so many times */
    uint32_t states_n[UW_MEMBER_LEFT + 1u];     /* members of each state, this device not */
    uint32_t message_bytes;         /* of a message, about */
    uint32_t seq, turn;
    uint32_t unmet_seq, met_seq;    /* the last before its own name was met, the first after */
    struct uw_membership_config config;
    uint64_t paid_us, own_us;       /* when the rate, its part for calls, will have paid it all */
    uint64_t now_us, late_us;       /* late: what steps come after they should, smoothed */
    uint64_t swap_us;               /* no live member makes room before */
    uint64_t beacon_us;             /* the next one, on a shared link */
    uint32_t beacons_n;             /* since somebody was new */
    struct uw_crowd {
        uint32_t n;                 /* devices that share the link, in the table or not, about */
        uint64_t since_us;
        uint32_t heard[UW_CROWD_BITS / 32u];    /* stations whose beacons came since, hashed */
    } crowd;
    uint16_t gathered[UW_GATHER_MAX];
    bool started;
    struct uw_rng rng;
};

/* Take the tables. The texts of the configuration stay borrowed.
 * Returns UW_OK or what uw_arena_take returns. */
int uw_membership_place(struct uw_membership *m, struct uw_arena *arena,
                        const struct uw_membership_config *config);

/* The member last heard at a station, counts as a sign of life; NULL: nobody yet. */
struct uw_member *uw_membership_heard(struct uw_membership *m, uint16_t station, uint64_t now_us);

/* The same for members of a list (member_list.c): config.seeds and no others, of which only pulls
 * find out whether they are there. Of the other functions such a table has those marked "For both".
 * step looks addresses up; next_us and doubt are as below. */
int uw_member_list_place(struct uw_membership *m, struct uw_arena *arena,
                         const struct uw_membership_config *config);
struct uw_member *uw_member_list_heard(struct uw_membership *m, uint16_t station, uint64_t now_us);
void uw_member_list_step(struct uw_membership *m, uint64_t now_us);
uint64_t uw_member_list_next_us(const struct uw_membership *m);
void uw_member_list_doubt(struct uw_membership *m, struct uw_member *member, uint64_t now_us);

/* For both. The member last heard at a station; NULL: nobody. */
struct uw_member *uw_membership_at(struct uw_membership *m, uint16_t station);

/* What a member said of itself in a ping, hello or ack from `station`.
 *   member  set to it on success; may be NULL
 * Returns UW_OK, UW_ERR_INVALID (it is this device itself), UW_ERR_DENIED (another device with its
 * name, or with that of a member that is alive elsewhere and as new or newer), UW_ERR_FULL. */
int uw_membership_update(struct uw_membership *m, uint16_t station, const uwasa_Ping *ping,
                         uint64_t now_us, struct uw_member **member);

/* Hearsay about a third member, or about this device. */
void uw_membership_rumour(struct uw_membership *m, const uwasa_Peer *peer, uint64_t now_us);

/* A member said that it leaves: it is called no more until it introduces itself again. Heeded only
 * from its own station, and not about an older incarnation. */
void uw_membership_goodbye(struct uw_membership *m, uint16_t station, const uwasa_Peer *peer,
                           uint64_t now_us);

/* An ack came back: take the round trip. */
void uw_membership_acked(struct uw_membership *m, struct uw_member *member, uint32_t seq,
                         uint64_t now_us);

/* For both. Before anything else in a step. When this device itself slept or was stopped, the
 * silence of the others was its own and is forgiven. Where every step comes late, it is busy, not
 * asleep.
 *   promised_us  when the step was to come at the latest
 * Returns for how long it slept; 0: it did not. */
uint64_t uw_membership_wake(struct uw_membership *m, uint64_t promised_us, uint64_t now_us);

/* When a member listens: now, if from_us is not later, or the next time. */
struct uw_window {
    uint64_t from_us, to_us;
};
struct uw_window uw_member_window(const struct uw_member *it, uint64_t now_us);

/* The same, always where this device does not heed others' windows. */
struct uw_window uw_membership_window(const struct uw_membership *m, const struct uw_member *it,
                                      uint64_t now_us);

/* Members that sleep, and beacons on a link that all share: what a program may leave out. */
extern const struct uw_member_windows uw_member_windows;
extern const struct uw_beacons uw_beacons;

/* This device has slept for so long, as it meant to. */
void uw_membership_slept(struct uw_membership *m, uint64_t slept_us, uint64_t now_us);

/* A beacon that would come within pause_us comes within soon_us. */
void uw_membership_beacon_soon(struct uw_membership *m, uint64_t pause_us, uint64_t soon_us,
                               uint64_t now_us);

/* Notice silence; give the next call that is due.
 *   station  set to where to send, UW_LINK_STATION_BROADCAST for a beacon
 *   seq      set to the ping's number; 0: nobody answers
 * Returns the type to send, UW_WIRE_PING or UW_WIRE_HELLO, or 0 when nothing is due. */
int uw_membership_next(struct uw_membership *m, uint64_t now_us, uint16_t *station, uint32_t *seq);

/* Until when uw_membership_next has nothing to do or to notice; UINT64_MAX: for ever. */
uint64_t uw_membership_next_us(const struct uw_membership *m);

/* Choose members for a message: news that was told least often, then `others` in turn, so that in
 * the end everybody has heard of everybody. Returns their number, and then the record of each. */
uint32_t uw_membership_gather(struct uw_membership *m, uint32_t others);
void uw_membership_gathered(const struct uw_membership *m, uint32_t i, uwasa_Peer *peer);

/* A message was sent, with the first `told` of those that uw_membership_gather gave last. */
void uw_membership_sent(struct uw_membership *m, uint32_t bytes, uint32_t told);

/* How far apart this device's pings to a member are for its rate's sake; 0: as configured. */
uint64_t uw_membership_pace_us(const struct uw_membership *m);

/* A member should have said something: ask it soon whether it lives, unless that is done. */
void uw_membership_doubt(struct uw_membership *m, struct uw_member *member, uint64_t now_us);

/* Ping everybody soon, or send a beacon: this device has news. */
void uw_membership_hurry(struct uw_membership *m, uint64_t now_us);
/* The link's rate is another one, and what of config follows it: what was put off comes sooner. */
void uw_membership_follow(struct uw_membership *m, uint64_t now_us);

/* For both. A member as a record, with the address it is seen at when it gives none. */
void uw_membership_record(const struct uw_membership *m, const struct uw_member *member,
                          uwasa_Peer *peer);
/* This device, and how far apart its pings are. */
void uw_membership_self(const struct uw_membership *m, uwasa_Peer *peer);

/* Alive, or silent for a short time; dead, or it left. */
static inline bool uw_member_is_live(const struct uw_member *it)
{
    return it->state == UW_MEMBER_ALIVE || it->state == UW_MEMBER_SUSPECT;
}

static inline bool uw_member_is_gone(const struct uw_member *it)
{
    return it->state == UW_MEMBER_DEAD || it->state == UW_MEMBER_LEFT;
}

/* For both. Members that are alive, this device not counted. */
static inline uint32_t uw_membership_alive(const struct uw_membership *m)
{
    return m->states_n[UW_MEMBER_ALIVE];
}

/* A name's identity in schedules: FNV-1a 32. Copy what fits of a text, and end it. */
uint32_t uw_name_id(const char *name);
void uw_copy_text(char *to, const char *from, size_t cap_bytes);

#endif
