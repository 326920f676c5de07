/* SPDX-License-Identifier: Apache-2.0
 *
 * A terminal device as a stream of bytes: every value passes, a device that goes away and comes
 * back, one that cannot be had. */
#include "test_support.h"

#include "pty_pair.h"

#include "uwasa/board.h"
#include "uwasa/serial_tty.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

static void open_ptys(struct pty_pair *p)
{
    if (!pty_pair_open(p)) {
        print_message("skipped: this machine has no pseudo terminals\n");
        skip();
    }
}

static int give(struct uw_serial *s, const uint8_t *data, int bytes)
{
    int done = 0;
    for (int tries = 0; done < bytes && tries < 100; tries++) {
        int n = s->ops->write(s, data + done, (uint32_t)(bytes - done));
        assert_true(n >= 0 && n <= bytes - done);
        done += n;
    }
    return done;
}

static void test_tty_passes_every_byte_both_ways(void **state)
{
    (void)state;
    struct pty_pair p;
    struct uw_serial_tty tty[2];
    uint8_t data[512], got[512];
    open_ptys(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uw_serial_tty_open(&tty[i], p.name[i], 115200, NULL), UW_OK);
        assert_int_equal(tty[i].base.rate_bits_per_s, 115200);
        assert_true(tty[i].base.fd >= 0);
        assert_int_equal(tty[i].base.ops->read(&tty[i].base, got, sizeof got), 0);
    }
    for (int i = 0; i < 512; i++) {
        data[i] = (uint8_t)i; /* also those that a terminal takes for orders */
    }
    for (int i = 0; i < 2; i++) {
        struct uw_serial *to = &tty[1 - i].base;
        int n = 0;
        assert_int_equal(give(&tty[i].base, data, 512), 512);
        for (int tries = 0; n < 512 && tries < 1000; tries++) {
            pty_pair_pump(&p);
            poll(&(struct pollfd){.fd = to->fd, .events = POLLIN}, 1, 2);
            int rc = to->ops->read(to, got + n, (uint32_t)(512 - n));
            assert_true(rc >= 0);
            n += rc;
        }
        assert_int_equal(n, 512);
        assert_memory_equal(got, data, 512);
    }
    for (int i = 0; i < 2; i++) {
        uw_serial_tty_close(&tty[i]);
        uw_serial_tty_close(&tty[i]);
    }
    pty_pair_close(&p);
}

static void test_tty_takes_what_fits_and_never_waits(void **state)
{
    (void)state;
    struct pty_pair p;
    struct uw_serial_tty tty;
    static const uint8_t data[4096] = {1};
    open_ptys(&p);
    assert_int_equal(uw_serial_tty_open(&tty, p.name[0], 9600, NULL), UW_OK);
    int n = 1;
    for (int tries = 0; n > 0 && tries < 1000; tries++) {
        n = tty.base.ops->write(&tty.base, data, sizeof data); /* nobody reads */
    }
    assert_int_equal(n, 0);
    assert_false(tty.away);
    uw_serial_tty_close(&tty);
    pty_pair_close(&p);
}

static void test_tty_that_goes_away_is_found_again(void **state)
{
    (void)state;
    struct pty_pair p;
    struct uw_serial_tty tty;
    struct uw_serial *s = &tty.base;
    char folder[] = "/tmp/uwasa_tty_XXXXXX", path[64], name[PTY_NAME_BYTES];
    uint8_t byte = 7;
    open_ptys(&p);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/board", folder);
    assert_int_equal(symlink(p.name[0], path), 0);
    assert_int_equal(uw_serial_tty_open(&tty, path, 115200, NULL), UW_OK);
    int fd = s->fd;

    pty_pair_close(&p);
    assert_int_equal(s->ops->read(s, &byte, 1), 0);
    assert_true(tty.away);
    assert_int_equal(s->fd, fd);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
    assert_int_equal(s->ops->write(s, &byte, 1), 1); /* lost */
    assert_int_equal(s->ops->read(s, &byte, 1), 0);
    tty.look_us = 0;
    assert_int_equal(s->ops->read(s, &byte, 1), 0); /* it is not there yet */
    assert_true(tty.away);

    int master = pty_open(name);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(name, path), 0);
    assert_int_equal(s->ops->read(s, &byte, 1), 0); /* looked for a moment ago */
    assert_true(tty.away);
    tty.look_us = 0;
    assert_int_equal(s->ops->read(s, &byte, 1), 0);
    assert_false(tty.away);
    assert_int_equal(s->fd, fd);
    assert_int_equal(write(master, "\x11", 1), 1);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 2000), 1);
    assert_int_equal(s->ops->read(s, &byte, 1), 1);
    assert_int_equal(byte, 0x11);
    uw_serial_tty_close(&tty);
    close(master);
    unlink(path);
    rmdir(folder);
}

static void test_tty_that_cannot_be_had_gives_its_code_and_a_sentence(void **state)
{
    (void)state;
    struct pty_pair p;
    struct uw_serial_tty tty = {.path = ""}, other;
    struct uw_error err;
    char longer[UW_SERIAL_TTY_PATH_BYTES + 1];
    uw_serial_tty_close(&tty);
    assert_int_equal(uw_serial_tty_open(&tty, "/dev/no_such_tty", 9600, &err), UW_ERR_NOTFOUND);
    assert_string_equal(err.text, "/dev/no_such_tty: no such device");
    uw_serial_tty_close(&tty);
    assert_int_equal(uw_serial_tty_open(&tty, "/dev/null", 9600, &err), UW_ERR_INVALID);
    assert_string_equal(err.text, "/dev/null: not a serial line");
    assert_int_equal(uw_serial_tty_open(&tty, "/dev/null", 9601, &err), UW_ERR_INVALID);
    assert_non_null(strstr(err.text, "9601"));
    memset(longer, 'a', sizeof longer - 1u);
    longer[sizeof longer - 1u] = '\0';
    assert_int_equal(uw_serial_tty_open(&tty, longer, 9600, &err), UW_ERR_TOOBIG);
    open_ptys(&p);
    assert_int_equal(uw_serial_tty_open(&tty, p.name[0], 9600, &err), UW_OK);
    assert_int_equal(uw_serial_tty_open(&other, p.name[0], 9600, &err), UW_ERR_AGAIN);
    assert_non_null(strstr(err.text, "another program"));
    uw_serial_tty_close(&other);
    uw_serial_tty_close(&tty);
    assert_int_equal(uw_serial_tty_open(&other, p.name[0], 9600, &err), UW_OK);
    uw_serial_tty_close(&other);
    pty_pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tty_passes_every_byte_both_ways),
        cmocka_unit_test(test_tty_takes_what_fits_and_never_waits),
        cmocka_unit_test(test_tty_that_goes_away_is_found_again),
        cmocka_unit_test(test_tty_that_cannot_be_had_gives_its_code_and_a_sentence),
    };
    return cmocka_run_group_tests_name("serial_tty", tests, NULL, NULL);
}
