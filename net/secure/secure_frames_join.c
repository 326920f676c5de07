/* SPDX-License-Identifier: Apache-2.0
 *
 * Known peers: the three frames of a join, and windows against replays.
 *
 * A welcome repeats the counter of its hello, a join that of its welcome. Counters are unique and
 * answers are authenticated: an answer to one of this device's latest counters is fresh, and its
 * sender is present. A hello alone proves nothing: it may be a replay. */
#include "secure_frames_priv.h"

#include "base/backoff.h"
#include "base/slot_table.h"
#include "base/token_bucket.h"

#include <string.h>

#define WINDOW 64u
#define JOIN_HEAD_BYTES 19u
#define ECHO_BYTES 14u
#define JOIN_BYTES_MAX (JOIN_HEAD_BYTES + ECHO_BYTES + UW_CCM_TAG_BYTES)
#define FRESH_TICK_US 4000000u          /* an answer is fresh for up to two of these, ... */
#define FRESH_FRAMES 16u                /* ... or longer if so many frames take longer */
#define ASK_FIRST_US 250000u            /* back-off of hellos to a station, ... */
#define ASK_DOUBLINGS 4u                /* ... doubled so often */
#define JOINS_EACH_US 125000u           /* token interval of hellos, and of welcomes, ... */
#define JOINS_PART 40u                  /* ... limited to this fraction of the link's rate */
#define HELLOS_KEPT 8u                  /* tokens reserved for stations with messages to send */
#define WITHHELD_REPORT_US 3000000u
#define REFUSED_REPORT_US 10000000u
#define WELCOME_FIRST_US 220000u        /* doubles while no join comes; less than a device waits
                                           until it asks again, so that all of these are answered */
#define WELCOME_DOUBLINGS 8u
#define WELCOMES_TELL 6u                /* without a join */
#define ANSWERED_N (sizeof((struct uw_secure_frames *)0)->answered / \
                    sizeof((struct uw_secure_frames *)0)->answered[0])
#define ASKED_N (sizeof((struct uw_secure_frames *)0)->asked / \
                 sizeof((struct uw_secure_frames *)0)->asked[0])

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

void uw_frames_mark_seen(struct uw_frames_peer *p, uint64_t counter, uint64_t now_us)
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

static void report(struct uw_secure_frames *s, enum uw_secure_event_kind kind, uint16_t station,
                   const char *text)
{
    const struct uw_secure_event e = {.kind = kind, .station = station, .text = text};
    if (s->event != NULL) {
        s->event(s->user, &e);
    }
}

/* Report a warning unless it was reported lately. */
static void report_rarely(struct uw_secure_frames *s, enum uw_secure_event_kind kind,
                          uint64_t *not_before_us, uint16_t station, const char *text)
{
    if (s->now_us >= *not_before_us) {
        *not_before_us = s->now_us + REFUSED_REPORT_US;
        report(s, kind, station, text);
    }
}

/* Report a warning unless it was reported lately. */
static void warn(struct uw_secure_frames *s, uint64_t *not_before_us, uint16_t station,
                 const char *text)
{
    report_rarely(s, UW_SECURE_WARNING, not_before_us, station, text);
}

void uw_frames_report_longer(struct uw_secure_frames *s)
{
    if (!s->longer_told) {
        s->longer_told = true;
        report(s, UW_SECURE_WARNING, UW_LINK_STATION_NONE,
               "received frames are longer than this device's mtu: all of a run need the same");
    }
}

void uw_frames_drop(struct uw_secure_frames *s, struct uw_frames_peer *p)
{
    p->used = false;
    s->known_n--;
    /* Invalidate answers to earlier counters: a replayed join must not restore its old window. */
    s->fresh[0] = s->fresh[1] = s->counter;
    report(s, UW_SECURE_PEER_CLOSED, p->station, "a device was forgotten");
}

/* The peer silent longest is replaced first. */
static uint64_t peer_rank(const void *slot, const void *now_ms)
{
    const struct uw_frames_peer *p = slot;
    return UW_SLOT_FREE + (p->used ? UINT32_MAX - (*(const uint32_t *)now_ms - p->heard_ms) : 0);
}

static struct uw_frames_peer *enter(struct uw_secure_frames *s, uint64_t id, uint16_t station)
{
    struct uw_frames_peer *p = peer_of(s, id), *at = uw_frames_peer_at(s, station);
    if (p != NULL && p->station != station) {
        warn(s, &s->identity_tell_us, station,
                       "one identity at two addresses: the device moved, or its store was copied");
    }
    if (at != NULL && at != p) {
        uw_frames_drop(s, at);      /* it restarted with another identity */
    }
    if (p == NULL) {
        uint32_t now_ms = about_ms(s->now_us);
        p = uw_slots_find(s->peers, s->peers_n, sizeof *p, peer_rank, &now_ms);
        if (p->used) {
            uw_frames_drop(s, p);
        }
    }
    if (!p->used) {
        *p = (struct uw_frames_peer){.id = id, .used = true};
        s->known_n++;
        s->stats.joined_n++;
        p->station = station;
        report(s, UW_SECURE_PEER_UP, station, "a device of this run joined");
    }
    p->station = station;
    return p;
}

static uint64_t fresh_tick_us(const struct uw_secure_frames *s)
{
    uint64_t rate = s->lower->rate_bits_per_s, bits = FRESH_FRAMES * 8u * (uint64_t)s->frame_bytes;
    uint64_t slow_us = rate != 0 ? bits * 1000000u / rate : 0;
    return slow_us > FRESH_TICK_US ? slow_us : FRESH_TICK_US;
}

/* Hellos and welcomes have a token bucket each: an attacker who causes welcomes does not prevent
 * hellos. Joins are not limited: they answer fresh welcomes only. */
static bool may_send(struct uw_secure_frames *s, uint64_t *paid_us, uint32_t kept_n)
{
    uint64_t each_us = JOINS_EACH_US;
    if (s->link.rate_bits_per_s != 0) {
        uint64_t air_us = JOIN_BYTES_MAX * 8000000u / s->link.rate_bits_per_s;
        each_us = JOINS_PART * air_us > each_us ? JOINS_PART * air_us : each_us;
    }
    return uw_bucket_take(paid_us, s->now_us, each_us, UW_FRAMES_JOINS_BURST * each_us,
                          kept_n * each_us);
}

/* ---- frames that go out ---- */

int uw_frames_next(struct uw_secure_frames *s, uint64_t *counter, struct uw_frames_key **key)
{
    int rc = uw_frames_count(s, counter);
    if (rc == UW_ERR_CLOSED) {
        warn(s, &s->identity_tell_us, s->lower->own,
                       "the counters are used up: this device needs a new identity");
    }
    if (rc < 0) {
        return rc;
    }
    *key = uw_frames_key_of(s, s->epoch);
    return *key != NULL ? UW_OK : UW_ERR_NOMEM;
}

bool uw_frames_out_is_free(struct uw_secure_frames *s)
{
    if (s->out_bytes != 0 &&
        uw_link_send(s->lower, s->out_to, s->out, s->out_bytes) != UW_ERR_AGAIN) {
        s->out_bytes = 0;       /* sent, or lost as on the air */
    }
    return s->out_bytes == 0;
}

int uw_frames_put(struct uw_secure_frames *s, uint16_t to, uint32_t bytes)
{
    int rc = uw_link_send(s->lower, to, s->out, bytes);
    if (rc == UW_ERR_AGAIN) {
        s->out_bytes = bytes;
        s->out_to = to;
        s->out_since_us = s->now_us;
        return UW_OK;
    }
    return rc;
}

static void send_join(struct uw_secure_frames *s, uint16_t to, enum uw_frames_join kind,
                      const struct uw_frames_echo *echo)
{
    struct uw_ccm_frame f;
    uint64_t counter;
    struct uw_frames_key *key;
    if (uw_frames_next(s, &counter, &key) < 0) {
        return;
    }
    uint8_t *p = s->out;
    bool all = to == UW_LINK_STATION_BROADCAST;
    p[0] = (uint8_t)((s->epoch & UW_FRAMES_EPOCH_MASK) | (all ? UW_FRAMES_TO_ALL : 0));
    p[1] = (uint8_t)kind;
    uw_put_u32(p + 2, s->epoch);
    uw_put_u64(p + 6, s->id);
    uw_put_u40(p + 14, counter);
    f.body = p + JOIN_HEAD_BYTES;
    f.body_bytes = 0;
    if (echo != NULL) {
        uw_put_u64(f.body, echo->id);
        uw_put_u40(f.body + 8, echo->counter);
        f.body[13] = echo->flags;
        f.body_bytes = ECHO_BYTES;
    }
    uw_frames_begin(&f, s->id, counter, s->lower->own, to, p, JOIN_HEAD_BYTES);
    if (uw_ccm_seal(key, &f) == UW_OK) {
        s->stats.joins_sent_n++;
        (void)uw_frames_put(s, to, JOIN_HEAD_BYTES + f.body_bytes + UW_CCM_TAG_BYTES);
    }
}

static bool may_ask(struct uw_secure_frames *s, uint16_t station, bool to_send)
{
    bool may = may_send(s, &s->hellos_us, to_send ? 0 : HELLOS_KEPT);
    if (may) {
        s->withheld_us = 0;
    } else if (to_send && s->withheld_us == 0) {
        s->withheld_us = s->now_us;
    } else if (to_send && s->now_us - s->withheld_us >= WITHHELD_REPORT_US) {
        warn(s, &s->withheld_tell_us, station,
                       "hellos are limited: too many unknown devices");
    }
    return may;
}

void uw_frames_send_hello(struct uw_secure_frames *s, uint16_t station, bool to_send)
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
    if ((known && s->now_us < a->until_us) || !may_ask(s, station, to_send)) {
        return;
    }
    if (!known) {
        s->asked_at = (uint8_t)((s->asked_at + 1u) % ASKED_N);
        *a = (struct uw_frames_asked){.station = station};
    } else {
        /* Restart the back-off of a station after a long time. */
        bool old = s->now_us > a->until_us + ((uint64_t)ASK_FIRST_US << a->tries);
        a->tries = old ? 0 : a->tries;
    }
    a->until_us = s->now_us + uw_backoff_us(ASK_FIRST_US, &a->tries, ASK_DOUBLINGS);
    send_join(s, station, UW_FRAMES_HELLO, NULL);
}

static struct uw_frames_answer *answer_to(struct uw_secure_frames *s, uint16_t station)
{
    for (uint32_t i = 0; i < ANSWERED_N; i++) {
        if (s->answered[i].until_us != 0 && s->answered[i].station == station) {
            return &s->answered[i];
        }
    }
    return NULL;
}

/* Entries with the most unanswered welcomes are kept longest. */
static uint64_t answer_rank(const void *slot, const void *station)
{
    const struct uw_frames_answer *a = slot;
    return a->until_us != 0 && a->station == *(const uint16_t *)station
               ? UW_SLOT_OWN
               : UW_SLOT_FREE + ((uint64_t)a->in_vain << 56) + a->until_us;
}

static void wait_for_join(struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    a->until_us = s->now_us + uw_backoff_us(WELCOME_FIRST_US, &a->in_vain, WELCOME_DOUBLINGS);
    if (a->in_vain >= WELCOMES_TELL) {
        warn(s, &s->in_vain_tell_us, a->station,
                       "a device sends hello but no join: it does not receive our frames, "
                       "or old hellos are replayed");
    }
}

static void send_owed(struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    const struct uw_frames_peer *p = peer_of(s, a->id);
    bool here = p != NULL && p->station == a->station;
    const struct uw_frames_echo echo = {a->id, a->counter, here ? UW_FRAMES_KNOWS_YOU : 0};
    enum uw_frames_join kind = (enum uw_frames_join)a->owed;
    if (!uw_frames_out_is_free(s)) {
        return;
    }
    a->owed = 0;
    a->until_us = s->now_us;
    if (kind == UW_FRAMES_WELCOME && !may_send(s, &s->welcomes_us, 0)) {
        return;
    }
    if (kind == UW_FRAMES_WELCOME && !here) {
        wait_for_join(s, a);
    }
    send_join(s, a->station, kind, &echo);
}

static void answer(struct uw_secure_frames *s, uint16_t to, enum uw_frames_join kind,
                   uint64_t id, uint64_t counter)
{
    struct uw_frames_answer *a =
        uw_slots_find(s->answered, ANSWERED_N, sizeof *a, answer_rank, &to);
    bool again = a->until_us != 0 && a->station == to && kind == UW_FRAMES_WELCOME;
    uint8_t in_vain = again ? a->in_vain : 0;
    *a = (struct uw_frames_answer){.id = id, .counter = counter, .station = to,
                                   .owed = (uint8_t)kind, .in_vain = in_vain,
                                   .until_us = s->now_us + fresh_tick_us(s)};
    send_owed(s, a);
}

static bool is_in_vain(const struct uw_secure_frames *s, struct uw_frames_answer *a)
{
    uint64_t longest_us = (uint64_t)WELCOME_FIRST_US << WELCOME_DOUBLINGS;
    if (s->now_us > a->until_us + longest_us) {
        a->in_vain = 0;
    }
    return a->owed == 0 && s->now_us < a->until_us;
}

static void send_answers(struct uw_secure_frames *s)
{
    for (uint32_t i = 0; i < ANSWERED_N; i++) {
        struct uw_frames_answer *a = &s->answered[i];
        a->owed = s->now_us < a->until_us ? a->owed : 0;
        if (a->owed != 0) {
            send_owed(s, a);
        }
    }
}

static bool is_fresh(const struct uw_secure_frames *s, const struct uw_frames_echo *echo)
{
    return echo->id == s->id && echo->counter >= s->fresh[0] && echo->counter < s->counter;
}

static void on_hello(struct uw_secure_frames *s, uint16_t from, uint64_t id, uint64_t counter)
{
    struct uw_frames_peer *p = peer_of(s, id);
    struct uw_frames_answer *last = answer_to(s, from);
    bool again = last != NULL && last->id == id && counter <= last->counter;
    if ((p != NULL && uw_frames_seen(p, counter)) || again) {
        s->stats.replayed_n++;
        return;
    }
    if (p != NULL && p->station == from) {
        uw_frames_mark_seen(p, counter, s->now_us);
    } else if (last != NULL && is_in_vain(s, last)) {
        /* Possibly replays of many identities. A real device answers a hello: */
        uw_frames_send_hello(s, from, false);
        return;
    }
    answer(s, from, UW_FRAMES_WELCOME, id, counter);
}

static void on_answer(struct uw_secure_frames *s, uint16_t from, enum uw_frames_join kind,
                      uint64_t id, uint64_t counter, const struct uw_frames_echo *echo)
{
    struct uw_frames_peer *p = peer_of(s, id);
    if (!is_fresh(s, echo) || (p != NULL && uw_frames_seen(p, counter))) {
        s->stats.replayed_n++;
        return;
    }
    bool known = p != NULL;
    p = enter(s, id, from);
    uw_frames_mark_seen(p, counter, s->now_us);
    p->window = known ? p->window : UINT64_MAX;     /* earlier frames may be replays */
    for (uint32_t i = 0; i < ASKED_N; i++) {
        s->asked[i].tries = s->asked[i].station == from ? 0 : s->asked[i].tries;
    }
    struct uw_frames_answer *a = answer_to(s, from);
    if (a != NULL && a->owed == 0) {
        a->in_vain = 0;
        a->until_us = s->now_us;
    }
    if (kind == UW_FRAMES_WELCOME && (echo->flags & UW_FRAMES_KNOWS_YOU) == 0) {
        answer(s, from, UW_FRAMES_JOIN, id, counter);
    }
}

static void on_refused(struct uw_secure_frames *s, uint16_t from)
{
    if (from == s->lower->own) {        /* its own to another, received by its radio */
        s->stats.replayed_n++;
        return;
    }
    s->stats.refused_n++;
    report_rarely(s, UW_SECURE_PEER_REFUSED, &s->refused_tell_us, from,
                "a device has another key or belongs to another run");
}

/* Handle a join with this device's identity: an echo; a second device with a copied store; or this
 * device's store is an old copy. Counters above its own, and answers to its latest counters from
 * another station, are not echoes. */
static void on_self(struct uw_secure_frames *s, uint16_t from, enum uw_frames_join kind,
                    uint64_t counter, const struct uw_frames_echo *echo)
{
    bool elsewhere = from != s->lower->own;
    s->stats.replayed_n++;
    if (counter >= s->counter || (elsewhere && kind != UW_FRAMES_HELLO && is_fresh(s, echo))) {
        bool another = uw_frames_draw_another(s);
        warn(s, &s->identity_tell_us, from,
                       another ? "a copy of this device's store is in use: it takes a new identity"
                               : "another device has our identity: delete one counter record");
    } else if (elsewhere && kind == UW_FRAMES_HELLO) {
        /* An echo from its time at another station; a copy would answer. */
        on_hello(s, from, s->id, counter);
    }
}

/* Another device of the run has this one's address. A hello to all informs it, too. */
static void on_twin(struct uw_secure_frames *s)
{
    char text[UW_SECURE_TEXT_BYTES] = "another device has this address, give each its own: ";
    s->stats.refused_n++;
    (void)uw_link_describe(s->lower, s->lower->own, text + strlen(text));
    uw_frames_send_hello(s, UW_LINK_STATION_BROADCAST, false);
    warn(s, &s->twin_tell_us, s->lower->own, text);
}

/* A device that restarted in an old epoch gets a welcome, too, and follows. */
void uw_frames_on_join(struct uw_secure_frames *s, uint16_t from, uint32_t bytes)
{
    struct uw_ccm_frame f;
    uint8_t *p = s->in;
    if (bytes < JOIN_HEAD_BYTES + UW_CCM_TAG_BYTES) {
        s->stats.refused_n++;
        return;
    }
    enum uw_frames_join kind = (enum uw_frames_join)p[1];
    uint32_t epoch = uw_get_u32(p + 2), body = bytes - JOIN_HEAD_BYTES - UW_CCM_TAG_BYTES;
    uint64_t id = uw_get_u64(p + 6);
    uint64_t counter = uw_get_u40(p + 14);
    bool all = (p[0] & UW_FRAMES_TO_ALL) != 0;
    if (kind < UW_FRAMES_HELLO || kind > UW_FRAMES_JOIN ||
        body != (kind == UW_FRAMES_HELLO ? 0 : ECHO_BYTES) ||
        (epoch & UW_FRAMES_EPOCH_MASK) != (p[0] & UW_FRAMES_EPOCH_MASK)) {
        s->stats.refused_n++;
        return;
    }
    f.body = p + JOIN_HEAD_BYTES;
    f.body_bytes = body;
    uw_frames_begin(&f, id, counter, from, all ? UW_LINK_STATION_BROADCAST : s->lower->own, p,
                    JOIN_HEAD_BYTES);
    struct uw_frames_key *key = uw_frames_key_of(s, epoch);
    if (key == NULL || uw_ccm_open(key, &f) < 0) {
        on_refused(s, from);
        return;
    }
    struct uw_frames_echo echo = {.id = 0};
    if (kind != UW_FRAMES_HELLO) {
        echo.id = uw_get_u64(f.body);
        echo.counter = uw_get_u40(f.body + 8);
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
    if (kind == UW_FRAMES_HELLO) {
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
    send_answers(s);
}
