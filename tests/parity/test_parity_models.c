/* SPDX-License-Identifier: Apache-2.0
 *
 * Ten training steps of every built-in model go where PyTorch goes: the loss of each step and what
 * became of the weights and running statistics. Small models on every backend of this build and in
 * both training plans. Dropout drops nothing here: its noise is not PyTorch's.
 *
 * Batch norm of a small minibatch multiplies rounding errors, so models with it have ten times the
 * bound of the others. */
#include "test_support.h"

#include "vectors.h"

#include "model/model_json.h"

#include "uwasa/backends.h"
#include "uwasa/board.h"
#include "uwasa/model.h"

#include <math.h>

#define MODELS_N 13
#define RELATIVE 1e-4
#define RELATIVE_NORMED 1e-3

struct run {
    struct uw_model_file file;
    struct uw_model model;
    struct uw_workers *workers;
    void *memory, *workspace;
};

static void run_load(struct run *r, const struct vector_case *c)
{
    struct uw_error err = {.text = ""};
    char name[VECTOR_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(c->name, ":"), c->name);
    if (uw_model_load(&r->file, name, &err) != UW_OK) {
        fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; i < r->file.def.layers_n; i++) {
        if (r->file.layers[i].kind == UW_LAYER_DROPOUT) {
            r->file.layers[i].dropout.rate = 0.0f;
        }
    }
}

static void run_bind(struct run *r, const struct vector_case *c, const struct uw_kernels *k,
                     enum uw_plan_mode mode)
{
    struct uw_error err = {.text = ""};
    run_load(r, c);
    assert_int_equal(uw_board_workers_init(&r->workers, 2), UW_OK);
    size_t workspace_bytes = UW_MODEL_WORKSPACE_BYTES(r->file.def.layers_n);
    r->workspace = uw_test_block(workspace_bytes);
    struct uw_model_config config = {.def = &r->file.def, .kernels = k, .mode = mode,
                                     .workers = r->workers,
                                     .batch_n = vector_int(c, "batch_n"),
                                     .optimizer = {.momentum = vector_real(c, "momentum")},
                                     .input = true,
                                     .workspace = r->workspace,
                                     .workspace_bytes = workspace_bytes};
    struct uw_model_need need;
    struct uw_arena arena;
    if (uw_model_measure(&config, &need, &err) != UW_OK) {
        fail_msg("%s: %s", c->name, err.text);
    }
    assert_int_equal(need.parameters_n, vector_int(c, "parameters"));
    r->memory = uw_test_block(need.total_bytes);
    uw_arena_init(&arena, r->memory, need.total_bytes);
    assert_int_equal(uw_model_bind(&r->model, &config, &arena, &err), UW_OK);
    uw_arena_seal(&arena);
}

static void run_release(struct run *r)
{
    uw_board_workers_deinit(&r->workers);
    uw_test_release(r->memory);
    uw_test_release(r->workspace);
    uw_model_file_deinit(&r->file);
}

/* FNV-1a. */
static uint32_t seed_of(const char *name)
{
    uint32_t h = 0x811c9dc5u;
    for (; *name != '\0'; name++) {
        h = (h ^ (uint8_t)*name) * 0x01000193u;
    }
    return h;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), end_n = strlen(end);
    return n >= end_n && strcmp(name + n - end_n, end) == 0;
}

/* As start() of gen_models.py. */
static void set_weights(struct run *r, const struct vector_case *c)
{
    struct uw_params *p = &r->model.params;
    assert_int_equal(p->segments_n, vector_int(c, "segments"));
    for (uint32_t i = 0; i < p->segments_n; i++) {
        const struct uw_segment *s = &p->segments[i];
        float *w = p->x + s->offset_n;
        float scale = 0.0625f, middle = 0.0f;
        if (s->rank > 1) {
            scale = (float)sqrt(6.0 / (s->size_n / s->dim[0]));
        } else if (ends_in(s->name, ".weight")) {
            scale = 0.125f;
            middle = 1.0f;
        } else if (s->statistic) {
            scale = 0.0f;
            middle = ends_in(s->name, ".running_var") ? 1.0f : 0.0f;
        }
        vector_fill(w, s->size_n, seed_of(s->name), scale);
        for (uint32_t k = 0; k < s->size_n && middle != 0.0f; k++) {
            w[k] += middle;
        }
    }
}

static const struct uw_segment *find_segment(const struct uw_params *p, const char *name)
{
    for (uint32_t i = 0; i < p->segments_n; i++) {
        if (strcmp(p->segments[i].name, name) == 0) {
            return &p->segments[i];
        }
    }
    return NULL;
}

static void compare_segments(const struct run *r, const struct vector_case *c,
                             const struct uw_kernels *k, double relative)
{
    const struct uw_params *p = &r->model.params;
    assert_in_range(c->outs_n, 2, VECTOR_OUTS_MAX);
    for (uint32_t i = 0; i < c->outs_n; i++) {
        const struct vector_out *o = &c->outs[i];
        if (strcmp(o->key, "losses") == 0) {
            continue;
        }
        const struct uw_segment *s = find_segment(p, o->key);
        if (s == NULL || s->size_n != o->size_n) {
            fail_msg("%s: there is no %s of %zu", c->name, o->key, o->size_n);
            return;
        }
        vector_expect(c, s->name, k->name, p->x + s->offset_n, relative);
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
    double relative = vector_int(c, "normed") != 0 ? RELATIVE_NORMED : RELATIVE;
    float losses[32];
    assert_in_range(steps_n, 10, 32);
    run_bind(&r, c, k, mode);
    set_weights(&r, c);
    for (uint32_t step = 0; step < steps_n; step++) {
        struct uw_step_result result;
        vector_fill(r.model.input, (size_t)batch_n * r.model.input_n, 1000 + step % 2, 1);
        for (uint32_t i = 0; i < batch_n; i++) {
            r.model.label[i] = (i * 7 + step % 2) % r.model.classes;
        }
        r.model.optimizer = sgd;
        if (uw_model_train_step(&r.model, &(struct uw_minibatch){.n = batch_n}, &result, &err) !=
            UW_OK) {
            fail_msg("%s, backend %s: %s", c->name, k->name, err.text);
        }
        losses[step] = (float)result.loss;
    }
    vector_expect(c, "losses", k->name, losses, relative);
    compare_segments(&r, c, k, relative);
    run_release(&r);
}

/* Models of many products run on the fastest backend only, and not at all under a sanitizer or an
 * emulator, where ten steps would take minutes; nor does resnet20 there. Every layer they have is
 * in a smaller model or in the other parity tests. */
static bool is_large(const char *model)
{
    static const char *const large[] = {"alexnet", "googlenet", "mobilenetv2", "resnet50", "vgg16",
                                        "vgg16-bn"};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        if (strcmp(large[i], model) == 0) {
            return true;
        }
    }
    return false;
}

/* Is a case left out where the processor is emulated? These two models took most of the time there:
 * they keep the case with momentum; the small models have every optimizer. */
static bool is_left_out(const char *name)
{
    return uw_test_slow() && !ends_in(name, ":momentum") &&
           (strncmp(name, "fedavg-cnn:", 11) == 0 || strncmp(name, "dscnn:", 6) == 0);
}

/* lean has ref's bits (contract/kernels_lean), by code for boards: here it would only be slow. An
 * emulated processor has one plan for each case: they differ in when a kernel is called, by code
 * that is the same everywhere. */
static void run_backends(const struct vector_case *c, bool one, bool full)
{
    for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
        const struct uw_kernels *k = uw_kernels_at(i);
        if (k != &uw_kernels_lean && (!one || k == uw_kernels_best())) {
            if (!full || !uw_test_slow()) {
                train_and_compare(c, k, UW_PLAN_IMMEDIATE);
            }
            if (full) {
                train_and_compare(c, k, UW_PLAN_FULL);
            }
        }
    }
}

static void test_ten_steps_match_pytorch(void **state)
{
    const char *model = *state;
    bool quick = getenv("UWASA_TEST_QUICK") != NULL;
    bool large = is_large(model);
    unsigned cases_n = 0;
    struct vectors v;
    struct vector_case c = {.numbers_n = 0};

    if (quick && (large || strcmp(model, "resnet20") == 0)) {
        skip();
    }
    vectors_open(&v, "models.txt");
    while (vectors_next(&v, "model", &c)) {
        if (strncmp(c.name, model, strlen(model)) != 0 || c.name[strlen(model)] != ':') {
            continue;
        }
        cases_n++;
        if (!is_left_out(c.name)) {
            run_backends(&c, large || quick, !large && vector_real(&c, "momentum") != 0.0f);
        }
    }
    vectors_close(&v);
    assert_in_range(cases_n, 1, 3);
}

int main(void)
{
    struct CMUnitTest tests[MODELS_N];
    char names[MODELS_N][48];
    if (uw_model_builtins_n != MODELS_N) {
        fprintf(stderr, "this test wants %d built-in models\n", MODELS_N);
        return 1;
    }
    for (uint32_t i = 0; i < MODELS_N; i++) {
        snprintf(names[i], sizeof names[i], "%s_ten_steps_match_pytorch",
                 uw_model_builtins[i].name);
        tests[i] = (struct CMUnitTest){
            .name = names[i],
            .test_func = test_ten_steps_match_pytorch,
            .initial_state = (void *)(uintptr_t)uw_model_builtins[i].name,
        };
    }
    return cmocka_run_group_tests_name("parity_models", tests, NULL, NULL);
}
