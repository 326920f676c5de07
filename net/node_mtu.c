/* SPDX-License-Identifier: Apache-2.0
 *
 * What the largest messages are, and what of them a link carries. */
#include "node_state.h"

#include "bits.h"

#include <string.h>

#define PACE_WIDEST_MS (1u << 20)   /* of those that take so many bytes on the wire */
#define FOUND_NAME "~01234567"      /* of cells that are found: so long */
#define RANKS_LEAST 2u
#define SCRATCH_BYTES 512u          /* more than any of these takes */

/* The most that this device will tell of itself. */
static void fill_widest(const struct uw_node_state *s, uwasa_Ping *ping)
{
    const struct uw_node_cell *cell = &s->cell;
    const char *name = cell->near.on && strlen(cell->name) < strlen(FOUND_NAME) ? FOUND_NAME
                                                                               : cell->name;
    *ping = (uwasa_Ping){
        .run = 1, .model = 1, .seq = UINT32_MAX, .has_self = true, .has_progress = true};
    ping->self = (uwasa_Peer){.incarnation = UINT32_MAX, .state = uwasa_State_ALIVE,
                              .pace_ms = PACE_WIDEST_MS};
    strcpy(ping->self.name, s->config.name);
    if (s->config.address != NULL) {
        strcpy(ping->self.address, s->config.address);
    }
    ping->progress = (uwasa_Progress){
        .step = UINT32_MAX, .rounds = UINT32_MAX, .version = UINT32_MAX,
        .loss = 1.0f, .accuracy = 1.0f, .samples_per_s = 1.0f,
        .pulled_bytes = UINT64_MAX, .newcomer = true, .head_weight = s->config.head_weight,
        .averages = cell->on, .cell_hops = cell->near.on,
        .pairs = s->config.rule->over == UW_MIX_OVER_PAIRS,
        .shuffles = s->config.samples != NULL,
        .train_us = cell->near.on ? UINT32_MAX : 0,
        .drift = cell->near.on ? 1.0f : 0.0f};
    strcpy(ping->progress.cell, name);
    if (s->config.vitals) {
        ping->progress.power_mw = UW_VITALS_POWER_MAX_MW;
        ping->progress.temperature_mc = UW_VITALS_HOTTEST_MC;
        ping->progress.battery_percent = 100;
    }
}

int uw_node_check_mtu(struct uw_node_state *s, struct uw_error *err)
{
    s->out.type = UW_WIRE_PING;
    fill_widest(s, &s->out.ping);
    uint8_t scratch[SCRATCH_BYTES];
    int bytes = uw_message_encode(&s->out, scratch, sizeof scratch);
    if (bytes < 0 || (uint32_t)bytes > s->buffer_bytes) {
        return uw_error_set(err, UW_ERR_TOOBIG,
                            "link %s carries %u bytes: with this name and address it takes %d",
                            s->config.link->ops != NULL ? s->config.link->ops->name : "?",
                            (unsigned)s->buffer_bytes, bytes);
    }
    return UW_OK;
}

uint32_t uw_node_ranks_max(struct uw_node_state *s)
{
    uint8_t scratch[SCRATCH_BYTES];
    uwasa_Cell *w = &s->out.cell;
    s->out.type = UW_WIRE_CELL;
    *w = (uwasa_Cell){
        .run = 1, .model = 1, .scope = UW_AVERAGE_RUN, .act = UW_CELL_START, .group = 1,
        .round = UINT32_MAX, .asks = UINT32_MAX, .kind = UW_ALLREDUCE_KINDS_N,
        .chunk_n = s->buffer_bytes,
        .ids_count = (pb_size_t)uw_min_u32(s->config.members_max, UW_CELL_RANKS_MAX),
        .hints_count = UW_CELL_HINTS};
    for (uint32_t i = 0; i < w->ids_count; i++) {
        w->ids[i] = 1;
    }
    while (w->ids_count > RANKS_LEAST &&
           uw_message_encode(&s->out, scratch, uw_min_u32(s->buffer_bytes, sizeof scratch)) < 0) {
        w->ids_count--;
    }
    return w->ids_count;
}
