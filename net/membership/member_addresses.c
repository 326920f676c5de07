/* SPDX-License-Identifier: Apache-2.0 */
#include "member_addresses.h"
#include "membership_priv.h"

#include "link/ip_address.h"

#include <string.h>

#define CALLS_EACH 2u               /* of which the first may begin a session only */
#define HEAD_BYTES 1u
#define PORT_BYTES 2u

int uw_member_addresses_place(struct uw_membership *m, struct uw_arena *arena)
{
    void *memory = NULL;
    size_t bytes = uw_size_mul(m->config.members_max, sizeof *m->also);
    int rc = uw_arena_take(arena, bytes, &memory);
    m->also = memory;
    for (uint32_t i = 0; rc == UW_OK && m->also != NULL && i < m->config.members_max; i++) {
        m->also[i] = (struct uw_member_also){.station = UW_LINK_STATION_NONE};
    }
    return rc;
}

/* Bytes of the address at `at`; 0: there is none. */
static uint32_t size_at(const uint8_t *also, uint32_t bytes_n, uint32_t at)
{
    uint32_t family = at < bytes_n ? also[at] : 0;
    uint32_t n = HEAD_BYTES + (family == 4u ? 4u : 16u) + PORT_BYTES;
    return (family == 4u || family == 6u) && n <= bytes_n - at ? n : 0;
}

static void print_at(const uint8_t *also, uint32_t n, char text[UW_LINK_ADDRESS_BYTES])
{
    struct uw_ip_address a = {.port = (uint16_t)(also[n - 2u] << 8 | also[n - 1u])};
    if (also[0] == 4u) {
        uw_ip_address_set_ipv4(&a, also + HEAD_BYTES);
    } else {
        memcpy(a.ip, also + HEAD_BYTES, sizeof a.ip);
    }
    (void)uw_ip_address_print(&a, text);
}

void uw_member_addresses_take(struct uw_membership *m, const uwasa_Peer *peer, const uint8_t *also,
                              uint32_t also_bytes, bool rumour)
{
    const struct uw_member *it = uw_membership_named(m, peer->name);
    struct uw_member_also *its = it != NULL ? &m->also[it->place] : NULL;
    if (its == NULL || also_bytes == 0 || also_bytes > sizeof its->bytes ||
        (rumour && its->id == it->id && it->state != UW_MEMBER_UNKNOWN)) {
        return;
    }
    its->id = it->id;
    its->bytes_n = (uint8_t)also_bytes;
    memcpy(its->bytes, also, also_bytes);
}

uint32_t uw_member_addresses_of(const struct uw_membership *m, const uwasa_Peer *peer,
                                uint8_t also[UW_MESSAGE_ALSO_MOST])
{
    const struct uw_member *it = uw_membership_named((struct uw_membership *)(uintptr_t)m,
                                                     peer->name);
    const struct uw_member_also *its = it != NULL ? &m->also[it->place] : NULL;
    uint32_t bytes = 0, n;
    if (its == NULL || its->id != it->id) {
        return 0;
    }
    for (uint32_t at = 0; (n = size_at(its->bytes, its->bytes_n, at)) != 0; at += n) {
        char text[UW_LINK_ADDRESS_BYTES];
        print_at(its->bytes + at, n, text);
        if (strcmp(text, peer->address) != 0) {
            memcpy(also + bytes, its->bytes + at, n);
            bytes += n;
        }
    }
    return bytes;
}

/* The number `wanted` of the addresses. Returns whether there is one. */
static bool find(const struct uw_member_also *its, uint32_t wanted,
                 char text[UW_LINK_ADDRESS_BYTES])
{
    uint32_t at = 0, n = size_at(its->bytes, its->bytes_n, 0);
    for (uint32_t i = 0; i < wanted && n != 0; i++) {
        at += n;
        n = size_at(its->bytes, its->bytes_n, at);
    }
    if (n != 0) {
        print_at(its->bytes + at, n, text);
    }
    return n != 0;
}

static uint32_t count(const struct uw_member_also *its)
{
    char text[UW_LINK_ADDRESS_BYTES];
    uint32_t n = 0;
    while (find(its, n, text)) {
        n++;
    }
    return n;
}

static int choose(struct uw_membership *m, const struct uw_member *it, int found,
                  uint16_t *station)
{
    struct uw_member_also *its = &m->also[it->place];
    char text[UW_LINK_ADDRESS_BYTES];
    uint16_t before = its->station, other = UW_LINK_STATION_NONE;
    its->station = UW_LINK_STATION_NONE;
    uint32_t turn = its->id == it->id ? it->tries / CALLS_EACH % (count(its) + 1u) : 0;
    bool resolved = turn != 0 && find(its, turn - 1u, text) &&
                    uw_link_resolve(m->config.link, text, &other) == UW_OK;
    if (before != other) {
        uw_membership_let_go(m, before);
    }
    if (!resolved || other == *station) {
        return found;
    }
    if (uw_membership_at(m, other) != NULL) {       /* of another member: a NAT's inside */
        return found;
    }
    its->station = other;
    /* It may have lost the session in a restart. */
    if (it->state == UW_MEMBER_DEAD && it->tries % CALLS_EACH == 0) {
        uw_link_forget(m->config.link, other);
    }
    *station = other;
    return UW_OK;
}

const struct uw_member_addresses uw_member_addresses = {choose};
