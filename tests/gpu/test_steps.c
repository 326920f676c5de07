/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on an open GPU, as a program does it: memory of its own, two steps in flight, recorded
 * steps. The reference table trains the same model beside it. */
#include "steps_fixture.h"

static void test_steps_follow_the_reference(void **state)
{
    (void)state;
    static const struct uw_model_def *const defs[] = {&dense_net, &image_net};
    static const struct uw_optimizer optimizers[] = {
        {.kind = UW_OPTIMIZER_SGD},
        {.kind = UW_OPTIMIZER_SGD, .momentum = 0.9f, .weight_decay = 0.01f},
        {.kind = UW_OPTIMIZER_SGD, .momentum = 0.9f, .nesterov = true, .clip_tensor = 0.5f},
        {.kind = UW_OPTIMIZER_ADAMW, .weight_decay = 0.01f},
        {.kind = UW_OPTIMIZER_RMSPROP, .momentum = 0.5f}};
    for (size_t d = 0; d < 2; d++) {
        for (size_t o = 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
            for (uint32_t mode = UW_PLAN_IMMEDIATE; mode <= UW_PLAN_FULL; mode++) {
                struct uw_model_config c = {.def = defs[d], .batch_n = BATCH, .input = true,
                                            .mode = (enum uw_plan_mode)mode,
                                            .optimizer = optimizers[o], .snapshot = true};
                compare(&c, 9);
            }
        }
    }
}

/* States in registers and in shared memory, both ways through time, attention between them. */
static const struct uw_layer_def sequence_layers[] = {
    {.name = "g", .kind = UW_LAYER_GRU, .recurrent = {.hidden = 66, .reverse = true}},
    {.name = "at", .kind = UW_LAYER_ATTENTION, .attention = {.heads = 2, .causal = true}},
    {.name = "r", .kind = UW_LAYER_RNN, .recurrent = {.hidden = 9}},
    {.name = "l", .kind = UW_LAYER_LSTM, .recurrent = {.hidden = 33, .last = true}},
    {.name = "out", .kind = UW_LAYER_DENSE, .dense = {.out = 4}}};
static const struct uw_model_def sequence_net = {.name = "sequence", .in_channels = 3, .in_w = 5,
                                                 .layers = sequence_layers, .layers_n = 5};

static void test_steps_of_sequences_follow_the_reference(void **state)
{
    (void)state;
    struct uw_model_config c = {.def = &sequence_net, .batch_n = BATCH, .input = true,
                                .mode = UW_PLAN_FULL,
                                .optimizer = {.kind = UW_OPTIMIZER_SGD, .momentum = 0.9f}};
    compare(&c, 5);
    c.micro_n = 4;              /* gradients add up */
    compare(&c, 3);
    c = (struct uw_model_config){.def = &sequence_net, .batch_n = BATCH, .input = true,
                                 .mode = UW_PLAN_IMMEDIATE};
    compare(&c, 4);
}

static void test_steps_in_parts_follow_the_reference(void **state)
{
    (void)state;
    struct uw_model_config c = {.def = &dense_net, .batch_n = BATCH, .micro_n = 4, .input = true,
                                .mode = UW_PLAN_FULL,
                                .optimizer = {.momentum = 0.9f, .clip_global = 1.0f}};
    compare(&c, 7);
    c = (struct uw_model_config){.def = &image_net, .batch_n = BATCH, .input = true,
                                 .mode = UW_PLAN_BUCKETS, .late_updates = true,
                                 .optimizer = {.kind = UW_OPTIMIZER_ADAM}};
    struct side gpu;
    open_side(&gpu, &c, true);
    close_side(&gpu);
}

static void test_steps_a_loss_that_is_not_finite_stops_them(void **state)
{
    (void)state;
    const struct uw_model_config c = {.def = &dense_net, .batch_n = BATCH, .input = true};
    struct side s;
    struct uw_step_result r;
    open_side(&s, &c, true);
    for (uint32_t step = 0; step < 3; step++) {
        begin(&s, step);
        assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_OK);
    }
    assert_int_equal(uw_model_pull(&s.m), UW_OK);
    uint64_t before = uw_hash64(UW_HASH64_START, s.m.params.x, s.m.params.size_n * sizeof(float));
    fill(&s.m, 3, BATCH);
    s.m.input[4] = NAN;
    assert_int_equal(uw_model_step_begin(&s.m, &(struct uw_minibatch){.n = BATCH}, &s.err), UW_OK);
    begin(&s, 4);
    assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_ERR_NONFINITE);
    assert_string_equal(s.err.text, "the input holds a NaN or an infinity");
    assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_ERR_NONFINITE);
    assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_ERR_INVALID);
    assert_int_equal(s.m.updates, 3);
    assert_int_equal(uw_model_pull(&s.m), UW_OK);
    assert_int_equal(uw_hash64(UW_HASH64_START, s.m.params.x, s.m.params.size_n * sizeof(float)),
                     before);
    begin(&s, 5);
    assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_OK);
    assert_int_equal(s.m.updates, 4);
    close_side(&s);
}

static void test_steps_a_spike_is_left_out(void **state)
{
    (void)state;
    const struct uw_model_config c = {.def = &image_net, .batch_n = BATCH, .input = true};
    struct side s;
    struct uw_step_result r;
    open_side(&s, &c, true);
    s.m.guard = (struct uw_spike_guard){.factor = 1e-3f, .seen = UW_SPIKE_WARMUP, .mean = 1.0};
    assert_int_equal(uw_model_steps_free(&s.m), 1);
    assert_int_equal(uw_model_pull(&s.m), UW_OK);
    float first = s.m.params.x[0];
    begin(&s, 0);
    assert_int_equal(uw_model_steps_free(&s.m), 0);
    assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_OK);
    assert_true(r.skipped && s.m.guard.skipped == 1 && s.m.updates == 0);
    assert_int_equal(uw_model_pull(&s.m), UW_OK);
    assert_true(s.m.params.x[0] == first);
    s.m.guard.factor = 1e3f;
    begin(&s, 1);
    assert_int_equal(uw_model_step_end(&s.m, &r, &s.err), UW_OK);
    assert_true(!r.skipped && s.m.updates == 1);
    close_side(&s);
}

#define UNEVEN 7u                       /* no sum of two powers of two: x / n * n is not always x */

/* A step that changes nothing. */
static double loss_unchanged(struct side *s, uint32_t seed, bool *skipped)
{
    struct uw_step_result r;
    fill(&s->m, seed, UNEVEN);
    s->m.optimizer.lr = 0.0f;
    const struct uw_minibatch b = {.n = UNEVEN};
    assert_int_equal(uw_model_step_begin(&s->m, &b, &s->err), UW_OK);
    assert_int_equal(uw_model_step_end(&s->m, &r, &s->err), UW_OK);
    *skipped = r.skipped;
    return r.loss;
}

/* The GPU compares the sum with n times the limit, which may round the other way than an n-th of
 * the sum: what it says holds. */
static void test_steps_a_spike_is_what_the_gpu_says(void **state)
{
    (void)state;
    const struct uw_model_config c = {.def = &image_net, .batch_n = UNEVEN, .input = true};
    struct side s;
    uint32_t stopped = 0;
    bool skipped;
    open_side(&s, &c, true);
    for (uint32_t seed = 0; seed < 60; seed++) {
        s.m.guard.factor = 0.0f;
        double loss = loss_unchanged(&s, seed, &skipped);
        s.m.guard.factor = 1.0f;
        s.m.guard.seen = UW_SPIKE_WARMUP;
        s.m.guard.mean = loss;
        assert_true(loss_unchanged(&s, seed, &skipped) == loss);
        stopped += skipped ? 1 : 0;
        assert_int_equal(s.m.guard.skipped, stopped);
        assert_true(s.m.guard.mean == loss);
    }
    assert_true(stopped > 0);
    close_side(&s);
}

static const struct uw_layer_def word_layers[] = {
    {.name = "e", .kind = UW_LAYER_EMBEDDING, .embedding = {.vocabulary = 10, .size = 3}},
    {.name = "flat", .kind = UW_LAYER_FLATTEN},
    {.name = "out", .kind = UW_LAYER_DENSE, .dense = {.out = 4}}};
static const struct uw_model_def word_net = {.name = "words", .in_channels = 4,
                                             .layers = word_layers, .layers_n = 3};

static int step_of_words(struct side *s, float last, struct uw_step_result *r)
{
    for (uint32_t i = 0; i < BATCH * s->m.input_n; i++) {
        s->m.input[i] = (float)(i % 10u);
    }
    s->m.input[BATCH * s->m.input_n - 1] = last;
    memset(s->m.label, 0, BATCH * sizeof *s->m.label);
    s->m.optimizer.lr = 0.1f;
    s->err.text[0] = '\0';
    int rc = uw_model_step_begin(&s->m, &(struct uw_minibatch){.n = BATCH}, &s->err);
    return rc < 0 ? rc : uw_model_step_end(&s->m, r, &s->err);
}

static void test_steps_a_bad_index_behind_a_spike_is_told(void **state)
{
    (void)state;
    const struct uw_model_config c = {.def = &word_net, .batch_n = BATCH, .input = true};
    struct side s;
    struct uw_step_result r;
    open_side(&s, &c, true);
    for (int i = 0; i < 6; i++) {       /* as it comes, recorded, played; in each place */
        s.m.guard = (struct uw_spike_guard){.factor = 1e-3f, .seen = UW_SPIKE_WARMUP, .mean = 1.0};
        assert_int_equal(step_of_words(&s, 1.0f, &r), UW_OK);
        assert_true(r.skipped);
        s.m.guard.factor = 1e3f;
        assert_true(step_of_words(&s, 10.0f, &r) < 0);
        assert_non_null(strstr(s.err.text, "layer 'e' (embedding): takes only whole numbers"));
        assert_int_equal(step_of_words(&s, 9.0f, &r), UW_OK);
        assert_false(r.skipped);
    }
    close_side(&s);
}

/* Halves what comes by, and counts. */
struct halver {
    struct side *s;
    uint32_t calls, floats;
};

static int halve(void *arg, uint32_t offset_n, uint32_t count_n, float *gradient)
{
    struct halver *h = arg;
    (void)offset_n;
    h->calls++;
    h->floats += count_n;
    for (uint32_t i = 0; i < count_n; i++) {
        gradient[i] *= 0.5f;
    }
    return UW_OK;
}

static int halve_late(void *arg, uint32_t bucket, uint32_t offset_n, uint32_t count_n,
                      float *gradient)
{
    (void)bucket;
    return halve(arg, offset_n, count_n, gradient);
}

static int wait_for_none(void *arg, uint32_t bucket)
{
    (void)arg;
    (void)bucket;
    return UW_OK;
}

static void check_handed_out(bool late)
{
    struct uw_model_config c = {.def = &image_net, .batch_n = BATCH, .input = true,
                                .mode = UW_PLAN_BUCKETS, .late_updates = late, .hand_out = true,
                                .optimizer = {.momentum = 0.9f}};
    struct side gpu, cpu;
    struct uw_step_result a, b;
    open_side(&gpu, &c, true);
    open_side(&cpu, &c, false);
    struct halver hg = {.s = &gpu}, hc = {.s = &cpu};
    struct side *const sides[] = {&gpu, &cpu};
    struct halver *const halvers[] = {&hg, &hc};
    for (int i = 0; i < 2; i++) {
        struct uw_model *m = &sides[i]->m;
        m->bucket = late ? NULL : halve;
        m->bucket_ready = late ? halve_late : NULL;
        m->bucket_wait = late ? wait_for_none : NULL;
        m->bucket_arg = halvers[i];
    }
    for (uint32_t step = 0; step < 5; step++) {
        begin(&gpu, step);
        begin(&cpu, step);
        assert_int_equal(uw_model_step_end(&gpu.m, &a, &gpu.err), UW_OK);
        assert_int_equal(uw_model_step_end(&cpu.m, &b, &cpu.err), UW_OK);
        assert_close(a.loss, b.loss);
    }
    assert_int_equal(uw_model_finish_updates(&gpu.m, &gpu.err), UW_OK);
    assert_int_equal(uw_model_finish_updates(&cpu.m, &cpu.err), UW_OK);
    assert_int_equal(hg.calls, hc.calls);
    assert_int_equal(hg.floats, 5 * gpu.m.trainable_n);
    compare_parameters(&gpu, &cpu);
    close_side(&gpu);
    close_side(&cpu);
}

static void test_steps_gradients_go_through_the_processor(void **state)
{
    (void)state;
    check_handed_out(false);
    check_handed_out(true);
}

/* n steps of both, one after the other; the same in the end. */
static void train_beside(struct side *gpu, struct side *cpu, uint32_t n)
{
    struct uw_step_result a, b;
    for (uint32_t step = 0; step < n; step++) {
        begin(gpu, step);
        begin(cpu, step);
        assert_int_equal(uw_model_step_end(&gpu->m, &a, &gpu->err), UW_OK);
        assert_int_equal(uw_model_step_end(&cpu->m, &b, &cpu->err), UW_OK);
        assert_close(a.loss, b.loss);
    }
    compare_parameters(gpu, cpu);
}

struct taker {
    struct side *s;
    bool refused;
};

/* Takes memory between layers, which no step that is being recorded allows. */
static void take_between(void *arg)
{
    struct taker *t = arg;
    struct uw_error err;
    void *at;
    t->refused = t->refused || uw_cuda_take(t->s->gpu, UW_CUDA_KERNELS, 4, &at, &err) < 0;
}

static void test_steps_that_cannot_be_recorded_run_all_the_same(void **state)
{
    (void)state;
    const struct uw_model_config c = {.def = &dense_net, .batch_n = BATCH, .input = true,
                                      .optimizer = {.momentum = 0.9f}};
    struct side gpu, cpu;
    open_side(&gpu, &c, true);
    open_side(&cpu, &c, false);
    struct taker t = {.s = &gpu};
    gpu.m.between = take_between;
    gpu.m.between_arg = &t;
    train_beside(&gpu, &cpu, 10);
    assert_true(t.refused);
    close_side(&gpu);
    close_side(&cpu);
}

static void test_steps_of_a_model_in_the_place_of_another(void **state)
{
    (void)state;
    struct uw_layer_def other_layers[4];
    memcpy(other_layers, dense_layers, sizeof other_layers);
    other_layers[1].kind = UW_LAYER_TANH;
    const struct uw_model_def other = {.name = "other", .in_channels = 11, .layers = other_layers,
                                       .layers_n = 4};
    struct uw_model_config c = {.def = &dense_net, .batch_n = BATCH, .input = true};
    struct side gpu, cpu;
    open_side(&gpu, &c, true);
    open_side(&cpu, &c, false);
    train_beside(&gpu, &cpu, 7);
    close_side(&cpu);
    c.def = gpu.config.def = &other;
    open_side(&cpu, &c, false);
    gpu.arena.used_bytes = gpu.kernel_arena.used_bytes = gpu.shared_arena.used_bytes = 0;
    assert_int_equal(uw_model_bind(&gpu.m, &gpu.config, &gpu.arena, &gpu.err), UW_OK);
    uw_model_init_weights(&gpu.m, 7);
    train_beside(&gpu, &cpu, 7);
    close_side(&gpu);
    close_side(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_follow_the_reference),
        cmocka_unit_test(test_steps_of_sequences_follow_the_reference),
        cmocka_unit_test(test_steps_in_parts_follow_the_reference),
        cmocka_unit_test(test_steps_a_loss_that_is_not_finite_stops_them),
        cmocka_unit_test(test_steps_a_spike_is_left_out),
        cmocka_unit_test(test_steps_a_spike_is_what_the_gpu_says),
        cmocka_unit_test(test_steps_a_bad_index_behind_a_spike_is_told),
        cmocka_unit_test(test_steps_gradients_go_through_the_processor),
        cmocka_unit_test(test_steps_that_cannot_be_recorded_run_all_the_same),
        cmocka_unit_test(test_steps_of_a_model_in_the_place_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
