/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of ONNX files: their steps become layers that share what they read from outside. */
#include "onnx_message.h"

#define STEPS 3

static const int64_t input[3] = {0, STEPS, 2}, state[2] = {0, 2}, square[2] = {2, 2}, row[1] = {2};
static const int64_t none[1] = {0};
static const float ramp[4] = {1, 2, 3, 4}, zeros[2] = {0, 0};

static void whole(struct message *g, const char *name, int64_t v)
{
    struct message t = {.n = 0};
    number(&t, 2, 7);
    text(&t, 8, name);
    bytes(&t, 9, &v, sizeof v);
    inside(g, 5, &t);
}

/* h = tanh(h w + b + x[i]), and h of every step; goes on while i < 100, or while `cond` says so. */
static struct message body(const char *cond)
{
    struct message g = {.n = 0};
    value(&g, 11, "i", 0, none);
    value(&g, 11, "on", 0, none);
    value(&g, 11, "h", 2, state);
    whole(&g, "hundred", 100);
    add(&g, "Less", "i hundred", "goes", "", 0, NULL);
    add(&g, "Gather", "t i", "xi", "", 0, NULL);
    add(&g, "MatMul", "h w", "hw", "", 0, NULL);
    add(&g, "Add", "hw b.x", "hb", "", 0, NULL);
    add(&g, "Add", "hb xi", "sum", "", 0, NULL);
    add(&g, "Tanh", "sum", "next", "", 0, NULL);
    add(&g, "Identity", "next", "out", "", 0, NULL);
    value(&g, 12, cond, 0, none);
    value(&g, 12, "next", 2, state);
    value(&g, 12, "out", 2, state);
    return g;
}

/* y: the last state, or the state of every step */
static struct message graph(int64_t steps, const char *cond, bool all)
{
    static const int64_t turn[3] = {1, 0, 2}, every[3] = {0, STEPS, 2};
    struct message g = {.n = 0}, n = node("Loop", "l", "m yes first", "last states"), a = {.n = 0};
    struct message inner = body(cond);
    value(&g, 11, "x", 3, input);
    value(&g, 12, "y", all ? 3 : 2, all ? every : state);
    constant(&g, "w", 2, square, ramp, 0);
    constant(&g, "b.x", 1, row, zeros, 0);
    whole(&g, "m", steps);
    whole(&g, "yes", 1);
    whole(&g, "one", 1);
    add(&g, "Transpose", "x", "t", "perm", 3, turn);
    add(&g, "ReduceMean", "x one", "mean", "", 0, NULL);
    add(&g, "Squeeze", "mean one", "first", "", 0, NULL);
    text(&a, 1, "body");
    inside(&a, 6, &inner);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    add(&g, all ? "Transpose" : "Identity", all ? "states" : "last", "y", all ? "perm" : "",
        all ? 3 : 0, turn);
    return g;
}

static void test_steps_become_layers_that_share_their_weights(void **state_)
{
    (void)state_;
    for (uint32_t all = 0; all < 2; all++) {
        struct message g = graph(STEPS, "goes", all == 1);
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        uint32_t tanh_n = 0, told = 0;
        read_as(&c, &g, 18, &err);
        assert_string_equal(err.text, "");
        for (uint32_t i = 0; i < c.def.layers_n; i++) {
            tanh_n += c.def.layers[i].kind == UW_LAYER_TANH ? 1 : 0;
        }
        for (uint32_t i = 0; i < c.notes_n; i++) {
            told += strstr(c.notes[i], "the 3 steps of loop 'l' are layers") != NULL ? 1 : 0;
        }
        assert_int_equal(tanh_n, STEPS);
        assert_int_equal(told, 1);
        assert_int_equal(c.tensors_n, 2); /* zeros that several nodes read are else apart */
        uw_convert_deinit(&c);
    }
}

static void test_loop_without_a_known_end_is_refused(void **state_)
{
    (void)state_;
    struct message g = graph(1 << 20, "goes", false);
    expect(&g, 18, UW_ERR_SHAPE, "index 3 of 3");
    g = graph(STEPS, "next", false);
    expect(&g, 18, UW_ERR_UNSUPPORTED, "whether its next step follows depends on the sample");
}

static void test_loop_whose_body_does_not_fit_is_refused(void **state_)
{
    struct message g = {.n = 0}, n = node("Loop", "l", "m yes", "y"), a = {.n = 0};
    struct message inner = body("goes");
    (void)state_;
    value(&g, 11, "x", 3, input);
    value(&g, 12, "y", 2, state);
    whole(&g, "m", STEPS);
    whole(&g, "yes", 1);
    text(&a, 1, "body");
    inside(&a, 6, &inner);
    inside(&n, 5, &a);
    inside(&g, 1, &n);
    expect(&g, 18, UW_ERR_CORRUPT, "its body");
}

/* A GRU of two steps whose reset is before the product: R of z and r, R of the new state. */
static void test_gru_that_resets_first_is_layers_for_each_step(void **state_)
{
    static const int64_t turn[3] = {1, 0, 2}, w[3] = {1, 6, 2};
    static const float weights[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    (void)state_;
    for (int64_t after = 0; after < 2; after++) {
        struct message g = {.n = 0}, n = node("GRU", "gru", "t w r", "all last"), a = {.n = 0};
        struct message hidden = {.n = 0};
        struct uw_convert_model c;
        struct uw_error err = {.text = ""};
        uint32_t gru_n = 0, sigmoid_n = 0;
        value(&g, 11, "x", 3, input);
        value(&g, 12, "y", 2, state);
        constant(&g, "w", 3, w, weights, 0);
        constant(&g, "r", 3, w, weights, 0);
        whole(&g, "zero", 0);
        add(&g, "Transpose", "x", "t", "perm", 3, turn);
        text(&a, 1, "linear_before_reset");
        number(&a, 3, after);
        text(&hidden, 1, "hidden_size");
        number(&hidden, 3, 2);
        inside(&n, 5, &a);
        inside(&n, 5, &hidden);
        inside(&g, 1, &n);
        add(&g, "Squeeze", "last zero", "y", "", 0, NULL);
        read_as(&c, &g, 18, &err);
        assert_string_equal(err.text, "");
        for (uint32_t i = 0; i < c.def.layers_n; i++) {
            gru_n += c.def.layers[i].kind == UW_LAYER_GRU ? 1 : 0;
            sigmoid_n += c.def.layers[i].kind == UW_LAYER_SIGMOID ? 1 : 0;
        }
        assert_int_equal(gru_n, after);
        assert_int_equal(sigmoid_n, after == 1 ? 0 : 2 * STEPS - 1); /* r of no state is not used */
        assert_int_equal(c.tensors_n, after == 1 ? 2 : 3);
        uw_convert_deinit(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_become_layers_that_share_their_weights),
        cmocka_unit_test(test_loop_without_a_known_end_is_refused),
        cmocka_unit_test(test_gru_that_resets_first_is_layers_for_each_step),
        cmocka_unit_test(test_loop_whose_body_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
