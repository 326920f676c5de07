# SPDX-License-Identifier: Apache-2.0
# STMicroelectronics 32F746GDISCOVERY: Cortex-M7 with a single precision FPU, no operating system.
# QEMU does not have it.

set(CMAKE_SYSTEM_PROCESSOR cortex-m7)
set(cpu_flags "-mcpu=cortex-m7 -mfpu=fpv5-sp-d16")
set(UWASA_MACHINE stm32f746_disco)
set(UWASA_EMULATOR OFF)
include(${CMAKE_CURRENT_LIST_DIR}/../cortex_m.cmake)
