/* SPDX-License-Identifier: Apache-2.0
 *
 * A network with batch norm and dropout: stopped, saved, loaded into a fresh model and continued,
 * and with any number of worker threads, it ends at the same bits. */
#include "test_support.h"

#include "memory_storage.h"
#include "model_fixture.h"

#include "uwasa/checkpoint.h"

#define BATCH_N 6u
#define CLASSES 5u
#define STEPS 8u

static const struct uw_layer_def layers[] = {
    CONV("a", 40, 3, 1, 1),
    {.kind = UW_LAYER_BATCHNORM, .name = "norm"},
    RELU("r"),
    {.kind = UW_LAYER_DROPOUT, .name = "drop", .dropout = {.rate = 0.3f}},
    CONV("b", 4, 3, 2, 1),
    {.kind = UW_LAYER_GROUPNORM, .name = "group", .norm = {.groups = 2}},
    {.kind = UW_LAYER_SILU, .name = "silu"},
    {.kind = UW_LAYER_LRN, .name = "lrn", .lrn = {.size = 3}},
    {.kind = UW_LAYER_DROPOUT, .name = "drop2", .dropout = {.rate = 0.5f}},
    FLATTEN("f"),
    DENSE("d", CLASSES),
};
static const struct uw_model_def def = {"resume", 2, 16, 18, layers,
                                        sizeof layers / sizeof layers[0]};

/* Layers that divide their samples over the threads. */
static const struct uw_layer_def sequence[] = {
    {.kind = UW_LAYER_ATTENTION, .name = "attention", .attention = {.heads = 2}},
    {.kind = UW_LAYER_LSTM, .name = "lstm", .recurrent = {.hidden = 200}},
    {.kind = UW_LAYER_GRU, .name = "gru", .recurrent = {.hidden = 9, .reverse = true}},
    {.kind = UW_LAYER_RNN, .name = "rnn", .recurrent = {.hidden = 7}},
    {.kind = UW_LAYER_MATMUL, .name = "square", .inputs = {"rnn", "rnn"},
     .matmul = {.trans_b = true}},
    FLATTEN("f"),
    DENSE("d", CLASSES),
};
static const struct uw_model_def sequence_def = {"sequence", 6, 0, 12, sequence,
                                                 sizeof sequence / sizeof sequence[0]};

static void run_scrambled(struct uw_workers *w, uw_task_fn fn, void *arg, uint32_t tasks_n)
{
    for (uint32_t i = tasks_n; i-- > 0;) {
        fn(arg, i, (i * 7u + 1u) % w->threads);
    }
}

static const struct uw_workers_ops scrambled = {.name = "scrambled", .run = run_scrambled};

static void open_trained_of(struct fixture *f, const struct uw_model_def *of,
                            const struct uw_kernels *k, struct uw_workers *w,
                            enum uw_optimizer_kind kind)
{
    *f = (struct fixture){.config = {.def = of, .kernels = k, .workers = w, .batch_n = BATCH_N,
                                     .mode = UW_PLAN_FULL,
                                     .optimizer = {.kind = kind, .lr = 0.01f, .momentum =
                                         kind == UW_OPTIMIZER_SGD ? 0.9f : 0.0f}}};
    assert_int_equal(open_config(f), UW_OK);
    uw_model_init_weights(&f->m, 5);
}

static void open_trained(struct fixture *f, const struct uw_kernels *k, struct uw_workers *w,
                         enum uw_optimizer_kind kind)
{
    open_trained_of(f, &def, k, w, kind);
}

/* Steps first .. last-1, each on its own data. */
static void train(struct fixture *f, uint32_t first, uint32_t last)
{
    struct uw_step_result result;
    uint32_t label[BATCH_N];
    float *x = uw_test_floats((size_t)BATCH_N * f->m.input_n);

    for (uint32_t step = first; step < last; step++) {
        struct uw_rng r;
        uw_rng_seed(&r, step);
        random_batch(&r, &f->m, BATCH_N, x, label);
        int rc = uw_model_train_step(&f->m, &(struct uw_minibatch){.x = x, .label = label,
                                     .n = BATCH_N}, &result, &f->err);
        if (rc != UW_OK) {
            fail_msg("%s", f->err.text);
        }
    }
    uw_test_release(x);
}

static void test_resume_with_dropout_and_batchnorm_is_bit_for_bit(void **state)
{
    (void)state;
    static const enum uw_optimizer_kind kinds[] = {UW_OPTIMIZER_SGD, UW_OPTIMIZER_ADAM,
                                                   UW_OPTIMIZER_ADAMW, UW_OPTIMIZER_RMSPROP};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct memory_storage storage = {.base = {&memory_storage_ops}};
        const struct uw_checkpoint saved = {.step = STEPS / 2};
        struct uw_checkpoint loaded;
        struct fixture whole, first, second;
        open_trained(&whole, &uw_kernels_ref, NULL, kinds[i]);
        train(&whole, 0, STEPS);
        open_trained(&first, &uw_kernels_ref, NULL, kinds[i]);
        train(&first, 0, STEPS / 2);
        assert_int_equal(uw_checkpoint_save(&first.m, &saved, &storage.base, "c", &first.err),
                         UW_OK);
        open_trained(&second, &uw_kernels_ref, NULL, kinds[i]);
        uw_model_init_weights(&second.m, 77); /* another seed, which the checkpoint replaces */
        assert_int_equal(uw_checkpoint_load(&second.m, &loaded, &storage.base, "c", &second.err),
                         UW_OK);
        train(&second, STEPS / 2, STEPS);
        size_t bytes = whole.m.params.size_n * sizeof(float);
        assert_memory_equal(whole.m.params.x, second.m.params.x, bytes);
        assert_true(memcmp(whole.m.params.x, first.m.params.x, bytes) != 0);
        memory_storage_release(&storage);
        close_model(&second);
        close_model(&first);
        close_model(&whole);
    }
}

/* After three steps: the weights, and what the model then says. */
static void check_threads(const struct uw_model_def *of, const struct uw_kernels *k)
{
    float *x = uw_test_floats((size_t)BATCH_N * 1024), *said = NULL;
    float *weights = NULL;
    static const uint32_t counts[] = {1, 2, 3, 13};  /* 13: more than twice the samples */
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t threads = counts[i];
        struct uw_workers pool = {.ops = &scrambled, .threads = threads};
        struct fixture f, asked;
        const float *y;
        open_trained_of(&f, of, k, threads > 1 ? &pool : NULL, UW_OPTIMIZER_SGD);
        train(&f, 0, 3);
        asked = (struct fixture){.config = f.config};
        asked.config.mode = UW_PLAN_INFERENCE;
        assert_int_equal(open_config(&asked), UW_OK);
        size_t n = f.m.params.size_n, out_n = (size_t)BATCH_N * CLASSES;
        memcpy(asked.m.params.x, f.m.params.x, n * sizeof(float));
        assert_int_equal(uw_model_forward(&asked.m, x, BATCH_N, &y), UW_OK);
        if (weights == NULL) {
            weights = uw_test_floats(n);
            said = uw_test_floats(out_n);
            memcpy(weights, f.m.params.x, n * sizeof(float));
            memcpy(said, y, out_n * sizeof(float));
        }
        assert_memory_equal(weights, f.m.params.x, n * sizeof(float));
        assert_memory_equal(said, y, out_n * sizeof(float));
        close_model(&asked);
        close_model(&f);
    }
    uw_test_release(said);
    uw_test_release(weights);
    uw_test_release(x);
}

static void test_resume_any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t k = 0; uw_kernels_at(k) != NULL; k++) {
        check_threads(&def, uw_kernels_at(k));
        check_threads(&sequence_def, uw_kernels_at(k));
    }
}

/* Inference is the same whatever the rates are. */
static void test_resume_inference_has_no_dropout(void **state)
{
    (void)state;
    struct uw_layer_def undropped[sizeof layers / sizeof layers[0]];
    struct uw_model_def other = def;
    struct fixture a, b;
    const float *here, *there;

    memcpy(undropped, layers, sizeof layers);
    undropped[3].dropout.rate = 0.0f;
    undropped[8].dropout.rate = 0.0f;
    other.layers = undropped;
    open_trained(&a, &uw_kernels_ref, NULL, UW_OPTIMIZER_SGD);
    train(&a, 0, 1);
    assert_int_equal(open_model(&b, &other, 2, UW_PLAN_INFERENCE, false), UW_OK);
    memcpy(b.m.params.x, a.m.params.x, a.m.params.size_n * sizeof(float));
    float *x = uw_test_floats((size_t)2 * a.m.input_n);
    for (size_t i = 0; i < (size_t)2 * a.m.input_n; i++) {
        x[i] = (float)(i % 7) - 3.0f;
    }
    assert_int_equal(uw_model_forward(&a.m, x, 2, &here), UW_OK);
    assert_int_equal(uw_model_forward(&b.m, x, 2, &there), UW_OK);
    assert_memory_equal(here, there, 10 * sizeof(float));
    uw_test_release(x);
    close_model(&b);
    close_model(&a);
}

/* Evaluation uses running statistics and no dropout, and changes nothing. */
static void test_resume_evaluation_between_steps_changes_nothing(void **state)
{
    (void)state;
    struct fixture plain, watched;
    uint32_t label[BATCH_N] = {0};
    float first[5], again[5];
    const float *logits;

    open_trained(&plain, &uw_kernels_ref, NULL, UW_OPTIMIZER_SGD);
    open_trained(&watched, &uw_kernels_ref, NULL, UW_OPTIMIZER_SGD);
    float *x = uw_test_floats((size_t)BATCH_N * plain.m.input_n);
    struct uw_rng r;
    uw_rng_seed(&r, uw_test_seed(9));
    random_batch(&r, &plain.m, BATCH_N, x, label);
    train(&plain, 0, 2);
    train(&watched, 0, 1);
    assert_int_equal(uw_model_forward(&watched.m, x, 1, &logits), UW_OK);
    memcpy(first, logits, sizeof first);
    assert_int_equal(uw_model_forward(&watched.m, x, BATCH_N, &logits), UW_OK);
    memcpy(again, logits, sizeof again);
    for (size_t i = 0; i < 5; i++) { /* the other samples do not matter */
        assert_true(fabsf(first[i] - again[i]) <= 1e-5f * (1.0f + fabsf(first[i])));
    }
    train(&watched, 1, 2);
    assert_memory_equal(plain.m.params.x, watched.m.params.x,
                        plain.m.params.size_n * sizeof(float));
    uw_test_release(x);
    close_model(&watched);
    close_model(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume_with_dropout_and_batchnorm_is_bit_for_bit),
        cmocka_unit_test(test_resume_any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(test_resume_inference_has_no_dropout),
        cmocka_unit_test(test_resume_evaluation_between_steps_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
