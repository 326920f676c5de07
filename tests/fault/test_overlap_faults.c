/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded scenarios of gradients being averaged while ranks die, pause or lose sight of each other,
 * and messages are lost, late, twice or refused. Every bucket ends as the mean of all ranks, the
 * same bits everywhere, or says that it was given up; those who are left go on. */
#include "test_support.h"

#include "overlap_net.h"

#define SCENARIOS_N 1500u
#define BUCKETS_N 4u
#define SIZE_MAX_N 1500u
#define DEADLINE_NS 20000000000u    /* of a step without faults that last */

enum fault { NOTHING, DEATH, PAUSE, CUT, FAULTS_N };

struct rank {
    struct world *w;
    uint32_t rank;
    struct uw_overlap o;
    void *memory;
    float x[BUCKETS_N][SIZE_MAX_N];
    bool asked[BUCKETS_N];
    uint64_t ready_ns[BUCKETS_N];
    uint64_t next_ns;
    bool dead, heard;
};

struct world {
    uint64_t seed;
    struct net net;
    struct uw_overlap_config config;
    uint32_t sizes[BUCKETS_N];
    uint32_t p, group, step;
    struct rank ranks[NET_RANKS_MAX], *at[NET_RANKS_MAX];   /* at: by their rank in the group */
    enum fault fault;
    uint64_t from_ns, until_ns;     /* of the fault */
    uint32_t whose, other;          /* ranks */
    uint32_t given_up_n;
};

static bool in_fault(const struct world *w, enum fault fault)
{
    return w->fault == fault && w->net.now_ns >= w->from_ns && w->net.now_ns < w->until_ns;
}

static bool is_cut(const struct world *w, uint32_t a, uint32_t b)
{
    return in_fault(w, CUT) && ((a == w->whose && b == w->other) ||
                                (b == w->whose && a == w->other));
}

static int send(void *arg, uint32_t rank, const struct uw_part *part)
{
    struct rank *r = arg;
    return is_cut(r->w, r->rank, rank) ? UW_OK : net_send(&r->w->net, r->rank, rank, part);
}

static uint32_t below(struct world *w, uint32_t n)
{
    return uw_rng_below(&w->net.rng, n);
}

static void set_up(struct world *w, uint64_t seed)
{
    static const enum uw_allreduce_kind kinds[] = {UW_ALLREDUCE_TREE, UW_ALLREDUCE_HALVING,
                                                   UW_ALLREDUCE_RING};
    memset(w, 0, sizeof *w);
    w->seed = seed;
    uw_rng_seed(&w->net.rng, seed);
    w->p = 2 + below(w, 6);
    w->net.latency_ns = 10000u + below(w, 3000000);
    w->net.byte_ns = below(w, 2) != 0 ? 80.0 : 0.0;
    w->net.scale = 1.0;
    w->net.queue_ns = below(w, 2) != 0 ? 100000u : 0;
    w->net.refuse = 0.1 * below(w, 4);
    w->fault = (enum fault)below(w, FAULTS_N);
    w->from_ns = UINT64_MAX;        /* later */
    bool reliable = w->fault != CUT && below(w, 2) != 0;
    if (!reliable) {
        w->net.loss = 0.1 * below(w, 4);
        w->net.twice = 0.05 * below(w, 3);
        w->net.jitter_ns = below(w, 3000000);
    }
    w->config = (struct uw_overlap_config){
        .kind = kinds[below(w, 3)], .bucket_n = w->sizes, .buckets_n = BUCKETS_N,
        .ranks_max = NET_RANKS_MAX, .chunk_n = 4 + below(w, 60), .fragment_n = below(w, 600),
        .small_n = below(w, 50), .window_chunks = below(w, 2) * (400 + below(w, 400)),
        .reliable = reliable, .send = send};
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        w->sizes[b] = 1 + below(w, below(w, 2) != 0 ? SIZE_MAX_N : 40);
    }
    for (uint32_t i = 0; i < w->p; i++) {
        struct rank *r = &w->ranks[i];
        struct uw_overlap_config c = w->config;
        struct uw_arena arena;
        r->w = w;
        w->at[i] = r;
        c.arg = r;
        size_t bytes = net_overlap_bytes(&c);
        r->memory = uw_test_block(bytes);
        uw_arena_init(&arena, r->memory, bytes);
        assert_int_equal(uw_overlap_place(&r->o, &arena, &c), UW_OK);
    }
}

static void tear_down(struct world *w, uint32_t ranks_n)
{
    net_close(&w->net);
    for (uint32_t i = 0; i < ranks_n; i++) {
        uw_test_release(w->ranks[i].memory);
    }
}

static void begin_group(struct world *w)
{
    w->group++;
    for (uint32_t i = 0; i < w->p; i++) {
        const struct uw_overlap_group g = {.group = w->group, .ranks = w->p, .rank = i,
                                           .rtt_us = 2 * w->net.latency_ns / 1000u};
        w->at[i]->rank = i;
        uw_overlap_begin(&w->at[i]->o, &g, w->net.now_ns / 1000u);
    }
}

static float value(const struct world *w, uint32_t rank, uint32_t bucket, uint32_t i)
{
    return (float)((rank * 7919u + w->step * 104729u + bucket * 331u + i * 31u) % 1000u) * 0.001f;
}

static void make_ready(struct world *w, struct rank *r, uint32_t b)
{
    for (uint32_t i = 0; i < w->sizes[b]; i++) {
        r->x[b][i] = value(w, r->rank, b, i);
    }
    r->asked[b] = true;
    uw_overlap_ready(&r->o, b, r->x[b], w->net.now_ns / 1000u);
}

/* What a rank does now. Returns whether all its buckets are averaged or given up. */
static bool attend(struct world *w, struct rank *r)
{
    bool over = true;
    if (!in_fault(w, PAUSE) || r->rank != w->whose) {
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            if (!r->asked[b] && r->ready_ns[b] <= w->net.now_ns) {
                make_ready(w, r, b);
            }
        }
        uint64_t next_us = uw_overlap_run(&r->o, w->net.now_ns / 1000u);
        r->next_ns = next_us < UINT64_MAX / 1000u ? next_us * 1000u : UINT64_MAX;
    } else {
        r->next_ns = w->until_ns;
    }
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        if (!r->asked[b] && r->ready_ns[b] > w->net.now_ns) {
            r->next_ns = r->ready_ns[b] < r->next_ns ? r->ready_ns[b] : r->next_ns;
        }
        over = over && r->asked[b] && uw_overlap_state(&r->o, b) != UW_OVERLAP_RUNNING;
    }
    return over;
}

/* Messages to somebody who sleeps wait for him. Returns when the next one arrives. */
static uint64_t deliver(struct world *w)
{
    struct net *n = &w->net;
    while (n->heap_n > 0 && n->heap[0].at_ns <= n->now_ns) {
        struct net_message m = net_pop(n);
        if (in_fault(w, PAUSE) && m.to == w->whose) {
            m.at_ns = w->until_ns;
            net_push(n, &m);
            continue;
        }
        if (m.to < w->p && !w->at[m.to]->dead) {
            uw_overlap_take(&w->at[m.to]->o, m.from, &m.part, n->now_ns / 1000u);
        }
        free(m.floats);
    }
    return n->heap_n > 0 ? n->heap[0].at_ns : UINT64_MAX;
}

/* One step of all ranks; when it takes too long, it is given up. */
static void run_step(struct world *w)
{
    struct net *n = &w->net;
    uint64_t deadline_ns = n->now_ns + DEADLINE_NS;
    bool over = false;
    w->step++;
    for (uint32_t i = 0; i < w->p; i++) {
        for (uint32_t b = 0; b < BUCKETS_N; b++) {
            w->at[i]->asked[b] = false;
            w->at[i]->ready_ns[b] = n->now_ns + below(w, 20000000);
        }
    }
    while (!over) {
        deliver(w);
        over = true;
        uint64_t next_ns = deadline_ns;
        for (uint32_t i = 0; i < w->p; i++) {
            struct rank *r = w->at[i];
            r->dead = r->dead || (w->fault == DEATH && i == w->whose && n->now_ns >= w->from_ns);
            over = (r->dead || attend(w, r)) && over;
            next_ns = !r->dead && r->next_ns < next_ns ? r->next_ns : next_ns;
        }
        next_ns = n->heap_n > 0 && n->heap[0].at_ns < next_ns ? n->heap[0].at_ns : next_ns;
        if (!over && n->now_ns >= deadline_ns) {
            for (uint32_t i = 0; i < w->p; i++) {
                uw_overlap_stop(&w->at[i]->o);
            }
            w->given_up_n++;
            return;
        }
        n->now_ns = over ? n->now_ns : next_ns > n->now_ns ? next_ns : n->now_ns + 1000u;
    }
}

static void check_step(struct world *w)
{
    for (uint32_t b = 0; b < BUCKETS_N; b++) {
        const float *first = NULL;
        for (uint32_t i = 0; i < w->p; i++) {
            const struct rank *r = w->at[i];
            if (r->dead || !r->asked[b] || uw_overlap_state(&r->o, b) != UW_OVERLAP_DONE) {
                continue;
            }
            for (uint32_t k = 0; k < w->sizes[b]; k++) {
                double mean = 0.0;
                for (uint32_t j = 0; j < w->p; j++) {
                    mean += (double)value(w, j, b, k) / w->p;
                }
                if (!(fabs((double)r->x[b][k] - mean) < 2e-6)) {
                    fail_msg("seed %llu: rank %u of %u, step %u, bucket %u, element %u: %g, "
                             "not %g", (unsigned long long)w->seed, i, w->p, w->step, b, k,
                             (double)r->x[b][k], mean);
                }
            }
            first = first != NULL ? first : r->x[b];
            if (memcmp(first, r->x[b], w->sizes[b] * sizeof(float)) != 0) {
                fail_msg("seed %llu: rank %u, bucket %u has other bits",
                         (unsigned long long)w->seed, i, b);
            }
        }
    }
}

static void leave_out_dead(struct world *w)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < w->p; i++) {
        if (!w->at[i]->dead) {
            w->at[left++] = w->at[i];
        }
    }
    w->p = left;
}

static uint32_t run_scenario(uint64_t seed)
{
    static struct world w;
    set_up(&w, seed);
    uint32_t ranks_n = w.p, given_up;
    begin_group(&w);
    run_step(&w);
    check_step(&w);
    if (w.given_up_n != 0) {
        fail_msg("seed %llu: hangs before any fault", (unsigned long long)seed);
    }
    w.whose = below(&w, w.p);
    w.other = (w.whose + 1 + below(&w, w.p - 1)) % w.p;
    w.from_ns = w.net.now_ns + below(&w, 30000000);
    w.until_ns = w.from_ns + (uint64_t)below(&w, 2000) * 1000000u *
                                 (below(&w, 3) == 0 ? 10u : 1u);
    run_step(&w);
    check_step(&w);
    given_up = w.given_up_n;
    bool harmless = w.fault == NOTHING ||
                    (w.fault != DEATH && w.until_ns + DEADLINE_NS / 2 < w.net.now_ns);
    if (given_up != 0 && harmless) {
        fail_msg("seed %llu: given up, though nothing was wrong for long",
                 (unsigned long long)seed);
    }
    bool died = w.at[w.whose]->dead;
    w.net.now_ns = w.fault != DEATH && w.until_ns > w.net.now_ns ? w.until_ns : w.net.now_ns;
    w.fault = NOTHING;      /* the others pass, and who has not died yet stays */
    leave_out_dead(&w);
    if (given_up != 0 || died) {
        begin_group(&w);
    }
    for (int i = 0; i < 2; i++) {
        run_step(&w);
        check_step(&w);
        if (w.given_up_n != given_up) {
            fail_msg("seed %llu: hangs after the fault", (unsigned long long)seed);
        }
    }
    tear_down(&w, ranks_n);
    return given_up;
}

static void test_scenarios_end_with_means_or_say_so(void **state)
{
    (void)state;
    const char *one = getenv("UWASA_TEST_SEED");
    uint64_t seed = uw_test_seed(1);
    uint32_t some = uw_test_slow() ? SCENARIOS_N / 10u : SCENARIOS_N;
    uint32_t given_up = 0, scenarios = one != NULL ? 1 : some;
    for (uint32_t i = 0; i < scenarios; i++) {
        given_up += run_scenario(seed + i);
    }
    print_message("%u of %u scenarios were given up\n", given_up, scenarios);
    assert_true(one != NULL || (given_up > scenarios / 20 && given_up < scenarios / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scenarios_end_with_means_or_say_so),
    };
    return cmocka_run_group_tests_name("overlap_faults", tests, NULL, NULL);
}
