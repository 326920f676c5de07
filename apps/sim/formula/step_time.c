/* SPDX-License-Identifier: Apache-2.0 */
#include "step_inner.h"

#include <stdlib.h>

uint32_t uw_step_buckets(const struct uw_step_config *c, struct uw_step_bucket *buckets)
{
    uint32_t n = 0;
    bool open = false;
    for (uint32_t i = c->layers_n; i-- > 0;) {
        if (c->layers[i].params_n == 0) {
            continue;
        }
        if (!open) {
            buckets[n++] = (struct uw_step_bucket){.layers_end = i + 1};
        }
        buckets[n - 1].layer = i;
        buckets[n - 1].size_n += c->layers[i].params_n;
        open = buckets[n - 1].size_n < c->bucket_n;
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        struct uw_step_bucket last = buckets[n - 1 - i];
        buckets[n - 1 - i] = buckets[i];
        buckets[i] = last;
    }
    return n;
}

/* One message each way, all at the same time. */
static int partner_message(const struct uw_step_config *c, uint32_t n, struct uw_step_messages *m)
{
    m->list = malloc(sizeof *m->list);
    if (m->list == NULL) {
        return UW_ERR_NOMEM;
    }
    m->list_n = 1;
    m->list[0] = (struct uw_step_message){.n = n, .adds = true};
    m->sent_n = n;
    m->seconds = c->network.latency_s + uw_allreduce_wire_s(&c->network, n) +
                 sizeof(float) * (double)n * c->network.reduce_s;
    return UW_OK;
}

static enum uw_allreduce_kind kind_of(const struct uw_step_config *c, uint32_t n, double *at)
{
    if (c->exchange != UW_STEP_HYBRID) {
        return c->kind;
    }
    double doubling = uw_allreduce_seconds(UW_ALLREDUCE_DOUBLING, c->nodes_n, n, &c->network, at);
    double halving = uw_allreduce_seconds(UW_ALLREDUCE_HALVING, c->nodes_n, n, &c->network, at);
    return doubling < halving ? UW_ALLREDUCE_DOUBLING : UW_ALLREDUCE_HALVING;
}

int uw_step_messages(const struct uw_step_config *c, uint32_t n, struct uw_step_messages *m)
{
    uint32_t p = c->nodes_n;
    *m = (struct uw_step_messages){.list = NULL};
    if (c->exchange == UW_STEP_PARTNER) {
        return partner_message(c, n, m);
    }
    double *at = malloc(2u * p * sizeof *at);
    if (at == NULL) {
        return UW_ERR_NOMEM;
    }
    enum uw_allreduce_kind kind = kind_of(c, n, at);
    m->seconds = uw_allreduce_seconds(kind, p, n, &c->network, at);
    free(at);
    m->list_n = uw_allreduce_steps_n(kind, p);
    m->list = calloc(m->list_n, sizeof *m->list);
    if (m->list == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t k = 0; k < m->list_n; k++) {
        for (uint32_t rank = 0; rank < p; rank++) {
            struct uw_allreduce_step s = uw_allreduce_step(kind, p, rank, n, k);
            m->list[k].n = s.recv_n > m->list[k].n ? s.recv_n : m->list[k].n;
            m->list[k].adds = m->list[k].adds || (s.recv_n > 0 && s.take != UW_TAKE_COPY);
            m->sent_n += (double)s.send_n / p;
        }
    }
    return UW_OK;
}

static bool is_valid(const struct uw_step_config *c)
{
    bool sweeps = c->exchange == UW_STEP_ALLREDUCE && c->kind >= UW_ALLREDUCE_SWEEP;
    return c->layers_n > 0 && c->nodes_n > 0 && c->nodes_n < UINT16_MAX && c->batch_n > 0 &&
           c->macs_per_s > 0.0 && c->half_batch_n >= 0.0 && c->interference >= 0.0 && !sweeps &&
           !c->network.shared && c->network.slower == NULL && c->network.early_n == 0;
}

/* The exchange of bucket after bucket. */
static int add_network(const struct uw_step_config *c, const struct uw_step_bucket *buckets,
                       uint32_t buckets_n, struct uw_step_time *t)
{
    for (uint32_t i = 0; i < buckets_n; i++) {
        struct uw_step_messages m;
        int rc = uw_step_messages(c, buckets[i].size_n, &m);
        if (rc < 0) {
            return rc;
        }
        t->network_s += m.seconds;
        t->sent_bytes += sizeof(float) * m.sent_n;
        for (uint32_t k = 0; k < m.list_n; k++) {
            t->busiest_bytes += sizeof(float) * (double)m.list[k].n;
        }
        free(m.list);
    }
    return UW_OK;
}

int uw_step_time(const struct uw_step_config *c, struct uw_step_time *t)
{
    *t = (struct uw_step_time){.step_s = 0.0};
    if (!is_valid(c)) {
        return UW_ERR_INVALID;
    }
    for (uint32_t i = 0; i < c->layers_n; i++) {
        t->compute_s += uw_step_compute_s(c, c->layers[i].forward);
        t->compute_s += uw_step_compute_s(c, c->layers[i].backward);
    }
    t->step_s = t->compute_s;
    struct uw_step_bucket *buckets = calloc(c->layers_n, sizeof *buckets);
    if (buckets == NULL) {
        return UW_ERR_NOMEM;
    }
    uint32_t n = uw_step_buckets(c, buckets);
    bool network = c->nodes_n > 1 && n > 0;
    int rc = network ? add_network(c, buckets, n, t) : UW_OK;
    t->step_s += t->network_s;
    if (rc == UW_OK && !(t->step_s * (1.0 + c->interference) <= UW_STEP_SECONDS_MAX)) {
        rc = UW_ERR_TOOBIG;     /* NaN is, too: what is played next must come to an end */
    }
    if (rc == UW_OK && network && c->overlap) {
        rc = uw_step_overlap(c, buckets, n, &t->step_s);
    }
    free(buckets);
    return rc;
}

double uw_step_speed_up(double one_s, uint32_t one_batch_n, double step_s, uint32_t batch_n,
                        uint32_t nodes_n)
{
    return one_s / step_s * ((double)batch_n / (double)one_batch_n) * (double)nodes_n;
}
