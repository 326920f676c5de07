/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/secure_frames.h - the secure channel of narrow links: AES-128-CCM-8 with the run's key
 *
 * A DTLS record costs 29 bytes and its handshake does not fit a frame of 51. Here a message costs
 * 11 bytes, needs no handshake that waits for an answer in flights, and may go to all at once. The
 * link wraps a lower one on which all ends use the same numbers for stations (numbered), and is
 * one itself, with secure and frames set: what it delivers was sent by a device that holds the
 * run's key, unread, unchanged, to this station or to all, and not before.
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
 * bytes; authenticated with them are both stations (the receiver's 0xfffe when it is to all) and
 * the header. The type is that of net/wire/wire.h, which is also the message's first byte.
 *
 * Nonces   An identity is drawn at random at every start, or kept with its counter in a store: a
 *          stretch of counters is written down as used before the first of it is, twice, so that
 *          both slots of a store in flash say it. So none comes twice, also when the power fails
 *          in the middle of a write or flash loses either slot. A store that cannot be written
 *          ends the sending (UW_ERR_IO); it is tried again once a second. Counters go on over
 *          epochs up to 2^40, which takes 348 years at 100 frames a second. Then nothing goes out
 *          any more (UW_ERR_CLOSED, and an event); who draws its identity has another at its next
 *          start. After epoch 2^32 - 1 there is none: its key stays, and no counter comes twice.
 * Copies   A store is one device's. Its image on another one, or put back to what it was before,
 *          makes nonces come twice: who records both frames of one learns, without the key, in
 *          which bits their messages differ. Nothing arrives twice even then. A device notices by
 *          the first joins of the other that it hears: an identity that was drawn is drawn anew, of
 *          one that was given an event tells again and again. Others tell of an identity that
 *          speaks from another address. One of the two records that is put back does no harm. What
 *          nobody can notice: a store that is put back, until somebody repeats what was said since,
 *          and a copy that the first never hears.
 * Wear     Every 3/4 reserve_n frames, at every start and in every new epoch each of two slots is
 *          erased once: at 100 frames a second 180 times a day with the default; at 30, an eighth
 *          of 802.15.4, 53 times: flash for 10000 erasures lasts six months, for 100000 five
 *          years. A greater reserve_n costs nothing but that many counters a start, of 2^40.
 * Replays  A window of 64 counters for each sender. Who is not known is asked first: a hello is
 *          answered by a welcome that repeats its counter, and that one by a join: three frames,
 *          after which each side knows that the other is there now and at which counter. Any frame
 *          that cannot be opened asks its sender. Hellos are 8 a second at most, and a fortieth
 *          of the link's rate, after 16 that were saved up, 8 of which are for stations to which
 *          there is something to send. Welcomes are as many, apart from that. A station that does
 *          not follow a welcome waits for the next one, from 0.22 s, doubling up to 56 s, and is
 *          asked instead, as a hello of it may be an old one: who repeats hellos of one station,
 *          of any number of its starts, takes nothing from others. A welcome that the lower link
 *          does not take waits. All this is remembered of the eight stations that were welcomed
 *          in vain most often. A hello sent before the last one of its sender is not answered.
 * Twins    A frame to all from this station's own address is its own, heard back, or one of another
 *          device with the same address. That one's hello is told (UW_SECURE_WARNING), once in
 *          10 s, and answered by a hello to all, so that both tell. A message from there that is
 *          not this device's own asks for such a hello.
 * Epochs   The key of an epoch is HKDF-SHA256(run's key, salt: the run's name, info: "uwasa frames
 *          1" and the epoch). A device begins the next one after epoch_frames of its own, or when
 *          it is told to; whoever opens a frame of a later epoch goes there too. The epoch before
 *          is understood, older ones are not. Counters go on, and where the epoch began is in the
 *          store. Keys of other epochs, for which anybody can ask, are derived 16 a second at
 *          most after 16 that were saved up, and displace none that is in use.
 *
 * Units      bytes
 * Memory     caller supplies uw_secure_frames_bytes(); Mbed TLS takes three key schedules from its
 *            own allocator. The lower link, the store and the name are borrowed until deinit
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

#define UW_SECURE_FRAMES_OVERHEAD 11u       /* bytes that a message costs */
#define UW_SECURE_FRAMES_LOWER_MIN 51u      /* of the lower link's messages */
#define UW_SECURE_FRAMES_LOWER_MAX 1280u
#define UW_SECURE_FRAMES_RECORD_BYTES 36u   /* of the object in the store */

struct uw_secure_frames_config {
    struct uw_link *lower;          /* numbered; carries 51 bytes or more now, later less or as
                                       many: what is larger is refused */
    uint8_t key[UW_KEY_BYTES];
    const char *run;                /* its name */
    uint64_t id;                    /* this device's identity: nobody else's, under this key, ever.
                                       0: drawn at random, at the first start with a store and
                                       when that lost it, at each without */
    bool first_start;               /* with an id: there was never a record of it; else init fails
                                       when there is none */
    struct uw_storage *store;       /* of the counter; NULL: only with id 0 */
    const char *object;             /* its name in the store; NULL: "counter" */
    uint32_t reserve_n;             /* counters that a write of the store is good for; 0: 65536 */
    uint32_t epoch_frames;          /* that this device sends in an epoch; 0: 2^22 */
    uint16_t peers_n;               /* known at once; 0: 16. Who was heard longest ago makes room */
    void *memory;                   /* aligned as from malloc or an arena */
    size_t memory_bytes;
    /* As in struct uw_secure_dtls_config, as the next two. */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    /* UW_SECURE_WARNING tells of an address or an identity that two have, counters that are used
     * up, old hellos that are repeated, each every 10 s at most, and once of frames that are longer
     * than this device takes. May be NULL. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
};

/* Modulo 2^32. */
struct uw_secure_frames_stats {
    uint32_t joined_n;              /* peers that proved to be there */
    uint32_t replayed_n;            /* frames refused: came before, or are too old */
    uint32_t refused_n;             /* cannot be opened: damaged, of another key, forged */
    uint32_t unknown_n;             /* of senders that are not known yet */
    uint32_t joins_sent_n;          /* hellos, welcomes and joins */
    uint32_t saved_n;               /* writes of the store */
};

/* What is known of a sender. Private. */
struct uw_frames_peer {
    uint64_t id, top, window;       /* window bit i: top - i has come */
    uint32_t heard_ms;              /* about */
    uint16_t station;
    bool used;
};

/* Of a station that has been answered, or will be. Private. */
struct uw_frames_answer {
    uint64_t id, counter;           /* of what it sent last */
    uint64_t until_us;              /* owed: it has no use for the answer afterwards; else it is not
                                       welcomed before. 0: nobody */
    uint16_t station;
    uint8_t owed;                   /* the kind of the answer that waits; 0: none */
    uint8_t in_vain;                /* welcomes that brought no join */
};

/* Of a station that has been asked who it is. Private. */
struct uw_frames_asked {
    uint64_t until_us;              /* it is not asked again before; 0: nobody */
    uint16_t station;
    uint8_t tries;
};

struct uw_frames_key;

struct uw_secure_frames {
    struct uw_link link;
    struct uw_link *lower;
    struct uw_frames_peer *peers;
    struct uw_frames_key *keys[3];  /* this epoch and the one before by parity, and any other */
    uint32_t key_epochs[3];
    bool key_set[3];
    uint8_t asked_at;               /* the oldest of asked */
    uint64_t derived_us;            /* token bucket of derivations of the last one */
    uint8_t *in, *out;              /* [frame_bytes] */
    uint32_t frame_bytes;
    uint32_t out_bytes;             /* of a frame that the lower link has not taken; 0: none */
    uint64_t out_since_us;
    uint16_t out_to;
    uint16_t peers_n, known_n;
    uint64_t id, counter, saved_counter;
    uint64_t fresh[2];              /* counters at the last two ticks: older ones answer nothing */
    uint64_t tick_us, now_us;
    uint64_t hellos_us, welcomes_us;    /* a bucket of each */
    uint64_t withheld_us;           /* no hello may be sent since; 0: they may */
    uint32_t epoch, saved_epoch;
    uint64_t epoch_began;           /* counter */
    struct uw_frames_asked asked[4];
    struct uw_frames_answer answered[8];
    /* Not before. */
    uint64_t refused_tell_us, identity_tell_us, twin_tell_us, in_vain_tell_us, withheld_tell_us;
    uint64_t save_again_us;
    uint8_t key[UW_KEY_BYTES];
    const char *run, *object;
    struct uw_storage *store;
    uint32_t reserve_n, epoch_frames;
    bool fixed;                     /* the identity was given */
    bool longer_told;
    /* From the configuration. */
    int (*entropy)(void *user, uint8_t *out, size_t bytes);
    /* From the configuration. */
    void (*event)(void *user, const struct uw_secure_event *event);
    void *user;
    struct uw_secure_frames_stats stats;
};

/* Bytes of memory for a configuration; SIZE_MAX when it is not allowed. */
size_t uw_secure_frames_bytes(const struct uw_secure_frames_config *config);

/* Set up the channel. The key is copied.
 *
 * Returns UW_OK, UW_ERR_INVALID (the lower link is not numbered or too narrow; no name; an id
 * without a store), UW_ERR_NOMEM (memory, or Mbed TLS's own), UW_ERR_IO (no entropy, or the store
 * failed), UW_ERR_CORRUPT (the record of the id is damaged or not there, and it is not its first
 * start: its counters may have been used), UW_ERR_CLOSED (they are used up). */
int uw_secure_frames_init(struct uw_secure_frames *s, const struct uw_secure_frames_config *config);

/* Is the device at this station known, so that its frames can be opened? */
bool uw_secure_frames_knows(const struct uw_secure_frames *s, uint16_t station);

/* Begin the next epoch: what is sent from now on has a new key, and others follow.
 * Returns UW_OK, UW_ERR_CLOSED (there is none left), UW_ERR_NOMEM. */
int uw_secure_frames_rotate(struct uw_secure_frames *s);

UW_C_END
#endif
