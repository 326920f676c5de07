/* SPDX-License-Identifier: Apache-2.0
 *
 * The STM32F7's MAC and its DMA, with a LAN8742A. Buffers and descriptors are in SRAM2, which is
 * not cached. */
#include "stm32f746.h"

#include "uwasa/cortex_m.h"
#include "uwasa/hash.h"

#include <string.h>

#define ETH 0x40028000u
#define MACCR UW_REG(ETH + 0x0000u)
#define MACFFR UW_REG(ETH + 0x0004u)
#define MACMIIAR UW_REG(ETH + 0x0010u)
#define MACMIIDR UW_REG(ETH + 0x0014u)
#define MACA0HR UW_REG(ETH + 0x0040u)
#define MACA0LR UW_REG(ETH + 0x0044u)
#define DMABMR UW_REG(ETH + 0x1000u)
#define DMATPDR UW_REG(ETH + 0x1004u)
#define DMARPDR UW_REG(ETH + 0x1008u)
#define DMARDLAR UW_REG(ETH + 0x100cu)
#define DMATDLAR UW_REG(ETH + 0x1010u)
#define DMASR UW_REG(ETH + 0x1014u)
#define DMAOMR UW_REG(ETH + 0x1018u)
#define DMAIER UW_REG(ETH + 0x101cu)
#define SYSCFG_PMC UW_REG(0x40013804u)
#define UNIQUE_ID ((const uint8_t *)0x1ff0f420u)        /* 12 bytes */

#define APB2_SYSCFG (1u << 14)
#define PMC_RMII (1u << 23)
#define AHB1_MAC_TX_RX (7u << 25)
#define AHB1_MAC (1u << 25)
#define BMR_RESET 1u
#define OMR_STORE_FORWARD (1u << 21 | 1u << 25)
#define OMR_ON (1u << 13 | 1u << 1)
#define OMR_FLUSH (1u << 20)
#define IER_RECEIVED (1u << 16 | 1u << 6)
#define FFR_ALL_MULTICAST (1u << 4)
#define CR_ON (1u << 3 | 1u << 2)
#define CR_DUPLEX (1u << 11)
#define CR_100M (1u << 14)
#define MII_BUSY 1u
#define MII_WRITE 2u
#define MII_CLOCK (4u << 2)             /* for 216 MHz: divide by 102 */
#define PHY_CONTROL 0u
#define PHY_STATUS 1u
#define PHY_SPECIAL 31u
#define PHY_NEGOTIATE 0x1200u
#define PHY_LINK (1u << 2)
#define PHY_SPECIAL_100M (1u << 3)
#define PHY_SPECIAL_DUPLEX (1u << 4)
#define ETH_INTERRUPT 61u

#define OWN (1u << 31)                  /* the descriptor belongs to the DMA */
#define RX_ERROR (1u << 15)
#define RX_WHOLE (3u << 8)              /* first and last part: the whole frame */
#define RX_CHAINED (1u << 14)
#define TX_WHOLE_CHAINED (1u << 29 | 1u << 28 | 1u << 20)
#define CRC_BYTES 4u

#define RX_N 6u
#define TX_N 2u
#define BUFFER_BYTES 1536u
#define TRIES 1000000u

struct descriptor {
    volatile uint32_t status, control;
    uint8_t *volatile buffer;
    struct descriptor *volatile next;
};

struct shared {
    struct descriptor rx[RX_N], tx[TX_N];
    uint8_t rx_buffer[RX_N][BUFFER_BYTES], tx_buffer[TX_N][BUFFER_BYTES];
};
_Static_assert(sizeof(struct shared) <= 16384u, "SRAM2 holds it");

extern uint8_t uw_shared_start[];

static struct descriptor *rx_next, *tx_next;
static bool linked;

static struct shared *shared(void)
{
    return (struct shared *)(void *)uw_shared_start;
}

static bool until_clear(volatile uint32_t *reg, uint32_t bits)
{
    for (uint32_t i = 0; i < TRIES; i++) {
        if ((*reg & bits) == 0) {
            return true;
        }
    }
    return false;
}

static uint32_t phy_read(uint32_t index)
{
    MACMIIAR = index << 6 | MII_CLOCK | MII_BUSY;
    return until_clear(&MACMIIAR, MII_BUSY) ? MACMIIDR & 0xffffu : 0;
}

static void phy_write(uint32_t index, uint32_t value)
{
    MACMIIDR = value;
    MACMIIAR = index << 6 | MII_CLOCK | MII_WRITE | MII_BUSY;
    (void)until_clear(&MACMIIAR, MII_BUSY);
}

static void start_pins(void)
{
    static const struct { uint8_t port, pin; } pins[] = {
        {PORT_A, 1}, {PORT_A, 2}, {PORT_A, 7}, {PORT_C, 1}, {PORT_C, 4},
        {PORT_C, 5}, {PORT_G, 11}, {PORT_G, 13}, {PORT_G, 14}};
    RCC_APB2ENR |= APB2_SYSCFG;
    (void)RCC_APB2ENR;                  /* the clock needs two cycles */
    SYSCFG_PMC |= PMC_RMII;             /* before the MAC has its clock */
    for (uint32_t i = 0; i < sizeof pins / sizeof pins[0]; i++) {
        uw_pin_function((enum uw_port)pins[i].port, pins[i].pin, 11);
    }
    RCC_AHB1ENR |= AHB1_MAC_TX_RX;
    RCC_AHB1RSTR |= AHB1_MAC;
    RCC_AHB1RSTR &= ~AHB1_MAC;
}

static void start_rings(void)
{
    struct shared *s = shared();
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < RX_N; i++) {
        s->rx[i].control = RX_CHAINED | BUFFER_BYTES;
        s->rx[i].buffer = s->rx_buffer[i];
        s->rx[i].next = &s->rx[(i + 1u) % RX_N];
        s->rx[i].status = OWN;
    }
    for (uint32_t i = 0; i < TX_N; i++) {
        s->tx[i].buffer = s->tx_buffer[i];
        s->tx[i].next = &s->tx[(i + 1u) % TX_N];
    }
    rx_next = &s->rx[0];
    tx_next = &s->tx[0];
    DMARDLAR = (uint32_t)(uintptr_t)s->rx;
    DMATDLAR = (uint32_t)(uintptr_t)s->tx;
}

/* A locally administered address, from a hash of the chip's unique number. */
static void own_address(uint8_t mac[UW_ETHERNET_MAC_BYTES])
{
    static const uint8_t none[UW_ETHERNET_MAC_BYTES];
    if (memcmp(mac, none, sizeof none) != 0) {
        return;
    }
    uint64_t hash = uw_hash64(UW_HASH64_START, UNIQUE_ID, 12);
    memcpy(mac, &hash, UW_ETHERNET_MAC_BYTES);
    mac[0] = (uint8_t)((mac[0] & 0xfcu) | 2u);
}

static void interrupt(void)
{
    DMASR = IER_RECEIVED;               /* the interrupt is only to wake the processor */
}

static int start(struct uw_ethernet *e, uint8_t mac[UW_ETHERNET_MAC_BYTES])
{
    (void)e;
    start_pins();
    DMABMR |= BMR_RESET;
    if (!until_clear(&DMABMR, BMR_RESET)) {
        return UW_ERR_TIMEOUT;          /* without the PHY's clock the MAC stays in reset */
    }
    if (phy_read(PHY_STATUS) == 0 || phy_read(PHY_STATUS) == 0xffffu) {
        return UW_ERR_NOTFOUND;
    }
    phy_write(PHY_CONTROL, PHY_NEGOTIATE);
    own_address(mac);
    MACA0HR = mac[4] | (uint32_t)mac[5] << 8;
    MACA0LR = mac[0] | (uint32_t)mac[1] << 8 | (uint32_t)mac[2] << 16 | (uint32_t)mac[3] << 24;
    MACFFR = FFR_ALL_MULTICAST;
    start_rings();
    DMAIER = IER_RECEIVED;
    DMAOMR = OMR_STORE_FORWARD | OMR_FLUSH;
    (void)until_clear(&DMAOMR, OMR_FLUSH);
    MACCR = CR_ON | CR_DUPLEX | CR_100M;
    DMAOMR = OMR_STORE_FORWARD | OMR_ON;
    uw_interrupt_set(ETH_INTERRUPT, interrupt);
    return UW_OK;
}

static int send(struct uw_ethernet *e, const void *frame, uint32_t frame_bytes)
{
    struct descriptor *d = tx_next;
    (void)e;
    if (frame_bytes > UW_ETHERNET_FRAME_MAX) {
        return UW_ERR_TOOBIG;
    }
    if ((d->status & OWN) != 0) {
        return UW_ERR_AGAIN;
    }
    memcpy(d->buffer, frame, frame_bytes);
    d->control = frame_bytes;
    __asm volatile("dsb" ::: "memory");
    d->status = OWN | TX_WHOLE_CHAINED;
    __asm volatile("dsb" ::: "memory");
    DMATPDR = 0;
    tx_next = d->next;
    return UW_OK;
}

static int recv(struct uw_ethernet *e, void *frame, uint32_t cap_bytes)
{
    for (;;) {
        struct descriptor *d = rx_next;
        uint32_t status = d->status;
        if ((status & OWN) != 0) {
            return UW_ERR_AGAIN;
        }
        uint32_t bytes = status >> 16 & 0x3fffu;
        bool good = (status & RX_ERROR) == 0 && (status & RX_WHOLE) == RX_WHOLE &&
                    bytes > CRC_BYTES && bytes - CRC_BYTES <= cap_bytes;
        if (good) {
            memcpy(frame, d->buffer, bytes - CRC_BYTES);
        } else {
            e->dropped_n++;
        }
        d->status = OWN;
        __asm volatile("dsb" ::: "memory");
        DMARPDR = 0;
        rx_next = d->next;
        if (good) {
            return (int)(bytes - CRC_BYTES);
        }
    }
}

/* Sets the MAC to the speed and duplex that the PHY negotiated. */
static bool carrier(struct uw_ethernet *e)
{
    (void)e;
    bool now = (phy_read(PHY_STATUS) & PHY_LINK) != 0;
    if (now && !linked) {
        uint32_t agreed = phy_read(PHY_SPECIAL);
        (void)MACCR;                    /* two writes need some cycles between them */
        MACCR = CR_ON | ((agreed & PHY_SPECIAL_100M) != 0 ? CR_100M : 0) |
                ((agreed & PHY_SPECIAL_DUPLEX) != 0 ? CR_DUPLEX : 0);
    }
    linked = now;
    return now;
}

static const struct uw_ethernet_ops ops = {
    .name = "stm32f7", .start = start, .send = send, .recv = recv, .carrier = carrier};

struct uw_ethernet uw_ethernet = {.ops = &ops, .burst_bytes = RX_N * 1232u, .burst_n = RX_N};
