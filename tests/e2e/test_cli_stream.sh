#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training on samples that arrive meanwhile. test_cli_stream.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

# points of a square: are they in the disc? One in ten is not.
awk 'BEGIN { srand(5); for (; n < 3000; n++) { x = 2 * rand() - 1; y = 2 * rand() - 1
    inside = x * x + y * y < 0.6; if (inside || rand() < 0.2) print x "," y "," inside } }' >disc.csv
cat >disc.json <<'END'
{"name": "disc", "input": [2], "layers": [{"name": "fc1", "type": "dense", "out": 16},
 {"name": "relu1", "type": "relu"}, {"name": "fc2", "type": "dense", "out": 2}]}
END
live="--model disc.json --lr 0.1 --data stream:-"

# training waits for the first sample, goes on with those that come, and without when none come
# shellcheck disable=SC2086
{ sleep 0.5; echo x,y,label; head -n 400 disc.csv; echo 0.1,0.2,7; echo broken; sleep 0.5
  tail -n +401 disc.csv; } |
    "$uwasa" train $live,epoch=5000 --steps 60000 --save live.safetensors --json events.jsonl >out 2>err ||
    { cat err >&2; fail "training on standard input"; }
grep -q '^stream:-: lines of 2 numbers and a label; up to 4096 samples are kept$' err ||
    { cat err >&2; fail "how lines are is not told"; }
grep -q 'lines\{0,1\} skipped, the last is line ' err || fail "skipped lines are not told"
grep -q '^stream:-: ended after [0-9]* samples, of which [0-9]* are kept; training goes on' err ||
    fail "the end of the stream is not told"
awk -v a="$(number events.jsonl test_accuracy)" 'BEGIN { exit !(a > 0.9) }' ||
    fail "it learned nothing: $(number events.jsonl test_accuracy)"
# both classes count the same: of the rare one as many are right
expect 0 "$uwasa" eval --model disc.json --weights live.safetensors --data csv:disc.csv --json -
sed -n 's/.*"class":0,.*"recall":\([0-9.]*\).*"class":1,.*"recall":\([0-9.]*\).*/\1 \2/p' out |
    awk '{ exit !($1 > 0.85 && $2 > 0.85) }' || { cat out >&2; fail "a class is missed"; }

# an end that is asked for while it waits, and while it trains
mkfifo quiet
exec 3<>quiet
# shellcheck disable=SC2086
"$uwasa" train $live <quiet >out 2>err &
pid=$!
sleep 0.5
kill -TERM $pid
wait $pid && fail "a program that got no sample ends well"
exec 3>&-
grep -q 'no sample arrived before the program was asked to end' err || fail "that is not told"
# shellcheck disable=SC2086
"$uwasa" train $live --steps 100000000 --save more.safetensors <disc.csv >out 2>err &
pid=$!
sleep 0.7
kill -TERM $pid
wait $pid || { cat err >&2; fail "SIGTERM with --save is no failure"; }
# shellcheck disable=SC2086
"$uwasa" train $live --steps 1 --save more.safetensors --resume <disc.csv >out 2>err ||
    fail "a resume on a stream"

# a node
expect 0 "$uwasa" keygen run.key
head -n 1000 disc.csv | "$uwasa" node --name a --run r --key run.key --model disc.json \
    --data stream:-,epoch=200 --steps 3000 --lr 0.1 --json node.jsonl >out 2>err ||
    { cat err >&2; fail "a node on standard input"; }
grep -q 'stream:-: ended after 1000 samples' err || fail "the node does not tell of its stream"
awk -v a="$(number node.jsonl test_accuracy)" 'BEGIN { exit !(a > 0.8) }' || fail "the node's accuracy"

# where it does not fit
while IFS='|' read -r status arguments sentence; do
    # shellcheck disable=SC2086
    expect "$status" "$uwasa" $arguments
    grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
done <<END
1|train $live --steps 1|stream:-: ended without a sample
2|train $live --validation 0.1|a stream tests with every sixth sample
2|train --model disc.json --data stream:file|allowed are stream:-
2|eval --model disc.json --weights live.safetensors --data stream:-|needs data that is there
2|predict --model disc.json --weights live.safetensors --data stream:-|needs data that is there
END
echo passed
