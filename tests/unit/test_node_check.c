/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a configuration has a field and a sentence, and uw_node_bind says the same. */
#include "test_support.h"

#include "uwasa/node.h"
#include "uwasa/node_gradients.h"

#include <string.h>

static const struct uw_node_gradients_config gradients;
static const enum uw_allreduce_kind doubling = UW_ALLREDUCE_DOUBLING;
static struct uw_sample_pool pool;

#define FIELD(member) offsetof(struct uw_node_config, member)
#define OUGHT .name = "n", .run = "r"

static const struct wrong {
    struct uw_node_config c;
    size_t field;
    bool radio, useless;                /* useless: uw_node_bind takes it */
} wrong[] = {
    {{.name = "two words", .run = "r"}, FIELD(name), false, false},
    {{.name = "12345678901234567890123456789012", .run = "r"}, FIELD(name), false, false},
    {{.name = "n"}, FIELD(run), false, false},
    {{OUGHT, .members_max = 1}, FIELD(members_max), false, false},
    {{OUGHT, .mode = UW_NODE_MODES_N}, FIELD(mode), false, false},
    {{OUGHT, .mode = UW_NODE_BROADCAST}, FIELD(mode), false, false},
    {{OUGHT, .mode = UW_NODE_ALLREDUCE}, FIELD(mode), true, false},
    {{OUGHT, .samples = &pool}, FIELD(samples), true, false},
    {{OUGHT, .agree = true}, FIELD(agree), true, false},
    {{OUGHT, .rule = &uw_mix_kgt}, FIELD(rule), true, false},
    {{OUGHT, .rule = &uw_mix_kgt, .mode = UW_NODE_ALLREDUCE}, FIELD(rule), false, false},
    {{OUGHT, .rule = &uw_mix_slowmo}, FIELD(rule), false, false},
    {{OUGHT, .rule = &uw_mix_kgt, .schedule = &uw_peer_schedule_random}, FIELD(schedule), false,
     false},
    {{OUGHT, .gradients = &gradients}, FIELD(gradients), false, false},
    {{OUGHT, .gradients = &gradients, .mode = UW_NODE_ALLREDUCE, .rule = &uw_mix_qg}, FIELD(rule),
     false, false},
    {{OUGHT, .period_share = 1.5f}, FIELD(period_share), false, false},
    {{OUGHT, .period_share = 0.5f, .mode = UW_NODE_AUTO}, FIELD(period_share), false, false},
    {{OUGHT, .slices_n = 33}, FIELD(slices_n), false, false},
    {{OUGHT, .slices_n = 5, .pull_peers = 8}, FIELD(slices_n), false, false},
    {{OUGHT, .pull_peers = 9}, FIELD(pull_peers), false, false},
    {{OUGHT, .sleep = {.awake_us = 1000000}}, FIELD(sleep.awake_us), false, false},
    {{OUGHT, .sleep = {.period_us = 1000000}}, FIELD(sleep.period_us), false, false},
    {{OUGHT, .sleep = {1000000, 1000000}}, FIELD(sleep.awake_us), false, false},
    {{OUGHT, .cell = "a"}, FIELD(cell), false, true},
    {{OUGHT, .cell = "~a", .mode = UW_NODE_AUTO}, FIELD(cell), false, true},
    {{OUGHT, .cell_first_n = 33}, FIELD(cell_first_n), false, true},
    {{OUGHT, .mode = UW_NODE_ALLREDUCE, .schedule = &uw_peer_schedule_random}, FIELD(schedule),
     false, true},
    {{OUGHT, .algorithm = &doubling}, FIELD(algorithm), false, true},
    {{OUGHT, .algorithm = &doubling, .mode = UW_NODE_ALLREDUCE, .gradients = &gradients},
     FIELD(algorithm), false, true},
    {{OUGHT, .code = true}, FIELD(code), false, true},
    {{OUGHT, .schedule = &uw_peer_schedule_graph}, FIELD(graph), false, true},
    {{OUGHT, .pulls_n = 2, .mode = UW_NODE_ALLREDUCE}, FIELD(pulls_n), false, true},
    {{OUGHT, .pulls_n = 2, .rule = &uw_mix_kgt}, FIELD(pulls_n), false, true},
    {{OUGHT, .gossip = UW_GOSSIP_PUSH}, FIELD(gossip), false, false},
    {{OUGHT, .ranks_max = 257, .mode = UW_NODE_ALLREDUCE}, FIELD(ranks_max), false, false},
};

static void test_check_names_the_field_and_needs_no_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct uw_link link = {.mtu_bytes = 1000, .frames = wrong[i].radio,
                               .shared = wrong[i].radio};
        struct uw_node_config c = wrong[i].c;
        struct uw_node_fault fault = {.field = 0};
        c.link = &link;
        c.parts = &uw_node_parts_all;
        int rc = uw_node_check(&c, &fault);
        if (rc >= 0 || fault.field != wrong[i].field) {
            fail_msg("%u: %s %s", (unsigned)i, rc < 0 ? fault.name : "taken",
                     rc < 0 ? fault.sentence : "");
        }
        assert_int_equal(uw_node_check(&c, NULL), rc);
        struct uw_params params = {.size_n = 16, .segments_n = 1};
        struct uw_error err = {.text = ""};
        size_t bytes;
        c.params = &params;
        if (!wrong[i].useless) {
            assert_int_equal(uw_node_measure(&c, &bytes, &err), rc);
            assert_non_null(strstr(err.text, fault.name));
            assert_non_null(strstr(err.text, fault.sentence));
        }
    }
}

static void test_check_takes_what_goes_together(void **state)
{
    (void)state;
    const struct uw_node_config good[] = {
        {OUGHT}, {OUGHT, .rule = &uw_mix_kgt}, {OUGHT, .agree = true, .algorithm = &doubling},
        {OUGHT, .mode = UW_NODE_ALLREDUCE, .rule = &uw_mix_slowmo, .samples = &pool},
        {OUGHT, .mode = UW_NODE_HIERARCHICAL, .cell = "a", .cell_first_n = 32},
        {OUGHT, .slices_n = 4, .pull_peers = 8, .period_share = 0.1f}};
    struct uw_link link = {.frames = false};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct uw_node_config c = good[i];
        c.link = &link;
        c.parts = &uw_node_parts_all;
        assert_int_equal(uw_node_check(&c, NULL), UW_OK);
    }
}

static void test_static_peers_need_gossip_alone(void **state)
{
    (void)state;
    static const char *const seeds[32] = {"a"};
    const struct uw_node_config good = {OUGHT, .seeds = seeds, .seeds_n = 31};
    const struct wrong bad[] = {
        {{OUGHT, .seeds = seeds, .seeds_n = 1, .mode = UW_NODE_ALLREDUCE}, FIELD(mode), false,
         false},
        {{OUGHT, .seeds = seeds, .seeds_n = 1, .schedule = &uw_peer_schedule_matching},
         FIELD(schedule), false, false},
        {{OUGHT, .seeds = seeds, .seeds_n = 1, .agree = true}, FIELD(agree), false, false},
        {{OUGHT, .seeds = seeds, .seeds_n = 1, .rule = &uw_mix_kgt}, FIELD(rule), false, false},
        {{OUGHT, .seeds = seeds, .seeds_n = 1, .samples = &pool}, FIELD(samples), false, false},
        {{OUGHT, .seeds = seeds, .seeds_n = 1, .sleep = {1000000, 100000}}, FIELD(sleep.period_us),
         false, false},
        {{OUGHT, .seeds = seeds, .seeds_n = 32}, FIELD(seeds), false, false},
        {{OUGHT}, FIELD(seeds), false, false}};
    struct uw_link link = {.mtu_bytes = 1000};
    struct uw_params params = {.size_n = 16, .segments_n = 1};
    struct uw_node_config c = good;
    c.link = &link;
    c.parts = &uw_node_parts_all;
    assert_int_equal(uw_node_check_listed(&c, NULL), UW_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct uw_node_fault fault = {.field = 0};
        struct uw_error err = {.text = ""};
        size_t bytes;
        c = bad[i].c;
        c.link = &link;
        c.parts = &uw_node_parts_all;
        c.params = &params;
        assert_int_equal(uw_node_check_listed(&c, &fault), UW_ERR_INVALID);
        assert_int_equal(fault.field, bad[i].field);
        assert_int_equal(uw_node_measure_listed(&c, &bytes, &err), UW_ERR_INVALID);
        assert_non_null(strstr(err.text, fault.sentence));
    }
}

static void test_modes_are_found_by_their_names_only(void **state)
{
    (void)state;
    assert_int_equal(uw_node_mode_find("gossip"), UW_NODE_GOSSIP);
    assert_int_equal(uw_node_mode_find("auto"), UW_NODE_AUTO);
    assert_int_equal(uw_node_mode_find("broadcast"), UW_NODE_BROADCAST);
    static const char *const none[] = {"", "goss", "gossipy", "gossip|allreduce", "|", "push"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(uw_node_mode_find(none[i]), UW_NODE_MODES_N);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_names_the_field_and_needs_no_memory),
        cmocka_unit_test(test_check_takes_what_goes_together),
        cmocka_unit_test(test_static_peers_need_gossip_alone),
        cmocka_unit_test(test_modes_are_found_by_their_names_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
