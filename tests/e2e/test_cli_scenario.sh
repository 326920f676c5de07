#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Scenario files of the simulator. test_cli_scenario.sh PROGRAM SCENARIOS
scenarios=$(realpath "$2")
. "$(dirname "$(realpath "$0")")/sim.sh"

scenario() { # scenario KEYS: a scenario with them, in s.json
    echo "{\"model\": \"plane.json\", \"data\": \"csv:four.csv\", \"batch\": 10, \"lr\": 0.1, \"steps\": 40, $1}" >s.json
}
run() { # run FLAGS: the scenario, its events in out
    "$uwasa" sim --config s.json --json - "$@" >out 2>err || { cat s.json err >&2; fail "a run"; }
}

# the samples can be drawn, as a table and as an event
for file in "$scenarios"/*.json; do
    expect 0 "$uwasa" sim --config "$file" --dry-run
    grep -q '^  step .*s$' out || { cat out >&2; fail "$file: no table"; }
    "$uwasa" sim --config "$file" --dry-run --json - >out 2>err || fail "$file: --json"
    head -n 1 out | grep -q '"event":"fleet"' || fail "$file: no event"
    tail -n 1 out | grep -q '"event":"done"' || fail "$file: the last event is not done"
done
expect 0 "$uwasa" sim --model plane.json --nodes 3 --dry-run
grep -q '^nodes: 3 nodes, as fast as this machine' out || { cat out >&2; fail "flags alone"; }
expect 0 "$uwasa" sim --devices
grep -q '^cortex-m7 .*480 MHz.*STM32H743' out && grep -q 'count_instructions' out ||
    { cat out >&2; fail "--devices"; }

# what is refused: one line that says where, status 2
while read -r keys; do
    scenario "$keys"
    expect 2 "$uwasa" sim --config s.json
    grep -q 's.json' err || { cat err >&2; fail "the sentence does not name the file: $keys"; }
done <<END
"nodse": 4
"nodes": 1
"nodes": [{"count": 99999}, {"count": 5000}]
"skew": "unsorted"
"lr_schedule": "falling"
"nodes": 4, "latency": {"uniform": [2, 1]}
"exchange": "allreduce", "schedule": "matching"
"momentum": 0
"model_bytes": 100
"algorithm": "ring"
"algorithm": "ring-study", "exchange": "allreduce"
"epochs": 3
"network": "formula", "exchange": "auto"
"network": "formula", "mtu": 1024
"network": "formula", "pull_window": 65536
"eval_seconds": 1e-9
"nodes": [{"count": 3}, {"count": 1, "attack": "sign"}]
"nodes": [{"count": 3}, {"count": 1, "attack": "noise:much"}]
"nodes": [{"count": 3}, {"count": 1, "attack": "old:2"}]
END
expect 2 "$uwasa" sim --config nowhere.json
expect 2 "$uwasa" sim nowhere.json
grep -q 'did you mean --config nowhere.json' err || { cat err >&2; fail "a file without its flag"; }
scenario '"nodes": [{"count": 4}]'
expect 2 "$uwasa" sim --config s.json --nodes 5
scenario '"nodes": 4, "cells": {"sizes": [2, 3]}'
expect 2 "$uwasa" sim --config s.json

# a fleet of equal devices is the same run as with flags, byte for byte; a flag wins
scenario '"nodes": 4, "bandwidth": {"up": 1e6}, "latency": 0.02, "step": {"seconds": 0.01}'
run
told out | sed 's/"config":"s.json",//' | grep -v '"event":"fleet"' >a
"$uwasa" sim --model plane.json --data csv:four.csv --batch 10 --lr 0.1 --steps 40 --nodes 4 \
    --bandwidth 1000000 --latency 0.02 --step-seconds 0.01 --json - >out 2>err || fail "flags"
told out >b
cmp -s a b || { diff a b >&2; fail "the same devices, another run"; }
run --step-seconds 0.02
awk -v s="$(number out virtual_seconds)" 'BEGIN { exit !(s >= 0.8 && s < 1) }' ||
    fail "--step-seconds does not win"
run --nodes 5 --epochs 1
[ "$(number out steps)" = 20 ] || fail "--epochs instead of steps"
for keys in '"mtu": 1024, "pull_window": 65536' '"network": "formula", "model_bytes": 100'; do
    scenario "$keys"        # what is of the other network does not count
    [ "${keys#*formula}" = "$keys" ] && network=formula || network=events
    run --network $network
done
scenario '"nodes": 4, "bandwidth": {"up": 1e6}, "latency": 0.02, "step": {"seconds": 0.01}'
run --nodes 5 --steps 3
grep -q '"event":"fleet","nodes":5' out || fail "the run does not tell its devices"
[ "$(number out nodes)" = 5 ] && [ "$(number out steps)" = 3 ] || fail "--nodes, --steps"

# devices differ: one slow node makes all-reduce slow, and gossip ends when the slow one does
alike='"nodes": 5, "step": {"seconds": 0.01}, "latency": 0.001, "momentum_rule": "none"'
slow='"stragglers": {"share": 0.2, "factor": 10}'
scenario "$alike"
run --exchange allreduce
fast=$(number out virtual_seconds)
scenario "$alike, $slow"
run --exchange allreduce
awk -v s="$(number out virtual_seconds)" -v f="$fast" 'BEGIN { exit !(s >= 4 && f < 0.6) }' ||
    { cat out >&2; fail "stragglers"; }

# a thin link between cells makes what passes it slow
cells='"nodes": 4, "bandwidth": 0, "step": {"seconds": 0.01}, "period": 10, "momentum_rule": "none",
       "exchange": "allreduce", "cells": {"nodes": 2, "bandwidth": 0, "latency": 0.001'
scenario "$cells}"
run
wide=$(number out virtual_seconds)
scenario "$cells, \"out_bandwidth\": 10000}"
run
awk -v s="$(number out virtual_seconds)" -v w="$wide" -v n="$(number out averages_done)" \
    'BEGIN { exit !(n >= 8 && s > w + n / 4 * 464 * 8 / 10000) }' ||
    { cat out >&2; fail "a thin link, $wide s without"; }

# who is away computes nothing: two of three seconds more
printf '0,0.1,1.1\n0,1.2,2.2\n' >away.csv
scenario "\"nodes\": 3, \"step\": {\"seconds\": 0.01}, \"availability\": {\"trace\": \"away.csv\"}"
run
awk -v s="$(number out virtual_seconds)" 'BEGIN { exit !(s >= 2.4 && s < 4) }' ||
    { cat out >&2; fail "a trace"; }
grep -q 'no device was away' err && { cat err >&2; fail "somebody was away"; }
printf '1,50,60\n2,40,45\n' >away.csv
run
grep -q '^no device was away: the first absence begins after 40 s, and the run took 0\.4' err ||
    { cat err >&2; fail "a run that ends before anybody is away"; }
expect 0 "$uwasa" sim --config s.json --dry-run
grep -qx 'the first absence begins after 40 s' out || { cat out >&2; fail "when who is away"; }

# one of four attacks: what ruins a run without guards costs the others little, and they alone are tested
for attack in sign_flip scale:10 noise:1 old little; do
    scenario "\"nodes\": [{\"count\": 3}, {\"count\": 1, \"attack\": \"$attack\"}], \"step\": {\"seconds\": 0.01}"
    run --steps 200
    awk -v a="$(number out test_accuracy)" 'BEGIN { exit !(a >= 0.95) }' ||
        { tail -n 1 out >&2; fail "an attacker: $attack"; }
    grep -q '"pulls_done"' out || fail "no counters"
done
for attack in sign_flip scale:10 noise:1 old little labels; do
    scenario "\"nodes\": [{\"count\": 3}, {\"count\": 1, \"attack\": \"$attack\"}], \"exchange\": \"allreduce\", \"guard\": \"all\", \"step\": {\"seconds\": 0.01}"
    run --steps 200
    awk -v a="$(number out test_accuracy)" 'BEGIN { exit !(a >= 0.95) }' ||
        { tail -n 1 out >&2; fail "an attacker of averages: $attack"; }
done
run --guard off
scenario '"nodes": [{"count": 3}, {"count": 1, "attack": "old"}], "network": "formula"'
"$uwasa" sim --config s.json >out 2>err && fail "an attack by formula"
grep -q '"attack" needs the network of events' err || { cat err >&2; fail "why not by formula"; }
scenario '"nodes": [{"count": 3, "attack": "old"}]'
"$uwasa" sim --config s.json >out 2>err && fail "nobody is honest"

# who forgets begins anew: its model is worse, the run goes on
scenario '"nodes": 8, "step": {"seconds": 0.1}, "latency": 0.001, "availability":
    {"churn": {"up": 2, "down": 0.5, "forgets": 1}}'
run --exchange gossip --steps 60
awk -v s="$(number out virtual_seconds)" 'BEGIN { exit !(s > 6.2) }' || { cat out >&2; fail "churn"; }
# time that no clock can count ends a run, and says so
scenario '"nodes": 2, "steps": 200000, "network": "formula", "step": {"seconds": 86400}, "period": 400000,
    "eval_epochs": 0, "stragglers": {"share": 1, "factor": 1e6}'
sed -i 's/"steps": 40, //; s/"batch": 10/"batch": 1/' s.json
expect 1 "$uwasa" sim --config s.json
grep -q '1e+12 virtual seconds are counted' err || { cat err >&2; fail "virtual time without end"; }
echo passed
