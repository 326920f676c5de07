/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <string.h>

static cJSON *parse(const char *text, const char **end)
{
    return cJSON_ParseWithLengthOpts(text, strlen(text) + 1, end, 1);
}

/* Read, and written again. */
static void assert_written(const char *text, const char *wanted)
{
    const char *end;
    cJSON *tree = parse(text, &end);
    assert_non_null(tree);
    char *out = cJSON_PrintUnformatted(tree);
    assert_string_equal(out, wanted);
    cJSON_free(out);
    cJSON_Delete(tree);
}

static void test_json_reads_back_what_it_writes(void **state)
{
    (void)state;
    assert_written("{}", "{}");
    assert_written(" [ ]\n", "[]");
    assert_written("\xef\xbb\xbf{\"a\": [1, -2.5, 1e3, 0.1], \"b\": {\"c\": null}}",
                   "{\"a\":[1,-2.5,1000,0.1],\"b\":{\"c\":null}}");
    assert_written("[true, false, \"\\u00e9\\ud83d\\ude00\\n\\/\\\"\"]",
                   "[true,false,\"\xc3\xa9\xf0\x9f\x98\x80\\n/\\\"\"]");
    assert_written("\"\\u0001\"", "\"\\u0001\"");
    assert_written("0.30000000000000004", "0.30000000000000004");
    assert_written("9007199254740992", "9007199254740992");
}

static void test_json_refuses_what_is_none_and_says_where(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        long at;                /* of the mistake; -1: anywhere */
    } wrong[] = {
        {"", 0}, {"{", 1}, {"[1,]", 3}, {"{\"a\":1,}", 7}, {"{\"a\" 1}", 5}, {"[1 2]", 3},
        {"tru", 0}, {"nul", 0}, {"01x", 2}, {"-", -1}, {"1.", -1}, {"1e", -1}, {"\"abc", -1},
        {"\"\\x\"", -1}, {"\"\\u12g4\"", -1}, {"\"\\ud800\"", -1}, {"{\"a\":1} x", 8}, {"{a:1}", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *end = NULL;
        cJSON *tree = parse(wrong[i].text, &end);
        assert_null(tree);
        assert_true(end >= wrong[i].text && end <= wrong[i].text + strlen(wrong[i].text));
        assert_true(wrong[i].at < 0 || end - wrong[i].text == wrong[i].at);
    }
}

static void test_json_ends_at_every_cut_without_reading_behind_it(void **state)
{
    (void)state;
    static const char whole[] = "{\"name\":\"a\\u00e9\",\"n\":[1,2.5e-3,{\"x\":true}],\"z\":null}";
    for (size_t n = 0; n < strlen(whole); n++) {
        char *cut = malloc(n + 1);      /* the sanitizer watches its end */
        assert_non_null(cut);
        memcpy(cut, whole, n);
        assert_null(cJSON_ParseWithLengthOpts(cut, n, NULL, 1));
        cut[n] = '\0';
        assert_null(cJSON_ParseWithLengthOpts(cut, n + 1, NULL, 1));
        free(cut);
    }
}

static void test_json_refuses_too_deep_a_nest(void **state)
{
    (void)state;
    char deep[2 * CJSON_NESTING_LIMIT + 3];
    memset(deep, '[', CJSON_NESTING_LIMIT + 1);
    memset(deep + CJSON_NESTING_LIMIT + 1, ']', CJSON_NESTING_LIMIT + 1);
    deep[2 * CJSON_NESTING_LIMIT + 2] = '\0';
    assert_null(parse(deep, NULL));
    deep[2 * CJSON_NESTING_LIMIT + 1] = '\0';   /* without the outermost pair */
    cJSON *tree = parse(deep + 1, NULL);
    assert_non_null(tree);
    cJSON_Delete(tree);
}

static void test_json_objects_are_built_and_looked_up(void **state)
{
    (void)state;
    const double x[3] = {1.0, 0.5, NAN};
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "s", "a\tb");
    cJSON_AddNumberToObject(o, "n", 12.0);
    cJSON_AddBoolToObject(o, "t", 1);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(o, "o"), "inf", INFINITY);
    assert_true(cJSON_AddItemToObject(o, "x", cJSON_CreateDoubleArray(x, 3)));
    char *out = cJSON_PrintUnformatted(o);
    assert_string_equal(out, "{\"s\":\"a\\tb\",\"n\":12,\"t\":true,\"o\":{\"inf\":null},"
                             "\"x\":[1,0.5,null]}");
    cJSON_free(out);
    assert_int_equal(cJSON_GetArraySize(o), 5);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetArrayItem(o, 0)), "a\tb");
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(o, "t")));
    assert_null(cJSON_GetObjectItemCaseSensitive(o, "T"));
    assert_null(cJSON_GetArrayItem(o, 5));
    cJSON_Delete(o);
    assert_int_equal(cJSON_GetArraySize(NULL), 0);
    assert_false(cJSON_IsNumber(NULL));
    cJSON_Delete(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_reads_back_what_it_writes),
        cmocka_unit_test(test_json_refuses_what_is_none_and_says_where),
        cmocka_unit_test(test_json_ends_at_every_cut_without_reading_behind_it),
        cmocka_unit_test(test_json_refuses_too_deep_a_nest),
        cmocka_unit_test(test_json_objects_are_built_and_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
