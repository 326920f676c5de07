/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_link.h"

#include "uwasa/board.h"
#include "uwasa/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEP 0.0625
#define TOLERANCE 1e-5
#define PULL_MOST_US UINT64_C(86400000000)
#define LR 1.0f                     /* of a step that changes nothing */

/* ---- the link that counts ---- */

static struct uw_bench_count *self(struct uw_link *l)
{
    return (struct uw_bench_count *)l; /* link is the first member */
}

/* Count a message before it is sent, so that it is counted when the receiver gets it. */
static atomic_uint_least64_t *count_first(struct uw_bench_count *c, const void *first)
{
    atomic_uint_least64_t *sent = &c->sent[uw_node_says(first)];
    atomic_fetch_add(sent, 1);
    return sent;
}

static int counted(atomic_uint_least64_t *sent, int rc)
{
    if (rc != UW_OK) {
        atomic_fetch_sub(sent, 1);
    }
    return rc;
}

/* Copy the properties of the lower link, which may change. */
static void mirror(struct uw_bench_count *c)
{
    c->link = *c->lower;
    c->link.ops = &c->ops;
}

static int count_resolve(struct uw_link *l, const char *address, uint16_t *station)
{
    return uw_link_resolve(self(l)->lower, address, station);
}

static int count_describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    return uw_link_describe(self(l)->lower, station, text);
}

static bool count_hold(struct uw_link *l, uint16_t station, bool hold)
{
    return uw_link_hold(self(l)->lower, station, hold);
}

static int count_send(struct uw_link *l, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    atomic_uint_least64_t *sent = count_first(self(l), buf);
    return counted(sent, uw_link_send(self(l)->lower, to, buf, buf_bytes));
}

static int count_recv(struct uw_link *l, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    return uw_link_recv(self(l)->lower, from, buf, cap_bytes);
}

static uint64_t count_step(struct uw_link *l, uint64_t now_us)
{
    uint64_t next_us = uw_link_step(self(l)->lower, now_us);
    mirror(self(l));
    return next_us;
}

static void count_deinit(struct uw_link *l)
{
    l->ops = NULL;
}

static void count_forget(struct uw_link *l, uint16_t station)
{
    uw_link_forget(self(l)->lower, station);
}

static int count_send_parts(struct uw_link *l, uint16_t to, const void *head, uint32_t head_bytes,
                            const void *body, uint32_t body_bytes)
{
    atomic_uint_least64_t *sent = count_first(self(l), head);
    return counted(sent, uw_link_send_parts(self(l)->lower, to, head, head_bytes, body, body_bytes,
                                            NULL));
}

static int count_recv_view(struct uw_link *l, uint16_t *from, void **view)
{
    return self(l)->lower->ops->recv_view(self(l)->lower, from, view);
}

static int count_defer(struct uw_link *l)
{
    return uw_link_defer(self(l)->lower);
}

static void count_resume(struct uw_link *l)
{
    uw_link_resume(self(l)->lower);
}

struct uw_link *uw_bench_count_init(struct uw_bench_count *c, struct uw_link *lower)
{
    memset(c, 0, sizeof *c);
    c->lower = lower;
    c->ops = (struct uw_link_ops){
        .name = lower->ops->name,
        .resolve = count_resolve,
        .describe = count_describe,
        .hold = count_hold,
        .send = count_send,
        .recv = count_recv,
        .step = count_step,
        .deinit = count_deinit,
        .forget = lower->ops->forget != NULL ? count_forget : NULL,
        .send_parts = lower->ops->send_parts != NULL ? count_send_parts : NULL,
        .recv_view = lower->ops->recv_view != NULL ? count_recv_view : NULL,
        .defer = lower->ops->defer != NULL ? count_defer : NULL,
        .resume = lower->ops->resume != NULL ? count_resume : NULL};
    mirror(c);
    return &c->link;
}

/* ---- the node ---- */

static struct uw_peer_choice pick_next(const struct uw_peer_view *view, struct uw_rng *rng)
{
    uint32_t at = (view->self + 1u) % view->n;
    (void)rng;
    return (struct uw_peer_choice){
        .at = at != view->self && view->usable[at] ? at : UW_PEER_NOBODY};
}

static struct uw_peer_choice pick_nobody(const struct uw_peer_view *view, struct uw_rng *rng)
{
    (void)view;
    (void)rng;
    return (struct uw_peer_choice){.at = UW_PEER_NOBODY};
}

static const struct uw_peer_schedule from_next = {.name = "next", .pick = pick_next};
static const struct uw_peer_schedule from_nobody = {.name = "nobody", .pick = pick_nobody};

static void on_event(void *arg, const struct uw_node_event *e)
{
    struct uw_bench_node *n = arg;
    uint64_t now_us = n->now_us != NULL ? n->now_us(n->arg) : uw_board_now_us();
    if (e->kind == UW_NODE_PULL_STARTED && atomic_load(&n->started_us) == 0) {
        atomic_store(&n->started_us, now_us);
    } else if (e->kind == UW_NODE_PULL_DONE) {
        atomic_store(&n->ended_us, now_us);
    } else if (e->kind == UW_NODE_PULL_CUT && atomic_load(&n->failed) == 0) {
        snprintf(n->why, sizeof n->why, "%s", e->text);
        atomic_store(&n->failed, UW_ERR_TIMEOUT);
    }
}

/* A base so far from 0 that no other node's vector looks like an outlier. */
static double base_of(struct uw_rng *rng)
{
    return (double)(uw_rng_u32(rng) >> 8) / (1 << 24) + 0.5;
}

int uw_bench_node_open(struct uw_bench_node *n, uint32_t i, uint32_t size_n, bool pulls,
                       uint64_t (*now_us)(void *arg), void *arg, uint64_t seed)
{
    struct uw_rng rng;
    memset(n, 0, sizeof *n);
    n->memory_bytes = 2u * (size_t)size_n * sizeof(float);
    int rc = uw_board_memory_take(n->memory_bytes, &n->memory);
    if (rc < 0) {
        n->memory_bytes = 0;
        return rc;
    }
    float *x = n->memory;
    uw_rng_seed(&rng, seed);
    for (uint32_t k = 0; k < size_n; k++) {
        x[k] = (float)(base_of(&rng) + i * STEP);
    }
    snprintf(n->name, sizeof n->name, "%u", (unsigned)i);
    n->segment = (struct uw_segment){.name = "x", .size_n = size_n, .dim = {size_n}, .rank = 1};
    n->params = (struct uw_params){.x = x, .size_n = size_n, .segments = &n->segment,
                                   .segments_n = 1, .hash = size_n};
    n->snapshot.data = x + size_n;
    n->snapshot.size_n = size_n;
    atomic_flag_clear(&n->snapshot.busy);
    n->progress = (struct uw_node_progress){.accuracy = -1.0f};
    n->now_us = now_us;
    n->arg = arg;
    n->config = (struct uw_node_config){
        .name = n->name, .run = "bench", .incarnation = 1, .params = &n->params,
        .snapshot = &n->snapshot, .parts = &uw_node_parts_all, .period_steps = 1,
        .schedule = pulls ? &from_next : &from_nobody, .seed = seed, .pull_us = PULL_MOST_US,
        .on_event = on_event, .event_arg = n};
    return UW_OK;
}

void uw_bench_node_close(struct uw_bench_node *n)
{
    uw_board_memory_release(n->memory, n->memory_bytes);
    n->memory = NULL;
    n->memory_bytes = 0;
}

int uw_bench_node_start(struct uw_bench_node *n, struct uw_node *node)
{
    int rc = uw_node_after_step(node, &n->progress);
    return rc < 0 ? rc : UW_OK;
}

int uw_bench_node_renew(struct uw_bench_node *n, struct uw_node *node)
{
    uint32_t version = n->snapshot.version;
    int rc = UW_OK;
    n->progress.lr = LR;
    while (rc >= 0 && n->snapshot.version == version) {     /* a reader may be inside */
        rc = uw_node_after_step(node, &n->progress);
    }
    n->progress.lr = 0.0f;
    return rc < 0 ? rc : UW_OK;
}

bool uw_bench_node_sees(const struct uw_node_member *rows, uint32_t rows_n, uint32_t nodes)
{
    uint32_t there = 1;
    for (uint32_t i = 1; i < rows_n; i++) {
        there += rows[i].state == UW_MEMBER_ALIVE && rows[i].version != 0;
    }
    return there == nodes;
}

bool uw_bench_node_mixed(const struct uw_bench_node *n, uint32_t i, uint32_t nodes, double share,
                         uint64_t seed)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    for (uint32_t k = 0; k < n->params.size_n; k++) {
        double moved = (double)n->params.x[k] - base_of(&rng) - i * STEP;
        double j = i + round(moved / (share * STEP));
        if (!(j >= 0.0 && j < nodes && j != i) ||
            fabs(moved - share * STEP * (j - i)) > TOLERANCE) {
            return false;
        }
    }
    return true;
}

bool uw_bench_node_averaged(const struct uw_bench_node *n, uint32_t nodes, bool exact,
                            uint64_t seed)
{
    double half = (nodes - 1u) * STEP / 2.0;
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    for (uint32_t k = 0; k < n->params.size_n; k++) {
        double off = (double)n->params.x[k] - base_of(&rng) - half;
        if (!(fabs(off) <= (exact ? 0.0 : half) + TOLERANCE)) {
            return false;
        }
    }
    return true;
}
