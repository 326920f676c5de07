/* SPDX-License-Identifier: Apache-2.0
 *
 * Secure frames as a link. */
#include "secure_frames_priv.h"

#include <string.h>

#define PEERS_DEFAULT 16u
#define RESERVE_DEFAULT 65536u
#define EPOCH_FRAMES_DEFAULT (1u << 22)
#define FRAMES_MAX 64u                  /* processed in one recv */
#define RETRY_US 1000u                  /* retry interval of a waiting frame, at first ... */
#define RETRY_PARTS 8u                  /* ... then this fraction of its wait ... */
#define RETRY_MOST_US 1000000u          /* ... at most */
#define KEYS (UW_FRAMES_OTHER_KEY + 1u)
#define COUNTER_HALF (1u << 23)
#define COUNTER_MASK 0xffffffu

static void follow_lower(struct uw_secure_frames *s)
{
    uint32_t lower = s->lower->mtu_bytes < s->frame_bytes ? s->lower->mtu_bytes : s->frame_bytes;
    s->link.mtu_bytes = lower > UW_SECURE_FRAMES_OVERHEAD ? lower - UW_SECURE_FRAMES_OVERHEAD : 0;
    s->link.rate_bits_per_s = s->lower->rate_bits_per_s;
    s->link.duty_ppm = s->lower->duty_ppm;
}

/* ---- out ---- */

static int frames_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_secure_frames *s = (struct uw_secure_frames *)link;
    const uint8_t *message = buf;
    bool all = to == UW_LINK_STATION_BROADCAST;
    follow_lower(s);
    if (buf_bytes > s->link.mtu_bytes) {
        return UW_ERR_TOOBIG;
    }
    if (buf_bytes == 0 || message[0] >> 4 != UW_WIRE_VERSION || (message[0] & 15u) == 0) {
        return UW_ERR_INVALID;
    }
    if (all && !s->lower->shared) {
        return UW_ERR_UNSUPPORTED;
    }
    if (!uw_frames_out_is_free(s)) {
        return UW_ERR_AGAIN;
    }
    if (all ? s->known_n == 0 : uw_frames_peer_at(s, to) == NULL) {
        uw_frames_send_hello(s, to, true);
        return UW_ERR_AGAIN;
    }
    uint64_t counter;
    struct uw_frames_key *key;
    int rc = uw_frames_next(s, &counter, &key);
    if (rc < 0) {
        return rc;
    }
    uint8_t *p = s->out;
    p[0] = (uint8_t)((uint32_t)message[0] << 4 | (all ? UW_FRAMES_TO_ALL : 0) |
                     (s->epoch & UW_FRAMES_EPOCH_MASK));
    uw_put_u24(p + 1, (uint32_t)counter);
    memcpy(p + UW_FRAMES_HEAD_BYTES, message + 1, buf_bytes - 1u);
    struct uw_ccm_frame f;
    f.body = p + UW_FRAMES_HEAD_BYTES;
    f.body_bytes = buf_bytes - 1u;
    uw_frames_begin(&f, s->id, counter, s->lower->own, to, p, UW_FRAMES_HEAD_BYTES);
    rc = uw_ccm_seal(key, &f);
    rc = rc == UW_OK ? uw_frames_put(s, to, buf_bytes + UW_SECURE_FRAMES_OVERHEAD) : rc;
    if (rc == UW_OK) {
        s->link.stats.sent_n++;
        s->link.stats.sent_bytes += buf_bytes;
    }
    return rc;
}

/* ---- in ---- */

/* The counter with these low bits that is closest to the largest one received. */
static uint64_t whole_counter(const struct uw_frames_peer *p, const uint8_t *low)
{
    uint32_t bits = uw_get_u24(low);
    uint64_t near = p->top >= COUNTER_HALF ? p->top - COUNTER_HALF : 0;
    return near + ((bits - (uint32_t)near) & COUNTER_MASK);
}

/* Decrypt a frame of a message in s->in. A frame from this station's own address is an echo, or
 * cannot be decrypted. Returns UW_OK, UW_ERR_AGAIN (ignore it), or another error: send a hello to
 * its sender. */
static int open_frame(struct uw_secure_frames *s, uint16_t from, uint32_t bytes)
{
    uint8_t *in = s->in;
    bool own = from == s->lower->own;
    struct uw_frames_peer self = {.id = s->id, .top = s->counter};
    struct uw_frames_peer *p = own ? &self : uw_frames_peer_at(s, from);
    uint32_t epoch;
    bool all = (in[0] & UW_FRAMES_TO_ALL) != 0;
    if (own && !all) {
        return UW_ERR_AGAIN;
    }
    if (p == NULL || !uw_frames_epoch_of(s, in[0], &epoch)) {
        s->stats.unknown_n++;
        return UW_ERR_NOTFOUND;
    }
    uint64_t counter = whole_counter(p, in + 1);
    if (!own && (uw_frames_seen(p, counter) || counter >= UW_FRAMES_COUNTER_END)) {
        s->stats.replayed_n++;
        /* It may also be so far ahead that it looks old: a join of the sender shows which. */
        return uw_frames_is_old(p, counter) ? UW_ERR_NOTFOUND : UW_ERR_AGAIN;
    }
    struct uw_ccm_frame f;
    f.body = in + UW_FRAMES_HEAD_BYTES;
    f.body_bytes = bytes - UW_FRAMES_HEAD_BYTES - UW_CCM_TAG_BYTES;
    uw_frames_begin(&f, p->id, counter, from, all ? UW_LINK_STATION_BROADCAST : s->lower->own, in,
                    UW_FRAMES_HEAD_BYTES);
    struct uw_frames_key *key = uw_frames_key_of(s, epoch);
    if (key == NULL || uw_ccm_open(key, &f) < 0) {
        s->stats.refused_n++;
        return UW_ERR_DENIED;
    }
    if (own) {
        s->stats.replayed_n++;
        return UW_ERR_AGAIN;
    }
    uw_frames_mark_seen(p, counter, s->now_us);
    uw_frames_follow(s, epoch);
    return UW_OK;
}

static int frames_recv_view(struct uw_link *link, uint16_t *from, void **view)
{
    struct uw_secure_frames *s = (struct uw_secure_frames *)link;
    for (uint32_t i = 0; i < FRAMES_MAX; i++) {
        uint16_t station = UW_LINK_STATION_NONE;
        int bytes = uw_link_recv(s->lower, &station, s->in, s->frame_bytes);
        if (bytes == UW_ERR_TOOBIG) {
            s->stats.refused_n++;
            uw_frames_report_longer(s);
            continue;
        }
        if (bytes < 0) {
            return bytes;
        }
        if ((uint32_t)bytes < UW_FRAMES_HEAD_BYTES + UW_CCM_TAG_BYTES) {
            s->stats.refused_n++;
            continue;
        }
        if (s->in[0] >> 4 == 0) {
            uw_frames_on_join(s, station, (uint32_t)bytes);
            continue;
        }
        int rc = open_frame(s, station, (uint32_t)bytes);
        if (rc < 0) {
            if (rc != UW_ERR_AGAIN) {
                bool own = station == s->lower->own;
                uw_frames_send_hello(s, own ? UW_LINK_STATION_BROADCAST : station, false);
            }
            continue;
        }
        uint32_t message = (uint32_t)bytes - UW_SECURE_FRAMES_OVERHEAD;
        uint8_t *out = s->in + UW_FRAMES_HEAD_BYTES - 1u;   /* over the last byte of the head */
        out[0] = (uint8_t)(UW_WIRE_VERSION << 4 | s->in[0] >> 4);
        *view = out;
        *from = station;
        s->link.stats.received_n++;
        s->link.stats.received_bytes += message;
        return (int)message;
    }
    return UW_ERR_AGAIN;
}

/* ---- the rest of a link ---- */

/* If the lower link returns no earlier time. */
static uint64_t retry_at_us(const struct uw_secure_frames *s)
{
    uint64_t us = (s->now_us - s->out_since_us) / RETRY_PARTS;
    us = us > RETRY_US ? us : RETRY_US;
    return s->now_us + (us < RETRY_MOST_US ? us : RETRY_MOST_US);
}

static uint64_t frames_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_secure_frames *s = (struct uw_secure_frames *)link;
    s->now_us = now_us > s->now_us ? now_us : s->now_us;
    uint64_t next_us = uw_link_step(s->lower, now_us);
    follow_lower(s);
    uw_frames_tick(s);
    uw_frames_save_ahead(s);
    uint64_t retry_us = uw_frames_out_is_free(s) ? UINT64_MAX : retry_at_us(s);
    return next_us < retry_us ? next_us : retry_us;
}

static int frames_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    return uw_link_resolve(((struct uw_secure_frames *)link)->lower, address, station);
}

static int frames_describe(struct uw_link *link, uint16_t station,
                           char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_link_describe(((struct uw_secure_frames *)link)->lower, station, text);
}

static bool frames_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_link_hold(((struct uw_secure_frames *)link)->lower, station, hold);
}

static void frames_forget(struct uw_link *link, uint16_t station)
{
    struct uw_secure_frames *s = (struct uw_secure_frames *)link;
    struct uw_frames_peer *p = uw_frames_peer_at(s, station);
    if (p != NULL) {
        uw_frames_drop(s, p);
    }
    uw_link_forget(s->lower, station);
}

static void frames_deinit(struct uw_link *link)
{
    struct uw_secure_frames *s = (struct uw_secure_frames *)link;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (s->keys[i] != NULL) {
            uw_frames_key_wipe(s->keys[i]);
        }
    }
    uw_key_wipe(s->key, sizeof s->key);
    link->ops = NULL;
}

static const struct uw_link_ops frames_ops = {
    .name = "frames",
    .resolve = frames_resolve,
    .describe = frames_describe,
    .hold = frames_hold,
    .send = frames_send,
    .step = frames_step,
    .deinit = frames_deinit,
    .forget = frames_forget,
    .recv_view = frames_recv_view,
};

/* ---- set-up ---- */

static uint32_t frame_bytes_of(const struct uw_secure_frames_config *config)
{
    uint32_t mtu = config->lower->mtu_bytes;
    return mtu < UW_SECURE_FRAMES_LOWER_MAX ? mtu : UW_SECURE_FRAMES_LOWER_MAX;
}

static bool is_allowed(const struct uw_secure_frames_config *c)
{
    return c->lower != NULL && c->lower->numbered &&
           c->lower->mtu_bytes >= UW_SECURE_FRAMES_LOWER_MIN && c->run != NULL &&
           c->run[0] != '\0' && (c->store != NULL || c->id == 0);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15u) & ~(size_t)15;
}

static uint32_t peers_of(const struct uw_secure_frames_config *config)
{
    return config->peers_n != 0 ? config->peers_n : PEERS_DEFAULT;
}

size_t uw_secure_frames_bytes(const struct uw_secure_frames_config *config)
{
    if (!is_allowed(config)) {
        return SIZE_MAX;
    }
    return aligned(peers_of(config) * sizeof(struct uw_frames_peer)) +
           KEYS * aligned(uw_frames_key_bytes()) + 2u * aligned(frame_bytes_of(config));
}

int uw_secure_frames_init(struct uw_secure_frames *s, const struct uw_secure_frames_config *config)
{
    memset(s, 0, sizeof *s);
    size_t bytes = uw_secure_frames_bytes(config);
    if (bytes == SIZE_MAX) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < bytes) {
        return UW_ERR_NOMEM;
    }
    memset(config->memory, 0, bytes);
    s->lower = config->lower;
    s->peers_n = (uint16_t)peers_of(config);
    s->frame_bytes = frame_bytes_of(config);
    uint8_t *at = config->memory;
    s->peers = (struct uw_frames_peer *)(void *)at;
    at += aligned(s->peers_n * sizeof *s->peers);
    for (uint32_t i = 0; i < KEYS; i++, at += aligned(uw_frames_key_bytes())) {
        s->keys[i] = (struct uw_frames_key *)(void *)at;
    }
    s->in = at;
    s->out = at + aligned(s->frame_bytes);
    memcpy(s->key, config->key, sizeof s->key);
    s->run = config->run;
    s->store = config->store;
    s->object = config->object != NULL ? config->object : "counter";
    s->reserve_n = config->reserve_n != 0 ? config->reserve_n : RESERVE_DEFAULT;
    s->epoch_frames = config->epoch_frames != 0 ? config->epoch_frames : EPOCH_FRAMES_DEFAULT;
    s->event = config->event;
    s->user = config->user;
    int rc = uw_frames_load(s, config);
    if (rc == UW_OK && uw_frames_key_of(s, s->epoch) == NULL) {
        rc = UW_ERR_NOMEM;
    }
    if (rc < 0) {
        uw_key_wipe(s->key, sizeof s->key);
        return rc;
    }
    s->fresh[0] = s->fresh[1] = s->counter;     /* nothing was asked since this start */
    s->link = (struct uw_link){
        .ops = &frames_ops, .burst_n = s->lower->burst_n, .burst_bytes = s->lower->burst_bytes,
        .secure = true, .frames = true, .numbered = true, .shared = s->lower->shared,
        .own = s->lower->own, .fd = s->lower->fd};
    follow_lower(s);
    return UW_OK;
}

bool uw_secure_frames_knows(const struct uw_secure_frames *s, uint16_t station)
{
    return uw_frames_peer_at(s, station) != NULL;
}
