/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples lent over a network that keeps messages for several terms: each may arrive many times, at
 * once or seconds after its loan, or its node, is gone. Old offers, samples and commitments then
 * meet new loans in the same slots. The state machines are the ones that ship, without the node
 * around them. UWASA_TEST_SEED=N UWASA_TEST_COUNT=1 replays a scenario. */
#include "test_support.h"

#include "shuffle/shuffle.h"

#include "uwasa/sample_pool.h"
#include "uwasa/status.h"

#define NODES 3u
#define SAMPLES 6u
#define SAMPLE_N 7u
#define SLOTS 2u
#define TERM_US 2000000u
#define TICK_US 5000u
#define QUEUE 4096u
#define BUFFER 60u                  /* four floats a message: two messages a sample */
#define COUNT_DEFAULT 40u

struct late_message {
    uint64_t at_us;                 /* 0: none */
    uint32_t from, to, bytes;
    uint8_t buf[BUFFER];
};

struct late_node {
    struct uw_dataset source;
    uint32_t place;
    bool up;
    struct uw_sample_pool pool;
    struct uw_shuffle shuffle;
    uint8_t buffer[BUFFER];
    _Alignas(64) uint8_t memory[8192];
};

static struct late_node nodes[NODES];
static struct late_message queue[QUEUE];
static struct uw_rng rng;
static uint64_t now_us, seen_us[NODES * SAMPLES];
static float keeps;                 /* share of messages that arrive late */
static uint32_t late_n;

static int read_source(struct uw_dataset *base, uint64_t index, float *x, uint32_t *label)
{
    const struct late_node *n = (const struct late_node *)base;
    uint32_t number = n->place * SAMPLES + (uint32_t)index;
    for (uint32_t k = 0; k < SAMPLE_N; k++) {
        x[k] = (float)number;
    }
    *label = number;
    return UW_OK;
}

static const struct uw_dataset_ops source_ops = {.name = "numbers", .read = read_source};

static void send_late(void *arg, uint32_t to, const void *buf, uint32_t bytes)
{
    struct late_node *n = arg;
    uint32_t copies = uw_rng_below(&rng, 4);
    for (uint32_t k = 0; k < QUEUE && copies > 0; k++) {
        if (queue[k].at_us != 0) {
            continue;
        }
        bool late = uw_rng_uniform(&rng) < keeps;
        uint64_t delay_us = 1u + uw_rng_below(&rng, late ? 5u * TERM_US : 20000u);
        queue[k] = (struct late_message){now_us + delay_us, n->place, to - 1u, bytes, {0}};
        memcpy(queue[k].buf, buf, bytes);
        late_n += late;
        copies--;
    }
}

static uint32_t pick(void *arg, uint32_t round)
{
    struct late_node *n = arg;
    return (n->place + 1u + round % (NODES - 1u)) % NODES + 1u;
}

static void up(uint32_t i)
{
    struct late_node *n = &nodes[i];
    struct uw_arena arena;
    n->place = i;
    n->up = true;
    n->source = (struct uw_dataset){.ops = &source_ops, .channels = SAMPLE_N, .height = 1,
                                    .width = 1, .classes = NODES * SAMPLES, .samples_n = SAMPLES};
    uw_arena_init(&arena, n->memory, sizeof n->memory);
    const struct uw_sample_pool_config pool = {.source = &n->source, .slots_n = SLOTS};
    assert_int_equal(uw_sample_pool_bind(&n->pool, &pool, &arena), UW_OK);
    const struct uw_shuffle_config c = {.pool = &n->pool, .run = 1, .loan_us = TERM_US,
                                        .seed = i, .buffer = n->buffer, .buffer_bytes = BUFFER,
                                        .arg = n, .pick = pick, .send = send_late};
    assert_int_equal(uw_shuffle_place(&n->shuffle, &arena, &c), UW_OK);
}

static void deliver(void)
{
    for (uint32_t k = 0; k < QUEUE; k++) {
        struct late_message m = queue[k];
        if (m.at_us == 0 || m.at_us > now_us) {
            continue;
        }
        queue[k].at_us = 0;
        struct uw_shuffle_message in;
        uint32_t run;
        assert_int_equal(uw_shuffle_decode(m.buf, m.bytes, &run, &in), UW_OK);
        if (nodes[m.to].up) {
            uw_shuffle_receive(&nodes[m.to].shuffle, m.from + 1u, &in, now_us);
        }
    }
}

static void check(void)
{
    uint32_t by[NODES * SAMPLES] = {0};
    for (uint32_t i = 0; i < NODES; i++) {
        struct uw_dataset *d = &nodes[i].pool.base;
        for (uint32_t k = 0; nodes[i].up && k < SAMPLES; k++) {
            float x[SAMPLE_N];
            uint32_t label;
            assert_int_equal(d->ops->read(d, k, x, &label), UW_OK);
            for (uint32_t e = 0; e < SAMPLE_N; e++) {
                assert_true(x[e] == (float)label);
            }
            by[label] |= 1u << i;
            seen_us[label] = now_us;
        }
    }
    for (uint32_t k = 0; k < NODES * SAMPLES; k++) {
        if ((by[k] & (by[k] - 1u)) != 0) {
            fail_msg("sample %u is on nodes %x at %.3f", (unsigned)k, (unsigned)by[k],
                     (double)now_us / 1e6);
        }
    }
}

static void run(uint64_t us, bool kill)
{
    for (uint64_t until_us = now_us + us; now_us < until_us; now_us += TICK_US) {
        uint32_t i = uw_rng_below(&rng, NODES);
        if (kill && uw_rng_below(&rng, 1000) == 0) {
            nodes[i].up = !nodes[i].up;
            if (nodes[i].up) {
                up(i);
            }
        }
        for (i = 0; i < NODES; i++) {
            if (nodes[i].up) {
                (void)uw_shuffle_step(&nodes[i].shuffle, now_us, 0);
            }
        }
        check();
        deliver();
        check();
    }
}

static uint64_t scenario(uint64_t seed)
{
    uint64_t loans = 0;
    uw_rng_seed(&rng, seed);
    memset(queue, 0, sizeof queue);
    now_us = 1000000;
    keeps = 0.3f * uw_rng_uniform(&rng);
    for (uint32_t i = 0; i < NODES; i++) {
        up(i);
    }
    run(30000000, uw_rng_below(&rng, 2) != 0);
    for (uint32_t i = 0; i < NODES; i++) {
        if (!nodes[i].up) {
            up(i);
        }
    }
    run(3u * TERM_US, false);
    uint64_t from_us = now_us;
    run(6u * TERM_US, false);
    for (uint32_t k = 0; k < NODES * SAMPLES; k++) {
        if (seen_us[k] < from_us) {
            fail_msg("sample %u is lost", (unsigned)k);
        }
    }
    for (uint32_t i = 0; i < NODES; i++) {
        loans += nodes[i].shuffle.in_n;
    }
    return loans;
}

static void test_late_messages_put_no_sample_on_two_nodes(void **state)
{
    (void)state;
    const char *text = getenv("UWASA_TEST_COUNT");
    uint32_t count = text != NULL ? (uint32_t)strtoul(text, NULL, 0) : COUNT_DEFAULT;
    uint64_t first = uw_test_seed(1), loans = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        printf("seed=%llu\n", (unsigned long long)seed);
        loans += scenario(seed);
    }
    printf("%u scenarios: %llu samples lent, %u messages came late\n", (unsigned)count,
           (unsigned long long)loans, (unsigned)late_n);
    assert_true(loans > 10u * count);
    assert_true(late_n > 100u * count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_messages_put_no_sample_on_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
