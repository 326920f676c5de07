/* SPDX-License-Identifier: Apache-2.0 */
#include "test_support.h"

#include "base/args.h"
#include "base/json_read.h"

struct options {
    bool fast;
    const char *file;
    struct uw_choice rule;
    struct uw_phases period;
    uint32_t batch, classes, mtu;
    uint64_t seed, budget;
    double lr, loss;
    struct uw_opt_list peer;
};

static const struct uw_opt rows[] = {
    {"fast", UW_OPT_FLAG, offsetof(struct options, fast), 0, 0, NULL, "a flag"},
    {"file", UW_OPT_TEXT, offsetof(struct options, file), 0, 0, "FILE", "a text"},
    {"rule", UW_OPT_CHOICE, offsetof(struct options, rule), 0, 0, "none|qg", "a choice"},
    {"batch", UW_OPT_U32, offsetof(struct options, batch), 1, 0, "N", "a number"},
    {"seed", UW_OPT_U64, offsetof(struct options, seed), 0, 0, "N", "a number"},
    {"budget", UW_OPT_BYTES, offsetof(struct options, budget), 1, 0, "BYTES", "bytes"},
    {"lr", UW_OPT_REAL, offsetof(struct options, lr), 0, 0, "X", "a number"},
    {"emulate.loss", UW_OPT_REAL, offsetof(struct options, loss), 0, 1, "F", "a number"},
    {"classes", UW_OPT_BITS, offsetof(struct options, classes), 0, 0, "NUMBERS", "numbers"},
    {"peer", UW_OPT_LIST, offsetof(struct options, peer), 0, 0, "ADDRESS", "a list"},
    {"period", UW_OPT_U32_PHASES, offsetof(struct options, period), 1, 100, "T|auto", "or auto"},
    {"mtu", UW_OPT_BYTES_U32, offsetof(struct options, mtu), 51, 65507, "BYTES", "bytes"},
};
static const struct uw_opts opts = {rows, sizeof rows / sizeof rows[0]};
static const struct uw_args_spec spec = {.command = "test",
                                         .summary = "what it does",
                                         .usage = "[flags]",
                                         .example = "uwasa test",
                                         .opts = {rows, sizeof rows / sizeof rows[0]},
                                         .positional_max = 1};

#define ARGS_MAX 9
static int parse(struct options *o, const char **positional, const char *const *words)
{
    char *argv[ARGS_MAX] = {(char *)(uintptr_t) "test"};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    return uw_args_parse(&spec, argc, argv, o, positional);
}

static void test_args_every_kind_is_read(void **state)
{
    (void)state;
    struct options o = {.batch = 32};
    const char *positional[1] = {NULL};
    assert_int_equal(parse(&o, positional,
                           (const char *const[]){"--fast", "--batch=7", "--lr", "1e-3", "in.json",
                                                 "--rule", "qg", NULL}),
                     -1);
    assert_true(o.fast);
    assert_int_equal(o.batch, 7);
    assert_true(o.lr == 1e-3);
    assert_string_equal(o.rule.word, "qg");
    assert_int_equal(o.rule.at, 1);
    assert_string_equal(positional[0], "in.json");
    assert_int_equal(parse(&o, positional,
                           (const char *const[]){"--peer", "a:1", "--peer=b:2", "--budget", "3K",
                                                 "--seed=18446744073709551615",
                                                 "--classes", "0,31", NULL}),
                     -1);
    assert_int_equal(o.peer.n, 2);
    assert_int_equal(parse(&o, positional,
                           (const char *const[]){"--batch", "1.5e6", "--seed", "9e15", "--budget",
                                                 "1e0", NULL}),
                     -1);
    assert_int_equal(o.batch, 1500000);
    assert_true(o.seed == 9000000000000000u);
    assert_int_equal(o.budget, 1);
    assert_int_equal(parse(&o, positional,
                           (const char *const[]){"--budget", "3K", "--seed=18446744073709551615",
                                                 NULL}),
                     -1);
    assert_string_equal(o.peer.item[1], "b:2");
    assert_int_equal(o.budget, 3072);
    assert_true(o.classes == 0x80000001u);
    assert_true(o.seed == UINT64_MAX);
    assert_int_equal(parse(&o, positional, (const char *const[]){"--period", "auto", NULL}), -1);
    assert_true(o.period.automatic);
    assert_int_equal(parse(&o, positional, (const char *const[]){"--period=100", NULL}), -1);
    assert_false(o.period.automatic);
    assert_int_equal(o.period.n, 100);
    assert_int_equal(uw_phases_at(&o.period, 0.99), 100);
    assert_int_equal(parse(&o, positional,
                           (const char *const[]){"--period", "100:0.9,10:0.997,1", NULL}), -1);
    assert_int_equal(uw_phases_at(&o.period, 0.0), 100);
    assert_int_equal(uw_phases_at(&o.period, 0.899), 100);
    assert_int_equal(uw_phases_at(&o.period, 0.9), 10);
    assert_int_equal(uw_phases_at(&o.period, 0.997), 1);
    assert_int_equal(uw_phases_at(&o.period, 1.0), 1);
}

static void test_args_sizes_end_in_large_and_small_letters(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"7", 7}, {"3K", 3072}, {"3k", 3072}, {"2M", 2u << 20}, {"2m", 2u << 20},
                {"1G", 1u << 30}, {"1g", 1u << 30}};
    const char *const bad[] = {"k", "1kb", "1 k", "1K1", "1t", "1.5k", "20000000000g"};
    const struct uw_opt *budget = uw_opt_find(opts, "budget", 6);
    struct options o = {.batch = 32};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(uw_opt_set(budget, good[i].text, &o), UW_OK);
        assert_true(o.budget == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(uw_opt_set(budget, bad[i], &o), UW_ERR_INVALID);
    }
    const struct uw_opt *mtu = uw_opt_find(opts, "mtu", 3);
    assert_int_equal(uw_opt_set(mtu, "8k", &o), UW_OK);
    assert_int_equal(o.mtu, 8192);
    assert_int_equal(uw_opt_set(mtu, "64k", &o), UW_ERR_INVALID);
    assert_int_equal(uw_opt_set(mtu, "4194304k", &o), UW_ERR_INVALID);
}

static void test_args_mistakes_exit_with_two(void **state)
{
    (void)state;
    static const char *const bad[][4] = {
        {"--batch", "0"},       {"--batch", "-1"},      {"--batch", "4294967296"},
        {"--batch", "1.5"},     {"--batch", ""},        {"--batch", " 1"},
        {"--batch", "1e10"},    {"--batch", "1e-3"},    {"--batch", "15e"},
        {"--seed", "1e16"},     {"--seed", "1e999"},    {"--seed", "1e1K"},
        {"--batch"},            {"--bach", "1"},        {"--zzzzzz", "1"},
        {"--lr", "nan"},        {"--lr", "inf"},        {"--lr", "0x1p3"},
        {"--lr", "-0.1"},       {"--lr", "1e999"},      {"--rule", "q"},
        {"--rule", ""},         {"--rule", "none|qg"},  {"--file", ""},
        {"--fast=true"},        {"--budget", "3Q"},     {"--budget", "99999999999999G"},
        {"a", "b"},             {"-x"},                 {"--emulate.loss", "1.01"},
        {"--seed", "18446744073709551616"},             {"--classes", "0,,1"},
        {"--classes", "32"},    {"--classes", "1,"},    {"--classes", "-1"},
        {"--period", "0"},      {"--period", "101"},    {"--period", "4294967295"},
        {"--period", "Auto"},   {"--period", "auto1"},  {"--period", ""},
        {"--period", "5:0.5"},  {"--period", "5:0.5,"}, {"--period", "5:1,2"},
        {"--period", "5,2"},    {"--period", "5:0,2"},  {"--period", "9:0.5,4:0.4,1"},
        {"--period", "101:0.5,1"}, {"--period", "1:0.5,0"},
        {"--period", "9:.1,8:.2,7:.3,6:.4,5:.5,4:.6,3:.7,2:.8,1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct options o = {.batch = 32};
        const char *positional[1];
        assert_int_equal(parse(&o, positional, bad[i]), UW_EXIT_USAGE);
        assert_int_equal(o.batch, 32);
    }
}

static const char *hint(const char *word, const char *mark)
{
    static struct uw_guess g;
    g = (struct uw_guess){.word = word, .word_bytes = strlen(word)};
    uw_guess_opts(&g, &opts);
    return uw_guess_hint(&g, mark, ", there is none");
}

static void test_args_unknown_flag_names_the_nearest(void **state)
{
    (void)state;
    assert_string_equal(hint("bach", "--"), ", did you mean --batch?");
    assert_string_equal(hint("emulate.los", "\""), ", did you mean \"emulate.loss\"?");
    assert_string_equal(hint("completely-else", "--"), ", there is none");
    assert_string_equal(hint("", ""), ", there is none");
}

static void test_guess_prefers_swapped_letters_over_an_edit(void **state)
{
    (void)state;
    static const char *const wanted[][3] = {
        {"modle", "mode", "model"}, {"eopchs", "epoch", "epochs"}, {"tarin", "rain", "train"}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct uw_guess g = {.word = wanted[i][0], .word_bytes = strlen(wanted[i][0])};
        uw_guess_try(&g, wanted[i][1], strlen(wanted[i][1]));
        assert_ptr_equal(g.nearest, wanted[i][1]);
        uw_guess_try(&g, wanted[i][2], strlen(wanted[i][2]));
        assert_ptr_equal(g.nearest, wanted[i][2]);
        uw_guess_try(&g, wanted[i][1], strlen(wanted[i][1]));
        assert_ptr_equal(g.nearest, wanted[i][2]);
    }
    struct uw_guess two_swaps = {.word = "abdcfe", .word_bytes = 6};
    uw_guess_try(&two_swaps, "abcdef", 6);
    uw_guess_try(&two_swaps, "abdcfef", 7);  /* one letter left out is likelier than two swaps */
    assert_int_equal(two_swaps.nearest_bytes, 7);
    char longer[200];
    memset(longer, 'a', sizeof longer);
    struct uw_guess too_long = {.word = longer, .word_bytes = sizeof longer};
    uw_guess_try(&too_long, "aaaa", 4);
    assert_null(too_long.nearest);
}

static void test_args_allowed_sentences(void **state)
{
    (void)state;
    char text[160];
    uw_opt_allowed(&rows[3], text, sizeof text);
    assert_string_equal(text, "needs a whole number, 1 or more");
    uw_opt_allowed(&rows[2], text, sizeof text);
    assert_string_equal(text, "needs one of none qg");
    uw_opt_allowed(&rows[7], text, sizeof text);
    assert_string_equal(text, "needs a number from 0 to 1");
    uw_opt_allowed(&rows[10], text, sizeof text);
    assert_string_equal(text, "needs a whole number from 1 to 100, auto, or up to 8 phases such as "
                              "100:0.9,10");
}

static void test_assign_sets_keys_and_refuses_others(void **state)
{
    (void)state;
    struct options o = {.batch = 1};
    struct uw_error err;
    const struct uw_opt_given right = {"emulate.loss", "0.25", true};
    const struct uw_opt_given unknown = {"emulate.los=0.25", "0.25", false};
    const struct uw_opt_given wrong = {"batch=0", "0", false}, flag = {"batch", "0", true};
    assert_int_equal(uw_opt_assign(opts, &right, &o, &err), UW_OK);
    assert_true(o.loss == 0.25);
    assert_int_equal(uw_opt_assign(opts, &unknown, &o, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "did you mean emulate.loss?"));
    assert_int_equal(uw_opt_assign(opts, &wrong, &o, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "--set batch=0: needs a whole number, 1 or more");
    assert_int_equal(uw_opt_assign(opts, &flag, &o, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "--batch 0: needs a whole number, 1 or more");
}

static void read_config(const char *text, struct options *o, char *err)
{
    struct uw_json j;
    if (uw_json_open_text(&j, "c.json", text, strlen(text)) == UW_OK) {
        uw_json_options(&j, j.root, opts, o);
    }
    snprintf(err, UW_ERROR_TEXT_BYTES, "%s", j.err.text);
    uw_json_close(&j);
}

static void test_config_refuses_a_text_that_would_be_cut(void **state)
{
    (void)state;
    struct options o = {.batch = 1};
    char err[UW_ERROR_TEXT_BYTES];
    read_config("{\n\"peer\": [\"a\\u0000b\"]}", &o, err);
    assert_string_equal(err, "c.json:2: a text with the character 0 is not allowed");
    read_config("{\"batch\\u0000\": 2}", &o, err);
    assert_string_equal(err, "c.json:1: a text with the character 0 is not allowed");
    read_config("{\"peer\": [\"a\\\\u0000b\", \"\\u00001\"]}", &o, err);
    assert_non_null(strstr(err, "the character 0"));
    read_config("{\"peer\": [\"a\\\\u0000b\"]}", &o, err);
    assert_string_equal(err, "");
    struct uw_json j;
    assert_int_equal(uw_json_open_text(&j, "c.json", "{\"peer\": [\"a\0b\"]}", 17),
                     UW_ERR_CORRUPT);
    uw_json_close(&j);
}

static void test_config_reads_every_kind(void **state)
{
    (void)state;
    struct options o = {.batch = 1};
    char err[UW_ERROR_TEXT_BYTES];
    read_config("{\"fast\": true, \"batch\": 1e2, \"lr\": 0.1, \"budget\": \"2M\",\n"
                "\"emulate\": {\"loss\": 0.2}, \"peer\": [\"a\", \"b\"], \"classes\": [0, 5]}",
                &o, err);
    assert_string_equal(err, "");
    assert_true(o.fast);
    assert_int_equal(o.batch, 100);
    assert_true(o.lr == 0.1);
    assert_true(o.loss == 0.2);
    assert_int_equal(o.budget, 2u << 20);
    assert_int_equal(o.peer.n, 2);
    assert_int_equal(o.classes, 0x21);
    read_config("{\"seed\": \"18446744073709551615\"}", &o, err);
    assert_string_equal(err, "");
    assert_true(o.seed == UINT64_MAX);
    read_config("{\"seed\": 9007199254740992}", &o, err);
    assert_string_equal(err, "");
    assert_true(o.seed == UINT64_C(1) << 53);
    read_config("{\"classes\": \"1,2\"}", &o, err);
    assert_string_equal(err, "");
    assert_int_equal(o.classes, 6);
    read_config("{\"period\": \"auto\"}", &o, err);
    assert_string_equal(err, "");
    assert_true(o.period.automatic);
    read_config("{\"period\": 7}", &o, err);
    assert_false(o.period.automatic);
    assert_int_equal(o.period.n, 7);
}

static void test_config_mistakes_name_line_and_key(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"{\n\"batch\":\n 0}", "c.json:2: \"batch\" needs a whole number, 1 or more"},
        {"{\"batch\": \"3\"}", "c.json:1: \"batch\" needs a whole number, 1 or more"},
        {"{\"period\": \"7x\"}", "c.json:1: \"period\" needs a whole number from 1 to 100, auto, "
                                  "or up to 8 phases such as 100:0.9,10"},
        {"{\"lr\": 1,\n\n\"bach\": 1}", "c.json:3: unknown key \"bach\", did you mean \"batch\"?"},
        {"{\"emulate\": {\"loss\": 0,\n \"los\": 1}}",
         "c.json:2: unknown key \"emulate.los\", did you mean \"emulate.loss\"?"},
        {"{\"peer\": [\"a\",\n 3]}", "c.json:2: \"peer\" needs 1 to 64 texts that are not empty"},
        {"{\"classes\": [1, 32]}",
         "c.json:1: \"classes\" needs whole numbers from 0 to 31, [0, 2] or \"0,2\""},
        {"{\"classes\": []}",
         "c.json:1: \"classes\" needs whole numbers from 0 to 31, [0, 2] or \"0,2\""},
        {"{\"seed\": 9007199254740994}", "c.json:1: \"seed\" needs quotes above "
                                         "9007199254740992, where JSON's numbers are not exact"},
        {"{\"lr\": 1,\n \"lr\": 2}", "c.json:2: key \"lr\" comes twice"},
        {"[1, 2]", "c.json:1: needs an object {...}"},
        {"{\"batch\": 1,\n", "c.json:2: not valid JSON: it ends too early"},
        {"{\n\"batch\" 1}", "c.json:2: not valid JSON near \"1}\""},
        {"{} x", "c.json:1: not valid JSON near \"x\""},
        {"", "c.json:1: not valid JSON: it ends too early"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct options o = {.batch = 1};
        char err[UW_ERROR_TEXT_BYTES];
        read_config(bad[i][0], &o, err);
        assert_string_equal(err, bad[i][1]);
    }
}

/* What an option says of itself sets it again, to the last bit of a number. */
static void test_opt_text_reads_back(void **state)
{
    (void)state;
    static const char *const given[][2] = {
        {"fast", "true"}, {"file", "a b.csv"}, {"rule", "qg"}, {"batch", "4294967295"},
        {"seed", "18446744073709551615"}, {"budget", "8388608"}, {"lr", "0.1"},
        {"lr", "0.30000000000000004"}, {"lr", "1e+300"}, {"emulate.loss", "0.015625"},
        {"period", "auto"}, {"period", "12"}, {"period", "100:0.9,10:0.997,1"}};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        const struct uw_opt *o = uw_opt_find(opts, given[i][0], strlen(given[i][0]));
        struct options set = {.fast = false};
        char text[64];
        assert_int_equal(uw_opt_set(o, given[i][1], &set), UW_OK);
        uw_opt_text(o, &set, text, sizeof text);
        assert_string_equal(text, given[i][1]);
    }
    struct options none = {.classes = 5};
    char text[4];
    uw_opt_text(uw_opt_find(opts, "file", 4), &none, text, sizeof text);
    assert_string_equal(text, "");
    uw_opt_text(uw_opt_find(opts, "classes", 7), &none, text, sizeof text);
    assert_string_equal(text, "5");
    none.rule.word = "exponential";
    uw_opt_text(uw_opt_find(opts, "rule", 4), &none, text, sizeof text);
    assert_string_equal(text, "exp");       /* cut to fit */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_args_every_kind_is_read),
        cmocka_unit_test(test_args_sizes_end_in_large_and_small_letters),
        cmocka_unit_test(test_opt_text_reads_back),
        cmocka_unit_test(test_args_mistakes_exit_with_two),
        cmocka_unit_test(test_args_unknown_flag_names_the_nearest),
        cmocka_unit_test(test_guess_prefers_swapped_letters_over_an_edit),
        cmocka_unit_test(test_args_allowed_sentences),
        cmocka_unit_test(test_assign_sets_keys_and_refuses_others),
        cmocka_unit_test(test_config_reads_every_kind),
        cmocka_unit_test(test_config_refuses_a_text_that_would_be_cut),
        cmocka_unit_test(test_config_mistakes_name_line_and_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
