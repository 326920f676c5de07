/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/ethernet_lan9118.h"

#include "uwasa/cortex_m.h"

#include <string.h>

enum {                                  /* registers, byte offsets */
    RX_DATA = 0x00,
    TX_DATA = 0x20,
    RX_STATUS = 0x40,
    TX_STATUS = 0x48,
    ID_REV = 0x50,
    IRQ_CFG = 0x54,
    INT_STS = 0x58,
    INT_EN = 0x5c,
    BYTE_TEST = 0x64,
    FIFO_INT = 0x68,
    RX_CFG = 0x6c,
    TX_CFG = 0x70,
    HW_CFG = 0x74,
    RX_FIFO_INF = 0x7c,
    TX_FIFO_INF = 0x80,
    MAC_CSR_CMD = 0xa4,
    MAC_CSR_DATA = 0xa8,
    AFC_CFG = 0xac
};

enum { MAC_CR = 1, MAC_ADDRH = 2, MAC_ADDRL = 3 };

#define BYTE_TEST_VALUE 0x87654321u
#define ID_LAN9118 0x0118u
#define HW_CFG_RESET 1u
#define HW_CFG_TX_FIFO_5K (5u << 16)
#define AFC_DEFAULT 0x006e3740u
#define IRQ_ON_HIGH_PUSH_PULL 0x111u
#define INT_RX_STATUS 8u
#define MAC_BUSY 0x80000000u
#define MAC_READ 0x40000000u
#define MAC_DUPLEX_TX_RX 0x0018000cu    /* full duplex, all multicast, both directions on */
#define TX_ON 2u
#define TX_FIRST_LAST 0x3000u
#define RX_STATUS_ERROR 0x8000u
#define CRC_BYTES 4u
#define TRIES 100000u

/* What the receive FIFO holds (2640 words, 176 statuses): just over eight messages of 1232 bytes,
 * or 32 of up to 250 bytes, each with 76 bytes of headers and checksums. */
#define BURST_BYTES 8192u
#define BURST_N 32u

static volatile uint32_t *reg(const struct uw_ethernet_lan9118 *e, uint32_t offset)
{
    return (volatile uint32_t *)(e->registers + offset);
}

static bool mac_idle(const struct uw_ethernet_lan9118 *e)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        if ((*reg(e, MAC_CSR_CMD) & MAC_BUSY) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t mac_read(const struct uw_ethernet_lan9118 *e, uint32_t index)
{
    *reg(e, MAC_CSR_CMD) = MAC_BUSY | MAC_READ | index;
    (void)mac_idle(e);
    return *reg(e, MAC_CSR_DATA);
}

static void mac_write(const struct uw_ethernet_lan9118 *e, uint32_t index, uint32_t value)
{
    *reg(e, MAC_CSR_DATA) = value;
    *reg(e, MAC_CSR_CMD) = MAC_BUSY | index;
    (void)mac_idle(e);
}

static void set_address(const struct uw_ethernet_lan9118 *e, uint8_t mac[UW_ETHERNET_MAC_BYTES])
{
    static const uint8_t none[UW_ETHERNET_MAC_BYTES];
    if (memcmp(mac, none, sizeof none) != 0) {
        mac_write(e, MAC_ADDRL, mac[0] | (uint32_t)mac[1] << 8 | (uint32_t)mac[2] << 16 |
                                    (uint32_t)mac[3] << 24);
        mac_write(e, MAC_ADDRH, mac[4] | (uint32_t)mac[5] << 8);
        return;
    }
    uint32_t low = mac_read(e, MAC_ADDRL), high = mac_read(e, MAC_ADDRH);
    for (uint32_t i = 0; i < UW_ETHERNET_MAC_BYTES; i++) {
        mac[i] = (uint8_t)(i < 4u ? low >> 8u * i : high >> 8u * (i - 4u));
    }
}

static int start(struct uw_ethernet *base, uint8_t mac[UW_ETHERNET_MAC_BYTES])
{
    struct uw_ethernet_lan9118 *e = (struct uw_ethernet_lan9118 *)base;
    if (*reg(e, BYTE_TEST) != BYTE_TEST_VALUE || *reg(e, ID_REV) >> 16 != ID_LAN9118) {
        return UW_ERR_NOTFOUND;
    }
    *reg(e, HW_CFG) = HW_CFG_RESET;
    uint32_t tries = 0;
    while ((*reg(e, HW_CFG) & HW_CFG_RESET) != 0) {
        if (++tries == TRIES) {
            return UW_ERR_TIMEOUT;
        }
    }
    *reg(e, HW_CFG) = HW_CFG_TX_FIFO_5K;
    *reg(e, AFC_CFG) = AFC_DEFAULT;
    *reg(e, IRQ_CFG) = IRQ_ON_HIGH_PUSH_PULL;
    *reg(e, FIFO_INT) = 0;
    *reg(e, INT_STS) = UINT32_MAX;
    *reg(e, INT_EN) = INT_RX_STATUS;
    set_address(e, mac);
    mac_write(e, MAC_CR, MAC_DUPLEX_TX_RX);
    *reg(e, TX_CFG) = TX_ON;
    *reg(e, RX_CFG) = 0;
    uw_interrupt_set(e->interrupt, e->handler);     /* only now has the line its right polarity */
    return UW_OK;
}

static int send(struct uw_ethernet *base, const void *frame, uint32_t frame_bytes)
{
    struct uw_ethernet_lan9118 *e = (struct uw_ethernet_lan9118 *)base;
    if (frame_bytes > UW_ETHERNET_FRAME_MAX) {
        return UW_ERR_TOOBIG;
    }
    if ((*reg(e, TX_FIFO_INF) & 0xffffu) < frame_bytes + 16u) {
        return UW_ERR_AGAIN;
    }
    *reg(e, TX_DATA) = TX_FIRST_LAST | frame_bytes;
    *reg(e, TX_DATA) = frame_bytes;
    const uint8_t *p = (const uint8_t *)frame;
    for (uint32_t at = 0; at < frame_bytes; at += 4u) {
        uint32_t word = 0;
        memcpy(&word, p + at, frame_bytes - at < 4u ? frame_bytes - at : 4u);
        *reg(e, TX_DATA) = word;
    }
    while ((*reg(e, TX_FIFO_INF) >> 16 & 0xffu) != 0) {
        (void)*reg(e, TX_STATUS);
    }
    return UW_OK;
}

/* The FIFO is empty: enable the interrupt for the next frame. */
static int listen(const struct uw_ethernet_lan9118 *e)
{
    *reg(e, INT_STS) = UINT32_MAX;
    *reg(e, INT_EN) = INT_RX_STATUS;
    return UW_ERR_AGAIN;
}

static int recv(struct uw_ethernet *base, void *frame, uint32_t cap_bytes)
{
    struct uw_ethernet_lan9118 *e = (struct uw_ethernet_lan9118 *)base;
    uint8_t *p = (uint8_t *)frame;
    while ((*reg(e, RX_FIFO_INF) >> 16 & 0xffu) != 0) {
        uint32_t status = *reg(e, RX_STATUS);
        uint32_t bytes = status >> 16 & 0x3fffu;        /* with checksum */
        uint32_t words = (bytes + 3u) / 4u;
        bool good = (status & RX_STATUS_ERROR) == 0 && bytes > CRC_BYTES &&
                    bytes - CRC_BYTES <= cap_bytes;
        for (uint32_t i = 0; i < words; i++) {
            uint32_t word = *reg(e, RX_DATA);
            uint32_t at = 4u * i;
            if (good && at < bytes - CRC_BYTES) {
                uint32_t left = bytes - CRC_BYTES - at;
                memcpy(p + at, &word, left < 4u ? left : 4u);
            }
        }
        if (good) {
            return (int)(bytes - CRC_BYTES);
        }
        base->dropped_n++;
    }
    return listen(e);
}

static const struct uw_ethernet_ops ops = {
    .name = "lan9118", .start = start, .send = send, .recv = recv};

void uw_ethernet_lan9118_interrupt(struct uw_ethernet_lan9118 *e)
{
    *reg(e, INT_EN) = 0;
}

void uw_ethernet_lan9118_init(struct uw_ethernet_lan9118 *e, uintptr_t registers,
                              uint32_t interrupt, void (*handler)(void))
{
    e->base = (struct uw_ethernet){.ops = &ops, .burst_bytes = BURST_BYTES,
                                    .burst_n = BURST_N};
    e->registers = registers;
    e->interrupt = interrupt;
    e->handler = handler;
}
