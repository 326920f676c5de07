/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses have the gradients of central differences in double; a run that is saved and resumed ends
 * in the bits of the one that went on, with every optimizer. */
#include "test_support.h"

#include "gradient_check.h"
#include "memory_storage.h"

#include "uwasa/checkpoint.h"

static const struct uw_layer_def two_heads[] = {
    DENSE("d1", 7), RELU("r"), DENSE("d2", 5),
    {.kind = UW_LAYER_DENSE, .name = "d3", .inputs = {"r"}, .dense = {.out = 5}}};

static void check_losses(const char *name, const struct uw_loss_def *losses, uint32_t losses_n)
{
    const struct uw_model_def def = {.name = name, .in_channels = 5, .layers = two_heads,
                                     .layers_n = 2 + losses_n, .losses = losses,
                                     .losses_n = losses_n};
    for (uint32_t n = 1; n <= 3; n += 2) {
        check_gradients(&def, n, uw_test_seed(91) + n);
    }
}

static void test_gradient_every_loss_and_target_match_central_differences(void **state)
{
    (void)state;
    for (int kind = UW_LOSS_CROSS_ENTROPY; kind <= UW_LOSS_HUBER; kind++) {
        for (int way = 0; way < 6; way++) {
            char name[48];
            const struct uw_loss_def loss = {
                .kind = (enum uw_loss_kind)kind,
                .target = kind == UW_LOSS_CROSS_ENTROPY ? UW_TARGET_LABEL
                                                        : (enum uw_target_kind)(way % 3),
                .weight = way < 3 ? 0.0f : 0.7f,
                .label_smoothing = kind == UW_LOSS_CROSS_ENTROPY ? 0.15f * (float)(way % 3) : 0.0f,
                .delta = way < 3 ? 0.0f : 0.3f};
            snprintf(name, sizeof name, "loss %d, way %d", kind, way);
            check_losses(name, &loss, 1);
        }
    }
}

static void test_gradient_two_losses_match_central_differences(void **state)
{
    (void)state;
    for (int kind = UW_LOSS_CROSS_ENTROPY; kind <= UW_LOSS_HUBER; kind++) {
        const struct uw_loss_def losses[] = {
            {.layer = "d2", .label_smoothing = 0.1f},
            {.layer = "d3", .kind = (enum uw_loss_kind)kind, .weight = 0.3f,
             .target = kind == UW_LOSS_CROSS_ENTROPY ? UW_TARGET_LABEL : UW_TARGET_VALUES}};
        check_losses("two heads", losses, 2);
    }
}

/* Only the last layer is trained: nothing goes back from the other head, whose loss counts. */
static void test_gradient_beside_a_head_that_is_not_trained(void **state)
{
    (void)state;
    const struct uw_layer_def wide[] = {
        DENSE("d1", 7), RELU("r"), DENSE("d2", 11),
        {.kind = UW_LAYER_DENSE, .name = "d3", .inputs = {"r"}, .dense = {.out = 3}}};
    for (int kind = UW_LOSS_CROSS_ENTROPY; kind <= UW_LOSS_MSE; kind++) {
        const struct uw_loss_def losses[] = {
            {.layer = "d3"}, {.layer = "d2", .kind = (enum uw_loss_kind)kind, .weight = 0.3f}};
        const struct uw_model_def def = {.name = "beside", .in_channels = 5, .layers = wide,
                                         .layers_n = 4, .losses = losses, .losses_n = 2};
        const struct uw_model_config config = {.def = &def, .kernels = &uw_kernels_ref,
                                               .adapt = {.last_n = 1}};
        check_gradients_with(&config, 3, uw_test_seed(94));
    }
}

/* A sequence's every step has a target. */
static void test_gradient_of_losses_on_sequences(void **state)
{
    (void)state;
    const struct uw_loss_def loss = {.kind = UW_LOSS_MSE, .target = UW_TARGET_INPUT};
    const struct uw_model_def def = {
        .name = "autoencoder", .in_channels = 4, .in_w = 3,
        .layers = LAYERS({.kind = UW_LAYER_LSTM, .name = "l", .recurrent = {.hidden = 3}}),
        .layers_n = 1, .losses = &loss, .losses_n = 1};
    check_gradients(&def, 3, uw_test_seed(93));
}

static void test_gradient_of_a_class_for_each_position(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        const struct uw_loss_def loss = {.target = UW_TARGET_VALUES, .classes_last = way % 2 != 0,
                                         .label_smoothing = way < 2 ? 0.0f : 0.2f,
                                         .weight = way < 2 ? 0.0f : 0.7f};
        const struct uw_model_def tokens = {
            .name = "tokens", .in_channels = 4, .in_w = 3,
            .layers = LAYERS({.kind = UW_LAYER_LSTM, .name = "l", .recurrent = {.hidden = 5}}),
            .layers_n = 1, .losses = &loss, .losses_n = 1};
        const struct uw_model_def pixels = {
            .name = "pixels", .in_channels = 2, .in_h = 4, .in_w = 3,
            .layers = LAYERS(CONV("c", 3, 3, 1, 1)),
            .layers_n = 1, .losses = &loss, .losses_n = 1};
        check_gradients(&tokens, 3, uw_test_seed(95));
        check_gradients(&pixels, 2, uw_test_seed(96));
    }
}

/* A class from the label, another from the values, and two values behind it. */
static void test_gradient_of_heads_with_values_of_their_own(void **state)
{
    (void)state;
    const struct uw_loss_def losses[] = {
        {.layer = "d2"},
        {.layer = "d3", .target = UW_TARGET_VALUES, .weight = 0.5f},
        {.layer = "d4", .kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES, .first = 1},
        {.layer = "d5", .kind = UW_LOSS_HUBER, .target = UW_TARGET_VALUES, .first = 1}};
    const struct uw_model_def def = {
        .name = "heads", .in_channels = 5,
        .layers = LAYERS(DENSE("d1", 7), RELU("r"), DENSE("d2", 4),
                         {.kind = UW_LAYER_DENSE, .name = "d3", .inputs = {"r"},
                          .dense = {.out = 3}},
                         {.kind = UW_LAYER_DENSE, .name = "d4", .inputs = {"r"},
                          .dense = {.out = 2}},
                         {.kind = UW_LAYER_DENSE, .name = "d5", .inputs = {"r"},
                          .dense = {.out = 2}}),
        .layers_n = 6, .losses = losses, .losses_n = 4};
    check_gradients(&def, 3, uw_test_seed(97));
}

static void expect_step(struct fixture *f, float value, const char *sentence)
{
    const float x[5] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
    struct uw_step_result result;
    const struct uw_minibatch b = {.x = x, .target = &value, .n = 1};
    int rc = uw_model_train_step(&f->m, &b, &result, &f->err);
    assert_int_equal(rc, sentence == NULL ? UW_OK : UW_ERR_INVALID);
    if (sentence != NULL) {
        assert_non_null(strstr(f->err.text, sentence));
    }
}

static void test_values_that_are_no_class_are_refused(void **state)
{
    (void)state;
    const struct uw_loss_def loss = {.target = UW_TARGET_VALUES};
    const struct uw_model_def def = {.name = "net", .in_channels = 5, .layers = two_heads,
                                     .layers_n = 3, .losses = &loss, .losses_n = 1};
    struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 1}};
    assert_int_equal(open_config(&f), UW_OK);
    expect_step(&f, 4.0f, NULL);
    expect_step(&f, -100.0f, NULL);
    expect_step(&f, 5.0f, "is 5: it is a class, from 0 to 4");
    expect_step(&f, 1.5f, "is 1.5");
    expect_step(&f, NAN, "is nan");
    close_model(&f);
}

static void test_values_of_two_losses_that_overlap_in_part_are_refused(void **state)
{
    (void)state;
    const struct uw_loss_def losses[] = {
        {.layer = "d2", .kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES},
        {.layer = "d3", .kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES, .first = 4}};
    const struct uw_model_def def = {.name = "net", .in_channels = 5, .layers = two_heads,
                                     .layers_n = 4, .losses = losses, .losses_n = 2};
    struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 1}};
    assert_int_equal(open_config(&f), UW_ERR_SHAPE);
    assert_non_null(strstr(f.err.text, "another loss has 5 target values from 0 on"));
    close_model(&f);
}

static void train(struct fixture *f, uint32_t first, uint32_t steps)
{
    struct uw_step_result result;
    uint32_t label[3];
    float x[3 * 5];

    for (uint32_t step = first; step < first + steps; step++) {
        struct uw_rng r;
        uw_rng_seed(&r, step);
        random_batch(&r, &f->m, 3, x, label);
        const struct uw_minibatch b = {.x = x, .label = label, .n = 3};
        if (uw_model_train_step(&f->m, &b, &result, &f->err) != UW_OK) {
            fail_msg("%s", f->err.text);
        }
    }
}

static void check_resume(const struct uw_optimizer *o, enum uw_plan_mode mode)
{
    const struct uw_model_def def = {.name = "net", .in_channels = 5, .layers = two_heads,
                                     .layers_n = 3};
    const struct uw_checkpoint at = {.step = 6, .batch_n = 3};
    struct memory_storage storage = {.base = {&memory_storage_ops}};
    struct uw_checkpoint loaded;
    struct fixture f[2];

    for (int i = 0; i < 2; i++) {
        f[i] = (struct fixture){.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 3,
                                           .mode = mode, .optimizer = *o}};
        assert_int_equal(open_config(&f[i]), UW_OK);
        uw_model_init_weights(&f[i].m, 5 + (uint64_t)i);
    }
    train(&f[0], 0, 6);
    assert_int_equal(uw_checkpoint_save(&f[0].m, &at, &storage.base, "c", &f[0].err), UW_OK);
    train(&f[0], 6, 6);
    if (uw_checkpoint_load(&f[1].m, &loaded, &storage.base, "c", &f[1].err) != UW_OK) {
        fail_msg("%s", f[1].err.text);
    }
    train(&f[1], 6, 6);
    assert_memory_equal(f[0].m.params.x, f[1].m.params.x, f[0].m.params.size_n * sizeof(float));
    for (uint32_t v = 0; v < uw_optimizer_vectors(o); v++) {
        assert_memory_equal(f[0].m.state[v], f[1].m.state[v],
                            f[0].m.trainable_n * sizeof(float));
    }
    assert_true(f[0].m.updates == f[1].m.updates);
    memory_storage_release(&storage);
    close_model(&f[0]);
    close_model(&f[1]);
}

static void test_resume_is_bit_for_bit_with_every_optimizer_and_plan(void **state)
{
    (void)state;
    const struct uw_optimizer optimizers[] = {
        {.lr = 0.1f},
        {.lr = 0.1f, .weight_decay = 0.01f},
        {.lr = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f},
        {.lr = 0.05f, .momentum = 0.9f, .nesterov = true},
        {.kind = UW_OPTIMIZER_ADAM, .lr = 0.02f, .weight_decay = 0.01f},
        {.kind = UW_OPTIMIZER_ADAMW, .lr = 0.02f, .weight_decay = 0.1f},
        {.kind = UW_OPTIMIZER_RMSPROP, .lr = 0.01f},
        {.kind = UW_OPTIMIZER_RMSPROP, .lr = 0.01f, .momentum = 0.9f, .weight_decay = 0.01f},
        {.kind = UW_OPTIMIZER_ADAM, .lr = 0.02f, .clip_tensor = 0.1f},
        {.lr = 0.1f, .momentum = 0.9f, .clip_tensor = 0.1f},
        {.lr = 0.1f, .momentum = 0.9f, .clip_global = 0.1f},
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        check_resume(&optimizers[i], UW_PLAN_FULL);
        if (optimizers[i].clip_global == 0.0f) {
            check_resume(&optimizers[i], UW_PLAN_IMMEDIATE);
            check_resume(&optimizers[i], UW_PLAN_BUCKETS);
        }
    }
}

/* What the spike guard leaves out is as if it had never been: Adam's correction counts updates. */
static void test_spike_left_out_leaves_no_trace(void **state)
{
    (void)state;
    const struct uw_model_def def = {.name = "net", .in_channels = 5, .layers = two_heads,
                                     .layers_n = 3};
    float far[3 * 5];
    struct fixture f[2];

    for (size_t i = 0; i < 3 * 5; i++) {
        far[i] = 1e4f * (float)(i % 7);
    }
    for (int i = 0; i < 2; i++) {
        f[i] = (struct fixture){.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 3,
                                           .optimizer = {.kind = UW_OPTIMIZER_ADAM,
                                                         .lr = 0.001f}}};
        assert_int_equal(open_config(&f[i]), UW_OK);
        uw_model_init_weights(&f[i].m, 5);
        f[i].m.guard.factor = 10.0f;
        train(&f[i], 0, UW_SPIKE_WARMUP);
    }
    const struct uw_minibatch spike = {.x = far, .label = (const uint32_t[]){0, 1, 2}, .n = 3};
    struct uw_step_result result;
    assert_int_equal(uw_model_train_step(&f[0].m, &spike, &result, &f[0].err), UW_OK);
    assert_true(result.skipped);
    for (int i = 0; i < 2; i++) {
        train(&f[i], UW_SPIKE_WARMUP, 3);
    }
    assert_int_equal(f[0].m.guard.skipped, 1);
    assert_memory_equal(f[0].m.params.x, f[1].m.params.x, f[0].m.params.size_n * sizeof(float));
    close_model(&f[0]);
    close_model(&f[1]);
}

static const struct uw_layer_def one_dense[] = {DENSE("d", 3)};
static const float five_x[5][2] = {{0.5f, -1.0f}, {1.5f, 0.25f}, {-0.75f, 2.0f}, {0.1f, 0.2f},
                                   {-1.0f, -0.5f}};
static const uint32_t five_labels[5] = {0, 2, 1, 2, 2};
static const float three_weights[3] = {2.0f, 0.5f, 1.25f};

/* PyTorch 1.13: three steps of SGD, lr 0.5, with cross_entropy(z, y, weight=w), mean reduction. */
static void test_class_weights_are_those_of_pytorch(void **state)
{
    (void)state;
    static const float start[9] = {0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f, 0.05f, -0.1f, 0.2f};
    static const double losses[3] = {0.994576693, 0.878274202, 0.792568207};
    static const float wants[9] = {0.149458885f, -0.427009434f, 0.0451179445f, 0.669154108f,
                                   -0.294576824f, 0.557855308f, -0.0298710186f, -0.357987046f,
                                   0.537858129f};
    static const struct uw_model_def def = {"weighted", 2, 0, 0, one_dense, 1, NULL, 0};
    static const enum uw_plan_mode modes[] = {UW_PLAN_IMMEDIATE, UW_PLAN_BUCKETS, UW_PLAN_FULL,
                                              UW_PLAN_FULL};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 5,
                                       .micro_n = i == 3 ? 2 : 0, .mode = modes[i],
                                       .optimizer = {.lr = 0.5f}}};
        assert_int_equal(open_config(&f), UW_OK);
        memcpy(f.m.params.x, start, sizeof start);
        f.m.class_weights = three_weights;
        for (int step = 0; step < 3; step++) {
            struct uw_step_result r;
            const struct uw_minibatch b = {.x = &five_x[0][0], .label = five_labels, .n = 5};
            assert_int_equal(uw_model_train_step(&f.m, &b, &r, &f.err), UW_OK);
            if (!(fabs(r.loss - losses[step]) < 1e-6)) {
                fail_msg("mode %zu, step %d: loss %.9g", i, step, r.loss);
            }
        }
        for (uint32_t k = 0; k < 9; k++) {
            if (!(fabsf(f.m.params.x[k] - wants[k]) < 1e-6f)) {
                fail_msg("mode %zu: parameter %u is %.9g", i, (unsigned)k,
                         (double)f.m.params.x[k]);
            }
        }
        close_model(&f);
    }
}

/* Two classes by one output, as by two whose first is 0: the loss and its gradient are those of
 * sum of w loss / sum of w. */
static void test_class_weights_of_one_binary_output_are_a_weighted_mean(void **state)
{
    (void)state;
    static const struct uw_layer_def one[] = {DENSE("d", 1)};
    static const struct uw_loss_def binary = {.kind = UW_LOSS_BINARY_CROSS_ENTROPY,
                                              .target = UW_TARGET_VALUES};
    static const struct uw_model_def def = {"binary", 2, 0, 0, one, 1, &binary, 1};
    static const float start[3] = {0.3f, -0.6f, 0.1f}, weights[2] = {0.625f, 2.5f};
    static const float targets[5] = {0.0f, 1.0f, 0.0f, 0.0f, 0.0f};
    static const enum uw_plan_mode modes[] = {UW_PLAN_IMMEDIATE, UW_PLAN_FULL, UW_PLAN_FULL};
    double sum = 0.0, all = 0.0, gradient[3] = {0.0, 0.0, 0.0};
    for (int i = 0; i < 5; i++) {
        double z = 0.1 + 0.3 * (double)five_x[i][0] - 0.6 * (double)five_x[i][1];
        double p = 1.0 / (1.0 + exp(-z)), w = (double)weights[targets[i] != 0.0f ? 1 : 0];
        sum -= w * log(targets[i] != 0.0f ? p : 1.0 - p);
        all += w;
        for (int k = 0; k < 3; k++) {
            gradient[k] += w * (p - (double)targets[i]) * (k < 2 ? (double)five_x[i][k] : 1.0);
        }
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct fixture f = {.config = {.def = &def, .kernels = &uw_kernels_ref, .batch_n = 5,
                                       .micro_n = i == 2 ? 2 : 0, .mode = modes[i],
                                       .optimizer = {.lr = 0.5f}}};
        const struct uw_minibatch b = {.x = &five_x[0][0], .target = targets, .n = 5};
        struct uw_step_result r;
        assert_int_equal(open_config(&f), UW_OK);
        memcpy(f.m.params.x, start, sizeof start);
        f.m.class_weights = weights;
        assert_int_equal(uw_model_train_step(&f.m, &b, &r, &f.err), UW_OK);
        assert_true(fabs(r.loss - sum / all) < 1e-6);
        for (int k = 0; k < 3; k++) {
            assert_true(fabs((double)f.m.params.x[k] - (double)start[k] +
                             0.5 * gradient[k] / all) < 1e-6);
        }
        close_model(&f);
    }
}

static void test_class_weights_of_one_change_nothing_and_others_need_cross_entropy(void **state)
{
    (void)state;
    static const struct uw_loss_def mse = {.kind = UW_LOSS_MSE};
    static const struct uw_loss_def smooth = {.label_smoothing = 0.1f};
    static const float ones[3] = {1.0f, 1.0f, 1.0f};
    const struct uw_minibatch b = {.x = &five_x[0][0], .label = five_labels, .n = 5};
    const struct uw_loss_def *losses[] = {NULL, &mse, &smooth};
    for (int i = 0; i < 3; i++) {
        const struct uw_model_def def = {"ones", 2, 0, 0, one_dense, 1, losses[i], i > 0};
        double loss[2] = {0.0, 0.0};
        for (int weighted = 0; weighted < 2; weighted++) {
            struct fixture f;
            struct uw_step_result r = {.loss = 0.0};
            open_model(&f, &def, 5, UW_PLAN_FULL, false);
            uw_model_init_weights(&f.m, 3);
            f.m.class_weights = weighted != 0 ? ones : NULL;
            int rc = uw_model_train_step(&f.m, &b, &r, &f.err);
            assert_int_equal(rc, weighted != 0 && i > 0 ? UW_ERR_UNSUPPORTED : UW_OK);
            assert_true(rc == UW_OK || strstr(f.err.text, "class weights") != NULL);
            loss[weighted] = r.loss;
            double sum[2] = {0.0, 0.0};
            for (int again = 0; again < 2; again++) {       /* a test does not weigh */
                uint32_t correct_n = 0;
                f.m.class_weights = i == 0 && again != 0 ? three_weights : NULL;
                assert_int_equal(uw_model_evaluate(&f.m, &b, &sum[again], &correct_n), UW_OK);
            }
            assert_true(sum[0] == sum[1]);
            close_model(&f);
        }
        assert_true(i > 0 || fabs(loss[0] - loss[1]) < 1e-7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradient_every_loss_and_target_match_central_differences),
        cmocka_unit_test(test_gradient_two_losses_match_central_differences),
        cmocka_unit_test(test_gradient_beside_a_head_that_is_not_trained),
        cmocka_unit_test(test_gradient_of_losses_on_sequences),
        cmocka_unit_test(test_gradient_of_a_class_for_each_position),
        cmocka_unit_test(test_gradient_of_heads_with_values_of_their_own),
        cmocka_unit_test(test_values_that_are_no_class_are_refused),
        cmocka_unit_test(test_values_of_two_losses_that_overlap_in_part_are_refused),
        cmocka_unit_test(test_resume_is_bit_for_bit_with_every_optimizer_and_plan),
        cmocka_unit_test(test_spike_left_out_leaves_no_trace),
        cmocka_unit_test(test_class_weights_are_those_of_pytorch),
        cmocka_unit_test(test_class_weights_of_one_binary_output_are_a_weighted_mean),
        cmocka_unit_test(test_class_weights_of_one_change_nothing_and_others_need_cross_entropy),
    };
    return cmocka_run_group_tests_name("training", tests, NULL, NULL);
}
