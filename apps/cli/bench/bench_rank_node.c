/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_rank_node.h"

#include "uwasa/board.h"

#include <string.h>

#define SCRATCH_N 65536u            /* as `uwasa node` */
#define SEED 1u

static void on_event(void *arg, const struct uw_node_event *e)
{
    struct uw_bench_rank_node *n = arg;
    if (e->kind == UW_NODE_AVERAGED) {
        atomic_store(&n->committed_us, uw_board_now_us());
    } else if (e->kind == UW_NODE_AVERAGE_CUT) {
        atomic_fetch_add(&n->aborted, 1);
    }
}

int uw_bench_rank_node_open(struct uw_bench_rank_node *n, const struct uw_bench_allreduce *b,
                            uint32_t rank, const char *first, char address[UW_LINK_ADDRESS_BYTES],
                            struct uw_error *err)
{
    static const uint8_t key[UW_KEY_BYTES] = {1};
    const struct uw_stack_config stack = {
        .carrier = UW_STACK_TCP, .plain = !b->tls, .listen = "127.0.0.1:0", .run = "bench",
        .key = key, .together = true, .peers_n = (uint16_t)b->ranks,
        .mtu_bytes = uw_stack_stream_mtu((size_t)b->n * sizeof(float))};
    memset(n, 0, sizeof *n);
    int rc = uw_bench_node_open(&n->own, rank, b->n, false, NULL, NULL, SEED);
    if (rc < 0) {
        return uw_error_set(err, rc, "no memory for a node's parameters, twice");
    }
    struct uw_node_config c = n->own.config;
    n->kind = b->kind;
    n->seeds[0] = first;
    c.seeds = n->seeds;
    c.seeds_n = first != NULL;
    c.mode = UW_NODE_ALLREDUCE;
    c.algorithm = &n->kind;
    c.cell_first_n = b->ranks;
    c.together = true;
    c.members_max = b->ranks + 2u;
    c.scratch_n = SCRATCH_N;
    c.on_event = on_event;
    c.event_arg = n;
    rc = uw_node_net_open(&n->net, &stack, &c, false, err);
    rc = rc < 0 ? rc : uw_stack_local(&n->net.stack, address);
    rc = rc < 0 ? rc : uw_bench_node_start(&n->own, &n->net.node);
    return rc < 0 ? rc : uw_node_net_start(&n->net, err);
}

void uw_bench_rank_node_close(struct uw_bench_rank_node *n)
{
    uw_node_net_close(&n->net);
    uw_bench_node_close(&n->own);
}

bool uw_bench_rank_node_sees(struct uw_bench_rank_node *n, uint32_t ranks)
{
    const struct uw_node_member *rows;
    struct uw_node_counters counters;
    uint32_t rows_n = uw_node_net_members(&n->net, &rows, &counters);
    return uw_bench_node_sees(rows, rows_n, ranks);
}

int uw_bench_rank_node_round(struct uw_bench_rank_node *n, uint64_t limit_us,
                             atomic_uint_least64_t *ready_us, uint64_t *to_us)
{
    const int aborted = atomic_load(&n->aborted);
    struct uw_node_progress *p = &n->own.progress;
    p->lr = 1.0f;
    int rc = uw_node_after_step(&n->net.node, p);
    atomic_store(ready_us, uw_board_now_us());
    p->lr = 0.0f;
    uw_node_net_wake(&n->net);
    while (rc >= 0 && (rc & UW_NODE_AVERAGING) != 0) {
        uw_node_net_wait(&n->net);
        rc = uw_node_after_step(&n->net.node, p);
        if (uw_board_now_us() > limit_us) {
            return UW_ERR_TIMEOUT;
        }
    }
    *to_us = atomic_load(&n->committed_us);
    bool done = rc >= 0 && (rc & UW_NODE_ROUND) != 0 && atomic_load(&n->aborted) == aborted;
    return rc < 0 ? rc : done ? UW_OK : UW_ERR_IO;
}

bool uw_bench_rank_node_is_right(const struct uw_bench_rank_node *n, uint32_t ranks)
{
    return uw_bench_node_averaged(&n->own, ranks, true, SEED);
}
