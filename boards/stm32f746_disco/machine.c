/* SPDX-License-Identifier: Apache-2.0
 *
 * STMicroelectronics 32F746GDISCOVERY. */
#include "stm32f746.h"

#define IWDG_KR UW_REG(0x40003000u)
#define IWDG_PR UW_REG(0x40003004u)
#define IWDG_RLR UW_REG(0x40003008u)
#define IWDG_SR UW_REG(0x4000300cu)
#define KEY_START 0xccccu
#define KEY_OPEN 0x5555u
#define KEY_FEED 0xaaaau
#define PRESCALE_64 4u                  /* of about 32 kHz */
#define TICKS_PER_S 500u
#define TICKS_MAX 4095u

#define CSR_WATCHDOG (1u << 29)
#define CSR_SOFTWARE (1u << 28)
#define CSR_POWER (1u << 27)
#define CSR_FORGET (1u << 24)

#define AIRCR UW_REG(0xe000ed0cu)
#define AIRCR_RESET 0x05fa0004u

extern uint8_t uw_free_start[], uw_free_end[];

static enum uw_reset_cause cause;

static void init(void)
{
    uint32_t why = RCC_CSR;
    RCC_CSR = why | CSR_FORGET;
    cause = (why & CSR_WATCHDOG) != 0   ? UW_RESET_WATCHDOG
            : (why & CSR_SOFTWARE) != 0 ? UW_RESET_SOFTWARE
            : (why & CSR_POWER) != 0    ? UW_RESET_POWER
                                        : UW_RESET_PIN;
    uw_clocks_start();
    uw_sdram_start();
    uw_uarts_start();
    uw_flash_qspi_start();
}

static void watchdog_start(uint32_t ms)
{
    uint32_t ticks = ms * TICKS_PER_S / 1000u;
    IWDG_KR = KEY_START;
    IWDG_KR = KEY_OPEN;
    IWDG_PR = PRESCALE_64;
    IWDG_RLR = ticks < TICKS_MAX ? ticks : TICKS_MAX;
    while (IWDG_SR != 0) {
    }
    IWDG_KR = KEY_FEED;
}

static void watchdog_feed(void)
{
    IWDG_KR = KEY_FEED;
}

static enum uw_reset_cause reset_cause(void)
{
    return cause;
}

static void wait(void)
{
    __asm volatile("wfi" ::: "memory");
}

static void reset(void)
{
    uw_usart_flush(&uw_usart1);
    __asm volatile("dsb" ::: "memory");
    AIRCR = AIRCR_RESET;
    for (;;) {
    }
}

const struct uw_machine uw_machine = {
    .name = "stm32f746-disco",
    .core = "Cortex-M7",
    .core_hz = UW_CORE_HZ,
    .init = init,
    .region = {{"sram", uw_free_start, uw_free_end},
               {"sdram", (uint8_t *)UW_SDRAM_START, (uint8_t *)UW_SDRAM_END}},
    .console = &uw_usart1.base,
    .serial = &uw_usart6.base,
    .ethernet = &uw_ethernet,
    .flash = &uw_flash_qspi,
    .watchdog_start = watchdog_start,
    .watchdog_feed = watchdog_feed,
    .reset_cause = reset_cause,
    .wait = wait,
    .reset = reset,
};
