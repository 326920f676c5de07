#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# compile.sh SOURCE BUILD - what meets the operating system compiles as for Android
#
# With clang's Android target and the headers of glibc for 64-bit Arm: what #ifdef __ANDROID__ leaves
# is checked, Android's own C library is not. BUILD has the generated messages. Exits 77 without
# clang or the headers.
set -eu
cd "$1"
build=$2
headers=/usr/aarch64-linux-gnu/include
if ! command -v clang >/dev/null 2>&1 || [ ! -e $headers/stdio.h ]; then
    echo "skipped: no clang, or no $headers; tools/setup cross installs them"
    exit 77
fi
clang --target=aarch64-linux-android28 -fsyntax-only -std=c11 -D_POSIX_C_SOURCE=200809L \
    -D_DEFAULT_SOURCE -D_FILE_OFFSET_BITS=64 -DUWASA_RELEASE=0 -Wall -Wextra -Werror -nostdlibinc \
    -isystem $headers -isystem "$build/net/proto" -idirafter /usr/include \
    -Iruntime/include -Ikernels/include -Inet/include -Inet -Iboards/linux/include \
    -Iapps/data/include -Iapps/cli -Iapps/convert/include -Iapps/sim/include -Itests/android \
    boards/linux/*.c boards/android/app/uwasa_jni.c net/link/link_ip.c net/link/link_udp*.c \
    net/link/link_tcp*.c net/secure/secure_mbedtls*.c \
    apps/cli/cmd_status.c apps/cli/demo/cmd_demo.c apps/cli/demo/demo_nodes.c apps/cli/base/events.c apps/cli/demo/janitor.c apps/cli/links/keyfile.c \
    apps/cli/node/*.c apps/cli/base/open_file.c apps/cli/base/stop.c
