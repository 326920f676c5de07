/* SPDX-License-Identifier: Apache-2.0 */
#include "node_work.h"

#include "uwasa/board.h"

int uw_node_work_open_pool(struct uw_node_work *r, struct uw_dataset **dataset)
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
