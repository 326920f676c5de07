# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of the program: source it with the program's path in $1. Gives $uwasa, a
# temporary working directory that is removed at the end, and fail/expect.
uwasa=$(realpath "$1")
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect STATUS COMMAND...: run it; for a mistake (1 or 2) exactly one line must be on standard
# error, and it must not have died from a signal. Leaves the output in ./out and ./err.
expect() {
    want=$1
    shift
    timeout 120 "$@" >out 2>err </dev/null
    got=$?
    if [ "$got" != "$want" ]; then
        cat err >&2
        fail "status $got, not $want: $*"
    fi
    if [ "$want" != 0 ] && [ "$(grep -c '^uwasa' err)" != 1 ]; then
        cat err >&2
        fail "not one line about the mistake: $*"
    fi
}

# small_data FILE: 240 images of 28 x 28, ten classes of stripes, as a table; for tests that are not
# about what is learned, because a test of all digits takes a sanitizer seconds
small_data() {
    awk 'BEGIN { srand(3); for (i = 0; i < 240; i++) { c = i % 10; for (k = 0; k < 784; k++) {
        printf "%.2f,", k % 10 == c ? rand() : rand() / 4 } print c } }' >"$1"
}

# number FILE KEY: the value of a key in the last line of a file of JSON lines
number() {
    tail -n 1 "$1" | sed -n "s/.*\"$2\":\([-+0-9.e]*\).*/\1/p"
}
