# SPDX-License-Identifier: Apache-2.0
# The common part of the toolchain files of Cortex-M boards. A file sets CMAKE_SYSTEM_PROCESSOR,
# `cpu_flags` and `machine`, QEMU's name of the board, and includes this file.

set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "${cpu_flags} -mthumb -mfloat-abi=hard -fno-math-errno -ffunction-sections -fdata-sections")
set(CMAKE_C_FLAGS_MINSIZEREL_INIT "-Os -DNDEBUG")
# Turns off what -Os does for speed at the cost of size, in runtime, net and nanopb.
set(UWASA_SMALLER_FLAGS -fno-inline-small-functions -fno-schedule-insns2 -fno-reorder-blocks
    -fno-guess-branch-probability -fno-move-loop-invariants -fno-code-hoisting
    -fno-tree-tail-merge -fsplit-wide-types-early -fno-tree-loop-im -fno-if-conversion
    -fno-caller-saves -fno-ipa-sra -fno-optimize-sibling-calls)

# QEMU emulates these boards; output and exit status use semihosting.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-system-arm -M ${machine} -nographic -monitor none
    -serial null -semihosting-config enable=on,target=native -kernel)

# Without a board's start-up code nothing links, so CMake's probes only build an archive.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
