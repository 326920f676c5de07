# SPDX-License-Identifier: Apache-2.0
# For 32-bit Arm Linux with hard float, on another Linux machine, which runs the programs under
# qemu-user. Debian's armhf needs only ARMv7 and VFPv3: no fused multiply-add and no NEON.

set(CMAKE_SYSTEM_PROCESSOR arm)
set(triplet arm-linux-gnueabihf)
set(libraries armhf)
set(qemu qemu-arm-static)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
