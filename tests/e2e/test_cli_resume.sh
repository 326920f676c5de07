#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A run that is killed (SIGKILL) at any point and resumed ends with the same file, byte for byte;
# one that is interrupted (SIGTERM) saves and ends well. test_cli_resume.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"
seed=${UWASA_TEST_SEED:-$(date +%s)}
echo "seed=$seed"

flags="--model mlp --data digits --steps 400 --batch 16 --lr 0.05 --momentum 0.9 --schedule cosine
    --seed 3 --threads 1 --save-every 7"

# shellcheck disable=SC2086
"$uwasa" train $flags --save whole.safetensors >out 2>err || fail "the unbroken run"

# Pauses spread over a run's length and a bit beyond, by a small generator.
kills=0
i=0
while [ $i -lt 12 ]; do
    seed=$(((seed * 1103515245 + 12345) % 2147483648))
    # shellcheck disable=SC2086
    "$uwasa" train $flags --save broken.safetensors --resume >out 2>err &
    pid=$!
    sleep "0.$(printf %03d $((seed / 65536 % 150)))"
    if kill -9 $pid 2>/dev/null; then
        kills=$((kills + 1))
    fi
    wait $pid 2>/dev/null
    i=$((i + 1))
done
echo "kills=$kills"
# shellcheck disable=SC2086
"$uwasa" train $flags --save broken.safetensors --resume >out 2>err ||
    { cat err >&2; fail "the last resume"; }
cmp whole.safetensors broken.safetensors || fail "a resumed run ends with other weights"

# SIGTERM in the middle: saved, status 0, and resumed to the same end
"$uwasa" train --model lenet5 --steps 100000 --save term.safetensors >out 2>err &
pid=$!
sleep 0.6
kill -TERM $pid
wait $pid
status=$?
[ $status = 0 ] || { cat err >&2; fail "SIGTERM gives status $status"; }
grep -q '^uwasa train: interrupted at step [0-9]* of 100000, saved; --resume' err || fail "SIGTERM is not told"
grep -q '^interrupted    at step [0-9]* of 100000$' out || fail "the result does not tell SIGTERM"
[ -s term.safetensors ] || fail "SIGTERM saved nothing"

# What is not saved is a failure; a command that keeps nothing ends at once. As uwasa --help says
"$uwasa" --help | tr '\n' ' ' | grep -q 'with 0 if the state is saved, else 1, and other commands at once' ||
    fail "the help does not tell"
"$uwasa" train --model lenet5 --steps 100000 >out 2>err &
pid=$!
sleep 0.6
kill -INT $pid
wait $pid
status=$?
[ $status = 1 ] || { cat err >&2; fail "SIGINT without --save gives status $status"; }
mkfifo lines
"$uwasa" predict --model lenet5 --weights term.safetensors <lines >out 2>err &
pid=$!
exec 3>lines
sleep 0.3
kill -TERM $pid
wait $pid
status=$?
exec 3>&-
[ $status = 143 ] || { cat err >&2; fail "predict and SIGTERM give status $status"; }

# Another seed, another batch, another file: refused with a sentence
expect 1 "$uwasa" train --model mlp --steps 401 --batch 16 --momentum 0.9 --seed 4 --resume \
    --save whole.safetensors
grep -q -e '--seed 4' err || fail "the other seed is not named"
head -c 1000 whole.safetensors >cut.safetensors
expect 1 "$uwasa" train --model mlp --steps 401 --batch 16 --seed 3 --resume --save cut.safetensors
expect 1 "$uwasa" train --model lenet5 --steps 401 --batch 16 --seed 3 --resume \
    --save whole.safetensors

# Another model of the same shapes; a file of a version that did not save what computed it is taken
"$uwasa" models mlp >mine.json
sed 's/"relu"/"tanh"/' mine.json >other.json
if cmp -s mine.json other.json; then fail "the models are the same"; fi
resume="--steps 401 --batch 16 --momentum 0.9 --seed 3 --threads 1 --resume --save whole.safetensors"
# shellcheck disable=SC2086
expect 1 "$uwasa" train --model other.json $resume
grep -q 'whole.safetensors: was saved by another model, whose layers differ' err || fail "the other model"
sed 's/uwasa.layers/uwasa.lay_rs/; s/"uwasa.sum/"other.sum/g' whole.safetensors >older.safetensors
# shellcheck disable=SC2086
expect 0 "$uwasa" train --model mine.json ${resume% *} older.safetensors
grep -q 'older.safetensors: resuming at step 400' err || fail "an older file"
echo passed
