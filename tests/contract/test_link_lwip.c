/* SPDX-License-Identifier: Apache-2.0
 *
 * The link suite over lwIP as boards have it, and its own: addresses asked for on the cable, a
 * controller that holds few frames, datagrams that are too large or come in pieces. */
#include "ethernet_memory.h"
#include "link_pair.h"

#define PORT 4433u
#define HEAD_BYTES 42u                  /* of Ethernet, IP and UDP */

static struct ethernet_memory card[2];
static struct uw_link_lwip end[2];

static int open_end(struct pair *p, size_t i, const struct uw_link_lwip_config *like,
                    struct uw_error *err)
{
    static const char *const address[2] = {"10.0.0.1/24:4433", "10.0.0.2/24:4433"};
    struct uw_link_lwip_config c = *like;
    c.ethernet = &card[i].base;
    c.address = c.address != NULL ? c.address : address[i];
    c.seed = (uint32_t)i;
    c.memory_bytes = uw_link_lwip_bytes_a(&c);
    c.memory = c.memory_bytes != SIZE_MAX ? block(p, c.memory_bytes) : NULL;
    p->link[i] = &end[i].link;
    return i == 0 ? uw_link_lwip_init_a(&end[0], &c, err) : uw_link_lwip_init_b(&end[1], &c, err);
}

static void join_cards(void)
{
    ethernet_memory_init(&card[0], &card[1], 1);
    ethernet_memory_init(&card[1], &card[0], 2);
}

static const char *open_pair(struct pair *p, const struct uw_link_lwip_config *like)
{
    struct uw_error err = {0};
    join_cards();
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(open_end(p, i, like, &err), UW_OK);
    }
    assert_int_equal(uw_link_resolve(p->link[0], "10.0.0.2:4433", &p->to[0]), UW_OK);
    return NULL;
}

static const char *open_default(struct pair *p)
{
    return open_pair(p, &(struct uw_link_lwip_config){.stations_n = 4});
}

static const char *open_largest(struct pair *p)
{
    return open_pair(p, &(struct uw_link_lwip_config){.mtu_bytes = UW_LINK_LWIP_MTU_MAX});
}

static const char *open_dtls(struct pair *p)
{
    return secure(p, open_default(p));
}

/* ---- what is lwIP's own ---- */

static int setup(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    open_default(p);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;
    for (size_t i = 0; i < 2; i++) {
        uw_link_deinit(p->link[i]);
    }
    while (p->blocks_n != 0) {
        uw_test_release(p->blocks[--p->blocks_n]);
    }
    free(p);
    return 0;
}

static uint32_t take_all(struct pair *p, size_t at, uint32_t passes)
{
    uint8_t buf[MTU];
    uint16_t from;
    uint32_t n = 0;
    for (uint32_t i = 0; i < passes; i++) {
        pass_time(p);
        while (uw_link_recv(p->link[at], &from, buf, sizeof buf) >= 0) {
            n++;
        }
    }
    return n;
}

static void send_some(struct pair *p, uint32_t n, uint32_t bytes)
{
    uint8_t buf[MTU] = {0};
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(uw_link_send(p->link[0], p->to[0], buf, bytes), UW_OK);
    }
}

static void test_lwip_first_burst_waits_for_the_address(void **state)
{
    struct pair *p = *state;
    uint32_t sent_n = card[0].sent_n;
    send_some(p, 3, 300);
    assert_int_equal(card[0].sent_n, sent_n + 1u);      /* who has 10.0.0.2? */
    assert_int_equal(take_all(p, 1, 4), 3);
}

static void test_lwip_lost_question_is_asked_again(void **state)
{
    struct pair *p = *state;
    card[0].lose = 1;
    send_some(p, 1, 300);
    assert_int_equal(take_all(p, 1, 4 * 3000), 1);      /* in three seconds */
}

static void test_lwip_lost_answer_is_asked_for_again(void **state)
{
    struct pair *p = *state;
    card[1].lose = 1;
    send_some(p, 1, 300);
    assert_int_equal(take_all(p, 1, 4 * 3000), 1);
}

static void test_lwip_card_holds_a_burst_and_loses_what_is_beyond(void **state)
{
    struct pair *p = *state;
    assert_int_equal(p->link[1]->burst_bytes, card[1].base.burst_bytes);
    assert_int_equal(p->link[1]->burst_n, ETHERNET_FRAMES);
    send_some(p, 1, 1);
    assert_int_equal(take_all(p, 1, 2), 1);
    for (uint32_t round = 0; round < 50; round++) {     /* no buffer of lwIP is lost on the way */
        uint64_t dropped = p->link[1]->stats.dropped_n;
        send_some(p, ETHERNET_FRAMES + 3u, 1200);
        assert_int_equal(take_all(p, 1, 2), ETHERNET_FRAMES);
        assert_int_equal(p->link[1]->stats.dropped_n, dropped + 3);
    }
}

static void be16(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static void check_sum(uint8_t *frame, uint32_t first, uint32_t last, uint32_t at)
{
    uint32_t sum = 0;
    for (uint32_t i = first; i < last; i += 2) {
        sum += (uint32_t)frame[i] << 8 | frame[i + 1u];
    }
    be16(frame + at, ~(sum + (sum >> 16)));
}

/* A UDP datagram without checksum of so many bytes for end 1, as a whole or as a fragment. */
static uint32_t datagram(uint8_t frame[UW_ETHERNET_FRAME_MAX], uint32_t bytes, uint32_t fragment)
{
    const uint8_t head[34] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 7,
                              0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
    memset(frame, 0, UW_ETHERNET_FRAME_MAX);
    memcpy(frame, head, sizeof head);
    be16(frame + 16, bytes + 28u);
    be16(frame + 20, fragment);
    be16(frame + 34, PORT);
    be16(frame + 36, PORT);
    be16(frame + 38, bytes + 8u);
    check_sum(frame, 14, 34, 24);
    return HEAD_BYTES + bytes;
}

/* A ping of end 1 from 10.0.0.x, which answers no question. */
static uint32_t ping(uint8_t frame[UW_ETHERNET_FRAME_MAX], uint8_t x)
{
    uint32_t bytes = datagram(frame, 64, 0);
    frame[23] = 1;
    frame[29] = x;
    be16(frame + 24, 0);
    check_sum(frame, 14, 34, 24);
    memset(frame + 34, 0, 8);
    frame[34] = 8;
    check_sum(frame, 34, bytes, 36);
    return bytes;
}

static void test_lwip_datagram_above_the_mtu_is_dropped_and_counted(void **state)
{
    struct pair *p = *state;
    uint8_t frame[UW_ETHERNET_FRAME_MAX];
    const uint32_t size[] = {MTU, MTU + 1u, UW_LINK_LWIP_MTU_MAX};
    for (size_t i = 0; i < 3; i++) {
        uint64_t dropped = p->link[1]->stats.dropped_n;
        ethernet_memory_arrive(&card[1], frame, datagram(frame, size[i], 0));
        assert_int_equal(take_all(p, 1, 2), size[i] == MTU);
        assert_int_equal(p->link[1]->stats.dropped_n, dropped + (size[i] != MTU));
    }
}

static void test_lwip_fragments_are_dropped(void **state)
{
    struct pair *p = *state;
    uint8_t frame[UW_ETHERNET_FRAME_MAX];
    const uint32_t fragment[] = {0x2000, 0x0001, 0x2001, 0x00b9};   /* first, last, in between */
    for (uint32_t round = 0; round < 20; round++) {     /* and no buffer stays with them */
        for (size_t i = 0; i < 4; i++) {
            ethernet_memory_arrive(&card[1], frame, datagram(frame, 1000, fragment[i]));
        }
        assert_int_equal(take_all(p, 1, 2), 0);
    }
    ethernet_memory_arrive(&card[1], frame, datagram(frame, 1000, 0));
    assert_int_equal(take_all(p, 1, 2), 1);
}

static void test_lwip_pings_of_nobody_do_not_stop_messages(void **state)
{
    struct pair *p = *state;
    uint8_t frame[UW_ETHERNET_FRAME_MAX];
    for (uint8_t x = 100; x < 100 + ETHERNET_FRAMES; x++) {
        ethernet_memory_arrive(&card[1], frame, ping(frame, x));
    }
    assert_int_equal(take_all(p, 1, 4), 0);
    ethernet_memory_arrive(&card[1], frame, datagram(frame, 1000, 0));
    assert_int_equal(take_all(p, 1, 4), 1);
}

static void test_lwip_checksums_are_checked(void **state)
{
    struct pair *p = *state;
    uint8_t frame[UW_ETHERNET_FRAME_MAX];
    uint32_t bytes = datagram(frame, 100, 0);
    be16(frame + 40, 0x1234);           /* of UDP */
    ethernet_memory_arrive(&card[1], frame, bytes);
    datagram(frame, 100, 0);
    frame[24] ^= 1u;                    /* of IP */
    ethernet_memory_arrive(&card[1], frame, bytes);
    assert_int_equal(take_all(p, 1, 2), 0);
}

/* The machine that runs an emulator is 10.0.0.2 here; others know it as 127.0.0.1. */
static void test_lwip_loopback_of_others_is_told_and_understood(void **state)
{
    struct pair *p = *state;
    struct uw_error err;
    char text[UW_LINK_ADDRESS_BYTES];
    uint16_t station;
    uw_link_deinit(p->link[0]);
    assert_int_equal(open_end(p, 0, &(struct uw_link_lwip_config){.loopback = "10.0.0.2"}, &err),
                     UW_OK);
    assert_int_equal(uw_link_resolve(p->link[0], "127.0.0.1:4433", &p->to[0]), UW_OK);
    assert_int_equal(uw_link_resolve(p->link[0], "10.0.0.2:4433", &station), UW_OK);
    assert_int_equal(station, p->to[0]);
    assert_int_equal(uw_link_describe(p->link[0], station, text), UW_OK);
    assert_string_equal(text, "127.0.0.1:4433");
    send_some(p, 1, 10);
    assert_int_equal(take_all(p, 1, 4), 1);
}

static void test_lwip_other_networks_are_reached_by_the_gateway(void **state)
{
    struct pair *p = *state;
    struct uw_error err;
    uw_link_deinit(p->link[0]);
    assert_int_equal(open_end(p, 0, &(struct uw_link_lwip_config){.gateway = "10.0.0.2"}, &err),
                     UW_OK);
    assert_int_equal(uw_link_resolve(p->link[0], "192.0.2.7:9", &p->to[0]), UW_OK);
    (void)take_all(p, 1, 1);
    send_some(p, 1, 10);
    assert_int_equal(card[1].n, 1);
    assert_int_equal(card[1].frame[card[1].first][41], 2);      /* it asks for 10.0.0.2 */
}

static void test_lwip_bad_settings_get_a_sentence(void **state)
{
    struct pair *p = *state;
    struct uw_error err;
    uint16_t station;
    struct uw_link_lwip first = end[1];
    assert_int_equal(open_end(p, 1, &(struct uw_link_lwip_config){0}, &err), UW_ERR_FULL);
    uw_link_deinit(&first.link);
    const struct {
        struct uw_link_lwip_config config;
        int rc;
        const char *says;
    } bad[] = {
        {{.address = "10.0.0.1"}, UW_ERR_INVALID, "\"10.0.0.1\""},
        {{.address = "10.0.0.1/33:4433"}, UW_ERR_INVALID, "10.0.2.15/24:4433"},
        {{.address = "10.0.0.1/24:0"}, UW_ERR_INVALID, "10.0.2.15/24:4433"},
        {{.address = "host:80"}, UW_ERR_INVALID, "host:80"},
        {{.gateway = "10.0.0"}, UW_ERR_INVALID, "gateway"},
        {{.loopback = "::1"}, UW_ERR_INVALID, "loopback"},
        {{.mtu_bytes = UW_LINK_LWIP_MTU_MAX + 1u}, UW_ERR_INVALID, "1472"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(open_end(p, 1, &bad[i].config, &err), bad[i].rc);
        assert_non_null(strstr(err.text, bad[i].says));
        uw_link_deinit(&end[1].link);
        while (p->blocks_n > 2) {       /* those of the pair */
            uw_test_release(p->blocks[--p->blocks_n]);
        }
    }
    assert_int_equal(open_end(p, 1, &(struct uw_link_lwip_config){0}, &err), UW_OK);
    assert_int_equal(uw_link_resolve(p->link[1], "10.0.0.1/24:80", &station), UW_ERR_INVALID);
}

#define OWN(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct variant variants[] = {
        {"lwip", open_default}, {"lwip, largest messages", open_largest},
        {"dtls over lwip", open_dtls}};
    const struct CMUnitTest own[] = {
        OWN(test_lwip_first_burst_waits_for_the_address),
        OWN(test_lwip_lost_question_is_asked_again),
        OWN(test_lwip_lost_answer_is_asked_for_again),
        OWN(test_lwip_card_holds_a_burst_and_loses_what_is_beyond),
        OWN(test_lwip_datagram_above_the_mtu_is_dropped_and_counted),
        OWN(test_lwip_fragments_are_dropped),
        OWN(test_lwip_pings_of_nobody_do_not_stop_messages),
        OWN(test_lwip_checksums_are_checked),
        OWN(test_lwip_loopback_of_others_is_told_and_understood),
        OWN(test_lwip_other_networks_are_reached_by_the_gateway),
        OWN(test_lwip_bad_settings_get_a_sentence),
    };
    int failed = cmocka_run_group_tests(own, NULL, NULL);
    return failed + uw_test_link_suite(variants, sizeof variants / sizeof variants[0]);
}
