/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/gradient_world.h"

#include "uwasa/rng.h"

static const uint32_t bucket_n[GRADIENT_BUCKETS] = {5, 80, 200, 15};

static uint32_t offset_of(uint32_t bucket)
{
    uint32_t at = 0;
    for (uint32_t b = 0; b < bucket; b++) {
        at += bucket_n[b];
    }
    return at;
}

/* NULL: it is too long ago. */
static struct gradient_step *find(struct gradient_world *g, const struct gradient_node *n)
{
    for (uint32_t i = g->steps_n; i > 0 && i + GRADIENT_RECORDS > g->steps_n; i--) {
        struct gradient_step *s = &g->steps[(i - 1u) % GRADIENT_RECORDS];
        if (s->group == n->group && s->round == n->round) {
            return s;
        }
    }
    return NULL;
}

static struct gradient_step *step_of(struct gradient_world *g, const struct gradient_node *n)
{
    struct gradient_step *s = find(g, n);
    if (s != NULL) {
        return s;
    }
    s = &g->steps[g->steps_n++ % GRADIENT_RECORDS];
    *s = (struct gradient_step){.group = n->group, .round = n->round,
                                .ranks_n = n->it->node.state->gradients->ranks_n};
    return s;
}

static bool running(const struct gradient_node *n)
{
    bool running = false;
    for (uint32_t b = 0; b < GRADIENT_BUCKETS && n->pending; b++) {
        running = running || uw_node_gradient_state(&n->it->node, b) == UW_GRADIENT_RUNNING;
    }
    return running;
}

static void check_mean(struct gradient_world *g, struct gradient_node *n, uint32_t bucket)
{
    struct gradient_step *s = find(g, n);
    uint32_t at = offset_of(bucket);
    if (s == NULL) {
        return;
    }
    assert_int_equal(uw_bits_in(s->handed), s->ranks_n);    /* nobody's is missing */
    if ((s->have_mean >> bucket & 1u) == 0) {
        s->have_mean |= 1u << bucket;
        memcpy(s->mean + at, n->gradient + at, bucket_n[bucket] * sizeof(float));
        for (uint32_t k = at; k < at + bucket_n[bucket]; k++) {
            assert_true(fabs((double)s->mean[k] - s->sum[k] / s->ranks_n) < 1e-5);
        }
    }
    assert_memory_equal(s->mean + at, n->gradient + at, bucket_n[bucket] * sizeof(float));
}

/* The pending updates. */
static void update(struct gradient_world *g, struct gradient_node *n)
{
    uint32_t averaged = 0;
    bool own = false;
    for (uint32_t b = 0; b < GRADIENT_BUCKETS && n->pending; b++) {
        enum uw_gradient_state state = uw_node_gradient_state(&n->it->node, b);
        uint32_t at = offset_of(b);
        assert_true(state != UW_GRADIENT_RUNNING);
        if (state == UW_GRADIENT_AVERAGED) {
            check_mean(g, n, b);
            averaged++;
        }
        own = own || state == UW_GRADIENT_OWN;
        for (uint32_t k = at; k < at + bucket_n[b] && state != UW_GRADIENT_DROPPED; k++) {
            n->it->x[k] -= 0.1f * n->gradient[k];
        }
    }
    n->dropped = n->dropped || (n->pending && !own && averaged < GRADIENT_BUCKETS);
    n->averaged_n += averaged == GRADIENT_BUCKETS;
    struct gradient_step *s = n->pending && averaged == GRADIENT_BUCKETS ? find(g, n) : NULL;
    if (s != NULL && g->bits && !n->dropped) {
        if (s->have_x) {
            assert_memory_equal(s->x, n->it->x, sizeof s->x);
            g->compared_n++;
        }
        s->have_x = true;
        memcpy(s->x, n->it->x, sizeof s->x);
    }
    n->pending = false;
}

static void compute(struct gradient_world *g, struct gradient_node *n)
{
    struct uw_rng rng;
    struct world_node *it = n->it;
    it->progress.step++;
    uw_rng_seed(&rng, uw_rng_mix(g->w->seed * 64u + it->place, it->progress.step));
    for (uint32_t k = 0; k < GRADIENT_SIZE; k++) {
        n->gradient[k] = uw_rng_uniform(&rng) - 0.5f;
    }
    if (uw_node_grouped(&it->node)) {
        n->round++;
        struct gradient_step *s = step_of(g, n);
        for (uint32_t k = 0; k < GRADIENT_SIZE; k++) {
            s->sum[k] += (double)n->gradient[k];
        }
        s->handed |= 1u << it->place;
    }
    for (uint32_t b = GRADIENT_BUCKETS; b-- > 0;) {
        uw_node_gradient_ready(&it->node, b, n->gradient + offset_of(b));
    }
    n->pending = true;
}

static void after_step(struct gradient_world *g, struct gradient_node *n, bool stepped)
{
    struct world_node *it = n->it;
    float lr = it->progress.lr;
    bool before = n->averaging;
    it->progress.lr = stepped ? lr : 0.0f;
    int flags = uw_node_after_step(&it->node, &it->progress);
    assert_true(flags >= 0);
    it->progress.lr = lr;
    n->averaging = (flags & (UW_NODE_AVERAGING | UW_NODE_ADOPTING)) != 0;
    if (before && !n->averaging) {
        n->group = it->node.state->gradients->group;
        n->round = 0;
        n->dropped = false;
    }
    uint64_t waited_us = g->w->now_us - n->moved_us;
    g->longest_us = waited_us > g->longest_us ? waited_us : g->longest_us;
    n->moved_us = n->averaging ? n->moved_us : g->w->now_us;
}

static void train(struct gradient_world *g, struct gradient_node *n)
{
    struct world_node *it = n->it;
    bool was = n->finishing;
    if (g->w->now_us > n->moved_us + g->limit_us) {
        fail_msg("%s waits for more than %.1f s", it->name, (double)g->limit_us / 1e6);
    }
    if (n->stalled || g->w->now_us < it->train_at_us || running(n)) {
        return;
    }
    if (n->averaging) {
        after_step(g, n, false);
        return;
    }
    update(g, n);
    n->finishing = false;
    if (was) {
        after_step(g, n, true);
        return;
    }
    if (n->steps_most != 0 && it->progress.step >= n->steps_most) {
        if (!n->done) {
            n->done = true;
            (void)uw_node_wants_parameters(&it->node);
            uw_node_agree(&it->node);
        }
        after_step(g, n, false);
        return;
    }
    compute(g, n);
    it->train_at_us = g->w->now_us + g->w->train_us * (it->slowness != 0 ? it->slowness : 1u);
    if (uw_node_wants_parameters(&it->node)) {
        n->finishing = true;
        if (!running(n)) {
            update(g, n);
            n->finishing = false;
        }
    }
    if (!n->finishing) {
        after_step(g, n, true);
    }
}

void gradient_world_run(struct gradient_world *g, uint64_t us)
{
    uint64_t until_us = g->w->now_us + us;
    while (g->w->now_us < until_us) {
        world_tick(g->w);
        for (uint32_t i = 0; i < g->w->n; i++) {
            struct gradient_node *n = &g->nodes[i];
            if (n->it->up && !n->it->paused) {
                train(g, n);
            } else {
                n->moved_us = g->w->now_us;
            }
        }
    }
}

static bool together(const struct gradient_world *g, uint32_t ranks, const uint32_t *least)
{
    uint32_t group = 0, n = 0;
    for (uint32_t i = 0; i < g->w->n; i++) {
        const struct gradient_node *it = &g->nodes[i];
        if (!it->it->up) {
            continue;
        }
        const struct uw_node_gradients *state = it->it->node.state->gradients;
        if (!state->active || (n > 0 && state->group != group) || state->ranks_n != ranks ||
            it->averaged_n < least[i]) {
            return false;
        }
        group = state->group;
        n++;
    }
    return true;
}

void gradient_world_together(struct gradient_world *g, uint32_t ranks, uint32_t steps,
                             uint64_t limit_us)
{
    uint32_t least[WORLD_MAX];
    uint64_t until_us = g->w->now_us + limit_us;
    for (uint32_t i = 0; i < g->w->n; i++) {
        least[i] = g->nodes[i].averaged_n + steps;
    }
    while (!together(g, ranks, least)) {
        gradient_world_run(g, 50000);
        if (g->w->now_us > until_us) {
            fail_msg("not %u nodes in a group within %.0f s", (unsigned)ranks,
                     (double)limit_us / 1e6);
        }
    }
}

void gradient_world_forget(struct gradient_world *g, uint32_t i)
{
    struct gradient_node *n = &g->nodes[i];
    n->pending = n->finishing = n->averaging = n->dropped = n->done = n->stalled = false;
    n->group = n->round = 0;
    n->moved_us = g->w->now_us;
}

struct gradient_world *gradient_world_new(uint32_t n, uint32_t mtu_bytes)
{
    struct gradient_world *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->w = world_new(n, GRADIENT_SIZE, mtu_bytes);
    g->config = (struct uw_node_gradients_config){.bucket_n = bucket_n,
                                                  .buckets_n = GRADIENT_BUCKETS, .tag = 7};
    g->w->config.mode = UW_NODE_ALLREDUCE;
    g->w->config.gradients = &g->config;
    g->w->config.agree = true;
    g->w->train_us = 10000;
    g->limit_us = 200000000;
    g->bits = true;
    for (uint32_t i = 0; i < n; i++) {
        g->nodes[i].it = &g->w->nodes[i];
        g->w->nodes[i].trains = false;      /* not as world_tick knows it */
        g->nodes[i].moved_us = g->w->now_us;
    }
    return g;
}

void gradient_world_free(struct gradient_world *g)
{
    world_free(g->w);
    free(g);
}
