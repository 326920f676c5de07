/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/mps.h - common code of Arm's MPS2 and MPS3 boards, which QEMU emulates
 *
 * Source     Arm application notes AN386, AN500, AN547 */
#ifndef UWASA_MPS_H
#define UWASA_MPS_H

#include "uwasa/cplusplus.h"
#include "uwasa/ethernet_lan9118.h"
#include "uwasa/flash_emulated.h"
#include "uwasa/uart_cmsdk.h"

#include "uwasa/machine.h"

UW_C_BEGIN

struct uw_mps_map {
    uint32_t peripheral_hz;
    uintptr_t uart[2];
    uint32_t uart_interrupt[2];         /* of reception */
    uintptr_t lan9118;
    uint32_t lan9118_interrupt;
    uintptr_t watchdog;
    uint32_t watchdog_hz;
    uintptr_t counter;                  /* free-running, of FPGAIO */
    uint32_t counter_hz;
    void *kept;                         /* UW_MPS_KEPT_BYTES of memory kept over a reset */
};

#define UW_MPS_SECTOR_BYTES 4096u
#define UW_MPS_SECTORS_N 512u
#define UW_MPS_KEPT_BYTES (UW_MPS_SECTOR_BYTES * UW_MPS_SECTORS_N)

extern struct uw_uart_cmsdk uw_mps_uart[2];
extern struct uw_ethernet_lan9118 uw_mps_ethernet;
extern struct uw_flash_emulated uw_mps_flash;

/* Start the drivers of a board. */
void uw_mps_init(const struct uw_mps_map *map);

/* The CMSDK watchdog. */
void uw_mps_watchdog_start(uint32_t ms);
void uw_mps_watchdog_feed(void);

/* The reset cause, from a note in memory kept over a reset: the boards have no register for it. */
enum uw_reset_cause uw_mps_reset_cause(void);

/* Wait for the next interrupt. */
void uw_mps_wait(void);

/* Reset by the core's register; does not return. */
void uw_mps_reset(void);

UW_C_END
#endif
