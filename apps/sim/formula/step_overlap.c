/* SPDX-License-Identifier: Apache-2.0
 *
 * One node's line and its computing, event after event. A message has left the line of its sender
 * when it has left this one's, so it is here latency_s later. */
#include "step_inner.h"

#include <math.h>
#include <stdlib.h>

#define STEPS_N 8u                  /* played */
#define COUNTED_N 4u                /* the last ones count: they repeat by then, or nearly */
#define NONE UINT32_MAX

struct fragment {
    uint32_t bucket, messages;      /* index of its messages */
    uint32_t k;                     /* the message at hand */
    uint32_t left_n;                /* floats of it that are not on the line yet */
};

struct bucket {
    uint32_t first, fragments_n, left;      /* fragments that are still under way */
};

/* Fragments, each with the moment at which something is due; by time. */
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
    struct bucket *buckets;
    struct fragment *fragments;     /* what goes first stands first */
    uint32_t fragments_n, buckets_n;
    struct uw_step_messages *messages;
    uint32_t *size_n;               /* [messages_n] of which fragments they are */
    uint32_t messages_n;
    uint64_t *sending;              /* [words] fragments with something for the line */
    uint32_t words;
    struct queue asks, arrivals;    /* questions under way; messages under way or to be added */
    double now_s, added_s;          /* when all is added up that came so far */
    uint32_t on_line, chunk_n;      /* the fragment that is being sent, or NONE */
    double line_s;                  /* until then */
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

/* Come to message k, or to the end. */
static void enter(struct play *y, uint32_t i)
{
    struct fragment *f = &y->fragments[i];
    const struct uw_step_messages *m = &y->messages[f->messages];
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
        enter(y, i);
    }
}

/* The chunk is out: it arrives, and is added when what came before it is. */
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

/* If the line is idle, the first fragment that has something sends its next chunk. */
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

/* The layer is done. A bucket is ready with the lowest of its layers. */
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

/* Go on as far as the time and the averaging allow. */
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
            y->compute_s = uw_step_compute_s(c, backward ? l->backward : l->forward);
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

/* Let time pass until the next thing happens, and let it happen. */
static void go_on(struct play *y)
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
        enter(y, i);
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

/* The messages of a fragment of n floats, made once for each n. */
static int find_messages(struct play *y, uint32_t n, uint32_t *index)
{
    for (*index = 0; *index < y->messages_n; (*index)++) {
        if (y->size_n[*index] == n) {
            return UW_OK;
        }
    }
    y->size_n[y->messages_n++] = n;
    return uw_step_messages(y->c, n, &y->messages[*index]);
}

/* Cut a bucket into fragments of about equal size, the next ones in the table. */
static int cut(struct play *y, uint32_t bucket, uint32_t size_n)
{
    uint32_t parts = fragments_of(y->c, size_n);
    int rc = UW_OK;
    y->buckets[bucket] = (struct bucket){.first = y->fragments_n, .fragments_n = parts};
    for (uint32_t i = 0; i < parts && rc == UW_OK; i++) {
        uint32_t at = (uint32_t)((uint64_t)size_n * i / parts);
        uint32_t end = (uint32_t)((uint64_t)size_n * (i + 1) / parts);
        struct fragment *f = &y->fragments[y->fragments_n++];
        *f = (struct fragment){.bucket = bucket};
        rc = find_messages(y, end - at, &f->messages);
    }
    return rc;
}

static int fill(struct play *y, const struct uw_step_bucket *buckets, uint32_t n)
{
    const struct uw_step_config *c = y->c;
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
            rc = cut(y, b, buckets[b].size_n);
        }
    }
    return rc;
}

static int set_up(struct play *y, const struct uw_step_bucket *buckets, uint32_t n)
{
    uint32_t fragments = 0;
    for (uint32_t b = 0; b < n; b++) {
        fragments += fragments_of(y->c, buckets[b].size_n);
    }
    y->buckets_n = n;
    y->words = fragments / 64u + 1u;
    y->bucket_of = calloc(y->c->layers_n, sizeof *y->bucket_of);
    y->buckets = calloc(n, sizeof *y->buckets);
    y->fragments = calloc(fragments, sizeof *y->fragments);
    y->messages = calloc(2u * n, sizeof *y->messages);
    y->size_n = calloc(2u * n, sizeof *y->size_n);
    y->sending = calloc(y->words, sizeof *y->sending);
    y->asks.due = calloc(fragments, sizeof *y->asks.due);
    y->arrivals.due = calloc(fragments, sizeof *y->arrivals.due);
    y->asks.size_n = y->arrivals.size_n = fragments;
    y->on_line = NONE;
    bool all = y->bucket_of != NULL && y->buckets != NULL && y->fragments != NULL &&
               y->messages != NULL && y->size_n != NULL && y->sending != NULL &&
               y->asks.due != NULL && y->arrivals.due != NULL;
    return all ? fill(y, buckets, n) : UW_ERR_NOMEM;
}

static void release(struct play *y)
{
    for (uint32_t i = 0; i < y->messages_n; i++) {
        free(y->messages[i].list);
    }
    free(y->bucket_of);
    free(y->buckets);
    free(y->fragments);
    free(y->messages);
    free(y->size_n);
    free(y->sending);
    free(y->asks.due);
    free(y->arrivals.due);
}

int uw_step_overlap(const struct uw_step_config *c, const struct uw_step_bucket *buckets,
                    uint32_t buckets_n, double *step_s)
{
    struct play y = {.c = c};
    int rc = set_up(&y, buckets, buckets_n);
    if (rc == UW_OK) {
        compute(&y);
        use_line(&y);
        while (y.step < STEPS_N) {
            go_on(&y);
        }
        *step_s = (y.begun_s[STEPS_N] - y.begun_s[STEPS_N - COUNTED_N]) / COUNTED_N;
    }
    release(&y);
    return rc;
}
