#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Validation, patience, the best weights, weights of classes, the threshold of anomalies; also of
# runs that are killed. test_cli_train.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"
seed=${UWASA_TEST_SEED:-$(date +%s)}
echo "seed=$seed"

awk 'BEGIN { srand(5); for (; n < 1200; n++) { x = 2 * rand() - 1; y = 2 * rand() - 1
    print x "," y "," (x * x + y * y < 0.6) } }' >disc.csv
cat >disc.json <<'END'
{"name": "disc", "input": [2], "layers": [{"name": "fc1", "type": "dense", "out": 16},
 {"name": "relu1", "type": "relu"}, {"name": "fc2", "type": "dense", "out": 2}]}
END
base="--model disc.json --data csv:disc.csv --threads 1"

# a validation set: events of its own after each epoch, the test set once at the end
# shellcheck disable=SC2086
expect 0 "$uwasa" train $base --lr 0.1 --epochs 4 --validation 0.2 --json events
grep -q '^validation: [12][0-9]* samples, [78][0-9]* to train on$' err || fail "the split is not told"
[ "$(grep -c '^{"event":"validation","step":[0-9]*,"epoch":[1-4],"validation_accuracy":0.*"validation_loss":.*"validation_samples":' events)" = 4 ] ||
    fail "not a validation an epoch"
[ "$(grep -c '^{"event":"eval".*"test_accuracy"' events)" = 1 ] || fail "not one test"
tail -n 1 events | grep -q '"test_accuracy":.*"validation_loss":' || fail "done has no figures"

# the best weights, and patience: a rate so high that the loss goes up and down
flags="$base --lr 0.5 --epochs 60 --validation 0.2"
# shellcheck disable=SC2086
expect 0 "$uwasa" train $flags --patience 3 --keep best --save best.safetensors --json events
grep -q '^stopped        at step [0-9]* of [0-9]*: 3 tests without a better one$' out ||
    { cat out >&2; fail "patience is not told"; }
grep -q '^best: the weights of step [0-9]* (validation loss [0-9.]*) are kept, those of step' err ||
    fail "what is kept is not told"
least=$(sed -n 's/.*"event":"validation".*"validation_loss":\([0-9.]*\).*/\1/p' events | sort -g |
    head -n 1)
[ "$(number events best_loss)" = "$least" ] || fail "the best is not the smallest loss"
[ "$(number events kept_step)" = "$(number events best_step)" ] || fail "another step is kept"
tail -n 1 events | grep -q '"stopped_early":true' || fail "done does not say that it stopped"
# as a run that ends after that step has them
steps=$(number events best_step)
# shellcheck disable=SC2086
expect 0 "$uwasa" train $base --lr 0.5 --steps "$steps" --validation 0.2 --save last.safetensors
for file in best last; do
    expect 0 "$uwasa" predict --model disc.json --weights $file.safetensors --data csv:disc.csv
    mv out $file.answers
done
cmp -s best.answers last.answers || fail "the best weights are not those of step $steps"
# a run that is done says the same again, and leaves its file
cp best.safetensors copy.safetensors
# shellcheck disable=SC2086
expect 0 "$uwasa" train $flags --patience 3 --keep best --save best.safetensors --resume
grep -q 'is done, nothing is left' err || fail "a run that ran out of patience goes on"
cmp -s best.safetensors copy.safetensors || fail "a run that is done changes its file"
# with more patience it goes on, as one that had it from the start
for file in best whole; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" train $flags --patience 5 --keep best --save $file.safetensors --resume
done
cmp best.safetensors whole.safetensors || fail "more patience leads elsewhere"

# killed at any point
kills=0
i=0
while [ $i -lt 15 ]; do
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    # shellcheck disable=SC2086
    "$uwasa" train $flags --patience 5 --keep best --save broken.safetensors --save-every 7 \
        --resume >out 2>err &
    pid=$!
    sleep "0.0$(printf %03d $((seed / 65536 % 300)))"
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
    i=$((i + 1))
done
echo "kills=$kills"
# shellcheck disable=SC2086
expect 0 "$uwasa" train $flags --patience 5 --keep best --save broken.safetensors --save-every 7 \
    --resume
cmp whole.safetensors broken.safetensors || fail "a killed run ends with other weights"

# other flags than before
while IFS='|' read -r status arguments sentence; do
    # shellcheck disable=SC2086
    expect "$status" "$uwasa" train $arguments
    grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
done <<END
1|$base --save whole.safetensors --resume --validation 0.3|was trained with --validation 0.2
1|$base --save whole.safetensors --resume --validation 0.2|of --keep best
2|$base --validation 0|needs a number from 0.001 to 0.9
2|$base --patience 0|--patience 0: needs a whole number, 1 or more
2|$base --keep first|needs one of last best
2|$base --class-weights 1,2,3|3 numbers, the model has 2 classes
2|$base --class-weights 1,-2|needs balanced, or a number above 0
2|$base --class-weights 1,|needs balanced, or a number above 0
2|$base --class-weights balanced --backend cuda|leave --backend cuda out
2|$base --anomaly-percentile 99|is no autoencoder
2|$base --anomaly-percentile 101|needs a number from 0 to 100
END

# weights of classes: one in twenty is of class 1; with balanced weights more of them are found
awk -F , 'BEGIN { OFS = ","; srand(9) } { $3 = ($1 + $2 > 1.2 && rand() < 0.8) + 0; print }' \
    disc.csv >rare.csv
sed 's/"out": 2}/"out": 1}/' disc.json >one.json
for model in disc one; do
    for weights in 1,1 balanced; do
        expect 0 "$uwasa" train --model $model.json --data csv:rare.csv --epochs 5 --lr 0.05 \
            --class-weights $weights --save rare.safetensors
        grep '^class weights: [0-9]' err >told || fail "weights of classes are not told"
        expect 0 "$uwasa" eval --model $model.json --weights rare.safetensors \
            --data csv:rare.csv --json -
        sed -n 's/.*"class":1,.*"recall":\([0-9.]*\).*/\1/p' out
    done
    mv told told.$model
done >recalls
cmp told.disc told.one || fail "one output has other weights of classes than two"
awk '{ r[NR] = $1 } END { exit !(NR == 4 && r[2] > r[1] && r[4] > r[3]) }' recalls ||
    { cat recalls >&2; fail "balanced weights find no more of a rare class"; }

# anomalies: points on a line, and a few beside it
awk 'BEGIN { srand(7); for (; n < 900; n++) { t = 2 * rand() - 1; bad = n >= 600 && n % 5 == 0
    for (k = 1; k <= 4; k++) printf "%.4f,", t * k / 4 + 0.02 * rand() + bad * (rand() - 0.5)
    print bad } }' >line.csv
head -n 600 line.csv >normal.csv
tail -n 300 line.csv >mixed.csv
cat >auto.json <<'END'
{"name": "auto", "input": [4], "layers": [{"name": "a", "type": "dense", "out": 1},
 {"name": "b", "type": "dense", "out": 4}], "loss": {"type": "mse", "target": "input"}}
END
auto="--model auto.json --data csv:normal.csv,mixed.csv"
# shellcheck disable=SC2086
expect 0 "$uwasa" train $auto --epochs 30 --optimizer adam --lr 0.02 --validation 0.2 \
    --anomaly-percentile 99 --save auto.safetensors --json events
grep -q '^anomalies: errors above .*, the percentile 99 of [0-9]* validation samples$' err ||
    fail "the threshold is not told"
# shellcheck disable=SC2086
expect 0 "$uwasa" eval $auto --weights auto.safetensors --json -
[ "$(number out anomaly_threshold)" = "$(number events anomaly_threshold)" ] ||
    fail "eval has another threshold"
awk -v auc="$(number out roc_area)" -v recall="$(number out recall)" \
    'BEGIN { exit !(auc > 0.95 && recall > 0.8) }' || { cat out >&2; fail "anomalies are missed"; }
found=$(number out anomalies)
cut -d , -f 1-4 mixed.csv >rows.csv
expect 0 "$uwasa" predict --model auto.json --weights auto.safetensors rows.csv
[ "$(grep -c '	anomaly$' out)" = "$found" ] || fail "predict finds other anomalies than eval"
[ "$(grep -c '	normal$' out)" = $((300 - found)) ] || fail "predict and normal samples"
# training on ends it, and a resume sets it where nothing is left to do
# shellcheck disable=SC2086
expect 0 "$uwasa" train $auto --epochs 1 --weights auto.safetensors --save more.safetensors
expect 0 "$uwasa" predict --model auto.json --weights more.safetensors rows.csv
grep -q 'has no threshold of anomalies' err || fail "a threshold of other weights is left"
# shellcheck disable=SC2086
expect 0 "$uwasa" train $auto --epochs 1 --save more.safetensors --resume --anomaly-percentile 90
expect 0 "$uwasa" predict --model auto.json --weights more.safetensors rows.csv --json -
grep -q '"anomaly":true' out || fail "a threshold that is set later"
echo passed
