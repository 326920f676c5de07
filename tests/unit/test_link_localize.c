/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses that peers tell: the scope of a link-local one is a number of the peer's interfaces. */
#include "test_support.h"

#include "uwasa/link.h"

static const char *const seen_at[] = {"[fe80::1%7]:4433", "[fd00::1]:4433", "10.0.0.1:4433",
                                      "[fe80::1%4294967295]:4433"};

static int describe(struct uw_link *l, uint16_t station, char text[UW_LINK_ADDRESS_BYTES])
{
    (void)l;
    if (station >= sizeof seen_at / sizeof seen_at[0]) {
        return UW_ERR_NOTFOUND;
    }
    strcpy(text, seen_at[station]);
    return UW_OK;
}

static void expect(uint16_t peer, const char *told, const char *want)
{
    static const struct uw_link_ops ops = {.describe = describe};
    struct uw_link l = {.ops = &ops};
    char address[UW_LINK_ADDRESS_BYTES] = "";
    snprintf(address, sizeof address, "%s", told);
    uw_link_localize(&l, peer, address);
    assert_string_equal(address, want);
}

static void test_localize_link_local_address_gets_the_interface_of_the_teller(void **state)
{
    (void)state;
    expect(0, "[fe80::3%2]:4433", "[fe80::3%7]:4433");
    expect(0, "[febf:1::3%12]:1", "[febf:1::3%7]:1");
    expect(3, "[fe80::3%2]:65535", "[fe80::3%4294967295]:65535");
}

static void test_localize_leaves_what_has_no_scope_of_the_teller(void **state)
{
    (void)state;
    static const char *const same[] = {"10.0.0.9:4433", "[fd00::2]:4433", "[fec0::1%3]:4433", "",
                                       "host%2.example:4433", "[fe80::3]:4433", "[fe80::3%2",
                                       "[fe", "3"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        expect(0, same[i], same[i]);
    }
    expect(1, "[fe80::3%2]:4433", "[fe80::3%2]:4433");
    expect(2, "[fe80::3%2]:4433", "[fe80::3%2]:4433");
    expect(9, "[fe80::3%2]:4433", "[fe80::3%2]:4433");      /* no such station */
}

/* What does not fit stays as it is: it names nobody, and breaks nothing. */
static void test_localize_address_without_room_for_the_scope_is_left(void **state)
{
    (void)state;
    char longest[UW_LINK_ADDRESS_BYTES];
    memset(longest, 'f', sizeof longest);
    memcpy(longest, "[fe80:", 6);
    memcpy(longest + sizeof longest - 7, "%1]:99", 7);
    assert_int_equal(strlen(longest), UW_LINK_ADDRESS_BYTES - 1u);
    expect(3, longest, longest);
    longest[sizeof longest - 6] = '7';
    char want[UW_LINK_ADDRESS_BYTES];
    memcpy(want, longest, sizeof want);
    longest[sizeof longest - 6] = '1';
    expect(0, longest, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_localize_link_local_address_gets_the_interface_of_the_teller),
        cmocka_unit_test(test_localize_leaves_what_has_no_scope_of_the_teller),
        cmocka_unit_test(test_localize_address_without_room_for_the_scope_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
