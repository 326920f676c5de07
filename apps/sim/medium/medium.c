/* SPDX-License-Identifier: Apache-2.0 */
#include "medium.h"

#include "uwasa/radio_profile.h"
#include "uwasa/secure_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 1024u           /* pings and requests */
#define BLOCK_BYTES (1u << 20)
#define BLOCK_LEAST 16u             /* messages */
#define QUEUE_US 50000u             /* capacity of a hop's queue, as time at its rate ... */
#define QUEUE_MIN 8u                /* ... but at least so many messages ... */
#define QUEUE_MAX_BYTES (1u << 20)  /* ... and at most so many bytes */
#define RADIO_QUEUE_N 3u
#define PPM 1000000u

/* Where a message is, or where it goes next; the last two are for a radio. */
enum stage {
    AT_CHANNEL, OFF_CHANNEL, AT_OUT, AT_IN, AT_FAR_CHANNEL,
    OFF_FAR_CHANNEL, AT_DOWN, ARRIVED, AT_AIR, OFF_AIR
};

struct uw_sim_message {
    struct uw_sim_message *next;
    uint32_t bytes;
    uint16_t from, to;
    uint8_t stage;                  /* enum stage */
    uint8_t pool;
    bool lost;                      /* by chance, decided at the end of the sender's side */
    uint64_t payload[];
};

/* ---- messages: shared buffers, and their order in time ---- */

static bool grow_heap(struct uw_sim_net *n, uint32_t cap)
{
    struct uw_sim_net_event *heap = realloc(n->heap, (size_t)cap * sizeof *heap);
    if (heap == NULL) {
        return false;
    }
    n->heap = heap;
    return true;
}

static bool add_block(struct uw_sim_net *n, uint32_t pool)
{
    struct uw_sim_pool *p = &n->pools[pool];
    size_t each = (sizeof(struct uw_sim_message) + p->cap_bytes + 7u) / 8u * 8u;
    uint32_t count = each * BLOCK_LEAST < BLOCK_BYTES ? (uint32_t)(BLOCK_BYTES / each)
                                                      : BLOCK_LEAST;
    if (!grow_heap(n, n->messages_n + count)) {
        return false;
    }
    uint8_t *block = malloc(sizeof(uint64_t) + each * count);
    if (block == NULL) {
        return false;
    }
    memcpy(block, &n->blocks, sizeof n->blocks);
    n->blocks = block;
    n->messages_n += count;
    for (uint32_t i = count; i-- > 0;) {
        struct uw_sim_message *m = (void *)(block + sizeof(uint64_t) + each * i);
        m->pool = (uint8_t)pool;
        m->next = p->free;
        p->free = m;
    }
    return true;
}

/* Allocate a buffer for a message of that size; NULL: out of memory. */
static struct uw_sim_message *take(struct uw_sim_net *n, uint32_t bytes)
{
    uint32_t pool = bytes <= n->pools[0].cap_bytes ? 0 : 1u;
    struct uw_sim_pool *p = &n->pools[pool];
    if (p->free == NULL && !add_block(n, pool)) {
        return NULL;
    }
    struct uw_sim_message *m = p->free;
    p->free = m->next;
    m->next = NULL;
    return m;
}

static void give(struct uw_sim_net *n, struct uw_sim_message *m)
{
    struct uw_sim_pool *p = &n->pools[m->pool];
    m->next = p->free;
    p->free = m;
}

static bool earlier(const struct uw_sim_net_event *a, const struct uw_sim_net_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

/* Schedule the next event of a message. A message is in the heap at most once, and the heap has
 * room for all messages. Each heap node has four children: that halves the depth of a binary heap,
 * and the children are adjacent in memory. */
static void push(struct uw_sim_net *n, struct uw_sim_message *m, uint64_t at_us)
{
    const struct uw_sim_net_event e = {.at_us = at_us, .order = n->order++, .message = m};
    uint32_t i = n->heap_n++;
    for (; i != 0 && earlier(&e, &n->heap[(i - 1u) / 4u]); i = (i - 1u) / 4u) {
        n->heap[i] = n->heap[(i - 1u) / 4u];
    }
    n->heap[i] = e;
}

/* Take the message with the earliest event; the heap must not be empty. */
static struct uw_sim_message *pop(struct uw_sim_net *n)
{
    struct uw_sim_message *m = n->heap[0].message;
    const struct uw_sim_net_event e = n->heap[--n->heap_n];
    uint32_t i = 0;
    for (;;) {
        uint32_t first = 4u * i + 1u;
        uint32_t end = first + 4u < n->heap_n ? first + 4u : n->heap_n;
        for (uint32_t k = first + 1u; k < end; k++) {
            first = earlier(&n->heap[k], &n->heap[first]) ? k : first;
        }
        if (first >= n->heap_n || !earlier(&n->heap[first], &e)) {
            break;
        }
        n->heap[i] = n->heap[first];
        i = first;
    }
    n->heap[i] = e;
    return m;
}

/* ---- hops ---- */

static uint64_t lower_rate(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static uint64_t queue_bytes(const struct uw_sim_net *n, uint64_t bits_per_s)
{
    uint64_t queue = bits_per_s / 8u * QUEUE_US / 1000000u;
    queue = queue < QUEUE_MAX_BYTES ? queue : QUEUE_MAX_BYTES;
    uint64_t least = (uint64_t)QUEUE_MIN * n->config.mtu_bytes;
    return queue > least ? queue : least;
}

/* Whether a queue has no room for so many more bytes. An empty queue has room for any message. */
static bool is_full(const struct uw_sim_net *n, const struct uw_sim_hop *h, uint64_t bits_per_s,
                    uint32_t bytes)
{
    if (bits_per_s == 0 || h->free_at_us <= n->now_us) {
        return false;
    }
    double waiting = (double)(h->free_at_us - n->now_us) * (double)bits_per_s / 8e6;
    return waiting + bytes > (double)queue_bytes(n, bits_per_s);
}

/* A message enters a hop now. Returns when its last bit has left. */
static uint64_t departure_us(const struct uw_sim_net *n, struct uw_sim_hop *h, uint64_t bits_per_s,
                             uint32_t bytes)
{
    if (bits_per_s == 0) {
        return h->free_at_us > n->now_us ? h->free_at_us : n->now_us;
    }
    if (h->free_at_us < n->now_us || h->rest_of != bits_per_s) {
        h->rest = 0;
        h->rest_of = bits_per_s;
    }
    uint64_t start_us = h->free_at_us > n->now_us ? h->free_at_us : n->now_us;
    uint64_t work = (uint64_t)bytes * 8000000u + h->rest;
    h->rest = work % bits_per_s;
    h->free_at_us = start_us + work / bits_per_s;
    return h->free_at_us;
}

static const struct uw_sim_cell *cell_of(const struct uw_sim_net *n, uint32_t place)
{
    uint32_t cell = n->config.fleet->devices[place].cell;
    return cell != UW_SIM_NO_CELL ? &n->config.fleet->cells[cell] : NULL;
}

static struct uw_sim_net_cell *hops_of(struct uw_sim_net *n, uint32_t place)
{
    uint32_t cell = n->config.fleet->devices[place].cell;
    return cell != UW_SIM_NO_CELL ? &n->cells[cell] : NULL;
}

/* The cell that two devices share, or NULL. */
static const struct uw_sim_cell *common_cell(const struct uw_sim_net *n, uint32_t a, uint32_t b)
{
    const struct uw_sim_cell *c = cell_of(n, a);
    return c == cell_of(n, b) ? c : NULL;
}

/* The rate of a device's own hop to or from another device. */
static uint64_t own_rate(const struct uw_sim_net *n, uint64_t bits_per_s, uint32_t a, uint32_t b)
{
    const struct uw_sim_cell *c = common_cell(n, a, b);
    return c != NULL && !c->shared ? lower_rate(bits_per_s, c->bits_per_s) : bits_per_s;
}

static bool has_channel(const struct uw_sim_cell *c)
{
    return c != NULL && c->shared && c->bits_per_s != 0;
}

static uint64_t latency_us(const struct uw_sim_net *n, uint32_t from, uint32_t to)
{
    const struct uw_sim_device *a = &n->config.fleet->devices[from];
    const struct uw_sim_device *b = &n->config.fleet->devices[to];
    const struct uw_sim_cell *common = common_cell(n, from, to);
    if (common != NULL) {
        return common->latency_us;
    }
    const struct uw_sim_cell *ca = cell_of(n, from), *cb = cell_of(n, to);
    return a->latency_us + b->latency_us + (ca != NULL ? ca->out_latency_us : 0) +
           (cb != NULL ? cb->out_latency_us : 0);
}

/* Advance from m->stage to the next stage with an event; adds the delays on the way to *at_us. */
static void advance_stage(const struct uw_sim_net *n, struct uw_sim_message *m, uint64_t *at_us)
{
    const struct uw_sim_cell *near = cell_of(n, m->from), *far = cell_of(n, m->to);
    bool inside = near != NULL && near == far;
    if (m->stage == AT_CHANNEL && !has_channel(near)) {
        m->stage = AT_OUT;
    }
    if (m->stage == AT_OUT && (inside || near == NULL || near->out_bits_per_s == 0)) {
        m->stage = AT_IN;
        *at_us += latency_us(n, m->from, m->to);
    }
    if (m->stage == AT_IN && (inside || far == NULL || far->out_bits_per_s == 0)) {
        m->stage = AT_FAR_CHANNEL;
    }
    if (m->stage == AT_FAR_CHANNEL && (inside || !has_channel(far))) {
        m->stage = AT_DOWN;
    }
    if (m->stage == AT_DOWN &&
        own_rate(n, n->config.fleet->devices[m->to].down_bits_per_s, m->to, m->from) == 0) {
        m->stage = ARRIVED;
    }
}

static void go_on(struct uw_sim_net *n, struct uw_sim_message *m, uint64_t at_us)
{
    advance_stage(n, m, &at_us);
    push(n, m, at_us);
}

static void drop(struct uw_sim_net *n, struct uw_sim_message *m, bool full)
{
    n->links[m->from].link.stats.dropped_n++;
    n->overflow_n += full;
    n->lost_n += !full;
    give(n, m);
}

/* Pass a queue whose senders do not notice when it is full. */
static void cross(struct uw_sim_net *n, struct uw_sim_message *m, struct uw_sim_hop *h,
                  uint64_t bits_per_s, enum stage then, uint64_t more_us)
{
    if (is_full(n, h, bits_per_s, m->bytes)) {
        drop(n, m, true);
        return;
    }
    m->stage = (uint8_t)then;
    go_on(n, m, departure_us(n, h, bits_per_s, m->bytes) + more_us);
}

/* On a shared channel waiting bytes count for their sender: others' messages fill no queue. */
static void take_channel(struct uw_sim_net *n, struct uw_sim_message *m, uint32_t place)
{
    struct uw_sim_hop *h = &hops_of(n, place)->channel;
    m->stage++;
    push(n, m, departure_us(n, h, h->bits_per_s, m->bytes));
}

static void take_far_channel(struct uw_sim_net *n, struct uw_sim_message *m)
{
    struct uw_sim_net_cell *c = hops_of(n, m->to);
    struct uw_sim_hop *gate = &c->in;
    if (gate->waiting_bytes != 0 &&
        gate->waiting_bytes + m->bytes > queue_bytes(n, c->channel.bits_per_s)) {
        drop(n, m, true);
        return;
    }
    gate->waiting_bytes += m->bytes;
    take_channel(n, m, m->to);
}

static struct uw_sim_link *arrive(struct uw_sim_net *n, struct uw_sim_message *m)
{
    struct uw_sim_link *l = &n->links[m->to];
    if (l->away) {
        drop(n, m, false);
        return NULL;
    }
    if (l->last != NULL) {
        l->last->next = m;
    } else {
        l->first = m;
    }
    l->last = m;
    return l;
}

/* ---- a radio ----
 *
 * A channel that all devices share. Each device has a short queue; its first message waits until
 * the duty cycle allows sending, then for its turn. Its airtime is that of the radio's profile,
 * with the bytes of secure frames and the channel access. Then it arrives or is lost, independently
 * at each receiver. */

uint32_t uw_sim_radio_mtu(const struct uw_radio_profile *p)
{
    return p->frame_bytes - UW_SECURE_FRAMES_OVERHEAD;
}

static uint64_t air_us(const struct uw_radio_profile *p, uint32_t bytes)
{
    return p->access_us + uw_radio_profile_airtime_us(p, bytes + UW_SECURE_FRAMES_OVERHEAD);
}

/* Time of a sender's own frames, with the pauses that its duty cycle requires. */
static uint64_t with_pause_us(const struct uw_radio_profile *p, uint64_t us)
{
    return p->duty_ppm != 0 ? us * PPM / p->duty_ppm : us;
}

void uw_sim_radio_link(struct uw_link *l, const struct uw_radio_profile *p, uint16_t own)
{
    l->mtu_bytes = uw_sim_radio_mtu(p);
    l->shared = l->frames = l->numbered = true;
    l->own = own;
    l->duty_ppm = p->duty_ppm;
    l->rate_bits_per_s =
        (uint64_t)l->mtu_bytes * 8000000u / with_pause_us(p, air_us(p, l->mtu_bytes));
}

/* Schedule the first message of a queue as soon as it may be sent. */
static void schedule_first(struct uw_sim_net *n, struct uw_sim_link *l)
{
    uint64_t at_us = l->quiet_until_us > n->now_us ? l->quiet_until_us : n->now_us;
    if (l->out_first != NULL) {
        l->out_first->stage = AT_AIR;
        push(n, l->out_first, at_us);
    }
}

static void start_next(struct uw_sim_net *n)
{
    uint32_t nodes = n->config.fleet->devices_n;
    for (uint32_t i = 1; !n->air.busy && i <= nodes; i++) {
        struct uw_sim_link *l = &n->links[(n->air.turn + i) % nodes];
        if (!l->in_line) {
            continue;
        }
        struct uw_sim_message *m = l->out_first;
        uint64_t took_us = air_us(n->config.radio, m->bytes);
        l->in_line = false;
        l->quiet_until_us = n->now_us + with_pause_us(n->config.radio, took_us);
        n->air.busy = true;
        n->air.turn = l->place;
        n->air.busy_us += took_us;
        n->air.frames_n++;
        m->stage = OFF_AIR;
        push(n, m, n->now_us + took_us);
    }
}

static bool is_lost(struct uw_sim_net *n, struct uw_sim_link *to)
{
    float loss = n->config.fleet->devices[to->place].loss;
    return to->away || (loss > 0.0f && uw_rng_uniform(&to->rng) < loss);
}

/* Deliver a copy to one receiver; without memory it is lost. */
static void deliver(struct uw_sim_net *n, const struct uw_sim_message *m, struct uw_sim_link *to)
{
    struct uw_sim_message *copy = is_lost(n, to) ? NULL : take(n, m->bytes);
    if (copy == NULL) {
        n->lost_n++;
        return;
    }
    copy->bytes = m->bytes;
    copy->from = m->from;
    copy->to = (uint16_t)to->place;
    copy->stage = ARRIVED;
    memcpy(copy->payload, m->payload, m->bytes);
    push(n, copy, n->now_us);
}

static void leave_air(struct uw_sim_net *n, struct uw_sim_message *m)
{
    struct uw_sim_link *l = &n->links[m->from];
    for (uint32_t i = 0; i < n->config.fleet->devices_n; i++) {
        if (i != m->from && (m->to == UW_LINK_STATION_BROADCAST || m->to == i)) {
            deliver(n, m, &n->links[i]);
        }
    }
    l->out_first = m->next;
    l->out_n--;
    give(n, m);
    n->air.busy = false;
    schedule_first(n, l);
}

/* A message is at stage AT_AIR or OFF_AIR. */
static void step_radio(struct uw_sim_net *n, struct uw_sim_message *m)
{
    if (m->stage == AT_AIR) {
        n->links[m->from].in_line = true;
    } else {
        leave_air(n, m);
    }
    start_next(n);
}

static int send_radio(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_sim_link *l = (struct uw_sim_link *)link;
    struct uw_sim_net *n = l->net;
    if (to != UW_LINK_STATION_BROADCAST && to >= n->config.fleet->devices_n) {
        return UW_ERR_NOTFOUND;
    }
    struct uw_sim_message *m = l->out_n < RADIO_QUEUE_N ? take(n, buf_bytes) : NULL;
    if (m == NULL) {
        return UW_ERR_AGAIN;
    }
    *m = (struct uw_sim_message){
        .bytes = buf_bytes, .from = (uint16_t)l->place, .to = to, .pool = m->pool};
    memcpy(m->payload, buf, buf_bytes);
    link->stats.sent_n++;
    link->stats.sent_bytes += buf_bytes;
    struct uw_sim_message **end = &l->out_first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = m;
    if (l->out_n++ == 0) {
        schedule_first(n, l);
    }
    return UW_OK;
}

/* ---- the next event ---- */

struct uw_sim_link *uw_sim_net_step(struct uw_sim_net *n)
{
    n->now_us = n->heap[0].at_us > n->now_us ? n->heap[0].at_us : n->now_us;
    struct uw_sim_message *m = pop(n);
    switch ((enum stage)m->stage) {
    case AT_CHANNEL:
        take_channel(n, m, m->from);
        break;
    case OFF_CHANNEL:
        n->links[m->from].up.waiting_bytes -= m->bytes;
        if (m->lost) {
            drop(n, m, false);
            break;
        }
        m->stage = AT_OUT;
        go_on(n, m, n->now_us);
        break;
    case AT_OUT:
        cross(n, m, &hops_of(n, m->from)->out, cell_of(n, m->from)->out_bits_per_s, AT_IN,
              latency_us(n, m->from, m->to));
        break;
    case AT_IN:
        cross(n, m, &hops_of(n, m->to)->in, cell_of(n, m->to)->out_bits_per_s,
              AT_FAR_CHANNEL, 0);
        break;
    case AT_FAR_CHANNEL:
        take_far_channel(n, m);
        break;
    case OFF_FAR_CHANNEL:
        hops_of(n, m->to)->in.waiting_bytes -= m->bytes;
        m->stage = AT_DOWN;
        go_on(n, m, n->now_us);
        break;
    case AT_DOWN:
        cross(n, m, &n->links[m->to].down,
              own_rate(n, n->links[m->to].down.bits_per_s, m->to, m->from), ARRIVED, 0);
        break;
    case AT_AIR:
    case OFF_AIR:
        step_radio(n, m);
        break;
    case ARRIVED:
    default:
        return arrive(n, m);
    }
    return NULL;
}

/* ---- the link ---- */

static int sim_resolve(struct uw_link *link, const char *address, uint16_t *station)
{
    const struct uw_sim_net *n = ((struct uw_sim_link *)link)->net;
    char *end;
    unsigned long number = strtoul(address, &end, 10);
    if (address[0] < '0' || address[0] > '9' || *end != '\0') {
        return UW_ERR_INVALID;
    }
    if (number >= n->config.fleet->devices_n) {
        return UW_ERR_NOTFOUND;
    }
    *station = (uint16_t)number;
    return UW_OK;
}

static int sim_describe(struct uw_link *link, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    if (station >= ((struct uw_sim_link *)link)->net->config.fleet->devices_n) {
        return UW_ERR_NOTFOUND;
    }
    snprintf(text, UW_LINK_ADDRESS_BYTES, "%u", (unsigned)station);
    return UW_OK;
}

/* Station numbers never change, so every station is held for ever. */
static bool sim_hold(struct uw_link *link, uint16_t station, bool hold)
{
    (void)hold;
    return station < ((struct uw_sim_link *)link)->net->config.fleet->devices_n;
}

/* Whether the sender's own queue, for its uplink and its cell's channel, is full. */
static bool is_blocked(const struct uw_sim_link *l, uint64_t rate, uint32_t bytes)
{
    const struct uw_sim_net *n = l->net;
    const struct uw_sim_cell *c = cell_of(n, l->place);
    if (!has_channel(c)) {
        return is_full(n, &l->up, rate, bytes);
    }
    return l->up.waiting_bytes != 0 &&
           l->up.waiting_bytes + bytes > queue_bytes(n, lower_rate(rate, c->bits_per_s));
}

static int sim_send(struct uw_link *link, uint16_t to, const void *buf, uint32_t buf_bytes)
{
    struct uw_sim_link *l = (struct uw_sim_link *)link;
    struct uw_sim_net *n = l->net;
    if (n->config.radio != NULL) {
        return send_radio(link, to, buf, buf_bytes);
    }
    if (to == UW_LINK_STATION_BROADCAST) {
        return UW_ERR_UNSUPPORTED;
    }
    if (to >= n->config.fleet->devices_n) {
        return UW_ERR_NOTFOUND;
    }
    uint64_t rate = own_rate(n, l->up.bits_per_s, l->place, to);
    struct uw_sim_message *m = NULL;
    if (is_blocked(l, rate, buf_bytes) || (m = take(n, buf_bytes)) == NULL) {
        return UW_ERR_AGAIN;
    }
    float loss = n->config.fleet->devices[l->place].loss;
    bool channel = has_channel(cell_of(n, l->place));
    m->lost = loss > 0.0f && uw_rng_uniform(&l->rng) < loss;
    m->bytes = buf_bytes;
    m->from = (uint16_t)l->place;
    m->to = to;
    m->stage = AT_CHANNEL;
    link->stats.sent_n++;
    link->stats.sent_bytes += buf_bytes;
    uint64_t left_us = departure_us(n, &l->up, rate, buf_bytes);
    if (m->lost && !channel) {
        drop(n, m, false);
        return UW_OK;
    }
    if (buf_bytes != 0) {
        memcpy(m->payload, buf, buf_bytes);
    }
    l->up.waiting_bytes += channel ? buf_bytes : 0;
    go_on(n, m, left_us);
    return UW_OK;
}

static struct uw_sim_message *next_arrived(struct uw_sim_link *l)
{
    struct uw_sim_message *m = l->first;
    if (m != NULL) {
        l->first = m->next;
        l->last = l->first != NULL ? l->last : NULL;
    }
    return m;
}

static int sim_recv(struct uw_link *link, uint16_t *from, void *buf, uint32_t cap_bytes)
{
    struct uw_sim_link *l = (struct uw_sim_link *)link;
    struct uw_sim_message *m = next_arrived(l);
    if (m == NULL) {
        return UW_ERR_AGAIN;
    }
    int rc = m->bytes <= cap_bytes ? (int)m->bytes : UW_ERR_TOOBIG;
    *from = m->from;
    if (rc > 0) {
        memcpy(buf, m->payload, m->bytes);
    }
    if (rc >= 0) {
        link->stats.received_n++;
        link->stats.received_bytes += m->bytes;
    } else {
        link->stats.dropped_n++;
    }
    give(l->net, m);
    return rc;
}

static uint64_t sim_step(struct uw_link *link, uint64_t now_us)
{
    struct uw_sim_net *n = ((struct uw_sim_link *)link)->net;
    n->now_us = now_us > n->now_us ? now_us : n->now_us;
    return UINT64_MAX;
}

static void sim_deinit(struct uw_link *link)
{
    uw_sim_link_away((struct uw_sim_link *)link, true);
    link->ops = NULL;
}

static const struct uw_link_ops sim_ops = {
    .name = "simulated",
    .resolve = sim_resolve,
    .describe = sim_describe,
    .hold = sim_hold,
    .send = sim_send,
    .recv = sim_recv,
    .step = sim_step,
    .deinit = sim_deinit,
};

void uw_sim_link_away(struct uw_sim_link *l, bool away)
{
    struct uw_sim_message *m;
    l->away = away;
    while (away && (m = next_arrived(l)) != NULL) {
        drop(l->net, m, false);
    }
}

int uw_sim_net_open(struct uw_sim_net *n, const struct uw_sim_net_config *config)
{
    const struct uw_sim_fleet *f = config->fleet;
    *n = (struct uw_sim_net){.config = *config};
    n->pools[0].cap_bytes = SMALL_BYTES < config->mtu_bytes ? SMALL_BYTES : config->mtu_bytes;
    n->pools[1].cap_bytes = config->mtu_bytes;
    n->links = calloc(f->devices_n, sizeof *n->links);
    n->cells = calloc(f->cells_n + 1u, sizeof *n->cells);
    if (n->links == NULL || n->cells == NULL) {
        return UW_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < f->devices_n; i++) {
        struct uw_sim_link *l = &n->links[i];
        l->link = (struct uw_link){.ops = &sim_ops, .mtu_bytes = config->mtu_bytes, .fd = -1};
        l->net = n;
        l->place = i;
        l->up.bits_per_s = f->devices[i].up_bits_per_s;
        l->down.bits_per_s = f->devices[i].down_bits_per_s;
        l->link.rate_bits_per_s = lower_rate(l->up.bits_per_s, l->down.bits_per_s);
        if (config->radio != NULL) {
            uw_sim_radio_link(&l->link, config->radio, (uint16_t)i);
        }
        uw_rng_seed(&l->rng, uw_rng_mix(config->seed, i));
    }
    for (uint32_t i = 0; i < f->cells_n; i++) {
        n->cells[i].channel.bits_per_s = f->cells[i].bits_per_s;
    }
    return UW_OK;
}

void uw_sim_net_close(struct uw_sim_net *n)
{
    while (n->blocks != NULL) {
        void *block = n->blocks;
        memcpy(&n->blocks, block, sizeof n->blocks);
        free(block);
    }
    free(n->heap);
    free(n->cells);
    free(n->links);
    *n = (struct uw_sim_net){.links = NULL};
}
