/* SPDX-License-Identifier: Apache-2.0
 *
 * Two nodes that lend samples, each with a network thread and two threads that read its pool, on
 * the real clock: for the thread sanitizer. All floats of a sample are one number and its label
 * belongs to it, so a sample that is not whole would show. */
#include "test_support.h"

#include "uwasa/link_loopback.h"
#include "uwasa/node.h"
#include "uwasa/sample_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define SAMPLES 64u
#define SAMPLE_N 600u
#define BORROWED 200u               /* enough of them read by each node */
#define READERS 2u

struct device {
    struct uw_dataset source;
    uint32_t number;                /* of its first sample */
    struct uw_sample_pool pool;
    struct uw_node node;
    struct uw_link_loopback link;
    struct uw_params params;
    struct uw_segment segment;
    struct uw_snapshot snapshot;
    float x[8], data[8];
    void *memory, *pool_memory;
    pthread_t network, reader[READERS];
    atomic_uint foreign, torn;
};

static atomic_bool stop, end;

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int read_source(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct device *d = (const struct device *)base;
    uint32_t number = d->number + (uint32_t)index;
    for (uint32_t k = 0; k < SAMPLE_N; k++) {
        x[k] = (float)number;
    }
    *label = number;
    return UW_OK;
}

static const struct uw_dataset_ops source_ops = {.name = "numbers", .read = read_source};

static void *network(void *arg)
{
    struct device *d = arg;
    while (!atomic_load(&end)) {
        if (uw_node_step(&d->node, now_us()) > now_us()) {
            nanosleep(&(struct timespec){0, 50000}, NULL);
        }
    }
    uw_node_leave(&d->node, now_us());
    return NULL;
}

static void *reader(void *arg)
{
    struct device *d = arg;
    float x[SAMPLE_N];
    uint32_t last[SAMPLES];
    memset(last, 0xff, sizeof last);
    while (!atomic_load(&stop)) {
        for (uint32_t i = 0; i < SAMPLES; i++) {
            uint32_t label;
            (void)d->pool.base.ops->read(&d->pool.base, i, x, &label);
            for (uint32_t k = 0; k < SAMPLE_N; k++) {
                if (x[k] != (float)label) {
                    atomic_fetch_add(&d->torn, 1u);
                }
            }
            bool foreign = label < d->number || label >= d->number + SAMPLES;
            if (foreign && last[i] != label) {
                atomic_fetch_add(&d->foreign, 1u);
            }
            last[i] = label;
        }
    }
    return NULL;
}

static void *block(size_t bytes)
{
    void *memory = malloc(bytes + uw_arena_slack_bytes());
    assert_non_null(memory);
    return memory;
}

static void set_up(struct device *d, struct uw_loopback_hub *hub, uint16_t i)
{
    static const char *const seeds[] = {"0"};
    static const char *const names[] = {"a", "b"};
    assert_int_equal(uw_link_loopback_init(&d->link, hub, i), UW_OK);
    d->source = (struct uw_dataset){.ops = &source_ops, .channels = SAMPLE_N, .height = 1,
                                    .width = 1, .classes = 2u * SAMPLES, .samples_n = SAMPLES};
    d->number = i * SAMPLES;
    const struct uw_sample_pool_config pool = {.source = &d->source, .slots_n = 8,
                                               .now_us = now_us};
    struct uw_arena arena;
    uw_arena_init(&arena, NULL, 0);
    assert_int_equal(uw_sample_pool_bind(&d->pool, &pool, &arena), UW_OK);
    size_t bytes = arena.used_bytes;
    d->pool_memory = block(bytes);
    uw_arena_init(&arena, d->pool_memory, bytes + uw_arena_slack_bytes());
    assert_int_equal(uw_sample_pool_bind(&d->pool, &pool, &arena), UW_OK);
    d->snapshot.data = d->data;
    d->snapshot.size_n = 8;
    atomic_flag_clear(&d->snapshot.busy);
    d->segment = (struct uw_segment){.name = "w", .size_n = 8};
    d->params = (struct uw_params){.x = d->x, .size_n = 8, .segments = &d->segment,
                                   .segments_n = 1, .hash = 1};
    const struct uw_node_config c = {
        .name = names[i], .run = "threads", .parts = &uw_node_parts_all,
        .seeds = seeds, .seeds_n = 1, .incarnation = 1,
        .link = &d->link.link, .params = &d->params, .snapshot = &d->snapshot, .seed = i,
        .samples = &d->pool, .loan_us = 400000};
    assert_int_equal(uw_node_measure(&c, &bytes, NULL), UW_OK);
    d->memory = block(bytes);
    uw_arena_init(&arena, d->memory, bytes + uw_arena_slack_bytes());
    assert_int_equal(uw_node_bind(&d->node, &c, &arena, NULL), UW_OK);
}

static void test_loaders_see_whole_samples_while_they_are_lent(void **state)
{
    (void)state;
    static struct device device[2];
    struct uw_loopback_hub hub;
    struct uw_loopback_config config = {.endpoints_n = 2, .queue_n = 512};
    config.memory_bytes = uw_loopback_hub_bytes(&config);
    config.memory = malloc(config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &config), UW_OK);
    for (uint16_t i = 0; i < 2; i++) {
        set_up(&device[i], &hub, i);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&device[i].network, NULL, network, &device[i]), 0);
        for (uint32_t k = 0; k < READERS; k++) {
            assert_int_equal(pthread_create(&device[i].reader[k], NULL, reader, &device[i]), 0);
        }
    }
    uint64_t limit = now_us() + 120000000u;
    while ((atomic_load(&device[0].foreign) < BORROWED ||
            atomic_load(&device[1].foreign) < BORROWED) &&
           now_us() < limit) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < READERS; k++) {
            pthread_join(device[i].reader[k], NULL);
        }
    }
    atomic_store(&end, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(device[i].network, NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(atomic_load(&device[i].foreign) >= BORROWED);
        assert_int_equal(atomic_load(&device[i].torn), 0);
        uw_link_deinit(&device[i].link.link);
        free(device[i].memory);
        free(device[i].pool_memory);
    }
    free(config.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loaders_see_whole_samples_while_they_are_lent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
