/* SPDX-License-Identifier: Apache-2.0
 *
 * Arm MPS2 with AN500: Cortex-M7. */
#include "uwasa/mps.h"

extern uint8_t uw_free_start[], uw_free_end[], uw_psram_start[], uw_psram_end[], uw_kept_start[];

static const struct uw_mps_map map = {
    .peripheral_hz = 25000000,
    .uart = {0x40004000, 0x40005000},
    .uart_interrupt = {0, 2},
    .lan9118 = 0xa0000000,
    .lan9118_interrupt = 13,
    .watchdog = 0x40008000,
    .watchdog_hz = 25000000,
    .counter = 0x40028018,
    .counter_hz = 25000000,
    .kept = uw_kept_start,
};

static void init(void)
{
    uw_mps_init(&map);
}

const struct uw_machine uw_machine = {
    .name = "mps2-an500",
    .core = "Cortex-M7",
    .core_hz = 25000000,
    .emulated = true,
    .init = init,
    .region = {{"sram", uw_free_start, uw_free_end}, {"psram", uw_psram_start, uw_psram_end}},
    .console = &uw_mps_uart[0].base,
    .serial = &uw_mps_uart[1].base,
    .ethernet = &uw_mps_ethernet.base,
    .flash = &uw_mps_flash.base,
    .watchdog_start = uw_mps_watchdog_start,
    .watchdog_feed = uw_mps_watchdog_feed,
    .reset_cause = uw_mps_reset_cause,
    .wait = uw_mps_wait,
    .reset = uw_mps_reset,
};
