#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# arm_tables.sh m4f|m7|m55 - the fastest table of a Cortex-M beside ref, under QEMU
set -eu
cd "$(dirname "$0")/../.."
table=fpu sources= place=
case ${1:-} in
m4f) machine=mps2-an386 cpu="-mcpu=cortex-m4 -mfpu=fpv4-sp-d16" ;;
m7) machine=mps2-an500 cpu="-mcpu=cortex-m7 -mfpu=fpv5-d16" ;;
m55)
    machine=mps3-an547 table=helium sources="kernels/arm/gemm_helium.c kernels/arm/table_helium.c"
    cpu="-mcpu=cortex-m55 -fno-branch-count-reg -fno-if-conversion2 -fno-tree-vectorize"
    place=-Wl,--section-start=.data=0x21000000
    ;;
*)
    echo "tests/contract/arm_tables.sh ${1:-}: needs m4f, m7 or m55" >&2
    exit 2
    ;;
esac
for program in arm-none-eabi-gcc qemu-system-arm; do
    if ! command -v "$program" >/dev/null; then
        echo "skipped: no $program; tools/setup cross installs it"
        exit 77
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arm-none-eabi-gcc -std=c11 -O1 -ffp-contract=off -ffunction-sections $cpu -mthumb \
    -mfloat-abi=hard -Iruntime -Iruntime/include -Ikernels -Ikernels/include \
    -DTABLE=uw_kernels_$table tests/contract/arm_tables.c kernels/packed/*.c kernels/ref/*.c \
    kernels/backends.c runtime/arena.c runtime/rng.c runtime/workers.c runtime/fmath.c $sources \
    tests/exact/start_cortex_m.c --specs=rdimon.specs -lm -o "$work/tables" \
    -Wl,--gc-sections,--undefined=uw_vectors,--section-start=.vectors=0 $place
qemu-system-arm -M $machine -nographic -monitor none -serial null \
    -semihosting-config enable=on,target=native -kernel "$work/tables"
