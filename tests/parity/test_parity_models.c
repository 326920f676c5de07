/* SPDX-License-Identifier: Apache-2.0
 *
 * Ten training steps of every built-in model go where PyTorch goes: the loss of each step and the
 * final weights, on every backend of this build; with momentum in both training plans. */
#include "test_support.h"

#include "vectors.h"

#include "model_json.h"

#include "uwasa/backends.h"
#include "uwasa/model.h"

#define RELATIVE 1e-4

struct run {
    struct uw_model_file file;
    struct uw_model model;
    void *memory, *workspace;
};

static void run_bind(struct run *r, const struct vector_case *c, const struct uw_kernels *k,
                     enum uw_plan_mode mode)
{
    struct uw_error err = {.text = ""};
    char name[VECTOR_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(c->name, ":"), c->name);
    if (uw_model_load(&r->file, name, &err) != UW_OK) {
        fail_msg("%s", err.text);
    }
    size_t workspace_bytes = UW_MODEL_WORKSPACE_BYTES(r->file.def.layers_n);
    r->workspace = uw_test_block(workspace_bytes);
    struct uw_model_config config = {.def = &r->file.def, .kernels = k, .mode = mode,
                                     .batch_n = vector_int(c, "batch_n"),
                                     .optimizer = {.momentum = vector_real(c, "momentum")},
                                     .input = true,
                                     .workspace = r->workspace,
                                     .workspace_bytes = workspace_bytes};
    struct uw_model_need need;
    struct uw_arena arena;
    assert_int_equal(uw_model_measure(&config, &need, &err), UW_OK);
    r->memory = uw_test_block(need.total_bytes);
    uw_arena_init(&arena, r->memory, need.total_bytes);
    assert_int_equal(uw_model_bind(&r->model, &config, &arena, &err), UW_OK);
    uw_arena_seal(&arena);
}

static void run_release(struct run *r)
{
    uw_test_release(r->memory);
    uw_test_release(r->workspace);
    uw_model_file_deinit(&r->file);
}

/* The start: every segment is a known hash. Fails when model and vectors name other segments. */
static void set_weights(struct run *r, const struct vector_case *c)
{
    struct uw_params *p = &r->model.params;
    assert_int_equal(p->segments_n + 1, c->outs_n);
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *s = &p->segments[i];
        const struct vector_out *o = vector_find(c, s->name);
        char key[VECTOR_NAME_BYTES + 8];
        if (o == NULL || o->size_n != s->size_n) {
            fail_msg("%s: PyTorch's model has no %s of %u", c->name, s->name, (unsigned)s->size_n);
        }
        snprintf(key, sizeof key, "seed.%s", s->name);
        uint32_t seed = vector_int(c, key);
        snprintf(key, sizeof key, "scale.%s", s->name);
        vector_fill(p->x + s->offset_n, s->size_n, seed, vector_real(c, key));
    }
}

static void train_and_compare(const struct vector_case *c, const struct uw_kernels *k,
                              enum uw_plan_mode mode)
{
    struct run r = {.memory = NULL};
    struct uw_error err = {.text = ""};
    struct uw_optimizer sgd = {.lr = vector_real(c, "lr"), .momentum = vector_real(c, "momentum"),
                               .weight_decay = vector_real(c, "weight_decay"),
                               .nesterov = vector_int(c, "nesterov") != 0};
    uint32_t batch_n = vector_int(c, "batch_n"), steps_n = vector_int(c, "steps");
    float losses[32];
    assert_in_range(steps_n, 10, 32);
    run_bind(&r, c, k, mode);
    set_weights(&r, c);
    for (uint32_t step = 0; step < steps_n; step++) {
        struct uw_step_result result;
        vector_fill(r.model.input, (size_t)batch_n * r.model.input_n, 1000 + step, 1);
        for (uint32_t i = 0; i < batch_n; i++) {
            r.model.label[i] = (i * 7 + step) % 10;
        }
        r.model.optimizer = sgd;
        if (uw_model_train_step(&r.model, &(struct uw_minibatch){.n = batch_n}, &result, &err) !=
            UW_OK) {
            fail_msg("%s, backend %s: %s", c->name, k->name, err.text);
        }
        losses[step] = (float)result.loss;
    }
    vector_expect(c, "losses", k->name, losses, RELATIVE);
    for (uint32_t i = 0; i < r.model.params.segments_n; i++) {
        const struct uw_segment *s = &r.model.params.segments[i];
        vector_expect(c, s->name, k->name, r.model.params.x + s->offset_n, RELATIVE);
    }
    run_release(&r);
}

static void each_trajectory(const char *model)
{
    unsigned cases_n = 0;
    struct vectors v;
    struct vector_case c = {.numbers_n = 0};
    vectors_open(&v, "models.txt");
    while (vectors_next(&v, "model", &c)) {
        if (strncmp(c.name, model, strlen(model)) != 0 || c.name[strlen(model)] != ':') {
            continue;
        }
        /* Under a sanitizer or an emulator the fastest backend has to do. */
        uint32_t backends_n = getenv("UWASA_TEST_QUICK") != NULL ? 1 : UINT32_MAX;
        for (uint32_t i = 0; i < backends_n && uw_kernels_at(i) != NULL; i++) {
            train_and_compare(&c, uw_kernels_at(i), UW_PLAN_IMMEDIATE);
            if (cases_n == 1) {
                train_and_compare(&c, uw_kernels_at(i), UW_PLAN_FULL);
            }
        }
        cases_n++;
    }
    vectors_close(&v);
    assert_int_equal(cases_n, 3);
}

static void test_mlp_ten_steps_match_pytorch(void **state)
{
    (void)state;
    each_trajectory("mlp");
}

static void test_lenet5_ten_steps_match_pytorch(void **state)
{
    (void)state;
    each_trajectory("lenet5");
}

static void test_fedavg_cnn_ten_steps_match_pytorch(void **state)
{
    (void)state;
    each_trajectory("fedavg-cnn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp_ten_steps_match_pytorch),
        cmocka_unit_test(test_lenet5_ten_steps_match_pytorch),
        cmocka_unit_test(test_fedavg_cnn_ten_steps_match_pytorch),
    };
    return cmocka_run_group_tests_name("parity_models", tests, NULL, NULL);
}
