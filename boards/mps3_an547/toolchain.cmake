# SPDX-License-Identifier: Apache-2.0
# Arm MPS3 with AN547: Cortex-M55, Helium with vector floating point, no operating system.
#
# gcc 12 loses the last test of some loops at -Os when it makes low-overhead branches of them: not
# with -fno-branch-count-reg. It makes conditional conversions (vcvtne.f32.u32) that its assembler
# takes for another instruction: not with -fno-if-conversion2. Vector instructions flush subnormal
# numbers, which the reference keeps: no file gets them that does not ask for them.

set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
set(cpu_flags "-mcpu=cortex-m55 -fno-branch-count-reg -fno-if-conversion2 -fno-tree-vectorize")
set(machine mps3-an547)
set(UWASA_MACHINE mps3_an547)
include(${CMAKE_CURRENT_LIST_DIR}/../cortex_m.cmake)
