#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program's flags, exit statuses and results. test_cli.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

# help and version, everywhere
expect 0 "$uwasa" --version
expect 0 "$uwasa" version
expect 0 "$uwasa" --help
for command in $(sed -n 's/^  \([a-z]*\)  .*/\1/p' out); do
    expect 0 "$uwasa" "$command" --help
    grep -q '^Example: uwasa ' out || fail "$command --help has no example"
    # in 80 columns, but for commands to copy
    grep -v -e '^  ' -e '^Example: ' out | awk 'length > 80 { exit 1 }' ||
        fail "$command --help has lines of more than 80 columns"
    awk '/^  -/ && length > 80 { exit 1 }' out || fail "$command --help has long rows"
    cp out flag
    expect 0 "$uwasa" help "$command"
    cmp -s out flag || fail "help $command is not $command --help"
done
expect 2 "$uwasa" plam
grep -q 'did you mean plan' err || fail "plam does not suggest plan"
timeout 10 "$uwasa" >out 2>err && fail "no command is not wrong use"

# wrong use, one line each
while IFS='|' read -r arguments sentence; do
    # shellcheck disable=SC2086
    expect 2 "$uwasa" $arguments
    grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
done <<'END'
train|--model: is needed
train --model lenet5 --batch 0|--batch 0: needs a whole number, 1 or more
train --model lenet5 --batch 1.5|--batch 1.5: needs a whole number, 1 or more
train --model lenet5 --bach 3|did you mean --batch?
train --modle lenet5|did you mean --model?
train --model lenet5 --lr -1|--lr -1: needs a number, 0 or more
train --model lenet5 --lr nan|--lr nan: needs a number
train --model lenet5 --steps 3 --epochs 1|give one of them
train --model lenet5 --resume|--resume: needs --save
train --model lenet5 --nesterov|--nesterov: needs --optimizer sgd and --momentum above 0
train --model lenet5 --schedule step:0:1|--schedule step:0:1: needs constant
train --model lenet5 --optimizer adagrad|needs one of sgd momentum
train --model lenet5 --optimizer adam --momentum 0.9|--momentum: adam has none
train --model lenet5 --beta1 0.5|--beta1 and --beta2: need --optimizer adam
train --model lenet5 --optimizer adam --beta2 1|need above 0 and below 1
train --model lenet5 --optimizer adam --beta1 0|need above 0 and below 1
train --model lenet5 --optimizer rmsprop --epsilon 0|--epsilon: needs above 0
train --model lenet5 --optimizer adam --alpha 0.9|--alpha: needs --optimizer rmsprop
train --model lenet5 --epsilon 1e-6|--epsilon: needs --optimizer adam
train --model lenet5 --train last:0|--train last:0: needs all, bias, last:N
train --model lenet5 --train lora:4:-1|--train lora:4:-1: needs all, bias
train --model lenet5 --mode immediate --clip-norm 1|needs plan mode full
train --model lenet5 --micro-batch 0|--micro-batch 0: needs a whole number, 1 or more
train --model lenet5 --micro-batch 64|--micro-batch 64: needs at most --batch 32
train --model lenet5 --schedule multistep:5s,6:0.1|needs constant
train --model lenet5 --micro-batch 4 --spike 3|whole minibatches
sim --model mlp --bandwidth 10M|--bandwidth 10M: needs a whole number, 0 or more, such as 10000000 or 1e7
train --model lenet5 --threads 0|--threads 0: needs a whole number from 1 to 256
train --model lenet5 --steps|--steps: needs a value
train --model lennet5|did you mean lenet5?
train --model lenet5 --data digit|digit
train --model lenet5 extra|extra: not expected
help trian|did you mean train?
plan|--model: is needed
plan --model mlp --budget 3Q|--budget 3Q: needs a whole number of bytes
plan --model mlp --json --layers|give one of them
plan --model mlp --json=yes|--json yes: takes no value
eval --model mlp|--weights: is needed
models nope|nope: no built-in model, uwasa models lists them
models lenet|lenet: no built-in model, did you mean lenet5?
keygen|FILE: is needed
keygen --device attic|--root: is needed
keygen --root home.root --device attic --revoke attic|one of them at a time
keygen --root home.root other.key|FILE: is for run keys
END

# models that are none
cat >bad.json <<'END'
{"name": "bad", "input": [1, 28, 28],
 "layers": [
  {"name": "f", "type": "flatten"},
  {"name": "d", "type": "dense", "units": 10}]}
END
expect 2 "$uwasa" plan --model bad.json
grep -q 'bad.json:4: ' err || fail "the line of the mistake is not named"
echo '{"name": "x", "input": [1, 2, 2], "layers": [{"name": "c", "type": "conv2d",
"out_channels": 1, "kernel": 5}]}' >shape.json
expect 2 "$uwasa" plan --model shape.json
grep -q "shape.json: layer 'c'" err || fail "the layer that does not fit is not named"
echo '{"name": "x", "input": [1, 28, 28], "layers": [{"name": "f", "type": "flatten"},
{"name": "d", "type": "dense", "out": 7}]}' >seven.json
expect 1 "$uwasa" train --model seven.json --steps 1
grep -q 'has labels up to 9' err || fail "classes that do not fit are not told"
echo '{"name": "x", "input": [5], "layers": [{"name": "d", "type": "dense", "out": 10}]}' >five.json
expect 1 "$uwasa" train --model five.json --steps 1
grep -q 'takes 5x1x1 samples' err || fail "an input that does not fit is not told"
grep -q -e '--data csv:FILE of 5 numbers and a label a line fits$' err || fail "data for 5 numbers"
for fits in dscnn:digits:keywords gru:digits:keywords "lenet5:keywords:digits or mnist:DIR" \
    resnet20:digits:cifar10:DIR; do
    other=${fits#*:}
    expect 1 "$uwasa" train --model "${fits%%:*}" --data "${other%%:*}" --steps 1
    grep -q -e "--data ${other#*:} fits$" err || { cat err >&2; fail "what fits: $fits"; }
done
expect 0 "$uwasa" train --model dscnn --data keywords --steps 1 --eval-samples 10

# a file of one's own as the program writes it, which is read again
echo '{"name": "up", "input": [1, 28, 28], "layers": [{"name": "p", "type": "pad", "padding": 1},
{"name": "u", "type": "upsample", "scale": [1, 2]}, {"name": "f", "type": "flatten"},
{"name": "d", "type": "dense", "out": 10}]}' >up.json
expect 0 "$uwasa" models up.json
grep -q '{"name": "p.rows", "type": "take", "inputs": \["input"\], "axis": 1, "index": \[-1, 0, ' out ||
    fail "a pad is no take: $(cat out)"
mv out takes.json
expect 0 "$uwasa" models takes.json
cmp -s out takes.json || fail "a model is not written as it was read"
expect 0 "$uwasa" train --model up.json --steps 1 --eval-samples 10
expect 1 "$uwasa" models nope.json
grep -q 'nope.json: no such file' err || fail "a file that is missing is not told"

# files that are not what they should be
echo garbage >weights.safetensors
expect 1 "$uwasa" eval --model mlp --weights weights.safetensors
expect 1 "$uwasa" eval --model mlp --weights nothing.safetensors
expect 1 "$uwasa" train --model mlp --steps 1 --save /nonexistent/file
grep -q 'its folder does not exist' err || fail "a folder that is missing is not told"
expect 1 "$uwasa" train --model mlp --steps 1 --save .
grep -q 'not a regular file' err || fail "a folder instead of a file is not told"
expect 1 "$uwasa" train --model mlp --steps 1 --json /nonexistent/file
expect 1 "$uwasa" train --model mlp --steps 20 --lr 1e30
grep -Eq "layer '[a-z0-9]+'|loss" err || fail "a NaN does not name its place"

# events replace nothing that the same command reads or saves
"$uwasa" models mlp >own.json
cp own.json kept.json
for command in "train --model own.json --steps 1 --json ./own.json" \
    "train --model own.json --steps 1 --trace own.json" "train --model mlp --save n --json n" \
    "eval --model own.json --weights weights.safetensors --json own.json"; do
    expect 2 "$uwasa" $command
    cmp -s own.json kept.json && [ ! -e n ] || fail "$command: a file is lost"
done

# a file that may not grow, as on a full disk
(ulimit -f 100; expect 1 "$uwasa" train --model mlp --steps 2 --save grown) || exit 1
grep -q 'no space is left' err || fail "a full disk is not told"

# a named pipe that nobody holds the other end of: an answer, no wait
mkfifo pipe
expect 2 "$uwasa" plan --model pipe
expect 2 "$uwasa" node --config pipe
expect 1 "$uwasa" train --model mlp --steps 1 --json pipe
expect 1 "$uwasa" node --set name=a --set run=r --set model=mlp --set key=pipe

# a key
expect 0 "$uwasa" keygen run.key
[ "$(stat -c %a run.key)" = 600 ] || fail "the key can be read by others"
grep -Eqx '[0-9a-f]{64}' run.key || fail "the key is not 64 hex digits"
cp run.key old.key
expect 1 "$uwasa" keygen run.key
expect 0 "$uwasa" keygen run.key --force
expect 1 "$uwasa" keygen pipe --force
[ -p pipe ] || fail "keygen put a file in the place of something else"
cmp -s run.key old.key && fail "--force did not make a new key"
cp run.key old.key
(ulimit -f 0; expect 1 "$uwasa" keygen run.key --force 2>/dev/null)
cmp -s run.key old.key || fail "a new key that could not be written took the old one away"
[ ! -e run.key.part ] || fail "a key that could not be written stays behind"

# a root, keys of devices, and a list of those that are revoked
expect 0 "$uwasa" keygen --root home.root
expect 1 "$uwasa" keygen --root home.root
expect 0 "$uwasa" keygen --root home.root --device attic
expect 0 "$uwasa" keygen --root home.root --device cellar other.key
expect 1 "$uwasa" keygen --root home.root --device attic
expect 2 "$uwasa" keygen --root home.root --device 'a b'
expect 1 "$uwasa" keygen --root run.key --device shed
[ "$(stat -c %a home.root attic.key other.key | sort -u)" = 600 ] || fail "a key can be read by others"
expect 0 "$uwasa" keygen --root home.root --revoke cellar
grep -q 'home.root.revoked: 1 device is revoked' err || fail "keygen does not say what is revoked"
cp home.root.revoked first.revoked
expect 0 "$uwasa" keygen --root home.root --revoke cellar
cmp -s home.root.revoked first.revoked || fail "a device was revoked twice"
expect 1 "$uwasa" keygen --root home.root --device cellar third.key
grep -q 'is revoked, for good' err || { cat err >&2; fail "a key for a revoked device"; }
expect 0 "$uwasa" keygen --root home.root --revoke shed
sed '2s/./x/' home.root.revoked >attic.key.revoked
expect 1 "$uwasa" status 127.0.0.1:9 --key attic.key --run home --timeout 1
grep -q 'attic.key.revoked: is damaged' err || { cat err >&2; fail "a list that is damaged"; }
cp attic.key.revoked home.root.revoked
expect 1 "$uwasa" keygen --root home.root --revoke porch
grep -q 'the list of revoked devices beside it is damaged' err || fail "a root's damaged list"

# a model's JSON is a model
for model in mlp lenet5 fedavg-cnn; do
    expect 0 "$uwasa" models $model
    cp out copy.json
    expect 0 "$uwasa" plan --model $model --json
    cp out builtin
    expect 0 "$uwasa" plan --model copy.json --json
    cmp -s out builtin || fail "$model printed and read again is another model"
done
grep -q '"params":1663370' builtin || fail "fedavg-cnn does not have 1,663,370 parameters"

# train takes exactly what plan says
small_data small.csv
for flags in "--batch 7" "--batch 20 --momentum 0.9 --threads 1" "--mode full --threads 2" \
    "--optimizer adam --batch 8" "--optimizer rmsprop --mode buckets" "--train last:1 --clip 1" \
    "--momentum 0.9 --micro-batch 4" "--train lora:4 --optimizer adamw" "--clip-norm 1"; do
    # shellcheck disable=SC2086
    expect 0 "$uwasa" plan --model mlp --json $flags
    plan=$(number out total_bytes)
    # shellcheck disable=SC2086
    expect 0 "$uwasa" train --model mlp --data csv:small.csv --steps 1 --json - $flags
    [ "$(number out arena_bytes)" = "$plan" ] || fail "train does not take what plan says: $flags"
done
expect 1 "$uwasa" plan --model mlp --budget 1K
grep -q 'smallest plan' err || fail "plan does not say what would fit"
grep -q 'with batch 1 and plain sgd' err || fail "plan does not say which plan is smallest"
expect 1 "$uwasa" plan --model mlp --mode inference --budget 1K
grep -q 'with batch 1 [0-9]* bytes' err ||
    fail "plan names a training plan to one who asked for inference"
expect 0 "$uwasa" plan --model mlp --mode inference --budget 1024G
batch=$(sed -n 's/.*largest batch that does is //p' out)
[ "$batch" -gt 1000000 ] || fail "the largest batch in 1 TiB is not $batch"
expect 1 "$uwasa" plan --model mlp --mode inference --budget 1024G --batch $((batch + 1))
expect 0 "$uwasa" plan --model mlp --budget 1G
expect 0 "$uwasa" plan --model mlp --mode inference
tail -n 2 out | grep -q '#$' || fail "a forward pass does not fill its chart"
expect 0 "$uwasa" plan --model lenet5 --batch 4 --threads 1 --budget 1M # --help's example
cp out large
expect 0 "$uwasa" plan --model lenet5 --batch 4 --threads 1 --budget 1m
cmp -s out large || fail "1m is not 1M"
expect 0 "$uwasa" plan --model lenet5 --batch 4 --threads 1 --budget 900k
expect 1 "$uwasa" plan --model lenet5 --batch 4 --threads 1 --budget 100k
grep -q 'does not fit into 100.0 KiB' err || fail "100k is not 100 KiB"
"$uwasa" plan --help | grep -q '^BYTES may end in K, M or G' || fail "help does not tell K, M, G"

# what a board has to have: batch 1, plain SGD, everything counted, and trained in just that much
for case in "lenet5 280000 --budget 280000 digits" "mlp64.json 209920 --train all digits" \
    "resnet20 2200000 --budget 2200000 cifar"; do
    # shellcheck disable=SC2086
    set -- $case
    cat >mlp64.json <<END
{"name": "mlp64", "input": [784], "layers": [{"name": "fc1", "type": "dense", "out": 64},
 {"name": "relu1", "type": "relu"}, {"name": "fc2", "type": "dense", "out": 10}]}
END
    board="--batch 1 --threads 1 --backend ref"
    # shellcheck disable=SC2086
    expect 0 "$uwasa" plan --model "$1" $board "$3" "$4" --json
    plan=$(number out total_bytes)
    [ "$plan" -le "$2" ] || fail "$1 takes $plan bytes, above $2"
    [ "$5" = digits ] || continue
    # shellcheck disable=SC2086
    expect 0 "$uwasa" train --model "$1" $board "$3" "$4" --data csv:small.csv --steps 3 --json -
    [ "$(number out arena_bytes)" = "$plan" ] || fail "$1 trained in another size than $plan"
done

# events: every step with --no-shuffle and --steps, done comes last
expect 0 "$uwasa" train --model mlp --steps 25 --no-shuffle --json events.jsonl
[ "$(grep -c '"event":"step"' events.jsonl)" = 25 ] || fail "not every step is an event"
tail -n 1 events.jsonl | grep -q '"event":"done"' || fail "the last event is not done"
for key in test_accuracy test_loss samples_per_s seconds samples arena_bytes peak_rss_bytes; do
    [ -n "$(number events.jsonl $key)" ] || fail "done has no $key"
done

# a reader of events that has stopped reading does not hold up an end; nohup outlives the terminal
mkfifo events
sleep 30 <events &
reader=$!
"$uwasa" train --model mlp --steps 1000000 --no-shuffle --json - >events 2>err &
pid=$!
sleep 1.5
start=$(date +%s%N)
kill -TERM $pid
wait $pid && fail "a run whose work is lost looks like success"
took=$((($(date +%s%N) - start) / 1000000))
kill $reader
[ $took -lt 1500 ] || fail "a reader that does not read holds up the end for $took ms"
# one that has gone away ends the run, which is saved
timeout 60 "$uwasa" train --model mlp --steps 1000000 --no-shuffle --save gone.safetensors --json - \
    >events 2>err &
pid=$!
head -n 2 <events >out
status=0
wait $pid || status=$?
[ $status -eq 1 ] || fail "events that nobody takes end a run with $status"
grep -q '^uwasa train: --json -: an event could not be written; stopped at step .*, saved; ' err ||
    fail "events that nobody takes are not told"
expect 0 "$uwasa" eval --model mlp --weights gone.safetensors
nohup "$uwasa" train --model mlp --steps 1000000 --save hup.safetensors >out 2>err &
pid=$!
sleep 0.5
kill -HUP $pid
sleep 0.5
kill -0 $pid || fail "nohup does not keep SIGHUP away"
kill -TERM $pid
wait $pid || fail "SIGTERM with --save is no failure"

# a closed standard error: its messages do not end up in the events
"$uwasa" train --model mlp --steps 5 --json events.jsonl >out 2>&- || fail "no standard error"
grep -qv '^{.*}$' events.jsonl && fail "messages stand between the events"

# what was saved evaluates to what train said
expect 0 "$uwasa" train --model mlp --steps 25 --save w.safetensors --json events.jsonl
expect 0 "$uwasa" eval --model mlp --weights w.safetensors --batch 32 --json -
[ "$(number out test_accuracy)" = "$(number events.jsonl test_accuracy)" ] ||
    fail "eval and train disagree"

# low-rank additions go on from plain weights, and count where the model is planned without
expect 0 "$uwasa" train --model mlp --train lora:4:8 --weights w.safetensors --steps 25 \
    --save lora.safetensors --json lora.jsonl
expect 0 "$uwasa" eval --model mlp --weights lora.safetensors --json -
for file in events.jsonl lora.jsonl out; do number $file test_accuracy; done | xargs |
    awk '{ d = $2 - $3; exit !($2 != $1 && d < 0.001 && d > -0.001) }' ||
    fail "eval does not see the low-rank additions"
expect 1 "$uwasa" train --model mlp --save lora.safetensors --resume --steps 30
grep -q 'low-rank additions' err || fail "a resume without low-rank additions is not told"

# a loss without labels: data needs no classes, results no accuracy
cat >auto.json <<'END'
{"name": "auto", "input": [784], "layers": [{"name": "a", "type": "dense", "out": 16},
 {"name": "b", "type": "dense", "out": 784}], "loss": {"type": "mse", "target": "input"}}
END
expect 0 "$uwasa" train --model auto.json --steps 5 --save auto.safetensors
grep -q '^test loss ' out || fail "an autoencoder has no test loss"
grep -q 'accuracy' out err && fail "an autoencoder has an accuracy"
expect 0 "$uwasa" eval --model auto.json --weights auto.safetensors
sed 's/"input"}/"values"}/' auto.json >values.json
expect 1 "$uwasa" train --model values.json --steps 5
grep -q 'needs values beside each sample' err || fail "missing target values are not told"

# what cannot be moved or mirrored
printf '1,2,0\n3,4,1\n' >two.csv
echo '{"name": "t", "input": [2], "layers": [{"name": "d", "type": "dense", "out": 2}]}' >two.json
expect 2 "$uwasa" train --model two.json --data csv:two.csv --augment flip
grep -q 'no images' err || fail "mirrored numbers are not told"

# rows of a CSV file are images when the model takes images
printf '1,2,3,4,0\n5,6,7,8,1\n' >images.csv
echo '{"name": "i", "input": [1, 2, 2], "layers": [{"name": "f", "type": "flatten"},
 {"name": "d", "type": "dense", "out": 2}]}' >images.json
expect 0 "$uwasa" train --model images.json --data csv:images.csv --augment flip --steps 2

expect 2 "$uwasa" train --model two.json --data csv:two.csv --steps 1 --save two.csv
grep -q 'two.csv: --data reads it, so it is not replaced' err || fail "--save over data is not refused"
expect 2 "$uwasa" train --model two.json --data csv:two.csv --steps 1 --save images.csv
grep -q 'images.csv: exists and holds no weights' err || fail "--save over a table is not refused"
grep -q '^3,4,1' two.csv || fail "--save has replaced the data"
mkdir -p photos/a photos/b
for i in 1 2 3; do
    printf 'P5 2 2 255 abcd' | tee photos/a/$i.pgm >photos/b/$i.pgm
done
touch two.onnx two.onnx.data
while IFS='|' read -r flag command; do
    # shellcheck disable=SC2086
    expect 2 "$uwasa" $command
    grep -q "reads it, so it is not replaced" err || { cat err >&2; fail "$flag: $command"; }
done <<END
--json|train --model images.json --data images:photos --json photos/a/1.pgm
--trace|train --model images.json --data images:photos/,test=0 --trace photos/b/9.PGM
--json|eval --model two.onnx --data csv:two.csv --json two.onnx.data
--json|sim time --model two.json --json two.json
END
grep -q '^P5' photos/a/1.pgm || fail "an image is replaced"
expect 0 "$uwasa" train --model images.json --data images:photos --steps 2 --json photos/log.json
expect 0 "$uwasa" train --model two.json --data csv:two.csv --steps 1 --save two.safetensors
cp two.safetensors before
expect 1 "$uwasa" train --model two.json --data csv:two.csv --lr 3e38 --steps 9 --save two.safetensors
cmp -s two.safetensors before || fail "weights that are no numbers have replaced good ones"

# a loss that is no number ends badly
expect 0 "$uwasa" train --model two.json --data csv:two.csv --lr 1e20 --steps 1 --save two.safetensors
printf '1e30,2,0\n3e30,4,1\n' >large.csv
expect 1 "$uwasa" eval --model two.json --data csv:large.csv,test=0 --weights two.safetensors
grep -q 'large.csv,test=0: the loss is ' err || fail "eval does not tell that the loss is no number"
mv before two.safetensors

# a device that has seen some of the classes only
sed 's/"out": 2/"out": 4/' two.json >four.json
expect 0 "$uwasa" train --model four.json --data csv:two.csv --steps 3 --batch 1
printf '1,2,0\n3,4,4\n' >five.csv
expect 1 "$uwasa" train --model four.json --data csv:five.csv --steps 3
grep -q 'has 4 classes, data csv:five.csv has labels up to 4' err ||
    fail "a label beyond the model's classes is not told"
expect 2 "$uwasa" train --model mlp --augment crop:28
grep -q 'by 1 to 27 pixels' err || fail "images moved out of sight are not told"

# ranks that add up a vector
for way in "tcp halving" "tcp auto --tls" "udp tree" "loopback doubling"; do
    link=${way%% *}
    expect 0 "$uwasa" bench allreduce --link $link --algorithm ${way#* } --nodes 3 --bytes 20000 \
        --windows 2 --seconds 0.001 --json -
    tail -n 1 out | grep -q '"event":"done".*"chosen":".*"seconds":.*"bus_bytes_per_s":.*"predicted_seconds":' ||
        fail "bench allreduce over $way does not end in done"
done
expect 0 "$uwasa" bench allreduce --node --algorithm halving --nodes 2 --bytes 200000 --windows 2 \
    --seconds 0.001 --json -
tail -n 1 out | grep -q '"event":"done".*"seconds":.*"node_seconds":.*"node_ratio":' ||
    fail "bench allreduce --node does not tell what nodes take"
expect 2 "$uwasa" bench allreduce --node --link udp
expect 2 "$uwasa" bench allreduce --bytes 6
expect 2 "$uwasa" bench allreduce --algorithm fastest
expect 2 "$uwasa" bench allreduce --link udp --tls
grep -q -e '--tls: means nothing to --link udp$' err || fail "TLS over UDP is not refused"

# how fast it trains, and the table beside PyTorch
expect 0 "$uwasa" bench train --work mlp:3,lenet5:1 --windows 3 --seconds 0.01 --threads 1 --json
[ "$(grep -c '"event":"work"' out)" = 2 ] || fail "bench train does not tell of two works"
grep -q '"work":"lenet5:1","threads":1,.*"samples_per_s":\[[0-9.]*,[0-9.]*,[0-9.]*\]' out ||
    fail "bench train does not tell of each window"
expect 0 "$uwasa" bench train --work mlp:2 --windows 1 --seconds 0.01 --threads 1 --beside-plain
grep -q '^  plain .*x slower' out || fail "bench train does not compare with plain loops"
expect 0 "$uwasa" bench train --work resnet20:1:2500K --windows 1 --seconds 0.01 --threads 1 --json
bytes=$(sed -n 's/.*"arena_bytes":\([0-9]*\).*/\1/p' out)
[ "$bytes" -le 2560000 ] || fail "bench train takes $bytes bytes with a budget of 2500K"
expect 2 "$uwasa" bench train --work resnet20:1:2500
expect 2 "$uwasa" bench train --work mlp
grep -q 'needs MODEL:BATCH' err || fail "a work without a minibatch is not told"
expect 2 "$uwasa" bench kernels --work mlp:1
expect 2 "$uwasa" bench kernels --windows 3
grep -q -e '--windows: means nothing to bench kernels$' err || fail "an idle flag is not named"
expect 2 "$uwasa" bench train --against against.json --threads 1
expect 2 "$uwasa" bench train --markdown
expect 2 "$uwasa" bench kernels --write-table missing.h
expect 2 "$uwasa" bench kernels --against missing.so
cat >against.json <<END
{"peers": ["slow", "fast"], "rows": [{"work": "mlp:1", "threads": 1,
 "windows": [[30, 5, 10], [40, 5, 10], [20, 5, 20]], "rss_bytes": [1000000, 2000000, 3000000]}]}
END
expect 0 "$uwasa" bench train --against against.json
grep -q '^mlp:1  *1  *30.0  *10.0  *3.00x  *1.00  *4.00  *1.0  *2.0  *2.0x  fast$' out ||
    { cat out >&2; fail "the ratios are not those of the windows"; }
expect 0 "$uwasa" bench train --against against.json --markdown
grep -qF '| mlp:1 | 1 | 30.0 (20.0 to 40.0) | 10.0 (10.0 to 20.0) | 3.00x (1.00 to 4.00) | 1.0 | 2 | 2.0x |' \
    out || { cat out >&2; fail "the table of the README lacks a figure"; }
sed 's/40/"x"/' against.json >broken.json
expect 2 "$uwasa" bench train --against broken.json
grep -q 'broken.json:2: needs a number' err || fail "the line of a mistake is not told"
sed 's/40/1e999/' against.json >broken.json
expect 2 "$uwasa" bench train --against broken.json
for rows in '[]' 5 '"mlp:1"' null '{"a": 1}'; do
    printf '{"peers": ["fast"], "rows": %s}' "$rows" >broken.json
    expect 2 "$uwasa" bench train --against broken.json
    grep -q 'rows: needs an array of 1 or more' err || fail "rows of $rows are taken for a table"
done
echo passed
