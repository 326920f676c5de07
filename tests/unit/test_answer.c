/* SPDX-License-Identifier: Apache-2.0
 *
 * What outputs mean by the loss. */
#include "test_support.h"

#include "answers_by.h"

static void expect(const float *got, const float *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!(fabsf(got[i] - want[i]) <= 1e-6f)) {
            fail_msg("number %u is %g, not %g", (unsigned)i, (double)got[i], (double)want[i]);
        }
    }
}

static void test_answer_cross_entropy_is_softmax(void **state)
{
    (void)state;
    struct uw_answers a = answers_by(NULL, 3);
    float p[3];
    assert_int_equal(a.kind, UW_ANSWER_CLASS);
    uw_answers_read(&a, (const float[]){1.0f, 2.0f, 0.0f}, NULL, p);
    expect(p, (const float[]){0.244728f, 0.665241f, 0.090031f}, 3);
    uw_answers_read(&a, (const float[]){-1000.0f, 1000.0f, 1000.0f}, NULL, p);
    expect(p, (const float[]){0.0f, 0.5f, 0.5f}, 3);
    assert_int_equal(uw_answers_class(&a, p), 1);
}

static void test_answer_binary_one_output_stands_for_two_classes(void **state)
{
    (void)state;
    const struct uw_loss_def bce = {.kind = UW_LOSS_BINARY_CROSS_ENTROPY};
    struct uw_answers a = answers_by(&bce, 1);
    float p[2];
    assert_int_equal(a.numbers_n, 2);
    uw_answers_read(&a, (const float[]){2.0f}, NULL, p);
    expect(p, (const float[]){0.119203f, 0.880797f}, 2);
    float room;
    double loss = uw_answers_loss(&a, 1, (const float[]){2.0f}, NULL, (const uint32_t[]){1}, NULL,
                                  &room);
    assert_true(fabs(loss + log(0.880797)) < 1e-5);

    a = answers_by(&bce, 2);
    uw_answers_read(&a, (const float[]){0.0f, 2.0f}, NULL, p);
    expect(p, (const float[]){0.5f, 0.880797f}, 2);
}

static void test_answer_mse_is_the_value_or_the_error(void **state)
{
    (void)state;
    const struct uw_loss_def values = {.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
    const struct uw_loss_def input = {.kind = UW_LOSS_MSE, .target = UW_TARGET_INPUT};
    const float out[2] = {1.0f, -3.0f}, x[2] = {0.0f, 0.0f};
    float got[2], room[2];
    struct uw_answers a = answers_by(&values, 2);
    assert_int_equal(a.kind, UW_ANSWER_VALUES);
    uw_answers_read(&a, out, NULL, got);
    expect(got, out, 2);
    float mean[2] = {100.0f, 0.5f}, inverse[2] = {0.5f, 2.0f};
    struct uw_data_columns c = {.targets_n = 2, .target_mean = mean, .target_inverse = inverse};
    uw_answers_take(&a, &c);        /* in the units of the training data */
    uw_answers_read(&a, out, NULL, got);
    expect(got, (const float[]){102.0f, -1.0f}, 2);
    c.targets_n = 1;                /* of another model */
    uw_answers_take(&a, &c);
    uw_answers_read(&a, out, NULL, got);
    expect(got, out, 2);
    a = answers_by(&input, 2);
    assert_int_equal(a.kind, UW_ANSWER_ERROR);
    uw_answers_read(&a, out, x, got);
    expect(got, (const float[]){5.0f}, 1);
    assert_true(fabs(uw_answers_loss(&a, 1, out, x, NULL, NULL, room) - 5.0) < 1e-6);
}

static void test_answer_top_is_in_order_for_every_n(void **state)
{
    (void)state;
    const float numbers[5] = {0.1f, 0.3f, 0.05f, 0.3f, 0.25f};
    const uint32_t order[5] = {1, 3, 4, 0, 2};
    struct uw_answers a = answers_by(NULL, 5);
    for (uint32_t n = 1; n <= 5; n++) {
        uint32_t *top = uw_test_block(n * sizeof *top);
        uw_answers_top(&a, numbers, n, top);
        assert_memory_equal(top, order, n * sizeof *top);
        uw_test_release(top);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_cross_entropy_is_softmax),
        cmocka_unit_test(test_answer_binary_one_output_stands_for_two_classes),
        cmocka_unit_test(test_answer_mse_is_the_value_or_the_error),
        cmocka_unit_test(test_answer_top_is_in_order_for_every_n),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
