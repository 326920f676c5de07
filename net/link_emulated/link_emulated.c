/* SPDX-License-Identifier: Apache-2.0 */
#include "link_emulated_path.h"

#include "uwasa/arena.h"

#include <string.h>

#define QUEUE_DEFAULT 64u
#define RETRY_US 500u           /* the lower link's queue was full */
#define HOLD_US 50000u          /* a message that the lower link refuses for so long is lost: it
                                   would block messages to other receivers */
#define DISCARDS_MAX 64u        /* discarded messages in one recv */

static bool is_near(const struct uw_link_emulated *e, uint16_t station)
{
    return e->far != NULL && !e->far(e->far_arg, station);
}

static const struct uw_emulated_cut *find_cut(const struct uw_link_emulated *e,
                                              uint16_t station)
{
    uint32_t i = 0;
    while (i < e->cuts_n && e->cuts[i].station != station) {
        i++;
    }
    return i < e->cuts_n ? &e->cuts[i] : NULL;
}

/* Is a message of so many bytes lost by a cut? */
static bool is_cut(const struct uw_link_emulated *e, uint16_t station, unsigned direction,
                   uint32_t bytes)
{
    const struct uw_emulated_cut *c = find_cut(e, station);
    if (is_near(e, station)) {
        return false;
    }
    if ((e->cut_all & direction) != 0 || c == NULL) {
        return (e->cut_all & direction) != 0;
    }
    uint32_t most = direction == UW_EMULATED_OUT && c->most_bytes != 0 ? c->most_bytes : UINT32_MAX;
    return (c->directions & direction) != 0 || bytes > most;
}

static bool has_inward_cut(const struct uw_link_emulated *e)
{
    unsigned bits = e->cut_all;
    for (uint32_t i = 0; i < e->cuts_n; i++) {
        bits |= e->cuts[i].directions;
    }
    return (bits & UW_EMULATED_IN) != 0;
}

/* Send due messages. Returns when the next one is due. */
static uint64_t release(struct uw_link_emulated *e)
{
    const struct uw_emulated_slot *s;
    while ((s = uw_emulated_path_first(&e->out)) != NULL) {
        if (s->due_us > e->now_us) {
            return s->due_us;
        }
        int rc = UW_ERR_CLOSED;
        if (s->lost) {
            uw_emulated_path_pop(&e->out);      /* counted when it was sent */
            continue;
        }
        if (is_cut(e, s->station, UW_EMULATED_OUT, s->bytes)) {
            e->stats.lost_n++;
        } else {
            rc = uw_link_send(e->lower, s->station, s + 1, s->bytes);
        }
        if (rc == UW_ERR_AGAIN && e->now_us - s->due_us < HOLD_US) {
            return e->now_us + RETRY_US;
        }
        if (rc < 0) {
            e->link.stats.dropped_n++;
        }
        uw_emulated_path_pop(&e->out);
    }
    return UINT64_MAX;
}

static int emulated_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    return uw_link_resolve(((struct uw_link_emulated *)link)->lower, address, station);
}

static int emulated_describe(struct uw_link *link, uint16_t station,
                             char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_link_describe(((struct uw_link_emulated *)link)->lower, station, text);
}

static bool emulated_hold(struct uw_link *link, uint16_t station, bool hold)
{
    return uw_link_hold(((struct uw_link_emulated *)link)->lower, station, hold);
}

/* Queue a message; it may be due at once. */
static int send_impaired(struct uw_link_emulated *e, uint16_t to, const void *buf,
                         uint32_t buf_bytes)
{
    struct uw_emulated_path *p = &e->out;
    char text[UW_LINK_ADDRESS_BYTES];
    if (uw_emulated_path_is_full(p)) {
        return UW_ERR_AGAIN;
    }
    int rc = to != UW_LINK_STATION_BROADCAST ? uw_link_describe(e->lower, to, text) : UW_OK;
    if (rc < 0) {
        return rc;
    }
    if (buf_bytes != 0) {
        memcpy(uw_emulated_path_room(p) + 1, buf, buf_bytes);
    }
    bool cut = is_cut(e, to, UW_EMULATED_OUT, buf_bytes);
    bool sent = e->medium != NULL
                    ? uw_emulated_path_admit_waiting(p, e->now_us, to, buf_bytes, cut)
                    : uw_emulated_path_admit(p, e->now_us, to, buf_bytes, cut);
    e->link.stats.dropped_n += sent ? 0 : 1;
    if (e->medium != NULL) {
        uw_emulated_medium_run(e->medium, e->now_us);
    }
    (void)release(e);
    return UW_OK;
}

static int emulated_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_link_emulated *e = (struct uw_link_emulated *)link;
    bool clear = is_near(e, to) ||
                 (uw_emulated_path_first(&e->out) == NULL && uw_emulated_path_is_clear(&e->out) &&
                  e->medium == NULL && !is_cut(e, to, UW_EMULATED_OUT, buf_bytes));
    int rc;
    if (clear) {
        rc = uw_link_send(e->lower, to, buf, buf_bytes);
        e->out.seen_n += rc == UW_OK;
    } else {
        rc = send_impaired(e, to, buf, buf_bytes);
    }
    if (rc == UW_OK) {
        link->stats.sent_n++;
        link->stats.sent_bytes += buf_bytes;
    }
    return rc;
}

/* Receive the next message that fits the receive buffer. */
static int from_lower(struct uw_link_emulated *e, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    for (;;) {
        int rc = uw_link_recv(e->lower, from, buf, cap_bytes);
        if (rc == UW_ERR_AGAIN) {
            e->arrived_bytes = e->arrived_n = 0;
        }
        bool fits = (e->burst_bytes == 0 || (uint32_t)rc <= e->burst_bytes - e->arrived_bytes) &&
                    (e->burst_n == 0 || e->arrived_n < e->burst_n);
        if (rc < 0 || fits) {
            e->arrived_bytes += rc > 0 && e->burst_bytes != 0 ? (uint32_t)rc : 0;
            e->arrived_n += rc >= 0 && e->burst_n != 0 ? 1u : 0;
            return rc;
        }
        e->stats.overflow_n++;
        e->link.stats.dropped_n++;
    }
}

/* Move messages of the lower link into the receive queue while there is room. */
static int fill(struct uw_link_emulated *e)
{
    struct uw_emulated_path *p = &e->in;
    for (uint32_t i = 0; i < DISCARDS_MAX && p->count < p->cap_n; i++) {
        uint16_t from = UW_LINK_STATION_NONE;
        int rc = from_lower(e, &from, uw_emulated_path_room(p) + 1, e->link.mtu_bytes);
        if (rc < 0 && rc != UW_ERR_TOOBIG) {
            return rc;
        }
        if (rc < 0 || !uw_emulated_path_admit(p, e->now_us, from, (uint32_t)rc,
                                              is_cut(e, from, UW_EMULATED_IN, (uint32_t)rc))) {
            e->link.stats.dropped_n++;
        }
    }
    return UW_OK;
}

static int receive_queued(struct uw_link_emulated *e, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    const struct uw_emulated_slot *s;
    while ((s = uw_emulated_path_first(&e->in)) != NULL && s->due_us <= e->now_us) {
        int rc = s->bytes <= cap_bytes ? (int)s->bytes : UW_ERR_TOOBIG;
        bool lost = is_cut(e, s->station, UW_EMULATED_IN, s->bytes);
        if (!lost && rc > 0) {
            memcpy(buf, s + 1, s->bytes);
        }
        *from = s->station;
        uw_emulated_path_pop(&e->in);
        if (!lost) {
            return rc;
        }
        e->stats.lost_n++;
        e->link.stats.dropped_n++;
    }
    return UW_ERR_AGAIN;
}

static int emulated_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_link_emulated *e = (struct uw_link_emulated *)link;
    bool clear = uw_emulated_path_first(&e->in) == NULL && uw_emulated_path_is_clear(&e->in) &&
                 link->mtu_bytes == e->lower->mtu_bytes && !has_inward_cut(e);
    int rc;
    if (clear) {
        rc = from_lower(e, from, buf, cap_bytes);
        e->in.seen_n += rc >= 0;
    } else {
        int lower_rc = fill(e);
        rc = receive_queued(e, from, buf, cap_bytes);
        rc = rc == UW_ERR_AGAIN && lower_rc < 0 ? lower_rc : rc;
    }
    if (rc >= 0) {
        link->stats.received_n++;
        link->stats.received_bytes += (uint64_t)rc;
    } else if (rc == UW_ERR_TOOBIG) {
        link->stats.dropped_n++;
    }
    return rc;
}

static uint64_t emulated_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_link_emulated *e = (struct uw_link_emulated *)link;
    if (now_us > e->now_us) {
        e->now_us = now_us;
    }
    if (e->medium != NULL) {
        uw_emulated_medium_run(e->medium, e->now_us);
    }
    uint64_t next = release(e);
    if (e->out.waiting_n != 0 && e->medium->free_at_us < next) {
        next = e->medium->free_at_us;
    }
    uint64_t lower = uw_link_step(e->lower, now_us);
    next = lower < next ? lower : next;
    const struct uw_emulated_slot *arriving = uw_emulated_path_first(&e->in);
    if (arriving != NULL && arriving->due_us < next) {
        next = arriving->due_us;
    }
    return next;
}

static void emulated_deinit(struct uw_link *link)
{
    struct uw_link_emulated *e = (struct uw_link_emulated *)link;
    if (e->medium != NULL) {
        uw_emulated_medium_part(e->medium, e);
    }
    e->medium = NULL;
    e->lower = NULL;
    link->ops = NULL;
}

static void emulated_forget(struct uw_link *link, uint16_t station)
{
    uw_link_forget(((struct uw_link_emulated *)link)->lower, station);
}

static const struct uw_link_ops emulated_ops = {
    .name = "emulated",
    .resolve = emulated_resolve,
    .describe = emulated_describe,
    .hold = emulated_hold,
    .send = emulated_send,
    .recv = emulated_recv,
    .step = emulated_step,
    .deinit = emulated_deinit,
    .forget = emulated_forget,
};

int uw_link_emulated_impair(struct uw_link_emulated *e, const struct uw_impairment *send,
                            const struct uw_impairment *receive)
{
    struct uw_emulated_path out = e->out;
    struct uw_emulated_path in = e->in;
    int rc = send != NULL ? uw_emulated_path_set(&out, send) : UW_OK;
    if (rc == UW_OK && receive != NULL) {
        rc = uw_emulated_path_set(&in, receive);
    }
    if (rc == UW_OK) {
        e->out = out;
        e->in = in;
    }
    return rc;
}

static int set_cut(struct uw_link_emulated *e, uint16_t station, uint8_t directions,
                   uint32_t most_bytes)
{
    const struct uw_emulated_cut *known = find_cut(e, station);
    uint32_t at = known != NULL ? (uint32_t)(known - e->cuts) : e->cuts_n;
    if (directions == 0 && most_bytes == 0) {
        if (known != NULL) {
            e->cuts[at] = e->cuts[--e->cuts_n];
        }
        return UW_OK;
    }
    if (at == UW_EMULATED_CUTS_MAX) {
        return UW_ERR_FULL;
    }
    e->cuts[at] = (struct uw_emulated_cut){most_bytes, station, directions};
    e->cuts_n += known == NULL;
    return UW_OK;
}

int uw_link_emulated_cut(struct uw_link_emulated *e, uint16_t station, unsigned directions)
{
    uint8_t bits = (uint8_t)(directions & UW_EMULATED_BOTH);
    if (station == UW_LINK_STATION_BROADCAST) {
        e->cut_all = bits;
        return UW_OK;
    }
    const struct uw_emulated_cut *c = find_cut(e, station);
    return set_cut(e, station, bits, c != NULL ? c->most_bytes : 0);
}

int uw_link_emulated_narrow(struct uw_link_emulated *e, uint16_t station, uint32_t most_bytes)
{
    const struct uw_emulated_cut *c = find_cut(e, station);
    return set_cut(e, station, c != NULL ? c->directions : 0, most_bytes);
}

static uint32_t out_queue(const struct uw_link_emulated_config *c)
{
    return c->queue_n != 0 ? c->queue_n : QUEUE_DEFAULT;
}

static uint32_t mtu_of(const struct uw_link_emulated_config *c)
{
    return c->mtu_bytes != 0 && c->mtu_bytes < c->lower->mtu_bytes ? c->mtu_bytes
                                                                    : c->lower->mtu_bytes;
}

static uint32_t in_queue(const struct uw_link_emulated_config *c)
{
    return c->receive_queue_n != 0 ? c->receive_queue_n : 1u;
}

size_t uw_link_emulated_bytes(const struct uw_link_emulated_config *config)
{
    if (config == NULL || config->lower == NULL || config->lower->ops == NULL ||
        out_queue(config) > INT32_MAX || in_queue(config) > INT32_MAX) {
        return SIZE_MAX;
    }
    size_t n = (size_t)out_queue(config) + in_queue(config);
    return uw_size_mul(n, uw_emulated_path_slot_bytes(mtu_of(config)) + sizeof(uint32_t));
}

int uw_link_emulated_init(struct uw_link_emulated *e, const struct uw_link_emulated_config *config)
{
    memset(e, 0, sizeof *e);
    size_t need = uw_link_emulated_bytes(config);
    if (need == SIZE_MAX) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL || config->memory_bytes < need) {
        return UW_ERR_NOMEM;
    }
    uint32_t out_n = out_queue(config);
    uint32_t in_n = in_queue(config);
    e->link.mtu_bytes = mtu_of(config);
    size_t slot_bytes = uw_emulated_path_slot_bytes(e->link.mtu_bytes);
    e->out.slot_bytes = e->in.slot_bytes = slot_bytes;
    e->out.stats = e->in.stats = &e->stats;
    uint8_t *slots = config->memory;
    uint32_t *heap = (uint32_t *)(void *)(slots + slot_bytes * ((size_t)out_n + in_n));
    uw_emulated_path_bind(&e->out, slots, heap, out_n, uw_rng_mix(config->seed, 0));
    uw_emulated_path_bind(&e->in, slots + slot_bytes * out_n, heap + out_n, in_n,
                          uw_rng_mix(config->seed, 1));
    int rc = uw_link_emulated_impair(e, &config->send, &config->receive);
    if (rc < 0) {
        return rc;
    }
    if (config->far != NULL && !uw_emulated_path_is_clear(&e->in)) {
        return UW_ERR_INVALID;
    }
    e->far = config->far;
    e->far_arg = config->far_arg;
    e->lower = config->lower;
    e->burst_bytes = config->burst_bytes;
    e->burst_n = config->burst_n;
    uint32_t mtu_bytes = e->link.mtu_bytes;
    e->link = *config->lower;
    e->link.mtu_bytes = mtu_bytes;
    e->link.reliable = false;
    e->link.stats = (struct uw_link_stats){0};
    if (config->far == NULL && config->send.rate_bits_per_s != 0) {
        e->link.rate_bits_per_s = config->send.rate_bits_per_s;
    }
    e->link.burst_bytes = e->burst_bytes != 0 ? e->burst_bytes : e->link.burst_bytes;
    e->link.burst_n = e->burst_n != 0 ? e->burst_n : e->link.burst_n;
    e->link.ops = &emulated_ops;
    if (config->medium != NULL) {
        uw_emulated_medium_join(config->medium, e);
    }
    return UW_OK;
}
