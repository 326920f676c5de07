/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixing rules by themselves. */
#include "unit/mix_bench.h"

#include "uwasa/rng.h"

/* One round of a rule in double, from its equation in mix.h; s, x, m are the round's. */
static void twin(const char *rule, double l, double a, const double *s, double *x, double *m)
{
    for (uint32_t i = 0; i < N; i++) {
        double d = s[i] - x[i];
        if (strcmp(rule, "qg") == 0) {
            m[i] = 0.9 * (1.0 - 0.1 * a) * m[i] + 0.1 * d / l;
        } else if (strcmp(rule, "noloco") == 0) {
            m[i] = 0.5 * m[i] - 0.7 * d;
            x[i] = s[i] + m[i];
        } else if (strcmp(rule, "slowmo") == 0) {
            m[i] = 0.5 * m[i] + d / l;
            x[i] = s[i] - l * m[i];
        } else if (strcmp(rule, "diloco") == 0) {
            m[i] = 0.9 * m[i] + d;
            x[i] = s[i] - 0.7 * (d + 0.9 * m[i]);
        } else {
            assert_string_equal(rule, "none");
        }
    }
}

static void test_every_rule_follows_its_equation(void **state)
{
    (void)state;
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(7));
    for (size_t r = 0; uw_mix_rules[r] != NULL; r++) {
        const struct uw_mix_rule *rule = uw_mix_rules[r];
        if (rule->pair != NULL) {
            continue;       /* test_mix_pairs.c */
        }
        struct bench b;
        set_up(&b, rule, 4, false);
        double x[N], m[N] = {0.0}, s[N];
        for (uint32_t round = 0; round < 50; round++) {
            float lr_sum = 0.1f + 0.4f * uw_rng_uniform(&rng);
            float recent = 2.0f * uw_rng_uniform(&rng);
            for (uint32_t i = 0; i < N; i++) {      /* what steps and mixing did, whatever it is */
                b.s[i] = b.x[i];
                b.x[i] += 0.01f * uw_rng_normal(&rng);
                s[i] = round == 0 ? (double)b.s[i] : x[i];
                x[i] = s[i] + ((double)b.x[i] - (double)b.s[i]);
            }
            uw_mix_end(rule, &(struct uw_mix_constants){.weight = 0.0f}, &b.params, b.s, b.m,
                       lr_sum, recent);
            double a = recent < 1.0f ? 1.0 - (double)recent : 0.0;
            twin(rule->name, (double)lr_sum, a, s, x, m);
            for (uint32_t i = 0; i < N; i++) {
                assert_true(fabs((double)b.x[i] - x[i]) < 2e-5);
                assert_true(fabs((double)b.m[i] - m[i]) < 2e-5);
            }
        }
        tear_down(&b);
    }
}

/* A running variance that momentum carried on would fall below zero. */
static void test_running_statistics_stay_as_they_were_mixed(void **state)
{
    (void)state;
    struct bench b;
    set_up(&b, &uw_mix_noloco, 1, false);
    struct uw_segment parts[] = {{.name = "w", .size_n = 10},
                                 {.name = "var", .offset_n = 10, .size_n = 20, .statistic = true},
                                 {.name = "b", .offset_n = 30, .size_n = 7}};
    b.params.segments = parts;
    b.params.segments_n = 3;
    for (uint32_t i = 0; i < N; i++) {
        b.s[i] = 1.0f;
        b.x[i] = 0.5f;
    }
    uw_mix_end(&uw_mix_noloco, &(struct uw_mix_constants){.beta = 0.9f, .mu = 0.25f}, &b.params,
               b.s, b.m, 0.1f, 1.0f);
    for (uint32_t i = 0; i < N; i++) {
        bool statistic = i >= 10 && i < 30;
        const float x = statistic ? 0.5f : 0.875f, m = statistic ? 0.0f : -0.125f;
        assert_float_equal(b.x[i], x, 1e-7);
        assert_float_equal(b.m[i], m, 1e-7);
    }
    tear_down(&b);
}

/* The two parts of a rule are its end. They round like s and x, not like what is left of them:
 * each part may be off by an ulp of a sum with mu s / lr_sum in it. */
static void test_in_two_parts_a_round_ends_the_same(void **state)
{
    (void)state;
    struct uw_rng rng;
    struct bench b;
    const struct uw_mix_constants c = {.weight = 0.0f};
    set_up(&b, &uw_mix_qg, 1, false);
    float *m = uw_test_floats(N);
    uw_rng_seed(&rng, uw_test_seed(8));
    for (uint32_t round = 0; round < 200; round++) {
        float lr_sum = 0.01f + uw_rng_uniform(&rng), alone = uw_rng_uniform(&rng);
        double worst = 0.0;
        for (uint32_t i = 0; i < N; i++) {
            m[i] = b.m[i] = 0.1f * uw_rng_normal(&rng);
            b.s[i] = uw_rng_normal(&rng);
            b.x[i] = b.s[i] + 0.01f * lr_sum * uw_rng_normal(&rng);
            worst = fmax(worst, fabs((double)b.s[i]));
        }
        uw_mix_qg.before(&c, N, b.s, m, lr_sum, alone);
        uw_mix_qg.after(&c, N, b.x, m, lr_sum);
        uw_mix_qg.end(&c, N, b.s, b.x, b.m, lr_sum, alone);
        for (uint32_t i = 0; i < N; i++) {
            double ulp = ldexp(0.1 * worst / (double)lr_sum + 1.0, -24);
            assert_true(fabs((double)m[i] - (double)b.m[i]) <= 4.0 * ulp);
        }
    }
    for (size_t i = 0; uw_mix_rules[i] != NULL; i++) {
        const struct uw_mix_rule *rule = uw_mix_rules[i];
        assert_true((rule->before == NULL) == (rule->after == NULL));
        assert_true(rule->before == NULL || rule->end != NULL);
    }
    uw_test_release(m);
    tear_down(&b);
}

/* Alone for good: what the velocity itself has moved is no evidence, so that of a constant gradient
 * it becomes as much, not ten times as much. Who mixes a model in ten rounds is not alone. */
static void test_velocity_of_a_node_alone_is_the_gradient(void **state)
{
    (void)state;
    const struct uw_mix_constants c = {.weight = 0.0f};
    for (uint32_t every = 0; every <= 9; every += 9) {
        struct bench b;
        set_up(&b, &uw_mix_qg, 1, false);
        float recent = UW_MIX_RECENT_FIRST;
        for (uint32_t round = 0; round < 2000; round++) {
            recent = uw_mix_recent(&c, recent, every != 0 && round % every == 0 ? 7.0f : 0.0f);
            for (uint32_t i = 0; i < N; i++) {
                b.s[i] = 0.0f;
                b.x[i] = -0.1f * (1.0f + 0.9f * b.m[i]);        /* gradient 1, lr_sum 0.1 */
            }
            uw_mix_end(&uw_mix_qg, &c, &b.params, b.s, b.m, 0.1f, recent);
        }
        assert_true(every == 0 ? fabsf(b.m[0] - 1.0f) < 1e-3f : b.m[0] > 4.0f);
        assert_true(recent <= 10.0f);
        tear_down(&b);
    }
}

#define NODES 6u
#define STEPS 5u

struct tracker {
    double target;                  /* this node's loss is curve (x - target)^2 / 2 */
    double curve;
    float x, s, m, z;
};

static float gradient(const struct tracker *t)
{
    return (float)(t->curve * ((double)t->x - t->target));
}

/* Local steps on a node's own loss pull to its own target; gradient tracking must bring all nodes
 * to the optimum of the sum all the same, and plain averaging must not. */
static void test_gradient_tracking_finds_the_common_optimum(void **state)
{
    (void)state;
    struct tracker node[NODES];
    struct uw_rng rng;
    uw_rng_seed(&rng, uw_test_seed(9));
    for (uint32_t tracking = 0; tracking < 2; tracking++) {
        double sum = 0.0, curves = 0.0, off = 0.0;
        for (uint32_t i = 0; i < NODES; i++) {
            double curve = 0.5 + 0.3 * i;
            node[i] = (struct tracker){.target = i % 2u != 0 ? 3.0 : -1.0, .curve = curve};
            sum += curve * node[i].target;
            curves += curve;
        }
        for (uint32_t round = 0; round < 600; round++) {
            const float lr = 0.02f;
            for (uint32_t i = 0; i < NODES; i++) {
                struct tracker *t = &node[i];
                t->s = t->x;
                for (uint32_t k = 0; k < STEPS; k++) {
                    t->x -= lr * (gradient(t) + t->m);
                }
                uw_mix_mean_gradient(1, &t->s, &t->x, lr * STEPS, &t->z);
            }
            uint64_t key = uw_rng_u32(&rng);
            for (uint32_t i = 0; i < NODES; i += 2u) {
                struct tracker *a = &node[uw_rng_permute(key, NODES, i)];
                struct tracker *b = &node[uw_rng_permute(key, NODES, i + 1u)];
                float x = a->x;
                if (tracking != 0) {
                    uw_mix_kgt.pair(0.5f, 1, &a->z, &a->x, &a->m, &b->x, &b->z, 1.0f);
                    uw_mix_kgt.pair(0.5f, 1, &b->z, &b->x, &b->m, &x, &a->z, 1.0f);
                } else {
                    uw_mix_chunk(0.5f, 1, &b->x, &a->x);
                    uw_mix_chunk(0.5f, 1, &x, &b->x);
                }
            }
            double m = 0.0;
            for (uint32_t i = 0; i < NODES; i++) {
                m += (double)node[i].m;
            }
            assert_true(fabs(m) < 1e-4);
        }
        for (uint32_t i = 0; i < NODES; i++) {
            off = fmax(off, fabs((double)node[i].x - sum / curves));
        }
        assert_true(tracking != 0 ? off < 1e-4 : off > 0.05);
    }
}

/* However parts of d come, and whatever no segment covers. */
static void test_what_is_carried_leaves_variances_above_zero(void **state)
{
    (void)state;
    float x[7] = {4.0f, 4.0f, 4.0f, 4.0f, -1.0f, 4.0f, 4.0f};
    const float d[] = {-8.0f, -8.0f, -1.0f, 6.0f, -1.0f, -8.0f, 2.0f};
    const float once[] = {-4.0f, 2.0f, 3.0f, 10.0f, -2.0f, -4.0f, 6.0f};
    const float four_times[] = {-28.0f, -4.0f, 0.0f, 28.0f, -5.0f, -28.0f, 12.0f};
    const struct uw_segment parts[] = {
        {.name = "w", .size_n = 1},
        {.name = "var", .offset_n = 1, .size_n = 3, .statistic = true, .variance = true},
        {.name = "mean", .offset_n = 4, .size_n = 2, .statistic = true}};
    struct uw_params p = {.x = x, .size_n = 7, .segments = parts, .segments_n = 3};
    uw_mix_carried(1.0f, &p, 0, 2, d);
    uw_mix_carried(1.0f, &p, 2, 5, d + 2);
    assert_memory_equal(x, once, sizeof x);
    for (uint32_t i = 0; i < 7; i++) {
        x[i] = i == 4 ? -1.0f : 4.0f;
    }
    uw_mix_carried(4.0f, &p, 0, 7, d);
    assert_memory_equal(x, four_times, sizeof x);
    uw_mix_settle(&p);
    assert_float_equal(x[1], 4.0f, 0.0f);
    assert_float_equal(x[0], -28.0f, 0.0f);
    p.segments_n = 0;
    uw_mix_carried(1.0f, &p, 0, 7, d);
    assert_float_equal(x[0], -36.0f, 0.0f);
    assert_float_equal(x[6], 14.0f, 0.0f);
}

static void test_names_find_rules(void **state)
{
    (void)state;
    for (size_t i = 0; uw_mix_rules[i] != NULL; i++) {
        assert_ptr_equal(uw_mix_find(uw_mix_rules[i]->name), uw_mix_rules[i]);
        for (size_t k = 0; k < i; k++) {    /* what a checkpoint stores of it */
            assert_true(strncmp(uw_mix_rules[i]->name, uw_mix_rules[k]->name, 8) != 0);
        }
    }
    assert_null(uw_mix_find("no such rule"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rule_follows_its_equation),
        cmocka_unit_test(test_running_statistics_stay_as_they_were_mixed),
        cmocka_unit_test(test_in_two_parts_a_round_ends_the_same),
        cmocka_unit_test(test_velocity_of_a_node_alone_is_the_gradient),
        cmocka_unit_test(test_gradient_tracking_finds_the_common_optimum),
        cmocka_unit_test(test_what_is_carried_leaves_variances_above_zero),
        cmocka_unit_test(test_names_find_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
