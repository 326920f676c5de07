/* SPDX-License-Identifier: Apache-2.0 */
#include "shuffle.h"

#include "base/backoff.h"

#include "uwasa/status.h"

#include <string.h>

#define REPEAT_FIRST_US 100000u
#define REPEAT_DOUBLINGS 3u
#define PACE_US 20000u
#define WINDOW_N 16u                /* chunks requested at once, below the 32 bits of a bitmap */

uint64_t uw_shuffle_hold_us(uint64_t loan_us)
{
    return loan_us + loan_us / 4u;
}

/* A lease that takes longer to start is abandoned. */
static uint64_t starting_us(const struct uw_shuffle *s)
{
    return s->config.loan_us / 4u;
}

static uint64_t until_us(const struct uw_shuffle *s, const struct uw_lease *l)
{
    return l->since_us + s->config.loan_us;
}

int uw_shuffle_place(struct uw_shuffle *s, struct uw_arena *arena,
                     const struct uw_shuffle_config *config)
{
    const uint32_t slots_n = config->pool != NULL ? config->pool->config.slots_n : 0;
    const size_t bytes[2] = {uw_size_mul(slots_n, sizeof *s->leases),
                             uw_size_mul(slots_n, sizeof *s->due)};
    void *part[2];
    *s = (struct uw_shuffle){.config = *config};
    if (config->pool == NULL) {
        return UW_OK;
    }
    int rc = uw_arena_take_each(arena, 2, bytes, part);
    s->leases = part[0];
    s->due = part[1];
    if (s->due != NULL) {
        memset(s->due, 0xff, slots_n * sizeof *s->due);
        for (uint32_t j = 0; j < config->pool->movable_n; j++) {
            uw_sample_pool_rest(config->pool, j);
        }
    }
    uw_rng_seed(&s->rng, config->seed);
    return rc;
}

static void set_due(struct uw_shuffle *s, struct uw_lease *l, uint64_t at_us)
{
    s->due[l - s->leases] = at_us;
    s->due_us = at_us < s->due_us ? at_us : s->due_us;
}

static void send_about(struct uw_shuffle *s, struct uw_lease *l, struct uw_shuffle_message *m,
                  const float *floats)
{
    const struct uw_shuffle_config *c = &s->config;
    m->to = l->theirs;
    m->from = (struct uw_lease_ref){(uint32_t)(l - s->leases), l->nonce};
    int bytes = uw_shuffle_encode(m, c->run, floats, c->buffer, c->buffer_bytes);
    if (bytes > 0) {
        c->send(c->arg, l->peer, c->buffer, (uint32_t)bytes);
    }
}

static void send_act(struct uw_shuffle *s, struct uw_lease *l, enum uw_shuffle_act act)
{
    struct uw_shuffle_message m = {.act = act};
    send_about(s, l, &m, NULL);
}

static uint32_t chunks_n(const struct uw_shuffle *s, const struct uw_lease *l)
{
    return (s->config.pool->sample_n - 1u) / l->chunk_n + 1u;
}

static void send_want(struct uw_shuffle *s, struct uw_lease *l)
{
    uint32_t left = chunks_n(s, l) - l->base;
    uint32_t n = left < WINDOW_N ? left : WINDOW_N;
    struct uw_shuffle_message m = {.act = UW_SHUFFLE_WANT, .base = l->base,
                                   .wanted = ~l->got & ((1u << n) - 1u), .chunk_n = l->chunk_n};
    l->asked = l->base + n;
    send_about(s, l, &m, NULL);
}

static void serve(struct uw_shuffle *s, struct uw_lease *l, const struct uw_shuffle_message *m)
{
    struct uw_sample_pool *p = s->config.pool;
    struct uw_shuffle_message out = {.act = UW_SHUFFLE_DATA};
    const float *x;
    uint32_t n = chunks_n(s, l);
    if (uw_sample_pool_home(p, l->home, &x, &out.label) < 0) {
        return;
    }
    for (uint32_t i = 0; i < 32u && m->base < n && m->base + i < n; i++) {
        if ((m->wanted >> i & 1u) == 0) {
            continue;
        }
        out.offset_n = (m->base + i) * l->chunk_n;
        uint32_t left = p->sample_n - out.offset_n;
        out.count_n = left < l->chunk_n ? left : l->chunk_n;
        s->sent_bytes += (uint64_t)out.count_n * sizeof(float);
        send_about(s, l, &out, x + out.offset_n);
    }
}

static int keep(struct uw_shuffle *s, struct uw_lease *l, const struct uw_shuffle_message *m)
{
    struct uw_sample_pool *p = s->config.pool;
    uint32_t chunk = m->offset_n / l->chunk_n;
    uint32_t left = m->offset_n < p->sample_n ? p->sample_n - m->offset_n : 0;
    uint32_t expected = left < l->chunk_n ? left : l->chunk_n;
    if (m->offset_n % l->chunk_n != 0 || m->count_n != expected || m->label >= p->base.classes) {
        return UW_ERR_INVALID;
    }
    if (chunk < l->base || chunk - l->base >= 32u || (l->got >> (chunk - l->base) & 1u) != 0) {
        return UW_ERR_AGAIN;    /* it is here */
    }
    float *x = p->borrowed + (size_t)(l - s->leases) * p->sample_n;
    if (!uw_shuffle_floats(m, x + m->offset_n)) {
        return UW_ERR_NONFINITE;
    }
    l->label = m->label;
    l->got |= 1u << (chunk - l->base);
    l->tries = 0;
    while ((l->got & 1u) != 0) {
        l->got >>= 1;
        l->base++;
    }
    if (l->base == chunks_n(s, l)) {
        return UW_OK;
    }
    if (l->base == l->asked) {
        send_want(s, l);
    }
    return UW_ERR_AGAIN;
}

static bool is_starting(const struct uw_lease *l)
{
    return l->state == UW_LEASE_OFFERED || l->state == UW_LEASE_SENDING ||
           l->state == UW_LEASE_PULLING || l->state == UW_LEASE_RECEIVING;
}

static bool is_own(const struct uw_lease *l)
{
    return l->state != UW_LEASE_RECEIVING;
}

/* Add a lease to the list of those that are starting, or remove it. */
static void list(struct uw_shuffle *s, const struct uw_lease *l, bool enter)
{
    uint32_t *n = is_own(l) ? &s->own_n : &s->other_n;
    uint32_t slot = (uint32_t)(l - s->leases), at = 0;
    if (!is_starting(l)) {
        return;
    }
    if (enter) {
        s->starting[s->own_n + s->other_n] = slot;
        ++*n;
        return;
    }
    --*n;
    while (s->starting[at] != slot) {
        at++;
    }
    s->starting[at] = s->starting[s->own_n + s->other_n];
}

static void set_state(struct uw_shuffle *s, struct uw_lease *l, enum uw_lease_state state)
{
    list(s, l, false);
    l->state = state;
    l->tries = 0;
    l->repeat_us = s->now_us + REPEAT_FIRST_US;
    list(s, l, true);
    set_due(s, l, s->now_us);
}

/* End a lease; the own sample is drawn again. */
static void end_lease(struct uw_shuffle *s, struct uw_lease *l)
{
    if (l->away) {
        uw_sample_pool_restore(s->config.pool, l->home);
    }
    set_state(s, l, UW_LEASE_FREE);
    *l = (struct uw_lease){.state = UW_LEASE_FREE};
    s->due[l - s->leases] = UINT64_MAX;
}

/* Drop a lease before any sample is lent. The peer is informed now, or when it asks. */
static void abandon(struct uw_shuffle *s, struct uw_lease *l)
{
    send_act(s, l, UW_SHUFFLE_END);
    end_lease(s, l);
}

/* Stop drawing the peer's sample, and request the own one. */
static void close_lease(struct uw_shuffle *s, struct uw_lease *l)
{
    uw_sample_pool_rest(s->config.pool, l->home);
    set_state(s, l, UW_LEASE_CLOSING);
    send_act(s, l, UW_SHUFFLE_END);
}

static void lend(struct uw_shuffle *s, struct uw_lease *l)
{
    l->away = true;
    l->back_us = s->now_us + uw_shuffle_hold_us(s->config.loan_us);
    s->out_n++;
}

static void borrow(struct uw_shuffle *s, struct uw_lease *l)
{
    uw_sample_pool_borrow(s->config.pool, l->home, (uint32_t)(l - s->leases), l->label,
                          until_us(s, l) - s->behind_us);
    s->in_n++;
    set_state(s, l, UW_LEASE_STANDING);
}

/* Is a sample at home part of a lease that is starting? */
static bool is_promised(const struct uw_shuffle *s, uint32_t home)
{
    for (uint32_t i = 0; i < s->own_n + s->other_n; i++) {
        if (s->leases[s->starting[i]].home == home) {
            return true;
        }
    }
    return false;
}

/* A free slot and a sample to lend for it; NULL: none. */
static struct uw_lease *new_lease(struct uw_shuffle *s, uint32_t peer)
{
    struct uw_sample_pool *p = s->config.pool;
    uint32_t slots_n = p->config.slots_n, k = 0, tries = 0;
    while (k < slots_n && (s->due[(s->cursor + k) % slots_n] != UINT64_MAX ||
                           uw_sample_pool_room(p, (s->cursor + k) % slots_n) == NULL)) {
        k++;
    }
    if (k == slots_n) {
        return NULL;
    }
    struct uw_lease *l = &s->leases[(s->cursor + k) % slots_n];
    uint32_t j = uw_rng_below(&s->rng, p->movable_n);
    while (!uw_sample_pool_is_home(p, j) || is_promised(s, j)) {
        j = j + 1u < p->movable_n ? j + 1u : 0;
        if (++tries == p->movable_n) {
            return NULL;
        }
    }
    s->cursor = (s->cursor + k + 1u) % slots_n;
    *l = (struct uw_lease){.peer = peer, .home = j, .since_us = s->now_us,
                          .nonce = uw_rng_mix(s->key, ++s->nonces)};
    return l;
}

static uint32_t largest_chunk_n(const struct uw_shuffle *s)
{
    uint32_t n = (s->config.buffer_bytes - UW_SHUFFLE_DATA_BYTES) / 4u;
    return n < s->config.pool->sample_n ? n : s->config.pool->sample_n;
}

static uint32_t lease_ms(const struct uw_shuffle *s)
{
    return (uint32_t)(s->config.loan_us / 1000u);
}

static void send_offer(struct uw_shuffle *s, struct uw_lease *l)
{
    const struct uw_sample_pool *p = s->config.pool;
    struct uw_shuffle_message m = {.act = UW_SHUFFLE_OFFER, .sample_n = p->sample_n,
                                   .classes = p->base.classes, .chunk_n = largest_chunk_n(s),
                                   .lease_ms = lease_ms(s)};
    send_about(s, l, &m, NULL);
}

static void repeat(struct uw_shuffle *s, struct uw_lease *l)
{
    if (s->now_us < l->repeat_us) {
        return;
    }
    switch (l->state) {
    case UW_LEASE_OFFERED:
        send_offer(s, l);
        break;
    case UW_LEASE_PULLING:
    case UW_LEASE_RECEIVING:
        send_want(s, l);
        break;
    case UW_LEASE_READY:
        send_act(s, l, UW_SHUFFLE_READY);
        break;
    case UW_LEASE_CLOSING:
        send_act(s, l, UW_SHUFFLE_END);
        break;
    case UW_LEASE_STANDING:
        send_act(s, l, UW_SHUFFLE_COMMIT);
        break;
    case UW_LEASE_SENDING:
    case UW_LEASE_FREE:
    default:
        break;
    }
    l->repeat_us = s->now_us + uw_backoff_us(2u * REPEAT_FIRST_US, &l->tries, REPEAT_DOUBLINGS);
}

static void run_lease(struct uw_shuffle *s, struct uw_lease *l)
{
    uint64_t end_us = l->state == UW_LEASE_CLOSING ? l->back_us
                      : is_starting(l)            ? l->since_us + starting_us(s)
                                                  : until_us(s, l);
    bool asks = l->state != UW_LEASE_SENDING && (l->state != UW_LEASE_STANDING || l->unacked);
    if (s->now_us >= end_us) {
        if (l->state == UW_LEASE_CLOSING) {
            end_lease(s, l);
        } else if (is_starting(l)) {
            abandon(s, l);
        } else {
            close_lease(s, l);
        }
        return;
    }
    if (asks) {
        repeat(s, l);
    }
    set_due(s, l, asks && l->repeat_us < end_us ? l->repeat_us : end_us);
}

/* Offer leases at a rate that fills the slots twice a term: offers of peers fill them, too. */
static void offer(struct uw_shuffle *s)
{
    uint64_t pause_us = s->config.loan_us / 2u / s->config.pool->config.slots_n;
    s->offer_us = s->now_us + (pause_us > PACE_US ? pause_us : PACE_US);
    if (s->own_n == UW_SHUFFLE_STARTING_MOST) {
        return;
    }
    uint32_t peer = s->config.pick(s->config.arg, s->round++);
    for (uint64_t n = 1u + PACE_US / (pause_us + 1u);
         n > 0 && s->own_n < UW_SHUFFLE_STARTING_MOST; n--) {
        struct uw_lease *l = peer != 0 ? new_lease(s, peer) : NULL;
        if (l == NULL) {
            return;
        }
        set_state(s, l, UW_LEASE_OFFERED);
        send_offer(s, l);
    }
}

static void start(struct uw_shuffle *s)
{
    s->started = true;
    s->open_us = s->offer_us = s->now_us + uw_shuffle_hold_us(s->config.loan_us);
    s->key = uw_rng_mix(s->config.seed, s->now_us);
    s->due_us = UINT64_MAX;
}

/* From now on no peer can have a sample from before the start. */
static void open_pool(struct uw_shuffle *s)
{
    s->open = true;
    for (uint32_t j = 0; j < s->config.pool->movable_n; j++) {
        uw_sample_pool_restore(s->config.pool, j);
    }
}

uint64_t uw_shuffle_step(struct uw_shuffle *s, uint64_t now_us, uint64_t behind_us)
{
    if (s->config.pool == NULL) {
        return UINT64_MAX;
    }
    s->now_us = now_us;
    s->behind_us = behind_us;
    if (!s->started) {
        start(s);
    }
    if (!s->open && now_us >= s->open_us) {
        open_pool(s);
    }
    if (now_us >= s->due_us) {
        s->due_us = UINT64_MAX;
        for (uint32_t k = 0; k < s->config.pool->config.slots_n; k++) {
            if (now_us >= s->due[k]) {
                run_lease(s, &s->leases[k]);
            } else if (s->due[k] < s->due_us) {
                s->due_us = s->due[k];
            }
        }
    }
    if (s->open && !s->stopped && now_us >= s->offer_us) {
        offer(s);
    }
    return s->due_us < s->offer_us || s->stopped ? s->due_us : s->offer_us;
}

/* ---- messages of peers ---- */

/* Answer about a lease that this node does not have, or not in that state: it draws nothing. */
static void deny(struct uw_shuffle *s, uint32_t to, const struct uw_shuffle_message *m)
{
    const struct uw_shuffle_config *c = &s->config;
    const struct uw_shuffle_message over = {.act = UW_SHUFFLE_OVER, .to = m->from,
                                            .from = m->to};
    int bytes = uw_shuffle_encode(&over, c->run, NULL, c->buffer, c->buffer_bytes);
    if (bytes > 0) {
        c->send(c->arg, to, c->buffer, (uint32_t)bytes);
    }
}

static void on_offer(struct uw_shuffle *s, uint32_t from, const struct uw_shuffle_message *m)
{
    const struct uw_sample_pool *p = s->config.pool;
    for (uint32_t i = 0; i < s->own_n + s->other_n; i++) {
        const struct uw_lease *l = &s->leases[s->starting[i]];
        if (l->peer == from && l->theirs.nonce == m->from.nonce) {
            return;     /* repeated; its sender denies a late one */
        }
    }
    bool fits = s->open && !s->stopped && s->other_n < UW_SHUFFLE_STARTING_MOST &&
                m->sample_n == p->sample_n && m->classes == p->base.classes &&
                m->lease_ms == lease_ms(s) && m->from.nonce != 0;
    struct uw_lease *l = fits ? new_lease(s, from) : NULL;
    if (l == NULL) {
        const struct uw_shuffle_message offer = {.from = m->from};  /* no lease of this node */
        deny(s, from, &offer);
        return;
    }
    uint32_t chunk_n = largest_chunk_n(s);
    l->theirs = m->from;
    l->chunk_n = m->chunk_n < chunk_n ? m->chunk_n : chunk_n;
    set_state(s, l, UW_LEASE_RECEIVING);
    send_want(s, l);
}

static void on_want(struct uw_shuffle *s, struct uw_lease *l, const struct uw_shuffle_message *m)
{
    if (l->state == UW_LEASE_OFFERED && m->chunk_n <= largest_chunk_n(s)) {
        l->theirs = m->from;
        l->chunk_n = m->chunk_n;
        set_state(s, l, UW_LEASE_SENDING);
    }
    if (l->state == UW_LEASE_SENDING || l->state == UW_LEASE_READY) {
        serve(s, l, m);
    }
}

static void on_data(struct uw_shuffle *s, struct uw_lease *l, const struct uw_shuffle_message *m)
{
    if (l->state != UW_LEASE_RECEIVING && l->state != UW_LEASE_PULLING) {
        return;
    }
    l->repeat_us = s->now_us + REPEAT_FIRST_US;
    int rc = keep(s, l, m);
    if (rc == UW_ERR_AGAIN) {
        return;
    }
    if (rc < 0 || s->now_us >= l->since_us + starting_us(s)) {
        abandon(s, l);
    } else if (l->state == UW_LEASE_RECEIVING) {
        uw_sample_pool_rest(s->config.pool, l->home);
        lend(s, l);
        set_state(s, l, UW_LEASE_READY);
        send_act(s, l, UW_SHUFFLE_READY);
    } else {
        lend(s, l);
        borrow(s, l);
        l->unacked = true;
        send_act(s, l, UW_SHUFFLE_COMMIT);
    }
}

static void on_ready(struct uw_shuffle *s, struct uw_lease *l)
{
    if (l->state == UW_LEASE_SENDING) {
        set_state(s, l, UW_LEASE_PULLING);
        send_want(s, l);
    }
}

static void on_commit(struct uw_shuffle *s, struct uw_lease *l)
{
    if (l->state == UW_LEASE_READY && s->now_us < until_us(s, l)) {
        borrow(s, l);
    }
    if (l->state == UW_LEASE_STANDING) {
        send_act(s, l, UW_SHUFFLE_DONE);
    }
}

/* Does a message belong to this lease? An offered lease has no peer's side yet: the first answer
 * sets it. */
static bool concerns(const struct uw_lease *l, uint32_t from, const struct uw_shuffle_message *m)
{
    bool offered = l->state == UW_LEASE_OFFERED &&
                   (m->act == UW_SHUFFLE_WANT || m->act == UW_SHUFFLE_OVER);
    return l->state != UW_LEASE_FREE && l->nonce == m->to.nonce && l->peer == from &&
           (offered || (l->theirs.nonce == m->from.nonce && l->theirs.slot == m->from.slot));
}

void uw_shuffle_receive(struct uw_shuffle *s, uint32_t from, const struct uw_shuffle_message *m,
                        uint64_t now_us)
{
    if (s->config.pool == NULL || !s->started) {
        return;
    }
    s->now_us = now_us;
    if (m->act == UW_SHUFFLE_OFFER) {
        on_offer(s, from, m);
        return;
    }
    struct uw_lease *l =
        m->to.slot < s->config.pool->config.slots_n ? &s->leases[m->to.slot] : NULL;
    if (l == NULL || !concerns(l, from, m)) {
        if (m->act != UW_SHUFFLE_OVER && m->act != UW_SHUFFLE_DATA) {
            deny(s, from, m);
        }
        return;
    }
    switch (m->act) {
    case UW_SHUFFLE_WANT:
        on_want(s, l, m);
        break;
    case UW_SHUFFLE_DATA:
        on_data(s, l, m);
        break;
    case UW_SHUFFLE_READY:
        on_ready(s, l);
        break;
    case UW_SHUFFLE_COMMIT:
        on_commit(s, l);
        break;
    case UW_SHUFFLE_DONE:
        l->unacked = false;
        break;
    case UW_SHUFFLE_END:
        uw_sample_pool_rest(s->config.pool, l->home);   /* before the peer is informed */
        deny(s, from, m);
        l->away = true;
        end_lease(s, l);
        break;
    case UW_SHUFFLE_OVER:
        end_lease(s, l);
        break;
    case UW_SHUFFLE_OFFER:
    default:
        break;
    }
}

void uw_shuffle_stop(struct uw_shuffle *s)
{
    if (s->config.pool == NULL || s->stopped) {
        return;
    }
    s->stopped = true;
    for (uint32_t k = 0; k < s->config.pool->config.slots_n; k++) {
        struct uw_lease *l = &s->leases[k];
        if (is_starting(l)) {
            abandon(s, l);
        } else if (l->state == UW_LEASE_READY || l->state == UW_LEASE_STANDING) {
            close_lease(s, l);
        }
    }
}
