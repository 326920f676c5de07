/* SPDX-License-Identifier: Apache-2.0
 *
 * The best test of a run: its weights, and what a checkpoint knows of it. */
#include "test_support.h"

#include "model_fixture.h"
#include "train/best.h"

static const struct uw_layer_def layers[] = {DENSE("d", 2)};
static const struct uw_model_def def = {"two", 1, 0, 0, layers, 1, NULL, 0};

static void open_one(struct fixture *f, struct uw_best *b, bool keep)
{
    open_model(f, &def, 1, UW_PLAN_IMMEDIATE, false);
    assert_int_equal(uw_best_open(b, &f->m, true, keep, &f->err), UW_OK);
}

static void close_one(struct fixture *f)
{
    uw_best_close(&f->m);
    uw_best_close(&f->m);
    close_model(f);
}

static void test_best_keeps_the_weights_of_the_smallest_loss(void **state)
{
    (void)state;
    static const double losses[] = {2.0, 1.0, 1.0, (double)NAN, 0.5, 0.7};
    static const uint32_t since[] = {0, 0, 1, 2, 0, 1};
    struct fixture f;
    struct uw_best b;
    open_one(&f, &b, true);
    for (uint32_t i = 0; i < 6; i++) {
        f.m.params.x[0] = (float)i;
        assert_int_equal(uw_best_judge(&b, &f.m, 10 * i, losses[i]), UW_OK);
        assert_int_equal(b.since, since[i]);
    }
    assert_true(b.loss == 0.5 && b.step == 40 && b.judged);
    assert_int_equal(uw_best_swap(&b, &f.m), UW_OK);
    assert_true(f.m.params.x[0] == 4.0f && f.m.kept[0] == 5.0f && b.swapped);
    assert_int_equal(uw_best_swap(&b, &f.m), UW_OK);
    assert_true(f.m.params.x[0] == 5.0f && f.m.kept[0] == 4.0f && !b.swapped);
    close_one(&f);
}

static void test_best_of_a_checkpoint_goes_on(void **state)
{
    (void)state;
    for (int swapped = 0; swapped < 2; swapped++) {
        struct uw_checkpoint c = {.step = 30};
        struct fixture f;
        struct uw_best b, again;
        open_one(&f, &b, true);
        uw_best_judge(&b, &f.m, 20, 0.25);
        f.m.params.x[0] = 3.0f;
        uw_best_judge(&b, &f.m, 30, 0.5);
        if (swapped != 0) {
            uw_best_swap(&b, &f.m);
        }
        uw_best_store(&b, 0.1, &c);
        again = (struct uw_best){.on = true, .keep = true};
        assert_int_equal(uw_best_load(&again, &f.m, 0.1, &c, "w", &f.err), 1);
        assert_true(again.loss == 0.25 && again.step == 20 && again.since == 1 && again.judged);
        assert_false(again.swapped);    /* a run goes on with the weights of its last step */
        assert_true(f.m.params.x[0] == 3.0f);
        close_one(&f);
    }
}

static void test_best_of_a_run_without_tests_to_judge_is_not_in_its_checkpoint(void **state)
{
    (void)state;
    static const uint64_t zeros[4] = {0};
    struct fixture f;
    struct uw_best b = {.on = false}, judging;
    struct uw_checkpoint c = {.step = 1}, of_a_node = {.user = {5, 7, 9, 11}};
    uw_best_store(&b, 0.0, &c);
    assert_memory_equal(c.user, zeros, sizeof zeros);
    open_one(&f, &judging, true);
    assert_int_equal(uw_best_load(&judging, &f.m, 0.0, &c, "w", &f.err), 0);
    assert_int_equal(uw_best_load(&judging, &f.m, 0.0, &of_a_node, "w", &f.err), 0);
    assert_int_equal(judging.since, 0);
    close_one(&f);
}

static void test_best_other_flags_than_before_are_told(void **state)
{
    (void)state;
    static const struct {
        bool keep, swapped, now;
        double share, share_now;
        const char *says;
    } cases[] = {
        {true, false, true, 0.1, 0.2, "w was trained with --validation 0.1: give that again"},
        {true, false, true, 0.1, 0.0, "w was trained with --validation 0.1: give that again"},
        {true, false, true, 0.0, 0.1, "--validation 0.1: w was trained without it"},
        {true, true, false, 0.0, 0.0, "w has the best weights, of --keep best"},
        {false, false, true, 0.0, 0.0, "--keep best: w was trained without it"},
        {true, false, false, 0.0, 0.0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        struct uw_best b = {.on = true, .keep = cases[i].keep, .swapped = cases[i].swapped}, now;
        struct uw_checkpoint c = {.step = 1};
        uw_best_store(&b, cases[i].share, &c);
        open_one(&f, &now, cases[i].now);
        f.err.text[0] = '\0';
        int rc = uw_best_load(&now, &f.m, cases[i].share_now, &c, "w", &f.err);
        if (rc != (cases[i].says != NULL ? UW_ERR_MISMATCH : 1) ||
            (cases[i].says != NULL && strstr(f.err.text, cases[i].says) == NULL)) {
            fail_msg("case %zu gives %d: %s", i, rc, f.err.text);
        }
        close_one(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_keeps_the_weights_of_the_smallest_loss),
        cmocka_unit_test(test_best_of_a_checkpoint_goes_on),
        cmocka_unit_test(test_best_of_a_run_without_tests_to_judge_is_not_in_its_checkpoint),
        cmocka_unit_test(test_best_other_flags_than_before_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
