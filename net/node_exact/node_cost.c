/* SPDX-License-Identifier: Apache-2.0 */
#include "node_averages.h"

#include "base/bits.h"
#include "wire/part.h"

#include <string.h>

#define PROBE_MESSAGES 112.0
#define PROBE_MOST_S 0.1
#define PROBE_ROUNDS 32u            /* until the next probe of a doubtful network; doubles */
#define PROBE_ROUNDS_MOST 8192u
#define ABORTS_MOST 3u
#define PREDICTED_MOST_S 1e6f
#define AHEAD_MOST_US 50000u        /* longer delays are those of queues, and ignored */

static void forget(struct uw_node_state *s)
{
    struct uw_node_cost *c = s->cost;
    uw_network_fit_init(&c->fit, c->probe.config.chunk_n, UW_PART_HEAD_BYTES,
                        uw_allreduce_early_n(&s->cell->allreduce));
    uw_network_fit_reduce(&c->fit, 1.0, (double)s->config.add_byte_s);
    c->measured = false;
    c->aborts = c->last_n = 0;
}

int uw_node_send_part(struct uw_node_state *s, uint16_t station, const struct uw_part *part)
{
    const struct uw_part_sender sender = {s->config.link, s->run, s->cell->out, s->buffer_bytes};
    if (station == UW_LINK_STATION_NONE) {
        return UW_ERR_NOTFOUND;
    }
    /* Streamed parts have no checksum. Others have one even on a reliable link: the receiver's link
     * may damage messages. */
    bool streamed = part->type == UW_PART_DATA && part->seq == UW_PART_STREAMED;
    int rc = uw_part_send(&sender, station, part, !streamed);
    if (rc >= 0) {
        s->counters.sent_bytes += (uint32_t)rc;
        s->counters.averaged_bytes += part->type == UW_PART_DATA ? part->count_n * 4u : 0u;
    }
    return rc < 0 ? rc : UW_OK;
}

/* As struct uw_network_probe_config's send; arg is the node's state. */
static int send_part(void *arg, uint32_t rank, const struct uw_part *part)
{
    const struct uw_node_state *s = arg;
    const struct uw_allreduce_config *c = &s->cell->allreduce.config;
    return c->send(c->arg, (rank + s->cost->shift) % s->cost->probe.ranks, part);
}

int uw_node_cost_place(struct uw_node_state *s, struct uw_arena *arena,
                       const struct uw_allreduce_config *allreduce)
{
    struct uw_node_cost *c = s->cost;
    uint32_t chunk_n = uw_min_u32(allreduce->chunk_n, allreduce->size_n);
    const struct uw_network_probe_config probe = {.ranks_max = allreduce->ranks_max,
                                                  .chunk_n = chunk_n > UW_PROBE_REPORT_N
                                                                 ? chunk_n
                                                                 : UW_PROBE_REPORT_N,
                                                  .train_n = allreduce->size_n,
                                                  .send = send_part, .arg = s};
    int rc = uw_network_probe_place(&c->probe, arena, &probe);
    forget(s);
    return rc;
}

enum uw_allreduce_kind uw_node_cost_choose(struct uw_node_state *s, uint32_t ranks_n,
                                           float hints[UW_CELL_HINTS])
{
    struct uw_node_cost *c = s->cost;
    const uint32_t size_n = s->config.params->size_n;
    double at[2 * UW_CELL_RANKS_MAX], seconds = 0.0;
    enum uw_allreduce_kind kind = s->cell->algorithm;
    memset(hints, 0, UW_CELL_HINTS * sizeof hints[0]);
    if (ranks_n < 2) {
        return UW_ALLREDUCE_HALVING;
    }
    if (kind >= UW_ALLREDUCE_KINDS_N) {
        kind = uw_network_choose(&c->fit, ranks_n, size_n, true, at, NULL);
    }
    bool whole = kind == UW_ALLREDUCE_DOUBLING || kind == UW_ALLREDUCE_SWEEP;
    if (whole && size_n > s->cell->allreduce.config.scratch_n) {
        kind = UW_ALLREDUCE_HALVING;
    }
    if (c->measured) {
        const struct uw_network_summary t = uw_network_summary_of(&c->fit);
        seconds = uw_network_predict(&c->fit, kind, ranks_n, size_n, at);
        hints[0] = t.latency_s;
        hints[1] = t.access_s;
        hints[2] = t.byte_s;
        hints[3] = t.reduce_s;
        hints[4] = t.shared ? 1.0f : 0.0f;
        hints[5] = (float)seconds;
    }
    return kind;
}

void uw_node_cost_begin(struct uw_node_state *s, const struct uw_node_scope *o,
                        struct uw_allreduce_round *r,
                        struct uw_allreduce_way ways[UW_CELL_RANKS_MAX])
{
    struct uw_node_cost *c = s->cost;
    const float *h = o->cell.hints;
    const struct uw_network_summary summary = {.latency_s = h[0], .access_s = h[1], .byte_s = h[2],
                                            .reduce_s = h[3], .shared = h[4] > 0.0f};
    bool head = o->cell.decider == o->cell.config.self;
    uint32_t least_us = UINT32_MAX;
    memset(ways, 0, r->ranks * sizeof *ways);
    for (uint32_t i = 0; i < r->ranks; i++) {
        const struct uw_member *m = uw_node_member(s, o->cell.ranks[i]);
        if (m != NULL) {
            r->rtt_us = m->srtt_us > r->rtt_us ? m->srtt_us : r->rtt_us;
            least_us = m->srtt_us != 0 && m->srtt_us < least_us ? m->srtt_us : least_us;
            ways[i] = s->cell->mates[m->place].way;
        }
    }
    r->ways = ways;
    r->ahead_us = head && least_us < 2u * AHEAD_MOST_US ? least_us / 2u : 0;
    bool known = h[2] > 0.0f && (head || uw_network_apply(&c->fit, &summary) == UW_OK);
    c->predicted_s = known && h[5] >= 0.0f && h[5] < PREDICTED_MOST_S ? h[5] : 0.0f;
    c->began_us = s->now_us;
    if (known) {
        uw_network_path(&c->fit, r->ranks, &r->rtt_us, &r->floats_per_us);
    }
}

void uw_node_cost_keep(struct uw_node_state *s, const struct uw_cell *cell)
{
    const struct uw_allreduce *a = &s->cell->allreduce;
    for (uint32_t i = 0; i < cell->ranks_n && a->r.group == cell->group; i++) {
        struct uw_member *m = uw_node_member(s, cell->ranks[i]);
        if (m != NULL) {
            s->cell->mates[m->place].way = a->ways[i];
        }
    }
}

/* A probe sends many of the largest messages at each rank: it must not keep a slow link busy. */
static bool may_probe(const struct uw_node_state *s)
{
    const struct uw_node_cost *c = s->cost;
    double model_s = (double)c->took_us * 1e-6;     /* an upper bound of sending the model once */
    return model_s * PROBE_MESSAGES * c->probe.config.chunk_n <
           PROBE_MOST_S * s->config.params->size_n;
}

/* Update the model by the median of some rounds of one kind. */
static void learn(struct uw_node_state *s, const struct uw_cell *cell, bool head)
{
    struct uw_node_cost *c = s->cost;
    double at[2 * UW_CELL_RANKS_MAX];
    uint32_t i = c->last_n++;
    for (; i > 0 && c->last_us[i - 1u] > c->took_us; i--) {
        c->last_us[i] = c->last_us[i - 1u];
    }
    c->last_us[i] = c->took_us;
    if (c->last_n < UW_NODE_COST_ROUNDS) {
        return;
    }
    c->last_n = 0;
    if (head) {
        uw_network_learn(&c->fit, cell->kind, cell->ranks_n, s->config.params->size_n,
                         (double)c->last_us[UW_NODE_COST_ROUNDS / 2u] * 1e-6, at);
    }
}

/* Wrong costs may be the reason why rounds do not end. */
void uw_node_cost_aborted(struct uw_node_state *s)
{
    if (++s->cost->aborts >= ABORTS_MOST) {
        forget(s);
    }
}

/* A probe must not cost more than it saves: after each one the pause doubles. */
static bool is_time_to_probe(struct uw_node_cost *c, bool begun)
{
    bool doubtful = c->measured && uw_network_is_doubtful(&c->fit);
    if ((begun && !c->measured) || ((begun || doubtful) && c->rounds_n >= c->probe_after_n)) {
        c->pause_n = c->pause_n == 0                  ? PROBE_ROUNDS
                     : c->pause_n < PROBE_ROUNDS_MOST ? 2u * c->pause_n
                                                      : c->pause_n;
        c->probe_after_n = c->rounds_n + c->pause_n;
        return true;
    }
    return false;
}

void uw_node_cost_committed(struct uw_node_state *s, const struct uw_node_scope *o)
{
    struct uw_node_cost *c = s->cost;
    c->aborts = 0;
    c->rounds_n++;
    const struct uw_cell *cell = &o->cell;
    bool head = cell->decider == cell->config.self;
    uint32_t shift = 0;
    while (shift < cell->ranks_n && cell->ranks[shift] != cell->decider) {
        shift++;
    }
    if (cell->ranks_n < 2 || shift == cell->ranks_n || o->scope != UW_AVERAGE_CELL ||
        cell->kind == UW_ALLREDUCE_SWEEP) {     /* which is never chosen for its cost */
        return;
    }
    bool begun = c->learned_group != cell->group;
    if (begun || c->kind != cell->kind) {
        c->last_n = 0;
        c->learned_group = cell->group;
        c->kind = cell->kind;
    }
    learn(s, cell, head);
    if (head ? may_probe(s) && is_time_to_probe(c, begun) : begun) {
        c->group = cell->group;
        c->shift = shift;
        c->probing = head;
        uw_network_probe_begin(&c->probe, cell->group, cell->ranks_n,
                               (cell->rank + cell->ranks_n - shift) % cell->ranks_n, s->now_us);
    }
}

void uw_node_cost_take(struct uw_node_state *s, uint32_t rank, const struct uw_part *part)
{
    struct uw_node_cost *c = s->cost;
    if (part->group == c->group && rank < c->probe.ranks) {
        /* The group's head has rank 0 in a probe. */
        uw_network_probe_receive(&c->probe, (rank + c->probe.ranks - c->shift) % c->probe.ranks,
                                 part, s->now_us);
    }
}

uint64_t uw_node_cost_run(struct uw_node_state *s)
{
    struct uw_node_cost *c = s->cost;
    if (c->group == 0) {
        return UINT64_MAX;
    }
    uint64_t next_us = uw_network_probe_run(&c->probe, s->now_us);
    if (c->probing && c->probe.done) {
        c->probing = false;
        c->measured = uw_network_fit_reports(&c->fit, c->probe.reports, c->probe.ranks) ||
                      c->measured;
    }
    return next_us;
}
