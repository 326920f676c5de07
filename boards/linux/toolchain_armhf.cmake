# SPDX-License-Identifier: Apache-2.0
# 32-bit Arm Linux, hard float, from another Linux machine; programs run under qemu-user there.
# Debian's armhf begins at ARMv7 with a VFPv3, which has no fused multiply-add and no NEON.

set(CMAKE_SYSTEM_PROCESSOR arm)
set(triplet arm-linux-gnueabihf)
set(libraries armhf)
set(qemu qemu-arm-static)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
