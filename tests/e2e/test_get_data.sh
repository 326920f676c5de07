#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_get_data.sh TOOLS_FOLDER - tools/get-data without a network
#
# Wrong use, missing and damaged copies always; with MNIST in UWASA_MNIST_DIR also a whole copy,
# its repair, and that a second run changes nothing.
set -u

get_data=$1/get-data
source=${UWASA_MNIST_DIR:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

expect() { # STATUS PART_OF_MESSAGE ARGUMENTS...
    wanted=$1 part=$2
    shift 2
    status=0
    "$get_data" "$@" >"$folder/out" 2>&1 || status=$?
    if [ "$status" -eq "$wanted" ] && grep -q -- "$part" "$folder/out"; then
        echo "ok: get-data $*"
    else
        echo "FAILED: get-data $*: status $status, wanted $wanted and \"$part\":"
        cat "$folder/out"
        failed=1
    fi
}

expect_file() { # FILE there|gone
    state=gone
    [ -e "$1" ] && state=there
    [ "$state" = "$2" ] || { echo "FAILED: $1 is $state"; failed=1; }
}

expect 0 "mnist|cifar10 DIR" --help
expect 2 "which set"
expect 2 "fashion: no such set" fashion "$folder/a"
expect 2 "into which folder" mnist
expect 2 "needs a folder" mnist "$folder/a" --from
expect 2 "no such option" mnist "$folder/a" --form x
expect 2 "one set and one folder" mnist a b
expect 1 "no such folder" mnist "$folder/a" --from "$folder/nowhere"

mkdir "$folder/copy"
expect 1 "no train-images-idx3-ubyte" mnist "$folder/a" --from "$folder/copy"
echo wrong >"$folder/copy/train-images-idx3-ubyte"
expect 1 "its SHA-256 differs" mnist "$folder/a" --from "$folder/copy"
rm "$folder/copy/train-images-idx3-ubyte"
echo "not gzip" >"$folder/copy/train-images-idx3-ubyte.gz"
expect 1 "could not be unpacked" mnist "$folder/a" --from "$folder/copy"
expect_file "$folder/a/train-images-idx3-ubyte" gone
expect_file "$folder/a/train-images-idx3-ubyte.part" gone

if [ -n "$source" ] && [ -d "$source" ]; then
    expect 0 "t10k-labels-idx1-ubyte: there and right" mnist "$folder/b" --from "$source"
    echo cut >"$folder/b/t10k-labels-idx1-ubyte"
    expect 0 "t10k-labels-idx1-ubyte: there and right" mnist "$folder/b" --from "$source"
    chmod a-w "$folder/b"/*
    expect 0 "t10k-labels-idx1-ubyte: there and right" mnist "$folder/b" --from "$folder/copy"
else
    echo "skipped: no MNIST"
fi
exit $failed
