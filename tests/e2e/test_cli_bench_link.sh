#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pulls over links: what is refused, what is told, and what a radio in virtual time does, which is
# the same every time. test_cli_bench_link.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

bench() {
    expect 0 "$uwasa" bench link --json - "$@"
    tail -n 1 out | grep -q '"event":"done".*"seconds":.*"goodput_bytes_per_s":.*"data_frames":.*"control_frames":' ||
        fail "bench link $* does not end in done"
}
# within KEY LOW HIGH: the number of that key
within() {
    awk -v x="$(number out "$1")" -v low="$2" -v high="$3" \
        'BEGIN { exit !(x != "" && x >= low && x <= high) }' ||
        { cat out >&2; fail "$1 is not within $2 and $3"; }
}

while read -r flags; do
    expect 2 "$uwasa" bench link $flags
    grep -q -- "${flags%% *}" err || { cat err >&2; fail "the sentence does not name ${flags%% *}"; }
done <<END
--link smoke
--link lora:SF7
--link ethernet
--bytes 6
--bytes 0
--loss 1
--rate 10
--latency 61
--nodes 1 --link 802154
--nodes 3
--pulls 2
--pulls 5 --nodes 4 --link 802154
--windows 2 --link 802154
--mtu 300 --link 802154
--clear
--cipher rot13
--cipher aes-128-ccm --link tcp --clear
--cipher aes-128-ccm --link 802154
--loss 0.9 --link 802154
--rate 9600 --link bus:9600
--access --link bus
--access
--exchange average
--pulls 2 --link 802154 --exchange average
--loss 0.1 --link tcp
--rate 12345 --link serial
--mtu 4000 --link serial
--pcap - --link 802154
--pcap - --bytes 4000
END
expect 2 "$uwasa" bench link --link 802154 --code --exchange average
grep -q -- '--code: means nothing to --exchange average' err || { cat err >&2; fail "the culprit"; }
expect 2 "$uwasa" bench links
grep -q 'needs kernels, train, allreduce or link' err || fail "what can be measured is not told"
expect 0 "$uwasa" bench link --help
grep -q '127 of 802.15.4' out || fail "the help does not say what capacity is"

# Eight nodes share 802.15.4. A chunk is 25 floats: 400 frames of 133 bytes with their preamble are
# 1.702 s, and the rest is questions and beacons.
bench --link 802154
within capacity_share 0.76 0.79
within payload_share 0.83 0.87
within data_frames 400 402
within control_frames 1 6
within membership_frames 1 20
within seconds 1.702 1.76
cp out once
bench --link 802154
cmp -s once out || fail "the same seed gave another result"
# Of what is lost there are 1.25 times as many frames at least.
free=$(number once air_frames)
most=$(awk -v n="$free" 'BEGIN { print 1.35 * n }')
bench --link 802154 --loss 0.2
within air_frames "$(awk -v n="$free" 'BEGIN { print 1.15 * n }')" "$most"
cp out lossy
bench --link 802154 --loss 0.2 --seed 2
! cmp -s lossy out || fail "another seed gave the same result"
within air_frames 0 "$most"
bench --link 802154 --loss 0.4
# An average costs one model a node, and is exact.
bench --link 802154 --exchange average
within air_models 8 8.4
within heard_share 1 1
grep -q '"exact":true' out || { cat out >&2; fail "an average without loss is not exact"; }
# Where a fifth is lost it is exact as well: 2.11 times a model a node is the least for seven others.
bench --link 802154 --exchange average --loss 0.2
within air_models 16.8 19
grep -q '"exact":true' out || { cat out >&2; fail "an average with losses is not exact"; }
# Where it is not, what was not heard is not counted.
bench --link 802154 --exchange average --bytes 4000 --loss 0.7
grep -q '"exact":false' out || { cat out >&2; fail "most is lost, and the mean exact"; }
heard=$(number out heard_share)
within chunks 2240 2240     # 56 ways of 1000 floats, 40 chunks of 25
within missed_chunks 1 1568
expect 0 "$uwasa" bench link --link 802154 --exchange average --bytes 4000 --loss 0.7
grep -q 'all but [0-9]* of 2240 chunks were received' out || { cat out >&2; fail "how many were missed"; }
bench --link 802154 --exchange average --bytes 4000 --loss 0.7
moved=$(awk -v h="$heard" -v s="$(number out seconds)" 'BEGIN { print 8 * 4000 * h / s }')
within heard_share 0.3 0.9999
within goodput_bytes_per_s "$(awk -v m="$moved" 'BEGIN { print 0.9999 * m }')" \
    "$(awk -v m="$moved" 'BEGIN { print 1.0001 * m }')"
bench --link 802154 --pulls 8 --bytes 8000
within data_frames 640 700
# What `uwasa plan` says holds; so it does with the time to get hold of the air.
for flags in "" "--access" "--rate 500000"; do
    bench --link 802154 $flags
    s=$(number out predicted_seconds)
    within seconds "$(awk -v s="$s" 'BEGIN { print 0.95 * s }')" \
        "$(awk -v s="$s" 'BEGIN { print 1.1 * s }')"
done
# A bus is slower, and its stations always wait for slots: 173 frames of 260 bytes, 10 bits each.
bench --link bus:9600
within seconds 49.9 52.5
within data_frames 173 175
s=$(number out predicted_seconds)
within seconds "$(awk -v s="$s" 'BEGIN { print 0.95 * s }')" \
    "$(awk -v s="$s" 'BEGIN { print 1.1 * s }')"
bench --link bus:115200 --nodes 4 --bytes 4000 --exchange average
grep -q '"exact":true' out || { cat out >&2; fail "an average on a bus is not exact"; }
bench --link 802154 --nodes 2 --bytes 4
bench --link espnow --nodes 4
within capacity_share 0.7 0.9
bench --link 802154 --nodes 2 --bytes 8000 --latency 0.2    # longer than all of it takes
within seconds 0.4 6
expect 0 "$uwasa" bench link --link 802154 --nodes 2 --bytes 4000
grep -q '^uwasa plan --link predicts 0.1[0-9]* s, as airtime$' out || { cat out >&2; fail "plan"; }
grep -q 'virtual time.*% of its capacity$' out || { cat out >&2; fail "plain words"; }

# In real time only what does not depend on the machine's speed.
bench --link udp --bytes 200000 --windows 2 --mtu 1232
within data_frames 170 100000
grep -q capacity_share out && fail "a capacity that nobody knows"
grep -q target out && fail "a target for so small a pull"
for cipher in chacha20-poly1305 aes-128-ccm aes-128-gcm; do
    for link in udp tcp; do
        bench --link $link --bytes 200000 --windows 1 --cipher $cipher
        grep -q "\"cipher\":\"$cipher\"" out || { cat out >&2; fail "$link not by $cipher"; }
    done
done
bench --link udp --windows 1
grep -q '"target_bytes_per_s":250000000.*"cipher":"' out || { cat out >&2; fail "no target"; }
bench --link udp --bytes 100000 --windows 1 --rate 8000000 --loss 0.05 --latency 0.001
within capacity_share 0.001 1
# A process that the machine halts for 100 ms after it has read its clock asks again: another try.
for try in 1 2 3; do
    bench --link tcp --bytes 200000 --windows 2
    [ "$(number out data_frames)" -ne 13 ] || break
done
within data_frames 13 13
bench --link tcp --clear --bytes 200000 --windows 1
bench --link serial --bytes 4000 --rate 1000000
within capacity_share 0.001 1
