#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# arm_tables.sh fpu|helium - a table of a processor that the tests do not run on, under QEMU
#
# fpu on 32-bit Arm with fused multiply-add, helium on a Cortex-M55.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common="-std=c11 -ffp-contract=off -ffunction-sections -Wl,--gc-sections -Iruntime
        -Iruntime/include -Ikernels -Ikernels/include"
sources="tests/contract/arm_tables.c kernels/packed/*.c kernels/ref/*.c kernels/backends.c
         runtime/arena.c runtime/rng.c runtime/workers.c runtime/fmath.c"

need() {
    for program in "$@"; do
        if ! command -v "$program" >/dev/null; then
            echo "skipped: no $program; tools/setup cross installs it"
            exit 77
        fi
    done
}

case ${1:-} in
fpu)
    need arm-linux-gnueabihf-gcc qemu-arm-static
    arm-linux-gnueabihf-gcc $common -O1 -static -mcpu=cortex-a7 -mfpu=vfpv4 -mfloat-abi=hard \
        -DTABLE=uw_kernels_fpu $sources -lm -o "$work/tables"
    qemu-arm-static "$work/tables"
    ;;
helium)
    need arm-none-eabi-gcc qemu-system-arm
    arm-none-eabi-gcc $common -O1 -mcpu=cortex-m55 -mthumb -mfloat-abi=hard \
        -fno-branch-count-reg -fno-if-conversion2 -fno-tree-vectorize --specs=rdimon.specs \
        -Wl,--undefined=uw_vectors,--section-start=.vectors=0,--section-start=.data=0x21000000 \
        -DTABLE=uw_kernels_helium $sources kernels/arm/gemm_helium.c kernels/arm/table_helium.c \
        tests/exact/start_cortex_m.c -lm -o "$work/tables"
    qemu-system-arm -M mps3-an547 -nographic -monitor none -serial null \
        -semihosting-config enable=on,target=native -kernel "$work/tables"
    ;;
*)
    echo "tests/contract/arm_tables.sh ${1:-}: needs fpu or helium" >&2
    exit 2
    ;;
esac
