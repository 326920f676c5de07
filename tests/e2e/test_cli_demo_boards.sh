#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demo with boards: what it says when a part is missing, a run, and what an interrupted one
# leaves. How much is learned depends on the machine: too little to judge in so short a run.
# test_cli_demo_boards.sh PROGRAM FIRMWARE AARCH64...    (of the last, the first that there is)
# With UWASA_DEMO_SECONDS, nightly: the show itself, which has to teach every node what none could
# learn alone.
firmware=$2
for aarch64 in "$3" "${4:-}"; do
    [ ! -f "$aarch64" ] || break
done
. "$(dirname "$(realpath "$0")")/cli.sh"
export TMPDIR=$work/tmp
mkdir "$TMPDIR" bin

# Processes of this test's demos only: their command line or their folder is in its directory.
nodes() {
    for p in /proc/[0-9]*; do
        case "$(tr '\0' ' ' 2>/dev/null <"$p/cmdline") $(readlink "$p/cwd")" in
        *"node --config $TMPDIR"* | qemu-system-arm*" $TMPDIR/"*) echo "${p#/proc/}" ;;
        esac
    done
}
nothing_left() {
    i=0
    while [ $i -lt 40 ] && { [ -n "$(nodes)" ] || [ -n "$(ls "$TMPDIR")" ]; }; do
        sleep 0.1
        i=$((i + 1))
    done
    [ -z "$(nodes)" ] || fail "$1 leaves processes: $(nodes)"
    [ -z "$(ls "$TMPDIR")" ] || fail "$1 leaves files: $(ls "$TMPDIR")"
}

# what is missing, in one sentence, with what to do
expect 2 "$uwasa" demo --firmware x
expect 2 "$uwasa" demo --boards --nodes 3
ln -s "$(command -v sh)" bin/sh
expect 1 env PATH="$work/bin" "$uwasa" demo --boards
grep -q 'qemu-system-arm.*apt-get install' err || fail "nothing about the emulator"
ln -s "$(command -v sh)" bin/qemu-system-arm
expect 1 env PATH="$work/bin" "$uwasa" demo --boards --firmware nowhere.elf
grep -q 'nowhere.elf: no such file' err || fail "the firmware that was named"
cp "$uwasa" alone
expect 1 env PATH="$work/bin" ./alone demo --boards
grep -q 'firmware.*tools/demo --boards' err || fail "nothing about the firmware"

if ! command -v qemu-system-arm >/dev/null || [ ! -f "$firmware" ]; then
    echo "skipped: needs qemu-system-arm and $firmware"
    exit 77
fi

# installed, it finds what was installed beside it; from here on this is the program
mkdir -p prefix/bin
cp "$uwasa" prefix/bin
uwasa=$work/prefix/bin/uwasa
install_from() {
    cmake --install "$1" --component demo --prefix "$work/prefix" >out 2>err ||
        { cat err >&2; fail "cmake --install $1"; }
}
install_from "${firmware%/apps/firmware/*}"
wanted=3
if [ -f "$aarch64" ] && command -v qemu-aarch64-static >/dev/null; then
    install_from "$(dirname "$aarch64")"
    wanted=4
fi

# settings in a file: one that is not there, one that is too long
board_with() {
    expect_board=$(timeout 60 qemu-system-arm -M mps2-an500 -display none -monitor none \
        -serial stdio -nic user -semihosting-config "enable=on,target=native,arg=fw,arg=@$1" \
        -kernel "$firmware" 2>&1 </dev/null) && fail "a board starts with $1"
    echo "$expect_board"
}
board_with nowhere | grep -q 'arguments.*: not found' || fail "a file of settings that is missing"
printf 'name=%01100d' 0 >long
board_with long | grep -q 'arguments: at most 1023 ' || fail "a file of settings that is too long"

# numbers KEY: of the nodes, from the last event, one a line
numbers() {
    tail -n 1 events.jsonl | sed "s/.*\"$1\":\[\([^]]*\).*/\1/" | tr , '\n'
}

if [ -n "${UWASA_DEMO_SECONDS:-}" ]; then
    "$uwasa" demo --boards --seconds "$UWASA_DEMO_SECONDS" --json events.jsonl >out 2>err ||
        { cat err >&2; fail demo; }
    cat out
    numbers alone_accuracy | awk '$1 >= 0.45 { exit 1 }' || fail "a node can do it alone"
    numbers together_accuracy | awk '$1 < 0.9 { exit 1 }' || fail "a node learns too little"
    exit 0
fi

for signal in INT KILL; do
    "$uwasa" demo --boards --seconds 200 >out 2>err &
    pid=$!
    i=0
    while [ $i -lt 100 ] && [ "$(nodes | wc -l)" != $wanted ]; do   # a busy host takes a while
        sleep 0.2
        i=$((i + 1))
    done
    [ "$(nodes | wc -l)" = $wanted ] || { cat err >&2; fail "$wanted nodes should run: $(nodes)"; }
    for node in $(nodes); do
        tr '\0' '\n' <"/proc/$node/cmdline" | grep -qiF "$(cat "$TMPDIR"/*/run.key)" &&
            fail "the key is in the list of processes"
    done
    [ "$(find "$TMPDIR" -name '*.settings' -perm 600 | wc -l)" = 2 ] || fail "settings for all eyes"
    kill -$signal $pid
    wait $pid && fail "SIG$signal looks like success"
    nothing_left "SIG$signal"
done

"$uwasa" demo --boards --seconds 16 --json events.jsonl >out 2>err || { cat err >&2; fail demo; }
nothing_left "a whole run"
[ -z "$(awk 'length > 80' out)" ] || { cat out >&2; fail "the result needs more than 80 columns"; }
grep -q 'loses power' err || fail "no board lost power"
grep -q 'is back after .* from step' err || { cat err >&2; fail "no board came back"; }
grep -q '"event":"killed".*"node":"garden"' events.jsonl || fail "no event of the power's loss"
grep -q '"event":"back".*"node":"garden"' events.jsonl || fail "no event of the return"
tail -n 1 events.jsonl | grep -q '"boards":true' || fail "the end does not say it had boards"
tail -n 1 events.jsonl | grep -q '"kind":\["Cortex-M7","Cortex-M7",' || fail "no kinds of nodes"
for key in alone_accuracy together_accuracy pulled_bytes; do
    n=$(numbers $key | wc -l)
    [ "$n" = $wanted ] || fail "$key has $n numbers, not $wanted"
done
echo passed
