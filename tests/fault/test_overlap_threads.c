/* SPDX-License-Identifier: Apache-2.0
 *
 * Training threads hand their buckets over and take them back while one thread is the network of
 * all of them. For the thread sanitizer as much as for itself. */
#include "test_support.h"

#include "collective/overlap.h"

#include <pthread.h>
#include <sched.h>

#define RANKS_N 3u
#define BUCKETS_N 5u
#define SIZE_N 700u
#define STEPS_N 60u
#define STOP_STEP 40u               /* the group is given up in it */
#define QUEUE_MAX 4096u
#define CHUNK_N 40u

static const uint32_t sizes[BUCKETS_N] = {3, 700, 41, 500, 1};

struct message {
    uint32_t from, to;
    struct uw_part part;
    float floats[CHUNK_N];
};

struct rank {
    uint32_t rank;
    struct uw_overlap o;
    struct uw_overlap_gate gate;
    void *memory;
    float x[BUCKETS_N][SIZE_N];
    uint32_t dropped_n, wrong_n;
    atomic_uint_least32_t step;     /* done */
    atomic_bool may_go_on;          /* after the step in which the group was given up */
};

static struct rank ranks[RANKS_N];
static struct message queue[QUEUE_MAX];
static uint32_t head, tail;

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    const struct rank *r = arg;
    if (tail - head == QUEUE_MAX) {
        return UW_ERR_AGAIN;
    }
    struct message *m = &queue[tail++ % QUEUE_MAX];
    *m = (struct message){.from = r->rank, .to = rank, .part = *part};
    if (part->type == UW_PART_DATA) {
        memcpy(m->floats, part->floats, part->count_n * sizeof(float));
    }
    return UW_OK;
}

static float value(uint32_t rank, uint32_t step, uint32_t bucket)
{
    return (float)(1 + rank + 10 * bucket + 100 * step);
}

static void *train(void *arg)
{
    struct rank *r = arg;
    for (uint32_t step = 0; step < STEPS_N; step++) {
        for (uint32_t b = BUCKETS_N; b-- > 0;) {
            for (uint32_t i = 0; i < sizes[b]; i++) {
                r->x[b][i] = value(r->rank, step, b);
            }
            uw_overlap_gate_ready(&r->gate, b, r->x[b]);
        }
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            while (uw_overlap_gate_state(&r->gate, b) == UW_OVERLAP_RUNNING) {
                sched_yield();
            }
            bool done = uw_overlap_gate_state(&r->gate, b) == UW_OVERLAP_DONE;
            float mean = value(1, step, b);
            r->dropped_n += !done;
            for (uint32_t i = 0; i < sizes[b] && done; i++) {
                r->wrong_n += !(fabsf(r->x[b][i] - mean) < 1e-3f);
            }
        }
        atomic_store(&r->step, step + 1);
        while (step == STOP_STEP && !atomic_load(&r->may_go_on)) {
            sched_yield();
        }
    }
    return NULL;
}

static void begin_group(uint32_t group)
{
    head = tail;
    for (uint32_t i = 0; i < RANKS_N; i++) {
        const struct uw_overlap_group g = {.group = group, .ranks = RANKS_N, .rank = i};
        uw_overlap_begin(&ranks[i].o, &g, 0);
    }
}

static bool all_at(uint32_t step)
{
    bool all = true;
    for (uint32_t i = 0; i < RANKS_N; i++) {
        all = all && atomic_load(&ranks[i].step) >= step;
    }
    return all;
}

/* Returns whether all have come to the step. */
static bool network(uint32_t until, uint64_t *now_us)
{
    for (; head != tail; head++) {
        struct message *m = &queue[head % QUEUE_MAX];
        m->part.floats = m->floats;
        uw_overlap_take(&ranks[m->to].o, m->from, &m->part, *now_us);
    }
    ++*now_us;
    for (uint32_t i = 0; i < RANKS_N; i++) {
        uw_overlap_gate_run(&ranks[i].gate, *now_us);
    }
    return all_at(until);
}

static void test_buckets_go_from_thread_to_thread_and_back(void **state)
{
    (void)state;
    pthread_t thread[RANKS_N];
    uint64_t now_us = 0;
    for (uint32_t i = 0; i < RANKS_N; i++) {
        struct rank *r = &ranks[i];
        struct uw_arena arena;
        const struct uw_overlap_config c = {
            .kind = UW_ALLREDUCE_RING, .bucket_n = sizes, .buckets_n = BUCKETS_N,
            .ranks_max = RANKS_N, .chunk_n = CHUNK_N, .fragment_n = 150, .reliable = true,
            .send = send, .arg = r};
        r->rank = i;
        r->memory = uw_test_block(65536);
        uw_arena_init(&arena, r->memory, 65536);
        assert_int_equal(uw_overlap_place(&r->o, &arena, &c), UW_OK);
        assert_int_equal(uw_overlap_gate_place(&r->gate, &arena, &r->o), UW_OK);
        assert_int_equal(uw_overlap_gate_state(&r->gate, 0), UW_OVERLAP_IDLE);
    }
    begin_group(1);
    for (uint32_t i = 0; i < RANKS_N; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, train, &ranks[i]), 0);
    }
    while (!network(STOP_STEP, &now_us)) {
        sched_yield();
    }
    for (uint32_t i = 0; i < RANKS_N; i++) {
        uw_overlap_stop(&ranks[i].o);       /* somewhere in the next step */
    }
    while (!network(STOP_STEP + 1, &now_us)) {
        sched_yield();
    }
    for (uint32_t i = 0; i < RANKS_N; i++) {
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            assert_true(uw_overlap_gate_state(&ranks[i].gate, b) != UW_OVERLAP_RUNNING);
        }
    }
    begin_group(2);
    for (uint32_t i = 0; i < RANKS_N; i++) {
        atomic_store(&ranks[i].may_go_on, true);
    }
    while (!network(STEPS_N, &now_us)) {
        sched_yield();
    }
    for (uint32_t i = 0; i < RANKS_N; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(ranks[i].wrong_n, 0);
        assert_true(ranks[i].dropped_n <= BUCKETS_N);
        uw_test_release(ranks[i].memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_go_from_thread_to_thread_and_back),
    };
    return cmocka_run_group_tests_name("overlap_threads", tests, NULL, NULL);
}
