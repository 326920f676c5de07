#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a trained model says about samples. test_cli_predict.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

# points of a square: are they in the disc? The third class never is.
awk 'BEGIN { srand(5); for (; n < 1200; n++) { x = 2 * rand() - 1; y = 2 * rand() - 1
    print x "," y "," (x * x + y * y < 0.6) } }' >disc.csv
cat >disc.json <<'END'
{"name": "disc", "input": [2], "layers": [{"name": "fc1", "type": "dense", "out": 16},
 {"name": "relu1", "type": "relu"}, {"name": "fc2", "type": "dense", "out": 3}]}
END
expect 0 "$uwasa" train --model disc.json --data csv:disc.csv --epochs 15 --lr 0.1 \
    --save disc.safetensors
model="--model disc.json --weights disc.safetensors"

# from a file: header, separator and answers; standard input says the same
printf 'x;y\n0.1;0.2\n\n0.95;0.95\n' >rows.csv
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model rows.csv
grep -q 'first line is a header, skipped: columns are taken by their places' err ||
    fail "the header is not told"
grep -q 'cells are between semicolons' err || fail "the separator is not told"
awk -F '\t' '{ print NF, $1 } $2 < 0.5 || $2 > 1 { exit 1 }' out >classes ||
    fail "that is no probability of the most probable class"
printf '2 1\n2 0\n' | cmp -s - classes || { cat out >&2; fail "classes of the rows"; }
cp out rows.out
# shellcheck disable=SC2086
"$uwasa" predict $model - <rows.csv 2>err | cmp -s - rows.out || fail "standard input says otherwise"

# lines as of a stream, among others
printf '{"x": [0.1, 0.2]}\n{"x": [0.95, 0.95], "label": 1}\n' >rows.jsonl
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model rows.jsonl
cmp -s out rows.out || { cat out err >&2; fail "JSON lines are answered otherwise"; }
printf '{"x": [0.1, 0.2]}\n{"x": [0.95]}\n{"x": [0.95, 0.95]}\n' >rows.jsonl
# shellcheck disable=SC2086
cat rows.jsonl | "$uwasa" predict $model >out 2>err && fail "a line without an answer is not told"
cmp -s out rows.out || { cat out err >&2; fail "JSON lines around a mistake"; }
grep -q 'standard input:2: .*too few numbers; a line has {"x": \[2 numbers\]}' err ||
    { cat err >&2; fail "the place of a mistake in JSON"; }

# samples of a dataset: what eval counts
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model --data csv:disc.csv --json -
sed -n 's/.*"label":\([0-9]*\),"class":\([0-9]*\).*/\1 \2/p' out >beside
awk '{ n[$1, $2]++; right += $1 == $2 } END { printf "{\"test_accuracy\":%.9g,", right / NR
    for (l = 0; l < 3; l++) for (c = 0; c < 3; c++)
        printf "%s%d", c + l == 0 ? "\"confusion\":[[" : c == 0 ? "],[" : ",", n[l, c]
    print "]]" }' beside >counted
# shellcheck disable=SC2086
expect 0 "$uwasa" eval $model --data csv:disc.csv --json -
[ "$(number counted test_accuracy)" = "$(number out test_accuracy)" ] ||
    { cat counted out >&2; fail "eval has another accuracy than the answers"; }
grep -qF "$(sed 's/.*"confusion"/"confusion"/' counted)" out ||
    { cat counted out >&2; fail "eval has another confusion than the answers"; }
# shellcheck disable=SC2086
expect 0 "$uwasa" eval $model --data csv:disc.csv
for line in 'class           samples  precision' '^mean                200 ' '^confusion ' \
    '^2                     0          -          -          -$'; do
    grep -q "$line" out || { cat out >&2; fail "eval does not print $line"; }
done

# events
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model --data csv:disc.csv --json - --top 2 --probabilities
[ "$(grep -c '^{"event":"answer","sample":[0-9]*,"label":[01],"class":[01],"probability":.*"top":\[{"class":.*},{"class":.*}\],"probabilities":\[[^,]*,[^,]*,[^,]*\]}$' out)" = 200 ] ||
    { head -n 3 out >&2; fail "events of answers"; }
tail -n 1 out | grep -q '^{"event":"done","samples":200,' || fail "the last event"
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model --data csv:disc.csv --samples 3 --probabilities
awk -F '\t' 'NF != 5 { exit 1 } END { exit NR != 3 }' out || fail "--samples 3 --probabilities"

# each line of a pipe is answered at once
mkfifo asked answered
# shellcheck disable=SC2086
"$uwasa" predict $model <asked >answered 2>err &
exec 3>asked 4<answered
for row in "0.1 0.2" "0.9 -0.9" "0 0"; do
    echo "$row" >&3
    timeout 20 head -n 1 <&4 >line || fail "$row is not answered while the pipe is open"
    [ -s line ] || fail "$row has no answer"
done
exec 3>&- 4<&-
wait $! || fail "the end of a pipe is no failure"

# values, and the error of an autoencoder
cat >auto.json <<'END'
{"name": "auto", "input": [2], "layers": [{"name": "a", "type": "dense", "out": 2}],
 "loss": {"type": "mse", "target": "input"}}
END
expect 0 "$uwasa" train --model auto.json --data csv:disc.csv --steps 5 --save auto.safetensors
expect 0 "$uwasa" predict --model auto.json --weights auto.safetensors rows.csv --json -
grep -q '"error":[0-9]' out || fail "an autoencoder has no error"
expect 2 "$uwasa" predict --model auto.json --weights auto.safetensors --top 2 rows.csv
sed 's/"input"}/"values"}/' auto.json >values.json
expect 0 "$uwasa" predict --model values.json --weights auto.safetensors rows.csv
awk -F '\t' 'NF != 2 { exit 1 } END { exit NR != 2 }' out || fail "two values a row"

# a table's scale, names of classes and loss come with the weights
awk 'BEGIN { srand(4); print "length,width,kind"; for (; n < 600; n++) { x = rand(); y = rand()
    print 1000 * x "," y / 1000 "," (x > y ? "long" : "wide") } }' >shapes.csv
echo '{"name": "s", "input": [2], "layers": [{"name": "d", "type": "dense", "out": 1}]}' >shapes.json
expect 0 "$uwasa" train --model shapes.json --data csv:shapes.csv,scale=standard --epochs 30 \
    --lr 0.3 --save shapes.st
printf 'length,width\n900,0.0001\n100,0.0009\n' >ask.csv
expect 0 "$uwasa" predict --model shapes.json --weights shapes.st ask.csv --json answers
cp out asked.out
printf '{"x": [900, 0.0001]}\n{"x": [100, 0.0009]}\n' >ask.jsonl
expect 0 "$uwasa" predict --model shapes.json --weights shapes.st ask.jsonl
cmp -s out asked.out || { cat out err >&2; fail "JSON lines are not scaled"; }
printf 'long\nwide\n' >wants
cut -f 1 asked.out | cmp -s - wants || { cat out err >&2; fail "names and scale of a table"; }
grep -q '"class":0,"name":"long","probability":0.9' answers || fail "the name is not in the event"
printf 'kind;width;length\n?;0,0001;900\n?;0,0009;100\n' >ask.csv     # by name
expect 0 "$uwasa" predict --model shapes.json --weights shapes.st ask.csv
cut -f 1 out | cmp -s - wants || { cat out err >&2; fail "columns in another order"; }
printf '900,0.0001,?\n100,0.0009,?\n' >ask.csv      # as in training, with the label's column
expect 0 "$uwasa" predict --model shapes.json --weights shapes.st,loose ask.csv
cut -f 1 out | cmp -s - wants || { cat out err >&2; fail "the columns of training"; }
expect 0 "$uwasa" eval --model shapes.json --weights shapes.st --data csv:shapes.csv
grep -q '^wide   ' out || { cat out >&2; fail "eval has no names of classes"; }
grep -q '^ROC area *0.9\|^ROC area *1' out || { cat out >&2; fail "eval has no ROC area"; }
awk 'BEGIN { srand(4); print "x,y"; for (; n < 300; n++) { x = rand(); print x "," 3 * x } }' >line.csv
echo '{"name": "l", "input": [1], "layers": [{"name": "d", "type": "dense", "out": 1}]}' >line.json
expect 0 "$uwasa" train --model line.json --data csv:line.csv,target=y --epochs 60 --lr 0.3 \
    --save line.st
echo 0.5 | "$uwasa" predict --model line.json --weights line.st >out 2>err || fail "a value"
awk '{ exit !(NF == 1 && $1 > 1.45 && $1 < 1.55) }' out || { cat out err >&2; fail "a value"; }
expect 0 "$uwasa" eval --model line.json --weights line.st --data csv:line.csv,target=y
grep -q '^R2 *1.0000$' out || { cat out >&2; fail "eval has no R2"; }

# an ONNX model has its own weights
expect 0 "$uwasa" convert disc.json disc.onnx --weights disc.safetensors
expect 0 "$uwasa" predict --model disc.onnx rows.csv
cmp -s out rows.out || fail "the ONNX model answers otherwise"

expect 0 "$uwasa" convert auto.json auto.onnx --weights auto.safetensors
expect 0 "$uwasa" predict --model auto.onnx rows.csv
grep -q 'the loss is taken' err && fail "the loss of the training is guessed"
sed 's/uwasa\.data/other.data/' auto.onnx >foreign.onnx     # as another program writes it
expect 0 "$uwasa" predict --model foreign.onnx rows.csv
grep -q 'the loss is taken to be mse against the sample itself' err ||
    { cat err >&2; fail "the loss that was taken is not told"; }

# a softmax at the end makes a classifier of as many outputs as inputs
echo '{"name": "s", "input": [2], "layers": [{"name": "d", "type": "dense", "out": 2},
    {"name": "p", "type": "softmax"}]}' >soft.json
expect 0 "$uwasa" train --model soft.json --data csv:shapes.csv --loss mse --steps 1 --save soft.st
expect 0 "$uwasa" convert soft.json soft.onnx --weights soft.st
echo '0.1,0.2' | "$uwasa" predict --model soft.onnx >out 2>err || { cat err >&2; fail "a softmax"; }
grep -q 'autoencoder' err && { cat err >&2; fail "a classifier is taken for an autoencoder"; }
awk '{ exit !(NF == 2 && $1 ~ /^[a-z]+$/ && $2 >= 0.5) }' out ||
    { cat out >&2; fail "no class and probability"; }
sed 's/uwasa\.data/other.data/' soft.onnx >foreign.onnx
echo '0.1,0.2' | "$uwasa" predict --model foreign.onnx >out 2>err || { cat err >&2; fail "a softmax"; }
grep -q 'autoencoder' err && { cat err >&2; fail "a classifier is taken for an autoencoder"; }
awk '{ exit !(NF == 2 && $1 ~ /^[01]$/) }' out || { cat out >&2; fail "no class and probability"; }

# samples without labels are answered, all of them: tables, folders of images, a single image
cut -d , -f 1,2 disc.csv >plain.csv
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model plain.csv
cp out plain.out
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $model --data csv:plain.csv --json events
cmp -s out plain.out || { cat err >&2; fail "a dataset without labels"; }
grep -q '"label"' events && fail "a label of a sample that has none"
mkdir -p pictures/dark pictures/light new
for i in $(seq 20); do
    printf 'P5 2 2 255\n\001\002\0%o\004' "$i" >pictures/dark/$i.pgm
    printf 'P5 2 2 255\n\371\372\3%02o\374' "$i" >pictures/light/$i.pgm
done
cp pictures/light/3.pgm new/a.pgm
cp pictures/dark/4.pgm new/b.pgm
echo '{"name": "pictures", "input": [1, 2, 2], "layers": [{"name": "f", "type": "flatten"},
    {"name": "d", "type": "dense", "out": 2}]}' >pictures.json
expect 0 "$uwasa" train --model pictures.json --data images:pictures --epochs 40 --lr 0.3 --save p.st
for data in "--data images:new" "--data images:new,label=none"; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" predict --model pictures.json --weights p.st $data
    [ "$(cut -f 1 out | xargs)" = "light dark" ] || { cat out err >&2; fail "images without labels"; }
done
expect 0 "$uwasa" predict --model pictures.json --weights p.st new/b.pgm
[ "$(cut -f 1 out)" = dark ] || { cat out err >&2; fail "a single image"; }
expect 1 "$uwasa" predict --model pictures.json --weights p.st new/c.pgm
grep -q 'new/c.pgm: ' err || fail "an image that is not there is not told"

# a node that trains answers as its weights do; a rate of 1e-30 leaves them as they are
expect 0 "$uwasa" keygen run.key
pid=
trap 'kill $pid 2>/dev/null; rm -rf "$work"' EXIT
start_node()      # with these options; sets pid, address
{
    rm -f node.jsonl
    "$uwasa" node --name a --run r --key run.key "$@" --lr 1e-30 --listen 127.0.0.1:0 \
        --seconds 60 --json node.jsonl >node.out 2>node.err &
    pid=$!
    address=
    for _ in $(seq 100); do
        address=$(sed -n 's/.*"event":"listening".*"address":"\([^"]*\)".*/\1/p' node.jsonl 2>/dev/null)
        [ -n "$address" ] && return
        sleep 0.1
    done
    cat node.jsonl node.err >&2
    fail "the node does not listen"
}
# shellcheck disable=SC2086
start_node $model --data csv:disc.csv
ask="predict --node $address --key run.key --run r"
# shellcheck disable=SC2086
expect 0 "$uwasa" $ask rows.csv
cmp -s out rows.out || { cat out err >&2; fail "the node answers otherwise"; }
# a weights file beside it has the names of the classes
sed 's/,0$/,outside/; s/,1$/,inside/' disc.csv >named.csv
expect 0 "$uwasa" train --model disc.json --data csv:named.csv,classes=outside+inside+never \
    --epochs 1 --save named.safetensors
# shellcheck disable=SC2086
expect 0 "$uwasa" $ask rows.csv --weights named.safetensors
sed 's/^1/inside/; s/^0/outside/' rows.out | cmp -s - out ||
    { cat out err >&2; fail "names of classes beside a node"; }
# shellcheck disable=SC2086
"$uwasa" predict $model --data csv:disc.csv --probabilities >here 2>err
for i in 1 2 3; do      # at the same time
    # shellcheck disable=SC2086
    "$uwasa" $ask --data csv:disc.csv --samples 40 --probabilities >there.$i 2>err.$i &
    eval "asker$i=\$!"
done
# shellcheck disable=SC2154
for one in $asker1 $asker2 $asker3; do
    wait "$one" || { cat err.* >&2; fail "one of three askers"; }
done
for i in 1 2 3; do
    head -n 40 here | cmp -s - there.$i || fail "asker $i has other answers"
done
expect 1 "$uwasa" predict --node "$address" --key run.key --run other --timeout 0.5 rows.csv
grep -q 'no answer for 0.5 s' err || fail "another run is not told"
echo 1,2,3,4 >four.csv
# shellcheck disable=SC2086
expect 1 "$uwasa" $ask four.csv
grep -q 'the model takes 2 numbers, or all 3 columns' err || fail "the node's columns are not told"
# shellcheck disable=SC2086
expect 1 "$uwasa" $ask --data digits
grep -q 'takes samples of 2 numbers, data digits has 1x28x28' err || fail "other data is not told"
kill -INT $pid
wait $pid || { cat node.err >&2; fail "the node that answered ends with an error"; }

# a node scales samples itself, and tells the names of columns and classes: a file of weights, a
# dataset and a table in another order are answered as by the weights here
shapes="--model shapes.json --weights shapes.st"
# shellcheck disable=SC2086
start_node $shapes --data csv:shapes.csv,scale=standard
ask="predict --node $address --key run.key --run r"
printf 'length,width\n900,0.0001\n100,0.0009\n' >right.csv
printf 'width,kind,length\n0.0001,?,900\n0.0009,?,100\n' >turned.csv
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $shapes right.csv
cp out rows.out
for rows in right.csv turned.csv "right.csv --weights shapes.st" "turned.csv --weights shapes.st"; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" $ask $rows
    cmp -s out rows.out || { cat out err >&2; fail "the node answers otherwise: $rows"; }
done
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $shapes --data csv:shapes.csv --samples 20
cp out rows.out
for data in csv:shapes.csv csv:shapes.csv,scale=standard; do    # with labels
    # shellcheck disable=SC2086
    expect 0 "$uwasa" $ask --data $data --samples 20
    cmp -s out rows.out || { cat out err >&2; fail "the node answers otherwise: $data"; }
done
# gaps get the means of the training data, as here; null is one
printf 'width,length\n0.0001,\n,900\n' >gaps.csv
printf '{"x": [null, 0.0001]}\n{"x": [900, null]}\n' >gaps.jsonl
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $shapes gaps.csv
cp out rows.out
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $shapes gaps.jsonl
cmp -s out rows.out || { cat out err >&2; fail "null is another gap than an empty cell"; }
for rows in gaps.csv gaps.jsonl "--data csv:gaps.csv,label=none" "gaps.csv --weights shapes.st"; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" $ask $rows
    cmp -s out rows.out || { cat out err >&2; fail "the node answers gaps otherwise: $rows"; }
done
cut -d , -f 1,2 shapes.csv | head -n 9 >plain.csv
# shellcheck disable=SC2086
expect 0 "$uwasa" predict $shapes plain.csv
cp out rows.out
# shellcheck disable=SC2086
expect 0 "$uwasa" $ask --data csv:plain.csv
cmp -s out rows.out || { cat out err >&2; fail "the node answers otherwise without labels"; }
kill -INT $pid
wait $pid || { cat node.err >&2; fail "the node that scales ends with an error"; }

# two usages, a line each; whoever has read enough hears no complaint
expect 0 "$uwasa" predict --help
grep -q '^Usage: uwasa predict --model' out && grep -q '^       uwasa predict --node' out ||
    { head -n 5 out >&2; fail "two usages"; }
{ sleep 0.3; "$uwasa" models --help 2>err; } | true
[ ! -s err ] || { cat err >&2; fail "a closed pipe is told"; }

# mistakes
while IFS='|' read -r status arguments sentence; do
    # shellcheck disable=SC2086
    expect "$status" "$uwasa" predict $arguments
    grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
done <<'END'
2|--weights disc.safetensors|--model: is needed
2|--model disc.json|--weights: is needed
1|--model disc.json --weights disc.safetensors nothing.csv|nothing.csv: No such file
1|--model disc.json --weights disc.safetensors .|is a folder, needs a file of rows; --data images:DIR
2|--model disc.json --weights disc.safetensors a.png b.png|b.png: is one too many, see uwasa predict --help
1|--model disc.json --weights disc.safetensors four.csv|four.csv:1: 4 cells, the model takes 2 numbers, or all 3 columns
1|--model disc.json --weights disc.safetensors|no row of numbers
2|--model disc.json --weights disc.safetensors --data csv:disc.csv rows.csv|leave FILE out
2|--node 127.0.0.1:1 rows.csv|--key: is needed with --node
2|--node 127.0.0.1:1 --key run.key rows.csv|--run: is needed with --node
2|--node nowhere --key run.key --run r rows.csv|--node nowhere: needs HOST:PORT
2|--node 127.0.0.1:1 --model disc.json rows.csv|leave --model out
2|--model disc.json --weights disc.safetensors --run r rows.csv|--node: is needed with --key
2|--model disc.json --weights disc.safetensors --samples 3 rows.csv|--samples: needs --data
2|--model disc.json --weights disc.safetensors --json rows.csv rows.csv|FILE reads it
END
printf '0.1,0.2\n0.3,x\n' >wrong.csv
# shellcheck disable=SC2086
expect 1 "$uwasa" predict $model wrong.csv
grep -q 'wrong.csv:2:5: "x": not a number' err || fail "the place of a mistake"
[ "$(wc -l <out)" = 1 ] || fail "the row before a mistake has no answer"
echo passed
