/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/radio_profile.h"

#include "base/number.h"

#include "uwasa/radio_bus.h"
#include "uwasa/status.h"

#include <string.h>

#define LORA_SF_MIN 7u
#define LORA_SF_MAX 12u

/* IP: 40 of IPv6 and 8 of UDP are in the overhead. */
#define IP_FRAME_BYTES 1232u
#define IP_BYTES 48u

/* Of uwasa/radio_bus.h: two and a half slots of 8 bytes, or of 300 us. */
#define BUS_BAUD 115200u
#define BUS_BYTES 20u
#define BUS_MIN_US 750u

static const struct uw_radio_profile profiles[] = {
    {.name = "802154", .kind = UW_RADIO_802154, .rate_bits_per_s = 250000, .frame_bytes = 127 - 11,
     .access_us = 1120 + 128 + 192,             /* backoff, CCA, turnaround */
     .overhead_bytes = 6 + 11, .broadcasts = true, .shared = true, .frames = true},
    {.name = "ble", .kind = UW_RADIO_BLE, .rate_bits_per_s = 1000000, .frame_bytes = 251 - 7,
     .access_us = 150 + 80 + 150,               /* the other side's empty packet and two spaces */
     .overhead_bytes = 10 + 7, .shared = true, .frames = true},
    {.name = "espnow", .kind = UW_RADIO_ESPNOW, .rate_bits_per_s = 1000000, .frame_bytes = 250,
     .access_us = 50 + 310, .fixed_us = 192,
     .overhead_bytes = 24 + 1 + 3 + 4 + 7 + 4,
     .broadcasts = true, .shared = true, .frames = true},
    {.name = "lora", .kind = UW_RADIO_LORA,
     .sf = LORA_SF_MIN, .duty_ppm = 10000, .overhead_bytes = 13,
     .broadcasts = true, .shared = true, .frames = true},
    {.name = "bus", .kind = UW_RADIO_BUS,
     .rate_bits_per_s = BUS_BAUD, .frame_bytes = UW_RADIO_BUS_FRAME_DEFAULT,
     .overhead_bytes = 4 + 7 + 1, .byte_bits = UW_SERIAL_LINE_BITS,     /* addresses; a frame's */
     .broadcasts = true, .shared = true, .frames = true},
    {.name = "serial", .kind = UW_RADIO_SERIAL, .rate_bits_per_s = 115200, .frame_bytes = 512,
     .overhead_bytes = 7 + 2, .byte_bits = UW_SERIAL_LINE_BITS},
    {.name = "wifi", .kind = UW_RADIO_WIFI,
     .rate_bits_per_s = 54000000, .frame_bytes = IP_FRAME_BYTES,
     .access_us = 2 * (34 + 68), .fixed_us = 2 * (20 + 16 + 28),    /* PLCP; SIFS, ACK */
     .overhead_bytes = 24 + 2 + 16 + 8 + 4 + IP_BYTES,      /* MAC, QoS, CCMP, LLC, FCS */
     .crossings = 2, .shared = true},
    {.name = "ethernet", .kind = UW_RADIO_ETHERNET,
     .rate_bits_per_s = 1000000000, .frame_bytes = IP_FRAME_BYTES,
     .overhead_bytes = 8 + 14 + 4 + 12 + IP_BYTES},
    {.name = "lte", .kind = UW_RADIO_LTE, .rate_bits_per_s = 5000000, .frame_bytes = IP_FRAME_BYTES,
     .overhead_bytes = IP_BYTES},
};

/* "SF7" to "SF12"; 0: not one of them. */
static uint32_t read_sf(const char *text)
{
    uint32_t sf = 0;
    bool good = text[0] == 'S' && text[1] == 'F' && text[2] != '0' &&
                uw_read_number(text + 2, text + strlen(text), LORA_SF_MAX, &sf);
    return good && sf >= LORA_SF_MIN ? sf : 0;
}

/* LoRaWAN's largest payloads in Europe. */
static uint32_t lora_frame_bytes(uint32_t sf)
{
    return sf <= 8 ? 222 : sf == 9 ? 115 : 51;
}

/* "921600", "100M"; 0: no rate. */
static uint64_t read_rate(const char *text)
{
    uint64_t rate = 0;
    for (; *text >= '0' && *text <= '9' && rate < UINT32_MAX; text++) {
        rate = rate * 10u + (uint64_t)(*text - '0');
    }
    uint64_t unit = *text == 'k' ? 1000u : *text == 'M' ? 1000000u : *text == 'G' ? 1000000000u : 1;
    text += unit != 1 ? 1 : 0;
    return *text == '\0' && rate <= UINT32_MAX ? rate * unit : 0;
}

/* Where the name ends: at its end or at a colon. */
static const char *after_name(const char *text, const char *name)
{
    size_t bytes = strlen(name);
    if (strncmp(text, name, bytes) != 0 || (text[bytes] != '\0' && text[bytes] != ':')) {
        return NULL;
    }
    return text + bytes;
}

static uint32_t bus_access_us(uint64_t rate)
{
    uint64_t us = (uint64_t)BUS_BYTES * UW_SERIAL_LINE_BITS * 1000000u / rate;
    return us > BUS_MIN_US ? (uint32_t)us : BUS_MIN_US;
}

static int complete(struct uw_radio_profile *p, const char *rest)
{
    if (p->sf != 0) {
        p->sf = (uint8_t)(*rest == ':' ? read_sf(rest + 1) : 0);
        if (p->sf == 0) {
            return UW_ERR_INVALID;
        }
        p->frame_bytes = lora_frame_bytes(p->sf);
        p->rate_bits_per_s = (uint64_t)p->sf * 4u * 125000u / 5u / ((uint64_t)1 << p->sf);
    } else if (*rest == ':') {
        p->rate_bits_per_s = p->frames && p->kind != UW_RADIO_BUS ? 0 : read_rate(rest + 1);
        if (p->rate_bits_per_s == 0) {
            return UW_ERR_INVALID;
        }
    }
    p->access_us = p->kind == UW_RADIO_BUS ? bus_access_us(p->rate_bits_per_s) : p->access_us;
    p->byte_bits = p->byte_bits != 0 ? p->byte_bits : 8;
    p->crossings = p->crossings != 0 ? p->crossings : 1;
    return UW_OK;
}

int uw_radio_profile_find(const char *text, struct uw_radio_profile *p)
{
    for (uint32_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        const char *rest = after_name(text, profiles[i].name);
        if (rest != NULL) {
            struct uw_radio_profile found = profiles[i];
            int rc = complete(&found, rest);
            if (rc == UW_OK) {
                *p = found;
            }
            return rc;
        }
    }
    return UW_ERR_NOTFOUND;
}

uint64_t uw_lora_airtime_us(uint32_t sf, uint32_t packet_bytes)
{
    uint32_t optimized = sf >= 11 ? 1 : 0;
    uint32_t bits = 8u * packet_bytes + 44u;        /* with header and check */
    uint32_t coded = bits > 4u * sf ? bits - 4u * sf : 0;
    uint32_t block = 4u * (sf - 2u * optimized);
    uint64_t quarters = 49u + 4u * (8u + 5u * (uint64_t)((coded + block - 1u) / block));
    return quarters << (sf + 1u);                   /* a symbol takes 2^sf times 8 us */
}

uint64_t uw_radio_profile_airtime_ns(const struct uw_radio_profile *p, uint32_t frame_bytes)
{
    if (p->sf != 0) {
        return uw_lora_airtime_us(p->sf, frame_bytes + p->overhead_bytes) * 1000u;
    }
    uint64_t bits = ((uint64_t)frame_bytes + p->overhead_bytes) * p->byte_bits * p->crossings;
    return p->fixed_us * 1000u + (bits * 1000000000u + p->rate_bits_per_s - 1u) /
                                     p->rate_bits_per_s;
}

uint64_t uw_radio_profile_airtime_us(const struct uw_radio_profile *p, uint32_t frame_bytes)
{
    return (uw_radio_profile_airtime_ns(p, frame_bytes) + 999u) / 1000u;
}
