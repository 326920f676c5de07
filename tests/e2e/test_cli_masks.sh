#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A class for each place: what masks may hold, and what is told of others.
. "$(dirname "$(realpath "$0")")/cli.sh"

told() { grep -q -e "$1" err || { cat err >&2; fail "not told: $1"; }; }
npy() { # npy SHAPE [TYPE]: the head of an array, of bytes if nothing else is said
    printf '\223NUMPY\001\000\166\000%-117s\n' \
        "{'descr': '${2:-|u1}', 'fortran_order': False, 'shape': ($1), }"
}
# masks FILE EXPRESSION [TYPE]: 12 masks of 3 x 3; i: sample, k: place, v: 0 to 2, as x is
masks() {
    { npy '12, 3, 3' "${3:-|u1}"; LC_ALL=C awk "BEGIN { for (i = 0; i < 12; i++) for (k = 0; k < 9; k++) {
        v = (i * 7 + k * 5) % 3; printf \"%c\", ($2) } }"; } >"$1"
}
{ npy '12, 1, 3, 3'; awk 'BEGIN { for (i = 0; i < 12; i++) for (k = 0; k < 9; k++)
    printf "%c", 10 + 100 * ((i * 7 + k * 5) % 3) }'; } >x.npy
cat >seg.json <<'END'
{"name": "seg", "input": [1, 3, 3], "layers": [
    {"name": "c", "type": "conv2d", "out_channels": 3, "kernel": 1}]}
END

# ---- 255 in bytes is a place that does not count, if there are fewer classes ----
masks y.npy v
expect 0 "$uwasa" train --model seg.json --data npy:x.npy,y.npy --epochs 60 --lr 1 --save seg.st --json -
told 'cross_entropy of a class for each of 9 positions'
grep -q 'does not count' err && fail "a place that does not count"
masks void.npy 'k == 4 ? 255 : v'
for loss in auto cross_entropy; do
    expect 0 "$uwasa" train --model seg.json --data npy:x.npy,void.npy --loss $loss --steps 2
    told 'void.npy.*255 in masks of bytes is a place that does not count, of which there are 12\|^x.npy: 255 in masks'
done
masks both.npy 'v > 0 ? 255 : 0'
expect 0 "$uwasa" train --model seg.json --data npy:x.npy,both.npy --steps 2
told 'WARNING: masks have 0 and 255 only.*mask // 255 makes classes 0 and 1'

# ---- other labels are refused before training, in the test set too, with the place and a way out ----
masks more.npy 'i == 5 && k == 7 ? 3 : v'
masks below.npy 255 '|i1'
for loss in auto cross_entropy; do
    for data in x.npy,more.npy x.npy,y.npy,x.npy,more.npy; do
        expect 1 "$uwasa" train --model seg.json --data npy:$data --loss $loss --steps 2
        told ': sample 5, place 7, counted from 0, has 3, where the model has classes 0 to 2; numpy.where(y == 3, -1, y)'
    done
    expect 1 "$uwasa" train --model seg.json --data npy:x.npy,y.npy,x.npy,below.npy --loss $loss --steps 2
    told 'nothing in the test set counts: its masks are below 0 everywhere'
    expect 1 "$uwasa" train --model seg.json --data npy:x.npy,below.npy --loss $loss --steps 2
    told 'nothing in the training set counts'
done
expect 1 "$uwasa" eval --model seg.json --weights seg.st --data npy:x.npy,more.npy,test=0
told 'place 7, counted from 0, has 3'
awk 'BEGIN { for (i = 0; i < 12; i++) { line = ""; for (k = 0; k < 18; k++) line = line "," (k % 3) / (k < 9 ? 3 : 2)
    print substr(line, 2) } }' >fractions.csv
expect 1 "$uwasa" train --model seg.json --data csv:fractions.csv,target=10+11+12+13+14+15+16+17+18 --steps 2
told 'fractions.csv:1: column 11 has 0.5, .*; values to compute are for a model with as many outputs'
expect 2 "$uwasa" predict --model seg.json --weights seg.st --data npy:x.npy,label=none --top 2
told 'model seg answers with the class of each of 9 places; --probabilities has all of them'

# ---- answers in an array, and the probabilities of each place ----
expect 2 "$uwasa" predict --model seg.json --weights seg.st --data npy:x.npy,label=none --save out.npz
told '--save: writes an array of NumPy, FILE.npy'
expect 0 "$uwasa" predict --model seg.json --weights seg.st --data npy:x.npy,label=none --save out.npy
[ -s out ] && fail "--save prints lines, too"
[ "$(head -c 128 out.npy | tail -c +11 | tr -s ' ')" = \
    "{'descr': '|u1', 'fortran_order': False, 'shape': (12, 3, 3), } " ] || { head -c 128 out.npy >&2; fail "head"; }
masks expected.npy v
tail -c 108 expected.npy >expected
tail -c +129 out.npy | cmp - expected || fail "the array has other classes"
expect 0 "$uwasa" eval --model seg.json --weights seg.st --data npy:x.npy,out.npy,test=0    # it is one of ours
grep -q 'accuracy  *100' out || { cat out >&2; fail "the array is read as another one"; }
expect 0 "$uwasa" predict --model seg.json --weights seg.st --data npy:x.npy,label=none --save p.npy --probabilities
[ "$(head -c 128 p.npy | tail -c +11 | tr -s ' ')" = \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 3, 3, 3), } " ] || fail "the head of probabilities"
[ "$(wc -c <p.npy)" = $((128 + 12 * 27 * 4)) ] || fail "the size of probabilities"
expect 0 "$uwasa" predict --model seg.json --weights seg.st --data npy:x.npy,label=none --probabilities
awk '{ if (NF != 36) exit 1; for (k = 1; k <= 9; k++) { sum = 0; for (c = 0; c < 3; c++) { p = $(9 + 9 * c + k)
    sum += p; if (c == $k && p < 0.4) exit 1 }; if (sum < 0.999 || sum > 1.001) exit 1 } }' out ||
    { head -n 1 out >&2; fail "probabilities of each place"; }
# classes behind each token, as the model has them
echo '{"name": "tokens", "input": [4], "layers": [{"name": "e", "type": "embedding", "vocabulary": 9, "size": 3}],
 "loss": {"type": "cross_entropy", "target": "values", "classes_last": true}}' >tokens.json
printf '1,2,3,4,0,1,2,0\n5,6,7,8,1,1,0,2\n' >tokens.csv
expect 0 "$uwasa" train --model tokens.json --data csv:tokens.csv,target=5+6+7+8,test=0 --steps 2 --save tokens.st
echo 1,2,3,4 >row.csv
expect 0 "$uwasa" predict --model tokens.json --weights tokens.st row.csv --save t.npy --probabilities
head -c 128 t.npy | grep -q "'shape': (1, 4, 3)" || { head -c 128 t.npy >&2; fail "the shape of tokens' probabilities"; }
expect 0 "$uwasa" predict --model tokens.json --weights tokens.st row.csv --probabilities
awk '{ for (k = 0; k < 4; k++) { sum = $(5 + 3 * k) + $(6 + 3 * k) + $(7 + 3 * k)
    if (sum < 0.999 || sum > 1.001) exit 1 } }' out || { cat out >&2; fail "probabilities of each token"; }
expect 0 "$uwasa" predict --model seg.json --weights seg.st --data npy:x.npy,label=none --probabilities --json -
grep -q '"classes":\[.*"probabilities":\[' out || fail "probabilities in events"

# ---- a model file that says cross_entropy is trained as one that says nothing ----
expect 0 "$uwasa" train --model seg.json --data npy:x.npy,y.npy --epochs 3 --lr 1 --json -
open=$(number out test_loss)
sed 's/"layers"/"loss": {"type": "cross_entropy"}, &/' seg.json >said.json
expect 0 "$uwasa" train --model said.json --data npy:x.npy,y.npy --epochs 3 --lr 1 --json - --save said.st
grep -q 'the loss is' err && fail "the file's own loss is told"
[ "$(number out test_loss)" = "$open" ] || fail "a loss that is said differs from one by the data"
expect 0 "$uwasa" eval --model said.json --weights said.st --data npy:x.npy,y.npy --json -
number out test_loss | awk -v train="$open" '{ exit !($1 - train < 1e-4 && train - $1 < 1e-4) }' ||
    fail "eval differs from the test: $open and $(number out test_loss)"
expect 0 "$uwasa" predict --model said.json --weights said.st --data npy:x.npy,label=none
sed 's/"cross_entropy"/&, "label_smoothing": 0.2/' said.json >smooth.json
expect 0 "$uwasa" train --model smooth.json --data npy:x.npy,y.npy --epochs 3 --lr 1 --json -
[ "$(number out test_loss)" != "$open" ] || fail "label smoothing is lost"

# ---- names of the classes: in the table of eval, in answers, and kept with the weights ----
expect 2 "$uwasa" train --model seg.json --data npy:x.npy,y.npy,classes=sky+road --steps 2
told 'classes=sky+road: 2 names, the model has 3 classes for each place'
expect 0 "$uwasa" train --model seg.json --data npy:x.npy,y.npy,classes=sky+road+car --epochs 60 --lr 1 --save named.st
expect 0 "$uwasa" eval --model seg.json --weights named.st --data npy:x.npy,y.npy,test=0
grep -q '^road  ' out || { cat out >&2; fail "eval does not name the classes"; }
expect 0 "$uwasa" predict --model seg.json --weights named.st --data npy:x.npy,label=none
[ "$(sed -n 1p out)" = "$(printf 'sky\tcar\troad\tsky\tcar\troad\tsky\tcar\troad')" ] ||
    { cat out >&2; fail "answers do not name the classes"; }
echo passed
