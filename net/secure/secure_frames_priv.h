/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_frames_priv.h - functions that the files of secure frames share. Each calls those below it
 *
 *     secure_frames.c           the link: frames of messages
 *     secure_frames_join.c      known peers: hello, welcome, join, windows; sent frames
 *     secure_frames_keys.c      epochs, counters and their store
 */
#ifndef UW_NET_SECURE_FRAMES_PRIV_H
#define UW_NET_SECURE_FRAMES_PRIV_H

#include "secure_ccm.h"
#include "wire/wire.h"

#include "uwasa/secure_frames.h"

#define UW_FRAMES_HEAD_BYTES 4u
#define UW_FRAMES_TO_ALL 8u             /* in the first byte */
#define UW_FRAMES_EPOCH_MASK 7u
#define UW_FRAMES_JOINS_BURST 16u       /* burst of hellos, and of welcomes */
#define UW_FRAMES_KNOWS_YOU 1u          /* a flag in joins */
#define UW_FRAMES_COUNTER_END ((uint64_t)1 << 40)
#define UW_FRAMES_OTHER_KEY 2u          /* index in keys of any other epoch */

/* ---- secure_frames_keys.c ---- */

/* The key of an epoch; NULL: no memory, or too many derivations lately. */
struct uw_frames_key *uw_frames_key_of(struct uw_secure_frames *s, uint32_t epoch);

/* Follow a verified peer to a later epoch. */
void uw_frames_follow(struct uw_secure_frames *s, uint32_t epoch);

/* The epoch of a frame by its low bits: current, previous or next. False: none of them. */
bool uw_frames_epoch_of(const struct uw_secure_frames *s, uint8_t first, uint32_t *epoch);

/* A counter that was never used. Returns UW_OK, UW_ERR_IO (the store cannot be written),
 * UW_ERR_CLOSED (there is none left). */
int uw_frames_count(struct uw_secure_frames *s, uint64_t *counter);

/* Read the identity and the counter from the store. Returns as uw_secure_frames_init. */
int uw_frames_load(struct uw_secure_frames *s, const struct uw_secure_frames_config *config);

/* Draw another identity and keep the counter. False: not allowed, or no entropy. */
bool uw_frames_draw_another(struct uw_secure_frames *s);

/* Save the next range of counters early. */
void uw_frames_save_ahead(struct uw_secure_frames *s);

/* Fill the nonce and the authenticated data: the addresses, then n bytes. */
void uw_frames_begin(struct uw_ccm_frame *f, uint64_t id, uint64_t counter, uint16_t from,
                     uint16_t to, const uint8_t *bytes, uint32_t n);

/* ---- secure_frames_join.c ---- */

enum uw_frames_join { UW_FRAMES_HELLO = 1, UW_FRAMES_WELCOME, UW_FRAMES_JOIN };

/* The frame that a welcome or a join answers. */
struct uw_frames_echo {
    uint64_t id, counter;
    uint8_t flags;
};

struct uw_frames_peer *uw_frames_peer_at(const struct uw_secure_frames *s, uint16_t station);

/* Is this counter of the peer below the window? */
bool uw_frames_is_old(const struct uw_frames_peer *p, uint64_t counter);

/* Was it received before, or is it below the window? */
bool uw_frames_seen(const struct uw_frames_peer *p, uint64_t counter);
void uw_frames_mark_seen(struct uw_frames_peer *p, uint64_t counter, uint64_t now_us);

/* Get a counter that was never used, and the key of this epoch. Warns when none is left.
 * Returns UW_OK, UW_ERR_IO (the store cannot be written), UW_ERR_CLOSED, UW_ERR_NOMEM. */
int uw_frames_next(struct uw_secure_frames *s, uint64_t *counter, struct uw_frames_key **key);

/* Send the frame in s->out, or keep it until the lower link takes it. */
int uw_frames_put(struct uw_secure_frames *s, uint16_t to, uint32_t bytes);

/* Send the frame that waits in s->out, if any. Returns whether s->out may be written. */
bool uw_frames_out_is_free(struct uw_secure_frames *s);

/* Send a hello to a station, or to all, at a limited rate, of which a part is reserved for stations
 * with messages to send (to_send). */
void uw_frames_send_hello(struct uw_secure_frames *s, uint16_t station, bool to_send);

/* Handle a frame of type 0 in s->in. */
void uw_frames_on_join(struct uw_secure_frames *s, uint16_t from, uint32_t bytes);

void uw_frames_drop(struct uw_secure_frames *s, struct uw_frames_peer *p);

/* Report once that a received frame exceeds the mtu. */
void uw_frames_report_longer(struct uw_secure_frames *s);

/* Do what is due. */
void uw_frames_tick(struct uw_secure_frames *s);

#endif
