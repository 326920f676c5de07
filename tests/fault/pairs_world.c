/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/pairs_world.h"

#include "base/bits.h"

#include "uwasa/rng.h"

static struct pairs_world *world_of_all;

const struct uw_cell *pairs_world_cell(const struct world_node *n)
{
    return &n->node.state->cell->scopes[UW_AVERAGE_PAIR].cell;
}

static bool in_round(const struct uw_cell *c)
{
    return c->state == UW_CELL_IN_ROUND || c->state == UW_CELL_HAS_RESULT;
}

static struct pairs_round *round_of(struct pairs_world *a, uint32_t group, uint32_t round)
{
    for (uint32_t i = a->rounds_n; i > 0; i--) {
        struct pairs_round *r = &a->rounds[i - 1u];
        if (r->group == group && r->round == round) {
            return r;
        }
    }
    return NULL;
}

static struct pairs_round *new_round(struct pairs_world *a, const struct uw_cell *c)
{
    if (a->rounds_n == a->rounds_max) {
        a->rounds_max = 2u * a->rounds_max + 64u;
        a->rounds = realloc(a->rounds, a->rounds_max * sizeof *a->rounds);
        assert_non_null(a->rounds);
    }
    struct pairs_round *r = &a->rounds[a->rounds_n++];
    *r = (struct pairs_round){.group = c->group, .round = c->round};
    return r;
}

static float *copy_of(const float *from, uint32_t n)
{
    float *to = malloc(n * sizeof(float));
    assert_non_null(to);
    memcpy(to, from, n * sizeof(float));
    return to;
}

static void noise(struct world_node *n)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_rng_mix(n->world->seed * 64u + n->place, n->progress.step));
    for (uint32_t k = 0; k < n->world->size_n; k++) {
        n->x[k] += 0.25f * (uw_rng_uniform(&rng) - 0.5f);
    }
}

static void train(struct world_node *n)
{
    (world_of_all->step != NULL ? world_of_all->step : noise)(n);
}

static void near_to(const char *what, uint32_t k, double is, double wanted, double scale)
{
    if (fabs(is - wanted) > 1e-5 * (1.0 + scale)) {
        fail_msg("%s, element %u: %g in place of %g", what, (unsigned)k, is, wanted);
    }
}

/* This node has committed: x and its tracker have taken their share, half, of the difference. */
static void check_pair(struct pairs_world *a, const struct world_node *n)
{
    const struct uw_cell *c = pairs_world_cell(n);
    struct pairs_round *r = round_of(a, c->group, c->round);
    uint32_t size_n = a->w->size_n;
    const struct pairs_node *me = &a->nodes[n->place];
    assert_non_null(r);
    assert_int_equal(uw_bits_in(r->began), 2);      /* nobody commits before both have begun */
    uint32_t mine = r->place[0] == n->place ? 0 : 1;
    assert_memory_equal(r->v[mine], me->handed, 2u * size_n * sizeof(float));
    double w = n->node.state->pairs->weight != 0.0f ? (double)n->node.state->pairs->weight : 0.5;
    const float *other = r->v[1u - mine];
    for (uint32_t k = 0; k < size_n; k++) {
        double x = (double)me->handed[k], z = (double)me->handed[size_n + k];
        double x_peer = (double)other[k], z_peer = (double)other[size_n + k];
        near_to("x", k, (double)n->x[k], x + w * (x_peer - x), fabs(x) + fabs(x_peer));
        near_to("tracker", k, (double)n->velocity[k],
                (double)me->velocity[k] + w * (z_peer - z), fabs(z) + fabs(z_peer));
    }
    if (r->x == NULL) {
        r->x = copy_of(n->x, size_n);
        a->committed_n++;
    }
    if (w == 0.5) {
        assert_memory_equal(r->x, n->x, size_n * sizeof(float));
    }
    r->committed |= 1u << n->place;
}

static void after(struct world_node *n, int flags)
{
    struct pairs_world *a = world_of_all;
    struct pairs_node *me = &a->nodes[n->place];
    uint32_t size_n = a->w->size_n;
    bool waits = (flags & UW_NODE_AVERAGING) != 0;
    me->retreats += (flags & UW_NODE_RETREATED) != 0;
    if (waits && !me->waits) {
        assert_memory_equal(n->spare, n->x, size_n * sizeof(float));
        memcpy(me->handed, n->spare, 2u * size_n * sizeof(float));
        memcpy(me->velocity, n->velocity, size_n * sizeof(float));
        me->since_us = a->w->now_us;
    }
    if (!waits && me->waits) {
        uint64_t waited_us = a->w->now_us - me->since_us;
        a->longest_us = waited_us > a->longest_us ? waited_us : a->longest_us;
        if ((flags & UW_NODE_ROUND) != 0) {
            check_pair(a, n);
        } else {
            assert_memory_equal(me->handed, n->x, size_n * sizeof(float));
            assert_memory_equal(me->velocity, n->velocity, size_n * sizeof(float));
            me->identity++;
        }
    }
    me->waits = waits;
}

static void watch(struct pairs_world *a)
{
    struct world *w = a->w;
    for (uint32_t i = 0; i < w->n; i++) {
        struct world_node *n = &w->nodes[i];
        const struct uw_cell *c = n->up ? pairs_world_cell(n) : NULL;
        if (c == NULL) {
            continue;
        }
        if (in_round(c) && c->ranks_n > 1u) {
            struct pairs_round *r = round_of(a, c->group, c->round);
            r = r != NULL ? r : new_round(a, c);
            if ((r->began >> i & 1u) == 0) {
                uint32_t at = r->began != 0 ? 1u : 0u;
                r->place[at] = i;
                r->v[at] = copy_of(a->nodes[i].handed, 2u * w->size_n);
                r->began |= 1u << i;
            }
        }
        for (uint32_t k = 0; k < UW_CELL_LOG && k < c->log_n; k++) {
            struct pairs_round *old = round_of(a, c->log[k].group, c->log[k].round);
            if (old != NULL && !c->log[k].committed && (old->began >> i & 1u) != 0) {
                old->aborted |= 1u << i;
            }
        }
        if (a->nodes[i].waits && !n->paused && w->now_us - a->nodes[i].since_us > a->limit_us) {
            fail_msg("%s waits for its partner for more than %.1f s", n->name,
                     (double)a->limit_us / 1e6);
        }
    }
}

struct pairs_world *pairs_world_new(uint32_t n, uint32_t size_n, uint32_t mtu_bytes)
{
    struct pairs_world *a = calloc(1, sizeof *a);
    assert_non_null(a);
    a->w = world_new(n, size_n, mtu_bytes);
    a->w->config.rule = &uw_mix_kgt;
    a->limit_us = 120000000;
    for (uint32_t i = 0; i < n; i++) {
        struct world_node *it = &a->w->nodes[i];
        it->train = train;
        it->after = after;
        it->spare = uw_test_floats(2u * size_n);
        a->nodes[i].handed = malloc(2u * size_n * sizeof(float));
        a->nodes[i].velocity = malloc(size_n * sizeof(float));
    }
    world_of_all = a;
    return a;
}

void pairs_world_run(struct pairs_world *a, uint64_t us)
{
    uint64_t until_us = a->w->now_us + us;
    while (a->w->now_us < until_us) {
        world_tick(a->w);
        watch(a);
    }
}

void pairs_world_forget(struct pairs_world *a, uint32_t i)
{
    a->nodes[i].waits = false;
}

uint32_t pairs_world_half(const struct pairs_world *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        const struct pairs_round *r = &a->rounds[i];
        bool open = false;      /* a side waits for the decision, or for its training thread */
        for (uint32_t k = 0; k < a->w->n; k++) {
            const struct world_node *it = &a->w->nodes[k];
            const struct uw_cell *c = it->up ? pairs_world_cell(it) : NULL;
            open = open || ((r->began >> k & 1u) != 0 && c != NULL && a->nodes[k].waits &&
                            c->group == r->group && c->round == r->round);
        }
        n += r->committed != 0 && r->committed != r->began && !open;
    }
    return n;
}

double pairs_world_imbalance(const struct pairs_world *a)
{
    double worst = 0.0, largest = 1e-30;
    for (uint32_t k = 0; k < a->w->size_n; k++) {
        double sum = 0.0;
        for (uint32_t i = 0; i < a->w->n; i++) {
            double c = (double)a->w->nodes[i].velocity[k];
            sum += c;
            largest = fabs(c) > largest ? fabs(c) : largest;
        }
        worst = fabs(sum) > worst ? fabs(sum) : worst;
    }
    return worst / largest;
}

void pairs_world_free(struct pairs_world *a)
{
    for (uint32_t i = 0; i < a->rounds_n; i++) {
        free(a->rounds[i].v[0]);
        free(a->rounds[i].v[1]);
        free(a->rounds[i].x);
    }
    for (uint32_t i = 0; i < a->w->n; i++) {
        free(a->nodes[i].handed);
        free(a->nodes[i].velocity);
        uw_test_release(a->w->nodes[i].spare);
    }
    world_free(a->w);
    world_of_all = NULL;
    free(a->rounds);
    free(a);
}
