/* SPDX-License-Identifier: Apache-2.0
 *
 * Members with several addresses: where they are called, and what is told about them. */
#include "unit/membership_bench.h"

#include "membership/member_addresses.h"

#include "link/ip_own.h"

/* 10.0.0.2:4433, 10.0.0.3:4433 and [fd00::1]:4433 */
static const uint8_t both[] = {4, 10, 0, 0, 2, 0x11, 0x51, 4, 10, 0, 0, 3, 0x11, 0x51};
static const uint8_t wide[] = {6, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x11, 0x51};

static struct uw_link *real;

/* Station N is at 10.0.0.N:4433, or N for short; there is no IPv6. */
static int resolve_ip(struct uw_link *l, const char *address, uint16_t *station)
{
    (void)l;
    unsigned n;
    char port[8];
    bool is_short = strchr(address, '.') == NULL && sscanf(address, "%u", &n) == 1;
    if (!is_short &&
        (sscanf(address, "10.0.0.%u:%7s", &n, port) != 2 || strcmp(port, "4433") != 0)) {
        return UW_ERR_NOTFOUND;
    }
    *station = (uint16_t)n;
    return UW_OK;
}

struct place {
    struct bench b;
    struct uw_link_ops ops;
    uint8_t memory[4096];
};

static void open_bench(struct place *p)
{
    struct uw_arena arena;
    set_up(&p->b, 4, NULL, 0);
    real = &p->b.link.link;
    p->ops = *real->ops;
    p->ops.resolve = resolve_ip;
    real->ops = &p->ops;
    uw_arena_init(&arena, p->memory, sizeof p->memory);
    p->b.m.config.addresses = &uw_member_addresses;
    assert_int_equal(uw_member_addresses_place(&p->b.m, &arena), UW_OK);
}

static void hear_of(struct bench *b, const char *address, const uint8_t *also, uint32_t n)
{
    uwasa_Peer peer = {.name = "c", .incarnation = 5, .state = uwasa_State_ALIVE};
    strcpy(peer.address, address);
    uw_membership_rumour(&b->m, &peer, b->m.now_us);
    uw_member_addresses_take(&b->m, &peer, also, n, true);
}

static void count_calls(struct bench *b, uint64_t from_us, uint64_t to_us, uint32_t calls[8])
{
    memset(calls, 0, 8 * sizeof calls[0]);
    for (uint64_t t = from_us; t < to_us; t += SECOND / 20u) {
        uint16_t to;
        uint32_t seq;
        uw_membership_wake(&b->m, uw_membership_next_us(&b->m), t);
        while (uw_membership_next(&b->m, t, &to, &seq) != 0) {
            calls[to & 7u]++;
        }
    }
}

static void test_unknown_member_is_called_at_all_its_addresses_in_turn(void **state)
{
    (void)state;
    static struct place p;
    uint32_t calls[8];
    open_bench(&p);
    hear_of(&p.b, "1", both, sizeof both);
    count_calls(&p.b, SECOND, 4 * SECOND, calls);
    assert_true(calls[1] >= 2 && calls[2] >= 2 && calls[3] >= 2);
    /* Where it answers it stays. */
    assert_int_equal(tell(&p.b, 3, "c", 5, 4 * SECOND), UW_OK);
    assert_int_equal(p.b.m.members[1].station, 3);
    count_calls(&p.b, 4 * SECOND, 5 * SECOND, calls);
    assert_int_equal(calls[1] + calls[2], 0);
    /* Once it is dead there, the others are tried again. */
    count_calls(&p.b, 5 * SECOND, 60 * SECOND, calls);
    assert_int_equal(p.b.events[UW_NODE_DEAD], 1);
    assert_true(calls[2] >= 2 && calls[3] >= 2);
}

static void test_address_of_a_family_that_the_link_lacks_costs_no_turn(void **state)
{
    (void)state;
    static struct place p;
    uint32_t calls[8];
    open_bench(&p);
    hear_of(&p.b, "[fd00::9]:4433", both, sizeof both);
    count_calls(&p.b, SECOND, 4 * SECOND, calls);
    assert_true(calls[2] >= 2 && calls[3] >= 2);
    open_bench(&p);
    hear_of(&p.b, "1", wide, sizeof wide);
    count_calls(&p.b, SECOND, 2 * SECOND, calls);
    uint32_t with = calls[1];
    open_bench(&p);
    hear_of(&p.b, "1", NULL, 0);
    count_calls(&p.b, SECOND, 2 * SECOND, calls);
    assert_int_equal(with, calls[1]);
}

static void test_addresses_of_a_member_are_told_without_the_one_in_its_record(void **state)
{
    (void)state;
    static struct place p;
    uint8_t also[UW_MESSAGE_ALSO_MOST];
    uwasa_Peer peer = {.name = "c", .address = "10.0.0.2:4433"};
    open_bench(&p);
    assert_int_equal(uw_member_addresses_of(&p.b.m, &peer, also), 0);
    assert_int_equal(tell(&p.b, 2, "c", 5, SECOND), UW_OK);
    uw_member_addresses_take(&p.b.m, &peer, both, sizeof both, false);
    assert_int_equal(uw_member_addresses_of(&p.b.m, &peer, also), 7);
    assert_memory_equal(also, both + 7, 7);
    /* A rumour does not replace what it told itself, nor does nonsense. */
    uw_member_addresses_take(&p.b.m, &peer, wide, sizeof wide, true);
    uw_member_addresses_take(&p.b.m, &peer, also, sizeof also + 1u, false);
    assert_int_equal(uw_member_addresses_of(&p.b.m, &peer, also), 7);
    uw_member_addresses_take(&p.b.m, &peer, (const uint8_t[]){4, 1, 2}, 3, false);
    assert_int_equal(uw_member_addresses_of(&p.b.m, &peer, also), 0);
}

static void test_addresses_follow_the_record_that_they_are_of(void **state)
{
    (void)state;
    uint8_t buf[256];
    uwasa_Ping ping = {.run = 1, .has_self = true, .self = {.name = "a"}}, got;
    uwasa_Peer peers[2] = {{.name = "b", .address = "1"}, {.name = "c", .address = "2"}}, peer;
    for (int frames = 0; frames < 2; frames++) {
        bool f = frames != 0;
        uint32_t n, at = 0;
        int bytes = uw_message_write(f, UW_WIRE_HELLO, &uw_form_ping, &ping, buf, sizeof buf);
        bytes = uw_message_add_also(f, both, sizeof both, buf, (uint32_t)bytes, sizeof buf);
        bytes = uw_message_add_peer(f, &peers[0], buf, (uint32_t)bytes, sizeof buf);
        bytes = uw_message_add_peer(f, &peers[1], buf, (uint32_t)bytes, sizeof buf);
        assert_int_equal(uw_message_add_also(f, wide, sizeof wide, buf, (uint32_t)bytes,
                                             (uint32_t)bytes + sizeof wide), UW_ERR_TOOBIG);
        bytes = uw_message_add_also(f, wide, sizeof wide, buf, (uint32_t)bytes, sizeof buf);
        assert_true(bytes > 0);
        assert_int_equal(uw_message_type(f, buf, (uint32_t)bytes), UW_WIRE_HELLO);
        assert_int_equal(uw_message_read(f, &uw_form_ping, buf, (uint32_t)bytes, &got), UW_OK);
        assert_string_equal(got.self.name, "a");
        const uint8_t *also = uw_message_also(f, buf, (uint32_t)bytes, 0, &n);
        assert_int_equal(n, sizeof both);
        assert_memory_equal(also, both, n);
        assert_int_equal(uw_message_peers(f, buf, (uint32_t)bytes), 2);
        assert_true(uw_message_next_peer(f, buf, (uint32_t)bytes, &at, &peer));
        assert_null(uw_message_also(f, buf, (uint32_t)bytes, at, &n));
        assert_int_equal(n, 0);
        assert_true(uw_message_next_peer(f, buf, (uint32_t)bytes, &at, &peer));
        also = uw_message_also(f, buf, (uint32_t)bytes, at, &n);
        assert_int_equal(n, sizeof wide);
        assert_memory_equal(also, wide, n);
        for (uint32_t cut = at + (f ? 1u : 5u); cut < (uint32_t)bytes; cut++) {
            assert_null(uw_message_also(f, buf, cut, at, &n));      /* a cut one is none */
        }
    }
}

static void test_own_addresses_are_those_that_another_machine_can_use(void **state)
{
    (void)state;
    uint8_t out[UW_MESSAGE_ALSO_MOST];
    struct uw_ip_address a = {.port = 4433};
    uw_ip_address_set_ipv4(&a, (const uint8_t[]){10, 0, 0, 2});
    assert_int_equal(uw_ip_own(&a, true, false, out, sizeof out), 7);
    assert_memory_equal(out, both, 7);
    assert_int_equal(uw_ip_own(&a, true, false, out, 6), 0);
    uw_ip_address_set_ipv4(&a, (const uint8_t[]){127, 0, 0, 1});
    assert_int_equal(uw_ip_own(&a, true, false, out, sizeof out), 0);
    a = (struct uw_ip_address){.ip = {0xfd, [15] = 1}, .port = 4433};
    assert_int_equal(uw_ip_own(&a, false, true, out, sizeof out), sizeof wide);
    assert_memory_equal(out, wide, sizeof wide);
    a.ip[0] = 0xfe;
    a.ip[1] = 0x80;
    assert_int_equal(uw_ip_own(&a, false, true, out, sizeof out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_member_is_called_at_all_its_addresses_in_turn),
        cmocka_unit_test(test_address_of_a_family_that_the_link_lacks_costs_no_turn),
        cmocka_unit_test(test_addresses_of_a_member_are_told_without_the_one_in_its_record),
        cmocka_unit_test(test_addresses_follow_the_record_that_they_are_of),
        cmocka_unit_test(test_own_addresses_are_those_that_another_machine_can_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
