# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 with AN500: Cortex-M7, single and double precision FPU, no operating system.

set(CMAKE_SYSTEM_PROCESSOR cortex-m7)
set(cpu_flags "-mcpu=cortex-m7 -mfpu=fpv5-d16")
set(machine mps2-an500)
set(UWASA_MACHINE mps2_an500)
include(${CMAKE_CURRENT_LIST_DIR}/../cortex_m.cmake)
