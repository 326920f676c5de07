# SPDX-License-Identifier: Apache-2.0
# The common part of the toolchain files for Arm Linux: Debian's cross compiler, its C library, and
# the libraries that `tools/setup cross` unpacks. A file sets `triplet`, `libraries` and `qemu`, the
# emulator that runs programs on the build machine, and includes this file.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})

get_filename_component(cache ${CMAKE_CURRENT_LIST_DIR}/../../.cache/${libraries} ABSOLUTE)
set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu} -L /usr/${triplet}
                                  -E LD_LIBRARY_PATH=${cache}/usr/lib/${triplet})
set(CMAKE_FIND_ROOT_PATH ${cache})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
