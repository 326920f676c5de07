/* SPDX-License-Identifier: Apache-2.0
 *
 * 25 MHz oscillator -> PLL -> 216 MHz; 48 MHz for the random number generator. */
#include "stm32f746.h"

#define PWR_CR1 UW_REG(0x40007000u)
#define PWR_CSR1 UW_REG(0x40007004u)
#define FLASH_ACR UW_REG(0x40023c00u)

#define CR_HSE_ON (1u << 16)
#define CR_HSE_READY (1u << 17)
#define CR_PLL_ON (1u << 24)
#define CR_PLL_READY (1u << 25)
#define PLL_M25_N432_P2_Q9_HSE (25u | 432u << 6 | 0u << 16 | 1u << 22 | 9u << 24)
#define CFGR_APB1_4_APB2_2 (5u << 10 | 4u << 13)
#define CFGR_PLL 2u
#define CFGR_STATUS_MASK (3u << 2)
#define CFGR_STATUS_PLL (2u << 2)
#define APB1_PWR (1u << 28)
#define CR1_OVERDRIVE (1u << 16)
#define CR1_OVERDRIVE_SWITCH (1u << 17)
#define CSR1_OVERDRIVE_READY (1u << 16)
#define CSR1_OVERDRIVE_SWITCHED (1u << 17)
#define ACR_7_WAITS_PREFETCH_ART (7u | 1u << 8 | 1u << 9)
#define AHB1_PORTS_A_TO_H 0xffu

/* The core's registers of caches and memory protection. */
#define ICIALLU UW_REG(0xe000ef50u)
#define CCR UW_REG(0xe000ed14u)
#define CCSIDR UW_REG(0xe000ed80u)
#define CSSELR UW_REG(0xe000ed84u)
#define DCISW UW_REG(0xe000ef60u)
#define MPU_CTRL UW_REG(0xe000ed94u)
#define MPU_RNR UW_REG(0xe000ed98u)
#define MPU_RBAR UW_REG(0xe000ed9cu)
#define MPU_RASR UW_REG(0xe000eda0u)
#define CCR_DATA_CACHE (1u << 16)
#define CCR_INSTRUCTION_CACHE (1u << 17)
#define MPU_ON_WITH_DEFAULTS 5u

extern uint8_t uw_shared_start[];

void uw_pin_function(enum uw_port port, uint32_t pin, uint32_t function)
{
    uint32_t base = 0x40020000u + 0x400u * (uint32_t)port;
    volatile uint32_t *mode = &UW_REG(base), *speed = &UW_REG(base + 0x08u);
    volatile uint32_t *pull = &UW_REG(base + 0x0cu);
    volatile uint32_t *alternate = &UW_REG(base + (pin < 8u ? 0x20u : 0x24u));
    uint32_t two = 2u * pin, four = 4u * (pin % 8u);
    *alternate = (*alternate & ~(15u << four)) | function << four;
    *speed |= 3u << two;
    *pull &= ~(3u << two);
    *mode = (*mode & ~(3u << two)) | 2u << two;
}

void uw_protect(uint32_t region, uint32_t start, uint32_t attributes)
{
    MPU_RNR = region;
    MPU_RBAR = start;
    MPU_RASR = attributes;
    MPU_CTRL = MPU_ON_WITH_DEFAULTS;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

static void start_caches(void)
{
    uw_protect(0, (uint32_t)(uintptr_t)uw_shared_start, UW_PROTECT_16K_UNCACHED);
    ICIALLU = 0;
    CSSELR = 0;
    uint32_t size = CCSIDR, sets = (size >> 13 & 0x7fffu) + 1u, ways = (size >> 3 & 0x3ffu) + 1u;
    for (uint32_t set = 0; set < sets; set++) {
        for (uint32_t way = 0; way < ways; way++) {
            DCISW = way << 30 | set << 5;
        }
    }
    __asm volatile("dsb\n\tisb");
    CCR |= CCR_DATA_CACHE | CCR_INSTRUCTION_CACHE;
    __asm volatile("dsb\n\tisb");
}

void uw_clocks_start(void)
{
    start_caches();
    RCC_APB1ENR |= APB1_PWR;
    RCC_CR |= CR_HSE_ON;
    while ((RCC_CR & CR_HSE_READY) == 0) {
    }
    RCC_PLLCFGR = PLL_M25_N432_P2_Q9_HSE;
    RCC_CR |= CR_PLL_ON;
    PWR_CR1 |= CR1_OVERDRIVE;
    while ((PWR_CSR1 & CSR1_OVERDRIVE_READY) == 0) {
    }
    PWR_CR1 |= CR1_OVERDRIVE_SWITCH;
    while ((PWR_CSR1 & CSR1_OVERDRIVE_SWITCHED) == 0) {
    }
    while ((RCC_CR & CR_PLL_READY) == 0) {
    }
    FLASH_ACR = ACR_7_WAITS_PREFETCH_ART;
    RCC_CFGR = CFGR_APB1_4_APB2_2;
    RCC_CFGR = CFGR_APB1_4_APB2_2 | CFGR_PLL;
    while ((RCC_CFGR & CFGR_STATUS_MASK) != CFGR_STATUS_PLL) {
    }
    RCC_AHB1ENR |= AHB1_PORTS_A_TO_H;
}
