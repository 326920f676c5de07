# SPDX-License-Identifier: Apache-2.0
# This folder's files, and the shared drivers (boards/cortex_m) that they use.
set(machine_sources machine.c)
set(machine_drivers emulated.c ethernet_lan9118.c flash_emulated.c mps.c semihosting.c
                    uart_cmsdk.c)
