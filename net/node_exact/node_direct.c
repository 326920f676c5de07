/* SPDX-License-Identifier: Apache-2.0 */
#include "node_direct_priv.h"

#include "base/backoff.h"
#include "base/bits.h"
#include "base/cpu.h"
#include "node/node_state.h"

#include <stdio.h>
#include <string.h>

#define AGAIN_US 30000000u          /* pause of direct rounds after a failed one; doubles */
#define AGAIN_DOUBLINGS 6u
#define FIRST_MOST_US 20000000u     /* limit of a group's first round; of others: */
#define NEXT_MOST_US 5000000u       /* this, and NEXT_LONGEST times the longest so far */
#define NEXT_LONGEST 8u
#define STEP_US 250000u             /* each such time counts as progress */
#define LEAST_BYTES 768u            /* of a message: START with the most ranks */

static const struct uw_message_form form = {uwasa_CellDirect_fields, NULL};

static int check(const struct uw_node_config *c, struct uw_node_fault *fault)
{
    return c->image != NULL
               ? UW_OK : UW_NODE_FAULT(fault, direct, "needs image, the parameters of a device");
}

/* ---- gradients of a step: struct uw_overlap_whole ---- */

static int add(void *arg)
{
    const struct uw_node_state *s = arg;
    const struct uw_node_direct_state *d = s->cell->direct;
    const struct uw_overlap *o = &s->gradients->overlap;
    for (uint32_t i = 0; i < o->config.buckets_n; i++) {
        d->buckets[i].x = o->buckets[i].x;
    }
    return d->place != UW_DIRECT_OUT ? d->hooks->add(d->hooks->arg, d->buckets, o->config.buckets_n)
                                     : UW_ERR_INVALID;
}

static int look_added(void *arg)
{
    struct uw_node_direct_state *d = ((struct uw_node_state *)arg)->cell->direct;
    int rc = d->hooks->poll(d->hooks->arg);
    d->failures = rc == UW_OK ? 0 : d->failures;
    return rc;
}

/* Leave the group. Ranks that have not begun stay in it, so it is no longer common to all. */
static void drop_added(void *arg)
{
    struct uw_node_direct_state *d = ((struct uw_node_state *)arg)->cell->direct;
    d->hooks->abort(d->hooks->arg);
    d->place = UW_DIRECT_OUT;
}

/* If the arena only counts bytes, s->cell is NULL. */
static int place(struct uw_node_state *s, struct uw_arena *arena)
{
    void *block[3] = {NULL};
    uint32_t seats_max = uw_min_u32(s->config.members_max, s->config.ranks_max);
    const struct uw_node_config *c = &s->config;
    bool named = c->algorithm != NULL && *c->algorithm != UW_ALLREDUCE_KINDS_N;
    if (s->averages == NULL || s->buffer_bytes < LEAST_BYTES || named ||
        (c->gradients != NULL && c->direct->add == NULL)) {
        return UW_OK;
    }
    const uint32_t buckets_n = c->gradients != NULL ? c->gradients->buckets_n : 0;
    struct uw_node_direct_state *d = NULL;
    const size_t bytes[3] = {sizeof *d, uw_size_mul(seats_max, sizeof *d->seats),
                             uw_size_mul(buckets_n, sizeof *d->buckets)};
    int rc = uw_arena_take_each(arena, 3, bytes, block);
    if (rc < 0 || block[1] == NULL || s->cell == NULL) {
        return rc;
    }
    d = block[0];
    memset(block[1], 0, bytes[1]);
    *d = (struct uw_node_direct_state){
        .hooks = c->direct, .seats = block[1], .seats_max = seats_max, .buckets = block[2],
        .whole = {.begin = add, .poll = look_added, .stop = drop_added, .arg = s}};
    for (uint32_t i = 0; i < buckets_n; i++) {
        d->buckets[i].size_n = c->gradients->bucket_n[i];
    }
    s->cell->direct = d;
    return UW_OK;
}

static struct uw_node_direct_state *state_of(const struct uw_node_scope *o)
{
    return o->node->cell->direct;
}

static uint32_t checksum(const void *bytes, size_t n)
{
    uint32_t sum = uw_crc32c(0, bytes, n);
    return sum != 0 ? sum : 1u;
}

static uint32_t holds(const struct uw_node_direct_state *d)
{
    return d->place != UW_DIRECT_OUT ? checksum(d->joined, sizeof d->joined) : 0;
}

/* This node's version of the protocol; 0: none now. */
static uint32_t version(const struct uw_node_state *s)
{
    const struct uw_node_direct_state *d = s->cell->direct;
    return s->now_us >= d->able_us ? d->hooks->version(d->hooks->arg) : 0;
}

static bool is_here(struct uw_node_state *s, uint32_t id)
{
    const struct uw_member *m = uw_node_member(s, id);
    return uw_node_own(s, id) ||
           (m != NULL && (m->state == UW_MEMBER_ALIVE || m->state == UW_MEMBER_SUSPECT));
}

/* The seat of a node. If it has none, and not `taken`: one that is free, or whose node is gone or
 * has no device. */
static struct uw_node_direct_seat *seat_of(struct uw_node_state *s, uint32_t id, bool taken)
{
    struct uw_node_direct_state *d = s->cell->direct;
    struct uw_node_direct_seat *unused = NULL;
    for (uint32_t i = 0; i < d->seats_max; i++) {
        struct uw_node_direct_seat *seat = &d->seats[i];
        if (seat->id == id) {
            return seat;
        }
        bool cannot = seat->version == 0 && unused == NULL;
        unused = cannot || !is_here(s, seat->id) ? seat : unused;
    }
    if (taken || unused == NULL) {
        return NULL;
    }
    *unused = (struct uw_node_direct_seat){.id = id};
    return unused;
}

/* Report to the user, once, because of which node's device averages use the link. */
static void report(struct uw_node_state *s, enum uw_node_direct_why why, uint32_t whose,
                 uint32_t ranks_n)
{
    static const char *const whys[UW_DIRECT_WHYS_N] = {
        [UW_DIRECT_NONE] = "has no device for it, or does not want it",
        [UW_DIRECT_VERSION] = "has another version of it",
        [UW_DIRECT_SHARED] = "shares its device with another node",
        [UW_DIRECT_NO_GROUP] = "cannot make a group now",
        [UW_DIRECT_HEAD] = "only leads them",
    };
    bool has_why = why > UW_DIRECT_WAITS && why < UW_DIRECT_WHYS_N && is_here(s, whose);
    struct uw_node_direct_seat *seat = has_why ? seat_of(s, whose, false) : NULL;
    if (seat == NULL || (seat->reported & 1u << why) != 0) {
        return;
    }
    const char *name = uw_node_own(s, whose) ? "this node" : uw_node_member(s, whose)->name;
    struct uw_node_event e = {.kind = UW_NODE_AVERAGE_WAY, .peer = name, .address = "",
                              .station = UW_LINK_STATION_NONE, .chunks_n = ranks_n};
    seat->reported |= 1u << why;
    bool in_it = why != UW_DIRECT_HEAD;
    snprintf(s->text, UW_NODE_TEXT_BYTES, "averages%s%s go over the network, not by %s: %s %s",
             in_it ? " with " : "", in_it ? name : "", s->cell->direct->hooks->name,
             in_it && uw_node_own(s, whose) ? "it" : name, whys[why]);
    uw_node_report(s, &e);
}

/* Why the ranks of a START cannot average between devices; sets d->whose to the first such rank,
 * and *joined to whether all ranks are in this head's group. */
static enum uw_node_direct_why find_why(struct uw_node_scope *o,
                                        const struct uw_cell_message *start, bool *joined)
{
    struct uw_node_direct_state *d = state_of(o);
    uint64_t devices[UW_CELL_RANKS_MAX];
    uint32_t own = version(o->node);
    enum uw_node_direct_why why = own != 0 ? UW_DIRECT_CAN : UW_DIRECT_WAITS;
    bool here = false;
    *joined = d->place != UW_DIRECT_OUT;
    for (uint32_t i = 0; why == UW_DIRECT_CAN && i < start->ids_n; i++) {
        bool self = uw_node_own(o->node, start->ids[i]);
        const struct uw_node_direct_seat *seat =
            self ? NULL : seat_of(o->node, start->ids[i], true);
        uint32_t other = self ? own : seat != NULL ? seat->version : 0;
        devices[i] = self ? d->hooks->device : seat != NULL ? seat->device : 0;
        why = devices[i] == 0 ? UW_DIRECT_NONE
              : other == own  ? UW_DIRECT_CAN
              : other == 0    ? UW_DIRECT_WAITS
                              : UW_DIRECT_VERSION;
        for (uint32_t k = 0; why == UW_DIRECT_CAN && k < i; k++) {
            why = devices[k] == devices[i] ? UW_DIRECT_SHARED : UW_DIRECT_CAN;
        }
        d->whose = start->ids[i];
        *joined = *joined && (self || (seat != NULL && seat->holds == holds(d)));
        here = here || self;
    }
    if (why == UW_DIRECT_CAN && !here) {
        d->whose = o->cell.config.self;
        why = UW_DIRECT_HEAD;
    }
    return why;
}

static void failed(struct uw_node_state *s, uint32_t set)
{
    struct uw_node_direct_state *d = s->cell->direct;
    d->failed_set = set;
    d->again_us = s->now_us + uw_backoff_us(AGAIN_US, &d->failures, AGAIN_DOUBLINGS);
    if (d->end == UW_DIRECT_OWN_DEVICE && d->failures > 1u) {
        d->able_us = d->again_us;
    }
}

static bool choose(struct uw_node_scope *o, const struct uw_cell_message *start)
{
    struct uw_node_state *s = o->node;
    struct uw_node_direct_state *d = state_of(o);
    uint32_t set = checksum(start->ids, start->ids_n * sizeof start->ids[0]);
    bool joined = false, waits = set == d->failed_set && s->now_us < d->again_us;
    if (start->ids_n < 2u || o->scope == UW_AVERAGE_PAIR) {
        return false;
    }
    d->why = waits ? UW_DIRECT_WAITS : find_why(o, start, &joined);
    if (d->why == UW_DIRECT_CAN && joined && set == d->set) {
        memcpy(d->chosen, d->joined, sizeof d->chosen);
    } else if (d->why == UW_DIRECT_CAN &&
               d->hooks->make_id(d->hooks->arg, d->chosen) < 0) {
        d->why = UW_DIRECT_NO_GROUP;
        d->whose = o->cell.config.self;
        failed(s, set);
    }
    report(s, d->why, d->whose, start->ids_n);
    return d->why == UW_DIRECT_CAN;
}

static bool is_at_hand(const struct uw_node_scope *o, const struct uw_cell_message *m)
{
    return o->cell.direct && m->group == o->cell.group && m->round == o->cell.round;
}

static bool has_quit(struct uw_node_state *s, uint32_t culprit)
{
    const struct uw_member *m = uw_node_member(s, culprit);
    bool left = m != NULL && m->state == UW_MEMBER_LEFT;
    return left || uw_node_own(s, culprit) || s->cell->direct->end == UW_DIRECT_RANK_QUIT;
}

static void send_with(struct uw_node_scope *o, uint16_t station, const struct uw_cell_message *m,
                      const uwasa_Cell *w)
{
    struct uw_node_state *s = o->node;
    const struct uw_node_direct_state *d = state_of(o);
    uwasa_CellDirect with = uwasa_CellDirect_init_default;
    if (m->act == UW_CELL_READY && o->scope != UW_AVERAGE_PAIR) {
        with.version = version(s);
        with.device = d->hooks->device;
        with.holds = with.version != 0 ? holds(d) : 0;
    } else if (m->act == UW_CELL_START && m->direct) {
        with.id.size = sizeof d->chosen;
        memcpy(with.id.bytes, d->chosen, sizeof d->chosen);
    } else if (m->act == UW_CELL_START && o->scope != UW_AVERAGE_PAIR) {
        with.why = d->why;
        with.whose = d->whose;
    } else if (m->act == UW_CELL_STATE && is_at_hand(o, m)) {
        with.sum = m->status == UW_CELL_PREPARED ? d->sum : 0;
        with.failed = m->status == UW_CELL_ABORTED && !has_quit(s, m->culprit);
    }
    uint32_t cap = uw_node_mtu(s);
    int bytes = uw_message_write(false, UW_WIRE_CELL, &uw_form_cell, w, s->buffer, cap);
    int all = bytes < 0 ? bytes : uw_message_append(false, &form, &with, s->buffer,
                                                    (uint32_t)bytes, cap);
    bytes = all > 0 || with.id.size != 0 ? all : bytes;     /* now too narrow */
    if (bytes > 0) {
        (void)uw_node_send_buffer(s, station, (uint32_t)bytes);
    }
}

/* A rank has prepared: compare its checksum with this node's. */
static void compare(struct uw_node_scope *o, struct uw_node_direct_seat *seat, uint32_t sum,
                    struct uw_cell_message *m)
{
    const struct uw_node_direct_state *d = state_of(o);
    seat->group = m->group;
    seat->round = m->round;
    seat->sum = sum;
    if (is_at_hand(o, m) && o->cell.state == UW_CELL_HAS_RESULT && sum != d->sum) {
        m->status = UW_CELL_ABORTED;
        m->direct = true;
    }
}

static void take(struct uw_node_scope *o, uint32_t from, uint32_t bytes,
                 struct uw_cell_message *m)
{
    struct uw_node_state *s = o->node;
    struct uw_node_direct_state *d = state_of(o);
    uwasa_CellDirect with = uwasa_CellDirect_init_default;
    if (uw_message_read(false, &form, s->in, bytes, &with) < 0) {
        m->kind = UW_ALLREDUCE_KINDS_N;     /* START is not supported by this node */
        return;
    }
    struct uw_node_direct_seat *seat = seat_of(s, from, m->act != UW_CELL_READY);
    if (m->act == UW_CELL_READY && seat != NULL) {
        seat->version = with.version;
        seat->device = with.device;
        seat->holds = with.holds;
    } else if (m->act == UW_CELL_START && with.id.size != 0) {
        bool whole = with.id.size == sizeof d->offered && o->scope != UW_AVERAGE_PAIR;
        m->direct = whole;
        m->kind = whole ? m->kind : UW_ALLREDUCE_KINDS_N;
        memcpy(d->offered, with.id.bytes, whole ? sizeof d->offered : 0);
    } else if (m->act == UW_CELL_START && m->ids_n > 1u && o->scope != UW_AVERAGE_PAIR) {
        bool silent = with.why == UW_DIRECT_CAN;    /* a head without direct rounds */
        report(s, silent ? UW_DIRECT_NONE : with.why, silent ? from : with.whose, m->ids_n);
    } else if (m->act == UW_CELL_STATE && m->status == UW_CELL_ABORTED) {
        m->direct = with.failed;
        d->end = is_at_hand(o, m) && !with.failed ? UW_DIRECT_RANK_QUIT : d->end;
    } else if (m->act == UW_CELL_STATE && m->status == UW_CELL_PREPARED && seat != NULL) {
        compare(o, seat, with.sum, m);
    }
}

static void begin(struct uw_node_scope *o)
{
    struct uw_node_state *s = o->node;
    struct uw_node_direct_state *d = state_of(o);
    bool head = o->cell.decider == o->cell.config.self;
    const uint8_t *id = head ? d->chosen : d->offered;
    bool known = d->place != UW_DIRECT_OUT && memcmp(id, d->joined, sizeof d->joined) == 0;
    const struct uw_node_direct_round r = {
        .id = d->joined, .rank = o->cell.rank, .ranks = o->cell.ranks_n,
        .alike = s->cell->average.alike && s->bridge->state != UW_BRIDGE_ADDED};
    if (!known) {
        memcpy(d->joined, id, sizeof d->joined);
        d->longest_us = 0;
    }
    d->set = checksum(o->cell.ranks, o->cell.ranks_n * sizeof o->cell.ranks[0]);
    d->place = UW_DIRECT_IN_ROUND;
    d->end = UW_DIRECT_UNKNOWN;
    d->sum = 0;
    d->settles = r.alike;
    d->began_us = s->now_us;
    uint64_t most_us = known ? NEXT_MOST_US + NEXT_LONGEST * d->longest_us : FIRST_MOST_US;
    d->limit_us = uw_min_u64(most_us, o->cell.config.round_us);
    d->failed = d->hooks->begin(d->hooks->arg, &r);
}

/* Does a rank have a different average than this node? */
static bool differs(const struct uw_node_scope *o)
{
    const struct uw_node_direct_state *d = state_of(o);
    const struct uw_node_direct_seat *seat = d->seats, *end = seat + d->seats_max;
    while (seat < end && (seat->id == 0 || seat->group != o->cell.group ||
                          seat->round != o->cell.round || seat->sum == d->sum)) {
        seat++;
    }
    return seat < end;
}

static int look(struct uw_node_scope *o)
{
    struct uw_node_state *s = o->node;
    struct uw_node_direct_state *d = state_of(o);
    const struct uw_params *p = s->config.params;
    int rc = d->failed < 0 ? d->failed : d->hooks->poll(d->hooks->arg);
    uint64_t took_us = s->now_us - d->began_us;
    if (rc < 0 && rc != UW_ERR_AGAIN && d->end == UW_DIRECT_UNKNOWN) {
        d->end = UW_DIRECT_OWN_DEVICE;
    }
    if (rc == UW_ERR_AGAIN && took_us > d->limit_us) {
        rc = UW_ERR_IO;
    }
    if (rc == UW_OK) {
        d->longest_us = uw_max_u64(d->longest_us, took_us);
        d->sum = checksum(p->x, p->size_n * sizeof *p->x);
        rc = differs(o) ? UW_ERR_MISMATCH : UW_OK;
    }
    return rc;
}

static void decided(struct uw_node_scope *o, bool commit, uint32_t culprit)
{
    struct uw_node_state *s = o->node;
    struct uw_node_direct_state *d = state_of(o);
    if (commit) {
        d->place = UW_DIRECT_JOINED;
        d->failures = s->gradients->on ? d->failures : 0;   /* gradients decide */
        s->cell->average.settled = d->settles && d->hooks->settle(d->hooks->arg) == UW_OK;
        return;
    }
    drop_added(s);
    if (has_quit(s, culprit)) {
        d->end = UW_DIRECT_RANK_QUIT;
    } else {
        failed(s, d->set);
    }
}

static uint32_t progress(const struct uw_node_state *s)
{
    const struct uw_node_direct_state *d = s->cell->direct;
    bool runs = d->place == UW_DIRECT_IN_ROUND;
    return 1u + (runs ? (uint32_t)((s->now_us - d->began_us) / STEP_US) : 0);
}

static void failed_added(struct uw_node_state *s, bool own)
{
    s->cell->direct->end = own ? UW_DIRECT_OWN_DEVICE : UW_DIRECT_UNKNOWN;
    failed(s, s->cell->direct->set);
}

static bool is_back(const struct uw_node_state *s)
{
    const struct uw_node_direct_state *d = s->cell->direct;
    return d->why == UW_DIRECT_WAITS && s->now_us >= d->again_us && version(s) != 0;
}

const struct uw_node_directs uw_node_directs = {
    .setup = {check, place},
    .choose = choose,
    .send = send_with,
    .take = take,
    .begin = begin,
    .look = look,
    .decided = decided,
    .has_quit = has_quit,
    .progress = progress,
    .failed = failed_added,
    .is_back = is_back,
};
