/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "model_json.h"

static int parse(struct uw_model_file *m, const char *text, struct uw_error *err)
{
    return uw_model_parse(m, "m.json", text, strlen(text), err);
}

static void test_builtins_all_parse(void **state)
{
    (void)state;
    assert_true(uw_model_builtins_n >= 3);
    for (uint32_t i = 0; i < uw_model_builtins_n; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_model_load(&m, uw_model_builtins[i].name, &err), UW_OK);
        assert_string_equal(m.def.name, uw_model_builtins[i].name);
        uw_model_file_deinit(&m);
        uw_model_file_deinit(&m);
    }
}

static void test_model_every_key_is_read(void **state)
{
    (void)state;
    struct uw_model_file m;
    struct uw_error err;
    assert_int_equal(
        parse(&m,
              "{\"name\": \"t\", \"input\": [3, 8, 9], \"layers\": [\n"
              "{\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 4, \"kernel\": [3, 5],"
              " \"stride\": 2, \"padding\": [1, 0], \"bias\": false},\n"
              "{\"name\": \"p\", \"type\": \"maxpool2d\", \"kernel\": 2, \"stride\": [1, 2]},\n"
              "{\"name\": \"r\", \"type\": \"relu\", \"inputs\": [\"c\"]},\n"
              "{\"name\": \"a\", \"type\": \"add\", \"inputs\": [\"r\", \"c\"]},\n"
              "{\"name\": \"f\", \"type\": \"flatten\"},\n"
              "{\"name\": \"d\", \"type\": \"dense\", \"out\": 2, \"bias\": true}]}",
              &err),
        UW_OK);
    assert_int_equal(m.def.in_channels, 3);
    assert_int_equal(m.def.in_h, 8);
    assert_int_equal(m.def.in_w, 9);
    assert_int_equal(m.def.layers_n, 6);
    const struct uw_layer_def *l = m.def.layers;
    assert_int_equal(l[0].kind, UW_LAYER_CONV2D);
    assert_int_equal(l[0].conv2d.kernel_h, 3);
    assert_int_equal(l[0].conv2d.kernel_w, 5);
    assert_int_equal(l[0].conv2d.stride_w, 2);
    assert_int_equal(l[0].conv2d.pad_h, 1);
    assert_int_equal(l[0].conv2d.pad_w, 0);
    assert_true(l[0].conv2d.no_bias);
    assert_int_equal(l[1].pool2d.stride_h, 1);
    assert_int_equal(l[1].pool2d.stride_w, 2);
    assert_string_equal(l[2].inputs[0], "c");
    assert_null(l[2].inputs[1]);
    assert_string_equal(l[3].inputs[1], "c");
    assert_int_equal(l[5].dense.out, 2);
    assert_false(l[5].dense.no_bias);
    uw_model_file_deinit(&m);
}

#define HEAD "{\"name\": \"t\", \"input\": [4],\n \"layers\": [\n  "

static void test_model_mistakes_name_line_and_what_is_allowed(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"[]", "m.json:1: a model needs an object {...}"},
        {"{\"name\": \"t\",\n\"input\": [4]}", "m.json:1: key \"layers\" is missing here"},
        {"{\"name\": \"t\", \"layer\": []}",
         "m.json:1: unknown key \"layer\" in a model, did you mean \"layers\"?"},
        {"{\"name\": \"t\", \"input\": [4],\n\"layers\": []}",
         "m.json:2: \"layers\" needs an array of 1 to 4096 layers"},
        {"{\"name\": \"t\",\n \"input\": [4, 4], \"layers\": [1]}",
         "m.json:2: \"input\" needs [channels, height, width] or [features]"},
        {"{\"name\": \"t\",\n \"input\": [0], \"layers\": [1]}",
         "m.json:2: \"input\" needs a whole number from 1 to 16777216"},
        {HEAD "7]}", "m.json:3: a layer needs an object {...}"},
        {HEAD "{\"type\": \"relu\"}]}", "m.json:3: key \"name\" is missing here"},
        {HEAD "{\"name\": \"d\",\n   \"type\": \"dens\"}]}",
         "m.json:4: unknown layer type \"dens\"; allowed: conv2d dense maxpool2d relu flatten "
         "add"},
        {HEAD "{\"name\": \"d\", \"type\": \"dense\"}]}",
         "m.json:3: key \"out\" is missing here"},
        {HEAD "{\"name\": \"d\", \"type\": \"dense\",\n   \"out\": 2.5}]}",
         "m.json:4: \"out\" needs a whole number from 1 to 16777216"},
        {HEAD "{\"name\": \"d\", \"type\": \"dense\",\n \"out\": 2, \"bais\": true}]}",
         "m.json:4: unknown key \"bais\" in a dense layer, did you mean \"bias\"?"},
        {HEAD "{\"name\": \"d\", \"type\": \"dense\", \"out\": 2,\n \"bias\": 1}]}",
         "m.json:4: \"bias\" needs true or false"},
        {HEAD "{\"name\": \"c\", \"type\": \"conv2d\", \"out_channels\": 2,\n\"kernel\": [1]}]}",
         "m.json:4: \"kernel\" needs one number or [height, width]"},
        {HEAD "{\"name\": \"r\", \"type\": \"relu\",\n\"inputs\": []}]}",
         "m.json:4: \"inputs\" needs an array of 1 to 8 layer names"},
        {HEAD "{\"name\": \"r\", \"type\": \"relu\", \"inputs\": [\"a\",\n2]}]}",
         "m.json:4: \"inputs\" needs names of layers"},
        {HEAD "{\"name\": \"r\", \"type\": \"relu\",\n\"name\": \"r\"}]}",
         "m.json:4: key \"name\" comes twice"},
        {HEAD "{\"name\": \"a\", \"type\": \"add\"}]}",
         "m.json:3: key \"inputs\" is missing here"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_true(parse(&m, bad[i][0], &err) < 0);
        assert_string_equal(err.text, bad[i][1]);
        uw_model_file_deinit(&m);
    }
}

static void test_model_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const char *text = uw_model_builtin_find("lenet5")->text;
    size_t end = strlen(text);
    while (text[end - 1u] != '}') {
        end--;
    }
    for (size_t n = 0; n < end; n++) {
        struct uw_model_file m;
        struct uw_error err = {.text = ""};
        assert_int_equal(uw_model_parse(&m, "m.json", text, n, &err), UW_ERR_CORRUPT);
        assert_memory_equal(err.text, "m.json:", 7);
    }
}

static void test_model_unknown_name_suggests_the_nearest(void **state)
{
    (void)state;
    struct uw_model_file m;
    struct uw_error err;
    assert_int_equal(uw_model_load(&m, "lennet5", &err), UW_ERR_NOTFOUND);
    assert_string_equal(err.text,
                        "lennet5: no such file and no built-in model, did you mean lenet5?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtins_all_parse),
        cmocka_unit_test(test_model_every_key_is_read),
        cmocka_unit_test(test_model_mistakes_name_line_and_what_is_allowed),
        cmocka_unit_test(test_model_cut_anywhere_is_refused),
        cmocka_unit_test(test_model_unknown_name_suggests_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
