# SPDX-License-Identifier: Apache-2.0
# For a Jetson, on another Linux machine: 64-bit Arm Linux, and CUDA objects for its GPUs. To build
# on the Jetson itself use no toolchain file, only UWASA_CUDA=ON.
include(${CMAKE_CURRENT_LIST_DIR}/../linux/toolchain_aarch64.cmake)

# nvcc compiles the host's code of a .cu file with this.
set(UWASA_CUDA_HOST_COMPILER aarch64-linux-gnu-g++)

# `tools/get-cuda` puts NVIDIA's runtime for this processor there.
get_filename_component(UWASA_CUDA_TARGET ${CMAKE_CURRENT_LIST_DIR}/../../.cache/cuda-aarch64
                       ABSOLUTE)
