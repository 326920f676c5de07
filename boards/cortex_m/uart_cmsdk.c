/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/uart_cmsdk.h"

#include "uwasa/cortex_m.h"
#include "uwasa/machine.h"

struct registers {
    volatile uint32_t data;
    volatile uint32_t state;            /* bit 0: TX full, 1: RX full, 3: RX overrun */
    volatile uint32_t control;          /* bit 0: TX, 1: RX, 3: RX interrupt */
    volatile uint32_t interrupt;        /* reads as status, writing clears; bit 1: RX */
    volatile uint32_t divider;          /* at least 16 */
};

#define STATE_TX_FULL 1u
#define STATE_RX_FULL 2u
#define STATE_RX_OVERRUN 8u
#define CONTROL_TX 1u
#define CONTROL_RX 2u
#define CONTROL_RX_INTERRUPT 8u
#define INTERRUPT_RX 2u
#define DIVIDER_MIN 16u

static struct registers *of(const struct uw_uart_cmsdk *u)
{
    return (struct registers *)u->registers;
}

void uw_uart_cmsdk_interrupt(struct uw_uart_cmsdk *u)
{
    struct registers *r = of(u);
    r->interrupt = INTERRUPT_RX;
    while ((r->state & STATE_RX_FULL) != 0) {
        if (u->head - u->tail == UW_UART_RING_BYTES) {
            r->control &= ~CONTROL_RX_INTERRUPT;    /* until a read makes room */
            return;
        }
        u->ring[u->head % UW_UART_RING_BYTES] = (uint8_t)r->data;
        u->head++;
    }
    if ((r->state & STATE_RX_OVERRUN) != 0) {
        r->state = STATE_RX_OVERRUN;
        u->overruns++;
    }
}

static int uart_write(struct uw_serial *s, const void *buf, uint32_t bytes)
{
    struct registers *r = of((const struct uw_uart_cmsdk *)s);
    const uint8_t *p = (const uint8_t *)buf;
    uint32_t n = 0;
    while (n < bytes && (r->state & STATE_TX_FULL) == 0) {
        r->data = p[n++];
    }
    return (int)n;
}

static int uart_read(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    struct uw_uart_cmsdk *u = (struct uw_uart_cmsdk *)s;
    uint8_t *p = (uint8_t *)buf;
    uint32_t n = 0;
    while (n < cap_bytes && u->tail != u->head) {
        p[n++] = u->ring[u->tail % UW_UART_RING_BYTES];
        u->tail++;
    }
    struct registers *r = of(u);
    if ((r->control & CONTROL_RX_INTERRUPT) == 0 && u->head - u->tail < UW_UART_RING_BYTES) {
        __asm volatile("cpsid i" ::: "memory");
        r->control |= CONTROL_RX_INTERRUPT;
        uw_uart_cmsdk_interrupt(u);
        __asm volatile("cpsie i" ::: "memory");
    }
    return (int)n;
}

static const struct uw_serial_ops ops = {.name = "uart", .write = uart_write, .read = uart_read};

void uw_uart_cmsdk_start(struct uw_uart_cmsdk *u, uintptr_t registers, uint32_t rx_interrupt,
                         uint32_t clock_hz, uint32_t baud, void (*handler)(void))
{
    u->base = (struct uw_serial){.ops = &ops, .rate_bits_per_s = baud, .fd = -1,
                                 .burst_bytes = uw_machine.emulated ? 0 : UW_UART_RING_BYTES};
    u->registers = registers;
    u->rx_interrupt = rx_interrupt;
    uint32_t divider = clock_hz / baud;
    struct registers *r = of(u);
    r->divider = divider < DIVIDER_MIN ? DIVIDER_MIN : divider;
    r->interrupt = INTERRUPT_RX;
    r->control = CONTROL_TX | CONTROL_RX | CONTROL_RX_INTERRUPT;
    uw_interrupt_set(rx_interrupt, handler);
}
