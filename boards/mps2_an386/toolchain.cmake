# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 with AN386: Cortex-M4F, single precision FPU, no operating system.

set(CMAKE_SYSTEM_PROCESSOR cortex-m4)
set(cpu_flags "-mcpu=cortex-m4 -mfpu=fpv4-sp-d16")
set(machine mps2-an386)
set(UWASA_MACHINE mps2_an386)
include(${CMAKE_CURRENT_LIST_DIR}/../cortex_m.cmake)
