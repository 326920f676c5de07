# SPDX-License-Identifier: Apache-2.0
# Arm MPS2 with AN500: Cortex-M7, single and double precision FPU, no operating system.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR cortex-m7)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-d16 -mfloat-abi=hard \
-ffunction-sections -fdata-sections")
set(CMAKE_C_FLAGS_MINSIZEREL_INIT "-Os -DNDEBUG")

# QEMU has this board. Output and exit status come by semihosting.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -M mps2-an500 -nographic -monitor none
    -serial null -semihosting-config enable=on,target=native -kernel)

# Without a board's start-up code there is nothing to link: probes stop at an archive.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
