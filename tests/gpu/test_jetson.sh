#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_jetson.sh SOURCE BUILD - what a Jetson adds, cross-built, and run under qemu without a GPU
#
# Exits 77 without nvcc, the cross compilers or qemu. Programs are linked where tools/get-cuda has
# been.
set -eu
source=$1 build=$2
PATH=$PATH:/usr/local/cuda/bin
for program in nvcc aarch64-linux-gnu-g++ qemu-aarch64-static; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "skipped: no $program; tools/setup cross installs all but nvcc, the CUDA Toolkit's"
        exit 77
    fi
done
cmake -S "$source" -B "$build" -G Ninja --toolchain "$source/boards/jetson/toolchain.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DUWASA_CORE_ONLY=ON -DUWASA_TESTS=ON -DUWASA_WERROR=ON \
    -DUWASA_CUDA=ON
cmake --build "$build" -j 2 --target uwasa_gpu
python3 "$source/tests/gpu/object_codes.py" "$build/boards/jetson/change.cu.o" \
    AArch64 sm_87 sm_110 compute_110

if [ ! -e "$source/.cache/cuda-aarch64/lib/libcudart_static.a" ]; then
    echo "not linked: no CUDA runtime for aarch64; tools/get-cuda fetches it"
    exit 0
fi
cmake --build "$build" -j 2 --target gpu_probe unified_memory
ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error
if said=$(qemu-aarch64-static -L /usr/aarch64-linux-gnu "$build/gpu_probe"); then
    echo "gpu_probe found a GPU in qemu: $said"
    exit 1
fi
echo "$said"
case $said in
"no GPU: "*"
sensors  "*) ;;
*)
    echo "gpu_probe: no sentence on the GPU, or none on sensors"
    exit 1
    ;;
esac
