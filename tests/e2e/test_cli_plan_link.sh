#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# uwasa plan --link: what an exchange takes, against figures derived by hand.
#
# usage: test_cli_plan_link.sh UWASA
. "$(dirname "$0")/cli.sh"

# plan ARGUMENTS...: into ./out
plan() {
    expect 0 "$uwasa" plan --json "$@"
}

# is OBJECT KEY VALUE: the key in that object, "" for the outermost, is the number or word
is() {
    case $1 in
    "") sed 's/{[^{}]*}//g; s/.*{//' out ;;
    *) sed "s/.*\"$1\":{\([^}]*\)}.*/\1/" out ;;
    esac >part
    got=$(tr ',' '\n' <part | tr -d '{}"' | sed -n "s/^$2://p")
    [ -n "$got" ] || fail "no $2 in $1: $(cat out)"
    if ! awk -v a="$got" -v b="$3" 'BEGIN {
            if (b + 0 == 0) { exit !(a "" == b "") }
            d = a - b; exit !(d < b * 1e-9 && -d < b * 1e-9) }'; then
        fail "$1 $2 is $got, not $3: $(cat out)"
    fi
}

# 99 * 100 weights and 100 biases: 10000 floats, 40 kB
echo '{"name": "small", "input": [99], "layers": [{"name": "fc", "type": "dense", "out": 100}]}' \
    >small.json

# 802.15.4: 116 - 16 bytes are 25 floats, 400 frames of 133 bytes with all heads, 4.256 ms each;
# 400 / 64 are 7 wants of 37 + 17 bytes, 1.728 ms each; 1.44 ms to get hold of the air, 407 times
plan --model small.json --link 802154 --steps-per-s 2
is "" floats 10000
is "" chunk_floats 25
is pull data_frames 400
is pull want_frames 7
is pull bytes 46659
is pull airtime_seconds 1.714496
is pull seconds 2.300576
is round data_frames 3200
is round seconds 18.404608
is average data_frames 3200
is average airtime_seconds 13.6192
is average seconds 18.2272
is "" period_seconds 184.04608
is "" period_steps 369
is "" verdict good
plan --model small.json --link 802154 --nodes 2 --share 0.5
is round seconds 4.601152
is "" period_seconds 9.202304

# memory: of a small model far less than the 512 KiB that chunks of a large one may wait in
plan --model small.json --link 802154
awk -v p="$(sed 's/.*"network_bytes":\([0-9]*\).*/\1/' out)" \
    'BEGIN { exit !(p > 20000 && p < 250000) }' || fail "memory: $(cat out)"

# two stations of 1 % each talk for 2 % of the time, not for the share; running statistics are told
expect 0 "$uwasa" plan --model dscnn --link lora:SF7 --nodes 2
grep -q 'send for 2 % of the time at most, each for 1 %' out || fail "the time they talk: $(cat out)"
grep -q '^dscnn, 97.3 KiB with running statistics, over' out || fail "statistics: $(cat out)"

# a bus at 100 kbit/s: 250 - 16 bytes are 58 floats, 173 frames of 248 and 12 bytes, the last one of 112 and
# 12; 3 wants of 37 and 12; each of ten bits a byte after 2.5 slots of 8 bytes. A line with two ends has
# two nodes
plan --model small.json --link bus:100k
is "" nodes 8
is pull data_frames 173
is pull airtime_seconds 4.4991
is pull seconds 4.8511
is average data_frames 1384
plan --model small.json --link serial:9600
is "" nodes 2
grep -q '"average":null' out || fail "a line between two has a broadcast average"

# a fifth is lost: 100 frames again, 8 wants for 500 sent 10 times. To all: until 7 others have it a
# frame goes out 2.1074 times (the sum over k of 1 - (1 - 0.2^k)^7), 400 of them 843 times, with 7
# times 7 wants sent 62 times; 8 nodes
plan --model small.json --link 802154 --loss 0.2
is pull data_frames 500
is pull want_frames 10
is pull airtime_seconds 2.14528
is pull seconds 2.87968
is average data_frames 6744
is average want_frames 496
is average airtime_seconds 29.559552

# a node repairs three times its model at most: 400 and 1200 frames of 8 nodes
is average exact true
plan --model small.json --link 802154 --loss 0.9
is average data_frames 12800
is average exact false
expect 0 "$uwasa" plan --model small.json --link 802154 --loss 0.9
grep -q 'it ends inexact' out || fail "an average that ends inexact is not called so"

# what the protocol itself takes in virtual time, whether the air is to be got hold of or not
for loss in 0 0.2; do
    plan --model small.json --link 802154 --loss $loss
    planned=$(sed 's/.*"pull":{[^}]*"airtime_seconds":\([^,]*\),"seconds":\([^}]*\)}.*/\1 \2/' out)
    expect 0 "$uwasa" bench link --link 802154 --bytes 40000 --loss $loss --json -
    awk -v a="${planned% *}" -v s="${planned#* }" -v t="$(number out air_seconds)" \
        'BEGIN { exit !(t > 0.98 * a && t < 1.2 * s) }' ||
        fail "planned $planned s, and it takes $(number out air_seconds) s of air"
done

# LoRa at SF7: 222 - 16 bytes are 51 floats; 196 frames of 368.896 ms, one of 4 floats of 92.416 ms
# and 4 wants of 97.536 ms. Of a station's 1 % a sixteenth is what it may save up, another one
# membership's: 0.875 % are left, 31.5 s in an hour. Of 84 frames and 2 wants a node sends for 31.182336 s,
# of 85 for more: there is room for one of 42 floats beside them. 3 slices, of which the largest is 66
# frames and 2 wants
plan --model small.json --link lora:SF7
is pull data_frames 197
is pull airtime_seconds 72.786176
is pull seconds 8273.83222857143
is round airtime_seconds 582.289408
is round seconds 8318.42011428571
is "" period_seconds 8318.42011428571
is "" verdict slow
is instead slices 3
is instead slice_seconds 2804.82377142857
is instead fits_floats 4326
is instead model dscnn
is instead link 802154
is instead link_seconds 18.404608
grep -q sf7_seconds out && fail "SF7 is to be faster than SF7"

# 6.6 MB at SF12: 35 bytes are 8 floats; 207921 frames of 2.793472 s and one of 2 floats, 24 + 13
# bytes (292 bits are 8 blocks of 40, so 20.25 + 40 symbols of 32.768 ms: 1.974272 s): 580823.465984 s.
# What may be saved up is one frame an hour here: 1 % - 2.793472 / 3600 - 1 % / 16 are left
plan --model fedavg-cnn --link lora:SF12
is pull data_frames 207922
is pull seconds 67545187.1586633
is "" verdict hopeless
expect 0 "$uwasa" plan --model fedavg-cnn --link lora:SF12
grep -q '^hopeless: a round takes more than a day' out || fail "6.6 MB over LoRa is not hopeless"
grep -q 'lora:SF7.*: hopeless too$' out || fail "a faster radio that is not fast enough"
grep -q 'slices .*: hopeless too$' out || fail "slices that are not small enough"
grep -q 'another link  802154, in 51.0 min' out || fail "no link is named that is fast enough"

# What is recommended holds: a slice is whole frames, and one less would take more than an hour; so
# would a float more than what fits.
grow() { # grow FLOATS: a model of so many
    echo "{\"name\": \"n\", \"input\": [$(($1 - 1))], \"layers\": [
        {\"name\": \"fc\", \"type\": \"dense\", \"out\": 1}]}" >grown.json
}
takes() { # takes FLOATS LINK: seconds of a round
    grow "$1"
    plan --model grown.json --link "$2"
    is "" floats "$1"
    sed 's/.*"round":{[^}]*"seconds":\([^}]*\)}.*/\1/' out
}
for case in lora:SF7/lenet5 lora:SF9/dscnn lora:SF10/dscnn lora:SF12/small.json; do
    plan --model "${case#*/}" --link "${case%/*}"
    tr ',{}' '\n' <out >told
    told() { sed -n "s/^\"$1\"://p" told; }
    floats=$(told floats) frame=$(told chunk_floats) slices=$(told slices) fits=$(told fits_floats)
    chunks=$(((floats - 1) / frame + 1))
    slice=$(told slice_seconds)
    hour=$(takes "$fits" "${case%/*}")
    more=$(takes $((fits + 1)) "${case%/*}")
    one=$(takes $((((chunks - 1) / slices + 1) * frame)) "${case%/*}")
    fewer=$(takes $((((chunks - 1) / (slices - 1) + 1) * frame)) "${case%/*}")
    awk -v h="$hour" -v m="$more" -v o="$one" -v s="$slice" -v f="$fewer" -v n="$slices" 'BEGIN {
        exit !(h <= 3600 && m > 3600 && o == s && (n == 32 || s <= 3600) && f > 3600) }' ||
        fail "$case: $hour $more $one $slice $fewer with $slices slices"
done

# Ethernet: 1232 - 38 - 23 bytes are 292 floats; 34 frames of 1229 + 86 bytes, one of 72 floats and
# 349 + 86, a want of 70 + 86, 8 ns each; every pair has its own line
plan --model small.json --link ethernet
is pull airtime_seconds 0.000362408
is round seconds 0.000362408
grep -q '"average":null' out || fail "Ethernet has a broadcast average"
plan --model small.json --link ethernet:100M
is pull seconds 0.00362408

# what is asked for wrongly
while IFS='|' read -r arguments sentence; do
    # shellcheck disable=SC2086
    expect 2 "$uwasa" plan --model mlp $arguments
    grep -qF -e "$sentence" err || fail "plan $arguments: $(cat err)"
done <<'END'
--link zigbee|--link zigbee: needs one of 802154, ble, espnow, lora:SF7 to lora:SF12
--link lora|--link lora: needs one of
--link serial:fast|as bus:9600
--link bus:fast|as bus:9600
--link serial:9600 --nodes 3|--nodes 3: serial is one line between two nodes; for more on one line --link bus:9600
--link 802154 --loss 0.999999|--loss 0.999999: needs
--link 802154 --loss 1.5|--loss 1.5: needs
--link 802154 --share 0|--share 0: needs more
--link 802154 --nodes 1|--nodes 1: needs a whole number from 2 to 4096
--link 802154 --layers|--layers: is about memory, --link about what is exchanged
--link 802154 --budget 1M|--budget: is about memory
--link 802154 --batch 4|--batch: is about memory
--link 802154 --threads 1|--threads: is about memory
--link 802154 --optimizer adam|--optimizer: is about memory
--link 802154 --momentum 0.9|--momentum: is about memory
--link 802154 --snapshot|--snapshot: is about memory
--link 802154 --mode full|--mode: is about memory
--nodes 4|--nodes: needs --link
--loss 0|--loss: needs --link
--share 0.1|--share: needs --link
--steps-per-s 3|--steps-per-s: needs --link
END
exit 0
