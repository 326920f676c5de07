#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tests/contract/fpu_arm.sh - the table fpu on 32-bit Arm with fused multiply-add, under qemu
set -eu
cd "$(dirname "$0")/../.."
for program in arm-linux-gnueabihf-gcc qemu-arm-static; do
    if ! command -v $program >/dev/null; then
        echo "skipped: no $program; tools/setup cross installs it"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arm-linux-gnueabihf-gcc -std=c11 -O1 -static -mcpu=cortex-a7 -mfpu=vfpv4 -mfloat-abi=hard \
    -ffp-contract=off -ffunction-sections -Wl,--gc-sections -Iruntime -Iruntime/include \
    -Ikernels -Ikernels/include tests/contract/fpu_arm.c kernels/packed/*.c kernels/ref/*.c \
    kernels/backends.c runtime/arena.c runtime/rng.c runtime/workers.c \
    runtime/fmath.c -lm -o "$work/fpu_arm"
qemu-arm-static "$work/fpu_arm"
