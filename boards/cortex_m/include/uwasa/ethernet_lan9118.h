/* SPDX-License-Identifier: Apache-2.0
 *
 * uwasa/ethernet_lan9118.h - the Ethernet controller of Arm's MPS2 and MPS3 boards
 *
 * Source     Microchip (SMSC), "LAN9118" data sheet */
#ifndef UWASA_ETHERNET_LAN9118_H
#define UWASA_ETHERNET_LAN9118_H

#include "uwasa/cplusplus.h"
#include "uwasa/ethernet.h"

#include <stdint.h>

UW_C_BEGIN

struct uw_ethernet_lan9118 {
    struct uw_ethernet base;
    uintptr_t registers;
    uint32_t interrupt;
    void (*handler)(void);          /* of the interrupt */
};

/* Set up; start() detects the controller. `handler` is an interrupt handler that calls
 * uw_ethernet_lan9118_interrupt. */
void uw_ethernet_lan9118_init(struct uw_ethernet_lan9118 *e, uintptr_t registers,
                              uint32_t interrupt, void (*handler)(void));

/* Mask the interrupt, which has woken the main loop to receive. Context: interrupt. */
void uw_ethernet_lan9118_interrupt(struct uw_ethernet_lan9118 *e);

UW_C_END
#endif
