/* SPDX-License-Identifier: Apache-2.0
 *
 * One model that is pointed at several replicas in turns does to each of them what a model of its
 * own does, bit for bit, wherever their vectors lie. */
#include "test_support.h"

#include "model_fixture.h"

#include "uwasa/bucket.h"
#include "uwasa/replica.h"

#define BATCH_N 5u
#define REPLICAS 3u
#define STEPS 4u

static const struct uw_layer_def layers[] = {
    CONV("a", 6, 3, 1, 1),
    {.kind = UW_LAYER_BATCHNORM, .name = "norm"},
    RELU("r"),
    {.kind = UW_LAYER_DROPOUT, .name = "drop", .dropout = {.rate = 0.3f}},
    FLATTEN("f"),
    DENSE("d", 37),
    RELU("r2"),
    DENSE("e", 5),
};
static const struct uw_model_def def = {"replica", 2, 7, 9, layers,
                                        sizeof layers / sizeof layers[0]};

static struct uw_model_config config_of(const struct uw_kernels *k, enum uw_optimizer_kind kind,
                                        bool frozen)
{
    return (struct uw_model_config){
        .def = &def, .kernels = k, .batch_n = BATCH_N,
        .optimizer = {.kind = kind, .lr = 0.01f, .frozen = frozen,
                      .momentum = kind == UW_OPTIMIZER_SGD ? 0.9f : 0.0f},
        .mixing_velocity = frozen};
}

static void open_one(struct fixture *f, const struct uw_model_config *config)
{
    *f = (struct fixture){.config = *config};
    assert_int_equal(open_config(f), UW_OK);
    uw_model_init_weights(&f->m, 5);
}

/* A step of a replica on data that belongs to it and to the step. */
static void train(struct fixture *f, uint32_t replica, uint32_t step)
{
    struct uw_step_result result;
    struct uw_rng rng;
    uint32_t label[BATCH_N];
    float *x = uw_test_floats((size_t)BATCH_N * f->m.input_n);
    uw_rng_seed(&rng, replica * STEPS + step);
    random_batch(&rng, &f->m, BATCH_N, x, label);
    int rc = uw_model_train_step(&f->m, &(struct uw_minibatch){.x = x, .label = label,
                                 .n = BATCH_N}, &result, &f->err);
    if (rc != UW_OK) {
        fail_msg("%s", f->err.text);
    }
    uw_test_release(x);
}

/* A copy of what the model has, each vector so many floats after the start of its memory. */
struct copy {
    struct uw_replica replica;
    float *memory[2 + UW_OPTIMIZER_VECTORS_MAX];
};

static float *copy_vector(const float *from, uint32_t n, uint32_t shift, float **memory)
{
    if (from == NULL) {
        return NULL;
    }
    *memory = uw_test_floats(n + shift);
    memcpy(*memory + shift, from, n * sizeof(float));
    return *memory + shift;
}

static void copy_model(struct copy *c, const struct uw_model *m, uint32_t shift)
{
    const struct uw_replica now = uw_model_replica(m);
    *c = (struct copy){.replica = {.updates = now.updates}};
    c->replica.x = copy_vector(now.x, m->params.size_n, shift, &c->memory[0]);
    c->replica.velocity = copy_vector(now.velocity, m->params.size_n, shift, &c->memory[1]);
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX; v++) {
        c->replica.state[v] = copy_vector(now.state[v], m->trainable_n, shift, &c->memory[2 + v]);
    }
}

static void release_copy(struct copy *c)
{
    for (size_t i = 0; i < sizeof c->memory / sizeof c->memory[0]; i++) {
        if (c->memory[i] != NULL) {
            uw_test_release(c->memory[i]);
        }
    }
}

static void assert_same(const struct uw_replica *a, const struct uw_replica *b,
                        const struct uw_model *m)
{
    assert_memory_equal(a->x, b->x, m->params.size_n * sizeof(float));
    assert_true((a->velocity == NULL) == (b->velocity == NULL));
    for (uint32_t v = 0; v < UW_OPTIMIZER_VECTORS_MAX; v++) {
        assert_true((a->state[v] == NULL) == (b->state[v] == NULL));
        if (a->state[v] != NULL) {
            assert_memory_equal(a->state[v], b->state[v], m->trainable_n * sizeof(float));
        }
    }
    assert_int_equal(a->updates, b->updates);
}

static void in_turns(const struct uw_model_config *config)
{
    struct fixture shared, own[REPLICAS];
    struct copy copies[REPLICAS];
    open_one(&shared, config);
    const struct uw_replica first = uw_model_replica(&shared.m);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        open_one(&own[i], config);
        copy_model(&copies[i], &own[i].m, i);
        if (own[i].m.velocity != NULL) {
            own[i].m.velocity[i] = copies[i].replica.velocity[i] = 0.5f;
        }
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            train(&own[i], i, step);
            assert_int_equal(uw_model_use(&shared.m, &copies[i].replica), UW_OK);
            train(&shared, i, step);
            copies[i].replica.updates = shared.m.updates;
        }
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        const struct uw_replica its = uw_model_replica(&own[i].m);
        assert_same(&copies[i].replica, &its, &own[i].m);
        assert_true(i == 0 || memcmp(copies[i].replica.x, copies[0].replica.x,
                                     own[i].m.params.size_n * sizeof(float)) != 0);
    }
    /* Its own vectors have not moved: pointed back at them, it is where it began. */
    assert_int_equal(uw_model_use(&shared.m, &first), UW_OK);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        release_copy(&copies[i]);
        close_model(&own[i]);
    }
    open_one(&own[0], config);
    const struct uw_replica fresh = uw_model_replica(&own[0].m);
    assert_same(&first, &fresh, &own[0].m);
    close_model(&own[0]);
    close_model(&shared);
}

static void test_replica_in_turns_is_as_models_of_their_own(void **state)
{
    (void)state;
    for (uint32_t k = 0; uw_kernels_at(k) != NULL; k++) {
        struct uw_model_config c = config_of(uw_kernels_at(k), UW_OPTIMIZER_SGD, false);
        in_turns(&c);
        c = config_of(uw_kernels_at(k), UW_OPTIMIZER_SGD, true);
        in_turns(&c);
        c = config_of(uw_kernels_at(k), UW_OPTIMIZER_ADAM, false);
        in_turns(&c);
        c.mode = UW_PLAN_FULL;
        in_turns(&c);
    }
}

static void test_replica_that_lacks_a_vector_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    const struct uw_model_config config = config_of(&uw_kernels_ref, UW_OPTIMIZER_ADAM, false);
    const struct uw_model_config frozen = config_of(&uw_kernels_ref, UW_OPTIMIZER_SGD, true);
    struct fixture f;
    struct copy c;
    open_one(&f, &config);
    copy_model(&c, &f.m, 0);
    const struct uw_replica before = uw_model_replica(&f.m);
    for (uint32_t lacks = 0; lacks < 3; lacks++) {
        struct uw_replica r = c.replica;
        *(lacks == 0 ? &r.x : &r.state[lacks - 1u]) = NULL;
        r.updates = 9;
        assert_int_equal(uw_model_use(&f.m, &r), UW_ERR_INVALID);
        assert_ptr_equal(f.m.params.x, before.x);
        assert_int_equal(f.m.updates, before.updates);
    }
    release_copy(&c);
    close_model(&f);

    open_one(&f, &frozen);
    copy_model(&c, &f.m, 0);
    c.replica.velocity = NULL;
    assert_int_equal(uw_model_use(&f.m, &c.replica), UW_ERR_INVALID);
    release_copy(&c);
    close_model(&f);
}

static void test_replica_is_refused_while_updates_are_pending(void **state)
{
    (void)state;
    struct uw_model_config config = config_of(&uw_kernels_ref, UW_OPTIMIZER_SGD, false);
    struct fixture f;
    struct copy c;
    config.mode = UW_PLAN_FULL;
    config.late_updates = true;
    open_one(&f, &config);
    copy_model(&c, &f.m, 0);
    train(&f, 0, 0);
    assert_true(uw_model_updates_pending(&f.m));
    assert_int_equal(uw_model_use(&f.m, &c.replica), UW_ERR_INVALID);
    assert_int_equal(uw_model_finish_updates(&f.m, &f.err), UW_OK);
    assert_int_equal(uw_model_use(&f.m, &c.replica), UW_OK);
    release_copy(&c);
    close_model(&f);
}

static void test_replica_of_an_inference_plan_needs_parameters_alone(void **state)
{
    (void)state;
    struct fixture f, trained;
    const float *logits, *again;
    float kept[5];
    struct uw_rng rng;
    uint32_t label[1];
    open_one(&trained, &(struct uw_model_config){.def = &def, .kernels = &uw_kernels_ref,
                                                 .batch_n = BATCH_N});
    train(&trained, 0, 0);
    assert_int_equal(open_model(&f, &def, 1, UW_PLAN_INFERENCE, false), UW_OK);
    float *x = uw_test_floats(f.m.input_n);
    uw_rng_seed(&rng, 3);
    random_batch(&rng, &f.m, 1, x, label);
    const struct uw_replica its = {.x = trained.m.params.x};
    assert_int_equal(uw_model_use(&f.m, &its), UW_OK);
    assert_int_equal(uw_model_forward(&f.m, x, 1, &logits), UW_OK);
    memcpy(kept, logits, sizeof kept);
    assert_int_equal(uw_model_forward(&trained.m, x, 1, &again), UW_OK);
    assert_memory_equal(kept, again, sizeof kept);
    uw_test_release(x);
    close_model(&f);
    close_model(&trained);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replica_in_turns_is_as_models_of_their_own),
        cmocka_unit_test(test_replica_that_lacks_a_vector_is_refused_and_changes_nothing),
        cmocka_unit_test(test_replica_is_refused_while_updates_are_pending),
        cmocka_unit_test(test_replica_of_an_inference_plan_needs_parameters_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
