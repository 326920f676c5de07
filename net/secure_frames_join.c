/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is known: the three frames of a join, and windows against replays.
 *
 * A welcome repeats the counter of the hello that it answers, a join that of the welcome. Counters
 * never come twice and the answers are authenticated, so an answer to one of this device's latest
 * counters was made after it: who sent it is there now. */
#include "secure_frames_inner.h"

#include <string.h>

#define WINDOW 64u
#define JOIN_HEAD_BYTES 19u
#define ECHO_BYTES 14u
#define JOIN_BYTES_MAX (JOIN_HEAD_BYTES + ECHO_BYTES + UW_CCM_TAG_BYTES)
#define KNOWS_YOU 1u
#define FRESH_TICK_US 4000000u          /* an answer takes two of them at most, and longer ... */
#define FRESH_FRAMES 16u                /* ... where so many frames take longer */
#define ASK_FIRST_US 250000u            /* doubles while nobody answers ... */
#define ASK_DOUBLINGS 4u                /* ... so often */
#define ANSWERS_EACH_US 62500u          /* joins of any kind that this device sends, ... */
#define ANSWERS_PART 20u                /* ... at most one part in so many of the link's rate ... */
#define ANSWERS_KEPT 8u                 /* ... of which some are for who has the key */
#define REFUSED_TELL_US 10000000u
#define ASKED_N (sizeof((struct uw_secure_frames *)0)->asked / \
                 sizeof((struct uw_secure_frames *)0)->asked[0])
#define ANSWERED_N (sizeof((struct uw_secure_frames *)0)->answered / \
                    sizeof((struct uw_secure_frames *)0)->answered[0])

enum join { HELLO = 1, WELCOME, JOIN };

struct uw_frames_peer *uw_frames_peer_at(const struct uw_secure_frames *s, uint16_t station)
{
    for (uint16_t i = 0; i < s->peers_n; i++) {
        if (s->peers[i].used && s->peers[i].station == station) {
            return &s->peers[i];
        }
    }
    return NULL;
}

static struct uw_frames_peer *peer_of(const struct uw_secure_frames *s, uint64_t id)
{
    for (uint16_t i = 0; i < s->peers_n; i++) {
        if (s->peers[i].used && s->peers[i].id == id) {
            return &s->peers[i];
        }
    }
    return NULL;
}

/* RFC 4303, 3.4.3. */
bool uw_frames_is_old(const struct uw_frames_peer *p, uint64_t counter)
{
    return counter <= p->top && p->top - counter >= WINDOW;
}

bool uw_frames_seen(const struct uw_frames_peer *p, uint64_t counter)
{
    return uw_frames_is_old(p, counter) ||
           (counter <= p->top && (p->window >> (p->top - counter) & 1u) != 0);
}

static uint32_t about_ms(uint64_t us)
{
    return (uint32_t)(us >> 10);
}

void uw_frames_see(struct uw_frames_peer *p, uint64_t counter, uint64_t now_us)
{
    if (counter > p->top) {
        uint64_t ahead = counter - p->top;
        p->window = (ahead < WINDOW ? p->window << ahead : 0) | 1u;
        p->top = counter;
    } else {
        p->window |= (uint64_t)1 << (p->top - counter);
    }
    p->heard_ms = about_ms(now_us);
}

static void tell(struct uw_secure_frames *s, enum uw_secure_event_kind kind, uint16_t station,
                 const char *text)
{
    const struct uw_secure_event e = {.kind = kind, .station = station, .text = text};
    if (s->event != NULL) {
        s->event(s->user, &e);
    }
}

/* Told again only after a while. */
static void tell_rarely(struct uw_secure_frames *s, uint64_t *not_before_us, uint16_t station,
                        const char *text)
{
    if (s->now_us >= *not_before_us) {
        *not_before_us = s->now_us + REFUSED_TELL_US;
        tell(s, UW_SECURE_PEER_REFUSED, station, text);
    }
}

void uw_frames_tell_identity(struct uw_secure_frames *s, uint16_t station, const char *text)
{
    tell_rarely(s, &s->identity_tell_us, station, text);
}

void uw_frames_drop(struct uw_secure_frames *s, struct uw_frames_peer *p)
{
    p->used = false;
    s->known_n--;
    /* What is under way was asked while it was known: a join that is replayed must not bring its
     * window back to where it was. */
    s->fresh[0] = s->fresh[1] = s->counter;
    tell(s, UW_SECURE_PEER_CLOSED, p->station, "a device is not known any more");
}

/* Room for a peer that has proved to be there. */
static struct uw_frames_peer *enter(struct uw_secure_frames *s, uint64_t id, uint16_t station)
{
    struct uw_frames_peer *p = peer_of(s, id), *at = uw_frames_peer_at(s, station);
    if (p != NULL && p->station != station) {
        uw_frames_tell_identity(s, station, "a known identity speaks from another address: the "
                                            "device has moved, or two have a copy of one store");
    }
    if (at != NULL && at != p) {
        uw_frames_drop(s, at);      /* it started anew with another identity */
    }
    for (uint16_t i = 0; p == NULL && i < s->peers_n; i++) {
        p = s->peers[i].used ? NULL : &s->peers[i];
    }
    if (p == NULL) {
        uint32_t now_ms = about_ms(s->now_us);
        p = &s->peers[0];
        for (uint16_t i = 1; i < s->peers_n; i++) {
            p = now_ms - s->peers[i].heard_ms > now_ms - p->heard_ms ? &s->peers[i] : p;
        }
        uw_frames_drop(s, p);
    }
    if (!p->used) {
        *p = (struct uw_frames_peer){.id = id, .used = true};
        s->known_n++;
        s->stats.joined_n++;
        p->station = station;
        tell(s, UW_SECURE_PEER_UP, station, "a device of this run is there");
    }
    p->station = station;
    return p;
}

/* An answer is of use for one to two of them. */
static uint64_t fresh_tick_us(const struct uw_secure_frames *s)
{
    uint64_t rate = s->lower->rate_bits_per_s, bits = FRESH_FRAMES * 8u * (uint64_t)s->frame_bytes;
    uint64_t slow_us = rate != 0 ? bits * 1000000u / rate : 0;
    return slow_us > FRESH_TICK_US ? slow_us : FRESH_TICK_US;
}

/* A join answers what was made just now, and takes no part in this: nobody can cause many. */
static bool may_send(struct uw_secure_frames *s, enum join kind)
{
    uint64_t each_us = ANSWERS_EACH_US;
    if (s->link.rate_bits_per_s != 0) {
        uint64_t air_us = JOIN_BYTES_MAX * 8000000u / s->link.rate_bits_per_s;
        each_us = ANSWERS_PART * air_us > each_us ? ANSWERS_PART * air_us : each_us;
    }
    uint64_t more = (s->now_us - s->tokens_us) / each_us;
    if (more != 0) {
        bool burst = more + s->tokens_n >= UW_FRAMES_ANSWERS_BURST;
        s->tokens_n = burst ? UW_FRAMES_ANSWERS_BURST : (uint32_t)more + s->tokens_n;
        s->tokens_us = s->now_us;
    }
    if (kind == JOIN) {
        return true;
    }
    if (s->tokens_n <= (kind == HELLO ? ANSWERS_KEPT : 0)) {
        return false;
    }
    s->tokens_n--;
    return true;
}

/* What a welcome or a join answers. */
struct echo {
    uint64_t id, counter;
    uint8_t flags;
};

/* s->out is free. */
static void send_join(struct uw_secure_frames *s, uint16_t to, enum join kind,
                      const struct echo *echo)
{
    struct uw_ccm_frame f;
    uint64_t counter;
    if (!may_send(s, kind) || uw_frames_count(s, &counter) < 0) {
        return;
    }
    struct uw_frames_key *key = uw_frames_key_of(s, s->epoch);
    uint8_t *p = s->out;
    bool all = to == UW_LINK_STATION_BROADCAST;
    p[0] = (uint8_t)((s->epoch & UW_FRAMES_EPOCH_MASK) | (all ? UW_FRAMES_TO_ALL : 0));
    p[1] = (uint8_t)kind;
    uw_put_u32(p + 2, s->epoch);
    uw_put_u32(p + 6, (uint32_t)s->id);
    uw_put_u32(p + 10, (uint32_t)(s->id >> 32));
    uw_put_u32(p + 14, (uint32_t)counter);
    p[18] = (uint8_t)(counter >> 32);
    f.body = p + JOIN_HEAD_BYTES;
    f.body_bytes = 0;
    if (echo != NULL) {
        uw_put_u32(f.body, (uint32_t)echo->id);
        uw_put_u32(f.body + 4, (uint32_t)(echo->id >> 32));
        uw_put_u32(f.body + 8, (uint32_t)echo->counter);
        f.body[12] = (uint8_t)(echo->counter >> 32);
        f.body[13] = echo->flags;
        f.body_bytes = ECHO_BYTES;
    }
    uw_frames_begin(&f, s->id, counter, s->lower->own, to);
    uw_frames_head(&f, p, JOIN_HEAD_BYTES);
    if (key != NULL && uw_ccm_seal(key, &f) == UW_OK) {
        s->stats.joins_sent_n++;
        (void)uw_frames_put(s, to, JOIN_HEAD_BYTES + f.body_bytes + UW_CCM_TAG_BYTES);
    }
}

void uw_frames_ask(struct uw_secure_frames *s, uint16_t station)
{
    struct uw_frames_asked *a = &s->asked[s->asked_at];
    bool known = false;
    if (!uw_frames_out_is_free(s)) {
        return;
    }
    for (uint32_t i = 0; i < ASKED_N && !known; i++) {
        known = s->asked[i].until_us != 0 && s->asked[i].station == station;
        a = known ? &s->asked[i] : a;
    }
    if (!known) {
        s->asked_at = (uint8_t)((s->asked_at + 1u) % ASKED_N);
        *a = (struct uw_frames_asked){.station = station};
    } else if (s->now_us < a->until_us) {
        return;
    } else {
        uint32_t tries = a->tries < ASK_DOUBLINGS ? a->tries + 1u : 0;
        /* One that was asked long ago begins anew. */
        bool old = s->now_us > a->until_us + ((uint64_t)ASK_FIRST_US << tries);
        a->tries = (uint8_t)(old ? 0 : tries);
    }
    a->until_us = s->now_us + ((uint64_t)ASK_FIRST_US << a->tries);
    send_join(s, station, HELLO, NULL);
}

/* ---- answers ---- */

static struct uw_frames_answer *answer_to(struct uw_secure_frames *s, uint64_t id)
{
    for (uint32_t i = 0; i < ANSWERED_N; i++) {
        if (s->answered[i].until_us != 0 && s->answered[i].id == id) {
            return &s->answered[i];
        }
    }
    return NULL;
}

static void pay(struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    const struct uw_frames_peer *p = peer_of(s, a->id);
    bool here = p != NULL && p->station == a->station;
    const struct echo echo = {a->id, a->counter, here ? KNOWS_YOU : 0};
    enum join kind = (enum join)a->owed;
    if (uw_frames_out_is_free(s)) {
        a->owed = 0;
        send_join(s, a->station, kind, &echo);
    }
}

/* Answer now, or when the lower link takes it. */
static void answer(struct uw_secure_frames *s, uint16_t to, enum join kind, uint64_t id,
                   uint64_t counter)
{
    struct uw_frames_answer *a = answer_to(s, id);
    if (a == NULL) {
        a = &s->answered[s->answered_at];
        s->answered_at = (uint8_t)((s->answered_at + 1u) % ANSWERED_N);
    }
    *a = (struct uw_frames_answer){.id = id, .counter = counter, .station = to,
                                   .owed = (uint8_t)kind,
                                   .until_us = s->now_us + fresh_tick_us(s)};
    pay(s, a);
}

/* Is this an answer to something that this device sent lately? */
static bool is_fresh(const struct uw_secure_frames *s, const struct echo *echo)
{
    return echo->id == s->id && echo->counter >= s->fresh[0] && echo->counter < s->counter;
}

static void on_hello(struct uw_secure_frames *s, uint16_t from, uint64_t id, uint64_t counter)
{
    struct uw_frames_peer *p = peer_of(s, id);
    const struct uw_frames_answer *last = answer_to(s, id);
    if ((p != NULL && uw_frames_seen(p, counter)) || (last != NULL && counter <= last->counter)) {
        s->stats.replayed_n++;
        return;
    }
    if (p != NULL && p->station == from) {
        uw_frames_see(p, counter, s->now_us);
    }
    answer(s, from, WELCOME, id, counter);
}

static void on_answer(struct uw_secure_frames *s, uint16_t from, enum join kind, uint64_t id,
                      uint64_t counter, const struct echo *echo)
{
    struct uw_frames_peer *p = peer_of(s, id);
    if (!is_fresh(s, echo) || (p != NULL && uw_frames_seen(p, counter))) {
        s->stats.replayed_n++;
        return;
    }
    bool known = p != NULL;
    p = enter(s, id, from);
    uw_frames_see(p, counter, s->now_us);
    p->window = known ? p->window : UINT64_MAX;     /* what was sent before may have come before */
    for (uint32_t i = 0; i < ASKED_N; i++) {
        s->asked[i].tries = s->asked[i].station == from ? 0 : s->asked[i].tries;
    }
    if (kind == WELCOME && (echo->flags & KNOWS_YOU) == 0) {
        answer(s, from, JOIN, id, counter);
    }
}

static void on_refused(struct uw_secure_frames *s, uint16_t from)
{
    if (from == s->lower->own) {        /* what it said to another, which its radio heard */
        s->stats.replayed_n++;
        return;
    }
    s->stats.refused_n++;
    tell_rarely(s, &s->refused_tell_us, from, "a device says hello with another key, or of another "
                                              "run");
}

/* Its own frame, sent back; or a second device has its identity, from a copied store; or its store
 * was put back to an old copy. Counters that it has not come to, and answers to its latest ones
 * from another station, are not its own. */
static void on_self(struct uw_secure_frames *s, uint16_t from, enum join kind, uint64_t counter,
                    const struct echo *echo)
{
    bool elsewhere = from != s->lower->own;
    s->stats.replayed_n++;
    if (counter >= s->counter || (elsewhere && kind != HELLO && is_fresh(s, echo))) {
        bool another = uw_frames_draw_another(s);
        uw_frames_tell_identity(s, from, another ? "this device's identity is used elsewhere, by a "
                                                   "copy of its store: it takes another"
                                                 : "a device has this one's identity: forget the "
                                                   "counter's record of one of them");
    } else if (elsewhere && kind == HELLO) {
        /* Its own of the time when it was at another station; or else there will be an answer. */
        on_hello(s, from, s->id, counter);
    }
}

/* Another device of the run has this one's address. Asked aloud, it hears of that as well. */
static void on_twin(struct uw_secure_frames *s)
{
    char text[UW_SECURE_TEXT_BYTES] = "another device has this one's address, give each its own: ";
    s->stats.refused_n++;
    (void)uw_link_describe(s->lower, s->lower->own, text + strlen(text));
    uw_frames_ask(s, UW_LINK_STATION_BROADCAST);
    tell_rarely(s, &s->twin_tell_us, s->lower->own, text);
}

/* A device restarted in an epoch that is over is welcomed too, and follows. */
void uw_frames_on_join(struct uw_secure_frames *s, uint16_t from, uint32_t bytes)
{
    struct uw_ccm_frame f;
    uint8_t *p = s->in;
    if (bytes < JOIN_HEAD_BYTES + UW_CCM_TAG_BYTES) {
        s->stats.refused_n++;
        return;
    }
    enum join kind = (enum join)p[1];
    uint32_t epoch = uw_get_u32(p + 2), body = bytes - JOIN_HEAD_BYTES - UW_CCM_TAG_BYTES;
    uint64_t id = uw_get_u32(p + 6) | (uint64_t)uw_get_u32(p + 10) << 32;
    uint64_t counter = uw_get_u32(p + 14) | (uint64_t)p[18] << 32;
    bool all = (p[0] & UW_FRAMES_TO_ALL) != 0;
    if (kind < HELLO || kind > JOIN || body != (kind == HELLO ? 0 : ECHO_BYTES) ||
        (epoch & UW_FRAMES_EPOCH_MASK) != (p[0] & UW_FRAMES_EPOCH_MASK)) {
        s->stats.refused_n++;
        return;
    }
    f.body = p + JOIN_HEAD_BYTES;
    f.body_bytes = body;
    uw_frames_begin(&f, id, counter, from, all ? UW_LINK_STATION_BROADCAST : s->lower->own);
    uw_frames_head(&f, p, JOIN_HEAD_BYTES);
    struct uw_frames_key *key = uw_frames_key_of(s, epoch);
    if (key == NULL || uw_ccm_open(key, &f) < 0) {
        on_refused(s, from);
        return;
    }
    struct echo echo = {.id = 0};
    if (kind != HELLO) {
        echo.id = uw_get_u32(f.body) | (uint64_t)uw_get_u32(f.body + 4) << 32;
        echo.counter = uw_get_u32(f.body + 8) | (uint64_t)f.body[12] << 32;
        echo.flags = f.body[13];
    }
    if (id == s->id) {
        on_self(s, from, kind, counter, &echo);
        return;
    }
    if (from == s->lower->own) {
        on_twin(s);
        return;
    }
    uw_frames_follow(s, epoch);
    if (kind == HELLO) {
        on_hello(s, from, id, counter);
    } else if (s->epoch - epoch <= 1u) {
        on_answer(s, from, kind, id, counter, &echo);
    }
}

void uw_frames_tick(struct uw_secure_frames *s)
{
    if (s->now_us - s->tick_us >= fresh_tick_us(s)) {
        s->tick_us = s->now_us;
        s->fresh[0] = s->fresh[1];
        s->fresh[1] = s->counter;
    }
    for (uint32_t i = 0; i < ANSWERED_N; i++) {
        struct uw_frames_answer *a = &s->answered[(s->answered_at + i) % ANSWERED_N];
        a->owed = s->now_us < a->until_us ? a->owed : 0;
        if (a->owed != 0) {
            pay(s, a);
        }
    }
}
