/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_frames.h - the secure channel of narrow links: AES-128-CCM-8 with the run's key
 *
 * A DTLS record costs 29 bytes, and its handshake does not fit frames of 51. A secure frame costs
 * 11 bytes, needs no handshake in flights, and can be a broadcast. The link wraps a numbered lower
 * link and has secure and frames set: its messages come from a device that holds the run's key, to
 * this station or to all, confidential, unmodified and not replayed.
 *
 *     frame   type << 4 | to all << 3 | epoch & 7          1 byte
 *             counter of the sender, its low 24 bits       3
 *             message without its first byte, encrypted    n - 1
 *             tag                                          8
 *     join    0 << 4 | to all << 3 | epoch & 7             1      type 0
 *             1 hello, 2 welcome, 3 join                   1
 *             epoch                                        4
 *             sender's identity                            8
 *             counter                                      5
 *             encrypted: identity 8 and counter 5 that are answered, 1: the sender knows the other
 *             tag                                          8
 *
 * All numbers are little-endian. The nonce is the sender's identity and its whole counter, 13
 * bytes. The authenticated data are both stations (receiver 0xfffe in a broadcast) and the header.
 * The type is that of net/wire/wire.h and the first byte of the message.
 *
 * Nonces   The identity is random at every start, or stored with its counter. A range of counters
 *          is stored as used before the first of them is, twice, so that both slots of a store in
 *          flash contain it. No nonce repeats, even after a power failure during a write or the
 *          loss of either slot. If the store cannot be written, send returns UW_ERR_IO and the
 *          write is retried once a second. The counter continues over epochs up to 2^40, 348 years
 *          at 100 frames a second; then send returns UW_ERR_CLOSED and an event reports it. A
 *          random identity is drawn again at the next start. After epoch 2^32 - 1 the key stays and
 *          the counter goes on.
 * Copies   A store belongs to one device. A copy on another device, or a restored backup, repeats
 *          nonces: an attacker who records both frames of one nonce learns which bits of the
 *          messages differ, without the key. Replays are still rejected. A device detects a copy by
 *          the first joins that it receives from the other one: it draws a random identity again;
 *          for a given identity, an event repeats. Other devices report an identity that sends from
 *          two addresses. Restoring one of the two records is harmless. Undetected are a restored
 *          store until somebody replays later frames, and a copy out of range of the original.
 * Wear     Each of two slots is erased once per 3/4 reserve_n frames, at every start and in every
 *          new epoch: 180 times a day at 100 frames a second with the default; 53 times at 30, an
 *          eighth of 802.15.4. Flash for 10000 erasures then lasts six months, for 100000 five
 *          years. A greater reserve_n costs only that many of 2^40 counters per start.
 * Replays  Each sender has a window of 64 counters. An unknown sender is verified in three frames:
 *          hello, welcome (repeats the hello's counter), join. Then each side knows that the other
 *          is present, and its counter. Any frame that cannot be decrypted triggers a hello to its
 *          sender. Hellos are limited to 8 a second and a fortieth of the link's rate, with a burst
 *          of 16, of which 8 are reserved for stations with messages to send; welcomes have a limit
 *          of the same size. A station that does not answer a welcome with a join gets the next one
 *          after 0.22 s, doubling up to 56 s, and receives a hello instead, because its hello may
 *          be a replay: replayed hellos of one station, from any of its starts, do not affect other
 *          stations. A welcome that the lower link does not accept waits. This state is kept for
 *          the eight stations with the most unanswered welcomes. A hello sent before the last one
 *          of its sender is not answered.
 * Twins    A broadcast from this station's own address is an echo, or comes from another device
 *          with the same address. The hello of such a device is reported (UW_SECURE_WARNING), once
 *          in 10 s, and answered by a hello to all, so that both devices report it. A foreign
 *          message from the own address triggers such a hello.
 * Epochs   The key of an epoch is HKDF-SHA256(run's key, salt: the run's name, info: "uwasa frames
 *          1" and the epoch). A device begins the next epoch after epoch_frames frames of its own,
 *          or by uw_secure_frames_rotate; a device that decrypts a frame of a later epoch follows.
 *          Frames of the previous epoch are accepted, older ones are not. Counters continue; the
 *          store contains where the epoch began. Keys of other epochs, which anybody can trigger,
 *          are derived 16 a second at most with a burst of 16, and replace none that is in use.
 *
 * Units      bytes
 * Memory     caller supplies uw_secure_frames_bytes(); Mbed TLS allocates three key schedules from
 *            its own allocator. The lower link, the store and the name are borrowed until deinit
 * Blocking   for one write of the store in 3/4 reserve_n frames; else never
 * Context    the lower link's thread
 * Source     RFC 3610 (CCM), RFC 6655 (its 8-byte tag), RFC 5869 (HKDF), RFC 4303 3.4.3 (window)
 */
#ifndef UWASA_SECURE_FRAMES_H
#define UWASA_SECURE_FRAMES_H

#include "uwasa/cplusplus.h"
#include "uwasa/link.h"
#include "uwasa/secure.h"
#include "uwasa/storage.h"

UW_C_BEGIN

#define UW_SECURE_FRAMES_OVERHEAD 11u       /* bytes added to a message */
#define UW_SECURE_FRAMES_LOWER_MIN 51u      /* of the lower link's messages */
#define UW_SECURE_FRAMES_LOWER_MAX 1280u
#define UW_SECURE_FRAMES_RECORD_BYTES 36u   /* of the object in the store */

struct uw_secure_frames_config {
    struct uw_link *lower;          /* numbered, mtu_bytes of 51 or more. It may shrink later, but
                                       not grow: larger messages are rejected */
    uint8_t key[UW_KEY_BYTES];
    const char *run;                /* name of the run */
    uint64_t id;                    /* identity of this device, unique for ever under this key. 0:
                                       random, with a store drawn at the first start or when the
                                       record is lost, else at each start */
    bool first_start;               /* with an id: the store has no record yet; otherwise init fails
                                       without a record */
    struct uw_storage *store;       /* of the counter; NULL: only with id 0 */
    const char *object;             /* name of the record; NULL: "counter" */
    uint32_t reserve_n;             /* counters reserved by a write of the store; 0: 65536 */
    uint32_t epoch_frames;          /* frames that this device sends in an epoch; 0: 2^22 */
    uint16_t peers_n;               /* known peers, the one silent longest is replaced; 0: 16 */
    void *memory;                   /* aligned as from malloc or an arena */
    size_t memory_bytes;
    /* entropy, event and user are as in struct uw_secure_dtls_config. */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    /* UW_SECURE_WARNING reports duplicate addresses or identities, exhausted counters and replayed
     * hellos, each every 10 s at most, and once frames longer than this device accepts. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
};

/* Modulo 2^32. */
struct uw_secure_frames_stats {
    uint32_t joined_n;              /* verified peers */
    uint32_t replayed_n;            /* frames rejected: replayed or too old */
    uint32_t refused_n;             /* frames rejected: damaged, of another key, forged */
    uint32_t unknown_n;             /* frames of unknown senders */
    uint32_t joins_sent_n;          /* hellos, welcomes and joins */
    uint32_t saved_n;               /* writes of the store */
};

/* A known sender. Private. */
struct uw_frames_peer {
    uint64_t id, top, window;       /* window bit i: top - i was received */
    uint32_t heard_ms;              /* time of the last frame, approximate */
    uint16_t station;
    bool used;
};

/* A station that gets answers to its hellos. Private. */
struct uw_frames_answer {
    uint64_t id, counter;           /* of its last join frame */
    uint64_t until_us;              /* owed: the answer expires; else no welcome before. 0: none */
    uint16_t station;
    uint8_t owed;                   /* kind of the answer that waits; 0: none */
    uint8_t in_vain;                /* welcomes without a join */
};

/* A station that was sent a hello. Private. */
struct uw_frames_asked {
    uint64_t until_us;              /* no further hello before; 0: unused */
    uint16_t station;
    uint8_t tries;
};

struct uw_frames_key;

struct uw_secure_frames {
    struct uw_link link;
    struct uw_link *lower;
    struct uw_frames_peer *peers;
    struct uw_frames_key *keys[3];  /* current and previous epoch by parity, and any other one */
    uint32_t key_epochs[3];
    bool key_set[3];
    uint8_t asked_at;               /* the oldest of asked */
    uint64_t derived_us;            /* token bucket of derivations for keys[2] */
    uint8_t *in, *out;              /* [frame_bytes] */
    uint32_t frame_bytes;
    uint32_t out_bytes;             /* of a frame that waits for the lower link; 0: none */
    uint64_t out_since_us;
    uint16_t out_to;
    uint16_t peers_n, known_n;
    uint64_t id, counter, saved_counter;
    uint64_t fresh[2];              /* counters at the last two ticks; answers to older ones are
                                       ignored */
    uint64_t tick_us, now_us;
    uint64_t hellos_us, welcomes_us;    /* token buckets */
    uint64_t withheld_us;           /* hellos are limited since then; 0: they are not */
    uint32_t epoch, saved_epoch;
    uint64_t epoch_began;           /* counter at the start of the epoch */
    struct uw_frames_asked asked[4];
    struct uw_frames_answer answered[8];
    /* Earliest times of the next reports. */
    uint64_t refused_tell_us, identity_tell_us, twin_tell_us, in_vain_tell_us, withheld_tell_us;
    uint64_t save_again_us;
    uint8_t key[UW_KEY_BYTES];
    const char *run, *object;
    struct uw_storage *store;
    uint32_t reserve_n, epoch_frames;
    bool fixed;                     /* the identity was given */
    bool longer_told;
    /* As in the configuration. */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    /* As in the configuration. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
    struct uw_secure_frames_stats stats;
};

/* Bytes of memory for a configuration; SIZE_MAX when it is not allowed. */
size_t uw_secure_frames_bytes(const struct uw_secure_frames_config *config);

/* Set up the channel. The key is copied.
 *
 * Returns UW_OK, UW_ERR_INVALID (the lower link is not numbered or its messages are too small; no
 * name; an id without a store), UW_ERR_NOMEM (memory, or Mbed TLS's own), UW_ERR_IO (no entropy, or
 * the store failed), UW_ERR_CORRUPT (the record of the id is damaged or missing without
 * first_start: its counters may have been used), UW_ERR_CLOSED (the counters are exhausted). */
int uw_secure_frames_init(struct uw_secure_frames *s, const struct uw_secure_frames_config *config);

/* Is the device at this station known? Its frames can then be decrypted. */
bool uw_secure_frames_knows(const struct uw_secure_frames *s, uint16_t station);

/* Begin the next epoch: later frames use a new key, and peers follow.
 * Returns UW_OK, UW_ERR_CLOSED (no epoch is left), UW_ERR_NOMEM. */
int uw_secure_frames_rotate(struct uw_secure_frames *s);

UW_C_END
#endif
