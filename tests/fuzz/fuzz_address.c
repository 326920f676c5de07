/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses as a peer tells them of others: what is read as numbers is written again as an address
 * that is read as the same. */
#include "fuzz.h"

#include "link/ip_address.h"

#include "uwasa/link_frame.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 120u

static void add_inputs(struct uw_fuzz_corpus *corpus)
{
    static const char *const texts[] = {
        "10.0.0.9:4433", "255.255.255.255:65535", "[::1]:1", "[fe80::1%2]:4433", "gateway:80",
        "[::]:9", "[1:2:3:4:5:6:7:8]:9", "[1:2:3:4:5:6:1.2.3.4]:9", "[::ffff:1.2.3.4]:9",
        "[1::8]:9", "[1:0:0:4::]:9", "[ABCD::ef%268435455]:9", ":4433", "[]:1", "[::1]", "1.2.3:4",
        "01.2.3.4:5", "[1:2:3:4:5:6:7::]:9", "[::1.2.3.4]:9", "[12345::]:1", "10.0.0.9:65536",
        "0", "65533", "65534"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uw_fuzz_add(corpus, texts[i], strlen(texts[i]));
    }
}

/* On a radio an address is a number. */
static int short_is_sound(const char *text)
{
    uint16_t address = 0;
    int rc = uw_link_frame_address(text, &address);
    return rc == UW_OK ? address <= UW_RADIO_ADDRESS_MAX && (uint16_t)atol(text) == address
                       : rc == UW_ERR_INVALID;
}

static int try_one(const uint8_t *input, size_t bytes)
{
    struct uw_ip_address a, again;
    char text[MOST_BYTES + 1u], written[UW_LINK_ADDRESS_BYTES];
    memcpy(text, input, bytes);
    text[bytes] = '\0';
    memset(&a, 0, sizeof a);
    if (!short_is_sound(text)) {
        return -1;
    }
    int rc = uw_ip_address_parse(text, &a);
    if (rc != UW_OK) {
        return rc == UW_ERR_INVALID || rc == UW_ERR_NOTFOUND ? -rc : -1;
    }
    memset(&again, 0, sizeof again);
    if (uw_ip_address_print(&a, written) != UW_OK || strlen(written) >= sizeof written ||
        uw_ip_address_parse(written, &again) != UW_OK || !uw_ip_address_equal(&a, &again)) {
        return -1;
    }
    return 1000 + (uw_ip_address_is_ipv4(&a) ? 1 : 0) + (a.scope != 0 ? 2 : 0);
}

int main(int argc, char **argv)
{
    return uw_fuzz_run(&(struct uw_fuzz_target){"address", add_inputs, try_one, MOST_BYTES}, argc,
                       argv);
}
