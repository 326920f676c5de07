/* SPDX-License-Identifier: Apache-2.0
 *
 * Two nodes, each with a network thread and a training thread, on the real clock: for the thread
 * sanitizer. Each element of a vector is the same number, so a torn chunk would show. */
#include "test_support.h"

#include "uwasa/link_loopback.h"
#include "uwasa/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define SIZE 20000u
#define ROUNDS 20u

struct device {
    struct uw_node node;
    struct uw_link_loopback link;
    struct uw_params params;
    struct uw_segment segment;
    struct uw_snapshot snapshot;
    float *x;
    void *memory;
    pthread_t network, training;
    atomic_uint rounds;
    atomic_bool stop, end;          /* of training, of the network */
};

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void nap(long us)
{
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

static void *network(void *arg)
{
    struct device *d = arg;
    struct uw_node_member rows[4];
    while (!atomic_load(&d->end)) {
        uint64_t next = uw_node_step(&d->node, now_us());
        (void)uw_node_status(&d->node, now_us(), rows, 4, NULL);
        if (next > now_us()) {
            nap(50);
        }
    }
    uw_node_leave(&d->node, now_us());
    return NULL;
}

static void *training(void *arg)
{
    struct device *d = arg;
    struct uw_node_progress p = {.lr = 0.1f};
    bool averaging = false;
    while (!atomic_load(&d->stop) || averaging) {
        p.step += !averaging;
        p.lr = averaging ? 0.0f : 0.1f;
        for (uint32_t k = 0; k < SIZE && !averaging; k++) {
            d->x[k] += 1e-6f;
        }
        if (atomic_load(&d->stop)) {
            uw_node_recall(&d->node);
        }
        int flags = uw_node_after_step(&d->node, &p);
        if (flags < 0 || (flags & UW_NODE_ROUND) != 0) {
            atomic_fetch_add(&d->rounds, 1u);
        }
        averaging = flags > 0 && (flags & UW_NODE_AVERAGING) != 0;
        nap(100);
    }
    return NULL;
}

static void set_up(struct device *d, struct uw_loopback_hub *hub, uint16_t i,
                   enum uw_node_mode mode)
{
    static const char *const seeds[] = {"0"};
    static const char *const names[] = {"a", "b"};
    assert_int_equal(uw_link_loopback_init(&d->link, hub, i), UW_OK);
    d->x = uw_test_floats(SIZE);
    d->snapshot.data = uw_test_floats(SIZE);
    d->snapshot.size_n = SIZE;
    atomic_flag_clear(&d->snapshot.busy);
    for (uint32_t k = 0; k < SIZE; k++) {
        d->x[k] = (float)(i + 1);
    }
    d->segment = (struct uw_segment){.name = "w", .size_n = SIZE};
    d->params = (struct uw_params){.x = d->x, .size_n = SIZE, .segments = &d->segment,
                                   .segments_n = 1, .hash = 1};
    struct uw_node_config c = {
        .name = names[i], .run = "threads", .parts = &uw_node_parts_all,
        .seeds = seeds, .seeds_n = 1,
        .incarnation = 1, .link = &d->link.link, .params = &d->params,
        .snapshot = &d->snapshot, .period_steps = 3, .seed = i, .mode = mode,
        .head_weight = 1};
    size_t bytes;
    assert_int_equal(uw_node_measure(&c, &bytes, NULL), UW_OK);
    d->memory = malloc(bytes + uw_arena_slack_bytes());
    struct uw_arena arena;
    uw_arena_init(&arena, d->memory, bytes + uw_arena_slack_bytes());
    assert_int_equal(uw_node_bind(&d->node, &c, &arena, NULL), UW_OK);
}

static void check_threads(enum uw_node_mode mode)
{
    static struct device device[2];
    memset(device, 0, sizeof device);
    struct uw_loopback_hub hub;
    struct uw_loopback_config hub_config = {.endpoints_n = 2, .queue_n = 512};
    hub_config.memory_bytes = uw_loopback_hub_bytes(&hub_config);
    hub_config.memory = malloc(hub_config.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &hub_config), UW_OK);
    for (uint16_t i = 0; i < 2; i++) {
        set_up(&device[i], &hub, i, mode);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&device[i].network, NULL, network, &device[i]), 0);
        assert_int_equal(pthread_create(&device[i].training, NULL, training, &device[i]), 0);
    }
    uint64_t limit = now_us() + 60000000u;
    while ((atomic_load(&device[0].rounds) < ROUNDS || atomic_load(&device[1].rounds) < ROUNDS) &&
           now_us() < limit) {
        nap(1000);
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&device[i].stop, true);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(device[i].training, NULL);
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&device[i].end, true);
        pthread_join(device[i].network, NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(atomic_load(&device[i].rounds) >= ROUNDS);
        for (uint32_t k = 0; k < SIZE; k++) {
            if (!(device[i].x[k] >= 1.0f && device[i].x[k] < 3.0f)) {
                fail_msg("mode %d, node %d, element %u: %g", (int)mode, i, (unsigned)k,
                         (double)device[i].x[k]);
            }
        }
        uw_link_deinit(&device[i].link.link);
        uw_test_release(device[i].x);
        uw_test_release(device[i].snapshot.data);
        free(device[i].memory);
    }
    free(hub_config.memory);
}

static void test_two_threads_a_node_share_what_they_may(void **state)
{
    (void)state;
    check_threads(UW_NODE_GOSSIP);
}

static void test_parameters_pass_between_the_threads_of_nodes_that_average(void **state)
{
    (void)state;
    check_threads(UW_NODE_ALLREDUCE);
    check_threads(UW_NODE_HIERARCHICAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_threads_a_node_share_what_they_may),
        cmocka_unit_test(test_parameters_pass_between_the_threads_of_nodes_that_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
