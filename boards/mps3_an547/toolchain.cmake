# SPDX-License-Identifier: Apache-2.0
# Arm MPS3 with AN547: Cortex-M55, Helium with vector floating point, no operating system.
#
# gcc 12 at -Os drops the last test of some loops that it turns into low-overhead branches;
# -fno-branch-count-reg avoids that. It emits conditional conversions (vcvtne.f32.u32) that its
# assembler reads as another instruction; -fno-if-conversion2 avoids that. Vector instructions flush
# subnormal numbers, which the reference keeps, so only some files are compiled to use them.

set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
set(cpu_flags "-mcpu=cortex-m55 -fno-branch-count-reg -fno-if-conversion2 -fno-tree-vectorize")
set(machine mps3-an547)
set(UWASA_MACHINE mps3_an547)
include(${CMAKE_CURRENT_LIST_DIR}/../cortex_m.cmake)
