#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Modelled steps: what is refused, what is told. test_cli_sim_time.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

# column 1, 2, ...: of the table's row for so many nodes
cell() {
    awk -v n="$1" -v c="$2" '$1 == n { print $c }' out
}

# 1000 multiply-adds a sample, forward and for the weights: the first layer's input has no gradient
cat >one.json <<END
{"name": "one", "input": [100], "layers": [{"name": "fc", "type": "dense", "out": 10}]}
END

expect 2 "$uwasa" sim time
grep -q -- '--model: is needed' err || fail "a missing model"
while read -r flags; do
    expect 2 "$uwasa" sim time --model one.json $flags
    grep -q -- "${flags%% *}" err || { cat err >&2; fail "the sentence does not name ${flags%% *}"; }
done <<END
--nodes 0
--nodes 2,,4
--nodes 2,
--nodes 4000
--nodes two
--batch 0
--overlap half
--exchange mail
--algorithm sweep
--device-rate 0
--bandwidth 0
--interference -1
--device abacus
--device cortex-m7 --device-rate 5
--latency 3601
--message-seconds 1e308
--algorithm ring --exchange gossip
--interference 0.5 --overlap off
END
expect 2 "$uwasa" sim time --model nowhere.json
for flags in "--half-batch 1e308" "--add-rate 1e-300" "--interference 1e300"; do  # in finite time
    expect 2 "$uwasa" sim time --model one.json --nodes 2 $flags
    grep -q 'takes 30 years' err || { cat err >&2; fail "$flags"; }
done

# 2000 x 8 multiply-adds at 8000 a second: 2 s; 1010 floats at 32320 bits a second: 1 s, and 0.25 s
# of latency to one partner; by halving 0.5 + 0.5 s and twice the latency
flags="--model one.json --batch 8 --device-rate 8000 --bandwidth 32320 --latency 0.25 \
--message-seconds 0 --overlap off"
expect 0 "$uwasa" sim time $flags --nodes 1,2,64 --exchange gossip
[ "$(cell 1 2) $(cell 1 5)" = "2.000000 1.00" ] || { cat out >&2; fail "one node"; }
[ "$(cell 2 2) $(cell 2 4) $(cell 2 5)" = "3.250000 1.250000 1.23" ] ||
    { cat out >&2; fail "two nodes"; }
[ "$(cell 64 2) $(cell 64 7) $(cell 64 8)" = "3.250000 4040 4040" ] ||
    { cat out >&2; fail "one partner among 64"; }
expect 0 "$uwasa" sim time $flags --nodes 2 --algorithm halving
[ "$(cell 2 2) $(cell 2 7)" = "3.500000 4040" ] || { cat out >&2; fail "halving"; }

# half of the rate at 8 samples: 4 s; compared with a minibatch of 24, 8 s
expect 0 "$uwasa" sim time $flags --nodes 1 --half-batch 8 --one-batch 24
[ "$(cell 1 2) $(cell 1 5)" = "4.000000 0.67" ] || { cat out >&2; fail "small minibatches"; }

# 16,000 multiply-adds on a Cortex-M7 at 480 MHz x 0.64 x 0.6
expect 0 "$uwasa" sim time --model one.json --batch 8 --nodes 1 --device cortex-m7
[ "$(cell 1 2)" = 0.000087 ] || { cat out >&2; fail "a known device"; }

# the same as events
expect 0 "$uwasa" sim time $flags --nodes 1,2 --exchange gossip --json -
head -n 1 out | grep -q '"event":"start","model":"one.json"' || fail "no start"
sed -n 3p out | grep -q '"nodes":2,"batch":8,"step_seconds":3.25,"compute_seconds":2,' ||
    { cat out >&2; fail "no such step"; }
tail -n 1 out | grep -q '"event":"done"' || fail "no done"

# AlexNet is 61 million parameters; what computing hides costs nothing
expect 0 "$uwasa" sim time --model alexnet --nodes 8 --algorithm ring --json -
sed -n 2p out | awk '{ exit !(match($0, /"efficiency":0\.99/)) }' || { cat out >&2; fail "hidden"; }
head -n 1 out | grep -q '"trained":60965224' || fail "not AlexNet"
