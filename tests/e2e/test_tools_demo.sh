#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/demo: what it does in which order and what it says, with stand-ins for all that installs,
# builds and learns. test_tools_demo.sh TOOLS
tools=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export work

fail() {
    cat out err calls >&2
    echo "FAILED: $*" >&2
    exit 1
}

mkdir -p tree/tools bin elsewhere
cp "$tools/demo" tree/tools/demo
cat >tree/tools/setup <<'END'
#!/bin/sh
echo "setup $*" >>"$work/calls"
exit ${SETUP_STATUS:-0}
END
cat >bin/cmake <<'END'
#!/bin/sh
# Where another one has to say that it waits, the build lasts until then, a minute at most.
until_said() {
    tries=0
    while [ -e "$work/twice" ] && ! grep -qs 'waiting for it' "$work/err1" "$work/err2" &&
        [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
mkdir "$work/busy" || echo overlap >>"$work/calls"
echo "cmake $*" >>"$work/calls"
echo "[1/2] Building C object x.c.o"
if [ "$1" = --build ]; then
    until_said
    [ "$3" != "${BROKEN:-}" ] || { echo "x.c:1: a mistake"; rmdir "$work/busy"; exit 1; }
    case $3 in cortex-m7) file=apps/firmware/gossip_node.elf ;; *) file=uwasa ;; esac
    mkdir -p "build/$3/$(dirname "$file")"
    printf '#!/bin/sh\necho "in $PWD: $*"\n' >"build/$3/$file"
    chmod +x "build/$3/$file"
fi
rmdir "$work/busy"
END
chmod +x tree/tools/setup bin/cmake
export PATH="$work/bin:$PATH"

# demo STATUS [OPTION...]: run it from another directory
demo() {
    want=$1
    shift
    : >calls
    (cd elsewhere && ../tree/tools/demo "$@") >out 2>err </dev/null
    got=$?
    [ $got = "$want" ] || fail "status $got, not $want: tools/demo $*"
}

demo 0 --help
grep -q 'OPTION' out && [ ! -s calls ] || fail "help sets up or says nothing"
demo 0 --json x.jsonl
grep -qxF "in $work/elsewhere: demo --json x.jsonl" out || fail "the directory or the options"
grep -q '^tools/demo: building the program' err || fail "nothing about the build"
grep -q '^setup $' calls || fail "not the plain set-up"

demo 0 --boards
grep -q 'aarch64' calls && fail "it builds for 64-bit Arm without the libraries"
mkdir -p tree/.cache/aarch64
touch tree/.cache/aarch64/complete
rm -rf tree/build
demo 0 --boards
printf '%s\n' 'setup demo' \
    'cmake --preset release' 'cmake --build --preset release --target uwasa' \
    'cmake --preset cortex-m7' 'cmake --build --preset cortex-m7 --target gossip_node' \
    'cmake --preset aarch64-static' 'cmake --build --preset aarch64-static --target uwasa' |
    cmp -s - calls || fail "other steps"
[ "$(grep -c '^tools/demo: building' err)" = 3 ] || fail "not the three builds that were new"
demo 0 --boards
[ -s err ] && fail "it speaks although nothing is new"

BROKEN=cortex-m7 demo 1 --boards
grep -q 'x.c:1: a mistake' err || fail "the compiler's sentence is lost"
grep -q "build of the boards' firmware failed" err || fail "it does not say what failed"
grep -q 'Building C object' err && fail "the mistake is between lines of progress"
[ -s out ] && fail "it starts although a build failed"
SETUP_STATUS=1 demo 1 --boards
grep -q cmake calls && fail "it builds although the set-up failed"

# twice at once: one builds, the other waits and says so
: >calls
rm -r tree/build
command -v flock >/dev/null && : >twice
for i in 1 2; do
    tree/tools/demo >out$i 2>err$i </dev/null &
done
wait
cat out1 out2 >out
cat err1 err2 >err
grep -q overlap calls && fail "two build at once"
[ "$(grep -c '^in ' out)" = 2 ] || fail "one of two did not start"
if command -v flock >/dev/null; then
    grep -q 'waiting for it' err || fail "the other one does not say that it waits"
fi
echo passed
