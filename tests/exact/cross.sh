#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cross.sh SOURCE PRESET PROGRAM... - exact_weights, board_arithmetic, board_node and frames_node for
# another processor, under QEMU; the last two where their libraries' sources are (tools/setup boards)
#
# Exits 77 when a PROGRAM is not there; tools/setup cross installs them.
set -eu
source=$1 preset=$2
shift 2
for program in "$@"; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "skipped: no $program; tools/setup cross installs it"
        exit 77
    fi
done
cd "$source"
mkdir -p build
exec 9>"build/$preset.lock"     # others build there too
flock 9
cmake --preset "$preset" -DUWASA_TESTS=ON
cmake --build --preset "$preset" -j 2 --target bare_tests
ctest --test-dir "build/$preset" -R '^contract/(exact|board_arithmetic|board_node|frames_node)$' \
    --output-on-failure --no-tests=error
