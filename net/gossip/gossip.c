/* SPDX-License-Identifier: Apache-2.0 */
#include "gossip.h"

#include "guard.h"
#include "mix/squares.h"

#include <math.h>
#include <string.h>

#define OUTLIER 32.0f               /* times the rms of the model, without a guard */
#define OUTLIER_ADOPT 1000.0f       /* limit of a newcomer; trained models are closer */
#define WEIGHT_DEFAULT 0.5f
#define PUBLISH_TRIES 16u           /* readers copy one chunk at a time */

int uw_gossip_place(struct uw_gossip *g, struct uw_arena *arena,
                    const struct uw_gossip_config *config)
{
    memset(g, 0, sizeof *g);
    g->config = *config;
    g->image = (struct uw_image){.hooks = config->image, .size_n = config->params->size_n};
    if (g->config.constants.weight == 0.0f) {
        g->config.constants.weight = WEIGHT_DEFAULT;
    }
    g->slot_bytes = uw_gossip_slot_bytes(config->chunk_n);
    void *ring;
    const size_t bytes = uw_size_mul(config->slots_n, g->slot_bytes);
    int rc = uw_arena_take_each(arena, 1, &bytes, &ring);
    g->ring = ring;
    g->recent = UW_MIX_RECENT_FIRST;
    g->period_steps = config->period_steps;
    atomic_init(&g->period, config->period_steps);
    atomic_init(&g->newcomer, config->newcomer);
    return rc;
}

/* ---- between the threads: one producer, one consumer ---- */

/* Indices count modulo twice the ring's size. Free-running ones would jump when they wrap, unless
 * the ring's size divides 2^32. */
static uint32_t place_after(const struct uw_gossip *g, uint32_t place)
{
    return place + 1u < 2u * g->config.slots_n ? place + 1u : 0;
}

static struct uw_gossip_slot *slot_at(const struct uw_gossip *g, uint32_t place)
{
    return (struct uw_gossip_slot *)(void *)(g->ring + (place % g->config.slots_n) * g->slot_bytes);
}

UW_INLINE void store(atomic_uint_least32_t *a, uint32_t v)
{
    atomic_store_explicit(a, v, memory_order_relaxed);
}

uint32_t uw_gossip_room(const struct uw_gossip *g)
{
    uint32_t head = (uint32_t)atomic_load_explicit(&g->head, memory_order_acquire);
    uint32_t tail = uw_load(&g->tail);
    uint32_t used = tail >= head ? tail - head : tail + 2u * g->config.slots_n - head;
    return g->config.slots_n - used;
}

struct uw_gossip_slot *uw_gossip_slot(struct uw_gossip *g)
{
    return uw_gossip_room(g) != 0 ? slot_at(g, uw_load(&g->tail)) : NULL;
}

void uw_gossip_push(struct uw_gossip *g)
{
    atomic_store_explicit(&g->tail, place_after(g, uw_load(&g->tail)), memory_order_release);
}

const struct uw_gossip_slot *uw_gossip_oldest(const struct uw_gossip *g)
{
    uint32_t head = uw_load(&g->head);
    return head != uw_load(&g->tail) ? slot_at(g, head) : NULL;
}

void uw_gossip_pop(struct uw_gossip *g)
{
    store(&g->head, place_after(g, uw_load(&g->head)));
}

uint32_t uw_gossip_next_round(struct uw_gossip *g)
{
    uint32_t asked = (uint32_t)atomic_load_explicit(&g->asked, memory_order_acquire);
    if (asked == g->taken) {
        return 0;
    }
    g->taken = asked;
    return asked;
}

void uw_gossip_ended(struct uw_gossip *g, uint32_t round, enum uw_gossip_end how)
{
    store(&g->ended_how, (uint32_t)how);
    atomic_store_explicit(&g->ended, round, memory_order_release);
}

uint32_t uw_gossip_outlier_id(struct uw_gossip *g)
{
    uint32_t id = uw_load(&g->outlier_id);
    if (id != 0) {
        store(&g->outlier_id, 0);
    }
    return id;
}

/* ---- training thread ---- */

/* The published version; 0: none yet. */
UW_INLINE uint32_t shown(const struct uw_gossip *g)
{
    const struct uw_snapshot *s = g->config.snapshot;
    return s != NULL ? s->version : uw_load(&g->version);
}

float uw_gossip_share(const struct uw_gossip *g, struct uw_guard *guard,
                      const struct uw_gossip_slot *s, const float *own, float weight)
{
    if (guard != NULL && !s->adopt) {
        const struct uw_guarded c = {.offset_n = s->offset_n, .count_n = s->count_n,
                                     .rank = UW_GUARDED_PULL, .from_id = s->from_id,
                                     .weight = weight, .x = s->x, .own = own};
        return guard->share(guard, g, &c);
    }
    float distance = sqrtf((float)(uw_squares_apart(s->x, own, s->count_n) / s->count_n));
    float limit = (s->adopt ? OUTLIER_ADOPT : OUTLIER) * uw_gossip_rms(g);
    /* Initial weights of zero give no limit, but the distance must be finite. */
    return isinf(distance) || (limit > 0.0f && distance > limit) ? -1.0f : 1.0f;
}

static void reject(struct uw_gossip *g, const struct uw_gossip_slot *s)
{
    store(&g->doubted, g->guard != NULL && g->guard->doubts);
    store(s->from_id != 0 ? &g->outlier_id : &g->rejected, s->from_id != 0 ? s->from_id : g->round);
    store(&g->outliers, uw_load(&g->outliers) + 1u);
}

static bool is_wanted(const struct uw_gossip *g, const struct uw_gossip_slot *s)
{
    return s->round == g->round && !uw_gossip_rejected(g, g->round);
}

/* Chunks arrive nearly in order: fetch the range that covers them all. */
static bool fetch_arrived(struct uw_gossip *g, uint32_t head, uint32_t tail)
{
    uint32_t from_n = UINT32_MAX, to_n = 0;
    for (; g->config.image != NULL && head != tail; head = place_after(g, head)) {
        const struct uw_gossip_slot *s = slot_at(g, head);
        if (is_wanted(g, s)) {
            from_n = uw_min_u32(from_n, s->offset_n);
            to_n = s->offset_n + s->count_n > to_n ? s->offset_n + s->count_n : to_n;
        }
    }
    return to_n == 0 || uw_image_fetch(&g->image, from_n, to_n - from_n) == UW_OK;
}

/* Mix a chunk in. */
static void mix_slot(struct uw_gossip *g, const struct uw_gossip_slot *s)
{
    const float *start = uw_gossip_start(g);
    float weight = s->weight != 0.0f ? s->weight : g->config.constants.weight;
    bool anew = s->adopt || g->jumped || start == NULL;
    const float *own = (anew ? g->config.params->x : start) + s->offset_n;
    float share = uw_gossip_share(g, g->guard, s, own, weight);
    if (share < 0.0f) {
        reject(g, s);
        return;
    }
    g->mixed_round++;
    if (share == 0.0f) {
        return;                     /* what is usual is not known yet */
    }
    weight = s->adopt ? 1.0f : share * weight;
    if (anew) {
        uw_mix_chunk(weight, s->count_n, s->x, g->config.params->x + s->offset_n);
    } else {
        uw_mix_pulled(weight, g->config.params, s->offset_n, s->count_n, start, s->x);
    }
    uw_image_changed(&g->image, s->offset_n, s->count_n);
    g->mixed_models += (float)s->count_n / (float)g->config.params->size_n;
    g->model = s->adopt ? UW_GOSSIP_TAKING : g->model;
    g->jumped = g->jumped || s->adopt;
    store(&g->mixed, uw_load(&g->mixed) + 1u);
}

static void mix_arrived(struct uw_gossip *g)
{
    uint32_t head = uw_load(&g->head);
    uint32_t tail = (uint32_t)atomic_load_explicit(&g->tail, memory_order_acquire);
    if (!fetch_arrived(g, head, tail)) {
        return;
    }
    while (head != tail) {
        const struct uw_gossip_slot *s = slot_at(g, head);
        if (is_wanted(g, s)) {
            mix_slot(g, s);
        }
        head = place_after(g, head);
        atomic_store_explicit(&g->head, head, memory_order_release);
    }
}

static void measure_rms(struct uw_gossip *g)
{
    const struct uw_params *p = g->config.params;
    double sum = uw_squares(p->x, p->size_n);
    uw_store_float(&g->shown_rms, p->size_n != 0 ? sqrtf((float)(sum / p->size_n)) : 0.0f);
}

static void request_pull(struct uw_gossip *g)
{
    g->round++;
    g->round_steps = 0;
    g->period_steps = uw_load(&g->period);
    g->mixed_round = 0;
    g->state = UW_GOSSIP_PULLING;
    atomic_store_explicit(&g->hurry, false, memory_order_relaxed);
    atomic_store_explicit(&g->asked, g->round, memory_order_release);
}

static void begin_steps(struct uw_gossip *g)
{
    g->steps = 0;
    g->lr_sum = 0.0f;
    g->turned = false;
}

void uw_gossip_moves(struct uw_gossip *g)
{
    if (g->guard != NULL && !g->moves_known) {
        g->guard->publishes(g->guard, g);
        g->moves_known = true;
    }
}

int uw_gossip_publish(struct uw_gossip *g, uint32_t step, bool measure)
{
    struct uw_snapshot *s = g->config.snapshot;
    int rc = uw_image_fetch_all(&g->image);
    if (rc < 0) {
        return rc;
    }
    uw_gossip_moves(g);
    rc = s != NULL ? UW_ERR_AGAIN : UW_OK;
    for (uint32_t i = 0; rc == UW_ERR_AGAIN && i < PUBLISH_TRIES; i++) {
        rc = uw_snapshot_publish(s, g->config.params->x, step);
    }
    if (rc == UW_OK) {
        g->jumped = g->moves_known = false;
        if (measure) {
            measure_rms(g);
        }
        atomic_store_explicit(&g->version, s != NULL ? s->version : uw_load(&g->version) + 1u,
                              memory_order_release);
    }
    return rc;
}

void uw_gossip_go_on(struct uw_gossip *g, const struct uw_mix_rule *rule)
{
    g->config.rule = rule;
    g->config.adopt_only = false;
    g->state = UW_GOSSIP_IDLE;
    g->model = UW_GOSSIP_OWN;
    g->recent = UW_MIX_RECENT_FIRST;
    g->mixed_models = 0.0f;
}

void uw_gossip_recall(struct uw_gossip *g, bool mixed)
{
    g->recent = uw_mix_recent(&g->config.constants, g->recent, mixed ? 1.0f : 0.0f);
}

void uw_gossip_mixed_round(struct uw_gossip *g)
{
    store(&g->rounds, uw_load(&g->rounds) + 1u);
    uw_gossip_settle(g);
}

/* Apply the rule, every T steps. s is the snapshot, which only this thread writes. A model that was
 * taken over is not a displacement. */
static void turn(struct uw_gossip *g)
{
    const struct uw_gossip_config *c = &g->config;
    if (g->turned || c->adopt_only) {
        return;
    }
    if (g->lr_sum > 0.0f) {
        g->recent = uw_mix_recent(&c->constants, g->recent, g->mixed_models);
        g->mixed_models = 0.0f;
    }
    const float *start = uw_gossip_start(g);
    if (!g->jumped && g->lr_sum > 0.0f && start != NULL && c->rule->end != NULL &&
        uw_image_fetch_all(&g->image) == UW_OK) {
        uw_mix_end(c->rule, &c->constants, c->params, start, c->velocity, g->lr_sum, g->recent);
        uw_image_velocity(&g->image);
        /* rules in two parts do not change x */
        uw_image_changed(&g->image, 0, c->rule->before != NULL ? 0 : c->params->size_n);
    }
    g->turned = true;
}

/* T steps are done but not the pull: publish, and continue the pull. */
static void end_steps(struct uw_gossip *g, uint32_t step)
{
    turn(g);
    if (uw_gossip_publish(g, step, true) == UW_OK) {
        begin_steps(g);
    }
}

static void end_pull(struct uw_gossip *g)
{
    if (g->guard != NULL && g->guard->ends(g->guard, g, uw_gossip_rejected(g, g->round))) {
        store(&g->doubted, 0);
        store(&g->rejected, g->round);
    }
    if (g->mixed_round != 0 && g->model != UW_GOSSIP_HALF) {
        uw_gossip_mixed_round(g);
    }
}

static void end_round(struct uw_gossip *g)
{
    uint32_t how = uw_load(&g->ended_how);
    bool complete = how == UW_GOSSIP_COMPLETE && !uw_gossip_rejected(g, g->round);
    if (g->model == UW_GOSSIP_TAKING) {
        g->model = complete ? UW_GOSSIP_OWN : UW_GOSSIP_HALF;
    } else if (how == UW_GOSSIP_NONE || how == UW_GOSSIP_STALE || complete) {
        g->model = UW_GOSSIP_OWN;   /* no peer left to take the rest from, or complete: train */
    }
    turn(g);
    end_pull(g);
    g->state = UW_GOSSIP_ENDING;
}

static bool is_full(const struct uw_gossip *g, uint32_t steps)
{
    return steps >= g->period_steps ||
           (steps != 0 && atomic_load_explicit(&g->hurry, memory_order_relaxed));
}

static bool round_is_over(const struct uw_gossip *g, bool ended, float lr)
{
    bool more = g->config.pulls_n > 1u && g->round % g->config.pulls_n != 0;
    return ended && (lr == 0.0f || more || g->model != UW_GOSSIP_OWN || is_full(g, g->round_steps));
}

void uw_gossip_set_period(struct uw_gossip *g, uint32_t steps)
{
    g->config.period_steps = steps;
    g->period_steps = steps;
    store(&g->period, steps);
}

void uw_gossip_report(struct uw_gossip *g, const struct uw_node_progress *p)
{
    store(&g->step, p->step);
    uw_store_float(&g->loss, p->loss);
    uw_store_float(&g->accuracy, p->accuracy);
    uw_store_float(&g->samples_per_s, p->samples_per_s);
    store(&g->power_mw, p->vitals.power_mw);
    store(&g->temperature_mc, (uint32_t)p->vitals.temperature_mc);
    store(&g->battery_percent, p->vitals.battery_percent);
    store(&g->still_s, p->still_s);
}

/* A newcomer publishes its initial weights only if there is no model to take over. */
static int start(struct uw_gossip *g, uint32_t step)
{
    if (!g->config.newcomer) {
        int rc = uw_gossip_publish(g, step, true);
        if (rc < 0) {
            return rc == UW_ERR_AGAIN ? 0 : rc;
        }
    } else if (uw_image_fetch_all(&g->image) == UW_OK) {
        measure_rms(g);
    }
    begin_steps(g);
    request_pull(g);
    return 0;
}

bool uw_gossip_touches(const struct uw_gossip *g)
{
    uint32_t steps = g->steps > g->round_steps ? g->steps : g->round_steps;
    return g->state != UW_GOSSIP_PULLING || g->model != UW_GOSSIP_OWN || is_full(g, steps + 1u) ||
           uw_load(&g->head) != uw_load(&g->tail);
}

int uw_gossip_after_step(struct uw_gossip *g, const struct uw_node_progress *p)
{
    if (g->config.snapshot != NULL && g->config.snapshot->data == NULL) {
        return UW_ERR_UNSUPPORTED;
    }
    uw_gossip_report(g, p);
    if (g->state == UW_GOSSIP_IDLE) {
        return start(g, p->step);
    }
    if (p->lr > 0.0f) {
        g->steps++;
        g->round_steps++;
        g->lr_sum += p->lr;
    }
    int flags = 0;
    if (g->state == UW_GOSSIP_PULLING) {
        /* Read the end before the ring: the ring then has all chunks before the end. */
        bool ended = atomic_load_explicit(&g->ended, memory_order_acquire) == g->round;
        uint32_t before = g->mixed_round;
        mix_arrived(g);
        flags |= g->mixed_round != before ? UW_NODE_MIXED : 0;
        bool own = p->lr > 0.0f && g->model == UW_GOSSIP_OWN && !g->config.adopt_only &&
                   shown(g) != 0;
        bool full = is_full(g, g->steps);
        if (!round_is_over(g, ended, p->lr)) {
            if (own && full && !g->config.holds) {
                end_steps(g, p->step);
            }
            return flags | (g->model != UW_GOSSIP_OWN ? UW_NODE_ADOPTING : 0);
        }
        uint32_t how = uw_load(&g->ended_how);
        flags |= g->mixed_round != 0 || how == UW_GOSSIP_STALE ? UW_NODE_ROUND : 0;
        if (own && !full) {     /* continue the T steps */
            end_pull(g);
            request_pull(g);
            return flags;
        }
        end_round(g);
    }
    /* Do not publish a partial model, or the same version twice. */
    bool half = g->model == UW_GOSSIP_HALF, rests = g->config.adopt_only && !half;
    bool mixed = g->mixed_round != 0 || g->jumped;
    bool show = !half && (!rests || mixed) &&
                (mixed || g->steps != 0 || shown(g) == 0);
    if (!show || uw_gossip_publish(g, p->step, true) == UW_OK) {
        g->state = UW_GOSSIP_RESTING;
        if (!rests) {
            begin_steps(g);
            request_pull(g);
        }
    } else {
        g->state = UW_GOSSIP_ENDING;
    }
    return flags | (half ? UW_NODE_ADOPTING : 0);
}
