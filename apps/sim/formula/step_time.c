/* SPDX-License-Identifier: Apache-2.0
 *
 * With overlap, simulates one node's line and computation, event by event. All nodes do the same at
 * the same time: when a message has left this node's line, the one sent to it has left its sender's
 * and arrives latency_s later. */
#include "uwasa/sim_step_time.h"

#include <math.h>
#include <stdlib.h>

#define STEPS_N 8u                  /* simulated */
#define COUNTED_N 4u                /* the last ones are measured: by then steps (nearly) repeat */
#define NONE UINT32_MAX

struct bucket {
    uint32_t layer, layers_end;     /* it holds the parameters of layer .. layers_end - 1 */
    uint32_t size_n;
    uint32_t first, fragments_n, left;      /* fragments; those not averaged yet */
};

/* What a node sends in one step of an exchange. */
struct message {
    uint32_t n;
    bool adds;                      /* the receiver adds it to its own values */
};

struct messages {
    struct message *list;           /* [list_n] of the heap */
    uint32_t list_n;
    double sent_n;                  /* floats, the mean over the nodes */
    double seconds;                 /* of the exchange alone */
};

/* Seconds that products of a sample take for the minibatch. */
static double compute_time_s(const struct uw_step_config *c, double products)
{
    return products * ((double)c->batch_n + c->half_batch_n) / c->macs_per_s;
}

/* Fill buckets [layers_n], in the order of the forward pass. Returns their number. */
static uint32_t list_buckets(const struct uw_step_config *c, struct bucket *buckets)
{
    uint32_t n = 0;
    bool open = false;
    for (uint32_t i = c->layers_n; i-- > 0;) {
        if (c->layers[i].params_n == 0) {
            continue;
        }
        if (!open) {
            buckets[n++] = (struct bucket){.layers_end = i + 1};
        }
        buckets[n - 1].layer = i;
        buckets[n - 1].size_n += c->layers[i].params_n;
        open = buckets[n - 1].size_n < c->bucket_n;
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        struct bucket last = buckets[n - 1 - i];
        buckets[n - 1 - i] = buckets[i];
        buckets[i] = last;
    }
    return n;
}

/* One message each way, all at the same time. */
static int partner_message(const struct uw_step_config *c, uint32_t n, struct messages *m)
{
    m->list = malloc(sizeof *m->list);
    if (m->list == NULL) {
        return UW_ERR_NOMEM;
    }
    m->list_n = 1;
    m->list[0] = (struct message){.n = n, .adds = true};
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

/* List the messages of an exchange of n floats, with more than one node. The caller frees list.
 * Returns UW_OK or UW_ERR_NOMEM. */
static int list_messages(const struct uw_step_config *c, uint32_t n, struct messages *m)
{
    uint32_t p = c->nodes_n;
    *m = (struct messages){.list = NULL};
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

/* ---- steps with overlap ---- */

struct fragment {
    uint32_t bucket, messages;      /* index of its messages */
    uint32_t k;                     /* the current message */
    uint32_t left_n;                /* floats of it that are not sent yet */
};

/* Fragments, each with a due time; sorted by time. */
struct queue {
    struct due {
        double at_s;
        uint32_t fragment;
    } *due;                         /* [size_n], round */
    uint32_t size_n, first, n;
};

struct play {
    const struct uw_step_config *c;
    uint32_t *bucket_of;            /* [layers_n] or NONE */
    struct bucket *buckets;         /* [buckets_n] borrowed */
    struct fragment *fragments;     /* in the order of priority */
    uint32_t fragments_n, buckets_n;
    struct messages *messages;
    uint32_t *size_n;               /* [messages_n] of which fragments they are */
    uint32_t messages_n;
    uint64_t *sending;              /* [words] fragments with something for the line */
    uint32_t words;
    struct queue asks, arrivals;    /* requests in flight; messages in flight or to be added */
    double now_s, added_s;          /* added_s: when all that has arrived will be added up */
    uint32_t on_line, chunk_n;      /* the fragment being sent, or NONE; floats of its chunk */
    double line_s;                  /* end of that sending */
    uint32_t at, step;              /* layers 0 .. layers_n - 1 forward, then backward */
    bool computing;
    double compute_s;               /* left of the layer, with the line idle */
    double begun_s[STEPS_N + 1];
};

static void put(struct queue *q, double at_s, uint32_t fragment)
{
    q->due[(q->first + q->n++) % q->size_n] = (struct due){at_s, fragment};
}

static uint32_t take(struct queue *q)
{
    uint32_t fragment = q->due[q->first].fragment;
    q->first = (q->first + 1) % q->size_n;
    q->n--;
    return fragment;
}

static double next_s(const struct queue *q)
{
    return q->n > 0 ? q->due[q->first].at_s : INFINITY;
}

/* ---- the network ---- */

static void set_sending(struct play *y, uint32_t i, bool on)
{
    uint64_t bit = (uint64_t)1 << (i % 64u);
    y->sending[i / 64u] = on ? y->sending[i / 64u] | bit : y->sending[i / 64u] & ~bit;
}

/* Begin the fragment's message k, or finish the fragment. */
static void begin_message(struct play *y, uint32_t i)
{
    struct fragment *f = &y->fragments[i];
    const struct messages *m = &y->messages[f->messages];
    while (f->k < m->list_n && m->list[f->k].n == 0) {
        f->k++;
    }
    if (f->k == m->list_n) {
        y->buckets[f->bucket].left--;
        return;
    }
    f->left_n = m->list[f->k].n;
    if (y->c->asked) {
        put(&y->asks, y->now_s + y->c->network.latency_s, i);
    } else {
        set_sending(y, i, true);
    }
}

static void make_ready(struct play *y, uint32_t bucket)
{
    struct bucket *b = &y->buckets[bucket];
    b->left = b->fragments_n;
    for (uint32_t i = b->first; i < b->first + b->fragments_n; i++) {
        y->fragments[i].k = 0;
        begin_message(y, i);
    }
}

/* A chunk was sent: it arrives and is added after the earlier ones. */
static void leave_line(struct play *y)
{
    struct fragment *f = &y->fragments[y->on_line];
    const struct uw_network_cost *n = &y->c->network;
    double arrives_s = y->now_s + n->latency_s;
    y->added_s = arrives_s > y->added_s ? arrives_s : y->added_s;
    if (y->messages[f->messages].list[f->k].adds) {
        y->added_s += sizeof(float) * (double)y->chunk_n * n->reduce_s;
    }
    f->left_n -= y->chunk_n;
    if (f->left_n == 0) {
        set_sending(y, y->on_line, false);
        put(&y->arrivals, y->added_s, y->on_line);
    }
    y->on_line = NONE;
}

/* If the line is idle, send the next chunk of the first fragment that has one. */
static void use_line(struct play *y)
{
    const struct uw_network_cost *n = &y->c->network;
    for (uint32_t w = 0; w < y->words && y->on_line == NONE; w++) {
        if (y->sending[w] == 0) {
            continue;
        }
        uint32_t i = w * 64u;
        while ((y->sending[w] >> (i % 64u) & 1u) == 0) {
            i++;
        }
        uint32_t left_n = y->fragments[i].left_n;
        y->chunk_n = n->chunk_n != 0 && n->chunk_n < left_n ? n->chunk_n : left_n;
        y->on_line = i;
        y->line_s = y->now_s + uw_allreduce_wire_s(n, y->chunk_n);
    }
}

/* ---- computing ---- */

static bool may_begin(const struct play *y, uint32_t layer, bool backward)
{
    uint32_t bucket = y->bucket_of[layer];
    return backward || bucket == NONE || y->buckets[bucket].left == 0;
}

/* A layer is done. A bucket is ready when its lowest layer is. */
static void end_layer(struct play *y, uint32_t layer, bool backward)
{
    uint32_t bucket = y->bucket_of[layer];
    bool lowest = bucket != NONE;
    for (uint32_t i = layer; i-- > 0 && lowest;) {
        lowest = y->bucket_of[i] != bucket;
    }
    if (backward && lowest) {
        make_ready(y, bucket);
    }
    y->computing = false;
    y->at++;
}

/* Compute layers as far as time and the averages allow. */
static void compute(struct play *y)
{
    const struct uw_step_config *c = y->c;
    while (y->step < STEPS_N) {
        bool backward = y->at >= c->layers_n;
        uint32_t layer = backward ? 2 * c->layers_n - 1 - y->at : y->at;
        if (y->at == 2 * c->layers_n) {
            y->begun_s[++y->step] = y->now_s;
            y->at = 0;
        } else if (!y->computing && !may_begin(y, layer, backward)) {
            return;
        } else if (!y->computing) {
            const struct uw_step_layer *l = &c->layers[layer];
            y->compute_s = compute_time_s(c, backward ? l->backward : l->forward);
            y->computing = true;
        } else if (y->compute_s > 0.0) {
            return;
        } else {
            end_layer(y, layer, backward);
        }
    }
}

static double slowness(const struct play *y)
{
    return y->on_line != NONE ? 1.0 + y->c->interference : 1.0;
}

/* ---- time ---- */

/* Advance to the next event and process it. */
static void next_event(struct play *y)
{
    double line_s = y->on_line != NONE ? y->line_s : INFINITY;
    double computed_s = y->computing ? y->now_s + y->compute_s * slowness(y) : INFINITY;
    double asked_s = next_s(&y->asks), arrived_s = next_s(&y->arrivals);
    double next = fmin(fmin(line_s, computed_s), fmin(asked_s, arrived_s));
    if (y->computing) {
        double left_s = y->compute_s - (next - y->now_s) / slowness(y);
        y->compute_s = computed_s <= next || left_s < 0.0 ? 0.0 : left_s;
    }
    y->now_s = next;
    if (line_s <= next) {
        leave_line(y);
    }
    while (next_s(&y->arrivals) <= next) {
        uint32_t i = take(&y->arrivals);
        y->fragments[i].k++;
        begin_message(y, i);
    }
    while (next_s(&y->asks) <= next) {
        set_sending(y, take(&y->asks), true);
    }
    compute(y);
    use_line(y);
}

/* ---- set-up ---- */

static uint32_t fragments_of(const struct uw_step_config *c, uint32_t n)
{
    return c->fragment_n != 0 ? (n - 1) / c->fragment_n + 1 : 1;
}

/* The messages of a fragment of n floats, computed once for each n. */
static int find_messages(struct play *y, uint32_t n, uint32_t *index)
{
    for (*index = 0; *index < y->messages_n; (*index)++) {
        if (y->size_n[*index] == n) {
            return UW_OK;
        }
    }
    y->size_n[y->messages_n++] = n;
    return list_messages(y->c, n, &y->messages[*index]);
}

/* Divide a bucket into fragments of about equal size, appended to the table. */
static int cut(struct play *y, uint32_t bucket)
{
    uint32_t size_n = y->buckets[bucket].size_n;
    uint32_t parts = fragments_of(y->c, size_n);
    int rc = UW_OK;
    y->buckets[bucket].first = y->fragments_n;
    y->buckets[bucket].fragments_n = parts;
    for (uint32_t i = 0; i < parts && rc == UW_OK; i++) {
        uint32_t at = (uint32_t)((uint64_t)size_n * i / parts);
        uint32_t end = (uint32_t)((uint64_t)size_n * (i + 1) / parts);
        struct fragment *f = &y->fragments[y->fragments_n++];
        *f = (struct fragment){.bucket = bucket};
        rc = find_messages(y, end - at, &f->messages);
    }
    return rc;
}

static int fill(struct play *y)
{
    const struct uw_step_config *c = y->c;
    const struct bucket *buckets = y->buckets;
    uint32_t n = y->buckets_n;
    uint32_t small_n = c->small_n != 0 ? c->small_n : c->network.chunk_n;
    int rc = UW_OK;
    for (uint32_t i = 0; i < c->layers_n; i++) {
        y->bucket_of[i] = NONE;
    }
    for (uint32_t b = 0; b < n; b++) {
        for (uint32_t i = buckets[b].layer; i < buckets[b].layers_end; i++) {
            y->bucket_of[i] = c->layers[i].params_n != 0 ? b : NONE;
        }
    }
    for (uint32_t i = 0; i < 2 * n && rc == UW_OK; i++) {
        uint32_t b = c->in_order ? n - 1 - i % n : i % n;
        bool first = c->in_order || buckets[b].size_n <= small_n;
        if (first == (i < n)) {
            rc = cut(y, b);
        }
    }
    return rc;
}

static int set_up(struct play *y)
{
    uint32_t fragments = 0, n = y->buckets_n;
    for (uint32_t b = 0; b < n; b++) {
        fragments += fragments_of(y->c, y->buckets[b].size_n);
    }
    y->words = fragments / 64u + 1u;
    y->bucket_of = calloc(y->c->layers_n, sizeof *y->bucket_of);
    y->fragments = calloc(fragments, sizeof *y->fragments);
    y->messages = calloc(2u * n, sizeof *y->messages);
    y->size_n = calloc(2u * n, sizeof *y->size_n);
    y->sending = calloc(y->words, sizeof *y->sending);
    y->asks.due = calloc(fragments, sizeof *y->asks.due);
    y->arrivals.due = calloc(fragments, sizeof *y->arrivals.due);
    y->asks.size_n = y->arrivals.size_n = fragments;
    y->on_line = NONE;
    bool all = y->bucket_of != NULL && y->fragments != NULL && y->messages != NULL &&
               y->size_n != NULL && y->sending != NULL &&
               y->asks.due != NULL && y->arrivals.due != NULL;
    return all ? fill(y) : UW_ERR_NOMEM;
}

static void release(struct play *y)
{
    for (uint32_t i = 0; i < y->messages_n; i++) {
        free(y->messages[i].list);
    }
    free(y->bucket_of);
    free(y->fragments);
    free(y->messages);
    free(y->size_n);
    free(y->sending);
    free(y->asks.due);
    free(y->arrivals.due);
}

/* Simulate steps with overlap. Returns UW_OK or UW_ERR_NOMEM. */
static int overlap(const struct uw_step_config *c, struct bucket *buckets, uint32_t buckets_n,
                   double *step_s)
{
    struct play y = {.c = c, .buckets = buckets, .buckets_n = buckets_n};
    int rc = set_up(&y);
    if (rc == UW_OK) {
        compute(&y);
        use_line(&y);
        while (y.step < STEPS_N) {
            next_event(&y);
        }
        *step_s = (y.begun_s[STEPS_N] - y.begun_s[STEPS_N - COUNTED_N]) / COUNTED_N;
    }
    release(&y);
    return rc;
}

/* ---- the whole ---- */

static bool is_valid(const struct uw_step_config *c)
{
    bool sweeps = c->exchange == UW_STEP_ALLREDUCE && c->kind >= UW_ALLREDUCE_SWEEP;
    return c->layers_n > 0 && c->nodes_n > 0 && c->nodes_n < UINT16_MAX && c->batch_n > 0 &&
           c->macs_per_s > 0.0 && c->half_batch_n >= 0.0 && c->interference >= 0.0 && !sweeps &&
           !c->network.shared && c->network.slower == NULL && c->network.early_n == 0;
}

/* The exchange of bucket after bucket. */
static int add_network(const struct uw_step_config *c, const struct bucket *buckets,
                       uint32_t buckets_n, struct uw_step_time *t)
{
    for (uint32_t i = 0; i < buckets_n; i++) {
        struct messages m;
        int rc = list_messages(c, buckets[i].size_n, &m);
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
        t->compute_s += compute_time_s(c, c->layers[i].forward);
        t->compute_s += compute_time_s(c, c->layers[i].backward);
    }
    t->step_s = t->compute_s;
    struct bucket *buckets = calloc(c->layers_n, sizeof *buckets);
    if (buckets == NULL) {
        return UW_ERR_NOMEM;
    }
    uint32_t n = list_buckets(c, buckets);
    bool network = c->nodes_n > 1 && n > 0;
    int rc = network ? add_network(c, buckets, n, t) : UW_OK;
    t->step_s += t->network_s;
    if (rc == UW_OK && !(t->step_s * (1.0 + c->interference) <= UW_STEP_SECONDS_MAX)) {
        rc = UW_ERR_TOOBIG;     /* also NaN: the simulation must come to an end */
    }
    if (rc == UW_OK && network && c->overlap) {
        rc = overlap(c, buckets, n, &t->step_s);
    }
    free(buckets);
    return rc;
}

double uw_step_speed_up(double one_s, uint32_t one_batch_n, double step_s, uint32_t batch_n,
                        uint32_t nodes_n)
{
    return one_s / step_s * ((double)batch_n / (double)one_batch_n) * (double)nodes_n;
}
