/* SPDX-License-Identifier: Apache-2.0
 *
 * The loopback hub between threads: every message that was accepted arrives once, whole and in
 * the order of its sender. Run it under the thread sanitizer as well. */
#include "test_support.h"

#include "uwasa/link_loopback.h"

#include <pthread.h>
#include <sched.h>

#define SENDERS 3u
#define MESSAGES 4000u

static struct uw_loopback_hub hub;

static void *send_all(void *arg)
{
    struct uw_link_loopback *l = arg;
    uint32_t message[8];
    for (uint32_t i = 0; i < MESSAGES; i++) {
        for (uint32_t k = 0; k < 8; k++) {
            message[k] = i * 8u + k;
        }
        while (uw_link_send(&l->link, SENDERS, message, sizeof message) == UW_ERR_AGAIN) {
            sched_yield();
        }
    }
    return NULL;
}

static void test_loopback_between_threads_loses_and_mixes_nothing(void **state)
{
    (void)state;
    struct uw_loopback_config c = {.endpoints_n = SENDERS + 1, .mtu_bytes = 64, .queue_n = 16};
    struct uw_link_loopback ends[SENDERS + 1];
    pthread_t threads[SENDERS];
    uint32_t next[SENDERS] = {0};
    c.memory_bytes = uw_loopback_hub_bytes(&c);
    c.memory = malloc(c.memory_bytes);
    assert_int_equal(uw_loopback_hub_init(&hub, &c), UW_OK);
    for (uint16_t i = 0; i <= SENDERS; i++) {
        assert_int_equal(uw_link_loopback_init(&ends[i], &hub, i), UW_OK);
    }
    for (size_t i = 0; i < SENDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &ends[i]), 0);
    }
    assert_false(uw_link_loopback_waiting(&ends[0]));
    for (uint32_t n = 0; n < SENDERS * MESSAGES;) {
        uint32_t message[8];
        uint16_t from;
        int rc = uw_link_recv(&ends[SENDERS].link, &from, message, sizeof message);
        if (rc == UW_ERR_AGAIN) {
            while (!uw_link_loopback_waiting(&ends[SENDERS])) {
                sched_yield();
            }
            continue;
        }
        assert_int_equal(rc, sizeof message);
        for (uint32_t k = 0; k < 8; k++) {
            assert_int_equal(message[k], next[from] * 8u + k);
        }
        next[from]++;
        n++;
    }
    for (size_t i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(next[i], MESSAGES);
    }
    for (size_t i = 0; i <= SENDERS; i++) {
        uw_link_deinit(&ends[i].link);
    }
    free(c.memory);
}

static void test_loopback_configuration_is_checked(void **state)
{
    (void)state;
    struct uw_link_loopback a, b;
    struct uw_loopback_config c = {.endpoints_n = 0};
    assert_true(uw_loopback_hub_bytes(&c) == SIZE_MAX);
    assert_int_equal(uw_loopback_hub_init(&hub, &c), UW_ERR_INVALID);
    c = (struct uw_loopback_config){.endpoints_n = 4000, .mtu_bytes = INT32_MAX,
                                    .queue_n = UINT32_MAX};
    assert_true(uw_loopback_hub_bytes(&c) == SIZE_MAX);
    c = (struct uw_loopback_config){.endpoints_n = 2};
    c.memory_bytes = uw_loopback_hub_bytes(&c) - 1u;
    c.memory = malloc(c.memory_bytes + 1u);
    assert_int_equal(uw_loopback_hub_init(&hub, &c), UW_ERR_NOMEM);
    c.memory_bytes++;
    assert_int_equal(uw_loopback_hub_init(&hub, &c), UW_OK);
    assert_int_equal(uw_link_loopback_init(&a, &hub, 2), UW_ERR_INVALID);
    assert_int_equal(uw_link_loopback_init(&a, &hub, 1), UW_OK);
    assert_int_equal(uw_link_loopback_init(&b, &hub, 1), UW_ERR_INVALID);
    uint8_t byte = 5;
    uint16_t from;
    assert_int_equal(uw_link_send(&a.link, 1, &byte, 1), UW_OK); /* to itself */
    uw_link_deinit(&b.link);
    uw_link_deinit(&a.link);
    assert_int_equal(uw_link_loopback_init(&b, &hub, 1), UW_OK);
    assert_int_equal(uw_link_recv(&b.link, &from, &byte, 1), UW_ERR_AGAIN); /* starts empty */
    assert_int_equal(uw_link_send(&b.link, 0, &byte, 1), UW_OK); /* nobody there: vanishes */
    uw_link_deinit(&b.link);
    free(c.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback_between_threads_loses_and_mixes_nothing),
        cmocka_unit_test(test_loopback_configuration_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
