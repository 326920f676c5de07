#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_static.sh SOURCE BUILD NATIVE - a program that an Android kernel runs, built and run under qemu
#
# It needs no file of the system: it trains and joins a run from a folder like an app's, without
# HOME and TMPDIR, and learns from a NATIVE node. Exits 77 without compilers, musl or qemu.
set -eu
source=$1 build=$2 native=$3
for program in clang aarch64-linux-gnu-gcc qemu-aarch64-static; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "skipped: no $program; tools/setup cross installs it"
        exit 77
    fi
done
if [ ! -e "$source/.cache/aarch64/usr/lib/aarch64-linux-musl/libc.a" ]; then
    echo "skipped: no musl for 64-bit Arm; tools/setup cross unpacks it"
    exit 77
fi
"$source/boards/android/build" static "$build"
uwasa=$build/uwasa
if aarch64-linux-gnu-readelf -l "$uwasa" | grep -q INTERP; then
    echo "$uwasa wants a loader"
    exit 1
fi

app=$(mktemp -d)
trap 'rm -rf "$app"' EXIT
mkdir "$app/files"
cd "$app/files"
phone() {
    env -i qemu-aarch64-static "$uwasa" "$@"
}
phone keygen run.key
cat >node.json <<END
{"name": "phone", "run": "home", "key": "run.key", "model": "mlp", "checkpoint": "w.safetensors",
 "steps": 20, "eval_samples": 100, "final_eval_samples": 100, "consensus_seconds": 0,
 "linger_seconds": 0, "events": "events.jsonl"}
END
phone node --config node.json
phone eval --model mlp --data digits --weights w.safetensors
tail -n 1 events.jsonl | grep -q '"event":"done","step":20'
if [ "$(ls "$app")" != files ]; then
    echo "something was written beside the app's folder"
    exit 1
fi
cd "$source"
python3 tests/e2e/test_emulated.py "$native" qemu-aarch64-static "$uwasa"
