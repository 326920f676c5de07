#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_local_build.sh UWASA SOURCE BUILD - a build without networks needs no installed library, with
# cJSON and cmocka as tools/get-sources fetches them, and learns the same bits
set -eu
uwasa=$1 source=$2 build=$3
fail()
{
    echo "$*" >&2
    exit 1
}
configure()
{
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DUWASA_WERROR=ON \
        -DUWASA_NET=OFF -DUWASA_FIRMWARE=OFF \
        -DCMAKE_DISABLE_FIND_PACKAGE_MbedTLS=ON -DCMAKE_DISABLE_FIND_PACKAGE_Nanopb=ON \
        -DCJSON_LIBRARY= -DCMOCKA_LIBRARY= "$@" >"$build.log" 2>&1
}
for library in CJSON:cjson CMOCKA:cmocka; do
    if configure -DCMAKE_REQUIRE_FIND_PACKAGE_Cmocka=ON "-D${library%:*}_SOURCE_DIR=/nowhere"; then
        fail "configures without ${library#*:}"
    fi
    tr -s ' \n' ' ' <"$build.log" | grep -q "or run tools/get-sources ${library#*:}" ||
        fail "$(cat "$build.log")"
    rm -rf "$build"
done
"$source/tools/get-sources" cjson cmocka
configure || fail "$(cat "$build.log")"
cmake --build "$build" -j 2 --target uwasa test_arena >"$build.log" 2>&1 ||
    fail "$(tail -n 20 "$build.log")"
if ldd "$build/uwasa" "$build/tests/unit/test_arena" | grep -E 'mbed|cjson|protobuf|cmocka'; then
    fail "it needs libraries"
fi
"$build/tests/unit/test_arena" >"$build.log" 2>&1 || fail "$(cat "$build.log")"

for program in "$uwasa" "$build/uwasa"; do
    "$program" train --model lenet5 --steps 5 --no-shuffle --threads 1 --exact --json "$build/said" \
        --save "$build/weights.safetensors" >/dev/null 2>&1 || fail "$program: does not train"
    [ "$(grep -c '"event":"step"' "$build/said")" -eq 5 ] || fail "$program: $(cat "$build/said")"
    sha256sum <"$build/weights.safetensors"
    rm "$build/said" "$build/weights.safetensors"
done >"$build.log"
[ "$(sort -u "$build.log" | wc -l)" -eq 1 ] || fail "it learns something else"
"$build/uwasa" plan --model resnet20 --json | grep -q '"total_bytes"' || fail "plan --json"

for absent in "node" "bench link" "plan --model mlp --link 802154" "eval --model x.onnx"; do
    # shellcheck disable=SC2086
    said=$("$build/uwasa" $absent 2>&1) && fail "$absent: did not fail"
    case $said in
    *"-DUWASA_NET=OFF"*) ;;
    *) fail "$absent: $said" ;;
    esac
done
echo "a program of its own: $(wc -c <"$build/uwasa") bytes"
