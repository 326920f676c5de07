/* SPDX-License-Identifier: Apache-2.0
 *
 * Time by SysTick: its interrupt counts milliseconds, its counter gives the rest. A board with a
 * free-running counter uses that instead. */
#include "start.h"

#include "uwasa/cortex_m.h"
#include "uwasa/machine.h"

#include <stddef.h>

#define SYST_CSR (*(volatile uint32_t *)0xe000e010u)
#define SYST_RVR (*(volatile uint32_t *)0xe000e014u)
#define SYST_CVR (*(volatile uint32_t *)0xe000e018u)
#define ICSR (*(volatile uint32_t *)0xe000ed04u)

#define CSR_ENABLE 7u                   /* counter, interrupt, processor clock */
#define ICSR_PENDSTSET (1u << 26)
#define SYSTICK_EXCEPTION 15u

static volatile uint64_t milliseconds;
static uint64_t latest_us;
static uint32_t ticks_per_ms;
static const volatile uint32_t *counter;
static uint32_t counted, counts_per_us;
static uint64_t counts;

static void tick(void)
{
    milliseconds++;
}

void uw_clock_start(uint32_t core_hz)
{
    ticks_per_ms = core_hz / 1000u;
    uw_exception_set(SYSTICK_EXCEPTION, tick);
    SYST_RVR = ticks_per_ms - 1u;
    SYST_CVR = 0;
    SYST_CSR = CSR_ENABLE;
}

void uw_clock_use(const volatile uint32_t *free_running, uint32_t hz)
{
    counter = free_running;
    counted = *counter;
    counts_per_us = hz / 1000000u;
}

static uint64_t by_counter(void)
{
    uint32_t now = *counter;
    counts += now - counted;            /* right across a wrap, too */
    counted = now;
    return counts / counts_per_us;
}

static uint64_t by_ticks(void)
{
    uint64_t ms = milliseconds;
    uint32_t left = SYST_CVR;
    if ((ICSR & ICSR_PENDSTSET) != 0) { /* wrapped, but the interrupt has not counted it yet */
        ms++;
        left = SYST_CVR;
    }
    return ms * 1000u + (ticks_per_ms - 1u - left) * 1000u / ticks_per_ms;
}

uint64_t uw_machine_now_us(void)
{
    uint32_t masked;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(masked)::"memory");
    uint64_t now_us = counter != NULL ? by_counter() : by_ticks();
    if (now_us < latest_us) {           /* an emulator's counter wraps before the flag is set */
        now_us = latest_us;
    }
    latest_us = now_us;
    __asm volatile("msr primask, %0" ::"r"(masked) : "memory");
    return now_us;
}
