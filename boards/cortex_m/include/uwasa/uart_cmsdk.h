/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/uart_cmsdk.h - the UART of Arm's MPS2 and MPS3 boards
 *
 * Receives by interrupt into a ring. When it is full the interrupt stays pending: an emulator then
 * stops the sender (burst_bytes is 0), a real line overruns (burst_bytes is the size of the ring;
 * `overruns` counts).
 *
 * Source     Arm, "Cortex-M System Design Kit", 4.3 "APB UART" */
#ifndef UWASA_UART_CMSDK_H
#define UWASA_UART_CMSDK_H

#include "uwasa/cplusplus.h"
#include "uwasa/serial.h"

#include <stdint.h>

UW_C_BEGIN

#define UW_UART_RING_BYTES 256u         /* a power of two */

struct uw_uart_cmsdk {
    struct uw_serial base;
    uintptr_t registers;
    uint32_t rx_interrupt;
    volatile uint32_t head, tail;       /* head: next free, by the interrupt */
    volatile uint32_t overruns;
    uint8_t ring[UW_UART_RING_BYTES];
};

/* Start it; `handler` is an interrupt handler that calls uw_uart_cmsdk_interrupt. */
void uw_uart_cmsdk_start(struct uw_uart_cmsdk *u, uintptr_t registers, uint32_t rx_interrupt,
                         uint32_t clock_hz, uint32_t baud, void (*handler)(void));

/* Receive into the ring. Context: interrupt. */
void uw_uart_cmsdk_interrupt(struct uw_uart_cmsdk *u);

UW_C_END
#endif
