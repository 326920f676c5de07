/* SPDX-License-Identifier: Apache-2.0 */
#include "link_emulated_path.h"

#include "uwasa/radio_profile.h"

#include <string.h>

#define RATE_QUEUE_DEFAULT 65536u
#define REORDER_MIN_US 1000u

static struct uw_emulated_slot *slot_at(const struct uw_emulated_path *p, uint32_t number)
{
    return (struct uw_emulated_slot *)(void *)(p->slots + number * p->slot_bytes);
}

static bool earlier(const struct uw_emulated_slot *a, const struct uw_emulated_slot *b)
{
    return a->due_us != b->due_us ? a->due_us < b->due_us : a->order < b->order;
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;
    *a = *b;
    *b = t;
}

struct uw_emulated_slot *uw_emulated_path_room(const struct uw_emulated_path *p)
{
    return slot_at(p, p->heap[p->count]);
}

static void heap_push(struct uw_emulated_path *p)
{
    uint32_t i = p->count++;
    while (i != 0) {
        uint32_t parent = (i - 1u) / 2u;
        if (!earlier(slot_at(p, p->heap[i]), slot_at(p, p->heap[parent]))) {
            break;
        }
        swap(&p->heap[i], &p->heap[parent]);
        i = parent;
    }
}

void uw_emulated_path_pop(struct uw_emulated_path *p)
{
    swap(&p->heap[0], &p->heap[--p->count]);
    uint32_t i = 0;
    for (;;) {
        uint32_t first = i;
        for (uint32_t child = 2u * i + 1u; child <= 2u * i + 2u && child < p->count; child++) {
            if (earlier(slot_at(p, p->heap[child]), slot_at(p, p->heap[first]))) {
                first = child;
            }
        }
        if (first == i) {
            return;
        }
        swap(&p->heap[i], &p->heap[first]);
        i = first;
    }
}

const struct uw_emulated_slot *uw_emulated_path_first(const struct uw_emulated_path *p)
{
    return p->count != 0 ? slot_at(p, p->heap[0]) : NULL;
}

/* The message that waits longest, since its due_us; NULL when none does. */
static const struct uw_emulated_slot *oldest(const struct uw_emulated_path *p)
{
    return p->waiting_n != 0 ? slot_at(p, p->heap[p->cap_n - 1u]) : NULL;
}

static bool happens(struct uw_emulated_path *p, float probability)
{
    return probability > 0.0f && uw_rng_uniform(&p->rng) < probability;
}

bool uw_emulated_path_is_clear(const struct uw_emulated_path *p)
{
    const struct uw_impairment *h = &p->how;
    return h->loss <= 0.0f && h->duplicate <= 0.0f && h->corrupt <= 0.0f && h->reorder <= 0.0f &&
           h->delay_us == 0 && h->jitter_us == 0 && h->rate_bits_per_s == 0 && h->mtu_bytes == 0 &&
           p->drops_n == 0;
}

static bool is_listed(const struct uw_emulated_path *p)
{
    for (uint32_t i = 0; i < p->drops_n; i++) {
        if (p->seen_n >= p->drops[i].first && p->seen_n <= p->drops[i].last) {
            return true;
        }
    }
    return false;
}

/* When the last bit has left, or UINT64_MAX when the queue before the rate is full. */
static uint64_t pass_rate(struct uw_emulated_path *p, uint32_t bytes, uint64_t now_us)
{
    const struct uw_impairment *h = &p->how;
    if (h->rate_bits_per_s == 0) {
        return now_us;
    }
    uint64_t start = p->free_at_us > now_us ? p->free_at_us : now_us;
    uint64_t limit = h->rate_queue_bytes != 0 ? h->rate_queue_bytes : RATE_QUEUE_DEFAULT;
    double waiting = (double)(start - now_us) * (double)h->rate_bits_per_s / 8e6;
    if (waiting > 0.0 && waiting + bytes > (double)limit) {
        return UINT64_MAX;
    }
    if (start != p->free_at_us) {
        p->rate_rest = 0;
    }
    uint64_t work = ((uint64_t)bytes + h->overhead_bytes) * 8000000u + p->rate_rest;
    p->rate_rest = work % h->rate_bits_per_s;
    p->free_at_us = start + work / h->rate_bits_per_s;
    return p->free_at_us;
}

static uint64_t due_time(struct uw_emulated_path *p, uint64_t left_us)
{
    const struct uw_impairment *h = &p->how;
    uint64_t due = left_us + h->delay_us;
    if (h->jitter_us != 0) {
        due += (uint64_t)((double)uw_rng_uniform(&p->rng) * (double)h->jitter_us);
    }
    due = due > p->last_due_us ? due : p->last_due_us;
    if (happens(p, h->reorder)) {
        uint64_t usual = h->delay_us > REORDER_MIN_US ? h->delay_us : REORDER_MIN_US;
        p->stats->reordered_n++;
        return due + (h->reorder_us != 0 ? h->reorder_us : usual);
    }
    p->last_due_us = due;
    return due;
}

static void damage(struct uw_emulated_path *p, uint8_t *data, uint32_t bytes)
{
    uint32_t flips = 1u + uw_rng_below(&p->rng, 3);
    for (uint32_t i = 0; i < flips; i++) {
        uint32_t bit = uw_rng_below(&p->rng, bytes * 8u);
        data[bit / 8u] ^= (uint8_t)(1u << (bit % 8u));
    }
}

/* Fill the next free slot, where the bytes lie already. */
static struct uw_emulated_slot *fill(struct uw_emulated_path *p, uint16_t station, uint32_t bytes)
{
    struct uw_emulated_slot *s = uw_emulated_path_room(p);
    s->station = station;
    s->bytes = bytes;
    s->order = p->order_n++;
    s->lost = false;
    if (bytes != 0 && happens(p, p->how.corrupt)) {
        damage(p, (uint8_t *)(s + 1), bytes);
        p->stats->corrupted_n++;
    }
    return s;
}

static void queue_copy(struct uw_emulated_path *p, uint16_t station, uint32_t bytes,
                       uint64_t left_us)
{
    struct uw_emulated_slot *s = fill(p, station, bytes);
    s->due_us = due_time(p, left_us);
    heap_push(p);
}

/* If the message arrives twice, copy the next free slot's bytes to the one that is next then. */
static bool copy_if_twice(struct uw_emulated_path *p, uint32_t then, uint32_t bytes)
{
    if (!happens(p, p->how.duplicate) || p->count + p->waiting_n + 1u >= p->cap_n) {
        return false;
    }
    memcpy(slot_at(p, p->heap[then]) + 1, uw_emulated_path_room(p) + 1, bytes);
    p->stats->duplicated_n++;
    return true;
}

/* Waiting messages are at the end of the table, backwards. */
static void queue_waiting(struct uw_emulated_path *p, uint16_t station, uint32_t bytes,
                          uint64_t now_us, bool lost)
{
    struct uw_emulated_slot *s = fill(p, station, bytes);
    s->due_us = now_us;
    s->lost = lost;
    p->waiting_n++;
    swap(&p->heap[p->count], &p->heap[p->cap_n - p->waiting_n]);
}

/* Count a message. Is it lost? */
static bool is_lost(struct uw_emulated_path *p, uint32_t bytes, bool cut)
{
    p->seen_n++;
    cut = cut || (p->how.mtu_bytes != 0 && bytes > p->how.mtu_bytes);
    bool lost = happens(p, p->how.loss);    /* always drawn: a cut leaves later draws as they are */
    lost = is_listed(p) || cut || lost;
    p->stats->lost_n += lost;
    return lost;
}

bool uw_emulated_path_admit_waiting(struct uw_emulated_path *p, uint64_t now_us, uint16_t station,
                                    uint32_t bytes, bool cut)
{
    bool lost = is_lost(p, bytes, cut);
    if (cut) {
        return false;
    }
    bool twice = !lost && copy_if_twice(p, p->cap_n - p->waiting_n - 1u, bytes);
    queue_waiting(p, station, bytes, now_us, lost);
    if (twice) {
        queue_waiting(p, station, bytes, now_us, false);
    }
    return !lost;
}

/* Remove it: it has left the medium. */
static void leave(struct uw_emulated_path *p, uint64_t left_us)
{
    uint32_t number = p->heap[p->cap_n - 1u];
    uint32_t *last = &p->heap[p->cap_n - p->waiting_n];
    memmove(last + 1, last, (p->waiting_n - 1u) * sizeof *last);
    *last = number;
    p->waiting_n--;
    swap(last, &p->heap[p->count]);
    struct uw_emulated_slot *s = slot_at(p, number);
    s->due_us = due_time(p, left_us);
    heap_push(p);
}

bool uw_emulated_path_admit(struct uw_emulated_path *p, uint64_t now_us, uint16_t station,
                            uint32_t bytes, bool cut)
{
    if (is_lost(p, bytes, cut)) {
        return false;
    }
    uint64_t left_us = pass_rate(p, bytes, now_us);
    if (left_us == UINT64_MAX) {
        p->stats->overflow_n++;
        return false;
    }
    bool twice = copy_if_twice(p, p->count + 1u, bytes);
    queue_copy(p, station, bytes, left_us);
    if (twice) {
        /* heap_push moved only entries below count, so the copy is still the next free slot. */
        queue_copy(p, station, bytes, left_us);
    }
    return true;
}

/* "3,7-9,20-" into ranges. false: malformed or too many. */
static bool parse_drops(struct uw_emulated_path *p, const char *text)
{
    p->drops_n = 0;
    while (text != NULL && *text != '\0') {
        uint64_t bound[2] = {0, 0};
        bool range = false;
        bool open = false;
        for (uint32_t i = 0; i < 2; i++) {
            const char *start = text;
            for (; *text >= '0' && *text <= '9' && bound[i] < UINT32_MAX; text++) {
                bound[i] = bound[i] * 10u + (uint64_t)(*text - '0');
            }
            open = text == start;
            if (i == 1 || *text != '-') {
                break;
            }
            range = true;
            text++;
        }
        uint64_t last = !range ? bound[0] : open ? UINT64_MAX : bound[1];
        if (bound[0] == 0 || last < bound[0] || p->drops_n == UW_EMULATED_DROPS_MAX) {
            return false;
        }
        p->drops[p->drops_n].first = bound[0];
        p->drops[p->drops_n++].last = last;
        if (*text == ',' && text[1] != '\0') {
            text++;
        } else if (*text != '\0') {
            return false;
        }
    }
    return true;
}

static bool is_probability(float x)
{
    return x >= 0.0f && x <= 1.0f;
}

int uw_emulated_path_set(struct uw_emulated_path *p, const struct uw_impairment *how)
{
    if (!is_probability(how->loss) || !is_probability(how->duplicate) ||
        !is_probability(how->corrupt) || !is_probability(how->reorder) ||
        !parse_drops(p, how->drop)) {
        return UW_ERR_INVALID;
    }
    p->how = *how;
    p->how.drop = NULL;
    return UW_OK;
}

size_t uw_emulated_path_slot_bytes(uint32_t mtu_bytes)
{
    size_t align = _Alignof(max_align_t);
    return (sizeof(struct uw_emulated_slot) + mtu_bytes + align - 1u) / align * align;
}

void uw_emulated_path_bind(struct uw_emulated_path *p, uint8_t *slots, uint32_t *heap, uint32_t n,
                           uint64_t seed)
{
    p->slots = slots;
    p->heap = heap;
    p->cap_n = n;
    for (uint32_t i = 0; i < n; i++) {
        heap[i] = i;
    }
    uw_rng_seed(&p->rng, seed);
}

/* ---- a medium that emulated links share ---- */

void uw_emulated_medium_join(struct uw_emulated_medium *m, struct uw_link_emulated *e)
{
    e->medium = m;
    e->next = m->first;
    m->first = e;
}

void uw_emulated_medium_part(struct uw_emulated_medium *m, struct uw_link_emulated *e)
{
    for (struct uw_link_emulated **at = &m->first; *at != NULL; at = &(*at)->next) {
        if (*at == e) {
            *at = e->next;
            break;
        }
    }
    m->turn = m->turn == e ? NULL : m->turn;
}

static struct uw_link_emulated *waiting_from(struct uw_link_emulated *e)
{
    while (e != NULL && e->out.waiting_n == 0) {
        e = e->next;
    }
    return e;
}

/* The one that sent last comes last. */
static struct uw_link_emulated *next_in_turn(const struct uw_emulated_medium *m)
{
    struct uw_link_emulated *e = m->turn != NULL ? waiting_from(m->turn->next) : NULL;
    return e != NULL ? e : waiting_from(m->first);
}

/* Access and all the bits. */
static uint64_t time_on_air(struct uw_emulated_medium *m, uint32_t bytes)
{
    if (m->airtime_us != NULL) {
        return m->access_us + m->airtime_us(m->airtime_arg, bytes);
    }
    if (m->rate_bits_per_s == 0) {
        return m->access_us;
    }
    uint64_t work = ((uint64_t)bytes + m->overhead_bytes) * 8000000u + m->rate_rest;
    m->rate_rest = work % m->rate_bits_per_s;
    return m->access_us + work / m->rate_bits_per_s;
}

uint64_t uw_emulated_airtime_us(const struct uw_emulated_medium *m, uint32_t bytes)
{
    struct uw_emulated_medium rest = {.rate_bits_per_s = m->rate_bits_per_s,
                                      .overhead_bytes = m->overhead_bytes,
                                      .access_us = m->access_us,
                                      .airtime_us = m->airtime_us,
                                      .airtime_arg = m->airtime_arg};
    uint64_t us = time_on_air(&rest, bytes);
    return us + (rest.rate_rest != 0);
}

void uw_emulated_medium_run(struct uw_emulated_medium *m, uint64_t now_us)
{
    while (m->free_at_us <= now_us) {
        struct uw_link_emulated *e = next_in_turn(m);
        if (e == NULL) {
            return;
        }
        const struct uw_emulated_slot *s = oldest(&e->out);
        uint64_t start_us = s->due_us > m->free_at_us ? s->due_us : m->free_at_us;
        uint64_t took_us = time_on_air(m, s->bytes);
        m->free_at_us = start_us + took_us;
        m->busy_us += took_us;
        m->messages_n++;
        m->turn = e;
        leave(&e->out, m->free_at_us);
    }
}

static uint64_t medium_airtime_us(const void *arg, uint32_t bytes)
{
    return uw_radio_profile_airtime_us(arg, bytes);
}

void uw_radio_profile_medium(const struct uw_radio_profile *p, struct uw_emulated_medium *m)
{
    memset(m, 0, sizeof *m);
    m->access_us = p->access_us;
    m->airtime_us = medium_airtime_us;
    m->airtime_arg = p;
}
