/* SPDX-License-Identifier: Apache-2.0
 *
 * Arm MPS3 with AN547: Cortex-M55 in its secure state. */
#include "uwasa/mps.h"

extern uint8_t uw_free_start[], uw_free_end[], uw_ddr_start[], uw_ddr_end[], uw_kept_start[];

static const struct uw_mps_map map = {
    .peripheral_hz = 25000000,
    .uart = {0x49303000, 0x49304000},
    .uart_interrupt = {33, 35},
    .lan9118 = 0x41400000,
    .lan9118_interrupt = 49,
    .watchdog = 0x5802e000,
    .watchdog_hz = 32000,
    .counter = 0x49302018,
    .counter_hz = 20000000,
    .kept = uw_kept_start,
};

static void init(void)
{
    uw_mps_init(&map);
}

const struct uw_machine uw_machine = {
    .name = "mps3-an547",
    .core = "Cortex-M55",
    .core_hz = 32000000,
    .emulated = true,
    .init = init,
    .region = {{"sram", uw_free_start, uw_free_end}, {"ddr", uw_ddr_start, uw_ddr_end}},
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
