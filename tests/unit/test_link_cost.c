/* SPDX-License-Identifier: Apache-2.0
 *
 * What an exchange costs over a link; figures derived by hand are in e2e/cli_plan_link. */
#include "test_support.h"

#include "links/link_cost.h"
#include "wire/message.h"

#include "uwasa/secure.h"
#include "uwasa/secure_frames.h"

static const char *const links[] = {"802154", "ble",       "espnow", "lora:SF7", "lora:SF10",
                                    "serial", "lora:SF12", "wifi",   "ethernet", "lte"};
#define LINKS (sizeof links / sizeof links[0])

static struct uw_link_cost_config config(const char *link, uint32_t floats_n)
{
    struct uw_link_cost_config c = {.floats_n = floats_n, .nodes_n = 8, .share = 0.1};
    assert_int_equal(uw_radio_profile_find(link, &c.link), UW_OK);
    return c;
}

static struct uw_link_cost cost_of(const struct uw_link_cost_config *c)
{
    struct uw_link_cost cost;
    uw_link_cost(c, &cost);
    return cost;
}

static void test_link_cost_counts_the_heads_that_messages_have(void **state)
{
    (void)state;
    struct uw_link_cost_config c = config("ethernet", 1);
    uint32_t room = c.link.frame_bytes - UW_SECURE_OVERHEAD_BYTES - UW_WIRE_DATA_BYTES;
    assert_int_equal(cost_of(&c).chunk_n, room / 4u);
    c = config("lora:SF12", 1);
    room = c.link.frame_bytes - UW_SECURE_FRAMES_OVERHEAD - UW_WIRE_SHORT_DATA_BYTES;
    assert_int_equal(cost_of(&c).chunk_n, room / 4u);

    const struct uw_want want = {.wanted = 1, .chunk_n = 1};
    uint8_t buf[256];
    const struct uw_short_wants head = {.model = 1};
    int bytes = uw_message_write_short_wants(UW_WIRE_WANT, &head, &want, 1, buf);
    struct uw_link_cost cost = cost_of(&c);
    assert_int_equal(cost.pull.bytes, (uint32_t)bytes + UW_SECURE_FRAMES_OVERHEAD + 16u + 4u);
}

static void test_link_cost_grows_with_floats_nodes_and_loss(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LINKS; i++) {
        for (uint32_t n = 1; n < 4000; n = n * 3 + 1) {
            struct uw_link_cost_config c = config(links[i], n);
            struct uw_link_cost cost = cost_of(&c), more;
            assert_true(cost.pull.seconds > 0.0 && cost.pull.seconds <= cost.round.seconds);
            assert_true(cost.period_s >= cost.round.seconds);
            assert_true(cost.average.seconds <= cost.round.seconds);
            c.floats_n = n + cost.chunk_n;
            more = cost_of(&c);
            assert_true(more.pull.seconds > cost.pull.seconds);
            c.floats_n = n;
            c.loss = 0.3;
            more = cost_of(&c);
            assert_true(more.pull.data_frames * 0.7 >= cost.pull.data_frames - 1e-9);
            assert_true(more.pull.seconds > cost.pull.seconds);
            c.loss = 0.0;
            c.nodes_n = 1000;    /* more than there is room for at 1 % each */
            more = cost_of(&c);
            assert_true(c.link.shared ? more.round.seconds > cost.round.seconds
                                      : more.round.seconds == cost.round.seconds);
        }
    }
}

static void test_link_cost_fits_what_one_more_float_does_not(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LINKS; i++) {
        struct uw_link_cost_config c = config(links[i], 1);
        for (double seconds = 10.0; seconds < 1e4; seconds *= 7.0) {
            c.floats_n = uw_link_cost_fits_n(&c, seconds);
            if (c.floats_n != 0) {
                assert_true(cost_of(&c).round.seconds <= seconds);
            }
            if (c.floats_n != UINT32_MAX) {
                c.floats_n++;
                assert_true(cost_of(&c).round.seconds > seconds);
            }
        }
    }
    struct uw_link_cost_config c = config("lora:SF12", 1);
    assert_int_equal(uw_link_cost_fits_n(&c, 1.0), 0);
    c = config("ethernet", 1);
    assert_int_equal(uw_link_cost_fits_n(&c, 1e9), UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_cost_counts_the_heads_that_messages_have),
        cmocka_unit_test(test_link_cost_grows_with_floats_nodes_and_loss),
        cmocka_unit_test(test_link_cost_fits_what_one_more_float_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
