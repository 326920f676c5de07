/* SPDX-License-Identifier: Apache-2.0 */
#include "ip_address.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

#define READ_BYTES 46                   /* the longest numeric IPv6 address, with its NUL ... */
#define PRINT_BYTES 40                  /* ... and without an embedded IPv4 address */
#define NO_GAP 17u

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

void uw_ip_address_set_ipv4(struct uw_ip_address *a, const uint8_t ip[4])
{
    memcpy(a->ip, mapped_prefix, sizeof mapped_prefix);
    memcpy(a->ip + 12, ip, 4);
    a->scope = 0;
}

bool uw_ip_address_is_ipv4(const struct uw_ip_address *a)
{
    return memcmp(a->ip, mapped_prefix, sizeof mapped_prefix) == 0;
}

bool uw_ip_address_is_any(const struct uw_ip_address *a)
{
    static const uint8_t any[16];
    return memcmp(a->ip, any, sizeof any) == 0 ||
           (uw_ip_address_is_ipv4(a) && memcmp(a->ip + 12, any, 4) == 0);
}

bool uw_ip_address_equal(const struct uw_ip_address *a, const struct uw_ip_address *b)
{
    return a->port == b->port && a->scope == b->scope && memcmp(a->ip, b->ip, 16) == 0;
}

/* The longest run of two or more zero groups, the first of equals, becomes "::". */
static void print_ipv6(const uint8_t ip[16], char text[PRINT_BYTES])
{
    uint32_t gap = 8, gap_n = 1;
    for (uint32_t i = 0, n; i < 8; i += n + 1u) {
        for (n = 0; i + n < 8 && ip[2 * (i + n)] == 0 && ip[2 * (i + n) + 1] == 0;) {
            n++;
        }
        if (n > gap_n) {
            gap = i;
            gap_n = n;
        }
    }
    char *p = text;
    for (uint32_t i = 0; i < 8; i++) {
        if (i == gap) {
            *p++ = ':';
            *p++ = ':';
            i += gap_n - 1u;
            continue;
        }
        unsigned group = (unsigned)ip[2 * i] << 8 | ip[2 * i + 1];
        const char *before = i == 0 || i == gap + gap_n ? "" : ":";
        p += snprintf(p, 6, "%s%x", before, group);
    }
    *p = '\0';
}

int uw_ip_address_print(const struct uw_ip_address *a, char text[UW_LINK_ADDRESS_BYTES])
{
    if (uw_ip_address_is_ipv4(a)) {
        snprintf(text, UW_LINK_ADDRESS_BYTES, "%u.%u.%u.%u:%u", a->ip[12], a->ip[13], a->ip[14],
                 a->ip[15], (unsigned)a->port);
        return UW_OK;
    }
    char host[PRINT_BYTES];
    char scope[12] = "";
    print_ipv6(a->ip, host);
    if (a->scope != 0) {
        snprintf(scope, sizeof scope, "%%%u", (unsigned)a->scope);
    }
    snprintf(text, UW_LINK_ADDRESS_BYTES, "[%s%s]:%u", host, scope, (unsigned)a->port);
    return UW_OK;
}

int uw_ip_address_split(const char *text, char host[UW_IP_HOST_BYTES], uint16_t *port)
{
    const char *end;
    const char *colon;
    if (text[0] == '[') {
        text++;
        end = strchr(text, ']');
        colon = end != NULL ? end + 1 : NULL;
    } else {
        end = strchr(text, ':');
        colon = end;
    }
    if (end == NULL || *colon != ':' || (size_t)(end - text) >= UW_IP_HOST_BYTES) {
        return UW_ERR_INVALID;
    }
    uint32_t number;
    if (!uw_read_number(colon + 1, colon + strlen(colon), UINT16_MAX, &number)) {
        return UW_ERR_INVALID;
    }
    memcpy(host, text, (size_t)(end - text));
    host[end - text] = '\0';
    *port = (uint16_t)number;
    return UW_OK;
}

bool uw_ip_address_parse_ipv4(const char *text, uint8_t ip[4])
{
    const char *p = text;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t number;
        const char *end = p;
        while (*end >= '0' && *end <= '9') {
            end++;
        }
        bool padded = end - p > 1 && *p == '0';     /* octal to some, decimal to others */
        if (padded || *end != (i < 3 ? '.' : '\0') || !uw_read_number(p, end, 255, &number)) {
            return false;
        }
        ip[i] = (uint8_t)number;
        p = end + 1;
    }
    return true;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    char lower = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
    const char *at = lower != '\0' ? strchr(digits, lower) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

static bool parse_ipv6(const char *p, uint8_t ip[16])
{
    uint8_t bytes[16] = {0};
    uint32_t n = 0, gap = NO_GAP;
    if (p[0] == ':' && p[1] == ':') {
        gap = 0;
        p += 2;
    }
    while (*p != '\0') {
        const char *group = p;
        uint32_t value = 0;
        for (; p - group < 4 && hex_digit(*p) >= 0; p++) {
            value = value * 16u + (uint32_t)hex_digit(*p);
        }
        if (*p == '.' && n <= 12 && uw_ip_address_parse_ipv4(group, bytes + n)) {
            n += 4;
            break;
        }
        if (p == group || n > 14) {
            return false;
        }
        bytes[n++] = (uint8_t)(value >> 8);
        bytes[n++] = (uint8_t)value;
        if (*p == '\0') {
            break;
        }
        if (p[0] != ':' || p[1] == '\0' || (p[1] == ':' && gap != NO_GAP)) {
            return false;
        }
        if (p[1] == ':') {
            gap = n;
            p++;
        }
        p++;
    }
    if (gap == NO_GAP ? n != 16 : n == 16) {
        return false;
    }
    gap = gap == NO_GAP ? 16 : gap;
    memset(ip, 0, 16);
    memcpy(ip, bytes, gap < n ? gap : n);
    if (gap < n) {
        memcpy(ip + 16 - (n - gap), bytes + gap, n - gap);
    }
    return true;
}

int uw_ip_address_parse_host(const char *host, struct uw_ip_address *a)
{
    uint8_t ip[16];
    if (uw_ip_address_parse_ipv4(host, ip)) {
        uw_ip_address_set_ipv4(a, ip);
        return UW_OK;
    }
    char number[READ_BYTES];
    const char *percent = strchr(host, '%');
    size_t bytes = percent != NULL ? (size_t)(percent - host) : strlen(host);
    uint32_t scope = 0;
    if (bytes >= sizeof number ||
        (percent != NULL &&
         !uw_read_number(percent + 1, percent + strlen(percent), UINT32_MAX / 16u, &scope))) {
        return UW_ERR_NOTFOUND;
    }
    memcpy(number, host, bytes);
    number[bytes] = '\0';
    if (!parse_ipv6(number, ip)) {
        return UW_ERR_NOTFOUND;
    }
    memcpy(a->ip, ip, sizeof ip);
    a->scope = uw_ip_address_is_ipv4(a) ? 0 : scope;    /* IPv4 has none, and is written without */
    return UW_OK;
}

int uw_ip_address_parse(const char *text, struct uw_ip_address *a)
{
    char host[UW_IP_HOST_BYTES];
    uint16_t port;
    int rc = uw_ip_address_split(text, host, &port);
    if (rc < 0 || host[0] == '\0' || port == 0) {
        return UW_ERR_INVALID;
    }
    rc = uw_ip_address_parse_host(host, a);
    if (rc == UW_OK) {
        a->port = port;
    }
    return rc;
}
