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
    -DCMAKE_BUILD_TYPE=Release -DUWASA_NET=OFF -DUWASA_CORE_ONLY=OFF -DUWASA_WERROR=ON -DUWASA_CUDA=ON
cmake --build "$build" -j 2 --target uwasa_gpu uwasa_cuda
for made in "$source"/kernels/cuda/*.cu "$source"/boards/jetson/*.cu; do
    python3 "$source/tests/gpu/object_codes.py" "$build/${made#"$source"/}.o" \
        AArch64 sm_87 sm_110 compute_110
done

if [ ! -e "$source/.cache/cuda-aarch64/lib/libcudart_static.a" ]; then
    echo "not linked: no CUDA runtime for aarch64; tools/get-cuda fetches it"
    exit 0
fi
cmake --build "$build" -j 2 --target gpu_probe unified_memory uwasa
ctest --test-dir "$build" -R gpu/unified_memory --output-on-failure --no-tests=error
jetson()
{
    program=$1
    shift
    qemu-aarch64-static -L /usr/aarch64-linux-gnu "$build/$program" "$@"
}
if said=$(jetson gpu_probe); then
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

# The program: its fall-back sentence, once, and training all the same; or a failure that says why.
jetson uwasa --version
jetson uwasa --version | grep -q 'CUDA .* for sm_87 sm_110'
jetson uwasa train --model mlp --steps 2 --json "$build/said" 2>"$build/told"
cat "$build/told"
[ "$(grep -c 'the processor computes, not a GPU: no NVIDIA driver is installed' "$build/told")" -eq 1 ]
grep -q '"done".*"backend":"neon"' "$build/said"
status=0
jetson uwasa train --model mlp --steps 2 --backend cuda 2>"$build/told" || status=$?
cat "$build/told"
[ "$status" -eq 1 ]
grep -q 'backend cuda: no NVIDIA driver is installed' "$build/told"
