/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "uwasa/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 40u
#define FEATURES 784u
#define CLASSES 10u

/* A session of the model mlp, samples, and what was heard. */
struct fixture {
    struct uw_session *s;
    struct uw_data_arrays arrays;
    float *x, y[SAMPLES], out[SAMPLES * CLASSES];
    char lines[4096], last[4096];
    bool stop;
};

static void hear_line(void *arg, const char *text)
{
    struct fixture *f = arg;
    size_t n = strlen(f->lines);
    snprintf(f->lines + n, sizeof f->lines - n, "%s\n", text);
}

static void hear_event(void *arg, const char *json)
{
    struct fixture *f = arg;
    snprintf(f->last, sizeof f->last, "%s", json);
}

static bool hear_stop(void *arg)
{
    return ((struct fixture *)arg)->stop;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    f->x = calloc(SAMPLES * FEATURES, sizeof *f->x);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        f->y[i] = (float)(i % CLASSES);
        f->x[i * FEATURES + i % CLASSES] = 1.0f;
    }
    f->arrays = (struct uw_data_arrays){.x = f->x, .y = f->y, .samples_n = SAMPLES,
                                        .channels = FEATURES, .height = 1, .width = 1, .y_n = 1,
                                        .whole = true};
    f->s = uw_session_new();
    uw_session_listen(f->s, hear_line, hear_event, hear_stop, f);
    static const char *const options[] = {"threads", "1", "backend", "ref", NULL};
    return uw_session_open(f->s, "mlp", options);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    uw_session_free(f->s);
    free(f->x);
    free(f);
    return 0;
}

static void copy_weights(struct fixture *f, unsigned char **copy, size_t *bytes)
{
    const void *weights;
    assert_int_equal(uw_session_get_weights(f->s, &weights, bytes), 0);
    *copy = malloc(*bytes);
    memcpy(*copy, weights, *bytes);
}

static void test_fit_learns_and_evaluate_and_predict_agree(void **state)
{
    struct fixture *f = *state;
    static const char *const options[] = {"epochs", "40", "batch", "8", "lr", "0.2", NULL};
    uint32_t right = 0;
    assert_int_equal(uw_session_fit(f->s, "arrays", &f->arrays, NULL, options), 0);
    assert_int_equal(uw_session_evaluate(f->s, "arrays", &f->arrays, NULL), 0);
    assert_non_null(strstr(f->last, "\"accuracy\":1,"));
    assert_int_equal(uw_session_predict(f->s, f->x, SAMPLES, false, f->out), 0);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        float sum = 0.0f;
        uint32_t top = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            const float *p = f->out + i * CLASSES;
            sum += p[k];
            top = p[k] > p[top] ? k : top;
        }
        assert_true(fabsf(sum - 1.0f) < 1e-5f);
        right += top == i % CLASSES;
    }
    assert_int_equal(right, SAMPLES);
}

static void test_a_fit_that_fails_leaves_the_weights(void **state)
{
    struct fixture *f = *state;
    static const char *const wild[] = {"epochs", "5", "lr", "1e30", NULL};
    static const char *const wrong[] = {"lr", "much", NULL};
    unsigned char *before, *after;
    size_t bytes, again;
    copy_weights(f, &before, &bytes);
    assert_int_equal(uw_session_fit(f->s, "arrays", &f->arrays, NULL, wild), UW_ERR_NONFINITE);
    assert_int_equal(uw_session_fit(f->s, "arrays", &f->arrays, NULL, wrong), UW_ERR_INVALID);
    assert_non_null(strstr(uw_session_error(f->s), "--lr much"));
    f->x[3 * FEATURES + 5] = NAN;
    assert_int_equal(uw_session_fit(f->s, "arrays", &f->arrays, NULL, NULL), UW_ERR_INVALID);
    assert_non_null(strstr(uw_session_error(f->s), "number 5 of sample 3"));
    assert_int_equal(uw_session_fit(f->s, "arrays", NULL, NULL, NULL), UW_ERR_INVALID);
    copy_weights(f, &after, &again);
    assert_int_equal(bytes, again);
    assert_memory_equal(before, after, bytes);
    free(before);
    free(after);
}

static void test_weights_go_out_and_come_back(void **state)
{
    struct fixture *f = *state;
    static const char *const options[] = {"steps", "3", NULL};
    unsigned char *before, *after;
    size_t bytes, again;
    copy_weights(f, &before, &bytes);
    assert_int_equal(uw_session_fit(f->s, "arrays", &f->arrays, &f->arrays, options), 0);
    copy_weights(f, &after, &again);
    assert_true(bytes == again && memcmp(before, after, bytes) != 0);
    free(after);
    for (size_t n = 0; n < bytes; n += bytes / 50 + 1) {    /* cut off anywhere: refused */
        assert_true(uw_session_set_weights(f->s, before, n, false) < 0);
        assert_true(uw_session_error(f->s)[0] != '\0');
    }
    assert_int_equal(uw_session_set_weights(f->s, before, bytes, false), 0);
    copy_weights(f, &after, &again);
    assert_memory_equal(before, after, bytes);
    free(before);
    free(after);
}

static void test_a_listener_stops_training_and_the_model_stays(void **state)
{
    struct fixture *f = *state;
    static const char *const options[] = {"steps", "1000000", NULL};
    f->stop = true;
    assert_int_equal(uw_session_fit(f->s, "arrays", &f->arrays, NULL, options), 1);
    f->stop = false;
    assert_int_equal(uw_session_predict(f->s, f->x, SAMPLES, true, f->out), 0);
}

static void test_an_open_that_fails_says_why(void **state)
{
    struct fixture *f = *state;
    struct uw_session *s = uw_session_new();
    uw_session_listen(s, hear_line, hear_event, hear_stop, f);
    assert_true(uw_session_open(s, "mlpp", NULL) < 0);
    assert_non_null(strstr(uw_session_error(s), "did you mean mlp"));
    uw_session_free(s);
    uw_session_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fit_learns_and_evaluate_and_predict_agree, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_fit_that_fails_leaves_the_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_weights_go_out_and_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_listener_stops_training_and_the_model_stays, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_open_that_fails_says_why, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
