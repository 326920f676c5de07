/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenario files: what they say, and what is said of mistakes in them. */
#include "test_support.h"
#include "sim/sim.h"
#include "sim/sim_file.h"

static const struct uw_sim_cost cost = {.measured_us = 1000, .multiply_adds = 3000000};
static const struct uw_sim_options nothing = {
    .bandwidth = UINT64_MAX, .latency = -1.0, .loss = -1.0, .step_seconds = -1.0};

static int parse(struct uw_sim_file *f, const char *text, struct uw_sim_options *o,
                 struct uw_error *err)
{
    *o = (struct uw_sim_options){.seed = 1};
    *err = (struct uw_error){.text = ""};
    return uw_sim_file_parse(f, "s.json", text, strlen(text), uw_sim_flags, o, err);
}

static void draw(struct uw_sim_draw *d, struct uw_sim_file *f, uint64_t seed)
{
    struct uw_error err = {.text = ""};
    f->scenario.seed = seed;
    assert_int_equal(uw_sim_draw_open(d, &f->scenario, &cost, &err), UW_OK);
}

static const struct {
    const char *text, *sentence;
} mistakes[] = {
    {"[]", "a scenario needs an object {...}"},
    {"{\"model\": \"mlp\",\n\"nodse\": 4}", "s.json:2: unknown key \"nodse\", did you mean "
                                            "\"nodes\"?"},
    {"{\"momentum-rule\": \"qg\"}", "unknown key \"momentum-rule\", did you mean "
                                    "\"momentum_rule\"?"},
    {"{\"json\": \"-\"}", "unknown key \"json\""},
    {"{\"step_seconds\": 1}", "unknown key \"step_seconds\": use \"step\": {\"seconds\": ...}"},
    {"{\"cell_nodes\": 4}", "unknown key \"cell_nodes\": use \"cells\": {\"nodes\": ...}"},
    {"{\"lr\": \"fast\"}", "\"lr\" needs a number"},
    {"{\"exchange\": \"mail\"}", "\"exchange\" needs one of gossip"},
    {"{\"lr\": 1, \"lr\": 2}", "key \"lr\" comes twice"},
    {"{\"nodes\": 0}", "\"nodes\" needs a whole number from 1"},
    {"{\"nodes\": 2.5}", "\"nodes\" needs a whole number"},
    {"{\"nodes\": []}", "\"nodes\" needs one group at least"},
    {"{\"nodes\": [3]}", "\"nodes[0]\" needs an object"},
    {"{\"nodes\": [{}, {\"count\": -1}]}", "\"nodes[1].count\" needs a whole number"},
    {"{\"nodes\": [{\"cuont\": 1}]}", "unknown key \"cuont\" in \"nodes[0]\", did you mean "
                                      "\"count\"?"},
    {"{\"nodes\": [{\"name\": \"\"}]}", "\"nodes[0].name\" needs a text"},
    {"{\"nodes\": [{\"lr\": 1}]}", "unknown key \"lr\" in \"nodes[0]\""},
    {"{\"device\": \"cortex-m8\"}", "\"device\" cortex-m8 is no known device, did you mean "
                                    "\"cortex-m7\"?"},
    {"{\"device\": \"abacus\"}", "uwasa sim --devices lists them"},
    {"{\"bandwidth\": 50}", "\"bandwidth\" needs a number from 100 to 1e+12 (0: unlimited), or "
                            "one of {\"uniform\""},
    {"{\"bandwidth\": \"1 Mbit/s\"}", "\"bandwidth\" needs a number"},
    {"{\"bandwidth\": {\"up\": 1e6, \"dwon\": 1}}", "unknown key \"dwon\" in \"bandwidth\", did "
                                                    "you mean \"down\"?"},
    {"{\"bandwidth\": {\"up\": {\"uniform\": [2e6, 1e6]}}}",
     "\"bandwidth.up.uniform\" needs [from, to], two numbers from 100 to 1e+12, the smaller "
     "first"},
    {"{\"bandwidth\": {\"uniform\": [0, 1e6]}}", "\"bandwidth.uniform\" needs [from, to]"},
    {"{\"bandwidth\": {\"uniform\": [1e6, 2e6, 3e6]}}", "\"bandwidth.uniform\" needs"},
    {"{\"latency\": -1}", "\"latency\" needs a number from 0 to 3600, or one of"},
    {"{\"latency\": {\"normal\": 1}}", "unknown key \"normal\" in \"latency\""},
    {"{\"latency\": {}}", "\"latency\" needs exactly one of uniform|log-normal|values"},
    {"{\"latency\": {\"log-normal\": {\"median\": 1}}}",
     "\"latency.log-normal\" needs \"sigma\" (of the natural logarithm) or \"decades\""},
    {"{\"latency\": {\"log-normal\": {\"sigma\": 1}}}",
     "\"latency.log-normal.median\" is missing, needs a number"},
    {"{\"latency\": {\"log-normal\": {\"median\": 1, \"sigma\": 1, \"decades\": 1}}}",
     "\"latency.log-normal\" needs \"sigma\""},
    {"{\"latency\": {\"log-normal\": {\"median\": 1, \"decades\": 11}}}",
     "\"latency.log-normal.decades\" needs a number from 0 to 10"},
    {"{\"latency\": {\"values\": []}}", "\"latency.values\" needs 1 to 64 numbers"},
    {"{\"latency\": {\"values\": [1, \"2\"]}}", "\"latency.values\" needs 1 to 64 numbers"},
    {"{\"loss\": 1.5}", "\"loss\" needs a number from 0 to 1"},
    {"{\"step\": 0.1}", "\"step\" needs an object {...} with seconds|measured|device"},
    {"{\"step\": {\"seconds\": 1, \"measured\": true}}",
     "\"step\" needs exactly one of seconds|measured|device"},
    {"{\"step\": {\"measured\": false}}", "\"step.measured\" needs true"},
    {"{\"step\": {\"seconds\": 0}}", "\"step.seconds\" needs a number from 1e-06"},
    {"{\"step\": {\"device\": \"phon\"}}", "\"step.device\" phon is no known device, did you "
                                           "mean \"phone\"?"},
    {"{\"speed\": 0}", "\"speed\" needs a number from 1e-06"},
    {"{\"stragglers\": {\"share\": 0.1}}", "\"stragglers.factor\" is missing, needs a number "
                                           "from 1"},
    {"{\"stragglers\": {\"share\": 2, \"factor\": 10}}", "\"stragglers.share\" needs a number "
                                                         "from 0 to 1"},
    {"{\"availability\": {\"diurnal\": {\"period\": 100, \"up\": 0.5, \"spread\": 101}}}",
     "\"availability.diurnal.spread\" needs a number from 0 to 100"},
    {"{\"availability\": {\"churn\": {\"up\": 10}}}",
     "\"availability.churn.down\" is missing, needs a number"},
    {"{\"availability\": {\"always\": 1}}", "\"availability.always\" needs true"},
    {"{\"availability\": {\"trace\": \"nowhere.csv\"}}",
     "\"availability.trace\" nowhere.csv cannot be read"},
    {"{\"cells\": {}}", "\"cells\" needs exactly one of \"nodes\" (of a cell), \"count\""},
    {"{\"cells\": {\"nodes\": 4, \"count\": 2}}", "\"cells\" needs exactly one of"},
    {"{\"cells\": {\"nodes\": 0}}", "\"cells.nodes\" needs a whole number from 1"},
    {"{\"cells\": {\"sizes\": [4, 0]}}", "\"cells.sizes[1]\" needs a whole number from 1"},
    {"{\"cells\": {\"sizes\": 4}}", "\"cells.sizes\" needs an array"},
    {"{\"cells\": {\"nodes\": 4, \"deal\": \"at random\"}}", "\"cells.deal\" needs neighbours or "
                                                             "turns"},
    {"{\"cells\": {\"sizes\": [4], \"deal\": \"turns\"}}", "\"cells.deal\" turns is not for"},
    {"{\"cells\": {\"nodes\": 4, \"shared\": 1}}", "\"cells.shared\" needs true or false"},
    {"{\"cells\": {\"nodes\": 4, \"shared\": true}}", "\"cells\" needs \"bandwidth\": the rate "
                                                      "of the channel"},
    {"{\"radio\": {\"nodes\": 4}}", "\"radio\" needs \"bandwidth\""},
    {"{\"radio\": {\"nodes\": 4, \"shared\": true, \"bandwidth\": 1e6}}",
     "unknown key \"shared\" in \"radio\""},
    {"{\"radio\": {\"nodes\": 4, \"bandwidth\": 1e6}, \"cells\": {\"nodes\": 4}}",
     "\"cells\" and \"radio\": give one of them"},
    {"{\"cells\": {\"nodes\": 2}, \"nodes\": [{\"count\": 4, \"cells\": {\"nodes\": 2}}]}",
     "\"nodes[0].cells\" is given for the whole fleet already"},
    {"{\"stragglers\": {\"share\": 0.5, \"factor\": 2}, \"nodes\": [{}, {\"stragglers\": "
     "{\"share\": 0.5, \"factor\": 2}}]}", "\"nodes[1].stragglers\" is given for the whole"},
};

static void test_mistakes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        struct uw_sim_file f;
        struct uw_sim_options o;
        struct uw_error err;
        int rc = parse(&f, mistakes[i].text, &o, &err);
        if (rc >= 0 || strstr(err.text, mistakes[i].sentence) == NULL ||
            strncmp(err.text, "s.json:", 7) != 0) {
            print_error("%s\n    gives %s\n", mistakes[i].text, err.text);
            fail();
        }
        uw_sim_file_close(&f);
        uw_sim_file_close(&f);
    }
}

static void test_keys_are_the_flags(void **state)
{
    (void)state;
    struct uw_sim_file f;
    struct uw_sim_options o;
    struct uw_error err;
    assert_int_equal(parse(&f, "{\"model\": \"mlp\", \"momentum_rule\": \"none\", \"lr\": 0.25,"
                               "\"until_accuracy\": 0.5, \"seed\": \"18446744073709551615\","
                               "\"consensus_rounds\": 0, \"skew\": \"sorted\", \"per_node\": true}",
                           &o, &err), UW_OK);
    assert_string_equal(o.model, "mlp");
    assert_string_equal(o.exchange.rule_word.word, "none");
    assert_true(o.lr == 0.25 && o.until_accuracy == 0.5 && o.seed == UINT64_MAX);
    char text[128];
    assert_string_equal(uw_sim_file_where(&f, "skew", o.skew, text, sizeof text),
                        "s.json:1: \"skew\" sorted");
    assert_string_equal(uw_sim_file_where(&f, "skew", "even", text, sizeof text), "--skew even");
    assert_string_equal(uw_sim_file_where(&f, "until-accuracy", "0.5", text, sizeof text),
                        "s.json:1: \"until_accuracy\" 0.5");
    assert_string_equal(uw_sim_file_where(&f, "until-accuracy", "0.25", text, sizeof text),
                        "--until-accuracy 0.25");
    assert_string_equal(uw_sim_file_where(&f, "per-node", "true", text, sizeof text),
                        "s.json:1: \"per_node\" true");
    assert_string_equal(uw_sim_file_where(&f, "period", "5", text, sizeof text), "--period 5");
    uw_sim_file_close(&f);
}

static void test_groups_take_what_the_file_says_of_all(void **state)
{
    (void)state;
    struct uw_sim_file f;
    struct uw_sim_options o;
    struct uw_error err;
    assert_int_equal(parse(&f,
        "{\"latency\": 0.2, \"bandwidth\": 5e6, \"loss\": 0.5, \"device\": \"cortex-m7\","
        " \"nodes\": [{\"count\": 3}, {\"count\": 2, \"device\": \"raspberry-pi-4\"},"
        " {\"name\": \"x\", \"bandwidth\": {\"up\": 1e6}, \"loss\": 0,"
        "  \"step\": {\"seconds\": 2}, \"speed\": 4}]}", &o, &err), UW_OK);
    struct uw_sim_draw d;
    draw(&d, &f, 1);
    assert_int_equal(d.fleet.devices_n, 6);
    assert_string_equal(f.scenario.groups[0].name, "cortex-m7");
    assert_string_equal(f.scenario.groups[1].name, "raspberry-pi-4");
    assert_string_equal(f.scenario.groups[2].name, "x");
    assert_int_equal(d.fleet.devices[4].up_bits_per_s, 5000000);    /* said, not the device's own */
    assert_int_equal(d.fleet.devices[4].down_bits_per_s, 5000000);
    assert_int_equal(d.fleet.devices[5].up_bits_per_s, 1000000);
    assert_int_equal(d.fleet.devices[5].down_bits_per_s, 0);
    assert_int_equal(d.fleet.devices[5].step_us, 500000);
    assert_int_equal(d.fleet.devices[5].latency_us, 100000);
    assert_true(d.fleet.devices[0].loss == 0.5f && d.fleet.devices[5].loss == 0.0f);
    assert_true(d.fleet.devices[0].step_us > 10u * d.fleet.devices[4].step_us);
    uw_sim_draw_close(&d);
    uw_sim_file_close(&f);
}

static void test_a_device_brings_its_link_where_none_is_said(void **state)
{
    (void)state;
    struct uw_sim_file f;
    struct uw_sim_options o;
    struct uw_error err;
    struct uw_sim_draw d;
    assert_int_equal(parse(&f, "{\"nodes\": [{\"device\": \"esp32-s3\"}, {\"device\": \"phone\"}]}",
                           &o, &err), UW_OK);
    draw(&d, &f, 1);
    assert_int_equal(d.fleet.devices[0].up_bits_per_s, 20000000);
    assert_int_equal(d.fleet.devices[0].down_bits_per_s, 20000000);
    assert_int_equal(d.fleet.devices[1].up_bits_per_s, UW_SIM_BANDWIDTH);
    assert_int_equal(d.fleet.devices[1].down_bits_per_s, 0);
    uw_sim_draw_close(&d);
    uw_sim_file_close(&f);
}

static void test_the_order_of_keys_does_not_matter(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"nodes\": 20, \"latency\": {\"uniform\": [0.1, 0.2]}, \"bandwidth\": "
        "{\"log-normal\": {\"median\": 1e6, \"decades\": 2}}, \"stragglers\": {\"share\": 0.3,"
        " \"factor\": 2}, \"step\": {\"seconds\": {\"uniform\": [1, 2]}}, \"device\": \"phone\"}",
        "{\"device\": \"phone\", \"step\": {\"seconds\": {\"uniform\": [1, 2]}}, \"stragglers\": "
        "{\"factor\": 2, \"share\": 0.3}, \"bandwidth\": {\"log-normal\": {\"decades\": 2, "
        "\"median\": 1e6}}, \"latency\": {\"uniform\": [0.1, 0.2]}, \"nodes\": 20}"};
    struct uw_sim_file f[2];
    struct uw_sim_draw d[2];
    struct uw_sim_options o;
    struct uw_error err;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(parse(&f[i], texts[i], &o, &err), UW_OK);
        draw(&d[i], &f[i], uw_test_seed(7));
    }
    for (uint32_t i = 0; i < 20; i++) {
        assert_memory_equal(&d[0].fleet.devices[i], &d[1].fleet.devices[i],
                            sizeof d[0].fleet.devices[i]);
    }
    for (int i = 0; i < 2; i++) {
        uw_sim_draw_close(&d[i]);
        uw_sim_file_close(&f[i]);
    }
}

static void test_flags_win(void **state)
{
    (void)state;
    struct uw_sim_file f;
    struct uw_sim_options o;
    struct uw_error err;
    struct uw_sim_draw d;
    struct uw_sim_options said = {.nodes = 5, .bandwidth = 3000, .latency = 1.0, .loss = 0.25,
                                  .step_seconds = 0.5};
    assert_int_equal(parse(&f, "{\"nodes\": 9, \"bandwidth\": 1e6, \"latency\": 0.5,"
                               "\"loss\": 0.5, \"device\": \"phone\"}", &o, &err), UW_OK);
    assert_int_equal(uw_sim_file_flags(&f, &said, false, &err), UW_OK);
    draw(&d, &f, 1);
    assert_int_equal(d.fleet.devices_n, 5);
    assert_int_equal(d.fleet.devices[4].up_bits_per_s, 3000);
    assert_int_equal(d.fleet.devices[4].down_bits_per_s, 0);
    assert_int_equal(d.fleet.devices[4].latency_us, 500000);
    assert_int_equal(d.fleet.devices[4].step_us, 500000);
    assert_true(d.fleet.devices[4].loss == 0.25f);
    uw_sim_draw_close(&d);
    uw_sim_file_close(&f);

    assert_int_equal(parse(&f, "{\"nodes\": [{\"count\": 3}]}", &o, &err), UW_OK);
    assert_int_equal(uw_sim_file_flags(&f, &said, false, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "--nodes 5: s.json has groups of nodes, each with a count");
    uw_sim_file_close(&f);
    said = nothing;
    said.cell_nodes = 2;
    assert_int_equal(parse(&f, "{\"cells\": {\"nodes\": 3}}", &o, &err), UW_OK);
    assert_int_equal(uw_sim_file_flags(&f, &said, false, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "--cell-nodes 2: s.json defines the cells");
    uw_sim_file_close(&f);
}

static void test_cells_that_an_exchange_needs_are_names_only(void **state)
{
    (void)state;
    struct uw_sim_file f;
    struct uw_error err = {.text = ""};
    struct uw_sim_draw d;
    struct uw_sim_options said = nothing;
    assert_int_equal(uw_sim_file_plain(&f, &err), UW_OK);
    assert_int_equal(uw_sim_file_flags(&f, &said, true, &err), UW_OK);
    draw(&d, &f, 1);
    assert_int_equal(d.fleet.devices_n, 16);
    assert_int_equal(d.fleet.cells_n, 4);
    assert_int_equal(d.fleet.cells[3].bits_per_s, 0);
    assert_int_equal(d.fleet.cells[3].out_bits_per_s, 0);
    assert_int_equal(d.fleet.cells[3].latency_us, 5000);
    uw_sim_draw_close(&d);
    uw_sim_file_close(&f);
}

static void test_a_trace_lies_beside_its_scenario(void **state)
{
    (void)state;
    struct uw_sim_file f;
    struct uw_sim_options o = {.seed = 1};
    struct uw_error err = {.text = ""};
    struct uw_sim_draw d;
    static const char scenario[] = "{\"nodes\": [{\"count\": 2}, {\"count\": 2, \"availability\": "
                                   "{\"trace\": \"test_sim_file.csv\"}}]}";
    FILE *out = fopen("test_sim_file.csv", "w");
    assert_non_null(out);
    assert_true(fputs("1,3,4,1\n", out) >= 0 && fclose(out) == 0);
    assert_int_equal(uw_sim_file_parse(&f, "./s.json", scenario, strlen(scenario), uw_sim_flags, &o,
                                       &err), UW_OK);
    draw(&d, &f, 1);
    assert_int_equal(d.fleet.devices[1].absences_n, 0);
    assert_int_equal(d.fleet.devices[3].absences_n, 1);
    assert_int_equal(d.fleet.devices[3].absences[0].from_us, 3000000);
    uw_sim_draw_close(&d);
    uw_sim_file_close(&f);

    out = fopen("test_sim_file.csv", "w");
    assert_non_null(out);
    assert_true(fputs("1,3,3\n", out) >= 0 && fclose(out) == 0);
    assert_int_equal(uw_sim_file_parse(&f, "./s.json", scenario, strlen(scenario), uw_sim_flags, &o,
                                       &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "s.json:1: \"nodes[1].availability.trace\" "
                                     "test_sim_file.csv:1: needs node,from,to"));
    uw_sim_file_close(&f);
    assert_int_equal(remove("test_sim_file.csv"), 0);
}

/* ---- the samples ---- */

struct sample {
    struct uw_sim_file f;
    struct uw_sim_options o;
    struct uw_sim_draw d;
};

static void open_sample(struct sample *s, const char *name)
{
    struct uw_error err = {.text = ""};
    char path[512];
    struct uw_sim_options said = nothing;
    snprintf(path, sizeof path, "%s/%s.json", UWASA_SCENARIOS, name);
    *s = (struct sample){.o = {.seed = 1}};
    if (uw_sim_file_load(&s->f, path, uw_sim_flags, &s->o, &err) < 0) {
        fail_msg("%s", err.text);
    }
    assert_non_null(s->o.model);
    assert_int_equal(uw_sim_file_flags(&s->f, &said, false, &err), UW_OK);
    draw(&s->d, &s->f, s->o.seed);
}

static void close_sample(struct sample *s)
{
    uw_sim_draw_close(&s->d);
    uw_sim_file_close(&s->f);
}

static void test_the_homogeneous_sample_is_the_study(void **state)
{
    (void)state;
    struct sample s;
    open_sample(&s, "homogeneous");
    assert_int_equal(s.d.fleet.devices_n, 16);
    assert_string_equal(s.o.skew, "sorted");
    for (uint32_t i = 0; i < 16; i++) {
        const struct uw_sim_device *v = &s.d.fleet.devices[i];
        assert_true(v->up_bits_per_s == 1000000000u && 2u * v->latency_us == 5000u);
        assert_true(v->cell == UW_SIM_NO_CELL && v->absences_n == 0 && v->loss == 0.0f);
    }
    close_sample(&s);
}

static void test_the_samples_draw_what_their_names_say(void **state)
{
    (void)state;
    struct sample s;
    uint32_t slow = 0, low = 0, high = 0;
    open_sample(&s, "log_normal_bandwidth");
    for (uint32_t i = 0; i < s.d.fleet.devices_n; i++) {
        low += s.d.fleet.devices[i].up_bits_per_s < 30000000u;
        high += s.d.fleet.devices[i].up_bits_per_s > 300000000u;
    }
    assert_true(low != 0 && high != 0);
    close_sample(&s);

    open_sample(&s, "stragglers");
    for (uint32_t i = 0; i < s.d.fleet.devices_n; i++) {
        slow += s.d.fleet.devices[i].step_us == 200000u;
    }
    assert_true(s.d.fleet.devices_n == 20 && slow == 2);
    close_sample(&s);

    open_sample(&s, "thin_cells");
    assert_int_equal(s.d.fleet.cells_n, 4);
    assert_true(s.d.fleet.cells[0].out_bits_per_s == 10000000u && !s.d.fleet.cells[0].shared);
    close_sample(&s);

    open_sample(&s, "radio_cells");
    assert_true(s.d.fleet.cells_n == 3 && s.d.fleet.cells[2].shared);
    assert_string_equal(s.f.scenario.groups[0].kind->name, "cortex-m4f");
    close_sample(&s);

    open_sample(&s, "boards_and_gateways");
    assert_true(s.d.fleet.devices_n == 14 && s.d.fleet.cells_n == 2);
    assert_true(s.d.fleet.devices[12].cell != s.d.fleet.devices[13].cell);
    assert_true(s.d.fleet.devices[0].step_us > 20u * s.d.fleet.devices[13].step_us);
    close_sample(&s);
}

static void test_the_samples_with_absences_have_them(void **state)
{
    (void)state;
    struct sample s;
    open_sample(&s, "diurnal_phones");
    for (uint32_t i = 0; i < s.d.fleet.devices_n; i++) {
        assert_true(fabs(uw_sim_draw_there(&s.d, i, 300000000u) - 0.4) < 1e-5);
    }
    close_sample(&s);

    double there = 0.0;
    open_sample(&s, "churn");
    assert_int_equal(s.d.fleet.devices_n, 1024);
    for (uint32_t i = 0; i < 1024; i++) {
        there += uw_sim_draw_there(&s.d, i, s.d.until_us) / 1024.0;
    }
    assert_true(fabs(there - 20.0 / 24.0) < 0.005);
    close_sample(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_keys_are_the_flags),
        cmocka_unit_test(test_groups_take_what_the_file_says_of_all),
        cmocka_unit_test(test_a_device_brings_its_link_where_none_is_said),
        cmocka_unit_test(test_the_order_of_keys_does_not_matter),
        cmocka_unit_test(test_flags_win),
        cmocka_unit_test(test_cells_that_an_exchange_needs_are_names_only),
        cmocka_unit_test(test_a_trace_lies_beside_its_scenario),
        cmocka_unit_test(test_the_homogeneous_sample_is_the_study),
        cmocka_unit_test(test_the_samples_draw_what_their_names_say),
        cmocka_unit_test(test_the_samples_with_absences_have_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
