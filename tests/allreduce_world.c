/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "allreduce_world.h"
#include "wire/part.h"

#define RUN 7u
#define WINDOW_CHUNKS 8192u
#define RATE_QUEUE_BYTES (1u << 30)     /* the link's own queue is full before */
#define SKIPPED_TRIES_MAX 25u
#define HANG_US (400ull * 3600u * 1000000u)

static void open_rank(struct allreduce_world *w, uint32_t rank)
{
    struct world_rank *r = &w->ranks[rank];
    const struct world_network *n = &w->network;
    *r = (struct world_rank){.world = w, .rank = rank};
    assert_int_equal(uw_link_loopback_init(&r->end, &w->hub, (uint16_t)rank), UW_OK);
    struct uw_link_emulated_config lc = {
        .lower = &r->end.link, .queue_n = n->queue_n, .seed = rank,
        .medium = n->shared ? &w->medium : NULL,
        .send = {.delay_us = n->delay_us, .jitter_us = n->jitter_us, .loss = n->loss}};
    if (!n->shared) {
        bool slow = n->slower != 0 && n->slow_rank == rank;
        lc.send.rate_bits_per_s = n->rate_bits_per_s / (slow ? n->slower : 1u);
        lc.send.overhead_bytes = n->overhead_bytes;
        lc.send.rate_queue_bytes = RATE_QUEUE_BYTES;
    }
    lc.memory_bytes = uw_link_emulated_bytes(&lc);
    lc.memory = r->link_memory = malloc(lc.memory_bytes);
    assert_int_equal(uw_link_emulated_init(&r->link, &lc), UW_OK);

    struct uw_arena arena;
    const struct uw_allreduce_config c = {.size_n = w->size_n, .scratch_n = 1,
                                          .ranks_max = WORLD_RANKS_MAX, .chunk_n = w->chunk_n,
                                          .window_chunks = WINDOW_CHUNKS, .send = world_send,
                                          .arg = r};
    size_t bytes = (1u << 20) + w->size_n / UW_CHUNK_MIN_N / 2u;
    r->memory = malloc(bytes);
    uw_arena_init(&arena, r->memory, bytes);
    assert_int_equal(uw_allreduce_place(&r->a, &arena, &c), UW_OK);
    r->a.scratch = w->scratch;      /* one for all, as the vector */
    r->a.config.scratch_n = w->size_n;
    r->engine_us = UINT64_MAX;
}

void world_open(struct allreduce_world *w, const struct world_network *network, uint32_t p,
                uint32_t size_n)
{
    *w = (struct allreduce_world){.network = *network, .p = p, .size_n = size_n};
    assert_in_range(p, 2, WORLD_RANKS_MAX);
    w->chunk_n = (network->mtu_bytes - UW_PART_HEAD_BYTES) / (uint32_t)sizeof(float);
    w->medium = (struct uw_emulated_medium){.rate_bits_per_s = network->rate_bits_per_s,
                                            .overhead_bytes = network->overhead_bytes,
                                            .access_us = network->access_us};
    struct uw_loopback_config hc = {.endpoints_n = WORLD_RANKS_MAX,
                                    .mtu_bytes = network->mtu_bytes, .queue_n = 256};
    hc.memory_bytes = uw_loopback_hub_bytes(&hc);
    hc.memory = w->hub_memory = malloc(hc.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&w->hub, &hc), UW_OK);
    w->x = calloc(size_n, sizeof(float));
    w->scratch = calloc(size_n, sizeof(float));
    for (uint32_t i = 0; i < p; i++) {
        open_rank(w, i);
    }
}

void world_close(struct allreduce_world *w)
{
    for (uint32_t i = 0; i < w->p; i++) {
        uw_link_deinit(&w->ranks[i].link.link);
        uw_link_deinit(&w->ranks[i].end.link);
        free(w->ranks[i].link_memory);
        free(w->ranks[i].memory);
    }
    free(w->hub_memory);
    free(w->x);
    free(w->scratch);
}

int world_send(void *rank, uint32_t to, const struct uw_part *part)
{
    struct world_rank *r = rank;
    struct allreduce_world *w = r->world;
    uint8_t buf[2048];
    int bytes = uw_part_encode(part, RUN, false, buf, sizeof buf);
    assert_true(bytes > 0);
    int rc = uw_link_send(&r->link.link, (uint16_t)to, buf, (uint32_t)bytes);
    r->link_us = 0;     /* it has something new to do */
    r->refused = r->refused || rc == UW_ERR_AGAIN;
    if (rc == UW_OK) {
        w->messages_n++;
        w->control_n += part->type != UW_PART_DATA ? 1 : 0;
    }
    return rc;
}

static void receive(struct allreduce_world *w, struct world_rank *r)
{
    _Alignas(8) uint8_t buf[2048];
    uint16_t from;
    int rc;
    while ((rc = uw_link_recv(&r->link.link, &from, buf, sizeof buf)) >= 0) {
        uint32_t run;
        struct uw_part part;
        assert_int_equal(uw_part_decode(buf, (uint32_t)rc, false, &run, &part), UW_OK);
        r->engine_us = 0;
        if (part.round == 0) {
            assert_non_null(w->take);
            w->take(w, r->rank, from, &part);
        } else {
            uw_allreduce_take(&r->a, from, &part, w->now_us);
        }
    }
}

static void run_rank(struct allreduce_world *w, struct world_rank *r)
{
    r->refused = false;
    r->engine_us = uw_allreduce_run(&r->a, w->now_us);
    if (w->run != NULL) {
        uint64_t own_us = w->run(w, r->rank);
        r->engine_us = own_us < r->engine_us ? own_us : r->engine_us;
    }
    r->retry_us = r->engine_us > w->now_us ? r->engine_us - w->now_us : 1;
    if (r->done_us == 0 && r->a.state == UW_ALLREDUCE_DONE) {
        r->done_us = w->now_us;
    }
}

/* A full link has no place before it moves. A rank that tries 5000 times a second tries in vain
 * until then: most of that is left out, not all, for its other deadlines. */
static void skip_refusals(struct world_rank *r)
{
    if (r->refused && r->link_us != UINT64_MAX && r->engine_us < r->link_us) {
        uint64_t tries = (r->link_us - r->engine_us + r->retry_us - 1) / r->retry_us;
        r->engine_us += (tries < SKIPPED_TRIES_MAX ? tries : SKIPPED_TRIES_MAX) * r->retry_us;
    }
    r->refused = false;
}

/* Whatever is due now. Returns when the next thing is. */
static uint64_t run_now(struct allreduce_world *w)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < w->p; i++) {
        struct world_rank *r = &w->ranks[i];
        if (r->link_us <= w->now_us) {
            r->link_us = uw_link_step(&r->link.link, w->now_us);
        }
    }
    for (uint32_t i = 0; i < w->p; i++) {
        struct world_rank *r = &w->ranks[i];
        receive(w, r);
        if (r->engine_us <= w->now_us) {
            r->link_us = uw_link_step(&r->link.link, w->now_us);    /* it learns the time */
            run_rank(w, r);
        }
    }
    for (uint32_t i = 0; i < w->p; i++) {
        struct world_rank *r = &w->ranks[i];
        if (r->link_us <= w->now_us) {
            r->link_us = uw_link_step(&r->link.link, w->now_us);
        }
        skip_refusals(r);
        next_us = r->link_us < next_us ? r->link_us : next_us;
        next_us = r->engine_us < next_us ? r->engine_us : next_us;
    }
    return next_us;
}

void world_run(struct allreduce_world *w, bool (*until)(const struct allreduce_world *w))
{
    uint64_t begin_us = w->now_us;
    while (!until(w)) {
        uint64_t next_us = run_now(w);
        if (next_us == UINT64_MAX) {
            return;
        }
        if (w->now_us - begin_us > HANG_US) {
            fail_msg("%u ranks, %s: hangs", w->p, w->network.name);
        }
        w->now_us = next_us > w->now_us ? next_us : w->now_us;
    }
}

static bool all_done(const struct allreduce_world *w)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < w->p; i++) {
        done += w->ranks[i].done_us != 0 ? 1 : 0;
    }
    return done == w->p;
}

static bool all_settled(const struct allreduce_world *w)
{
    uint32_t settled = 0;
    for (uint32_t i = 0; i < w->p; i++) {
        const struct world_rank *r = &w->ranks[i];
        settled += uw_allreduce_settled(&r->a) && r->link.out.count + r->link.out.waiting_n == 0;
    }
    return settled == w->p;
}

double world_round(struct allreduce_world *w, enum uw_allreduce_kind kind, uint32_t n,
                   uint64_t rtt_us, float floats_per_us)
{
    uint64_t begin_us = w->now_us, end_us = begin_us;
    w->round++;
    for (uint32_t i = 0; i < w->p; i++) {
        struct world_rank *r = &w->ranks[i];
        const struct uw_allreduce_round round = {
            .group = 5, .round = w->round, .kind = kind, .average = true, .ranks = w->p,
            .rank = i, .size_n = n, .x = w->x, .rtt_us = rtt_us,
            .floats_per_us = floats_per_us};
        uw_link_step(&r->link.link, w->now_us);
        r->done_us = r->engine_us = 0;
        uw_allreduce_begin(&r->a, &round, w->now_us);
    }
    world_run(w, all_done);
    for (uint32_t i = 0; i < w->p; i++) {
        end_us = w->ranks[i].done_us > end_us ? w->ranks[i].done_us : end_us;
    }
    world_run(w, all_settled);
    w->now_us++;
    return (double)(end_us - begin_us) * 1e-6;
}
