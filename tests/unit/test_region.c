/* SPDX-License-Identifier: Apache-2.0
 *
 * Models in several memories: the numbers do not notice. */
#include "test_support.h"

#include "model_fixture.h"

#include <string.h>

#define BATCH 4u
#define MEMORY_BYTES 262144u

static const struct uw_layer_def layers[] = {
    CONV("c1", 4, 3, 1, 1), RELU("r1"), CONV("c2", 4, 3, 1, 1), RELU("r2"), POOL("p", 2, 2, 0),
    FLATTEN("f"), DENSE("d1", 12), RELU("r3"), DENSE("d2", 3)};
static const struct uw_model_def def = {"m", 2, 8, 8, layers, sizeof layers / sizeof layers[0]};

static struct uw_model_config config_of(const struct uw_model_def *d, void *workspace)
{
    return (struct uw_model_config){
        .def = d, .kernels = &uw_kernels_ref, .batch_n = BATCH,
        .optimizer = {.kind = UW_OPTIMIZER_ADAM, .lr = 0.01f}, .snapshot = true, .input = true,
        .workspace = workspace, .workspace_bytes = UW_MODEL_WORKSPACE_BYTES(d->layers_n)};
}

static void train(struct uw_model *m, uint32_t steps)
{
    struct uw_rng r;
    uw_rng_seed(&r, 5);
    for (uint32_t i = 0; i < steps; i++) {
        struct uw_step_result result;
        random_batch(&r, m, BATCH, m->input, m->label);
        assert_int_equal(uw_model_train_step(m, &(struct uw_minibatch){.n = BATCH}, &result, NULL),
                         UW_OK);
    }
}

static void test_regions_hold_the_purposes_and_train_bit_for_bit_the_same(void **state)
{
    (void)state;
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(9)], whole[MEMORY_BYTES];
    struct uw_model_config config = config_of(&def, workspace);
    struct uw_model_need need;
    struct uw_model a, b;
    struct uw_arena fast, slow;
    struct uw_error err;

    assert_int_equal(uw_model_measure(&config, &need, &err), UW_OK);
    assert_int_equal(uw_model_open(&a, &config, whole, sizeof whole, 3, &err), UW_OK);
    struct uw_regions r = {
        .region = {{"fast", &fast, need.activations_bytes + need.input_bytes + 64},
                   {"slow", &slow, need.total_bytes}},
        .n = 2};
    assert_int_equal(uw_regions_place(&r, &need, &err), UW_OK);
    assert_int_equal(r.of[UW_PURPOSE_ACTIVATIONS], 0);
    assert_int_equal(r.of[UW_PURPOSE_INPUT], 0);
    assert_int_equal(r.of[UW_PURPOSE_PARAMETERS], 1);
    void *fast_memory = uw_test_block(r.region[0].bytes);
    void *slow_memory = uw_test_block(need.total_bytes);
    uw_arena_init(&fast, fast_memory, r.region[0].bytes);
    uw_arena_init(&slow, slow_memory, need.total_bytes);
    config.regions = &r;
    if (uw_model_bind(&b, &config, NULL, &err) != UW_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(fast.used_bytes + slow.used_bytes, need.total_bytes);
    assert_in_range((uintptr_t)b.input, (uintptr_t)fast_memory,
                    (uintptr_t)fast_memory + r.region[0].bytes);
    assert_in_range((uintptr_t)b.params.x, (uintptr_t)slow_memory,
                    (uintptr_t)slow_memory + need.total_bytes);
    uw_model_init_weights(&b, 3);
    train(&a, 5);
    train(&b, 5);
    assert_memory_equal(a.params.x, b.params.x, a.params.size_n * sizeof(float));
    uw_test_release(fast_memory);
    uw_test_release(slow_memory);
}

static void test_regions_too_small_name_the_purpose(void **state)
{
    (void)state;
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(9)];
    struct uw_model_config config = config_of(&def, workspace);
    struct uw_model_need need;
    struct uw_model m;
    struct uw_arena tiny;
    struct uw_error err;
    uint64_t memory[8];

    assert_int_equal(uw_model_measure(&config, &need, &err), UW_OK);
    struct uw_regions r = {.region = {{"only", NULL, need.activations_bytes}}, .n = 1};
    assert_int_equal(uw_regions_place(&r, &need, &err), UW_ERR_NOMEM);
    assert_non_null(strstr(err.text, "the input"));
    r.n = 0;
    assert_int_equal(uw_regions_place(&r, &need, &err), UW_ERR_INVALID);
    uw_arena_init(&tiny, memory, sizeof memory);
    assert_int_equal(uw_model_bind(&m, &config, &tiny, &err), UW_ERR_NOMEM);
    assert_non_null(strstr(err.text, "the model needs"));
}

static void test_constants_take_no_memory_and_never_change(void **state)
{
    (void)state;
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(9)], ram[MEMORY_BYTES], flash[MEMORY_BYTES];
    static float c1w[72], c1b[4], c2w[144], c2b[4], d1w[768], copy[72];
    const struct uw_constant constants[] = {
        {"c1.weight", c1w, 72}, {"c1.bias", c1b, 4}, {"c2.weight", c2w, 144}, {"c2.bias", c2b, 4},
        {"d1.weight", d1w, 768}};
    struct uw_layer_def some[sizeof layers / sizeof layers[0]];
    struct uw_model_def d = def;
    struct uw_model_need need, with;
    struct uw_model a, b;
    struct uw_error err;

    memcpy(some, layers, sizeof layers);
    some[0].frozen = some[2].frozen = true;
    d.layers = some;
    struct uw_model_config config = config_of(&d, workspace);
    assert_int_equal(uw_model_measure(&config, &need, &err), UW_OK);
    assert_int_equal(uw_model_open(&a, &config, ram, sizeof ram, 9, &err), UW_OK);
    memcpy(c1w, a.params.x, sizeof c1w);
    memcpy(copy, c1w, sizeof copy);
    memcpy(c2w, uw_params_find(&a.params, "c2.weight")->offset_n + a.params.x, sizeof c2w);
    memcpy(d1w, uw_params_find(&a.params, "d1.weight")->offset_n + a.params.x, sizeof d1w);
    config.constants = constants;
    config.constants_n = 5;
    assert_int_equal(uw_model_measure(&config, &with, &err), UW_OK);
    assert_int_equal(with.parameters_n, need.parameters_n);
    assert_int_equal(with.constants_n, 72 + 4 + 144 + 4);
    assert_true(need.parameters_bytes - with.parameters_bytes >= 4 * (72 + 4 + 144 + 4) - 64);
    assert_int_equal(uw_model_open(&b, &config, flash, sizeof flash, 9, &err), UW_OK);
    assert_null(uw_params_find(&b.params, "c1.weight"));
    train(&a, 5);
    train(&b, 5);
    for (uint32_t i = 0; i < b.params.segments_n; i++) { /* the rest starts and stays the same */
        const struct uw_segment *s = &b.params.segments[i];
        const struct uw_segment *same = uw_params_find(&a.params, s->name);
        assert_memory_equal(b.params.x + s->offset_n, a.params.x + same->offset_n,
                            s->size_n * sizeof(float));
    }
    assert_memory_equal(c1w, copy, sizeof copy);
}

static void test_constants_of_another_size_are_refused_by_name(void **state)
{
    (void)state;
    static uint8_t workspace[UW_MODEL_WORKSPACE_BYTES(9)];
    static const float x[10];
    const struct uw_constant constants[] = {{"c1.weight", x, 10}};
    struct uw_layer_def some[sizeof layers / sizeof layers[0]];
    struct uw_model_def d = def;
    struct uw_model_need need;
    struct uw_error err;

    memcpy(some, layers, sizeof layers);
    some[0].frozen = true;
    d.layers = some;
    struct uw_model_config config = config_of(&d, workspace);
    config.constants = constants;
    config.constants_n = 1;
    assert_int_equal(uw_model_measure(&config, &need, &err), UW_ERR_MISMATCH);
    assert_string_equal(err.text, "constant c1.weight has 10 floats, the model needs 72");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions_hold_the_purposes_and_train_bit_for_bit_the_same),
        cmocka_unit_test(test_regions_too_small_name_the_purpose),
        cmocka_unit_test(test_constants_take_no_memory_and_never_change),
        cmocka_unit_test(test_constants_of_another_size_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
