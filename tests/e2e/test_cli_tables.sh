#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tables, values and losses of the program: what it finds, tells, saves and refuses.
. "$(dirname "$(realpath "$0")")/cli.sh"

# onnx NAME: the same network as ONNX, with weights of its own
onnx() {
    "$uwasa" train --model "$1.json" $2 --steps 1 --lr 0 --save "$1.safetensors" >/dev/null 2>err ||
        { cat err >&2; fail "weights of $1"; }
    "$uwasa" convert "$1.json" "$1.onnx" --weights "$1.safetensors" >/dev/null 2>err ||
        { cat err >&2; fail "$1 as ONNX"; }
}
model() { # model NAME IN OUT [LAYER]
    echo "{\"name\": \"$1\", \"input\": [$2], \"layers\": [
     {\"name\": \"a\", \"type\": \"dense\", \"out\": 8}, {\"name\": \"r\", \"type\": \"tanh\"},
     {\"name\": \"b\", \"type\": \"dense\", \"out\": $3}$4]}" >"$1.json"
}

# two features, and: whether they are in the disc, words for it, a value, as many classes as features
awk 'BEGIN { srand(2); print "x;y;inside;sum" >"both.csv"; print "x,y,sum" >"sum.csv"
    print "x,y" >"plain.csv"
    for (i = 0; i < 600; i++) { x = 2 * rand() - 1; y = 2 * rand() - 1; d = x * x + y * y < 0.6
        printf "%.4f,%.4f,%d\n", x, y, d >"disc.csv"
        printf "%.4f,%.4f,%s\n", x, y, d ? "in" : "out" >"words.csv"
        printf "%.4f,%.4f,%.4f\n", x, y, x + y / 2 >"sum.csv"
        printf "%.4f,%.4f\n", x, y >"plain.csv"
        printf "%.4f;%.4f;%d;%.4f\n", x, y, d, x + y / 2 >"both.csv" } }'
told() { grep -q -e "$1" err || { cat err >&2; fail "not told: $1"; }; }
better() { # better KEY LOW HIGH: the last line of ./out has it between
    number out "$1" | awk -v low="$2" -v high="$3" '{ exit !($1 >= low && $1 <= high) }' ||
        { tail -n 1 out >&2; fail "$1 is not in $2 .. $3"; }
}

# ---- images that are moved, and some to validate with: the table is read and told once ----
awk 'BEGIN { for (i = 0; i < 60; i++) { for (k = 0; k < 16; k++) printf "%d,", (i * 7 + k) % 5
    print i % 2 } }' >moved.csv
model moved "1, 4, 4" 2
sed -i 's/"layers": \[/&{"name": "f", "type": "flatten"},/' moved.json
expect 0 "$uwasa" train --model moved.json --data csv:moved.csv --augment crop:1 --validation 0.3
[ "$(grep -c 'lines of 17 columns' err)" = 1 ] || { cat err >&2; fail "not told once"; }

# ---- one output ----
model one 2 1
onnx one "--data csv:disc.csv"
expect 0 "$uwasa" train --model one.onnx --data csv:disc.csv --epochs 40 --lr 0.5 --json - --save one.st
told 'the loss is taken to be binary cross-entropy of two classes; --loss decides'
told 'disc.csv: 600 lines of 3 columns between commas, no header; 2 features; label in column 3'
told 'disc.csv: 2 classes: 0 (.*), 1 (.*); features as they are; 500 samples for training, 100 for'
better test_accuracy 0.9 1
expect 0 "$uwasa" eval --model one.onnx --data csv:disc.csv --weights one.st --json -
better test_accuracy 0.9 1
expect 0 "$uwasa" train --model one.json --data csv:words.csv --steps 3
told 'numbered in alphabetical order: 0 is in, 1 is out'
expect 0 "$uwasa" train --model one.onnx --data csv:sum.csv --epochs 20 --json -
told 'the loss is taken to be mse against the values'
better test_loss 0 0.01
expect 0 "$uwasa" train --model one.onnx --data csv:both.csv,target=sum,drop=inside --steps 5
told 'value in column 4 "sum"'
expect 0 "$uwasa" train --model one.json --data csv:disc.csv --loss l1 --steps 5
grep -q 'accuracy' out && fail "l1 has an accuracy"
expect 1 "$uwasa" train --model one.json --data csv:sum.csv --loss cross_entropy --steps 5
expect 1 "$uwasa" train --model one.json --data digits --steps 5
expect 2 "$uwasa" train --model one.json --data csv:sum.csv --loss mes
told 'needs one of auto cross_entropy binary mse l1 huber autoencoder'

# a sigmoid at the end is part of the loss
model ends 2 1 ', {"name": "s", "type": "sigmoid"}'
expect 0 "$uwasa" train --model ends.json --data csv:disc.csv --epochs 40 --lr 0.5 --json -
told 'the sigmoid at the end is left out'
better test_accuracy 0.9 1

# ---- as many outputs as inputs ----
model twin 2 2
onnx twin "--data csv:disc.csv"
expect 0 "$uwasa" train --model twin.onnx --data csv:disc.csv --epochs 20 --lr 0.3 --json -
told 'taken to be cross_entropy against the label'
better test_accuracy 0.85 1
expect 0 "$uwasa" train --model twin.onnx --data csv:plain.csv --epochs 20 --json -
told 'the sample itself (autoencoder)'
told 'no label'
better test_loss 0 0.05
expect 0 "$uwasa" train --model twin.onnx --data csv:disc.csv --loss autoencoder --steps 5
told 'labels are for tests only'

expect 0 "$uwasa" train --model twin.json --data csv:words.csv --loss mse --epochs 20 --lr 0.3 --json -
better test_accuracy 0.85 1

# ---- an output that is no row of logits ----
echo '{"name": "mask", "input": [1, 2, 2], "layers": [
 {"name": "c", "type": "conv2d", "out_channels": 1, "kernel": 1}]}' >mask.json
awk 'BEGIN { srand(4); for (i = 0; i < 60; i++) { line = ""; mask = ""
    for (k = 0; k < 4; k++) { x = rand(); line = line x ","; mask = mask "," (x > 0.5) }
    print line "1" >"labelled.csv"; sub(/,$/, "", line); print line mask >"mask.csv"
    print line >"grey.csv" } }'
expect 1 "$uwasa" train --model mask.json --data csv:labelled.csv --steps 3
told 'mse or binary with as many columns more, as a mask'
expect 0 "$uwasa" train --model mask.json --data csv:mask.csv --steps 3
told 'columns 5 to 8 are taken for the values'
told 'binary cross-entropy against the values'
expect 0 "$uwasa" train --model mask.json --data csv:mask.csv --loss binary --steps 3
expect 0 "$uwasa" train --model mask.json --data csv:grey.csv --steps 3
told 'the sample itself (autoencoder)'

# ---- what the JSON file says stays ----
sed 's/]}$/], "loss": {"type": "mse", "target": "values"}}/' one.json >own.json
expect 0 "$uwasa" train --model own.json --data csv:sum.csv --epochs 20 --json -
grep -q 'taken to be' err && fail "the file's own loss is guessed"
better test_loss 0 0.01
expect 0 "$uwasa" train --model own.json --data csv:disc.csv --loss binary --epochs 40 --lr 0.5 --json -
better test_accuracy 0.9 1

# ---- the loss that weights were trained with: told, behind --loss and the model, not of other models ----
expect 0 "$uwasa" train --model one.json --data csv:sum.csv --loss l1 --steps 5 --save l1.st
expect 0 "$uwasa" train --model one.json --data csv:sum.csv --weights l1.st --steps 5
told 'one: the loss is l1 against the values, as l1.st was trained; --loss decides otherwise'
expect 0 "$uwasa" train --model one.json --data csv:sum.csv --weights l1.st --loss mse --steps 5
grep -q 'the loss is' err && fail "--loss is told"
expect 0 "$uwasa" train --model own.json --data csv:sum.csv --weights l1.st --steps 5
grep -q 'the loss is' err && fail "the model's own loss is told"
expect 0 "$uwasa" train --model one.json --data csv:disc.csv --weights l1.st,loose --steps 5
told 'the loss is taken to be binary cross-entropy of two classes; --loss decides'

# ---- scale and classes are saved, and used again ----
awk -F, '{ print $1 * 100 "," $2 * 3 "," $3 }' words.csv >wide.csv
expect 0 "$uwasa" train --model twin.json --data csv:wide.csv,scale=standard --epochs 20 --lr 0.3 --save wide.st
head -c 1000 wide.st | grep -q 'uwasa.data.*classes.*in.*out.*mean.*inverse.*cross_entropy' ||
    fail "scale and classes are not saved"
expect 0 "$uwasa" eval --model twin.json --data csv:wide.csv --weights wide.st --json -
told 'features are scaled as in training'
better test_accuracy 0.85 1
# names that are no UTF-8 are kept as such: a byte of Latin-1, a surrogate
awk -F, '{ printf "%s,%s,%s\n", $1, $2, $3 == "in" ? "gr\374n" : "\355\240\200\303\244" }' words.csv >odd.csv
expect 0 "$uwasa" train --model twin.json --data csv:odd.csv --steps 3 --save odd.st
head -c 1000 odd.st | grep -qF 'gr?n\",\"???ä\"' || { head -c 600 odd.st >&2; fail "names that are no UTF-8"; }
grep ',out$' wide.csv >away.csv
expect 0 "$uwasa" eval --model twin.json --data csv:away.csv,test=0 --weights wide.st --json -
told '2 classes: in (0), out'
better test_accuracy 0.7 1
expect 0 "$uwasa" train --model twin.json --data csv:wide.csv,scale=standard --epochs 21 --lr 0.3 \
    --save wide.st --resume
sed 's/,out$/,away/' wide.csv >other.csv
expect 1 "$uwasa" eval --model twin.json --data csv:other.csv --weights wide.st
told '"away" is none of the 2 classes, in to out; classes=A+B+C names others'

expect 0 "$uwasa" eval --model twin.json --data csv:plain.csv,test=0 --loss none --weights twin.safetensors
grep -q '^samples        600' out || fail "outputs without labels are not computed"
grep -q 'loss\|accuracy' out && fail "a loss without labels"
sed 's/features_n/featuresXn/' wide.st >bent.st
expect 1 "$uwasa" eval --model twin.json --data csv:wide.csv --weights bent.st
told 'bent.st: uwasa.data, what it says of the columns of its data, is malformed'

# ---- where indices count from is saved, too ----
awk -F, '{ print $3 " 0:" $1 " 1:" $2 }' disc.csv >zero.svm
sed 's/ 0:[^ ]*//' zero.svm >half.svm
expect 0 "$uwasa" train --model twin.json --data csv:zero.svm --steps 3 --save zero.st
expect 0 "$uwasa" eval --model twin.json --data csv:half.svm --weights zero.st
told 'indices from 0 to 1, 2 features'
expect 1 "$uwasa" predict --model twin.json --weights zero.st half.svm
told 'half.svm:1: lines of a label and INDEX:VALUE go with --data csv:FILE'

# ---- a folder for each class ----
mkdir -p pictures/dark pictures/light
for i in 1 2 3 4 5 6 7 8 9; do
    printf 'P5 2 1 255\n\001\010' >pictures/dark/$i.pgm
    printf 'P5 1 2 255\n\376\360' >pictures/light/$i.pgm
done
echo '{"name": "p", "input": [1, 2, 2], "layers": [{"name": "f", "type": "flatten"},
 {"name": "d", "type": "dense", "out": 2}]}' >pictures.json
expect 0 "$uwasa" train --model pictures.json --data images:pictures --epochs 40 --lr 0.5 --json -
told 'pictures: 2 classes for training: dark (8), light (7)'
better test_accuracy 1 1

# ---- nothing to compare with, and lines that must not disappear ----
expect 1 "$uwasa" train --model one.json --data csv:plain.csv,label=none --steps 2
told 'plain.csv,label=none has samples only, no labels and no values'
printf '0.5,0.1,1\n#N/A,0.2,0\n0.1,0.3,1\n' >errors.csv
expect 1 "$uwasa" train --model one.json --data csv:errors.csv --steps 2
told 'errors.csv:2:1:'
awk 'BEGIN { for (i = 0; i < 100; i++) print "0,0,7"
    for (i = 0; i < 60; i++) print i / 60 ",0.5," i % 2 }' >long.csv
expect 0 "$uwasa" train --model one.json --data csv:long.csv,skip=100 --steps 2
told 'long.csv: 60 lines of 3 columns'
awk 'BEGIN { for (i = 0; i < 60; i++) print i / 60 ",0.5," 3000 * i + 0.5 }' >prices.csv
expect 0 "$uwasa" train --model one.json --data csv:prices.csv --loss mse --lr 1e-9 --steps 2
told 'the value in column 3 is learned minus .*; target-scale=none leaves values as they are'
expect 0 "$uwasa" train --model one.json --data csv:prices.csv,target-scale=none --loss mse --lr 1e-9 \
    --steps 2
grep -q 'is learned' err && fail "target-scale=none is scaled"
expect 0 "$uwasa" train --model one.json --data csv:prices.csv --loss mse --steps 2 --save prices.st
sed 's/target_inverse/target_inverze/' prices.st >bent.st
expect 1 "$uwasa" eval --model one.json --data csv:prices.csv --weights bent.st
told 'bent.st: uwasa.data, what it says of the columns of its data, is malformed'
# remedies that can be right
expect 1 "$uwasa" train --model one.json --data csv:words.csv,target=3 --steps 2
told 'a value to compute is a number, label=3 takes the words of column 3 for classes'
grep -q 'drop=3' err && fail "the value to compute is left out"
expect 1 "$uwasa" train --model one.json --data csv:disc.csv,drop=1,label=3 --steps 2
told 'takes 2 features, disc.csv has 1: a column that drop= names, or that is label or value, is no feature'
# values decide about the loss as they are in the table
awk 'BEGIN { print "x,y,price"; for (i = 0; i < 60; i++) print i / 60 ",0.5,5000" }' >same.csv
expect 0 "$uwasa" train --model one.json --data csv:same.csv,target=price --steps 2
told 'the loss is taken to be mse against the values'
# a scale is advised for weights that nobody has trained: not for an ONNX model's own, nor in eval, nor for tokens
awk 'BEGIN { for (i = 0; i < 60; i++) print i % 40 "," i * 7 % 40 "," 3000 * i + 0.5 }' >far.csv
expect 0 "$uwasa" train --model one.json --data csv:far.csv,target-scale=none --loss mse --lr 1e-20 --steps 2
told 'WARNING: features go from 0 to 39'
sed s/uwasa.data/other.data/ one.onnx >foreign.onnx
expect 0 "$uwasa" train --model foreign.onnx --data csv:far.csv --loss mse --lr 1e-20 --steps 2 --save far.st
told 'scale=standard is for a model that nobody has trained'
told 'target-scale=standard is for a model that nobody has trained'
grep -q WARNING err && fail "a model with weights of its own is advised to scale"
for weights in "" "--weights far.st"; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" eval --model foreign.onnx --data csv:far.csv,test=0 --loss mse $weights
    grep -q 'scale=' err && fail "eval advises a scale"
done
echo '{"name": "words", "input": [2], "layers": [{"name": "e", "type": "embedding", "vocabulary": 40, "size": 4},
 {"name": "f", "type": "flatten"}, {"name": "d", "type": "dense", "out": 1}]}' >tokens.json
expect 0 "$uwasa" train --model tokens.json --data csv:far.csv --loss mse --steps 2
grep -q 'features go' err && fail "tokens are advised to scale"
mkdir -p pair/dark pair/light
printf 'P5 2 2 255\n\001\010\001\010' >pair/dark/1.pgm
cp pair/dark/1.pgm pair/dark/2.pgm
expect 0 "$uwasa" train --model pictures.json --data images:pair,test=0 --steps 2
told 'WARNING: '

# ---- images with their channels last ----
echo '{"name": "last", "input": [28, 28, 1], "layers": [{"name": "f", "type": "flatten"},
 {"name": "d", "type": "dense", "out": 10}]}' >last.json
expect 0 "$uwasa" train --model last.json --data digits --steps 2 --eval-samples 10

# ---- simulated nodes and real ones ----
expect 0 "$uwasa" sim --model one.json --data csv:sum.csv --nodes 3 --steps 20 --step-seconds 0.01
told 'mse against the values'
expect 0 "$uwasa" sim --model twin.onnx --data csv:disc.csv --train-loss binary --nodes 3 --steps 20 \
    --step-seconds 0.01
"$uwasa" keygen run.key >/dev/null 2>&1
expect 0 "$uwasa" node --set name=a --set run=r --set key=run.key --set model=one.json --set data=csv:sum.csv \
    --set steps=20 --loss huber --set listen=127.0.0.1:0 --set linger_seconds=0

# ---- as pandas writes it: a column that numbers the lines, True and False; later in another order ----
awk 'BEGIN { srand(4); print ",x,wet,y,inside" >"frame.csv"; print "inside,y,extra,wet,x" >"later.csv"
    for (i = 0; i < 400; i++) { x = 3 + 2 * rand(); y = 20 * rand(); w = rand() < 0.5
        c = (x > 4) == w ? "in" : "out"; t = w ? "True" : "False"
        printf "%d,%.4f,%s,%.4f,%s\n", i, x, t, y, c >"frame.csv"
        printf "%s,%.4f,7,%s,%.4f\n", c, y, t, x >"later.csv" } }'
model frame 3 2
frame="--model frame.json --weights frame.st"
for options in label=inside label=last scale=standard; do
    expect 0 "$uwasa" train --model frame.json --data "csv:frame.csv,scale=standard,$options" --epochs 60 \
        --lr 0.5 --seed 3 --json - --save frame.st
    told 'column 1 is left out: it has no name'
    told 'column 3 "wet": true is 1, false is 0'
    told '3 features: x, wet, y; label in column 5 "inside"'
done
better test_accuracy 0.9 1
# shellcheck disable=SC2086
expect 0 "$uwasa" eval $frame --data csv:frame.csv,test=0 --json -
same=$(number out test_loss)
for options in test=0 test=0,scale=standard test=0,label=inside; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" eval $frame --data "csv:later.csv,$options" --json -
    told 'columns are taken by the names of the training data'
    told 'features are scaled as in training'
    [ "$(number out test_loss)" = "$same" ] || fail "columns in another order give another loss"
done
# shellcheck disable=SC2086
expect 0 "$uwasa" eval $frame --data csv:later.csv,scale=255 --json -
told 'WARNING: the model was trained on another scale'
sed '1s/wet/damp/' later.csv >other.csv
# shellcheck disable=SC2086
expect 1 "$uwasa" eval $frame --data csv:other.csv
told 'other.csv: no column "wet", which the model was trained on'
expect 1 "$uwasa" train --model frame.json --data csv:frame.csv,test=later.csv
told 'both files need the same columns in the same order'
# the label is remembered by its name, also where another column looks more like one
sed '1s/,inside$/,rain/' frame.csv | awk -F, -v OFS=, '{ print $0, NR == 1 ? "class" : NR % 2 }' >rain.csv
expect 0 "$uwasa" train --model frame.json --data csv:rain.csv,label=rain --weights frame.st --steps 5 --save rain.st
expect 0 "$uwasa" train --model frame.json --data csv:rain.csv --weights rain.st --steps 5 --save rain.st
told 'the label is column 5 "rain", as in the training data; label= decides otherwise'
expect 0 "$uwasa" eval --model frame.json --data csv:rain.csv,test=0 --weights rain.st --json -
told 'label in column 5 "rain"'
better test_accuracy 0.9 1
# shellcheck disable=SC2086
printf '4.5,True,\n4.5,wet,1\n3.5,false,1\n' | "$uwasa" predict $frame >out 2>err &&
    fail "a line without an answer is no mistake"
[ "$(wc -l <out)" = 2 ] || fail "a line that is no row ends the answers"
told 'standard input:2:5: "wet": not a number; a row has 3 decimal numbers; no answer'
told '1 cells without a number got the mean of the training data'
told '1 lines are no rows of numbers and have no answer'
