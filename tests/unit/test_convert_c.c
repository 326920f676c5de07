/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as C that the program wrote: every field is that of the file, and it computes what the
 * trained weights compute. */
#include "test_support.h"

#include "unit/model_fixture.h"
#include "unit/same_definition.h"

#include "model/model_json.h"

extern const struct uw_model_def operators_def;
extern const struct uw_constant operators_constants[];

static void test_c_has_every_field_of_the_file(void **state)
{
    (void)state;
    struct uw_model_file read;
    struct uw_error err = {.text = ""};
    if (uw_model_load(&read, OPERATORS, &err) != UW_OK) {
        fail_msg("%s", err.text);
    }
    same_definition(&operators_def, &read.def);
    uw_model_file_deinit(&read);
}

static void test_c_computes_from_its_tables(void **state)
{
    (void)state;
    float x[784];
    const float *y;
    struct fixture f = {.config = {.def = &operators_def, .kernels = &uw_kernels_ref, .batch_n = 1,
                                   .mode = UW_PLAN_INFERENCE, .constants = operators_constants,
                                   .constants_n = OPERATORS_TENSORS}};
    for (int i = 0; i < 784; i++) {
        x[i] = (float)(i % 29) / 29.0f;
    }
    assert_int_equal(open_config(&f), UW_OK);
    assert_int_equal(f.m.params.size_n, 0);     /* every table is used where it is */
    assert_int_equal(uw_model_forward(&f.m, x, 1, &y), UW_OK);
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(isfinite(y[i]) && y[i] != y[(i + 1) % 10]);
    }
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c_has_every_field_of_the_file),
        cmocka_unit_test(test_c_computes_from_its_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
