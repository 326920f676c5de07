/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "uwasa/board.h"

/* With "skew" the whole set is dealt out, as the simulator does, and one part of it kept. */
static int take_share(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    struct uw_error why = {.text = ""};
    r->own = r->data.base;
    if (o->skew == NULL) {
        return UW_OK;
    }
    int rc = uw_deal_open(&r->deal, r->data.base, &o->dealt, o->shards_n, uw_rng_mix(o->seed, 1),
                          &why);
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "\"shard\" %.30s, \"skew\" %.40s, data %.80s: %.100s",
                            o->shard, o->skew, o->data, why.text);
    }
    uw_share_init(&r->share, r->data.base, &r->deal, o->shard_i);
    r->own = &r->share.base;
    return UW_OK;
}

/* Put a pool in front of the data when "shuffle" is on. *dataset: set to what to train on. */
static int open_pool(struct uw_node_work *r, struct uw_dataset **dataset)
{
    struct uw_dataset *source = r->own;
    *dataset = source;
    if (r->o->shuffle <= 0.0) {
        return UW_OK;
    }
    uint32_t slots_n = (uint32_t)(r->o->shuffle * source->samples_n);
    if (slots_n == 0) {
        return uw_error_set(&r->err, UW_ERR_INVALID,
                            "\"shuffle\" %g of %u samples: needs a share of one sample or more",
                            r->o->shuffle, (unsigned)source->samples_n);
    }
    const struct uw_sample_pool_config config = {.source = source, .slots_n = slots_n,
                                                 .now_us = uw_board_now_us};
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    int rc = uw_sample_pool_bind(&r->pool, &config, &arena);
    size_t bytes = arena.used_bytes;
    rc = rc < 0 ? rc : uw_board_memory_take(bytes, &r->pool_block.at);
    if (rc == UW_OK) {
        r->pool_block.bytes = bytes;
        uw_arena_init(&arena, r->pool_block.at, bytes);
        rc = uw_sample_pool_bind(&r->pool, &config, &arena);
        uw_arena_seal(&arena);
    }
    if (rc < 0) {
        return uw_error_set(&r->err, rc, "\"shuffle\" %g: %zu bytes for borrowed samples: %s",
                            r->o->shuffle, bytes, uw_status_text(rc));
    }
    *dataset = &r->pool.base;
    return UW_OK;
}

int uw_node_work_open_data(struct uw_node_work *r)
{
    const struct uw_node_options *o = r->o;
    const struct uw_data_config config = {.seed = o->seed,
                                          .classes_mask = o->classes_mask,
                                          .shard = o->skew == NULL ? o->shard_i : 0,
                                          .shards_n = o->skew == NULL ? o->shards_n : 0};
    int rc = uw_data_open(&r->data, o->data, &config, &r->err);
    rc = rc < 0 ? rc : uw_data_open(&r->test, o->data,
                                    &(struct uw_data_config){.seed = o->seed, .test = true},
                                    &r->err);
    rc = rc < 0 ? rc : uw_job_check_data(&r->job, r->data.base, o->data, &r->err);
    rc = rc < 0 ? rc : take_share(r);
    if (rc < 0) {
        return rc;
    }
    struct uw_dataset *dataset;
    rc = open_pool(r, &dataset);
    if (rc < 0) {
        return rc;
    }
    /* With "skew" a node draws the minibatches that it draws in a simulated run. */
    uint64_t stream = o->skew != NULL ? 2u + (uint64_t)o->shard_i : uw_node_work_name(r);
    const struct uw_loader_config loader = {.dataset = dataset, .batch_n = o->batch,
                                            .seed = uw_rng_mix(o->seed, stream)};
    rc = uw_loader_init(&r->loader, &loader);
    uint64_t per_epoch = ((uint64_t)r->own->samples_n + o->batch - 1u) / o->batch;
    r->steps = o->steps != 0 ? o->steps : o->epochs != 0 ? per_epoch * o->epochs : UINT64_MAX;
    return rc;
}
