/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over the serial link with pseudo terminals in the place of a cable. */
#include "frame_pair.h"

#include "uwasa/serial_tty.h"

static struct pty_pair cable = {.master = {-1, -1}};
static struct uw_serial_tty tty[2];

static const char *open_lines(struct pair *p)
{
    for (size_t i = 0; i < 2; i++) {
        uw_serial_tty_close(&tty[i]); /* of the test before */
    }
    pty_pair_close(&cable);
    if (!pty_pair_open(&cable)) {
        return "this machine has no pseudo terminals";
    }
    p->real_time = true;
    p->cable = &cable;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(uw_serial_tty_open(&tty[i], cable.name[i], 4000000, NULL), UW_OK);
    }
    return NULL;
}

static const char *open_tty(struct pair *p)
{
    const char *why_not = open_lines(p);
    if (why_not != NULL) {
        return why_not;
    }
    for (size_t i = 0; i < 2; i++) {
        open_serial_end(p, i, &tty[i].base);
    }
    assert_int_equal(uw_link_resolve(p->link[0], "peer", &p->to[0]), UW_OK);
    return NULL;
}

static const char *open_bus_tty(struct pair *p)
{
    const char *why_not = open_lines(p);
    for (uint16_t i = 0; i < 2 && why_not == NULL; i++) {
        open_bus_end(p, i, &tty[i].base);
    }
    return why_not;
}

static const char *open_dtls_tty(struct pair *p)
{
    return secure(p, open_tty(p));
}

int main(void)
{
    static const struct variant variants[] = {
        {"serial over a pty", open_tty},
        {"dtls over serial over a pty", open_dtls_tty},
        {"frames on a bus over a pty", open_bus_tty},
    };
    return uw_test_link_suite(variants, sizeof variants / sizeof variants[0]);
}
