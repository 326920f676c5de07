# SPDX-License-Identifier: Apache-2.0
# 64-bit Arm Linux from another Linux machine; programs run under qemu-user there.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# `tools/setup cross` puts the libraries there.
get_filename_component(arm ${CMAKE_CURRENT_LIST_DIR}/../../.cache/aarch64 ABSOLUTE)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu
                                  -E LD_LIBRARY_PATH=${arm}/usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${arm})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
