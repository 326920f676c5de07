/* SPDX-License-Identifier: Apache-2.0
 *
 * Ten steps with every loss, target and optimizer go where PyTorch goes: the loss of each step and
 * the final weights, on every backend, in every plan mode that the optimizer allows, and with
 * micro-batches. */
#include "test_support.h"

#include "vectors.h"

#include "uwasa/backends.h"
#include "uwasa/model.h"

#define RELATIVE 1e-4
#define STEPS_MAX 16

struct net {
    struct uw_layer_def layers[4];
    struct uw_loss_def losses[2];
    struct uw_model_def def;
};

static float number(const struct vector_case *c, const char *key, uint32_t i)
{
    char text[VECTOR_NAME_BYTES];
    snprintf(text, sizeof text, "%s%u", key, (unsigned)i);
    return vector_real(c, text);
}

static void describe(struct net *n, const struct vector_case *c)
{
    const uint32_t outputs = vector_int(c, "outputs"), heads = vector_int(c, "heads");
    *n = (struct net){.layers = {
        {.kind = UW_LAYER_DENSE, .name = "d1", .dense = {.out = 8}},
        {.kind = UW_LAYER_RELU, .name = "r"},
        {.kind = UW_LAYER_DENSE, .name = "d2", .inputs = {"r"}, .dense = {.out = outputs}},
        {.kind = UW_LAYER_DENSE, .name = "d3", .inputs = {"r"}, .dense = {.out = outputs}}}};
    for (uint32_t i = 0; i < heads; i++) {
        n->losses[i] = (struct uw_loss_def){
            .layer = i == 0 ? "d2" : "d3", .kind = (enum uw_loss_kind)(int)number(c, "kind", i),
            .target = (enum uw_target_kind)(int)number(c, "target", i),
            .weight = number(c, "weight", i), .label_smoothing = number(c, "smoothing", i),
            .delta = number(c, "delta", i)};
    }
    n->def = (struct uw_model_def){.name = "net", .in_channels = 6, .layers = n->layers,
                                   .layers_n = 2 + heads, .losses = n->losses,
                                   .losses_n = heads};
}

static struct uw_optimizer optimizer_of(const struct vector_case *c)
{
    return (struct uw_optimizer){
        .kind = (enum uw_optimizer_kind)vector_int(c, "optimizer"), .lr = vector_real(c, "lr"),
        .weight_decay = vector_real(c, "weight_decay"), .momentum = vector_real(c, "momentum"),
        .nesterov = vector_int(c, "nesterov") != 0, .beta1 = vector_real(c, "beta1"),
        .beta2 = vector_real(c, "beta2"), .alpha = vector_real(c, "alpha"),
        .epsilon = vector_real(c, "epsilon"), .clip_tensor = vector_real(c, "clip_tensor"),
        .clip_global = vector_real(c, "clip_global")};
}

static float run_step(struct uw_model *m, const struct vector_case *c, uint32_t step)
{
    struct uw_error err = {.text = ""};
    struct uw_step_result result;
    uint32_t outputs = vector_int(c, "outputs"), batch_n = vector_int(c, "batch_n");
    size_t target_n = (size_t)batch_n * m->target_n;

    vector_fill(m->input, (size_t)batch_n * m->input_n, 1000 + step, 1);
    if (m->target != NULL) {
        vector_fill(m->target, target_n, 2000 + step, 1);
    }
    for (size_t i = 0; i < target_n; i++) {
        m->target[i] = (m->target[i] + 1.0f) * 0.5f;
    }
    for (uint32_t i = 0; i < batch_n; i++) {
        m->label[i] = (i * 7 + step) % outputs;
    }
    if (uw_model_train_step(m, &(struct uw_minibatch){.n = batch_n}, &result, &err) != UW_OK) {
        fail_msg("%s: %s", c->name, err.text);
    }
    return (float)result.loss;
}

/* False: this plan is refused for the optimizer. */
static bool train(const struct vector_case *c, const struct uw_kernels *k, enum uw_plan_mode mode,
                  uint32_t micro_n)
{
    struct net n;
    struct uw_model m;
    struct uw_model_need need;
    struct uw_arena arena;
    struct uw_error err = {.text = ""};
    float losses[STEPS_MAX];
    uint32_t steps_n = vector_int(c, "steps");

    describe(&n, c);
    size_t bytes = UW_MODEL_WORKSPACE_BYTES(n.def.layers_n);
    void *workspace = uw_test_block(bytes);
    const struct uw_model_config config = {
        .def = &n.def, .kernels = k, .mode = mode, .batch_n = vector_int(c, "batch_n"),
        .micro_n = micro_n, .optimizer = optimizer_of(c), .input = true, .bucket_n = 50,
        .workspace = workspace, .workspace_bytes = bytes};
    if (uw_model_measure(&config, &need, &err) != UW_OK) {
        uw_test_release(workspace);
        return false;
    }
    void *memory = uw_test_block(need.total_bytes);
    uw_arena_init(&arena, memory, need.total_bytes);
    assert_int_equal(uw_model_bind(&m, &config, &arena, &err), UW_OK);
    for (uint32_t i = 0; i < m.params.segments_n; i++) {
        const struct uw_segment *s = &m.params.segments[i];
        vector_fill(m.params.x + s->offset_n, s->size_n, 100 + i, 0.5f);
    }
    assert_in_range(steps_n, 10, STEPS_MAX);
    for (uint32_t step = 0; step < steps_n; step++) {
        losses[step] = run_step(&m, c, step);
    }
    vector_expect(c, "losses", k->name, losses, RELATIVE);
    assert_int_equal(m.params.segments_n + 1, c->outs_n);
    for (uint32_t i = 0; i < m.params.segments_n; i++) {
        const struct uw_segment *s = &m.params.segments[i];
        vector_expect(c, s->name, k->name, m.params.x + s->offset_n, RELATIVE);
    }
    uw_test_release(memory);
    uw_test_release(workspace);
    return true;
}

static void each_plan(const struct vector_case *c, const struct uw_kernels *k)
{
    const struct uw_optimizer o = optimizer_of(c);
    bool sums = o.kind == UW_OPTIMIZER_SGD && o.clip_tensor == 0.0f && o.clip_global == 0.0f &&
                o.momentum != 0.0f && !o.nesterov;

    for (uint32_t micro_n = 0; micro_n <= 3; micro_n++) {
        assert_true(train(c, k, UW_PLAN_FULL, micro_n));
        assert_true(train(c, k, UW_PLAN_IMMEDIATE, micro_n) ==
                    (o.clip_global == 0.0f && (micro_n == 0 || sums)));
        assert_true(train(c, k, UW_PLAN_BUCKETS, micro_n) ==
                    (o.clip_global == 0.0f && micro_n == 0));
    }
}

static void each_case(const char *prefix, unsigned cases_n)
{
    struct vectors v;
    struct vector_case c = {.numbers_n = 0};
    unsigned seen_n = 0;
    vectors_open(&v, "training.txt");
    while (vectors_next(&v, "training", &c)) {
        if (strncmp(c.name, prefix, strlen(prefix)) != 0) {
            continue;
        }
        for (uint32_t i = 0; uw_kernels_at(i) != NULL; i++) {
            each_plan(&c, uw_kernels_at(i));
        }
        seen_n++;
    }
    vectors_close(&v);
    assert_int_equal(seen_n, cases_n);
}

static void test_losses_every_target_and_weight_match_pytorch(void **state)
{
    (void)state;
    each_case("loss:", 18);
}

static void test_optimizers_and_clipping_match_pytorch(void **state)
{
    (void)state;
    each_case("optimizer:", 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_every_target_and_weight_match_pytorch),
        cmocka_unit_test(test_optimizers_and_clipping_match_pytorch),
    };
    return cmocka_run_group_tests_name("parity_training", tests, NULL, NULL);
}
