#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demo: its result, and what is left when it is interrupted or killed. test_cli_demo.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"
export TMPDIR=$work/tmp
mkdir "$TMPDIR"

# Processes whose command line names this test's directory: nodes of these demos only.
nodes() {
    for p in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$p/cmdline" | grep -qF "node --config $TMPDIR" &&
            echo "${p#/proc/}"
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

for signal in INT TERM KILL; do
    "$uwasa" demo --seconds 200 >out 2>err &
    pid=$!
    sleep 2
    [ "$(nodes | wc -l)" = 4 ] || { cat err >&2; fail "four nodes should run: $(nodes)"; }
    kill -$signal $pid
    wait $pid && fail "SIG$signal looks like success"
    nothing_left "SIG$signal"
done

# a node that fails ends the demo with its sentence
expect 1 "$uwasa" demo --data mnist:/nonexistent --seconds 10
grep -q 'node [a-z]* ended too early: .*nonexistent' err || fail "the node's sentence is lost"
nothing_left "a failing node"

# a short run to the end; the demo itself only waits for its nodes, also while one is down
"$uwasa" demo --seconds 16 --json events.jsonl >out 2>err &
pid=$!
i=0
while [ $i -lt 300 ] && ! grep -q '"event":"restarted"' events.jsonl 2>/dev/null; do
    sleep 0.1
    i=$((i + 1))
done
ticks=$(cut -d ' ' -f 14-15 /proc/$pid/stat | tr ' ' +)
wait $pid || { cat err >&2; fail demo; }
[ $(($ticks)) -lt $(($(getconf CLK_TCK))) ] || fail "the demo itself computed for $(($ticks)) ticks"
nothing_left "a whole run"
tail -n 1 events.jsonl | grep -q '"event":"done"' || fail "the last event is not done"
accuracies() { tail -n 1 events.jsonl | sed "s/.*\"$1\":\[\([^]]*\).*/\1/" | tr , '\n'; }
accuracies alone_accuracy >alone
accuracies together_accuracy >together
paste alone together | awk '$1 > 0.45 || $2 <= $1 { exit 1 } END { if (NR != 4) exit 1 }' ||
    { paste alone together >&2; fail "they did not learn together"; }
grep -q '"event":"killed"' events.jsonl || fail "nobody was killed"
grep -q '"event":"restarted"' events.jsonl || fail "nobody came back"
echo passed
