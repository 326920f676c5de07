/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over the TCP link, with somebody in the middle: a relay that cuts, changes and swallows
 * bytes. Nothing that was not said is ever delivered, and a way that works again is used again. */
#include "test_support.h"

#include "base/cpu.h"

#include "uwasa/link_tcp.h"
#include "uwasa/rng.h"
#include "uwasa/secure_keys.h"
#include "uwasa/secure_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MTU 40000u
#define NEVER UINT32_MAX
#define ECDHE_CHACHA 0xccacu
#define DHE_CCM 0xc0a6u

struct end {
    struct uw_link_tcp tcp;
    struct uw_secure_stream tls;
    void *memory[2];
    char address[UW_LINK_ADDRESS_BYTES];
    uint32_t told[UW_SECURE_PEER_CLOSED + 1];
    char text[UW_SECURE_TEXT_BYTES];
};

/* Carries one connection, dialed to it, on to a port. Counts bytes each way. */
struct relay {
    int listener, side[2];
    uint16_t to_port;
    char address[UW_LINK_ADDRESS_BYTES];
    uint32_t passed[2];             /* from the dialing side, from the other */
    uint32_t cut_at[2], flip_at[2]; /* byte at which to end, to change a bit; NEVER */
};

static struct end ends[2];
static struct relay relay;
static uint64_t now_us, turn_us;

static void on_event(void *user, const struct uw_secure_event *event)
{
    struct end *e = user;
    e->told[event->kind]++;
    snprintf(e->text, sizeof e->text, "%s", event->text);
}

static void open_with(struct end *e, struct uw_secure_stream_config s, bool guarded)
{
    struct uw_error err;
    s.event = on_event;
    s.user = e;
    struct uw_link_tcp_config c = {.bind = "127.0.0.1:0", .mtu_bytes = MTU, .stations_n = 4};
    s.memory_bytes = uw_secure_stream_bytes(&s);
    s.memory = e->memory[0] = malloc(s.memory_bytes);
    assert_int_equal(uw_secure_stream_init(&e->tls, &s), UW_OK);
    c.guard = guarded ? &e->tls.guard : NULL;
    c.memory_bytes = uw_link_tcp_bytes(&c);
    c.memory = e->memory[1] = malloc(c.memory_bytes);
    assert_int_equal(uw_link_tcp_init(&e->tcp, &c, &err), UW_OK);
    assert_int_equal(uw_link_tcp_local(&e->tcp, e->address), UW_OK);
    assert_true(e->tcp.link.secure == guarded && e->tcp.link.reliable);
    (void)uw_link_step(&e->tcp.link, now_us);
}

static void open_end(struct end *e, const char *identity, uint8_t key, bool guarded)
{
    open_with(e, (struct uw_secure_stream_config){.key = {key}, .identity = identity}, guarded);
}

static void hang_up(void)
{
    for (size_t i = 0; i < 2; i++) {
        if (relay.side[i] >= 0) {
            close(relay.side[i]);
        }
        relay.side[i] = -1;
        relay.passed[i] = 0;
    }
}

static uint16_t port_of(const char *address)
{
    return (uint16_t)atoi(strrchr(address, ':') + 1);
}

static void open_relay(const struct end *to)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof a;
    relay = (struct relay){.side = {-1, -1}, .to_port = port_of(to->address),
                           .cut_at = {NEVER, NEVER}, .flip_at = {NEVER, NEVER}};
    relay.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(relay.listener >= 0);
    assert_int_equal(bind(relay.listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(relay.listener, 4), 0);
    assert_int_equal(getsockname(relay.listener, (struct sockaddr *)&a, &bytes), 0);
    snprintf(relay.address, sizeof relay.address, "127.0.0.1:%u", ntohs(a.sin_port));
}

static void take_call(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = accept(relay.listener, NULL, NULL);
    if (fd < 0) {
        return;
    }
    hang_up();
    to.sin_port = htons(relay.to_port);
    relay.side[0] = fd;
    relay.side[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(relay.side[1] >= 0);
    assert_int_equal(connect(relay.side[1], (struct sockaddr *)&to, sizeof to), 0);
    for (size_t i = 0; i < 2; i++) {
        (void)fcntl(relay.side[i], F_SETFL, O_NONBLOCK);
    }
}

static void carry(void)
{
    uint8_t buf[4096];
    take_call();
    for (size_t i = 0; i < 2 && relay.side[0] >= 0; i++) {
        uint32_t room = relay.cut_at[i] - relay.passed[i];
        ssize_t n = recv(relay.side[i], buf, room < sizeof buf ? room : sizeof buf, 0);
        if (room == 0 || n == 0 || (n < 0 && errno != EAGAIN)) {
            hang_up();
            return;
        }
        if (n < 0) {
            continue;
        }
        uint32_t at = relay.flip_at[i] - relay.passed[i];
        if (at < (uint32_t)n) {
            buf[at] ^= 0x10;
        }
        relay.passed[i] += (uint32_t)n;
        for (ssize_t done = 0; done < n;) {
            ssize_t sent = send(relay.side[1 - i], buf + done, (size_t)(n - done), MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN) {
                struct pollfd p = {.fd = relay.side[1 - i], .events = POLLOUT};
                poll(&p, 1, 1);
            } else if (sent < 0) {
                hang_up();
                return;
            }
            done += sent > 0 ? sent : 0;
        }
    }
}

static void pass_time(void)
{
    struct pollfd fds[5] = {{.fd = ends[0].tcp.link.fd, .events = POLLIN},
                            {.fd = ends[1].tcp.link.fd, .events = POLLIN},
                            {.fd = relay.listener, .events = POLLIN},
                            {.fd = relay.side[0], .events = POLLIN},
                            {.fd = relay.side[1], .events = POLLIN}};
    poll(fds, 5, 1);
    carry();
    now_us += turn_us;
    for (size_t i = 0; i < 2; i++) {
        (void)uw_link_step(&ends[i].tcp.link, now_us);
    }
}

static uint8_t message[MTU], in[MTU];
static uint32_t said, heard;            /* numbers: of the next message, of the last + 1 */

static int setup(void **state)
{
    (void)state;
    now_us = 1000000;
    turn_us = 1000;
    said = heard = 0;
    relay = (struct relay){.listener = -1, .side = {-1, -1}};
    return 0;
}

static void close_end(struct end *e)
{
    uw_link_deinit(&e->tcp.link);
    uw_secure_stream_deinit(&e->tls);
    uw_secure_stream_deinit(&e->tls);
    free(e->memory[0]);
    free(e->memory[1]);
    memset(e, 0, sizeof *e);
}

static int teardown(void **state)
{
    (void)state;
    hang_up();
    if (relay.listener >= 0) {
        close(relay.listener);
    }
    for (size_t i = 0; i < 2; i++) {
        close_end(&ends[i]);
    }
    return 0;
}

/* End 0 says messages to a station, until `most` have arrived or for so many turns, and `spare`
 * more than that, for what is lost when a connection breaks. Each that arrives at end 1 is what was
 * said, and they come in order. Returns how many arrived. */
static uint32_t talk(uint16_t to, uint32_t bytes, uint32_t most, uint32_t spare, uint32_t turns)
{
    uint32_t sent = 0, got = 0;
    for (uint32_t i = 0; i < turns && got < most; i++) {
        uint16_t from;
        memcpy(message, &said, sizeof said);
        if (sent < most + spare && uw_link_send(&ends[0].tcp.link, to, message, bytes) == UW_OK) {
            sent++;
            said++;
        }
        int rc = uw_link_recv(&ends[0].tcp.link, &from, in, sizeof in);
        assert_int_equal(rc, UW_ERR_AGAIN);
        while ((rc = uw_link_recv(&ends[1].tcp.link, &from, in, sizeof in)) >= 0) {
            uint32_t number;
            memcpy(&number, in, sizeof number);
            assert_int_equal(rc, bytes);
            assert_memory_equal(in + 4, message + 4, bytes - 4);
            assert_true(number >= heard && number < said);
            heard = number + 1;
            got++;
        }
        assert_int_equal(rc, UW_ERR_AGAIN);
        pass_time();
    }
    return got;
}

static uint16_t resolve(const char *address)
{
    uint16_t station;
    assert_int_equal(uw_link_resolve(&ends[0].tcp.link, address, &station), UW_OK);
    return station;
}

/* The keys of both ends: of devices of a root; the keys of the other root, and of a run. */
static struct uw_secure_keys keys[2];
static char device[2][UW_DEVICE_TEXT_BYTES], root[UW_DEVICE_TEXT_BYTES];
static struct uw_error err;

static void open_devices(void)
{
    static const char *const names[2] = {"attic", "cellar"};
    assert_int_equal(uw_root_create(root, &err), UW_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(uw_root_device(root, "", names[i], device[i], &err), UW_OK);
        assert_int_equal(uw_secure_keys_init(&keys[i], device[i], &err), UW_OK);
        open_with(&ends[i], (struct uw_secure_stream_config){.keys = &keys[i], .identity = "run"},
                  true);
    }
}

static void close_devices(void)
{
    teardown(NULL);
    setup(NULL);
    for (size_t i = 0; i < 2; i++) {
        uw_secure_keys_deinit(&keys[i]);
    }
}

/* Either end learns of it: neither the caller nor the called one gets another byte. */
static void test_tls_a_revoked_device_is_out_at_once_and_stays_out(void **state)
{
    (void)state;
    for (size_t knows = 0; knows < 2; knows++) {
        char lists[UW_REVOKED_TEXT_BYTES] = "";
        open_devices();
        uint16_t to = resolve(ends[1].address);
        assert_int_equal(talk(to, MTU, 10, 0, 5000), 10);
        assert_int_equal(uw_root_revoke(root, lists, knows == 0 ? "cellar" : "attic", &err), 1);
        assert_int_equal(uw_secure_keys_revoke_text(&keys[knows], lists), 1);
        assert_int_equal(talk(to, 100, 1, 1000, 500), 0);
        assert_int_equal(ends[knows].told[UW_SECURE_PEER_CLOSED], 1);
        assert_true(ends[0].told[UW_SECURE_PEER_REFUSED] == 1 &&
                    ends[1].told[UW_SECURE_PEER_REFUSED] == 1);
        assert_non_null(strstr(ends[knows].text, "whose key is revoked"));
        assert_non_null(strstr(ends[1u - knows].text, "this device's key is revoked"));
        close_devices();
    }
}

/* Anybody who is called may say so, also to who has no key of a device. */
static void test_tls_stranger_says_that_a_run_key_is_revoked(void **state)
{
    (void)state;
    static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 44};
    open_end(&ends[0], "run", 7, true);
    open_end(&ends[1], "run", 7, true);
    open_relay(&ends[1]);
    int listener = relay.listener;
    relay.listener = -1;
    uint16_t to = resolve(relay.address);
    uint32_t said_n = 0;
    for (int i = 0; i < 500 && said_n < 2; i++) {
        assert_int_equal(uw_link_send(&ends[0].tcp.link, to, message, 10), UW_ERR_AGAIN);
        pass_time();
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            said_n += send(fd, alert, sizeof alert, 0) == (ssize_t)sizeof alert;
            for (int k = 0; k < 20; k++) {
                pass_time();
                (void)uw_link_recv(&ends[0].tcp.link, &(uint16_t){0}, in, sizeof in);
            }
            close(fd);
        }
    }
    close(listener);
    assert_int_equal(said_n, 2);
    assert_int_equal(ends[0].tls.stats.failed_n, 2);
}

/* From one root to the next, one end after the other, while connections are up. */
static void test_tls_keys_change_while_ends_talk(void **state)
{
    (void)state;
    char file[3][2][2u * UW_DEVICE_TEXT_BYTES];
    open_devices();
    for (size_t i = 0; i < 2; i++) {
        strcpy(file[0][i], device[i]);
    }
    assert_int_equal(uw_root_create(root, &err), UW_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(uw_root_device(root, "", "new", device[i], &err), UW_OK);
        strcat(strcpy(file[1][i], file[0][i]), device[i]);
        strcpy(file[2][i], device[i]);
    }
    uint16_t to = resolve(ends[1].address);
    assert_int_equal(talk(to, MTU, 10, 0, 5000), 10);
    for (size_t step = 1; step < 3; step++) {
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(uw_secure_keys_load(&keys[i], file[step][i], &err), 1);
            assert_int_equal(talk(to, MTU, 10, 1000, 5000), 10);
        }
    }
    assert_int_equal(ends[0].told[UW_SECURE_PEER_REFUSED], 0);      /* it had another key */
    assert_int_equal(uw_secure_keys_load(&keys[0], file[0][0], &err), 1);
    assert_int_equal(talk(to, 10, 1, 1000, 500), 0);
    close_devices();
}

static void fill_message(uint64_t seed)
{
    struct uw_rng rng;
    uw_rng_seed(&rng, seed);
    for (size_t i = 0; i < sizeof message; i++) {
        message[i] = (uint8_t)uw_rng_below(&rng, 256);
    }
}

static void test_tls_large_messages_arrive_in_order(void **state)
{
    (void)state;
    fill_message(uw_test_seed(1));
    open_end(&ends[0], "run", 7, true);
    open_end(&ends[1], "run", 7, true);
    assert_int_equal(talk(resolve(ends[1].address), MTU, 100, 0, 5000), 100);
    assert_int_equal(ends[0].told[UW_SECURE_PEER_UP], 1);
    assert_int_equal(ends[1].told[UW_SECURE_PEER_UP], 1);
    assert_int_equal(ends[0].tls.stats.handshakes_n, 1);
}

static void test_tls_wrong_key_is_refused_and_told(void **state)
{
    (void)state;
    open_end(&ends[0], "run", 7, true);
    open_end(&ends[1], "run", 8, true);
    assert_int_equal(talk(resolve(ends[1].address), 10, 1, 0, 400), 0);
    assert_true(ends[0].tls.stats.refused_n > 0 && ends[1].tls.stats.refused_n > 0);
    assert_int_equal(ends[1].told[UW_SECURE_PEER_REFUSED], 1);      /* not once a try */
    assert_non_null(strstr(ends[1].text, "does not hold this run's key"));
    assert_int_equal(ends[0].told[UW_SECURE_PEER_UP] + ends[1].told[UW_SECURE_PEER_UP], 0);
}

static void test_tls_other_run_is_refused_and_told(void **state)
{
    (void)state;
    open_end(&ends[0], "home", 7, true);
    open_end(&ends[1], "work", 7, true);
    assert_int_equal(talk(resolve(ends[1].address), 10, 1, 0, 400), 0);
    assert_non_null(strstr(ends[1].text, "belongs to another run, not to \"work\""));
    assert_non_null(strstr(ends[0].text, "belongs to another run, not to \"home\""));
}

static void test_tls_and_plain_ends_never_talk(void **state)
{
    (void)state;
    for (size_t guarded = 0; guarded < 2; guarded++) {
        open_end(&ends[0], "run", 7, guarded == 0);
        open_end(&ends[1], "run", 7, guarded == 1);
        assert_int_equal(talk(resolve(ends[1].address), 10, 1, 0, 300), 0);
        assert_int_equal(ends[0].tcp.link.stats.sent_n, 0);
        teardown(NULL);
        setup(NULL);
    }
}

/* Handshake, greetings and one message, bytes of each side. */
static void measure(uint32_t total[2])
{
    open_end(&ends[0], "run", 7, true);
    open_end(&ends[1], "run", 7, true);
    open_relay(&ends[1]);
    assert_int_equal(talk(resolve(relay.address), 10, 1, 0, 2000), 1);
    for (int i = 0; i < 5; i++) {
        pass_time();
    }
    total[0] = relay.passed[0];
    total[1] = relay.passed[1];
    teardown(NULL);
    setup(NULL);
}

static void test_tls_cut_after_any_byte_delivers_nothing_and_heals(void **state)
{
    (void)state;
    uint32_t total[2];
    measure(total);
    assert_true(total[0] > 200 && total[1] > 150);
    for (size_t side = 0; side < 2; side++) {
        /* Of the answering side the last bytes only confirm. */
        uint32_t until = side == 0 ? total[0] : total[1] - 60u;
        for (uint32_t cut = 0; cut < until; cut += cut < 8 || cut + 40 > until ? 1 : 29) {
            open_end(&ends[0], "run", 7, true);
            open_end(&ends[1], "run", 7, true);
            open_relay(&ends[1]);
            relay.cut_at[side] = cut;
            uint16_t to = resolve(relay.address);
            assert_int_equal(talk(to, 10, 1, 0, 40), 0);
            relay.cut_at[side] = NEVER;
            now_us += 10000000;
            assert_true(talk(to, 10, 1, 60, 2000) >= 1);
            teardown(NULL);
            setup(NULL);
        }
    }
}

static void test_tls_changed_byte_ends_the_connection_and_is_never_delivered(void **state)
{
    (void)state;
    uint32_t total[2];
    measure(total);
    for (size_t side = 0; side < 2; side++) {
        for (uint32_t at = 0; at < total[side] + 3000u; at += 211) {
            fill_message(at);
            open_end(&ends[0], "run", 7, true);
            open_end(&ends[1], "run", 7, true);
            open_relay(&ends[1]);
            relay.flip_at[side] = at;
            uint16_t to = resolve(relay.address);
            (void)talk(to, 1000, 20, 0, 60);   /* compares whatever arrives */
            relay.flip_at[side] = NEVER;
            now_us += 10000000;
            assert_true(talk(to, 1000, 3, 60, 3000) >= 3);
            teardown(NULL);
            setup(NULL);
        }
    }
}

#define STRANGERS 64u

/* Somebody else, at 127.0.0.2 and more than once, connects to end 1, and says so many bytes. */
static int stranger(int before, size_t bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
    static const uint8_t hello[2] = {22, 3};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons(port_of(ends[1].address));
    if (before >= 0) {
        close(before);
    }
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, hello, bytes, MSG_NOSIGNAL), bytes);
    return fd;
}

static void open_both(int fd[STRANGERS])
{
    open_end(&ends[0], "run", 7, true);
    open_end(&ends[1], "run", 7, true);
    for (size_t i = 0; i < STRANGERS; i++) {
        fd[i] = -1;
    }
}

static void close_all(const int fd[STRANGERS])
{
    for (size_t i = 0; i < STRANGERS; i++) {
        close(fd[i]);
    }
}

static void test_tls_strangers_who_say_nothing_keep_nobody_out(void **state)
{
    (void)state;
    int fd[STRANGERS];
    open_both(fd);
    for (size_t i = 0; i < STRANGERS; i++) {
        fd[i] = stranger(fd[i], 0);
        pass_time();
    }
    assert_int_equal(talk(resolve(ends[1].address), 10, 1, 0, 50), 1);
    assert_true(ends[1].tcp.begun_us < now_us + 100000);    /* one handshake */
    close_all(fd);
}

/* Handshakes cost time, so strangers may begin 32 at once and 20 a second. While one calls in every
 * turn, from one address, a peer at another gets the next one. */
static void test_tls_handshakes_of_strangers_are_limited(void **state)
{
    (void)state;
    int fd[STRANGERS];
    uint32_t turns = 0, got = 0;
    open_both(fd);
    for (size_t i = 0; i < STRANGERS; i++) {
        fd[i] = stranger(fd[i], 2);
        (void)talk(UW_LINK_STATION_NONE, 10, 1, 0, 1);
    }
    assert_true(ends[1].tcp.begun_us > now_us + 1500000);
    assert_true(ends[1].tcp.begun_us <= now_us + 1600000);
    uint16_t to = resolve(ends[1].address);
    for (; turns < 500 && got == 0; turns++) {
        fd[turns % STRANGERS] = stranger(fd[turns % STRANGERS], 2);
        got = talk(to, 10, 1, 0, 1);
    }
    assert_int_equal(got, 1);
    assert_true(turns < 200);
    close_all(fd);
}

/* End 0 calls end 1: the suite that both took. */
static uint16_t call(void)
{
    assert_int_equal(talk(resolve(ends[1].address), 10, 1, 0, 3000), 1);
    assert_int_equal(ends[0].tls.suite, ends[1].tls.suite);
    return ends[1].tls.suite;
}

static void test_tls_ends_of_bulk_take_aes_where_the_processor_has_it(void **state)
{
    (void)state;
    for (unsigned bulk = 0; bulk < 4; bulk++) {
        for (unsigned i = 0; i < 2; i++) {
            open_with(&ends[i], (struct uw_secure_stream_config){
                                    .key = {7}, .identity = "run", .bulk = (bulk >> i & 1u) != 0},
                      true);
        }
        bool quick = bulk == 3u && uw_cpu_has_aes();
        assert_int_equal(call(), quick ? DHE_CCM : ECDHE_CHACHA);
        teardown(NULL);
        setup(NULL);
    }
}

/* Strangers who have begun many handshakes are offered only what is cheap, until they let off. */
static void test_tls_a_storm_of_handshakes_gets_no_dear_ones(void **state)
{
    (void)state;
    static const uint16_t suites[] = {DHE_CCM, ECDHE_CHACHA, 0};
    const struct uw_secure_stream_config c = {.key = {7}, .identity = "run", .suites = suites};
    uint32_t dear = 0, cheap = 0;
    turn_us = 10;       /* a storm takes no time, however many turns it takes */
    open_with(&ends[1], c, true);
    for (uint32_t i = 0; i < 25u; i++) {
        open_with(&ends[0], c, true);
        uint16_t suite = call();
        dear += suite == DHE_CCM;
        cheap += suite == ECDHE_CHACHA;
        close_end(&ends[0]);
    }
    assert_int_equal(dear + cheap, 25);
    assert_true(dear >= 16 && cheap >= 8);
    open_with(&ends[0], c, true);
    now_us += 2000000;
    pass_time();
    assert_int_equal(call(), DHE_CCM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tls_large_messages_arrive_in_order),
        TEST(test_tls_wrong_key_is_refused_and_told),
        TEST(test_tls_other_run_is_refused_and_told),
        TEST(test_tls_and_plain_ends_never_talk),
        TEST(test_tls_strangers_who_say_nothing_keep_nobody_out),
        TEST(test_tls_handshakes_of_strangers_are_limited),
        TEST(test_tls_ends_of_bulk_take_aes_where_the_processor_has_it),
        TEST(test_tls_a_storm_of_handshakes_gets_no_dear_ones),
        TEST(test_tls_cut_after_any_byte_delivers_nothing_and_heals),
        TEST(test_tls_a_revoked_device_is_out_at_once_and_stays_out),
        TEST(test_tls_keys_change_while_ends_talk),
        TEST(test_tls_stranger_says_that_a_run_key_is_revoked),
        TEST(test_tls_changed_byte_ends_the_connection_and_is_never_delivered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
