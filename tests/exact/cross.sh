#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cross.sh SOURCE BUILD TOOLCHAIN PROGRAM... - exact_weights, board_arithmetic and board_node
# for another processor, under QEMU; board_node where nanopb's sources are (tools/setup boards)
#
# Exits 77 when a PROGRAM is not there; tools/setup cross installs them.
set -eu
source=$1 build=$2 toolchain=$3
shift 3
for program in "$@"; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "skipped: no $program; tools/setup cross installs it"
        exit 77
    fi
done
cmake -S "$source" -B "$build" -G Ninja --toolchain "$toolchain" -DCMAKE_BUILD_TYPE=MinSizeRel \
    -DUWASA_CORE_ONLY=ON -DUWASA_APPS=OFF -DUWASA_TESTS=ON -DUWASA_WERROR=ON
cmake --build "$build" -j 2 --target bare_tests
ctest --test-dir "$build" -R '^contract/(exact|board_arithmetic|board_node)$' --output-on-failure --no-tests=error
