# SPDX-License-Identifier: Apache-2.0
# For 64-bit Arm Linux, on another Linux machine, which runs the programs under qemu-user.

set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triplet aarch64-linux-gnu)
set(libraries aarch64)
set(qemu qemu-aarch64-static)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
