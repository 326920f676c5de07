/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from anybody who connects to a TCP link: what is delivered was framed, fits and comes in
 * order, and a peer that is up meanwhile is heard. In the clear; a guard has the bytes first. */
#include "fuzz.h"
#include "fuzz_form.h"

#include "wire/wire.h"

#include "uwasa/link_tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MTU 40u
#define MOST_BYTES 2000u
#define GREETING_BYTES 24u
#define PREFIX_BYTES 4u
#define WAIT_MS 2000
#define LOOKS 200

static struct uw_link_tcp link_tcp;
static struct sockaddr_in here = {.sin_family = AF_INET};
static uint64_t now_us = 1000000;

static void open_link(void)
{
    struct uw_link_tcp_config c = {.bind = "127.0.0.1:0", .mtu_bytes = MTU, .stations_n = 4};
    c.memory_bytes = uw_link_tcp_bytes(&c);
    c.memory = malloc(c.memory_bytes);
    if (c.memory == NULL || uw_link_tcp_init(&link_tcp, &c, NULL) < 0) {
        abort();
    }
    here.sin_port = htons(link_tcp.port);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
}

static size_t put_message(uint8_t *at, uint32_t claims, uint32_t bytes)
{
    uw_put_u32(at, claims);
    memset(at + PREFIX_BYTES, (int)('a' + bytes % 20u), bytes);
    return PREFIX_BYTES + ((bytes + 3u) & ~3u);
}

/* A greeting, then some messages. */
static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const uint32_t sizes[] = {0, 1, 3, 4, 39, 40};
    uint8_t buf[MOST_BYTES] = {'u', 'w', 't', '1'};
    size_t n = GREETING_BYTES;
    uw_put_u16(buf + 4, 4433);
    uw_put_u32(buf + 8, 77);
    uw_put_u32(buf + 16, 1);
    uw_put_u32(buf + 20, 4096);
    uw_fuzz_add(corpus, buf, n);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        n += put_message(buf + n, sizes[i], sizes[i]);
        uw_fuzz_add(corpus, buf, n);
    }
    uw_fuzz_add(corpus, buf, n + put_message(buf + n, 41, 41));
}

/* How many messages the bytes hold, whole ones, up to what ends a connection; 0 without a greeting
 * that is right. Their end in *end. */
static int count_messages(const uint8_t *p, size_t bytes, size_t *end)
{
    size_t at = GREETING_BYTES;
    int n = 0;
    uint64_t id = bytes < at ? 0 : uw_get_u32(p + 8) | (uint64_t)uw_get_u32(p + 12) << 32;
    *end = 0;
    if (bytes < at || memcmp(p, "uwt1", 4) != 0 || uw_get_u16(p + 4) == 0 || id == link_tcp.id) {
        return 0;
    }
    while (bytes - at >= PREFIX_BYTES) {
        uint32_t size = uw_get_u32(p + at);
        size_t whole = PREFIX_BYTES + (((size_t)size + 3u) & ~(size_t)3u);
        if (size > MTU || whole > bytes - at) {
            break;
        }
        at += whole;
        n++;
    }
    *end = at;
    return n;
}

/* Each as it lies in the input, in order. Returns how many there were, or -1. */
static int take(const uint8_t *input, size_t *at)
{
    uint8_t buf[MTU];
    uint16_t from;
    int n, taken = 0;
    now_us += 100;
    (void)uw_link_step(&link_tcp.link, now_us);
    while ((n = uw_link_recv(&link_tcp.link, &from, buf, sizeof buf)) >= 0) {
        if (uw_get_u32(input + *at) != (uint32_t)n ||
            memcmp(buf, input + *at + PREFIX_BYTES, (size_t)n) != 0) {
            return -1;
        }
        *at += PREFIX_BYTES + (((size_t)n + 3u) & ~(size_t)3u);
        taken++;
    }
    return n == UW_ERR_AGAIN ? taken : -1;
}

/* The bytes in two pieces, so that what is read ends anywhere. */
static int send_bytes(int fd, const uint8_t *input, size_t bytes, size_t cut, size_t *at)
{
    int taken = 0;
    for (size_t sent = 0; sent < bytes;) {
        size_t most = sent < cut ? cut - sent : bytes - sent;
        ssize_t n = send(fd, input + sent, most, MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EPIPE || errno == ECONNRESET ? taken : -1;
        }
        sent += (size_t)n;
        int more = take(input, at);
        if (more < 0) {
            return -1;
        }
        taken += more;
    }
    return taken;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    const struct linger at_once = {.l_onoff = 1};
    const int one = 1;
    size_t end, at = GREETING_BYTES;
    int want = count_messages(input, bytes, &end);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&here, sizeof here) < 0) {
        abort();
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int taken = send_bytes(fd, input, bytes, bytes * 5u / 8u, &at);
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < LOOKS && taken >= 0; i++) {     /* until it has closed its end, too */
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint8_t greeting[GREETING_BYTES];
        int more = take(input, &at);
        taken = more < 0 ? -1 : taken + more;
        if (poll(&p, 1, i < 3 ? 0 : WAIT_MS / LOOKS) > 0 &&
            recv(fd, greeting, sizeof greeting, 0) <= 0) {
            break;
        }
    }
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);    /* no port is left over */
    close(fd);
    (void)take(input, &at);
    return taken != want ? -1 : taken < 20 ? taken : 20;
}

static size_t mutate(struct uw_rng *rng, uint8_t *input, size_t bytes, size_t cap_bytes)
{
    static const struct uw_fuzz_field fields[] = {
        {0, 4}, {4, 2}, {8, 8}, {16, 4}, {20, 4}, {24, 4}, {28, 4}, {32, 1}, {36, 4}, {44, 4}};
    (void)cap_bytes;
    uw_fuzz_mutate_field(rng, input, bytes, fields, sizeof fields / sizeof fields[0]);
    return bytes;
}

int main(int argc, char **argv)
{
    const struct uw_fuzz_target target = {"tcp", add_inputs, try_one, MOST_BYTES};
    open_link();
    return uw_fuzz_run_form(&target, &(struct uw_fuzz_form){mutate, NULL}, argc, argv);
}
