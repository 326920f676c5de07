/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/shuffle_world.h"

#define BY_NODE 1000u               /* sample k of node i is number i * BY_NODE + k */

static uint64_t clock_of_all;       /* of the node that reads */

static uint64_t pool_now_us(void)
{
    return clock_of_all;
}

static float element(uint32_t number, uint32_t k)
{
    return (float)(number * 64u + k % 64u);
}

static int read_source(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct shuffle_source *s = (const struct shuffle_source *)base;
    if (index >= base->samples_n) {
        return UW_ERR_INVALID;
    }
    memcpy(x, s->elements + index * base->channels, base->channels * sizeof *x);
    *label = s->owner;
    return UW_OK;
}

static const struct uw_dataset_ops source_ops = {.name = "numbers", .read = read_source};

struct shuffle_world *shuffle_world_new(uint32_t n, uint32_t samples_n, uint32_t sample_n,
                                        uint32_t slots_n, uint32_t mtu_bytes)
{
    struct shuffle_world *a = calloc(1, sizeof *a);
    assert_non_null(a);
    assert_true(samples_n <= SHUFFLE_SAMPLES_MAX);
    a->w = world_new(n, 8, mtu_bytes);
    a->w->train_us = 50000;
    a->samples_n = samples_n;
    a->sample_n = sample_n;
    a->slots_n = slots_n;
    a->loan_us = 4000000;
    a->elements = malloc((size_t)n * samples_n * sample_n * sizeof(float));
    assert_non_null(a->elements);
    for (uint32_t i = 0; i < n * samples_n; i++) {
        for (uint32_t k = 0; k < sample_n; k++) {
            uint32_t number = i / samples_n * BY_NODE + i % samples_n;
            a->elements[(size_t)i * sample_n + k] = element(number, k);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        a->nodes[i].source =
            (struct shuffle_source){.base = {.ops = &source_ops, .channels = sample_n, .height = 1,
                                             .width = 1, .classes = n, .samples_n = samples_n},
                                    .elements = a->elements + (size_t)i * samples_n * sample_n,
                                    .owner = i};
    }
    return a;
}

void shuffle_world_up(struct shuffle_world *a, uint32_t i, bool on)
{
    struct shuffle_node *n = &a->nodes[i];
    const struct uw_sample_pool_config c = {.source = &n->source.base, .slots_n = a->slots_n,
                                            .now_us = pool_now_us};
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    assert_int_equal(uw_sample_pool_bind(&n->pool, &c, &arena), UW_OK);
    size_t bytes = arena.used_bytes + uw_arena_slack_bytes();
    n->memory = malloc(bytes);
    memset(n->memory, 0xa5, bytes);
    uw_arena_init(&arena, n->memory, bytes);
    assert_int_equal(uw_sample_pool_bind(&n->pool, &c, &arena), UW_OK);
    uw_arena_seal(&arena);
    n->on = on;
    struct uw_node_config config = world_config(a->w, i);
    config.samples = on ? &n->pool : NULL;
    config.loan_us = a->loan_us;
    world_up_with(a->w, i, config);
}

void shuffle_world_down(struct shuffle_world *a, uint32_t i)
{
    world_down(a->w, i);
    free(a->nodes[i].memory);
    a->nodes[i].memory = NULL;
}

/* Which sample it is; it must be one, and whole. */
static uint32_t number_of(const struct shuffle_world *a, const float *x, uint32_t label)
{
    uint32_t number = (uint32_t)x[0] / 64u, owner = number / BY_NODE, index = number % BY_NODE;
    assert_true(owner < a->w->n && index < a->samples_n);
    const float *want = a->nodes[owner].source.elements + (size_t)index * a->sample_n;
    if (memcmp(x, want, a->sample_n * sizeof *x) != 0) {
        fail_msg("sample %u of %s is torn", (unsigned)index, a->w->nodes[owner].name);
    }
    assert_int_equal(label, owner);
    return number;
}

static void draw_all(struct shuffle_world *a, uint32_t i)
{
    struct uw_dataset *d = &a->nodes[i].pool.base;
    float x[512];
    clock_of_all = a->w->now_us + a->w->nodes[i].clock_us;
    a->foreign_n[i] = 0;
    for (uint32_t k = 0; k < a->samples_n; k++) {
        uint32_t label;
        assert_int_equal(d->ops->read(d, k, x, &label), UW_OK);
        uint32_t number = number_of(a, x, label);
        uint32_t owner = number / BY_NODE, index = number % BY_NODE;
        a->foreign_n[i] += owner != i;
        a->seen_by[owner][index] |= 1u << i;
        a->seen_us[owner][index] = a->w->now_us;
    }
}

void shuffle_world_check(struct shuffle_world *a)
{
    assert_true(a->sample_n <= 512u);
    memset(a->seen_by, 0, sizeof a->seen_by);
    for (uint32_t i = 0; i < a->w->n; i++) {
        if (a->w->nodes[i].up) {
            draw_all(a, i);
        }
    }
    for (uint32_t i = 0; i < a->w->n; i++) {
        for (uint32_t k = 0; k < a->samples_n; k++) {
            uint32_t by = a->seen_by[i][k];
            if ((by & (by - 1u)) != 0) {
                fail_msg("sample %u of %s is on nodes %x at %.6f", (unsigned)k,
                         a->w->nodes[i].name, (unsigned)by, (double)a->w->now_us / 1e6);
            }
        }
    }
}

void shuffle_world_run(struct shuffle_world *a, uint64_t us)
{
    uint64_t until_us = a->w->now_us + us;
    while (a->w->now_us < until_us) {
        uint64_t before_us = a->w->now_us;
        world_tick(a->w);
        for (uint32_t i = 0; i < a->w->n; i++) {
            struct shuffle_node *n = &a->nodes[i];
            n->drift_us += n->rate * (double)(a->w->now_us - before_us);
            int64_t whole_us = (int64_t)n->drift_us;
            n->drift_us -= (double)whole_us;
            a->w->nodes[i].clock_us += (uint64_t)whole_us;
        }
        shuffle_world_check(a);
    }
}

void shuffle_world_free(struct shuffle_world *a)
{
    for (uint32_t i = 0; i < a->w->n; i++) {
        free(a->nodes[i].memory);
    }
    world_free(a->w);
    free(a->elements);
    free(a);
}
