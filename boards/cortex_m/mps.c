/* SPDX-License-Identifier: Apache-2.0 */
#include "uwasa/mps.h"

#include "uwasa/cortex_m.h"

#define BAUD 115200u
#define AIRCR (*(volatile uint32_t *)0xe000ed0cu)
#define AIRCR_RESET 0x05fa0004u

/* CMSDK watchdog: the first countdown ends in a non-maskable interrupt, the second in a reset. */
struct watchdog {
    volatile uint32_t load, value, control, clear;
};
#define WATCHDOG_ON 3u
#define WATCHDOG_LOCK 0xc00u
#define WATCHDOG_UNLOCK 0x1acce551u

struct uw_uart_cmsdk uw_mps_uart[2];
struct uw_ethernet_lan9118 uw_mps_ethernet;
struct uw_flash_emulated uw_mps_flash;

static const struct uw_mps_map *board;

/* Memory that survives a reset: what was running, or the reset that was requested. */
#define NOTE_RUNS 0x72756e73u
#define NOTE_RESET 0x72657365u
static volatile uint32_t note __attribute__((section(".noinit")));
static enum uw_reset_cause cause;

static void uart0(void)
{
    uw_uart_cmsdk_interrupt(&uw_mps_uart[0]);
}

static void uart1(void)
{
    uw_uart_cmsdk_interrupt(&uw_mps_uart[1]);
}

static void ethernet(void)
{
    uw_ethernet_lan9118_interrupt(&uw_mps_ethernet);
}

void uw_mps_init(const struct uw_mps_map *map)
{
    static void (*const uart[2])(void) = {uart0, uart1};
    board = map;
    cause = note == NOTE_RUNS ? UW_RESET_WATCHDOG : note == NOTE_RESET ? UW_RESET_SOFTWARE
                                                                       : UW_RESET_POWER;
    note = NOTE_RUNS;
    for (int i = 0; i < 2; i++) {
        uw_uart_cmsdk_start(&uw_mps_uart[i], map->uart[i], map->uart_interrupt[i],
                            map->peripheral_hz, BAUD, uart[i]);
    }
    uw_clock_use((const volatile uint32_t *)map->counter, map->counter_hz);
    uw_ethernet_lan9118_init(&uw_mps_ethernet, map->lan9118, map->lan9118_interrupt, ethernet);
    uw_flash_emulated_init(&uw_mps_flash, UW_MPS_SECTOR_BYTES, UW_MPS_SECTORS_N, map->kept);
}

void uw_mps_watchdog_start(uint32_t ms)
{
    struct watchdog *w = (struct watchdog *)board->watchdog;
    *(volatile uint32_t *)(board->watchdog + WATCHDOG_LOCK) = WATCHDOG_UNLOCK;
    w->load = (uint32_t)((uint64_t)board->watchdog_hz * ms / 1000u);
    w->control = WATCHDOG_ON;
}

void uw_mps_watchdog_feed(void)
{
    struct watchdog *w = (struct watchdog *)board->watchdog;
    w->clear = 1u;
    w->load = w->load;                  /* restarts the countdown */
}

enum uw_reset_cause uw_mps_reset_cause(void)
{
    return cause;
}

void uw_mps_wait(void)
{
    __asm volatile("wfi" ::: "memory");
}

void uw_mps_reset(void)
{
    note = NOTE_RESET;
    __asm volatile("dsb" ::: "memory");
    AIRCR = AIRCR_RESET;
    for (;;) {
    }
}
