/* SPDX-License-Identifier: Apache-2.0
 *
 * stm32f746.h - registers of the STM32F746 as this board uses them
 *
 * Source     STMicroelectronics, RM0385 (reference manual), UM1907 (the board) */
#ifndef UW_BOARDS_STM32F746_H
#define UW_BOARDS_STM32F746_H

#include "uwasa/ethernet.h"
#include "uwasa/flash.h"
#include "uwasa/machine.h"
#include "uwasa/serial.h"

#include <stdint.h>

#define UW_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define RCC 0x40023800u
#define RCC_CR UW_REG(RCC + 0x00u)
#define RCC_PLLCFGR UW_REG(RCC + 0x04u)
#define RCC_CFGR UW_REG(RCC + 0x08u)
#define RCC_AHB1RSTR UW_REG(RCC + 0x10u)
#define RCC_AHB1ENR UW_REG(RCC + 0x30u)
#define RCC_AHB2ENR UW_REG(RCC + 0x34u)
#define RCC_AHB3ENR UW_REG(RCC + 0x38u)
#define RCC_APB1ENR UW_REG(RCC + 0x40u)
#define RCC_APB2ENR UW_REG(RCC + 0x44u)
#define RCC_CSR UW_REG(RCC + 0x74u)

/* Hertz: processor and AHB; APB2, the bus of the UARTs. */
#define UW_CORE_HZ 216000000u
#define UW_APB2_HZ 108000000u

#define UW_USART_RING_BYTES 2048u       /* a power of two: 178 ms of the line */
#define UW_USART_OUT_BYTES 256u         /* a power of two */

enum uw_port { PORT_A, PORT_B, PORT_C, PORT_D, PORT_E, PORT_F, PORT_G, PORT_H };

/* Switch a pin to an alternate function: high speed, no pull-up or pull-down. */
void uw_pin_function(enum uw_port port, uint32_t pin, uint32_t function);

/* Start oscillator, PLL, flash wait states, caches, clocks of the ports; returns when all run. */
void uw_clocks_start(void);

/* Set up a region, 0 to 7, of the memory protection unit: no execution, any access, normal memory;
 * start must be a multiple of the size. */
#define UW_PROTECT_16K_UNCACHED (1u << 28 | 3u << 24 | 1u << 19 | 13u << 1 | 1u)
#define UW_PROTECT_8M_CACHED (1u << 28 | 3u << 24 | 1u << 19 | 3u << 16 | 22u << 1 | 1u)
void uw_protect(uint32_t region, uint32_t start, uint32_t attributes);

/* Start 8 MB of SDRAM on the FMC; before this call its addresses fault. */
#define UW_SDRAM_START 0xc0000000u
#define UW_SDRAM_END 0xc0800000u
void uw_sdram_start(void);

/* USART1, the ST-LINK's virtual COM port, and USART6 on D0 and D1. */
struct uw_usart {
    struct uw_serial base;
    uintptr_t registers;
    volatile uint32_t head, tail;       /* received; the interrupt moves head, the next free */
    volatile uint32_t out_head, out_tail;       /* to send; it moves out_tail, the next to go */
    uint8_t ring[UW_USART_RING_BYTES], out[UW_USART_OUT_BYTES];
};
extern struct uw_usart uw_usart1, uw_usart6;

/* Wait until all is sent, at most as long as a full ring takes. */
void uw_usart_flush(struct uw_usart *u);
void uw_uarts_start(void);

/* The MAC with a LAN8742A over RMII. */
extern struct uw_ethernet uw_ethernet;

/* 16 MB of N25Q128A on Quad-SPI, used in one-line mode. */
extern struct uw_flash uw_flash_qspi;
void uw_flash_qspi_start(void);

#endif
