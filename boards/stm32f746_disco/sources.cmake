# SPDX-License-Identifier: Apache-2.0
# This folder's files, and the shared drivers (boards/cortex_m) that they use.
set(machine_sources clocks.c entropy.c ethernet.c flash_qspi.c machine.c sdram.c
                    uart.c)
set(machine_drivers)
