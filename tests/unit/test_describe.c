/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "random_graph.h"

#include "uwasa/describe.h"

#define BLOCKS_MAX 256

struct seen {
    struct uw_block_info block[BLOCKS_MAX];
    uint32_t blocks_n, layers_n;
    uint64_t multiply_adds;
    uint32_t parameters_n;
};

static void see_layer(void *arg, const struct uw_layer_info *layer)
{
    struct seen *s = arg;
    s->layers_n++;
    s->multiply_adds += layer->multiply_adds;
    s->parameters_n += layer->parameters_n;
}

static void see_block(void *arg, const struct uw_block_info *block)
{
    struct seen *s = arg;
    assert_true(s->blocks_n < BLOCKS_MAX);
    s->block[s->blocks_n++] = *block;
}

/* What the fixture's configuration is told to consist of. */
static void look(const struct fixture *f, struct seen *s)
{
    struct uw_error err;
    struct uw_model_config config = f->config;
    const struct uw_visitor v = {see_layer, see_block, s};

    *s = (struct seen){.blocks_n = 0};
    config.workspace = f->workspace;
    assert_int_equal(uw_model_describe(&config, &v, &err), UW_OK);
}

static void test_describe_blocks_alive_together_do_not_overlap_and_fill_the_area(void **state)
{
    (void)state;
    struct uw_rng r;

    uw_rng_seed(&r, uw_test_seed(91));
    for (int trial = 0; trial < 80; trial++) {
        struct random_graph g;
        static struct seen s;
        struct fixture f;
        size_t top = 0;
        random_graph(&g, &r);
        f = (struct fixture){.config = {.def = &g.def, .kernels = &uw_kernels_ref, .batch_n = 3}};
        f.config.mode = trial % 2 == 0 ? UW_PLAN_IMMEDIATE : UW_PLAN_INFERENCE;
        assert_int_equal(open_config(&f), UW_OK);
        if (trial % 4 == 0) { /* the tightest there is */
            close_model(&f);
            f.config.budget_bytes = 1;
            f.memory = NULL;
            assert_int_equal(open_config(&f), UW_ERR_NOMEM);
            unsigned long least = strtoul(strstr(f.err.text, "takes ") + 6, NULL, 10);
            uw_test_release(f.workspace);
            f.config.budget_bytes = least;
            assert_int_equal(open_config(&f), UW_OK);
        }
        look(&f, &s);
        for (uint32_t i = 0; i < s.blocks_n; i++) {
            const struct uw_block_info *a = &s.block[i];
            top = a->offset + a->bytes > top ? a->offset + a->bytes : top;
            for (uint32_t k = 0; k < i; k++) {
                const struct uw_block_info *b = &s.block[k];
                bool together = a->birth <= b->death && b->birth <= a->death;
                bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
                assert_true(!together || apart);
            }
        }
        assert_int_equal(top, f.need.activations_bytes);
        assert_int_equal(s.layers_n, g.def.layers_n);
        assert_int_equal(s.parameters_n, f.need.parameters_n);
        close_model(&f);
    }
}

static void test_describe_counts_multiply_adds_of_products(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 2, 8, 8,
        LAYERS(CONV("c", 4, 3, 1, 1), RELU("r"), POOL("p", 2, 2, 0), FLATTEN("f"), DENSE("d", 5)),
        5};
    struct fixture f;
    static struct seen s;
    struct uw_layer_info info;

    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false), UW_OK);
    look(&f, &s);
    assert_int_equal(s.multiply_adds, 4 * 8 * 8 * 2 * 9 + 4 * 4 * 4 * 5);
    uw_model_layer_info(&f.m, 0, &info);
    assert_string_equal(info.kind, "conv2d");
    assert_int_equal(info.out_rank, 3);
    assert_int_equal(info.out[0], 4);
    assert_int_equal(info.trained_n, 4 * 2 * 9 + 4);
    assert_int_equal(info.passes, 2); /* nobody wants the gradient of the model's input */
    uw_model_layer_info(&f.m, 4, &info);
    assert_int_equal(info.passes, 3);
    uw_model_layer_info(&f.m, 1, &info);
    assert_true(info.view); /* the pool does it */
    close_model(&f);
}

/* Every reading of this clock is one microsecond later. */
static uint64_t tick(void *arg)
{
    uint64_t *now_us = arg;
    return ++*now_us;
}

static void test_profile_accounts_for_every_layer_and_pass(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 3, 1, 1, LAYERS(DENSE("a", 4), RELU("r"), DENSE("b", 2)),
                                     3};
    struct fixture f;
    struct uw_profile_row rows[4] = {{0}};
    uint64_t now_us = 0;
    struct uw_profile profile = {.now_us = tick, .arg = &now_us, .rows = rows};
    struct uw_step_result result;
    const float x[3] = {1, 2, 3};
    const uint32_t label = 1;

    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_IMMEDIATE, false), UW_OK);
    const struct uw_minibatch b = {.x = x, .label = &label, .n = 1};
    assert_int_equal(uw_model_train_step(&f.m, &b, &result, NULL), UW_OK);
    assert_int_equal(now_us, 0);
    f.m.profile = &profile;
    assert_int_equal(uw_model_train_step(&f.m, &b, &result, NULL), UW_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(rows[i].forward_us, 1);
        assert_int_equal(rows[i].bw_param_us, i == 0 || i == 2 ? 1 : 0);
    }
    assert_int_equal(rows[1].bw_input_us, 1);
    close_model(&f);
}

struct spans {
    uint64_t now_us, until_us;
    uint32_t n[UW_PROFILE_WAIT + 1];
    bool nested;                    /* updates and waits lie within the next span */
};

static uint64_t tick_spans(void *arg)
{
    struct spans *s = arg;
    return ++s->now_us;
}

static void count_span(void *arg, uint32_t row, enum uw_profile_part part, uint64_t from_us,
                       uint64_t until_us)
{
    struct spans *s = arg;
    bool inner = part == UW_PROFILE_UPDATE || part == UW_PROFILE_WAIT;
    assert_true(row <= 3 && from_us < until_us && until_us <= s->now_us);
    assert_true(from_us >= s->until_us || (s->nested && part == UW_PROFILE_BW_PARAM));
    s->until_us = inner && s->nested ? s->until_us : until_us;
    s->n[part]++;
}

static int nothing_to_wait_for(void *arg, uint32_t bucket)
{
    (void)arg;
    (void)bucket;
    return UW_OK;
}

static int nothing_to_average(void *arg, uint32_t offset_n, uint32_t count_n, float *gradient)
{
    (void)arg;
    (void)offset_n;
    (void)count_n;
    (void)gradient;
    return UW_OK;
}

static void test_profile_tells_updates_and_waits_at_once_and_late(void **state)
{
    (void)state;
    const struct uw_model_def def = {"m", 3, 1, 1, LAYERS(DENSE("a", 4), RELU("r"), DENSE("b", 2)),
                                     3};
    const float x[3] = {1, 2, 3};
    const uint32_t label = 1;
    const struct uw_minibatch b = {.x = x, .label = &label, .n = 1};
    for (int late = 0; late < 2; late++) {
        struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 1,
                                       .mode = UW_PLAN_BUCKETS, .late_updates = late != 0}};
        struct uw_profile_row rows[4] = {{0}};
        struct spans spans = {.nested = late == 0};
        struct uw_profile profile = {.now_us = tick_spans, .arg = &spans, .rows = rows,
                                     .span = count_span};
        struct uw_step_result result;
        assert_int_equal(open_config(&f), UW_OK);
        f.m.bucket = nothing_to_average;
        f.m.bucket_wait = nothing_to_wait_for;
        f.m.profile = &profile;
        assert_int_equal(uw_model_train_step(&f.m, &b, &result, NULL), UW_OK);
        assert_int_equal(spans.n[UW_PROFILE_UPDATE], late ? 0 : 2);
        assert_int_equal(uw_model_train_step(&f.m, &b, &result, NULL), UW_OK);
        assert_int_equal(spans.n[UW_PROFILE_UPDATE], late ? 2 : 4);
        assert_int_equal(spans.n[UW_PROFILE_WAIT], late ? 2 : 4);
        assert_int_equal(spans.n[UW_PROFILE_BW_PARAM], 4);
        assert_int_equal(spans.n[UW_PROFILE_FORWARD], 8);
        assert_int_equal(rows[0].wait_us + rows[2].wait_us, late ? 2 : 0);
        close_model(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_describe_blocks_alive_together_do_not_overlap_and_fill_the_area),
        cmocka_unit_test(test_describe_counts_multiply_adds_of_products),
        cmocka_unit_test(test_profile_accounts_for_every_layer_and_pass),
        cmocka_unit_test(test_profile_tells_updates_and_waits_at_once_and_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
