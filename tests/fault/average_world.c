/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/average_world.h"

#include "uwasa/rng.h"

static struct average_world *world_of_all;

static const struct uw_cell *cell_of(const struct world_node *n)
{
    return &n->node.state->cell->scopes[UW_AVERAGE_CELL].cell;
}

static bool in_round(const struct uw_cell *c)
{
    return c->state == UW_CELL_IN_ROUND || c->state == UW_CELL_HAS_RESULT;
}

static uint32_t place_of(const struct world *w, uint32_t id)
{
    for (uint32_t i = 0; i < w->n; i++) {
        if (uw_name_id(w->nodes[i].name) == id) {
            return i;
        }
    }
    fail_msg("a rank that is no node");
    return 0;
}

static struct average_round *round_of(struct average_world *a, uint32_t group, uint32_t round)
{
    for (uint32_t i = a->rounds_n; i > 0; i--) {
        struct average_round *r = &a->rounds[i - 1u];
        if (r->group == group && r->round == round) {
            return r;
        }
    }
    return NULL;
}

static struct average_round *new_round(struct average_world *a, const struct uw_cell *c)
{
    assert_true(a->rounds_n < AVERAGE_ROUNDS_MAX);
    struct average_round *r = &a->rounds[a->rounds_n++];
    *r = (struct average_round){.group = c->group, .round = c->round, .ranks_n = c->ranks_n};
    r->sum = calloc(a->w->size_n, sizeof *r->sum);
    for (uint32_t i = 0; i < c->ranks_n; i++) {
        r->ranked |= 1u << place_of(a->w, c->ranks[i]);
    }
    return r;
}

/* Training: some noise that tells nodes and steps apart. */
static void train(struct world_node *n)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_rng_mix(n->world->seed * 64u + n->place, n->progress.step));
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] += 0.25f * (uw_rng_uniform(&rng) - 0.5f);
    }
}

/* What a node has got back. */
static const float *outcome(const struct average_world *a, const struct world_node *n)
{
    return a->nodes[n->place].ruled ? a->nodes[n->place].came : n->x;
}

static void check_average(struct average_world *a, const struct world_node *n)
{
    const float *x = outcome(a, n);
    const struct uw_cell *c = cell_of(n);
    if (c->ranks_n == 1) {
        return;         /* a head alone, which has mixed with another cell */
    }
    struct average_round *r = round_of(a, c->group, c->round);
    assert_non_null(r);
    assert_int_equal(r->began, r->ranked);      /* nobody commits before all have begun */
    for (uint32_t k = 0; k < a->w->size_n; k++) {
        double mean = r->sum[k] / r->ranks_n;
        if (fabs((double)x[k] - mean) > 1e-5 * r->largest) {
            fail_msg("%s, element %u: %g is not the mean %g of %u ranks", n->name, (unsigned)k,
                     (double)x[k], mean, (unsigned)r->ranks_n);
        }
    }
    if (r->result == NULL) {
        r->result = malloc(a->w->size_n * sizeof(float));
        memcpy(r->result, x, a->w->size_n * sizeof(float));
        a->committed_n++;
        a->streamed_n += c->stream_n != 0;
    }
    if (a->same_bits) {
        assert_memory_equal(r->result, x, a->w->size_n * sizeof(float));
    }
    r->committed |= 1u << n->place;
}

static void after(struct world_node *n, int flags)
{
    struct average_world *a = world_of_all;
    struct average_node *me = &a->nodes[n->place];
    bool waits = (flags & UW_NODE_AVERAGING) != 0;
    if (waits && !me->waits) {
        memcpy(me->handed, world_x(n), a->w->size_n * sizeof(float));
        me->since_us = a->w->now_us;
        me->ruled = false;
    }
    if (!waits && me->waits) {
        uint64_t waited_us = a->w->now_us - me->since_us;
        a->longest_us = waited_us > a->longest_us ? waited_us : a->longest_us;
        if ((flags & UW_NODE_ROUND) != 0) {
            check_average(a, n);
        } else {
            assert_memory_equal(me->handed, outcome(a, n), a->w->size_n * sizeof(float));
            me->given_up++;
        }
    }
    me->waits = waits;
}

/* Who has begun which round with what; who has aborted. */
static void watch(struct average_world *a)
{
    struct world *w = a->w;
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_node *n = &w->nodes[i];
        if (!n->up) {
            continue;
        }
        const struct uw_cell *c = cell_of(n);
        struct average_round *r = round_of(a, c->group, c->round);
        if (in_round(c) && !c->lent && c->ranks_n > 1) {
            bool anew = r == NULL || ((r->began >> i & 1u) != 0 &&
                                      r->lives[i] != a->nodes[i].life);
            r = anew ? new_round(a, c) : r;
            const struct uw_node_bridge *b = n->node.state->bridge;
            for (uint32_t k = 0; (r->began >> i & 1u) == 0 && k < w->size_n; k++) {
                double x = (double)a->nodes[i].handed[k];
                x += b->state == UW_BRIDGE_ADDED ? (double)c->ranks_n * (double)b->inbox[k] : 0.0;
                r->sum[k] += x;
                r->largest = fabs(x) > r->largest ? fabs(x) : r->largest;
            }
            r->began |= 1u << i;
            r->lives[i] = a->nodes[i].life;
        }
        for (uint32_t k = 0; k < UW_CELL_LOG && k < c->log_n; k++) {
            struct average_round *old =
                c->log[k].committed ? NULL : round_of(a, c->log[k].group, c->log[k].round);
            if (old != NULL && (old->began >> i & 1u) != 0) {
                old->aborted |= 1u << i;
            }
        }
        if (a->nodes[i].waits && !n->paused && w->now_us - a->nodes[i].since_us > a->limit_us) {
            fail_msg("%s waits for its average for more than %.1f s", n->name,
                     (double)a->limit_us / 1e6);
        }
    }
}

struct average_world *average_world_new(uint32_t n, uint32_t size_n, uint32_t mtu_bytes)
{
    struct average_world *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->w = world_new(n, size_n, mtu_bytes);
    a->w->config.mode = UW_NODE_ALLREDUCE;
    a->limit_us = 300000000;
    a->same_bits = true;
    for (uint32_t i = 0; i < n; i++) {
        a->w->nodes[i].train = train;
        a->w->nodes[i].after = after;
        a->nodes[i].handed = malloc(size_n * sizeof(float));
        a->nodes[i].came = malloc(size_n * sizeof(float));
    }
    world_of_all = a;
    return a;
}

static void end_seen(const struct uw_mix_constants *c, uint32_t n, const float *s, float *x,
                     float *m, float lr_sum, float alone)
{
    struct average_world *a = world_of_all;
    uint32_t i = 0;
    while ((uintptr_t)x - (uintptr_t)world_x(&a->w->nodes[i]) >= a->w->size_n * sizeof(float)) {
        assert_true(++i < a->w->n);
    }
    memcpy(a->nodes[i].came + (x - world_x(&a->w->nodes[i])), x, n * sizeof(float));
    a->nodes[i].ruled = true;
    a->rule->end(c, n, s, x, m, lr_sum, alone);
}

void average_world_mix(struct average_world *a, const struct uw_mix_rule *rule)
{
    struct world *w = a->w;
    a->rule = rule;
    a->seen = *rule;
    a->seen.end = rule->end != NULL ? end_seen : NULL;
    w->config.rule = &a->seen;
    for (uint32_t i = 0; i < w->n; i++) {
        uint32_t spare_n = uw_node_spare_n(w->config.mode, rule, w->size_n);
        w->nodes[i].spare = spare_n != 0 ? uw_test_floats(spare_n) : NULL;
    }
}

static struct uw_link *say_reliable(struct world_node *n)
{
    n->emulated.link.reliable = (world_of_all->reliable >> n->place & 1u) != 0;
    return &n->emulated.link;
}

void average_world_stream(struct average_world *a, uint32_t nodes)
{
    const struct uw_impairment *bad = &a->w->impairment;
    a->w->impairment = (struct uw_impairment){.delay_us = bad->delay_us,
                                              .rate_bits_per_s = bad->rate_bits_per_s};
    a->reliable = nodes;
    a->w->above = say_reliable;
}

void average_world_run(struct average_world *a, uint64_t us)
{
    uint64_t until_us = a->w->now_us + us;
    while (a->w->now_us < until_us) {
        world_tick(a->w);
        watch(a);
    }
}

void average_world_forget(struct average_world *a, uint32_t i)
{
    a->nodes[i].waits = false;
    a->nodes[i].life++;
}

uint32_t average_world_split(const struct average_world *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        n += a->rounds[i].committed != 0 && a->rounds[i].aborted != 0;
    }
    return n;
}

void average_world_free(struct average_world *a)
{
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        free(a->rounds[i].sum);
        free(a->rounds[i].result);
    }
    for (uint32_t i = 0; i < a->w->n; i++) {
        free(a->nodes[i].handed);
        free(a->nodes[i].came);
        if (a->w->nodes[i].spare != NULL) {
            uw_test_release(a->w->nodes[i].spare);
        }
    }
    world_free(a->w);
    world_of_all = NULL;
    free(a);
}
