/* SPDX-License-Identifier: Apache-2.0 */
#include "node_averages.h"

#include "node_direct_priv.h"
#include "base/bits.h"
#include "wire/part.h"

#include <string.h>

#define SMALL_SHARE 128u            /* messages below this part of the model are copied */
#define SMALL_MIN_N 8u
#define RANKS_LEAST 2u
#define NEAR_DEFAULT_US 5000u
#define GATHER_DEFAULT_US 30000000u
#define ROUND_DEFAULT_US 60000000u
#define AGREE_DEFAULT_US 10000000u
#define SCRATCH_BYTES 1232u         /* more than a message about averages takes */
#define FOUND_NAME "~01234567"      /* as long as names of cells found or averaging gradients */

/* ---- set-up ---- */

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    const struct uw_mix_rule *rule = c->rule != NULL ? c->rule : &uw_mix_none;
    if (c->ranks_max == 1u || c->ranks_max > UW_NODE_RANKS_MAX) {
        return UW_NODE_FAULT(fault, ranks_max, "needs 2 to 256");
    }
    if (c->mode >= UW_NODE_MODES_N) {
        return UW_NODE_FAULT(fault, mode, "needs one of enum uw_node_mode");
    }
    int rc = uw_node_check_wide(c, fault);
    if (rc < 0) {
        return rc;
    }
    if (c->gradients != NULL && c->mode != UW_NODE_ALLREDUCE) {
        return UW_NODE_FAULT(fault, gradients, "needs allreduce");
    }
    if (c->gradients != NULL && rule != &uw_mix_none) {
        return UW_NODE_FAULT(fault, rule, "must be none where gradients are averaged");
    }
    if (rule->over == UW_MIX_OVER_AVERAGES &&
        (c->mode == UW_NODE_GOSSIP || c->mode == UW_NODE_BROADCAST)) {
        return UW_NODE_FAULT(fault, rule, "needs allreduce, hierarchical or auto");
    }
    if (rule->over == UW_MIX_OVER_PAIRS && c->mode != UW_NODE_GOSSIP) {
        return UW_NODE_FAULT(fault, rule, "needs gossip: it is for pairs of nodes");
    }
    if (rule->over == UW_MIX_OVER_PAIRS && c->schedule != NULL && !c->schedule->mutual) {
        return UW_NODE_FAULT(fault, schedule,
                             "needs mutual pairs by this rule: matching, hypercube or base2");
    }
    return UW_OK;
}

static void set_defaults(struct uw_node_config *c)
{
    c->near_us = c->near_us != 0 ? c->near_us : NEAR_DEFAULT_US;
    c->gather_us = c->gather_us != 0 ? c->gather_us : GATHER_DEFAULT_US;
    c->round_us = c->round_us != 0 ? c->round_us : ROUND_DEFAULT_US;
    c->agree_us = c->agree_us != 0 ? c->agree_us : AGREE_DEFAULT_US;
}

/* The initial name of the cell; found: a placeholder until node_near.c finds a cell. */
static const char *name_of_cell(const struct uw_node_config *c, bool *found)
{
    bool named = c->cell != NULL && c->cell[0] != '\0';
    *found = c->mode == UW_NODE_AUTO && !named;
    return c->mode == UW_NODE_GOSSIP      ? ""
           : c->mode == UW_NODE_ALLREDUCE ? "*"
           : named                        ? c->cell
                                          : c->name;
}

/* Floats of the largest copied message. Eighteen times that is also the memory for early data: some
 * whole chunks, which a rank that is a step behind would otherwise have to ask for. */
static uint32_t early_n(uint32_t size_n, uint32_t chunk_n)
{
    uint32_t chunks_n = uw_min_u32(chunk_n, size_n) / 4u;
    return uw_max_u32(uw_max_u32(size_n / SMALL_SHARE, chunks_n), SMALL_MIN_N);
}

/* The most nodes that fit a START message. */
static uint32_t ranks_max(const struct uw_node_state *s)
{
    uint8_t scratch[SCRATCH_BYTES];
    uwasa_Cell w = {
        .run = 1, .model = 1, .scope = UW_AVERAGE_RUN, .act = UW_CELL_START, .group = 1,
        .round = UINT32_MAX, .asks = UINT32_MAX, .kind = UW_ALLREDUCE_KINDS_N,
        .chunk_n = s->buffer_bytes,
        .ids_count = (pb_size_t)uw_min_u32(s->config.members_max, s->config.ranks_max),
        .hints_count = UW_CELL_HINTS};
    for (uint32_t i = 0; i < w.ids_count; i++) {
        w.ids[i] = 1;
    }
    while (w.ids_count > RANKS_LEAST &&
           uw_message_write(false, UW_WIRE_CELL, &uw_form_cell, &w, scratch,
                            uw_min_u32(s->buffer_bytes, sizeof scratch)) < 0) {
        w.ids_count--;
    }
    return w.ids_count;
}

/* Send to a rank of the part's group. */
static int send_part(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct uw_node_state *s = arg;
    const struct uw_node_scope *o = s->cell->asked != NULL ? s->cell->asked : s->cell->scopes;
    for (uint32_t i = 0; i < UW_NODE_SCOPES; i++) {
        o = s->cell->scopes[i].cell.group == part->group ? &s->cell->scopes[i] : o;
    }
    const struct uw_member *m =
        rank < o->cell.ranks_n ? uw_node_member(s, o->cell.ranks[rank]) : NULL;
    return uw_node_send_part(s, m != NULL ? m->station : UW_LINK_STATION_NONE, part);
}

static int place_all(struct uw_node_state *s, struct uw_arena *arena)
{
    const struct uw_node_config *c = &s->config;
    bool pairs = c->rule->over == UW_MIX_OVER_PAIRS;
    uint32_t size_n = pairs ? 2u * c->params->size_n : c->params->size_n;
    uint32_t chunk_n = (s->buffer_bytes - UW_PART_HEAD_BYTES) / 4u;
    uint32_t ranks = ranks_max(s);
    uint32_t small_n = early_n(size_n, chunk_n);
    s->cell->algorithm = c->algorithm != NULL ? *c->algorithm : UW_ALLREDUCE_KINDS_N;
    set_defaults(&s->config);
    strcpy(s->cell->whole, name_of_cell(c, &s->cell->near.on));
    uint32_t scratch_n = c->guard_averages && !c->link->reliable ? size_n : c->scratch_n;
    const struct uw_allreduce_config allreduce = {
        .size_n = size_n, .scratch_n = uw_max_u32(uw_min_u32(scratch_n, size_n), small_n),
        .ranks_max = ranks, .chunk_n = chunk_n, .small_n = small_n,
        .lossless = c->link->reliable,
        .window_chunks = (uint32_t)(c->window_bytes / s->buffer_bytes) + 16u,
        .send = send_part, .arg = s};
    int rc = uw_allreduce_place(&s->cell->allreduce, arena, &allreduce);
    void *part[2] = {NULL, NULL};
    const size_t bytes[2] = {s->buffer_bytes, uw_size_mul(c->members_max, sizeof *s->cell->mates)};
    rc = rc < 0 ? rc : uw_arena_take_each(arena, 2, bytes, part);
    rc = rc < 0 ? rc : uw_node_bridge_place(s, arena, ranks);
    rc = rc < 0 ? rc : uw_node_pairs_place(s, arena);
    rc = rc < 0 ? rc : uw_node_cost_place(s, arena, &allreduce);
    s->cell->out = part[0];
    s->cell->mates = part[1];
    for (uint32_t i = 0; rc == UW_OK && i < UW_NODE_SCOPES; i++) {
        rc = uw_node_cell_place(s, arena, (enum uw_average_scope)i, ranks);
    }
    uw_average_init(&s->cell->average, &s->gossip, c->spare);
    s->cell->average.inbox = s->bridge->inbox;
    s->cell->average.follows = s->cell->near.on;
    s->cell->stale = true;
    rc = rc < 0 ? rc : uw_node_gradients_place(s, arena);
    strcpy(s->cell->name, s->cell->whole);
    return rc;
}

static void point_to(struct uw_node_state *s, struct uw_node_exact *e)
{
    s->cell = e != NULL ? &e->cell : NULL;
    s->bridge = e != NULL ? &e->bridge : NULL;
    s->gradients = e != NULL ? &e->gradients : NULL;
    s->pairs = e != NULL ? &e->pairs : NULL;
    s->cost = e != NULL ? &e->cost : NULL;
}

/* If the arena only counts bytes, the state is a local variable. */
static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    struct uw_node_exact spare;
    void *memory = NULL;
    s->averages = s->config.parts->averages;
    int rc = uw_arena_take(arena, sizeof spare, &memory);
    if (rc < 0) {
        return rc;
    }
    struct uw_node_exact *e = memory != NULL ? memory : &spare;
    memset(e, 0, sizeof *e);
    point_to(s, e);
    rc = place_all(s, arena);
    if (memory == NULL) {
        point_to(s, NULL);
    }
    return rc;
}

/* ---- reports in pings ---- */

static void widest(const struct uw_node_config *c, uwasa_Averaging *p)
{
    bool near;
    const char *name = name_of_cell(c, &near);
    if ((c->gradients != NULL && c->mode != UW_NODE_GOSSIP) ||
        (near && strlen(name) < strlen(FOUND_NAME))) {
        name = FOUND_NAME;
    }
    *p = (uwasa_Averaging){.averages = true, .head_weight = c->head_weight, .cell_hops = near,
                           .protocol = UW_AVERAGES_PROTOCOL};
    strcpy(p->cell, name);
    p->pairs = c->rule->over == UW_MIX_OVER_PAIRS;
    p->train_us = near ? UINT32_MAX : 0;
    p->drift = near ? 1.0f : 0.0f;
    p->deaf = c->members_max;
    p->head = UINT32_MAX;
}

static void fill(const struct uw_node_state *s, uwasa_Averaging *p)
{
    const struct uw_node_near *near = &s->cell->near;
    *p = (uwasa_Averaging){
        .averages = true, .head_weight = s->config.head_weight, .cell_hops = near->hops,
        .protocol = UW_AVERAGES_PROTOCOL};
    strcpy(p->cell, s->cell->name);
    p->train_us = near->on ? near->train_us : 0;
    p->drift = near->on ? uw_average_drift(&s->cell->average) : 0.0f;
    p->pairs = (uint32_t)s->pairs->state;
    p->deaf = s->cell->deaf_n;
    p->head = uw_node_cell_head(s);
}

/* ---- the table changes ---- */

static bool otherwise(const struct uw_member *known, uwasa_Ping *ping)
{
    static const uwasa_Averaging nothing;
    const uwasa_Averaging *a = known != NULL ? known->averaging : &nothing;
    uwasa_Averaging *b = &ping->averaging;
    b->protocol = b->protocol != 0 || !b->averages ? b->protocol : 1u;
    if (b->protocol != UW_AVERAGES_PROTOCOL) {  /* as if it did not average */
        b->averages = false;
        b->pairs = 0;
    }
    return ping->has_progress &&
           (a->head_weight != b->head_weight || a->averages != b->averages || a->deaf != b->deaf ||
            a->pairs != b->pairs || a->protocol != b->protocol || a->head != b->head ||
            strcmp(a->cell, b->cell) != 0);
}

static void stale(struct uw_node_state *s)
{
    s->cell->stale = true;
}

static void forget(struct uw_node_state *s, uint32_t place)
{
    s->cell->mates[place] = (struct uw_node_mate){.near = false};
}

static void gone(struct uw_node_state *s, uint32_t id)
{
    for (uint32_t i = 0; i < UW_NODE_SCOPES; i++) {
        uw_cell_gone(&s->cell->scopes[i].cell, id, s->now_us);
    }
    uw_node_gradients_gone(s, id);
}

static bool wants(const struct uw_node_state *s, uint32_t id)
{
    return s->config.mode == UW_NODE_ALLREDUCE && uw_node_in_part(s, UW_AVERAGE_CELL, id);
}

static bool needs(const struct uw_node_state *s, const struct uw_member *m)
{
    const struct uw_cell *run = &s->cell->scopes[UW_AVERAGE_RUN].cell;
    bool pairs = s->config.rule->over == UW_MIX_OVER_PAIRS;
    bool mate = s->cell->name[0] != '\0' && strcmp(m->averaging->cell, s->cell->name) == 0;
    return wants(s, m->id) || pairs || mate || run->state != UW_CELL_IDLE || uw_cell_owes(run);
}

/* ---- received messages ---- */

static void take_cell(struct uw_node_state *s, uint16_t station, const uwasa_Cell *w,
                      uint32_t bytes)
{
    struct uw_cell_message m = {
        .act = (enum uw_cell_act)w->act, .group = w->group, .round = w->round,
        .status = (enum uw_cell_status)w->status, .kind = (enum uw_allreduce_kind)w->kind,
        .step = w->step, .waits_for = w->waits_for, .culprit = w->culprit,
        .incarnation = w->incarnation, .rms = w->rms, .asks = w->asks, .chunk_n = w->chunk_n,
        .stream_n = w->stream_n,
        .ids_n = w->ids_count, .deaf_n = w->deaf_count};
    if (w->run != s->run || w->model != s->model) {
        return;     /* its pings are refused with a reason */
    }
    const struct uw_member *member = uw_membership_heard(&s->membership, station, s->outer_us);
    bool tiny = m.act == UW_CELL_READY && m.chunk_n != 0 && m.chunk_n < UW_CHUNK_MIN_N;
    if (member == NULL || s->cell == NULL || w->scope >= UW_NODE_SCOPES || tiny) {
        return;
    }
    memcpy(m.ids, w->ids, m.ids_n * sizeof m.ids[0]);
    memcpy(m.deaf, w->deaf, m.deaf_n * sizeof m.deaf[0]);
    if ((uint32_t)m.act >= UW_GRADIENTS_BREAK) {
        uw_node_gradients_message(s, member, &m);
        return;
    }
    memcpy(m.hints, w->hints, w->hints_count * sizeof m.hints[0]);
    const struct uw_node_scope *o = &s->cell->scopes[w->scope];
    bool streams = m.stream_n != 0;
    if (m.act == UW_CELL_START && (!uw_node_cell_has_room(o, m.kind, streams) ||
                                   m.chunk_n < UW_CHUNK_MIN_N ||
                                   (streams && !s->config.link->reliable))) {
        m.kind = UW_ALLREDUCE_KINDS_N;      /* not supported by this node */
    }
    if (s->cell->direct != NULL) {
        s->config.parts->directs->take(&s->cell->scopes[w->scope], member->id, bytes, &m);
    }
    if (w->scope == UW_AVERAGE_PAIR) {
        uw_node_pairs_message(s, member->id, &m, w->turn);
    } else {
        uw_cell_receive(&s->cell->scopes[w->scope].cell, member->id, &m, s->now_us);
    }
}

/* Handle a streamed part of a round that this node does not run. If that round is over, drop it.
 * Otherwise the part has overtaken START, or the end of the previous round. */
static void keep_ahead(struct uw_node_state *s, const struct uw_part *part)
{
    for (uint32_t i = 0; i < UW_NODE_SCOPES; i++) {
        if (uw_cell_is_over(&s->cell->scopes[i].cell, part->group, part->round)) {
            return;
        }
    }
    uw_allreduce_keep_ahead(&s->cell->allreduce, part);
}

static void take_of_rank(struct uw_node_state *s, const struct uw_cell *c, uint32_t rank,
                         const struct uw_part *part)
{
    struct uw_allreduce *a = &s->cell->allreduce;
    if (part->round == 0) {
        uw_node_cost_take(s, rank, part);
        return;
    }
    bool streamed = part->seq == UW_PART_STREAMED && part->type == UW_PART_DATA;
    if (streamed && (c->state != UW_CELL_IN_ROUND || c->lent || c->stream_n == 0)) {
        keep_ahead(s, part);
        return;
    }
    (void)uw_allreduce_take(a, rank, part, s->now_us);
    if (streamed && a->state == UW_ALLREDUCE_RUNNING) {
        (void)uw_allreduce_run(a, s->now_us);   /* send on final values at once */
    }
    uw_node_cell_look(s);
}

static void take_part(struct uw_node_state *s, uint16_t station, uint32_t bytes)
{
    uint32_t run;
    struct uw_part part;
    bool checked = !(s->config.link->reliable && uw_part_is_streamed(s->in, bytes));
    if (uw_part_decode(s->in, bytes, checked, &run, &part) < 0) {
        s->counters.refused_corrupt++;
        return;
    }
    if (run != s->run) {
        s->counters.refused_run++;
        return;
    }
    const struct uw_member *member = uw_membership_heard(&s->membership, station, s->outer_us);
    if (s->cell == NULL) {
        return;
    }
    if (part.op != 0) {
        if (member != NULL) {
            uw_node_gradients_part(s, member, &part);
        }
        return;
    }
    for (uint32_t i = 0; member != NULL && i < UW_NODE_SCOPES; i++) {
        const struct uw_cell *c = &s->cell->scopes[i].cell;
        for (uint32_t rank = 0; c->group == part.group && rank < c->ranks_n; rank++) {
            if (c->ranks[rank] == member->id) {
                take_of_rank(s, c, rank, &part);
                return;
            }
        }
    }
    if (!checked) {     /* also of a rank that has not pinged yet: it is not sent again */
        keep_ahead(s, &part);
        (void)uw_allreduce_run(&s->cell->allreduce, s->now_us);
        uw_node_cell_look(s);
    }
}

static void message(struct uw_node_state *s, uint16_t station, enum uw_wire_type type,
                    uint32_t bytes)
{
    if (type == UW_WIRE_PART) {
        take_part(s, station, bytes);
        return;
    }
    uwasa_Cell w;
    if (uw_message_read(false, &uw_form_cell, s->in, bytes, &w) < 0) {
        s->counters.refused_corrupt++;
        return;
    }
    take_cell(s, station, &w, bytes);
}

/* ---- training ---- */

static bool averages_now(const struct uw_node_state *s)
{
    const struct uw_average *a = &s->cell->average;
    return s->config.mode != UW_NODE_GOSSIP || a->pairs || a->scope == UW_AVERAGE_RUN;
}

static int after_step(struct uw_node_state *s, const struct uw_node_progress *p)
{
    if (s->gradients->on) {
        return uw_node_gradients_after_step(s, p);
    }
    return averages_now(s) ? uw_average_after_step(&s->cell->average, p)
                           : uw_gossip_after_step(&s->gossip, p);
}

static bool touches(const struct uw_node_state *s)
{
    if (s->gradients->on) {
        return true;
    }
    return averages_now(s) ? uw_average_touches(&s->cell->average)
                           : uw_gossip_touches(&s->gossip);
}

void uw_node_agree(struct uw_node *n)
{
    if (n->state != NULL && n->state->cell != NULL) {
        uw_average_agree(&n->state->cell->average);
    }
}

void uw_node_recall(struct uw_node *n)
{
    if (n->state != NULL && n->state->cell != NULL) {
        uw_average_recall(&n->state->cell->average);
        uw_node_gradients_recall(n->state);
    }
}

bool uw_node_owes(const struct uw_node *n)
{
    const struct uw_node_state *s = n->state;
    return s != NULL && s->cell != NULL && uw_cell_owes(&s->cell->scopes[UW_AVERAGE_RUN].cell);
}

bool uw_node_holds(const struct uw_node *n)
{
    const struct uw_node_state *s = n->state;
    return s != NULL && s->cell != NULL && s->cell->asked != NULL;
}

const struct uw_node_averages uw_node_averages = {
    .setup = {check, place},
    .widest = widest,
    .step = uw_node_cell_step,
    .otherwise = otherwise,
    .stale = stale,
    .gone = gone, .forget = forget,
    .message = message,
    .fill = fill,
    .needs = needs, .wants = wants,
    .pull_from = uw_node_bridge_take,
    .pull_another = uw_node_bridge_another,
    .pull_step = uw_node_bridge_step,
    .pull_ended = uw_node_bridge_ended,
    .after_step = after_step,
    .touches = touches,
    .pairs = &uw_peer_schedule_matching,
};
