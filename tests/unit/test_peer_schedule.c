/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "uwasa/peer_schedule.h"

#include <math.h>

#define N_MAX 64u

static const char *const mutual[] = {"matching", "hypercube", "base2"};
static const char *const all[] = {"random", "matching", "exponential", "dissemination", "hypercube",
                                  "base2"};
static const size_t mutual_n = sizeof mutual / sizeof mutual[0], all_n = sizeof all / sizeof all[0];

static bool everybody[N_MAX];

static struct uw_peer_choice pick(const char *name, uint32_t n, uint32_t self, uint32_t round,
                                      const bool *usable, struct uw_rng *rng)
{
    const struct uw_peer_view v = {.n = n, .self = self, .usable = usable, .round = round,
                                       .seed = 42};
    struct uw_peer_choice c = uw_peer_schedule_find(name)->pick(&v, rng);
    assert_true(c.at == UW_PEER_NOBODY || (c.at < n && c.at != self));
    return c;
}

static void test_partners_of_mutual_schedules_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < mutual_n; i++) {
        assert_true(uw_peer_schedule_find(mutual[i])->mutual);
        for (uint32_t n = 1; n <= N_MAX; n++) {
            for (uint32_t round = 0; round < 40; round++) {
                for (uint32_t self = 0; self < n; self++) {
                    struct uw_peer_choice c = pick(mutual[i], n, self, round, everybody, NULL);
                    if (c.at != UW_PEER_NOBODY) {
                        struct uw_peer_choice back = pick(mutual[i], n, c.at, round, everybody,
                                                              NULL);
                        assert_int_equal(back.at, self);
                        assert_true(back.weight == c.weight);
                    }
                }
            }
        }
    }
}

static void test_a_matching_leaves_at_most_one_alone(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= N_MAX; n++) {
        uint32_t alone = 0;
        for (uint32_t self = 0; self < n; self++) {
            alone += pick("matching", n, self, 5, everybody, NULL).at == UW_PEER_NOBODY;
        }
        assert_int_equal(alone, n % 2);
    }
}

/* Directed schedules give everybody one who pulls from it. */
static void test_directed_schedules_are_permutations(void **state)
{
    static const char *const directed[] = {"exponential", "dissemination"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_false(uw_peer_schedule_find(directed[i])->mutual);
        for (uint32_t n = 2; n <= N_MAX; n++) {
            for (uint32_t round = 0; round < 20; round++) {
                bool taken[N_MAX] = {false};
                for (uint32_t self = 0; self < n; self++) {
                    struct uw_peer_choice c = pick(directed[i], n, self, round, everybody,
                                                       NULL);
                    assert_true(c.at < n && !taken[c.at]);
                    taken[c.at] = true;
                }
            }
        }
    }
}

static void test_every_pair_meets(void **state)
{
    (void)state;
    for (size_t i = 0; i < all_n; i++) {
        for (uint32_t n = 2; n <= 33; n++) {
            bool met[N_MAX][N_MAX] = {{false}};
            uint32_t pairs = 0;
            struct uw_rng rng;
            uw_rng_seed(&rng, uw_test_seed(3));
            for (uint32_t round = 0; round < 60 * n && pairs < n * (n - 1) / 2; round++) {
                for (uint32_t self = 0; self < n; self++) {
                    uint32_t at = pick(all[i], n, self, round, everybody, &rng).at;
                    if (at != UW_PEER_NOBODY && !met[self][at]) {
                        met[self][at] = met[at][self] = true;
                        pairs++;
                    }
                }
            }
            assert_int_equal(pairs, n * (n - 1) / 2);
        }
    }
}

static void test_who_cannot_be_reached_is_not_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < all_n; i++) {
        struct uw_rng rng;
        uw_rng_seed(&rng, uw_test_seed(4));
        bool usable[9] = {true, true, false, true, false, true, true, true, false};
        uint32_t identities = 0;
        for (uint32_t round = 0; round < 200; round++) {
            struct uw_peer_choice c = pick(all[i], 9, 1, round, usable, &rng);
            assert_true(c.at == UW_PEER_NOBODY || usable[c.at]);
            identities += c.at == UW_PEER_NOBODY;
        }
        assert_true(i == 0 ? identities == 0 : identities > 20);
        const bool none[9] = {false};
        assert_int_equal(pick(all[i], 9, 1, 0, none, &rng).at, UW_PEER_NOBODY);
    }
}

static void test_random_is_uniform(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(5));
    uint32_t count[8] = {0};
    for (uint32_t round = 0; round < 7000; round++) {
        count[pick("random", 8, 3, round, everybody, &rng).at]++;
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(i == 3 ? count[i] == 0 : count[i] > 850 && count[i] < 1150);
    }
}

static void test_random_draws_by_charge(void **state)
{
    static const uint32_t charge[6] = {0, 100, 50, 25, 1, 77};  /* 0: on mains */
    uint8_t weight[6];
    uint32_t count[6] = {0}, sum = 0;
    struct uw_rng rng;
    (void)state;
    uw_rng_seed(&rng, uw_test_seed(6));
    for (uint32_t i = 0; i < 6; i++) {
        weight[i] = uw_peer_weight(charge[i]);
        sum += i != 5 ? weight[i] : 0;      /* the one who draws */
    }
    assert_int_equal(sum, 100 + 100 + 50 + 25 + 10);
    struct uw_peer_view v = {
        .n = 6, .self = 5, .usable = everybody, .weight = weight, .seed = 42};
    for (v.round = 0; v.round < 20u * sum; v.round++) {
        count[uw_peer_schedule_random.pick(&v, &rng).at]++;
    }
    for (uint32_t i = 0; i < 5; i++) {
        double expected = 20.0 * weight[i];
        assert_true(fabs(count[i] - expected) < 5.0 * sqrt(expected));
    }
    assert_int_equal(count[5], 0);
}

/* Who plans whole rounds needs everybody to come to the same ones. */
static void test_seeded_schedules_know_no_charge(void **state)
{
    static const uint8_t weight[9] = {10, 100, 50, 10, 100, 20, 30, 40, 50};
    (void)state;
    for (size_t i = 1; i < all_n; i++) {
        for (uint32_t round = 0; round < 50; round++) {
            const struct uw_peer_view v = {.n = 9, .self = 1, .usable = everybody, .round = round,
                                           .seed = 42, .weight = weight};
            assert_int_equal(uw_peer_schedule_find(all[i])->pick(&v, NULL).at,
                             pick(all[i], 9, 1, round, everybody, NULL).at);
        }
    }
}

/* In log2 p rounds of a hypercube, and in a sweep of the Base-2 graph, all get the mean. */
static void test_a_turn_averages_exactly(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 33; n++) {
        bool power = (n & (n - 1)) == 0;
        for (size_t i = power ? 1 : 2; i < mutual_n; i++) {
            double x[N_MAX], y[N_MAX];
            uint32_t rounds = 0;
            for (uint32_t k = 0; k < n; k++) {
                x[k] = k * k;
            }
            double mean = (n - 1.0) * (2.0 * n - 1.0) / 6.0, worst = 1.0;
            for (; rounds < 12 && worst > 1e-5; rounds++) { /* weights are floats */
                worst = 0.0;
                for (uint32_t k = 0; k < n; k++) {
                    struct uw_peer_choice c = pick(mutual[i], n, k, rounds, everybody, NULL);
                    double w = c.weight > 0.0f ? (double)c.weight : 0.5;
                    y[k] = c.at == UW_PEER_NOBODY ? x[k] : (1.0 - w) * x[k] + w * x[c.at];
                    worst = fmax(worst, fabs(y[k] - mean) / mean);
                }
                memcpy(x, y, sizeof x);
            }
            assert_true(worst <= 1e-5 && rounds <= 11);
        }
    }
}

static uint32_t id_of(const void *arg, uint32_t at)
{
    (void)arg;
    return 1000u + at;
}

/* The weights of a graph schedule, from its picks in as many rounds as a member has neighbours. */
static uint32_t weigh(const char *name, const struct uw_peer_graph *graph, uint32_t n,
                      double w[N_MAX][N_MAX])
{
    uint32_t most = 0;
    for (uint32_t self = 0; self < n; self++) {
        uint32_t degree = 0;
        for (uint32_t k = 0; k < n; k++) {
            w[self][k] = 0.0;
        }
        for (struct uw_peer_choice c;; degree++) {
            const struct uw_peer_view v = {.n = n, .self = self, .usable = everybody,
                                           .round = degree, .graph = graph, .id = id_of};
            c = uw_peer_schedule_find(name)->pick(&v, NULL);
            if (c.at == UW_PEER_NOBODY || w[self][c.at] != 0.0) {
                break;
            }
            w[self][c.at] = (double)c.weight;
        }
        most = degree > most ? degree : most;
    }
    return most;
}

static void expect_graph(const char *name, const struct uw_peer_graph *graph, uint32_t n,
                         uint32_t most, bool metropolis)
{
    double w[N_MAX][N_MAX];
    uint32_t degree[N_MAX] = {0}, reached = 1;
    bool in[N_MAX] = {true};
    assert_true(weigh(name, graph, n, w) <= most);
    for (uint32_t a = 0; a < n; a++) {
        double sum = 0.0;
        for (uint32_t b = 0; b < n; b++) {
            assert_true(w[a][b] == w[b][a] && w[a][b] >= 0.0);
            sum += w[a][b];
            degree[a] += w[a][b] != 0.0;
        }
        assert_true(sum < 1.0 + 1e-6);
    }
    for (uint32_t turns = 0; turns < n; turns++) {
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; in[a] && b < n; b++) {
                reached += w[a][b] != 0.0 && !in[b];
                in[b] = in[b] || w[a][b] != 0.0;
                uint32_t larger = degree[a] > degree[b] ? degree[a] : degree[b];
                assert_true(!metropolis || w[a][b] == 0.0 ||
                            (float)w[a][b] == 1.0f / (1.0f + (float)larger));
            }
        }
    }
    assert_int_equal(reached, n);
}

static void test_graphs_are_connected_and_their_weights_keep_the_mean(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= N_MAX; n++) {
        expect_graph("ring", NULL, n, 2, true);
        expect_graph("chain", NULL, n, 2, true);
        expect_graph("torus", NULL, n, 4, true);
        expect_graph("tree", NULL, n, 3, true);
    }
}

static void test_a_torus_is_a_grid_and_a_tree_binary(void **state)
{
    (void)state;
    double w[N_MAX][N_MAX];
    assert_int_equal(weigh("torus", NULL, 16, w), 4);
    assert_true(w[5][1] > 0.0 && w[5][9] > 0.0 && w[5][4] > 0.0 && w[5][6] > 0.0);
    assert_true(w[0][12] > 0.0 && w[0][3] > 0.0);
    assert_int_equal(weigh("torus", NULL, 13, w), 2);
    assert_int_equal(weigh("tree", NULL, 7, w), 3);
    assert_true(w[1][0] > 0.0 && w[1][3] > 0.0 && w[1][4] > 0.0);
}

static void test_a_given_graph_has_its_own_weights(void **state)
{
    const struct uw_peer_edge edges[] = {{{1000, 1001}, 0.0f}, {{1002, 1000}, 0.25f},
                                         {{1003, 1000}, 0.0f}};
    const struct uw_peer_graph graph = {edges, 3};
    double w[N_MAX][N_MAX];
    (void)state;
    expect_graph("graph", &graph, 4, 3, false);
    (void)weigh("graph", &graph, 4, w);
    assert_true(w[0][1] == 0.25 && w[0][2] == 0.25 && w[0][3] == 0.25 && w[1][2] == 0.0);
    const struct uw_peer_graph fewer = {edges, 1};
    assert_int_equal(weigh("graph", &fewer, 3, w), 1);
    assert_true(w[0][1] == 0.5 && w[2][0] == 0.0 && w[2][1] == 0.0);
    const struct uw_peer_graph absent = {edges + 2, 1};     /* 1003 is no member */
    assert_int_equal(weigh("graph", &absent, 3, w), 0);
}

static void test_schedules_are_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < all_n; i++) {
        assert_string_equal(uw_peer_schedule_find(all[i])->name, all[i]);
    }
    assert_ptr_equal(uw_peer_schedule_find("random"), &uw_peer_schedule_random);
    assert_null(uw_peer_schedule_find("star"));
}

int main(void)
{
    for (uint32_t i = 0; i < N_MAX; i++) {
        everybody[i] = true;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partners_of_mutual_schedules_agree),
        cmocka_unit_test(test_a_matching_leaves_at_most_one_alone),
        cmocka_unit_test(test_directed_schedules_are_permutations),
        cmocka_unit_test(test_every_pair_meets),
        cmocka_unit_test(test_who_cannot_be_reached_is_not_chosen),
        cmocka_unit_test(test_random_is_uniform),
        cmocka_unit_test(test_random_draws_by_charge),
        cmocka_unit_test(test_seeded_schedules_know_no_charge),
        cmocka_unit_test(test_a_turn_averages_exactly),
        cmocka_unit_test(test_graphs_are_connected_and_their_weights_keep_the_mean),
        cmocka_unit_test(test_a_torus_is_a_grid_and_a_tree_binary),
        cmocka_unit_test(test_a_given_graph_has_its_own_weights),
        cmocka_unit_test(test_schedules_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
