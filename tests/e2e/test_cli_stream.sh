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
grep -q '^stream:-: lines of 2 numbers and a label in "label", taken by their names; up to 4096 samples are kept$' err ||
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
grep -q 'testing on 16[67] samples' err || { cat err >&2; fail "the node does not test on every sixth"; }
grep -q 'stream:-: ended after 1000 samples' err || fail "the node does not tell of its stream"
awk -v a="$(number node.jsonl test_accuracy)" 'BEGIN { exit !(a > 0.8) }' || fail "the node's accuracy"

# what a table says of samples holds for a stream that goes on with its weights: scale, names, classes
awk 'BEGIN { srand(6); print "temp,load,state"; for (; n < 1500; n++) { c = int(3 * rand())
    printf "%.2f,%.1f,%s\n", 60 + 10 * c + 8 * rand(), 900 - 150 * c + 120 * rand(),
    c == 0 ? "ok" : c == 1 ? "worn" : "hot" } }' >pump.csv
sed '1d; s/hot$/0/; s/ok$/1/; s/worn$/2/' pump.csv >numbers.csv
sed 's/"out": 2/"out": 3/; s/disc/pump/' disc.json >pump.json
pump="--model pump.json --data stream:-"
expect 0 "$uwasa" train --model pump.json --data csv:pump.csv,scale=standard --epochs 20 --lr 0.1 \
    --save hist.safetensors
tail -n +2 pump.csv >words.csv
awk -F, '{ print $3 ",id" NR "," $2 "," $1 }' pump.csv | sed '1s/id1/id/' >turned.csv
awk -F, 'NR > 1 { printf "{\"state\": \"%s\", \"load\": %s, \"temp\": %s}\n", $3, $2, $1 }' pump.csv >pump.jsonl
cp hist.safetensors resumed.safetensors
for way in "turned.csv --weights hist.safetensors --save cont.safetensors --steps 400" \
        "pump.jsonl --weights hist.safetensors --save cont.safetensors --steps 400" \
        "numbers.csv --weights hist.safetensors --save cont.safetensors --steps 400" \
        "pump.csv --weights hist.safetensors --save cont.safetensors --steps 400" \
        "words.csv --resume --save resumed.safetensors --steps 1500"; do
    # shellcheck disable=SC2086
    "$uwasa" train $pump ${way#* } --json cont.jsonl <"${way%% *}" >out 2>err ||
        { cat err >&2; fail "going on with a table's weights: $way"; }
    grep -q '^stream:-: features are scaled as in training$' err || { cat err >&2; fail "no scale: $way"; }
    grep -q 'skipped' err && { cat err >&2; fail "lines are refused: $way"; }
    case $way in [pt]u*)
        grep -q '^stream:-: lines of 2 numbers and a label in "state", taken by their names; ' err ||
            { cat err >&2; fail "names are not told: $way"; } ;;
    esac
    awk -v a="$(number cont.jsonl test_accuracy)" 'BEGIN { exit !(a > 0.9) }' ||
        fail "it forgets: $way: $(number cont.jsonl test_accuracy)"
    saved=${way#*--save }
    expect 0 "$uwasa" predict --model pump.json --weights "${saved%% *}" pump.csv
    cut -f 1 out | paste -d, - words.csv | awk -F, '$1 == $4 { n++ } END { exit !(n > 1350) }' ||
        fail "the saved file has lost scale or names: $way"
done
head -n 2 pump.jsonl >rows.jsonl
"$uwasa" predict --model pump.json --weights hist.safetensors rows.jsonl >out 2>err ||
    { cat err >&2; fail "JSON by names"; }
[ "$(cut -f 1 out)" = "$(sed -n 2,3p pump.csv | cut -d , -f 3)" ] || { cat out >&2; fail "JSON by names"; }
# a new model: the first line names its columns
# shellcheck disable=SC2086
"$uwasa" train $pump,label=state,drop=id,classes=ok+worn+hot --steps 20 --save new.safetensors <turned.csv \
    >out 2>err || { cat err >&2; fail "names of a new model"; }
"$uwasa" train $pump --weights new.safetensors --steps 1 <pump.csv >out 2>err || { cat err >&2; fail "and again"; }
grep -q 'a label in "state", taken by their names' err || { cat err >&2; fail "names are not saved"; }
# ... unless it is cut, or no sample
# shellcheck disable=SC2086
{ echo '{"temp": 61.5, "load": 850, "sta'; echo '{"state": "boot", "volt": 3, "amp": 2}'; cat pump.jsonl; } |
    "$uwasa" train $pump,label=state,classes=ok+worn+hot --steps 20 --save new2.safetensors >out 2>err ||
    { cat err >&2; fail "names of a line that is none"; }
grep -q 'a label in "state", taken by their names' err || { cat err >&2; fail "names of a line that is none"; }
# an autoencoder has no label: none is guessed, and a column that is dropped is none
sed 's/}$/, "loss": {"type": "mse", "target": "input"}}/; s/"out": 3/"out": 2/' pump.json >auto.json
awk -F, 'NR == 1 { print "time,temp,load" } NR > 1 { print "12:00," $1 "," $2 }' pump.csv >time.csv
"$uwasa" train --model auto.json --data stream:-,drop=time,scale=255 --steps 20 <time.csv >out 2>err ||
    { cat err >&2; fail "a dropped column of an autoencoder"; }
grep -q 'lines of 2 numbers, taken by their names' err || { cat err >&2; fail "a dropped column is a label"; }
grep -q skipped err && { cat err >&2; fail "lines of an autoencoder are refused"; }
cut -d , -f 1,3 pump.csv >narrow.csv
# shellcheck disable=SC2086
"$uwasa" train $pump --weights new.safetensors --steps 1 <narrow.csv >out 2>err && fail "a column less"
grep -q 'line 1: header: no column "load", which the model was trained on' err ||
    { cat err >&2; fail "a column less is not told"; }
# without the weights words are told at once, with the reason, and once; a cut line is skipped
mkfifo slow
# shellcheck disable=SC2086
"$uwasa" train $pump --loss cross_entropy --steps 1 <slow >out 2>err &
pid=$!
exec 3>slow
{ echo temp,load,state; sed -n 2,9p pump.csv; } >&3
for _ in $(seq 100); do
    grep -q 'waiting for lines' err && break
    sleep 0.1
done
[ "$(cat err)" = 'stream:-: line 2: label "'"$(sed -n '2s/.*,//p' pump.csv)"'" is a word; classes=A+B+... names the classes; waiting for lines that fit' ] ||
    { cat err >&2; fail "refused lines are not told while it waits"; }
exec 3>&-
wait $pid && fail "it ends well without a sample"
grep -q 'ended without a sample; line 2: label' err || { cat err >&2; fail "not at the end"; }
# shellcheck disable=SC2086
{ echo 0.5; cat words.csv; } | "$uwasa" train $pump,classes=hot+ok+worn,scale=255 --loss cross_entropy \
    --steps 200 --save classes.safetensors >out 2>err || { cat err >&2; fail "classes=hot+ok+worn"; }
grep -q 'line 1: has 1 number ("0.5"): the model takes 2 features' err ||
    { cat err >&2; fail "a first line that is cut"; }
grep -q WARNING err && { cat err >&2; fail "a scale was said"; }
cut -d , -f 1,2 words.csv >features.csv
expect 0 "$uwasa" predict --model pump.json --weights classes.safetensors features.csv
grep -qE '^(hot|ok|worn)' out || fail "classes of a stream are not kept"
# other classes than those of the weights are doubted, more of them are not
for classes in hot+ok+worn+new ok+hot+worn; do
    # shellcheck disable=SC2086
    "$uwasa" train --model pump.json --weights hist.safetensors --data stream:-,classes=$classes --steps 1 \
        <words.csv >out 2>err.$classes
done
grep -q 'trained on other classes, "hot" to "worn", which classes= replaces' err.ok+hot+worn ||
    { cat err.ok+hot+worn >&2; fail "other classes are not doubted"; }
grep -q 'trained on other classes' err.hot+ok+worn+new && fail "one class more is doubted"
# numbers far from 1 are told once
# shellcheck disable=SC2086
"$uwasa" train $pump,classes=hot+ok+worn --loss cross_entropy --steps 200 <words.csv >out 2>err ||
    { cat err >&2; fail "without a scale"; }
[ "$(grep -c 'WARNING: stream:-: features go from 6[0-9.]* to [0-9.]* and are not scaled' err)" = 1 ] ||
    { cat err >&2; fail "the scale is not doubted"; }
# values
awk -F, 'NR > 1 { printf "%s,%s,%.2f\n", $1, $2, 200000 + 100 * $1 - 10 * $2 }' pump.csv >values.csv
sed 's/"out": 3/"out": 1/' pump.json >value.json
expect 0 "$uwasa" train --model value.json --data csv:values.csv,label=none,target=3,scale=standard \
    --epochs 30 --save value.safetensors
"$uwasa" train --model value.json --data stream:- --weights value.safetensors --steps 300 \
    --save value2.safetensors <values.csv >out 2>err || { cat err >&2; fail "values"; }
grep -q '^stream:-: values are scaled as in training' err &&
    grep -q 'lines of 2 numbers and a value' err || { cat err >&2; fail "values are not told"; }
expect 0 "$uwasa" predict --model value.json --weights value2.safetensors values.csv
paste -d, out values.csv | awk -F, '{ d = $1 - $4; s += d < 0 ? -d : d } END { exit !(s / NR < 300) }' ||
    { paste -d, out values.csv | head -3 >&2; fail "values are not learned in their units"; }

# several, in any order and form
awk -F, '{ printf "%s,%s,%s\n", $1, $2, NR == 1 ? "heat,cool" : 3000 * $1 "," 2 - $2 / 500 }' pump.csv >two.csv
awk -F, '{ print $4 "," $2 "," $3 "," $1 }' two.csv >two_turned.csv
awk -F, 'NR > 1 { printf "{\"x\": [%s, %s], \"label\": [%s, %s]}\n", $1, $2, $3, $4 }' two.csv >two.jsonl
sed 's/"out": 3/"out": 2/' pump.json >two.json
expect 0 "$uwasa" train --model two.json --data csv:two.csv,target=heat+cool,scale=standard --lr 0.05 \
    --epochs 60 --save two.safetensors
for file in two.csv two_turned.csv two.jsonl; do
    "$uwasa" train --model two.json --data stream:- --weights two.safetensors --steps 300 \
        --save two2.safetensors <$file >out 2>err || { cat err >&2; fail "two values: $file"; }
    grep -q 'lines of 2 numbers and 2 values' err || { cat err >&2; fail "two values are not told: $file"; }
    expect 0 "$uwasa" eval --model two.json --weights two2.safetensors --data csv:two.csv,target=heat+cool
    awk '/^R2/ { good = $2 > 0.9 } END { exit !good }' out || { cat out >&2; fail "two values are not learned"; }
done
"$uwasa" train --model two.json --data stream:-,target=heat+cool,target-scale=1e5 --steps 1 <two_turned.csv \
    >out 2>err || { cat err >&2; fail "target= of a new model"; }
"$uwasa" train --model two.json --data stream:- --steps 1 <two.csv >out 2>err && fail "values for labels"
grep -q 'has 4 numbers .*; --loss mse learns values' err || { cat err >&2; fail "values for labels are not told"; }

# a node that is asked scales, also after it was started again without the weights
for weights in "--weights hist.safetensors" ""; do
    rm -f asked.jsonl
    mkfifo samples
    # shellcheck disable=SC2086
    "$uwasa" node --name a --run r --key run.key $pump --lr 0.01 --listen 127.0.0.1:0 \
        --seconds 60 --set checkpoint=node.safetensors $weights --json asked.jsonl <samples >out 2>node.err &
    pid=$!
    cat words.csv >samples
    rm samples
    address=
    for _ in $(seq 100); do
        address=$(sed -n 's/.*"event":"listening".*"address":"\([^"]*\)".*/\1/p' asked.jsonl 2>/dev/null)
        [ -n "$address" ] && break
        sleep 0.1
    done
    expect 0 "$uwasa" predict --node "$address" --key run.key --run r pump.csv
    cut -f 1 out | paste -d, - words.csv | awk -F, '$1 == $4 { n++ } END { exit !(n > 1350) }' ||
        { head -n 3 out >&2; cat node.err >&2; fail "the node that is asked does not scale"; }
    kill -INT $pid
    wait $pid || { cat node.err >&2; fail "the node that was asked"; }
    grep -q '^stream:-: features are scaled as in training$' node.err || fail "the node does not tell it"
done

# where it does not fit
while IFS='|' read -r status arguments sentence; do
    # shellcheck disable=SC2086
    expect "$status" "$uwasa" $arguments
    grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
done <<END
1|train $live --steps 1|stream:-: ended without a sample
2|train $live,scale=standard|scale=standard needs all samples beforehand: train on a table
2|train $live,scale=7|scale=7: needs none, 255 or standard
2|train $live,classes=a+a|names "a" twice
2|train $live,target-scale=5|target-scale= is for values
2|train $live --validation 0.1|a stream tests with every sixth sample
2|train --model disc.json --data stream:file|allowed are stream:-
2|eval --model disc.json --weights live.safetensors --data stream:-|needs data that is there
2|predict --model disc.json --weights live.safetensors --data stream:-|needs data that is there
END
# shellcheck disable=SC2086
sed 's/^/1,/' disc.csv | "$uwasa" train $live >out 2>err && fail "three features"
grep -q '^uwasa train: stream:-: line 2: has 4 numbers ("1,.*the model takes 2 features, or 2 features and a label, 3 in all; --loss mse learns values$' err ||
    { cat err >&2; fail "another number of features"; }
echo passed
