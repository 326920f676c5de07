/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/collective.h"

#include "allreduce.h"
#include "base/bits.h"
#include "wire/part.h"

#include "uwasa/arena.h"

#include <string.h>

#define GROUP 1u

#define CHUNK_DEFAULT_N (4u * UW_ALLREDUCE_PART_N)
#define WINDOW_CHUNKS 256u
#define RANKS_MAX 32768u            /* steps are numbered with 16 bits */
#define MESSAGES_MAX 16u            /* taken in one step, before sending again */

struct uw_collective_core {
    struct uw_allreduce engine;
    struct uw_collective *owner;
    uint8_t *in;                    /* [mtu] for links that do not view, else NULL */
    uint32_t in_bytes, round;
    struct uw_part_sender sender;   /* [mtu] for links that do not gather */
    uint64_t link_us;               /* when the link wants its step */
    bool began, deferred;
};

static bool streams(const struct uw_link *l)
{
    return l->reliable && uw_link_defers(l);
}

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct uw_collective_core *c = arg;
    const struct uw_collective_config *config = &c->owner->config;
    int rc = uw_part_send(&c->sender, config->stations[rank], part, !config->link->reliable);
    return rc < 0 ? rc : UW_OK;
}

static uint32_t chunk_of(const struct uw_collective_config *config)
{
    uint32_t fit = (config->link->mtu_bytes - UW_PART_HEAD_BYTES) / (uint32_t)sizeof(float);
    return uw_min_u32(config->chunk_n != 0 ? config->chunk_n : CHUNK_DEFAULT_N, fit);
}

static int place(struct uw_collective_core *core, struct uw_arena *arena,
                 const struct uw_collective_config *config)
{
    void *block[2] = {NULL};
    bool copies = !streams(config->link);
    const size_t mtu = copies ? config->link->mtu_bytes : 0, bytes[2] = {mtu, mtu};
    const struct uw_allreduce_config engine = {
        .size_n = config->size_n, .ranks_max = config->ranks, .chunk_n = chunk_of(config),
        .window_chunks = WINDOW_CHUNKS, .streams_only = !copies,
        .send = send, .arg = core};
    int rc = uw_arena_take_each(arena, 2, bytes, block);
    core->in = block[0];
    core->in_bytes = (uint32_t)mtu;
    core->sender = (struct uw_part_sender){config->link, config->run, block[1], core->in_bytes};
    return rc < 0 ? rc : uw_allreduce_place(&core->engine, arena, &engine);
}

static bool allowed(const struct uw_collective_config *c)
{
    return c != NULL && c->link != NULL && c->link->ops != NULL && c->stations != NULL &&
           c->ranks >= 1 && c->ranks <= RANKS_MAX && c->rank < c->ranks && c->size_n >= 1 &&
           (c->chunk_n == 0 || c->chunk_n >= UW_CHUNK_MIN_N) &&
           c->link->mtu_bytes >= UW_PART_WANT_BYTES + UW_CHUNK_MIN_N * sizeof(float);
}

size_t uw_collective_bytes(const struct uw_collective_config *config)
{
    struct uw_collective_core core;
    struct uw_arena arena;
    if (!allowed(config)) {
        return SIZE_MAX;
    }
    uw_arena_init(&arena, NULL, 0);
    if (place(&core, &arena, config) < 0) {
        return SIZE_MAX;
    }
    return uw_arena_padded(sizeof core) + arena.used_bytes + uw_arena_slack_bytes();
}

int uw_collective_init(struct uw_collective *c, const struct uw_collective_config *config)
{
    struct uw_arena arena;
    void *core = NULL;
    memset(c, 0, sizeof *c);
    if (!allowed(config)) {
        return UW_ERR_INVALID;
    }
    if (config->memory == NULL) {
        return UW_ERR_NOMEM;
    }
    uw_arena_init(&arena, config->memory, config->memory_bytes);
    int rc = uw_arena_take(&arena, sizeof *c->core, &core);
    if (rc < 0) {
        return rc;
    }
    c->config = *config;
    c->core = core;
    memset(core, 0, sizeof *c->core);
    c->core->owner = c;
    return place(c->core, &arena, config);
}

int uw_collective_begin(struct uw_collective *c, enum uw_allreduce_kind kind, bool average,
                        float *x, uint32_t n, uint64_t now_us)
{
    if (n > c->config.size_n) {
        return UW_ERR_INVALID;
    }
    if (!uw_collective_settled(c)) {
        return UW_ERR_AGAIN;
    }
    uint32_t segment_n = uw_allreduce_segment_n(kind, c->config.ranks, UINT32_MAX);
    segment_n = c->config.segment_n != 0 ? c->config.segment_n : segment_n;
    const struct uw_allreduce_round round = {
        .group = GROUP, .round = ++c->core->round, .kind = kind, .average = average,
        .ranks = c->config.ranks, .rank = c->config.rank, .size_n = n,
        .segment_n = streams(c->config.link) ? segment_n : 0, .x = x,
        .rtt_us = c->config.rtt_us};
    c->core->began = true;
    uw_allreduce_begin(&c->core->engine, &round, now_us);
    return UW_OK;
}

/* Returns the rank of a station, or UW_RANK_NONE. */
static uint32_t rank_of(const struct uw_collective_config *config, uint16_t station)
{
    uint32_t i = 0;
    while (i < config->ranks && (config->stations[i] != station || i == config->rank)) {
        i++;
    }
    return i < config->ranks ? i : UW_RANK_NONE;
}

/* Take the next message; `progress` is set unless it is left for later. Returns false when there is
 * none. */
static bool take_one(struct uw_collective_core *c, uint64_t now_us, bool *progress)
{
    const struct uw_collective_config *config = &c->owner->config;
    struct uw_part part;
    uint16_t from;
    uint32_t run;
    void *view;
    int bytes = uw_link_recv_view(config->link, &from, c->in, c->in_bytes, &view);
    if (bytes < 0) {
        return bytes == UW_ERR_TOOBIG;
    }
    uint32_t rank = rank_of(config, from);
    if (rank != UW_RANK_NONE &&
        uw_part_decode(view, (uint32_t)bytes, !config->link->reliable, &run, &part) == UW_OK &&
        run == config->run &&
        uw_allreduce_take(&c->engine, rank, &part, now_us) == UW_ERR_AGAIN) {
        c->deferred = uw_link_defer(config->link) == UW_OK || c->deferred;
    } else {
        *progress = true;
    }
    return true;
}

uint64_t uw_collective_step(struct uw_collective *collective, uint64_t now_us)
{
    struct uw_collective_core *c = collective->core;
    struct uw_link *link = collective->config.link;
    if (now_us >= c->link_us) {
        c->link_us = uw_link_step(link, now_us);
    }
    if (!c->began) {
        return c->link_us;
    }
    uint64_t next_us = uw_allreduce_run(&c->engine, now_us);
    if (c->deferred) {
        c->deferred = false;
        uw_link_resume(link);
    }
    bool progress = false;
    for (uint32_t n = 0; n < MESSAGES_MAX && take_one(c, now_us, &progress); n++) {
        if (streams(link) && c->engine.state == UW_ALLREDUCE_DONE) {
            break;
        }
    }
    return progress ? now_us : uw_min_u64(next_us, c->link_us);
}

bool uw_collective_done(const struct uw_collective *c)
{
    return c->core->engine.state == UW_ALLREDUCE_DONE;
}

bool uw_collective_settled(const struct uw_collective *c)
{
    return !c->core->began || uw_allreduce_settled(&c->core->engine);
}
