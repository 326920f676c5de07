/* SPDX-License-Identifier: Apache-2.0
 *
 * secure_frames_priv.h - what the files of secure frames share. Each calls those below it
 *
 *     secure_frames.c           the link: frames of messages
 *     secure_frames_join.c      known peers: hello, welcome, join, windows; frames that go out
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
#define UW_FRAMES_JOINS_BURST 16u       /* hellos that can be saved up, and as many welcomes */
#define UW_FRAMES_KNOWS_YOU 1u          /* a flag in joins */
#define UW_FRAMES_COUNTER_END ((uint64_t)1 << 40)
#define UW_FRAMES_OTHER_KEY 2u          /* in keys: of neither this epoch nor the one before */

/* ---- secure_frames_keys.c ---- */

/* The key of an epoch; NULL: no memory, or too many of other epochs were asked for lately. */
struct uw_frames_key *uw_frames_key_of(struct uw_secure_frames *s, uint32_t epoch);

/* Somebody proved to be in this epoch: go there, if it is later. */
void uw_frames_follow(struct uw_secure_frames *s, uint32_t epoch);

/* The epoch that the low bits in a frame mean: this, the one before or the next. False: none. */
bool uw_frames_epoch_of(const struct uw_secure_frames *s, uint8_t first, uint32_t *epoch);

/* A counter that was never used. Returns UW_OK, UW_ERR_IO (the store cannot be written),
 * UW_ERR_CLOSED (there is none left). */
int uw_frames_count(struct uw_secure_frames *s, uint64_t *counter);

/* Take the identity and the counter from the store. Returns as uw_secure_frames_init. */
int uw_frames_load(struct uw_secure_frames *s, const struct uw_secure_frames_config *config);

/* Go on under an identity that nobody has, with the same counter. False: not allowed, or there is
 * no randomness. */
bool uw_frames_draw_another(struct uw_secure_frames *s);

/* Write the store before it is urgent. */
void uw_frames_save_ahead(struct uw_secure_frames *s);

/* Fill in the nonce and what is authenticated: the addresses, then n bytes. */
void uw_frames_begin(struct uw_ccm_frame *f, uint64_t id, uint64_t counter, uint16_t from,
                     uint16_t to, const uint8_t *bytes, uint32_t n);

/* ---- secure_frames_join.c ---- */

enum uw_frames_join { UW_FRAMES_HELLO = 1, UW_FRAMES_WELCOME, UW_FRAMES_JOIN };

/* What a welcome or a join answers. */
struct uw_frames_echo {
    uint64_t id, counter;
    uint8_t flags;
};

struct uw_frames_peer *uw_frames_peer_at(const struct uw_secure_frames *s, uint16_t station);

/* Report what is wrong; again only after a while. */
void uw_frames_warn(struct uw_secure_frames *s, uint64_t *not_before_us, uint16_t station,
                    const char *text);

/* Is this counter of the peer too old to tell whether it has come before? */
bool uw_frames_is_old(const struct uw_frames_peer *p, uint64_t counter);

/* Has it, or is it too old? */
bool uw_frames_seen(const struct uw_frames_peer *p, uint64_t counter);
void uw_frames_mark_seen(struct uw_frames_peer *p, uint64_t counter, uint64_t now_us);

/* Get a counter that was never used, and the key of this epoch. Warns when none is left.
 * Returns UW_OK, UW_ERR_IO (the store cannot be written), UW_ERR_CLOSED, UW_ERR_NOMEM. */
int uw_frames_next(struct uw_secure_frames *s, uint64_t *counter, struct uw_frames_key **key);

/* Send what is in s->out, or keep it until the lower link takes it. */
int uw_frames_put(struct uw_secure_frames *s, uint16_t to, uint32_t bytes);

/* Send what waits in s->out. Returns whether s->out may be written. */
bool uw_frames_out_is_free(struct uw_secure_frames *s);

/* Send hello to a station, or to all, at a limited rate. Some of it is kept for what this device
 * wants to send. */
void uw_frames_send_hello(struct uw_secure_frames *s, uint16_t station, bool to_send);

/* A frame of type 0 has come, in s->in. */
void uw_frames_on_join(struct uw_secure_frames *s, uint16_t from, uint32_t bytes);

void uw_frames_drop(struct uw_secure_frames *s, struct uw_frames_peer *p);

/* A frame has come that is longer than this device takes; once. */
void uw_frames_report_longer(struct uw_secure_frames *s);

/* What is due. */
void uw_frames_tick(struct uw_secure_frames *s);

#endif
