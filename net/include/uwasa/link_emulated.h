/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_emulated.h - a bad network in front of any link, repeatable from a seed
 *
 * Wraps another link and loses, delays, repeats, reorders, damages, slows and cuts what passes.
 * Everything random comes from the seed and every delay from the time given to step, so on a
 * virtual clock a run repeats exactly; on a real one the same decisions meet real timing.
 * Impairments apply on the way out, and on the way in if asked for; give them to both ends for a
 * symmetric path. An impairment of all zeros passes messages straight through, without a copy.
 *
 * Order of effects: cut, drop list, loss, rate (with its queue), delay and jitter, reordering,
 * duplication, corruption.
 *
 * Links may share a medium, such as a radio channel or a cable with one pair of wires: one message
 * is on the air at a time, whoever sends it, and stations that have something to send take turns.
 * A message waits in its link's queue until then; one that is lost takes its time on the air all
 * the same, one that a cut stops does not.
 *
 * Units      probabilities 0 .. 1; times in microseconds; sizes in bytes
 * Memory     caller supplies uw_link_emulated_bytes(); the lower link and the memory are borrowed
 * Blocking   never          Context  the lower link's thread
 */
#ifndef UWASA_LINK_EMULATED_H
#define UWASA_LINK_EMULATED_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/rng.h"

UW_C_BEGIN

#define UW_EMULATED_DROPS_MAX 16u
#define UW_EMULATED_CUTS_MAX 64u

struct uw_link_emulated;

/* A medium that links share: set the first five, the rest to zero, then open the links
 * (uwasa/radio_profile.h sets all for a radio by name). It is borrowed until the last of them is
 * closed; all of them run in one thread, on one clock. */
struct uw_emulated_medium {
    uint64_t rate_bits_per_s;   /* 0: unlimited */
    uint32_t overhead_bytes;    /* headers, preamble, acknowledgement: what each message adds */
    uint64_t access_us;         /* to get hold of the medium, for each message */
    /* (optional: NULL means by rate and overhead) How long a message of so many bytes is on the
     * air, without access_us: where that is no straight line, as for LoRa. */
    uint64_t (*airtime_us)(const void *arg, uint32_t bytes);
    const void *airtime_arg;    /* borrowed */

    uint64_t free_at_us, rate_rest;
    uint64_t busy_us, messages_n;       /* time taken, access included */
    struct uw_link_emulated *first;     /* a list */
    struct uw_link_emulated *turn;      /* who sent last */
};

/* How long a message of so many bytes takes of a medium, access included, rounded up. */
uint64_t uw_emulated_airtime_us(const struct uw_emulated_medium *m, uint32_t bytes);

/* What one direction suffers. */
struct uw_impairment {
    float loss;
    float duplicate;            /* the copy has its own delay */
    float corrupt;              /* one to three bits are flipped */
    float reorder;              /* held back by reorder_us more, so that later ones overtake */
    uint64_t delay_us;
    uint64_t jitter_us;         /* uniform on top of delay_us; keeps the order */
    uint64_t reorder_us;        /* 0: delay_us, at least 1 ms */
    uint64_t rate_bits_per_s;   /* 0: unlimited */
    uint32_t rate_queue_bytes;  /* what may wait for the rate before the tail is lost; 0: 64 KiB */
    uint32_t overhead_bytes;    /* headers that each message costs on the wire, for the rate */
    const char *drop;           /* exact losses, messages counted from 1: "3,7-9,20-"; may be NULL;
                                   read during the call only */
};

struct uw_link_emulated_config {
    struct uw_link *lower;
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint32_t queue_n;           /* messages that may be on their way out; 0: 64 */
    uint32_t receive_queue_n;   /* the same inwards; 0: 1, enough without delays */
    uint32_t mtu_bytes;         /* 0: the lower link's; larger arrivals are lost */
    uint32_t burst_bytes;       /* receive memory: of messages that arrive at once what is above is
                                   lost, at once is until recv has found none. 0: unlimited */
    uint32_t burst_n;           /* the same, in messages */
    uint64_t seed;
    struct uw_emulated_medium *medium;  /* NULL: one of its own. In place of send's rate */
    struct uw_impairment send, receive;
    /* (optional: NULL means all) Is the way to this station a bad one? To the others nothing is
     * impaired nor cut. Only without impairments inwards. */
    bool (*far)(void *arg, uint16_t station);
    void *far_arg;
};

/* Directions for uw_link_emulated_cut. */
#define UW_EMULATED_OUT 1u
#define UW_EMULATED_IN 2u
#define UW_EMULATED_BOTH 3u

struct uw_emulated_stats {
    uint64_t lost_n;            /* by cut, list or chance */
    uint64_t overflow_n;        /* the rate's queue, or the receive memory, was full */
    uint64_t duplicated_n, corrupted_n, reordered_n;
};

/* One direction; private. */
struct uw_emulated_path {
    struct uw_impairment how;
    struct { uint64_t first, last; } drops[UW_EMULATED_DROPS_MAX];
    uint32_t drops_n;
    struct uw_rng rng;
    uint64_t seen_n, order_n;   /* messages counted from 1; copies queued */
    uint64_t free_at_us, last_due_us, rate_rest;
    uint32_t *heap;             /* slot numbers: the first count are a heap by due time */
    uint8_t *slots;
    size_t slot_bytes;
    uint32_t count, cap_n;
    uint32_t waiting_n;         /* the last of the slot numbers, backwards: wait for the medium */
    struct uw_emulated_stats *stats;
};

struct uw_link_emulated {
    struct uw_link link;
    struct uw_link *lower;
    struct uw_emulated_stats stats;
    uint64_t now_us;
    struct uw_emulated_path out, in;
    uint32_t burst_bytes, burst_n;
    uint32_t arrived_bytes, arrived_n;      /* since there was nothing to receive */
    struct uw_emulated_medium *medium;
    struct uw_link_emulated *next;      /* on the medium */
    /* as in the configuration */
    bool (*far)(void *arg, uint16_t station);
    void *far_arg;
    struct { uint16_t station; uint8_t directions; } cuts[UW_EMULATED_CUTS_MAX];
    uint32_t cuts_n;
    uint8_t cut_all;
};

/* Bytes of memory that a configuration needs; SIZE_MAX when it is not allowed. */
size_t uw_link_emulated_bytes(const struct uw_link_emulated_config *config);

/* Put the emulation in front of config->lower.
 *
 * Returns UW_OK, UW_ERR_INVALID (no lower link, a probability outside 0 .. 1, a malformed drop
 * list, far stations and impairments inwards), UW_ERR_NOMEM. */
int uw_link_emulated_init(struct uw_link_emulated *e, const struct uw_link_emulated_config *config);

/* Change what passes from now on; NULL keeps a direction as it is. Messages already on their way
 * keep their due time. The drop list counts on from the first message ever seen.
 *
 * Returns as uw_link_emulated_init does; on failure nothing changed. */
int uw_link_emulated_impair(struct uw_link_emulated *e, const struct uw_impairment *send,
                            const struct uw_impairment *receive);

/* Cut a station off, in the directions given; 0 heals. UW_LINK_STATION_BROADCAST means everybody,
 * apart from what was cut station by station. Messages on their way when the cut falls are lost;
 * a broadcast is stopped only by a cut of everybody, or at its receiver's side.
 *
 * Returns UW_OK, UW_ERR_FULL (UW_EMULATED_CUTS_MAX stations are cut). */
int uw_link_emulated_cut(struct uw_link_emulated *e, uint16_t station, unsigned directions);

UW_C_END
#endif
