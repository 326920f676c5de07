/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/link_emulated.h - an emulated bad network over any link, repeatable from a seed
 *
 * The link wraps another one and loses, delays, repeats, reorders, damages, slows down and cuts its
 * messages. All randomness comes from the seed and all delays from the time given to step: on a
 * virtual clock a run repeats exactly; on a real clock the same decisions meet real timing.
 * Impairments apply to sent messages, and to received ones if configured. Configure both ends for a
 * symmetric path. A zeroed impairment forwards messages without a copy.
 *
 * Order of effects: cut, drop list, mtu, loss, rate (with its queue), delay and jitter, reordering,
 * duplication, corruption.
 *
 * Links may share a medium, such as a radio channel or a cable with one pair of wires. One message
 * is on the air at a time; stations with queued messages take turns. A lost message uses air time,
 * a message that a cut stops does not.
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

/* A medium that links share. Set the first five fields, zero the rest, then open the links
 * (uwasa/radio_profile.h sets all fields for a radio by name). The medium is borrowed until its
 * last link is closed. All its links run in one thread, on one clock. */
struct uw_emulated_medium {
    uint64_t rate_bits_per_s;   /* 0: unlimited */
    uint32_t overhead_bytes;    /* added to each message: headers, preamble, acknowledgement */
    uint64_t access_us;         /* time to access the medium, for each message */
    /* (optional: NULL means by rate and overhead) Air time of a message without access_us, for
     * radios where it is not linear in the size, such as LoRa. */
    uint64_t (*airtime_us)(const void *arg, uint32_t bytes);
    const void *airtime_arg;    /* borrowed */

    uint64_t free_at_us, rate_rest;
    uint64_t busy_us, messages_n;       /* time in use, access included */
    struct uw_link_emulated *first;     /* a list */
    struct uw_link_emulated *turn;      /* the last sender */
};

/* Time that a message of so many bytes occupies the medium, access included, rounded up. */
uint64_t uw_emulated_airtime_us(const struct uw_emulated_medium *m, uint32_t bytes);

/* Impairments of one direction. */
struct uw_impairment {
    float loss;
    float duplicate;            /* the copy has its own delay */
    float corrupt;              /* flips one to three bits */
    float reorder;              /* delays by reorder_us more, so that later messages overtake */
    uint64_t delay_us;
    uint64_t jitter_us;         /* uniform, added to delay_us; keeps the order */
    uint64_t reorder_us;        /* 0: delay_us, at least 1 ms */
    uint64_t rate_bits_per_s;   /* 0: unlimited */
    uint32_t rate_queue_bytes;  /* queue in front of the rate; drops the tail. 0: 64 KiB */
    uint32_t overhead_bytes;    /* headers of each message on the wire, for the rate */
    uint32_t mtu_bytes;         /* larger messages are lost: an MTU black hole. 0: none */
    const char *drop;           /* messages to drop, counted from 1: "3,7-9,20-"; may be NULL;
                                   read during the call only */
};

struct uw_link_emulated_config {
    struct uw_link *lower;
    void *memory;               /* aligned as from malloc or an arena */
    size_t memory_bytes;
    uint32_t queue_n;           /* messages in the send queue; 0: 64 */
    uint32_t receive_queue_n;   /* messages in the receive queue; 0: 1, enough without delays */
    uint32_t mtu_bytes;         /* 0: the lower link's; larger received messages are lost */
    uint32_t burst_bytes;       /* receive buffer: holds messages until recv has found none; the
                                   excess is lost. 0: unlimited */
    uint32_t burst_n;           /* the same, in messages */
    uint64_t seed;
    struct uw_emulated_medium *medium;  /* replaces the rate of send; NULL: not shared */
    struct uw_impairment send, receive;
    /* (optional: NULL means all) Is the path to this station impaired? Messages to other stations
     * are neither impaired nor cut. Only without receive impairments. */
    bool (*far)(void *arg, uint16_t station);
    void *far_arg;
};

/* Directions for uw_link_emulated_cut. */
#define UW_EMULATED_OUT 1u
#define UW_EMULATED_IN 2u
#define UW_EMULATED_BOTH 3u

struct uw_emulated_stats {
    uint64_t lost_n;            /* by cut, drop list or chance */
    uint64_t overflow_n;        /* the rate's queue or the receive buffer was full */
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
    uint32_t *heap;             /* slot numbers; the first `count` form a heap by due time */
    uint8_t *slots;
    size_t slot_bytes;
    uint32_t count, cap_n;
    uint32_t waiting_n;         /* slot numbers at the end, backwards, that wait for the medium */
    struct uw_emulated_stats *stats;
};

struct uw_link_emulated {
    struct uw_link link;
    struct uw_link *lower;
    struct uw_emulated_stats stats;
    uint64_t now_us;
    struct uw_emulated_path out, in;
    uint32_t burst_bytes, burst_n;
    uint32_t arrived_bytes, arrived_n;      /* in the receive buffer */
    struct uw_emulated_medium *medium;
    struct uw_link_emulated *next;      /* on the medium */
    /* as in the configuration */
    bool (*far)(void *arg, uint16_t station);
    void *far_arg;
    struct uw_emulated_cut {
        uint32_t most_bytes;        /* 0: any */
        uint16_t station;
        uint8_t directions;
    } cuts[UW_EMULATED_CUTS_MAX];
    uint32_t cuts_n;
    uint8_t cut_all;
};

/* Bytes of memory that a configuration needs; SIZE_MAX when it is not allowed. */
size_t uw_link_emulated_bytes(const struct uw_link_emulated_config *config);

/* Wrap config->lower.
 *
 * Returns UW_OK, UW_ERR_INVALID (no lower link, a probability outside 0 .. 1, a malformed drop
 * list, far stations and impairments inwards), UW_ERR_NOMEM. */
int uw_link_emulated_init(struct uw_link_emulated *e, const struct uw_link_emulated_config *config);

/* Change the impairments; NULL keeps those of a direction. Queued messages keep their due time. The
 * drop list counts from the link's first message.
 *
 * Returns as uw_link_emulated_init does; on failure nothing has changed. */
int uw_link_emulated_impair(struct uw_link_emulated *e, const struct uw_impairment *send,
                            const struct uw_impairment *receive);

/* Cut a station in the given directions; 0 removes the cut. UW_LINK_STATION_BROADCAST cuts all
 * stations, independently of the cuts of single ones. Queued messages to a cut station are lost. A
 * broadcast is stopped by a cut of all stations only, or at its receiver.
 *
 * Returns UW_OK, UW_ERR_FULL (UW_EMULATED_CUTS_MAX stations are cut). */
int uw_link_emulated_cut(struct uw_link_emulated *e, uint16_t station, unsigned directions);

/* Lose messages to a station of more than so many bytes, without a word, as a path does that does
 * not report its MTU (a black hole); 0: none.
 *
 * Returns UW_OK, UW_ERR_FULL (UW_EMULATED_CUTS_MAX stations are cut or narrow). */
int uw_link_emulated_narrow(struct uw_link_emulated *e, uint16_t station, uint32_t most_bytes);

UW_C_END
#endif
