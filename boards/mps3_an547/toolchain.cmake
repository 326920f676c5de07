# SPDX-License-Identifier: Apache-2.0
# Arm MPS3 with AN547: Cortex-M55, Helium with vector floating point, no operating system.
#
# gcc 12 loses the last test of some loops at -Os when it makes low-overhead branches of them: not
# with -fno-branch-count-reg. It makes conditional conversions (vcvtne.f32.u32) that its assembler
# takes for another instruction: not with -fno-if-conversion2. Vector instructions flush subnormal
# numbers, which the reference keeps: no file gets them that does not ask for them.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard \
-fno-branch-count-reg -fno-if-conversion2 -fno-tree-vectorize -ffunction-sections -fdata-sections")
set(CMAKE_C_FLAGS_MINSIZEREL_INIT "-Os -DNDEBUG")

# QEMU has this board. Output and exit status come by semihosting.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -M mps3-an547 -nographic -monitor none
    -serial null -semihosting-config enable=on,target=native -kernel)

# Without a board's start-up code there is nothing to link: probes stop at an archive.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
