/* SPDX-License-Identifier: Apache-2.0
 *
 * What tools/board_model wrote: the definitions are those that the program reads from the same
 * files, the table trains as the reference does, and what was left out is refused. This program's
 * uw_parts is the written one: of lenet5 and dscnn. */
#include "test_support.h"

#include "small_boards.h"
#include "unit/model_fixture.h"
#include "unit/same_definition.h"

#include "model/model_json.h"

#include "uwasa/parts.h"

#include <string.h>

/* every_definition.c is the definitions of another call, whose uw_parts is renamed. */
extern const struct uw_model_def every_layer_def, mlp_def, resnet20_def, googlenet_def, gru_def,
    autoencoder_def, mobilenetv2_def;

static void test_definitions_are_those_of_the_program(void **state)
{
    (void)state;
    const struct {
        const char *file;
        const struct uw_model_def *def;
    } all[] = {{EVERY_LAYER, &every_layer_def}, {"lenet5", &lenet5_def}, {"dscnn", &dscnn_def},
               {"mlp", &mlp_def}, {"resnet20", &resnet20_def}, {"googlenet", &googlenet_def},
               {"gru", &gru_def}, {"autoencoder", &autoencoder_def},
               {"mobilenetv2", &mobilenetv2_def}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct uw_model_file read;
        struct uw_error err = {0};
        if (uw_model_load(&read, all[i].file, &err) != UW_OK) {
            fail_msg("%s", err.text);
        }
        same_definition(all[i].def, &read.def);
        uw_model_file_deinit(&read);
    }
}

static void train(struct fixture *f, const struct uw_model_def *def, const struct uw_kernels *k)
{
    struct uw_step_result r;
    struct uw_rng rng;
    *f = (struct fixture){.config = {.def = def, .kernels = k, .batch_n = 2, .input = true,
                                     .optimizer = {.lr = 0.05f, .momentum = 0.9f,
                                                   .weight_decay = 1e-3f}}};
    assert_int_equal(open_config(f), UW_OK);
    uw_model_init_weights(&f->m, 3);
    uw_rng_seed(&rng, 4);
    for (int step = 0; step < 2; step++) {
        random_batch(&rng, &f->m, 2, f->m.input, f->m.label);
        assert_int_equal(uw_model_train_step(&f->m, &(struct uw_minibatch){.n = 2}, &r, &f->err),
                         UW_OK);
    }
}

static void test_table_trains_to_the_bits_of_the_reference(void **state)
{
    (void)state;
    static const struct uw_model_def *const defs[] = {&lenet5_def, &dscnn_def};
    assert_true(small_boards_kernels.exact);
    for (size_t i = 0; i < 2; i++) {
        struct fixture ours, ref;
        train(&ours, defs[i], &small_boards_kernels);
        train(&ref, defs[i], &uw_kernels_ref);
        assert_memory_equal(ours.m.params.x, ref.m.params.x,
                            ref.m.params.size_n * sizeof(float));
        close_model(&ours);
        close_model(&ref);
    }
}

static void refused(struct uw_model_config config, const char *why)
{
    struct fixture f = {.config = config};
    assert_int_equal(open_config(&f), UW_ERR_UNSUPPORTED);
    if (strstr(f.err.text, why) == NULL) {
        fail_msg("'%s' does not say '%s'", f.err.text, why);
    }
    close_model(&f);
}

static void test_what_is_left_out_is_refused_with_a_sentence(void **state)
{
    (void)state;
    const struct uw_model_config plain = {.def = &lenet5_def, .kernels = &small_boards_kernels,
                                          .batch_n = 2};
    const struct uw_constant none = {"no.weight", NULL, 0};
    struct uw_model_config c = plain;
    c.optimizer.kind = UW_OPTIMIZER_ADAM;
    refused(c, "plan mode immediate");
    c = plain;
    c.mode = UW_PLAN_FULL;
    refused(c, "plan mode immediate");
    c = plain;
    c.optimizer.clip_global = 1.0f;
    refused(c, "plan mode immediate");
    c = plain;
    c.micro_n = 1;
    refused(c, "plan mode immediate");
    c = plain;
    c.mode = UW_PLAN_INFERENCE;
    c.late_updates = true;
    refused(c, "plan mode immediate");
    c = plain;
    c.adapt.lora_rank = 2;
    refused(c, "low-rank");
    c = plain;
    c.constants = &none;
    c.constants_n = 1;
    refused(c, "constants");
    c = plain;
    c.def = &gru_def;
    refused(c, "linked without kind");
    c.def = &(const struct uw_model_def){
        "m", 3, 0, 0, LAYERS(DENSE("a", 2)), 1,
        .losses = &(const struct uw_loss_def){.kind = UW_LOSS_MSE}, .losses_n = 1};
    refused(c, "no loss but cross-entropy");
}

static void test_a_budget_without_its_part_is_refused(void **state)
{
    (void)state;
    struct fixture f = {.config = {.def = &lenet5_def, .kernels = &small_boards_kernels,
                                   .batch_n = 2, .budget_bytes = 1000}};
    assert_int_equal(open_config(&f), UW_ERR_UNSUPPORTED);
    assert_non_null(strstr(f.err.text, "the smallest plan takes"));
    close_model(&f);
}

static void test_guard_without_its_part_is_refused(void **state)
{
    (void)state;
    struct uw_step_result r;
    struct fixture f;
    train(&f, &lenet5_def, &small_boards_kernels);
    f.m.guard.factor = 5.0f;
    assert_int_equal(uw_model_train_step(&f.m, &(struct uw_minibatch){.n = 2}, &r, &f.err),
                     UW_ERR_UNSUPPORTED);
    assert_non_null(strstr(f.err.text, "spike guard"));
    close_model(&f);
}

static void test_slots_left_out_refuse(void **state)
{
    (void)state;
    const struct uw_kernels *k = &small_boards_kernels;
    const struct uw_exec e = {.kernels = k};
    const struct uw_sgd sgd = {.lr = 1.0f};
    float w = 1.0f;
    assert_int_equal(k->sgd_update(&e, 1, &sgd, &w, &w, NULL), UW_ERR_UNSUPPORTED);
    assert_int_equal(k->sequence->softmax_fw(&e, 1, 1, false, &w, &w), UW_ERR_UNSUPPORTED);
    assert_int_equal(k->update->adam(&e, 1, NULL, &w, &w, &w, &w), UW_ERR_UNSUPPORTED);
    assert_float_equal(w, 1.0f, 0.0);
    assert_true(k->norm->batchnorm_fw == uw_kernels_ref.norm->batchnorm_fw); /* dscnn's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definitions_are_those_of_the_program),
        cmocka_unit_test(test_table_trains_to_the_bits_of_the_reference),
        cmocka_unit_test(test_what_is_left_out_is_refused_with_a_sentence),
        cmocka_unit_test(test_a_budget_without_its_part_is_refused),
        cmocka_unit_test(test_guard_without_its_part_is_refused),
        cmocka_unit_test(test_slots_left_out_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
