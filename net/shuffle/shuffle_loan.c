/* SPDX-License-Identifier: Apache-2.0 */
#include "shuffle.h"

#include "uwasa/status.h"

#define WINDOW_N 16u                /* chunks asked for at once; those that came are 32 bits */

void uw_loan_due(struct uw_shuffle *s, struct uw_loan *l, uint64_t at_us)
{
    s->due[l - s->loans] = at_us;
    s->due_us = at_us < s->due_us ? at_us : s->due_us;
}

void uw_loan_send(struct uw_shuffle *s, struct uw_loan *l, struct uw_shuffle_message *m,
                  const float *floats)
{
    const struct uw_shuffle_config *c = &s->config;
    m->to = l->theirs;
    m->from = (struct uw_loan_ref){(uint32_t)(l - s->loans), l->nonce};
    int bytes = uw_shuffle_encode(m, c->run, floats, c->buffer, c->buffer_bytes);
    if (bytes > 0) {
        c->send(c->arg, l->peer, c->buffer, (uint32_t)bytes);
    }
}

void uw_loan_say(struct uw_shuffle *s, struct uw_loan *l, enum uw_shuffle_act act)
{
    struct uw_shuffle_message m = {.act = act};
    uw_loan_send(s, l, &m, NULL);
}

static uint32_t chunks_n(const struct uw_shuffle *s, const struct uw_loan *l)
{
    return (s->config.pool->sample_n - 1u) / l->chunk_n + 1u;
}

void uw_loan_want(struct uw_shuffle *s, struct uw_loan *l)
{
    uint32_t left = chunks_n(s, l) - l->base;
    uint32_t n = left < WINDOW_N ? left : WINDOW_N;
    struct uw_shuffle_message m = {.act = UW_SHUFFLE_WANT, .base = l->base,
                                   .wanted = ~l->got & ((1u << n) - 1u), .chunk_n = l->chunk_n};
    l->asked = l->base + n;
    uw_loan_send(s, l, &m, NULL);
}

void uw_loan_serve(struct uw_shuffle *s, struct uw_loan *l, const struct uw_shuffle_message *m)
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
        uw_loan_send(s, l, &out, x + out.offset_n);
    }
}

int uw_loan_keep(struct uw_shuffle *s, struct uw_loan *l, const struct uw_shuffle_message *m)
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
    float *x = p->borrowed + (size_t)(l - s->loans) * p->sample_n;
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
        uw_loan_want(s, l);
    }
    return UW_ERR_AGAIN;
}
