/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a test, beside those computed by hand. */
#include "test_support.h"

#include "base/events.h"
#include "train/scores.h"

#include "answers_by.h"

static double member(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItem(object, key);
    assert_non_null(value);
    return cJSON_IsNull(value) ? (double)NAN : value->valuedouble;
}

static void expect(double got, double want)
{
    if (!(fabs(got - want) < 1e-6) && !(isnan(got) && isnan(want))) {
        fail_msg("%.9g, not %.9g", got, want);
    }
}

/* Six samples of three classes in two minibatches; nothing is answered with class 2, and no sample
 * has class 3. */
static void test_scores_of_classes(void **state)
{
    (void)state;
    static const uint32_t label[6] = {0, 0, 0, 1, 1, 2}, answer[6] = {0, 0, 1, 1, 0, 1};
    const struct uw_answers a = answers_by(NULL, 4);
    struct uw_scores s;
    struct uw_error err = {.text = ""};
    float out[6][4] = {{0.0f}};
    for (int i = 0; i < 6; i++) {
        out[i][answer[i]] = 1.0f;
    }
    assert_int_equal(uw_scores_open(&s, &a, &err), UW_OK);
    for (uint32_t i = 0; i < 6; i += 3) {
        const struct uw_minibatch b = {.x = &out[0][0], .label = label + i, .n = 3};
        assert_int_equal(uw_scores_add(&s, out[i], &b, &err), UW_OK);
    }
    expect(uw_scores_accuracy(&s), 0.5);
    expect(uw_scores_loss(&s), log(exp(1.0) + 3.0) - 0.5);
    cJSON *ev = uw_event("done");
    uw_scores_json(&s, ev);
    static const double wants[4][3] = {{2.0 / 3, 2.0 / 3, 2.0 / 3}, {1.0 / 3, 0.5, 0.4},
                                       {(double)NAN, 0.0, 0.0},
                                       {(double)NAN, (double)NAN, (double)NAN}};
    for (int c = 0; c < 4; c++) {
        const cJSON *one = cJSON_GetArrayItem(cJSON_GetObjectItem(ev, "classes"), c);
        expect(member(one, "precision"), wants[c][0]);
        expect(member(one, "recall"), wants[c][1]);
        expect(member(one, "f1"), wants[c][2]);
    }
    const cJSON *mean = cJSON_GetObjectItem(ev, "mean_of_classes");
    expect(member(mean, "precision"), 1.0 / 3);
    expect(member(mean, "recall"), (2.0 / 3 + 0.5) / 3);
    expect(member(mean, "f1"), (2.0 / 3 + 0.4) / 3);
    static const int pairs[4][4] = {{2, 1}, {1, 1}, {0, 1}};
    for (int l = 0; l < 4; l++) {
        const cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(ev, "confusion"), l);
        for (int c = 0; c < 4; c++) {
            assert_int_equal(cJSON_GetArrayItem(row, c)->valueint, pairs[l][c]);
        }
    }
    cJSON_Delete(ev);
    const struct uw_minibatch wrong = {.x = &out[0][0], .label = (const uint32_t[]){4}, .n = 1};
    assert_int_equal(uw_scores_add(&s, out[0], &wrong, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "label 4: the model has 4 classes");
    uw_scores_close(&s);
    uw_scores_close(&s);
}

/* One output: the label is its target. Of the pairs of a 1 and a 0 three of four are in order. */
static void test_scores_of_two_classes_by_one_output_have_a_roc_area(void **state)
{
    (void)state;
    const struct uw_loss_def bce = {.kind = UW_LOSS_BINARY_CROSS_ENTROPY,
                                    .target = UW_TARGET_VALUES};
    const struct uw_answers a = answers_by(&bce, 1);
    static const float target[4] = {0, 1, 0, 1}, out[4] = {-2, -1, 1, 2};
    const struct uw_minibatch b = {.x = out, .target = target, .n = 4};
    struct uw_scores s;
    struct uw_error err;
    assert_int_equal(a.kind, UW_ANSWER_CLASS);
    assert_int_equal(uw_scores_open(&s, &a, &err), UW_OK);
    assert_int_equal(uw_scores_add(&s, out, &b, &err), UW_OK);
    expect(uw_scores_accuracy(&s), 0.5);
    expect(uw_scores_auc(&s), 0.75);
    cJSON *ev = uw_event("done");
    uw_scores_json(&s, ev);
    expect(member(ev, "roc_area"), 0.75);
    cJSON_Delete(ev);
    uw_scores_close(&s);
}

static void test_scores_of_many_classes_have_no_matrix(void **state)
{
    (void)state;
    const struct uw_answers a = answers_by(NULL, UW_SCORES_PAIRS_MAX + 1u);
    struct uw_scores s;
    struct uw_error err;
    assert_int_equal(uw_scores_open(&s, &a, &err), UW_OK);
    assert_null(s.pairs);
    uw_scores_close(&s);
}

static void test_scores_of_values(void **state)
{
    (void)state;
    const struct uw_loss_def mse = {.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
    const struct uw_answers a = answers_by(&mse, 2);
    static const float target[4][2] = {{1, 10}, {2, 10}, {3, 10}, {6, 10}};
    static const float out[4][2] = {{1, 10}, {3, 12}, {3, 10}, {4, 10}};
    struct uw_scores s;
    struct uw_error err;
    assert_int_equal(uw_scores_open(&s, &a, &err), UW_OK);
    for (uint32_t i = 0; i < 4; i += 2) {
        const struct uw_minibatch b = {.x = out[i], .target = target[i], .n = 2};
        assert_int_equal(uw_scores_add(&s, out[i], &b, &err), UW_OK);
    }
    cJSON *ev = uw_event("done");
    uw_scores_json(&s, ev);
    expect(member(ev, "mae"), 5.0 / 8);
    expect(member(ev, "rmse"), sqrt(9.0 / 8));
    expect(member(ev, "r2"), (double)NAN);      /* the second output has one target only */
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(ev, "values"), 0);
    expect(member(first, "r2"), 1.0 - 5.0 / 14);
    expect(member(first, "mae"), 0.75);
    expect(uw_scores_loss(&s), 9.0 / 8);
    cJSON_Delete(ev);
    uw_scores_close(&s);
}

/* Values that were divided by 1000 for the model: errors are in their units, the loss is not. */
static void test_scores_of_scaled_values_are_in_their_units(void **state)
{
    (void)state;
    const struct uw_loss_def mse = {.kind = UW_LOSS_MSE, .target = UW_TARGET_VALUES};
    float mean[1] = {5000.0f}, inverse[1] = {1e-3f};
    const struct uw_data_columns c = {.targets_n = 1, .target_mean = mean,
                                      .target_inverse = inverse};
    static const float target[3] = {-1, 0, 1}, out[3] = {-1, 2, 1};
    const struct uw_minibatch b = {.x = out, .target = target, .n = 3};
    struct uw_answers a = answers_by(&mse, 1);
    struct uw_scores s;
    struct uw_error err;
    uw_answers_take(&a, &c);
    assert_int_equal(uw_scores_open(&s, &a, &err), UW_OK);
    assert_int_equal(uw_scores_add(&s, out, &b, &err), UW_OK);
    const struct uw_scores_values f = uw_scores_values(&s);
    assert_true(fabs(f.mae - 2000.0 / 3) < 0.01 && fabs(f.rmse - sqrt(4e6 / 3)) < 0.01);
    assert_true(fabs(s.value[0].mean - 5000.0) < 0.01 && fabs(f.r2 + 1.0) < 1e-5);
    expect(uw_scores_loss(&s), 4.0 / 3);
    uw_scores_close(&s);
}

/* Errors 0 .. 4 with a tie, labels 0 and 1: of 2 x 3 pairs 4 are in order and one is equal. */
static void test_scores_of_errors(void **state)
{
    (void)state;
    const struct uw_loss_def mse = {.kind = UW_LOSS_MSE, .target = UW_TARGET_INPUT};
    const struct uw_answers a = answers_by(&mse, 1);
    static const float x[5] = {0.0f, 1.0f, 1.0f, 1.5f, 2.0f}, out[5] = {0.0f};
    static const uint32_t label[5] = {0, 1, 0, 0, 1};
    const struct uw_minibatch b = {.x = x, .label = label, .n = 5};
    struct uw_scores s;
    struct uw_error err;
    assert_int_equal(uw_scores_open(&s, &a, &err), UW_OK);
    assert_int_equal(uw_scores_add(&s, out, &b, &err), UW_OK);
    expect(uw_scores_auc(&s), 4.5 / 6);
    s.threshold = 2.0f;
    cJSON *ev = uw_event("done");
    uw_scores_json(&s, ev);
    const cJSON *percentiles = cJSON_GetObjectItem(ev, "error_percentiles");
    expect(member(percentiles, "50"), 1.0);
    expect(member(percentiles, "90"), 2.25 + 0.6 * 1.75);
    expect(member(percentiles, "100"), 4.0);
    expect(member(ev, "roc_area"), 0.75);
    expect(member(ev, "anomalies"), 2.0);
    expect(member(ev, "precision"), 0.5);
    expect(member(ev, "recall"), 0.5);
    cJSON_Delete(ev);
    const struct uw_minibatch other = {.x = x, .label = (const uint32_t[]){2}, .n = 1};
    assert_int_equal(uw_scores_add(&s, out, &other, &err), UW_OK);
    assert_true(isnan(uw_scores_auc(&s)));
    uw_scores_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_of_classes),
        cmocka_unit_test(test_scores_of_two_classes_by_one_output_have_a_roc_area),
        cmocka_unit_test(test_scores_of_many_classes_have_no_matrix),
        cmocka_unit_test(test_scores_of_values),
        cmocka_unit_test(test_scores_of_scaled_values_are_in_their_units),
        cmocka_unit_test(test_scores_of_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
