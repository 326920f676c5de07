#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a node says: of what cannot work before it begins, and of what happens to it.
# test_cli_node_says.sh PROGRAM
here=$(dirname "$(realpath "$0")")
. "$here/cli.sh"

"$uwasa" keygen run.key || fail keygen
small_data small.csv
radio="--set link.radio=udp:239.255.85.87:4879 --set link.address=3"

# node STATUS [--set KEY=VALUE ...]: one that is soon done
node() {
    status=$1
    shift
    expect "$status" "$uwasa" node --set run=r --set key=run.key --set data=csv:small.csv \
        --set name=n --set model=mlp --set steps=1 --set consensus_seconds=0 "$@"
}
said() {
    grep -qF -- "$1" err || { cat err >&2; fail "it does not say: $1"; }
}

# the narrowest frames have room for short names only: as long as it says
node 2 $radio --set mtu=51 --set name=radio-in-the-attic
most=$(sed -n 's/.*"name" may have at most \([0-9]*\) characters with "mtu" 51, has 18$/\1/p' err)
[ -n "$most" ] || { cat err >&2; fail "how long may a name be?"; }
node 0 $radio --set mtu=51 --set name="$(printf "%.${most}s" radio-in-the-attic)"
# a mistake on the command line is not the file's
echo '{"name": "n", "run": "r", "key": "run.key", "model": "mlp", "exchange": "gossip",
 "link": {"radio": "udp:239.255.85.87:4879", "address": 3}}' >radio.json
for set in link.radio=4811 exchange=allreduce name=a-name-that-has-more-than-31-characters \
        link.address=65534 link=udp; do
    expect 2 "$uwasa" node --config radio.json --set "$set"
    said "--set $set: "
    grep -q radio.json err && { cat err >&2; fail "the file is right"; }
done
expect 2 "$uwasa" node --config radio.json --set link=radio
said '--set link=radio: needs udp, tcp or mpi; or --set link.serial=DEVICE; or'

# a model that does not fit the data is refused before it gets memory, of which there is not enough
limited() {
    (ulimit -v 400000 && exec "$uwasa" "$@")
}
if [ -z "$UWASA_SANITIZED" ]; then      # a sanitizer needs more than that
    for command in "node --set name=n --set run=r --set key=run.key --set model=resnet50" \
            "train --model alexnet"; do
        limited $command >out 2>err && fail "$command: digits are no such images"
        grep -q 'takes 3x22[47]x22[47] samples, data digits has 1x28x28' err || { cat err >&2; fail "why?"; }
    done
fi

# what an exchange takes on a link whose rate is known: 408 kB in frames of 250 bytes, 1200 bytes/s
slow="$radio --set emulate.rate=9600 --set seconds=0.1"
node 0 $slow
said 'a pull takes about 6.06 min here, longer than the run'
node 0 $slow --set slices=10
said 'a pull of a slice takes about 36.4 s here, longer than the run'
node 0 $slow --set exchange=broadcast
said 'an average of two nodes takes about 12.1 min here, longer than the run'
node 0 $radio --set emulate.rate=90000000 --set seconds=5
grep -q 'takes about' err && fail "a pull of 40 ms is no news"
echo passed
