#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# train --exact: any number of threads, the reference kernels and a run that was broken in the
# middle give the same file, byte for byte. test_cli_exact.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

small_data small.csv
flags="--model lenet5 --data csv:small.csv --batch 9 --optimizer adam --clip-norm 1 --augment crop:2 --exact"

# shellcheck disable=SC2086
for how in "--threads 1" "--threads 3" "--threads 2 --mode full" "--backend ref"; do
    expect 0 "$uwasa" train $flags $how --steps 25 --save now.safetensors --json events
    grep -q '^exact: kernels' err || fail "$how: the log does not say exact"
    grep -q '"exact":true' events || fail "$how: the last event does not say exact"
    [ -f first.safetensors ] || cp now.safetensors first.safetensors
    cmp first.safetensors now.safetensors || fail "$how gives other weights"
    rm now.safetensors
done

# shellcheck disable=SC2086
expect 0 "$uwasa" train $flags --steps 11 --save broken.safetensors
# shellcheck disable=SC2086
expect 0 "$uwasa" train $flags --steps 25 --save broken.safetensors --resume
cmp first.safetensors broken.safetensors || fail "a resumed run ends with other weights"

# Who goes on without it, begins with it in the middle, or sums in another order, is told.
# shellcheck disable=SC2086
expect 1 "$uwasa" train ${flags% --exact} --steps 30 --save broken.safetensors --resume
grep -q 'broken.safetensors was trained with --exact' err || fail "exact mode ends without a word"
# shellcheck disable=SC2086
expect 1 "$uwasa" train $flags --micro-batch 3 --steps 30 --save broken.safetensors --resume
grep -q -e '--micro-batch' err || fail "another order of sums is not named"
cmp first.safetensors broken.safetensors || fail "a refused run changed the file"
# shellcheck disable=SC2086
expect 0 "$uwasa" train ${flags% --exact} --steps 2 --save rounded.safetensors
# shellcheck disable=SC2086
expect 1 "$uwasa" train $flags --steps 4 --save rounded.safetensors --resume
grep -q -e '--exact: rounded.safetensors was trained without it' err || fail "and not the other way"

# The plan is that of the same kernels.
expect 0 "$uwasa" plan --model lenet5 --batch 4 --threads 2 --exact --json
plan=$(number out total_bytes)
expect 0 "$uwasa" train --model lenet5 --data csv:small.csv --batch 4 --threads 2 --exact --steps 2 --json -
[ "$(number out arena_bytes)" = "$plan" ] || fail "--exact trains in another size than $plan"

# Tables that round in their own order are refused with a sentence; ref is not.
for backend in avx2 avx512 neon fpu; do
    if "$uwasa" plan --model mlp --backend $backend >/dev/null 2>&1; then
        expect 2 "$uwasa" train --model mlp --exact --backend $backend
        grep -q -e "--exact: --backend $backend" err || fail "$backend is not named"
        expect 2 "$uwasa" bench kernels --exact --backend $backend
    fi
done
expect 0 "$uwasa" eval --model lenet5 --weights first.safetensors --exact
expect 0 "$uwasa" bench train --work mlp:1 --exact --windows 1 --seconds 0.01
echo passed
