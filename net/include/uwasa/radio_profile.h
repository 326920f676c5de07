/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/radio_profile.h - properties of common links: frame size, air time, duty cycle
 *
 * For plans, simulation, and drivers of a radio, which need the air time.
 *
 *     802154     IEEE 802.15.4 at 2.4 GHz: frames of 127 bytes less 11 of MAC header and check
 *                (short addresses, one PAN), without acknowledgement by the MAC
 *     ble        a Bluetooth LE connection on the 1M PHY: an attribute's value in one data channel
 *                PDU of 251 bytes
 *     espnow     Espressif's action frames at 1 Mbit/s, to all, so that none is acknowledged
 *     lora:SF    LoRa at 125 kHz, coding rate 4/5, SF7 to SF12, in Europe's 868 MHz band; 13 bytes
 *                of LoRaWAN header, port and check beside the payload
 *     bus        uwasa/radio_bus.h, RS-485 with many stations, 10 bits a byte, frames of the
 *                default size; before each frame one to four slots. bus:BAUD
 *     serial     uwasa/link_serial.h over a UART, 10 bits a byte; serial:BAUD, else 115200
 *     wifi       UDP over IPv6 through an access point, twice over the air; 54 Mbit/s
 *     ethernet   UDP over IPv6; 1 Gbit/s
 *     lte        UDP over IPv6; 5 Mbit/s, a common uplink rate
 *
 * The last five accept another rate: "ethernet:100M", "lte:1500k", "serial:921600". A profile does
 * not include latency, other users of the medium, or collisions.
 *
 * Units      bytes of payload, as messages of a link over it; _us microseconds
 * Memory     the caller's; nothing is kept          Blocking  never          Context  any thread
 * Source     802154: IEEE Std 802.15.4-2006, clauses 6.3 (preamble to PHR: 6 bytes), 6.4.1 (127
 *            bytes; turnaround of 12 symbols), 6.5.3 (62.5 ksymbol/s, 4 bits each), 6.9.9 (CCA: 8
 *            symbols), 7.2.1 (MAC frame), 7.4 and 7.5.1.4 (backoff: 0 to 7 periods of 20 symbols,
 *            3.5 on average; the space between frames passes within it)
 *            ble: Bluetooth Core 5.0, volume 6 part B, 2.1 (10 bytes beside the PDU's payload), 4.1
 *            (150 us between packets; the other side answers each with an empty one)
 *            espnow: ESP-IDF Programming Guide, ESP-NOW, "Frame Format"; IEEE Std 802.11-2012,
 *            clause 17 (long preamble, DIFS 50 us, slots of 20 us, 15.5 on average)
 *            lora: Semtech AN1200.13; LoRaWAN 1.0.3 Regional Parameters, 2.2.6 (payloads); ETSI EN
 *            300 220-2 (duty cycle of 1 %)
 *            wifi: IEEE Std 802.11-2012, clause 18 (OFDM), 9.3 (DIFS 34 us, slots of 9 us, 7.5 on
 *            average, acknowledgements at 24 Mbit/s); ethernet: IEEE Std 802.3, clause 3
 */
#ifndef UWASA_RADIO_PROFILE_H
#define UWASA_RADIO_PROFILE_H

#include "uwasa/cplusplus.h"

#include <stdbool.h>
#include <stdint.h>

UW_C_BEGIN

/* The names that uw_radio_profile_find accepts, for an error sentence. */
#define UW_RADIO_PROFILES \
    "802154, ble, espnow, lora:SF7 to lora:SF12, bus, serial, wifi, ethernet, lte; " \
    "the last five also with their bits a second, as bus:9600 or ethernet:100M"

enum uw_radio_kind {
    UW_RADIO_802154,
    UW_RADIO_BLE,
    UW_RADIO_ESPNOW,
    UW_RADIO_LORA,
    UW_RADIO_BUS,
    UW_RADIO_SERIAL,
    UW_RADIO_WIFI,
    UW_RADIO_ETHERNET,
    UW_RADIO_LTE
};

struct uw_radio_profile {
    const char *name;           /* without a colon and the text behind it */
    enum uw_radio_kind kind;
    uint64_t rate_bits_per_s;   /* on the medium; LoRa's air time grows in steps */
    uint32_t frame_bytes;       /* of the largest frame */
    uint32_t duty_ppm;          /* duty cycle in millionths; 0: unlimited */
    uint32_t access_us;         /* average time to access and release the medium, once a frame, not
                                   part of the air time */
    uint16_t fixed_us;          /* air time of a frame of no bytes */
    uint8_t overhead_bytes;     /* headers of the radio and of the layers above */
    uint8_t byte_bits;          /* bits of a byte on the medium */
    uint8_t sf;                 /* LoRa's spreading factor; 0: not LoRa */
    uint8_t crossings;          /* transmissions of a frame on its way; air time includes all */
    bool broadcasts;            /* one frame reaches all stations in range */
    bool shared;                /* stations in range take turns; false: each pair has a medium of
                                   its own, in both directions at once */
    bool frames;                /* nodes use secure frames and short messages; false: DTLS */
};

/* Find a profile: "802154", "lora:SF7", "serial:921600", "ethernet:100M".
 *   p  written on success
 * Returns UW_OK, UW_ERR_NOTFOUND (no such link), UW_ERR_INVALID (text behind the colon). */
int uw_radio_profile_find(const char *text, struct uw_radio_profile *p);

/* Air time of a frame of at most 1 MiB of payload, without p->access_us, in nanoseconds and in
 * microseconds, rounded up. */
uint64_t uw_radio_profile_airtime_ns(const struct uw_radio_profile *p, uint32_t frame_bytes);
uint64_t uw_radio_profile_airtime_us(const struct uw_radio_profile *p, uint32_t frame_bytes);

/* Air time of a LoRa packet of so many bytes, headers included: explicit header, CRC, a preamble
 * of 8 symbols, coding rate 4/5, 125 kHz. It grows in steps of 5 symbols.
 *   sf  7 .. 12; from 11 on with the low data rate optimization
 * T = (12.25 + 8 + 5 max(ceil((8 bytes - 4 sf + 44) / (4 (sf - 2 de))), 0)) 2^sf / 125 kHz */
uint64_t uw_lora_airtime_us(uint32_t sf, uint32_t packet_bytes);

struct uw_emulated_medium;

/* Set up a shared medium for emulated links with the air time of this profile.
 *   p  borrowed for the life of the medium
 *   m  written, every field */
void uw_radio_profile_medium(const struct uw_radio_profile *p, struct uw_emulated_medium *m);

UW_C_END
#endif
