# SPDX-License-Identifier: Apache-2.0
# Static 64-bit Arm programs with musl, which need only a kernel: they run on Android and in
# qemu-user. No NDK is needed. Built with clang, and GNU's linker and libgcc for 64-bit Arm.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-musl)

# `tools/setup cross` puts musl there, `boards/android/build static` the libraries.
get_filename_component(cache ${CMAKE_CURRENT_LIST_DIR}/../../.cache ABSOLUTE)
set(musl ${cache}/aarch64/usr/lib/aarch64-linux-musl)
execute_process(COMMAND aarch64-linux-gnu-gcc -print-libgcc-file-name OUTPUT_VARIABLE libgcc
                OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_C_FLAGS_INIT "-nostdlibinc -mno-outline-atomics \
-isystem ${cache}/aarch64/usr/include/aarch64-linux-musl")
find_program(UWASA_AARCH64_LD aarch64-linux-gnu-ld)
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "--ld-path=${UWASA_AARCH64_LD} -Qunused-arguments -static -nostdlib -L${musl} ${musl}/crt1.o ${musl}/crti.o")
set(CMAKE_C_STANDARD_LIBRARIES_INIT "${musl}/libc.a ${libgcc} ${musl}/crtn.o")

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(CMAKE_FIND_ROOT_PATH ${cache}/android-static)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
