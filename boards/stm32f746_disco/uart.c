/* SPDX-License-Identifier: Apache-2.0
 *
 * USART1 and USART6, driven by interrupts, with a ring buffer in each direction. */
#include "stm32f746.h"

#include "uwasa/cortex_m.h"

#define BAUD 115200u
#define APB2_USART1 (1u << 4)
#define APB2_USART6 (1u << 5)
#define CR1_ON_RX_TX_INTERRUPT (1u | 1u << 2 | 1u << 3 | 1u << 5)
#define ISR_OVERRUN (1u << 3)
#define ISR_RECEIVED (1u << 5)
#define ISR_COMPLETE (1u << 6)
#define ISR_EMPTY (1u << 7)
#define CR1_EMPTY_INTERRUPT (1u << 7)
#define FLUSH_US 50000u

#define CR1(u) UW_REG((u)->registers + 0x00u)
#define BRR(u) UW_REG((u)->registers + 0x0cu)
#define ISR(u) UW_REG((u)->registers + 0x1cu)
#define ICR(u) UW_REG((u)->registers + 0x20u)
#define RDR(u) UW_REG((u)->registers + 0x24u)
#define TDR(u) UW_REG((u)->registers + 0x28u)

/* Leaves the interrupt enabled while there is something to send. */
static void send(struct uw_usart *u)
{
    while (u->out_head != u->out_tail && (ISR(u) & ISR_EMPTY) != 0) {
        TDR(u) = u->out[u->out_tail % UW_USART_OUT_BYTES];
        u->out_tail++;
    }
    if (u->out_head == u->out_tail) {
        CR1(u) &= ~CR1_EMPTY_INTERRUPT;
    }
}

static int uart_write(struct uw_serial *s, const void *buf, uint32_t bytes)
{
    struct uw_usart *u = (struct uw_usart *)s;
    const uint8_t *p = (const uint8_t *)buf;
    uint32_t n = 0;
    while (n < bytes && u->out_head - u->out_tail < UW_USART_OUT_BYTES) {
        u->out[u->out_head % UW_USART_OUT_BYTES] = p[n++];
        u->out_head++;
    }
    CR1(u) |= CR1_EMPTY_INTERRUPT;
    return (int)n;
}

void uw_usart_flush(struct uw_usart *u)
{
    uint64_t begin_us = uw_machine_now_us();
    while ((u->out_head != u->out_tail || (ISR(u) & ISR_COMPLETE) == 0) &&
           uw_machine_now_us() - begin_us < FLUSH_US) {
        send(u);                        /* interrupts may be off */
    }
}

static int uart_read(struct uw_serial *s, void *buf, uint32_t cap_bytes)
{
    struct uw_usart *u = (struct uw_usart *)s;
    uint8_t *p = (uint8_t *)buf;
    uint32_t n = 0;
    while (n < cap_bytes && u->tail != u->head) {
        p[n++] = u->ring[u->tail % UW_USART_RING_BYTES];
        u->tail++;
    }
    return (int)n;
}

static const struct uw_serial_ops ops = {.name = "usart", .write = uart_write, .read = uart_read};

struct uw_usart uw_usart1, uw_usart6;

/* Context: interrupt. */
static void work(struct uw_usart *u)
{
    while ((ISR(u) & ISR_RECEIVED) != 0) {
        uint8_t byte = (uint8_t)RDR(u);
        if (u->head - u->tail < UW_USART_RING_BYTES) {
            u->ring[u->head % UW_USART_RING_BYTES] = byte;
            u->head++;
        }
    }
    ICR(u) = ISR_OVERRUN;
    send(u);
}

static void usart1_interrupt(void)
{
    work(&uw_usart1);
}

static void usart6_interrupt(void)
{
    work(&uw_usart6);
}

static void start(struct uw_usart *u, uintptr_t registers, uint32_t interrupt,
                  void (*handler)(void))
{
    u->base = (struct uw_serial){.ops = &ops, .rate_bits_per_s = BAUD,
                                .burst_bytes = UW_USART_RING_BYTES, .fd = -1};
    u->registers = registers;
    BRR(u) = (UW_APB2_HZ + BAUD / 2u) / BAUD;
    CR1(u) = CR1_ON_RX_TX_INTERRUPT;
    uw_interrupt_set(interrupt, handler);
}

void uw_uarts_start(void)
{
    RCC_APB2ENR |= APB2_USART1 | APB2_USART6;
    uw_pin_function(PORT_A, 9, 7);
    uw_pin_function(PORT_B, 7, 7);
    uw_pin_function(PORT_C, 6, 8);
    uw_pin_function(PORT_C, 7, 8);
    start(&uw_usart1, 0x40011000u, 37, usart1_interrupt);
    start(&uw_usart6, 0x40011400u, 71, usart6_interrupt);
}
