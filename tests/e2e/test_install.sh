#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_install.sh BUILD_DIR README RADIO_README CC GENERATOR - the installed package serves programs
# outside the tree
#
# Installs into a folder of its own, takes the C example out of the README, and compiles and runs
# it twice: through pkg-config with CC, and through CMake's find_package. The example of a radio, out
# of RADIO_README, through pkg-config: both of its nodes learn from the other.
set -eu

build=$1 readme=$2 radio_readme=$3 cc=$4 generator=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"

# take README PROGRAM: its one ```c block
take() {
    awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$1" >"$2"
    test -s "$2" || { echo "$1 has no C example"; exit 1; }
}
take "$readme" "$work/example.c"
take "$radio_readme" "$work/air.c"

check() {
    echo "$1: $2"
    echo "$2" | awk '{ ok = $1 == "loss" && $2 < 0.2 && $3 >= 28 } END { exit !ok }' || {
        echo "$1: the example did not learn"
        exit 1
    }
}

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name uwasa.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror "$work/example.c" $(pkg-config --cflags --libs uwasa) \
    -o "$work/by_pkg_config"
check pkg-config "$("$work/by_pkg_config")"

# Alone a node of it is right in about 500 cases.
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror "$work/air.c" $(pkg-config --cflags --libs uwasa) -o "$work/air"
"$work/air" >"$work/air.txt" || { cat "$work/air.txt"; echo "air: nothing learned"; exit 1; }
awk '{ print "air: " $0 }
     $3 == "pulls," { learned += $2 > 0 && $4 >= 800 }
     END { exit learned != 2 }' "$work/air.txt" || { echo "air: not both nodes learned"; exit 1; }

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(outside LANGUAGES C)
find_package(uwasa 0.1 REQUIRED COMPONENTS runtime kernels net)
add_executable(example ../example.c)
target_link_libraries(example PRIVATE uwasa::runtime uwasa::kernels uwasa::net)
END
cmake -S "$work/project" -B "$work/outside" -G "$generator" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/cmake.log" 2>&1 && cmake --build "$work/outside" >>"$work/cmake.log" 2>&1 || {
    cat "$work/cmake.log"
    exit 1
}
check find_package "$("$work/outside/example")"

# What the installed program captures the installed tool reads; here a capture of nothing.
printf '\324\303\262\241\002\000\004\000\000\000\000\000\000\000\000\000\000\000\001\000\223\000\000\000' \
    >"$work/nothing.pcap"
"$work/prefix/bin/uwasa-read-capture" "$work/nothing.pcap" || { echo "no captures are read"; exit 1; }

# Every installed header compiles alone.
for header in "$work"/prefix/include/uwasa/*.h; do
    echo "#include <uwasa/$(basename "$header")>" >"$work/alone.c"
    "$cc" -std=c11 -Wall -Wextra -Werror -fsyntax-only -I"$work/prefix/include" "$work/alone.c"
done
echo "$(ls "$work"/prefix/include/uwasa/*.h | wc -l) headers compile alone"
