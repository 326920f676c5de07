#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Nodes: wrong configurations, two that learn from each other, status, wrong keys, ends by signal.
# test_cli_node.sh PROGRAM
here=$(dirname "$(realpath "$0")")
. "$here/cli.sh"
children=""
trap 'for p in $children; do kill -9 $p 2>/dev/null; done; rm -rf "$work"' EXIT

"$uwasa" keygen run.key || fail keygen
"$uwasa" keygen other.key || fail keygen

# wrong configurations: status 2, file, line and what is allowed
check_config() {
    printf '%s\n' "$1" >bad.json
    expect 2 "$uwasa" node --config bad.json
    grep -qF -- "$2" err || { cat err >&2; fail "no '$2'"; }
}
head='"name": "a", "run": "r", "key": "run.key", "model": "mlp"'

# keys as flags: true and false, lists as in JSON, dashes; the first wrong one is named
check_flags() {
    said=$1
    shift
    expect 2 "$uwasa" node --name a --run r --key run.key --model mlp "$@"
    grep -qF -- "$said" err || { cat err >&2; fail "no '$said'"; }
}
check_flags '--batch 0' --tls false --exact true --classes '[0, 1]' --linger-seconds 1 --batch 0
check_flags '--batch 0' --set linger-seconds=1 --classes 0,1 --exact --batch 0
check_flags '--classes [0, 1' --classes '[0, 1'
check_flags '--linger_seconds x' --linger-seconds x

check_config '{"name": "a"' 'bad.json:2: not valid JSON'
check_config '{"run": "r", "key": "run.key", "model": "mlp"}' '"name" is missing'
check_config "{$head,
\"bach\": 3}" 'bad.json:2: unknown key "bach", did you mean "batch"?'
check_config "{$head,
\"batch\": 0}" 'bad.json:2: "batch" needs a whole number, 1 or more'
check_config "{$head, \"batch\": \"3\"}" '"batch" needs a whole number, 1 or more'
check_config "{$head, \"emulate\": {\"los\": 1}}" 'did you mean "emulate.loss"?'
check_config "{$head, \"emulate\": {\"loss\": 2}}" '"emulate.loss" needs a number from 0 to 1'
check_config "{$head, \"momentum_rule\": \"gq\"}" 'needs one of qg'
check_config "{$head, \"momentum_rule\": \"kgt\", \"exchange\": \"allreduce\"}" '"momentum_rule" needs gossip: it is for pairs'
check_config "{$head, \"momentum_rule\": \"kgt\", \"peer_schedule\": \"random\"}" 'needs mutual pairs by this rule: matching, hypercube'
check_config "{$head, \"period\": \"often\"}" '"period" needs a whole number from 1 to 1000000000, auto'
check_config "{$head, \"period\": \"auto\", \"exchange\": \"allreduce\"}" '"period" can adapt in gossip and broadcast only'
check_config "{$head, \"period\": \"auto\", \"momentum_rule\": \"kgt\"}" '"period" can adapt in gossip and broadcast only'
check_config "{$head, \"share\": 0.2}" '"share" needs "period": "auto"'
check_config "{$head, \"schedule\": \"cosine\"}" 'cosine and linear need "steps", "epochs" or "seconds"'
check_config "{$head, \"elapsed\": 5}" '"elapsed" needs "seconds"'
check_config "{$head, \"average\": \"gradients\"}" '"average" needs allreduce'
gradients="$head, \"exchange\": \"allreduce\", \"average\": \"gradients\""
check_config "{$gradients, \"momentum_rule\": \"qg\"}" '"momentum_rule" must be none where gradients are averaged'
check_config "{$gradients, \"algorithm\": \"doubling\"}" '"algorithm" needs tree, halving or ring'
check_config "{$head, \"steps\": 1, \"epochs\": 1}" 'give one of them'
check_config "{$head, \"shard\": \"4/4\"}" 'needs I/K'
check_config "{$head, \"skew\": \"sorted\"}" '"skew" needs "shard"'
check_config "{$head, \"skew\": \"unsorted\", \"shard\": \"0/2\"}" '"skew" needs even, sorted or dirichlet'
check_config "{$head, \"step_seconds\": -1}" '"step_seconds" needs a number from 0 to 86400'
check_config "{$head, \"classes\": \"1,x\"}" 'needs whole numbers'
check_config "{$head, \"data\": \"nope\"}" 'nope'
check_config "{$head, \"listen\": \"10.0.0.2\"}" '"listen" needs HOST:PORT'
check_config "{$head, \"advertise\": \":4433\"}" '"advertise" needs HOST:PORT'
check_config "{$head, \"seeds\": [\"a:1\",
\"b\"]}" 'bad.json:1: "seeds" has "b", needs HOST:PORT'
check_config "{$head, \"emulate\": {\"cut_after\": 1}}" '"emulate.cut_after" needs "emulate.cut_seconds"'
check_config "{$head, \"emulate\": {\"far\": [\"a:1\"]}}" '"emulate.far" needs a fault'
check_config "{$head, \"exchange\": \"allreduce\", \"peer_schedule\": \"random\"}" \
    '"peer_schedule" is not for allreduce or broadcast'
check_config "{$head, \"head_weight\": 1e10}" 'needs a whole number from 0 to 4294967295'
check_config "{$head, \"members\": 32, \"together\": 33}" '"together" needs at most "members"'
check_config "{$head, \"members\": 8, \"cell_first\": 9}" '"cell_first" must not be above the number of members'
echo "{$head}" >good.json
expect 2 "$uwasa" node --config nothing.json
expect 2 "$uwasa" node --config good.json --set batch=0
expect 2 "$uwasa" node --config good.json --set bach=1
expect 2 "$uwasa" node --config good.json --link radio
grep -q -- 'link.radio=udp:GROUP:PORT with --set link.address=N' err || fail "which radio?"
# every key is a flag
expect 2 "$uwasa" node --config good.json --batch 0
grep -q -- '--batch 0: needs a whole number, 1 or more' err || { cat err >&2; fail "a key as a flag"; }
expect 2 "$uwasa" node --config good.json --period=auto --exchange allreduce
grep -q -- '--period auto: "period" can adapt in' err || { cat err >&2; fail "two keys as flags"; }
expect 2 "$uwasa" node --config good.json --peroid 5
grep -q 'did you mean --period?' err || { cat err >&2; fail "a mistyped key as a flag"; }
expect 2 "$uwasa" node --config good.json --tls=maybe
grep -q -- '--tls maybe: needs true or false' err || { cat err >&2; fail "a flag that is no truth"; }
expect 2 "$uwasa" node --config good.json --pcap -
echo "{$head, \"seeds\": [\"wrong\"]}" >seeds.json
expect 2 "$uwasa" node --config seeds.json
expect 1 "$uwasa" node --config seeds.json --set seeds=a:1 --set seeds=b:2 --set key=nothing.key
expect 1 "$uwasa" node --config good.json --set key=nothing.key
expect 1 "$uwasa" node --config good.json --set listen=300.0.0.1:1 --set steps=1
echo 12 >short.key
expect 1 "$uwasa" node --config good.json --set key=short.key
grep -q '64 hex digits' err || fail "a key that is none is not told"
expect 1 "$uwasa" node --config good.json --set checkpoint=.
grep -q 'not a regular file' err || fail "a folder as checkpoint is not told"
echo junk >cut.safetensors
expect 1 "$uwasa" node --config good.json --set checkpoint=cut.safetensors
grep -q 'remove the file' err || fail "a damaged checkpoint has no remedy"

# the README's two configurations are right
readme=$here/../../README.md
sed -n '/^cat > attic.json/,/^END/p; /^cat > cellar.json/,/^END/p' "$readme" >readme.sh
sh readme.sh
for name in attic cellar; do
    expect 0 "$uwasa" node --config $name.json --set steps=1 --set listen=127.0.0.1:0 \
        --set final_eval_samples=100 --set consensus_rounds=0
    expect 0 "$uwasa" eval --model lenet5 --weights $name.safetensors
done

# until_in FILE PATTERN: wait, ten seconds at most
until_in() {
    i=0
    while [ $i -lt 100 ] && ! grep -q "$2" "$1" 2>/dev/null; do
        sleep 0.1
        i=$((i + 1))
    done
}

# three nodes: a and b share the key, c does not
start() {
    name=$1
    shift
    "$uwasa" node --json "$name.jsonl" --set "name=$name" --set run=r --set model=mlp \
        --set batch=16 --set data=digits --set final_eval_samples=500 \
        --set consensus_seconds=5 "$@" >"$name.out" 2>"$name.err" &
    last=$!
    children="$children $last"
}
start a --set key=run.key --set listen=127.0.0.1:0 --set seconds=7 --set classes=0,1,2,3,4
pid_a=$last
until_in a.jsonl '"event":"listening"'
a=$(sed -n 's/.*"event":"listening","address":"\([^"]*\).*/\1/p' a.jsonl)
start b --set key=run.key --set seeds=$a --set seconds=7 --set classes=5,6,7,8,9
pid_b=$last
start c --set key=other.key --set seeds=$a --set seconds=4
pid_c=$last
until_in a.jsonl '"kind":"pull_done"'
expect 0 "$uwasa" status $a --key run.key --run r
grep -q "^b .*alive" out || { cat out >&2; fail "status does not show b alive"; }
expect 0 "$uwasa" status $a --key run.key --run r --json
expect 1 "$uwasa" status $a --key other.key --run r --timeout 1
expect 2 "$uwasa" status $a --key run.key
expect 2 "$uwasa" status $a --run r --no-tls
grep -q 'no-tls: is for --link tcp' err || fail "--no-tls over udp is not explained"
start t --set link=tcp --set tls=false --set listen=127.0.0.1:0 --set seconds=3
pid_t=$last
until_in t.jsonl '"event":"listening"'
t=$(sed -n 's/.*"event":"listening","address":"\([^"]*\).*/\1/p' t.jsonl)
expect 0 "$uwasa" status $t --run r --link tcp --no-tls
grep -q '^t .*this node' out || fail "no status of a run in the clear"
wait $pid_t || fail "node t"
"$uwasa" status 127.0.0.1:9 --key run.key --run r --timeout 60 --once >out 2>err &
pid=$!
sleep 0.3
kill -TERM $pid
wait $pid && fail "status that was stopped before an answer looks like success"
grep -q '^uwasa status: stopped' err || { cat err >&2; fail "status does not say that it was stopped"; }
expect 2 "$uwasa" status 127.0.0.1 --key run.key --run r
grep -q '127.0.0.1: needs HOST:PORT' err || fail "an address without a port is not explained"
expect 2 "$uwasa" status 7 --link radio --key run.key --run r
grep -q 'uwasa node --json FILE' err || fail "what tells the status of a radio"
wait $pid_a || { cat a.err >&2; fail "node a"; }
wait $pid_b || { cat b.err >&2; fail "node b"; }
wait $pid_c || { cat c.err >&2; fail "node c must go on alone"; }
for n in a b; do
    [ "$(number $n.jsonl pulls_done)" -gt 0 ] || fail "$n pulled nothing"
    grep -q '"test_samples":500,"final":true' $n.jsonl || fail "$n tested other than 500 samples"
    sed '1,/^training is done; averaging with others, waiting for them for at most 5 s$/d' $n.err >end
    grep -q '^testing on 500 samples$' end || { cat $n.err >&2; fail "$n does not say what it does"; }
    grep 'ETA' end && fail "$n tells how long it trains when that is over"
    accuracy=$(number $n.jsonl test_accuracy)
    awk "BEGIN { exit !($accuracy > 0.53) }" || # alone: 0.5 at most
        fail "$n learned nothing from the other: $accuracy"
done
[ "$(number c.jsonl pulls_done)" = 0 ] || fail "c pulled with a wrong key"
[ "$(number c.jsonl received_bytes)" = 0 ] || fail "c learned something with a wrong key"

# alone: where it listens, and that no seed answers
start e --set key=run.key --set listen=127.0.0.1:0 --set seeds=127.0.0.1:9 --set seconds=6
wait $last || fail "a node whose seed does not answer"
grep -q '^listening on 127.0.0.1:[1-9]' e.err || fail "e does not tell its port"
grep -q '"event":"listening","address":"127.0.0.1:[1-9]' e.jsonl || fail "no listening event"
grep -q '^no answer from 127.0.0.1:9: ' e.err || fail "e does not tell that its seed is silent"

grep -q '^no answer from .*another "name"' e.err || fail "e does not ask for another name"

# a step takes its time, and its rest ends when the node is told to
start f --set key=run.key --set steps=5 --set step_seconds=0.1
wait $last || fail "a node that rests"
awk "BEGIN { exit !(80 / $(number f.jsonl samples_per_s) >= 0.5) }" || fail "five rests are too short"
start g --set key=run.key --set step_seconds=3600 --set checkpoint=g.safetensors
pid=$last
until_in g.err 'listening'
kill -TERM $pid
wait $pid || { cat g.err >&2; fail "a node that was told to end while it rested"; }
start g --set key=run.key --set step_seconds=3600 --set seconds=1.5
wait $last || fail "a node whose time ends while it rests"

# what is over of its time before the start is not trained again, and its schedule is there
start h --set key=run.key --set seconds=3600 --set elapsed=3599 --set consensus_seconds=0
wait $last || fail "a node of whose time a second is left"
awk "BEGIN { exit !($(number h.jsonl seconds) < 60) }" || fail "elapsed are trained again"
grep -q 'nothing is left' h.err && fail "a second is left, and it says that nothing is"
start o --set key=run.key --set seconds=9 --set elapsed=9 --set consensus_seconds=0
wait $last || fail "a node of whose time nothing is left"
grep -q 'nothing is left to train: steps or seconds are over' o.err || fail "that is not told"

# with "skew" a node learns from the samples of its place in a simulated run, in the same order
"$uwasa" sim --nodes 2 --model mlp --data digits --skew sorted --exchange allreduce --period 1000 \
    --steps 30 --batch 16 --lr 0.05 --step-seconds 0.01 --seed 3 --json sim.jsonl >out 2>err ||
    { cat err >&2; fail sim; }
for i in 0 1; do
    "$uwasa" node --json share.jsonl --set name=n --set run=r --set key=run.key --set model=mlp \
        --set skew=sorted --set shard=$i/2 --set exchange=allreduce --set period=1000 --set steps=30 \
        --set batch=16 --set seed=3 --set consensus_seconds=0 --set consensus_rounds=0 \
        >out 2>err || { cat err >&2; fail "a node with a dealt share"; }
    number share.jsonl test_accuracy
done | sort -n >shares
{ number sim.jsonl worst_accuracy; number sim.jsonl best_accuracy; } | sort -n | cmp -s - shares ||
    { cat shares sim.jsonl >&2; fail "a node's share is not the simulator's"; }
expect 2 "$uwasa" node --config good.json --set skew=dirichlet:1 --set shard=0/60000 --set steps=1
grep -q 'too few for 60000 nodes' err || { cat err >&2; fail "too few samples are not told"; }

# what is written replaces nothing that is read, and is not each other
cp run.key kept.key
cp good.json kept.json
for flags in "--json run.key" "--pcap run.key" "--trace ./run.key" "--set checkpoint=run.key" \
    "--json good.json" "--json a --pcap a" "--trace a --pcap ./a"; do
    # shellcheck disable=SC2086
    expect 2 "$uwasa" node --config good.json --set key=run.key $flags
    grep -Eq 'is not replaced|writes there' err || { cat err >&2; fail "$flags"; }
    cmp -s run.key kept.key && cmp -s good.json kept.json || fail "$flags: it is gone"
done

# one program a checkpoint; one that is killed leaves no lock
start p --set key=run.key --set checkpoint=p.safetensors --set step_seconds=0.05
pid=$last
until_in p.err 'listening'
expect 1 "$uwasa" node --config good.json --set key=run.key --set checkpoint=p.safetensors --set steps=1
grep -q 'checkpoint p.safetensors: another running program uses this file' err ||
    { cat err >&2; fail "two nodes with one checkpoint"; }
expect 1 "$uwasa" train --model mlp --steps 1 --save p.safetensors
grep -q -- '--save p.safetensors: another running program' err || fail "a node and train with one file"
kill -9 $pid
expect 0 "$uwasa" node --config good.json --set key=run.key --set checkpoint=p.safetensors \
    --set final_eval_samples=10 --set steps=1
grep -q 'resuming from p.safetensors' err || fail "the checkpoint of a node that was killed is not free"

# with 64 peers the line, the events and the status know all of them
seeds=$(awk 'BEGIN { for (i = 1; i <= 64; i++) printf "%s\"127.0.0.2:%d\"", (i > 1 ? "," : ""), 9000 + i }')
echo "{\"membership\": \"static\", \"members\": 128, \"seeds\": [$seeds]}" >many.json
start m --config many.json --set key=run.key --set listen=127.0.0.1:0 --set step_seconds=0.05 \
    --set linger_seconds=0
pid=$last
until_in m.jsonl '"event":"status"'
m=$(sed -n 's/.*"event":"listening","address":"\([^"]*\).*/\1/p' m.jsonl)
expect 0 "$uwasa" status "$m" --key run.key --run r --json
[ "$(grep -o '"state":' out | wc -l)" = 65 ] || { cat out >&2; fail "status lists another number"; }
kill -TERM $pid
wait $pid || { cat m.err >&2; fail "a node with 64 peers"; }
[ "$(grep '"event":"status"' m.jsonl | head -n 1 | grep -o '"state":' | wc -l)" = 64 ] ||
    fail "the events list other members than the status"
grep -q ' of 64 peers' m.err || { cat m.err >&2; fail "the line counts another number of peers"; }

# SIGTERM ends a node without limits, saved
start d --set key=run.key --set checkpoint=d.safetensors
pid=$last
sleep 1
kill -TERM $pid
wait $pid || { cat d.err >&2; fail "SIGTERM is not a failure"; }
grep -q '^interrupted at step [0-9]*, saved in d.safetensors$' d.err || fail "d does not tell its end"
expect 0 "$uwasa" eval --model mlp --weights d.safetensors
start d --set key=run.key --set checkpoint=d.safetensors --set seconds=0.2
wait $last || fail "a node with a checkpoint"
grep -q 'resuming from d.safetensors' d.err || fail "d did not go on from its checkpoint"
grep -q 'another momentum_rule' d.err && fail "the velocity of the same rule is not kept"
start d --set key=run.key --set checkpoint=d.safetensors --set seconds=0.2 --set momentum_rule=kgt
wait $last || fail "a node with a checkpoint of another rule"
grep -q 'another momentum_rule than kgt' d.err || fail "a velocity of another rule is kept in silence"

# events: each with its time; SIGHUP opens the file again and ends nothing; a restart appends, and
# one that fails takes nothing away
start i --set key=run.key --set listen=127.0.0.1:0 --set step_seconds=0.05
pid=$last
until_in i.jsonl '"event":"status"'
mv i.jsonl i.jsonl.1
kill -HUP $pid
until_in i.jsonl '"event":"status"'
grep -q '"event":"start"' i.jsonl && fail "SIGHUP began a new run"
grep -qv '"time":[0-9.]*}$' i.jsonl.1 && fail "an event without its time"
kill -TERM $pid
wait $pid || { cat i.err >&2; fail "a node that got SIGHUP"; }
tail -n 1 i.jsonl | grep -q '"event":"done"' || fail "the end is not in the file of after SIGHUP"
cp i.jsonl kept.jsonl
start i --set key=run.key --set listen=300.0.0.1:1
wait $last && fail "listens at 300.0.0.1"
head -n "$(wc -l <kept.jsonl)" i.jsonl | cmp -s - kept.jsonl || fail "a failed start took events away"
start i --set key=run.key --set steps=40 --set events_seconds=3600
wait $last || fail "a node with few events"
sed -n '/"event":"start"/,$p' i.jsonl | sed '1,/"event":"start"/d' >few.jsonl
[ "$(grep -c '"event":"step"' few.jsonl)" = 1 ] || { cat few.jsonl >&2; fail "not one step an hour"; }
tail -n 1 few.jsonl | grep -q '"event":"done","step":40' || fail "few events without the end"
echo passed
