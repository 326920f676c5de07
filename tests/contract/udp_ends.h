/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends of UDP links on loopback, closed behind each test. */
#ifndef UW_TEST_UDP_ENDS_H
#define UW_TEST_UDP_ENDS_H

#include "test_support.h"

#include "uwasa/link_udp.h"

#include <poll.h>

#define UDP_ENDS 5u

struct udp_end {
    struct uw_link_udp udp;
    void *memory;
    char address[UW_LINK_ADDRESS_BYTES];
};

static struct udp_end ends[UDP_ENDS];

/* Open one with memory of its own. Returns what uw_link_udp_init does. */
static inline int udp_end_open(struct udp_end *e, struct uw_link_udp_config c,
                               struct uw_error *err)
{
    c.memory_bytes = uw_link_udp_bytes(&c);
    c.memory = e->memory = malloc(c.memory_bytes);
    assert_non_null(e->memory);
    int rc = uw_link_udp_init(&e->udp, &c, err);
    if (rc == UW_OK) {
        assert_int_equal(uw_link_udp_local(&e->udp, e->address), UW_OK);
    }
    return rc;
}

/* cmocka's teardown. */
static inline int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < UDP_ENDS; i++) {
        uw_link_deinit(&ends[i].udp.link);
        free(ends[i].memory);
        memset(&ends[i], 0, sizeof ends[i]);
    }
    return 0;
}

static inline bool is_readable(const struct uw_link *l, int wait_ms)
{
    struct pollfd fd = {.fd = l->fd, .events = POLLIN};
    return poll(&fd, 1, wait_ms) == 1;
}

#endif
