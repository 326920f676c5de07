#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulator: what it refuses, what it tells, that it repeats itself. test_cli_sim.sh PROGRAM
. "$(dirname "$(realpath "$0")")/sim.sh"

cat >sim <<END
#!/bin/sh
exec "$uwasa" sim --model plane.json --data csv:four.csv --nodes 4 --batch 10 --lr 0.1 \
    --step-seconds 0.01 "\$@"
END
chmod +x sim

# the help has its headings, the last of which comes only after all others
"$uwasa" sim --help >out || fail "--help"
[ "$(grep -c '^[A-Z][^.]*:$' out)" = 10 ] && grep -q '^Results:$' out ||
    { cat out >&2; fail "headings of --help"; }

# what is refused, each with one line and status 2
expect 2 "$uwasa" sim
grep -q -- '--model: is needed' err || fail "a missing model"
while read -r flags; do
    expect 2 ./sim $flags
    grep -q -- "${flags%% *}" err || { cat err >&2; fail "the sentence does not name ${flags%% *}"; }
done <<END
--nodes 1
--nodes 5000
--skew unsorted
--skew dirichlet:0
--exchange mail
--cell-nodes 0
--schedule nobody
--lr-schedule falling
--momentum-rule none --momentum-rule adam
--momentum-rule slowmo
--momentum-rule kgt --exchange allreduce
--schedule random --momentum-rule kgt
--momentum 0 --momentum-rule kgt
--until-accuracy 2
--steps 5 --epochs 5
--steps 0 --epochs 5
--steps 0 --epochs 5 --virtual-seconds 1
--steps 0
--advise-seconds 5
--advise-runs 5
--checkpoint-seconds 5
--csv out.csv --dry-run
--checkpoint kept --dry-run
--step-seconds -1
--step-seconds 1e-9
--bandwidth 99
--bandwidth 2000000000000
--eval-seconds 1e-300
--momentum 0
--nodes 600
--cell-nodes 4 --exchange gossip
--schedule matching --exchange allreduce
--mtu 1024 --network formula
--period 0
--period sometimes
--period auto --exchange allreduce
--period auto --momentum-rule kgt
--period auto --network formula
--period auto --advise
--share 0.1
--share 0 --period auto
--pull-window 64K --network formula
--exchange broadcast
--link wifi
--link lora:SF6
--exchange allreduce --link 802154
--link 802154 --network formula
--link 802154 --advise
--bandwidth 1000000 --link 802154
--latency 0.01 --link espnow
--mtu 512 --link 802154 --exchange broadcast
--loss 0.91 --link 802154
--loss 0.91 --network formula
--slices 4 --network formula
--nesterov
--nesterov --momentum 0.9 --momentum-rule qg
--slices 4 --advise
--share 0.2 --exchange allreduce
--slices 4 --link 802154 --exchange broadcast
END
./sim --bandwidth 1000000 --link 802154 2>err
grep -q 'choose another radio, or leave --link out' err || { cat err >&2; fail "no remedy"; }
for key in '"latency": 0.1' '"mtu": 512' '"nodes": [{"count": 3}, {"count": 2, "bandwidth": 1e6}]'; do
    printf '{"model": "plane.json", "data": "csv:four.csv", "link": "802154",\n%s}' "$key" >air.json
    expect 2 "$uwasa" sim --config air.json
    grep -q 'air.json:2: "[a-z]*" cannot be combined with "link"' err || { cat err >&2; fail "$key and a radio"; }
done
expect 1 ./sim --data csv:nowhere.csv
expect 1 "$uwasa" sim --model plane.json --data digits
grep -q 'model plane takes' err || fail "data that does not fit the model"

# one radio for all: pulls and broadcast averages, the same each time; how much of the air they took
for exchange in gossip broadcast; do
    for file in radio.jsonl again.jsonl; do
        ./sim --link 802154 --exchange $exchange --steps 60 --step-seconds 0.05 --json $file \
            >out 2>err || { cat err >&2; fail "--link 802154 --exchange $exchange"; }
    done
    [ "$(tail -n 1 radio.jsonl | sed 's/"seconds":.*//')" = \
      "$(tail -n 1 again.jsonl | sed 's/"seconds":.*//')" ] || fail "$exchange on a radio repeats itself"
    # A frame takes 1.44 ms to get hold of the air and 32 us a byte, 28 bytes of heads to the longest's
    # 133: 2.336 to 5.696 ms. 116 floats are 4 of the longest and one with 16 floats, 97 bytes: 27.3
    # ms for each pull, and for each average of a node, which sends its own once.
    awk -v s="$(number radio.jsonl air_seconds)" -v f="$(number radio.jsonl air_frames)" \
        -v p="$(number radio.jsonl pulls_done)" -v a="$(number radio.jsonl averages_done)" '
        BEGIN { exit !(s >= 2.336e-3 * f && s <= 5.697e-3 * f && s >= 27.3e-3 * (p + a) &&
                       p + a >= 8) }' || { cat radio.jsonl >&2; fail "air_seconds of $exchange"; }
done
awk -v n="$(number radio.jsonl averages_done)" 'BEGIN { exit !(n >= 4) }' || fail "averages by broadcast"

# what is lost is sent again, on a radio and elsewhere
each() {    # bytes for each average or pull of a file
    awk -v n="$(number $1 bytes_sent)" -v a="$(number $1 averages_done)" \
        -v p="$(number $1 pulls_done)" 'BEGIN { print n / (a + p) }'
}
for flags in "--link 802154 --exchange broadcast" "--bandwidth 1000000"; do
    for loss in 0 0.3; do
        ./sim $flags --loss $loss --steps 60 --step-seconds 0.05 --json loss$loss.jsonl >out 2>err ||
            { cat err >&2; fail "$flags --loss $loss"; }
    done
    head -n 1 loss0.3.jsonl | grep -q '"loss":0.3' || fail "start does not tell the loss"
    awk -v a="$(each loss0.jsonl)" -v b="$(each loss0.3.jsonl)" 'BEGIN { exit !(b > 1.1 * a) }' ||
        { tail -n 1 loss0.jsonl loss0.3.jsonl >&2; fail "$flags --loss 0.3 costs nothing"; }
done
# every radio's frames carry what a node tells of itself: nodes meet and exchange
for radio in 802154 espnow lora:SF7 lora:SF8 lora:SF9 lora:SF10 lora:SF11 lora:SF12 \
    bus:9600; do
    ./sim --link $radio --nodes 2 --steps 30 --period 1 --step-seconds 600 --json radio.jsonl \
        >out 2>err || { cat err >&2; fail "--link $radio"; }
    awk -v p="$(number radio.jsonl pulls_done)" 'BEGIN { exit !(p >= 1) }' ||
        { tail -n 1 radio.jsonl >&2; fail "no pull over $radio"; }
done

# A dry run says what the radio is, what an exchange takes as plan does, and how many there will be;
# the run then makes about as many: 5 pulls of 116 floats a node in 50 steps of which 10 are a round.
./sim --link 802154 --steps 50 --dry-run >out 2>err || { cat err >&2; fail "a dry run of a radio"; }
grep -q '^802154: 250 kbit/s, frames of 116 bytes, one channel for all$' out &&
    ! grep -q 'up\|unlimited\|latency' out || { cat out >&2; fail "what the radio is"; }
"$uwasa" plan --link 802154 --model plane.json --nodes 4 --json >plan || fail "plan of the radio"
./sim --link 802154 --steps 50 --step-seconds 0.1 --dry-run --json dry.jsonl >out 2>err ||
    { cat err >&2; fail "a dry run of a radio, told as events"; }
[ "$(sed 's/.*"pull":{[^}]*"seconds":\([^}]*\)}.*/\1/' plan)" = \
  "$(number dry.jsonl exchange_seconds)" ] ||
    { cat plan dry.jsonl >&2; fail "plan and a dry run tell different times"; }
[ "$(number dry.jsonl exchanges)" = 20 ] || { cat dry.jsonl >&2; fail "not five pulls a node"; }
grep -q ': about 20 pulls in this run' out || { cat out >&2; fail "how many pulls there will be"; }
./sim --link 802154 --steps 50 --step-seconds 0.1 --json radio.jsonl >out 2>err || fail "that run"
awk -v p="$(number radio.jsonl pulls_done)" 'BEGIN { exit !(p >= 15 && p <= 25) }' ||
    { cat radio.jsonl >&2; fail "not as many as the dry run said"; }
expect 1 ./sim --link 802154 --data csv:nowhere.csv --dry-run
# and a run in which nothing was exchanged says so
for exchange in gossip:pull broadcast:average; do
    ./sim --link lora:SF12 --exchange ${exchange%:*} --steps 20 >out 2>err || fail "a short run"
    grep -q "^${exchange#*:}s  *0 " out &&
        grep -q "nothing was exchanged: an* ${exchange#*:} takes .* here, see uwasa plan --link lora:SF12" \
            out || { cat out >&2; fail "nothing was exchanged, and it is not told"; }
done

# what is told: progress apart from results, start, a test for each epoch but the last, done
./sim --skew sorted --epochs 4 --json events.jsonl >out 2>err || { cat err >&2; fail "a run"; }
grep -q '^test accuracy' out && grep -q '^virtual time' out || { cat out >&2; fail "no result"; }
grep -q 'test accuracy' err || fail "no progress"
head -n 1 events.jsonl | grep -q '"event":"start","nodes":4,"model":"plane.json","parameters":116' ||
    fail "the first event is not start"
[ "$(grep -c '"event":"eval"' events.jsonl)" = 3 ] || fail "not one test for each epoch"
tail -n 1 events.jsonl | grep -q '"event":"done"' || fail "the last event is not done"
for key in virtual_seconds test_accuracy epochs bytes_sent worst_accuracy best_accuracy \
    mean_model_accuracy test_loss steps pulls_done seconds; do
    [ -n "$(number events.jsonl $key)" ] || fail "done has no $key"
done
# 1000 samples of 1200 train; 4 nodes x 10 a step make 25 steps an epoch, 10 ms each
awk -v e="$(number events.jsonl epochs)" -v s="$(number events.jsonl virtual_seconds)" \
    -v a="$(number events.jsonl test_accuracy)" -v w="$(number events.jsonl worst_accuracy)" \
    -v b="$(number events.jsonl best_accuracy)" -v n="$(number events.jsonl bytes_sent)" '
    BEGIN { exit !(e == 4 && s >= 1 && s < 1.2 && a > 0.8 && w <= a && a <= b && n > 40 * 464) }' ||
    { tail -n 1 events.jsonl >&2; fail "the figures of done"; }

# the same seed tells the same, byte for byte; another seed does not
./sim --skew sorted --epochs 4 --json again.jsonl >/dev/null 2>&1 || fail "a run again"
told events.jsonl >a
told again.jsonl >b
cmp -s a b || { diff a b >&2; fail "the same seed, another run"; }
./sim --skew sorted --epochs 4 --seed 2 --json other.jsonl >/dev/null 2>&1 || fail "another seed"
told other.jsonl | sed 's/"seed":2/"seed":1/' >b
cmp -s a b && fail "another seed, the same run"

# a pull is 464 bytes and their heads at 100 kbit/s, and 10 ms for the way there and back: 0.049 s or
# more, 49 steps in a tenth of the time and 5 in all of it; longer where two pull from one
for case in "0.1 45 130" "1 4 13"; do
    # shellcheck disable=SC2086
    set -- $case
    ./sim --period auto --share "$1" --bandwidth 100000 --steps 3000 --json period.jsonl \
        >out 2>/dev/null || fail "--period auto"
    awk -v t="$(number period.jsonl period_steps)" -v l="$2" -v m="$3" \
        'BEGIN { exit !(t >= l && t <= m) }' ||
        { tail -n 1 period.jsonl >&2; fail "--period auto --share $1: not $2 to $3 steps"; }
    head -n 1 period.jsonl | grep -q '"period":"auto"' || fail "start tells another period"
    grep -q '^period .* steps at the end' out || fail "the period is not told"
done

# fewer tests change nothing else, nor does a look at where the time goes
./sim --skew sorted --epochs 4 --eval-epochs 2 --profile --json fewer.jsonl >/dev/null 2>err ||
    fail "--eval-epochs 2"
[ "$(grep -c '"event":"eval"' fewer.jsonl)" = 1 ] || fail "--eval-epochs 2: not one test"
told fewer.jsonl | tail -n 1 >b
tail -n 1 a | cmp -s - b || fail "--eval-epochs 2: another run"
grep -q '^training .* us a node-step$' err || fail "--profile tells nothing"
[ "$(grep '"event":"profile"' fewer.jsonl | tr , '\n' | grep -c '_seconds"')" = 4 ] ||
    fail "no profile among the events"

# as many threads as you like compute the same, and fail the same
for flags in "--nodes 7 --skew sorted --epochs 3" "--exchange allreduce --nodes 5 --steps 60" \
    "--momentum-rule kgt --steps 60 --eval-steps 7" "--period 1 --steps 40 --bandwidth 100000" \
    "--period auto --steps 300 --bandwidth 100000" \
    "--nodes 90 --steps 20 --batch 2 --per-node --eval-nodes 9 --eval-seconds 0.05"; do
    for threads in 1 2 3; do
        ./sim $flags --threads $threads --json - 2>err >out || { cat err >&2; fail "$flags"; }
        told out >by$threads
    done
    cmp -s by1 by2 && cmp -s by1 by3 || { diff by1 by3 >&2; fail "$flags: threads tell"; }
done
cp by1 nine
cat >churn.json <<END
{"model": "plane.json", "data": "csv:four.csv", "batch": 10, "lr": 0.1, "steps": 150,
 "skew": "sorted", "eval_steps": 20, "nodes": [
    {"name": "boards", "count": 9, "step": {"seconds": 0.01}, "bandwidth": 1e6,
     "speed": {"log-normal": {"median": 1, "decades": 0.5}},
     "availability": {"churn": {"up": 0.5, "down": 0.1, "forgets": 0.5}}},
    {"name": "gateways", "count": 2, "step": {"seconds": 0.002}}]}
END
for threads in 1 2 3; do        # devices of all speeds, which come and go and forget
    "$uwasa" sim --config churn.json --threads $threads --checkpoint end$threads --json - 2>err \
        >out || { cat err >&2; fail "a fleet that comes and goes"; }
    told out >by$threads
done
cmp -s by1 by2 && cmp -s by1 by3 && cmp -s end1 end2 && cmp -s end1 end3 ||
    { diff by1 by3 >&2; fail "threads tell of a fleet"; }
rm end1 end2 end3
cp nine by1
grep -q '"eval_nodes":9' by1 || fail "not 9 of 90 nodes tested"
[ "$(tail -n 1 by1 | sed 's/.*"accuracies":\[\([^]]*\)\].*/\1/' | tr , '\n' | wc -l)" = 9 ] ||
    fail "not 9 accuracies"
./sim --lr 1e30 --steps 50 --threads 1 >out 2>why1 && fail "lr 1e30 looks like success"
./sim --lr 1e30 --steps 50 --threads 3 >out 2>why3 && fail "lr 1e30 looks like success"
grep '^uwasa sim:' why1 >a
grep '^uwasa sim:' why3 >b
grep -q 'node ., step .*lower --lr' a && cmp -s a b ||
    { cat a b >&2; fail "another reason with more threads"; }

# the parameters at the end are the same bits, too
for flags in "--skew sorted --epochs 2" "--exchange allreduce --nodes 5 --momentum-rule slowmo"; do
    for threads in 1 2 3; do
        ./sim $flags --threads $threads --checkpoint end$threads >/dev/null 2>err ||
            { cat err >&2; fail "--checkpoint: $flags"; }
    done
    cmp end1 end2 && cmp end1 end3 || fail "$flags: threads compute"
    rm end1 end2 end3
done

# a run goes on where it was left: epoch, virtual time, bytes, and what its nodes have learned
for flags in "--skew sorted" "--momentum-rule kgt --momentum 0.5" "--nodes 7 --momentum-rule none" \
    "--exchange allreduce --momentum-rule slowmo --lr 0.03" "--bandwidth 50000 --consensus-rounds 0" \
    "--exchange hierarchical --nodes 7 --cell-nodes 3" "--network formula --momentum-rule none" \
    "--exchange auto --momentum 0.5"; do
    rm -f part.jsonl part.csv part
    ./sim $flags --epochs 5 --json whole.jsonl >/dev/null 2>err || { cat err >&2; fail "$flags"; }
    ./sim $flags --epochs 5 --until-accuracy 0.01 --checkpoint part --json part.jsonl \
        --csv part.csv >/dev/null 2>err || { cat err >&2; fail "$flags --checkpoint"; }
    before=$(number part.jsonl bytes_sent)
    [ "$(number part.jsonl epochs)" = 1 ] || fail "$flags: it did not end with epoch 1"
    ./sim $flags --epochs 5 --checkpoint part --resume part --threads 3 --json part.jsonl \
        --csv part.csv >/dev/null 2>err || { cat err >&2; fail "$flags --resume"; }
    grep -q 'resuming after' err || fail "$flags: it does not say that it goes on"
    for key in epochs steps test_accuracy virtual_seconds bytes_sent; do
        echo "$key $(number whole.jsonl $key) $(number part.jsonl $key)"
    done | awk '{ apart = $2 > $3 ? $2 - $3 : $3 - $2
        # an exchange that was under way is lost, of the eight or so that a node makes
        most = $1 == "test_accuracy" ? 0.01 : $1 == "epochs" || $1 == "steps" ? 0 : 0.35 * $2
        if (apart > most) { print; bad = 1 } } END { exit bad }' || fail "$flags: it goes on elsewhere"
    [ "$(number part.jsonl bytes_sent)" -gt "$before" ] || fail "$flags: bytes begin anew"
    [ "$(grep -c '"event":"start"' part.jsonl)" = 2 ] || fail "$flags: events were lost"
    [ "$(grep -c '^label,' part.csv)" = 1 ] || fail "$flags: the table begins twice"
    [ "$(wc -l <part.csv)" = 7 ] || fail "$flags: not 6 tests in the table"
done
./sim --epochs 5 --checkpoint new --resume new >/dev/null 2>err || fail "the first of a series"
# What was not given is kept as it is in force: runs that older programs saved go on.
for said in schedule:random momentum-rule:qg period:10 exchange:gossip network:events; do
    head -c 4000 new | grep -aq "\"flag.${said%:*}\":\"${said#*:}\"" || fail "$said is not kept"
done
grep -q 'new: does not exist yet' err || fail "it does not say that it begins"
while read -r sentence flags; do
    expect 1 ./sim --exchange auto --momentum 0.5 --epochs 5 --resume part $flags
    grep -q -- "$sentence" err || { cat err >&2; fail "the sentence has no $sentence"; }
done <<END
--epochs.6:.the.run.in.part.was.made.with.5 --epochs 6
--nodes.5 --nodes 5
--lr.0.2 --lr 0.2
not.found --resume nowhere
damaged --resume four.csv
damaged --resume plane.json
END
while read -r sentence from to; do      # of other programs: no word of damage; sizes stay
    LC_ALL=C sed "s/$from/$to/" part >older
    expect 1 ./sim --exchange auto --momentum 0.5 --epochs 5 --resume older
    grep -q "another version of uwasa: $sentence" err && ! grep -q damaged err ||
        { cat err >&2; fail "a state with $to"; }
done <<END
its.format.is.7,.that.of.this.version.is.4 "uwasa.version":"4" "uwasa.version":"7"
it.has.no.--start-spread "flag.start-spread": "fleg.start-spread":
it.has.--stirt-spread,.which "flag.start-spread": "flag.stirt-spread":
END
fleet() { # fleet DOWN SPEED: devices of their own, in fleet.json
    cat >fleet.json <<END
{"model": "plane.json", "data": "csv:four.csv", "batch": 10, "steps": 20, "nodes": [{"count": 4,
 "step": {"seconds": 0.01}, "speed": $2, "availability": {"churn": {"up": 0.5, "down": $1}}}]}
END
}
fleet 0.1 1
expect 0 "$uwasa" sim --config fleet.json --checkpoint fleet
expect 0 "$uwasa" sim --config fleet.json --resume fleet
for other in "0.101 1" "0.1 2"; do
    fleet $other
    expect 1 "$uwasa" sim --config fleet.json --resume fleet
    grep -q 'made with other devices' err || { cat err >&2; fail "another fleet: $other"; }
done
head -c 3000 part >cut
{ cat part; echo; } >long
set -- cut long
header=$(od -An -tu8 -N8 part)
for at in $((header - 200)) $((8 + header + 48)) $((8 + header + 500)) $(($(wc -c <part) - 300)) \
    $(($(wc -c <part) - 3)); do         # a shape, a learner, parameters, velocities, the hash
    byte=$(od -An -tu1 -j "$at" -N 1 part)
    cp part "bit$at"
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="bit$at" bs=1 seek="$at" conv=notrunc 2>/dev/null
    set -- "$@" "bit$at"
done
for file in "$@"; do
    expect 1 ./sim --exchange auto --momentum 0.5 --epochs 5 --resume "$file"
    grep -q damaged err || { cat err >&2; fail "--resume $file"; }
done
# with other tests than before it makes those to come, and none that lies behind
./sim --epochs 9 --until-accuracy 0.01 --eval-epochs 3 --checkpoint tests >/dev/null 2>&1 ||
    fail "the first of three epochs"
./sim --epochs 9 --eval-epochs 4 --resume tests --json - 2>/dev/null >out || fail "--eval-epochs 4"
grep -q '"event":"eval","epochs":4' out && grep -q '"event":"eval","epochs":8' out &&
    [ "$(grep -c '"event":"eval"' out)" = 2 ] || { cat out >&2; fail "other tests"; }
./sim --epochs 9 --eval-epochs 2 --resume tests --json - 2>/dev/null >out || fail "--eval-epochs 2"
grep '"event":"eval"' out | head -n 1 | grep -q '"epochs":4' || { cat out >&2; fail "a test behind"; }
expect 2 ./sim --checkpoint four.csv
grep -q 'is not replaced' err || fail "data as a checkpoint"

# rows after the checkpoint, as a run has them that was killed, are not there twice; nor one half
./sim --epochs 9 --resume tests --csv table.csv --label 'a
b,"c"' >/dev/null 2>&1 || fail "a table after --resume"
[ "$(grep -c '^b,' table.csv)" = 6 ] || { cat table.csv >&2; fail "not 6 rows"; }
for cut in 0 40; do
    head -c -$cut table.csv >again.csv
    ./sim --epochs 9 --resume tests --csv again.csv --label 'a
b,"c"' >/dev/null 2>&1
    cmp -s table.csv again.csv || { cat again.csv >&2; fail "the table after a kill, less $cut bytes"; }
done

# rows of another run stay, whichever of the two goes on; a run that has ended has its last row once
cp table.csv two.csv
sed -n 's/^b,""c""",/other,/p' table.csv >other.rows
cat other.rows >>two.csv
for cut in 0 5; do
    head -c -$cut two.csv >again.csv
    { cat again.csv; [ $cut = 0 ] || echo; } >want.csv
    sed 1d table.csv >>want.csv
    ./sim --epochs 9 --resume tests --csv again.csv --label 'a
b,"c"' >/dev/null 2>&1
    cmp -s want.csv again.csv || { diff want.csv again.csv >&2; fail "rows of another run"; }
done
./sim --epochs 2 --checkpoint ended --csv ended.csv >/dev/null 2>&1 || fail "a run that ends"
cp ended.csv once.csv
./sim --epochs 2 --resume ended --csv ended.csv >/dev/null 2>&1 || fail "a run that had ended"
cmp -s once.csv ended.csv || { cat ended.csv >&2; fail "its last row is there twice"; }

# results replace nothing that the run reads, and are not each other
echo '{"model": "plane.json", "data": "csv:four.csv", "steps": 3, "nodes": 3}' >small.json
ln -s four.csv linked
mkdir images
cp four.csv images/t10k-labels-idx1-ubyte
ln -s images/t10k-labels-idx1-ubyte labels
echo '0,1,2' >away.csv
cp away.csv lenet5
echo '{"nodes": 4, "availability": {"trace": "away.csv"}}' >trace.json
for flags in "--data mnist:images --json images/t10k-labels-idx1-ubyte" \
    "--data mnist:./images/ --csv labels" \
    "--config trace.json --csv away.csv" "--config trace.json --json ./away.csv" \
    "--config trace.json --checkpoint trace.json" "--checkpoint plane.json"; do
    cat four.csv images/t10k-labels-idx1-ubyte away.csv trace.json plane.json | cksum >before
    expect 2 ./sim --steps 3 $flags
    grep -q 'is not replaced' err || { cat err >&2; fail "$flags: another sentence"; }
    cat four.csv images/t10k-labels-idx1-ubyte away.csv trace.json plane.json | cksum |
        cmp -s - before || fail "$flags: a file is lost"
done
./sim --steps 3 --data mnist:images --csv images/new.csv >/dev/null 2>err
grep -q 'is not replaced' err && fail "results may lie beside data"
expect 0 "$uwasa" sim --model lenet5 --data digits --nodes 2 --steps 1 --batch 1 \
    --step-seconds 0.01 --eval-nodes 1 --eval-samples 10 --eval-epochs 0 --json lenet5
for flags in "--json four.csv" "--csv ./four.csv" "--json plane.json" "--csv linked" \
    "--config small.json --json small.json" "--resume part --json part" "--resume part --csv ./part" \
    "--json new.x --csv ./new.x" "--json new.x --checkpoint new.x" "--csv $PWD/new.x --checkpoint new.x"; do
    cat four.csv plane.json small.json part | cksum >before
    expect 2 ./sim --steps 3 $flags
    cat four.csv plane.json small.json part | cksum | cmp -s - before && [ ! -e new.x ] ||
        fail "$flags: a file is lost"
done
expect 0 ./sim --steps 3 --json /dev/null --csv /dev/null

# all rules, schedules and kinds of skew run, and events may go to standard output
for flags in "--momentum-rule noloco" "--momentum-rule none --momentum 0.9" \
    "--schedule matching" "--schedule hypercube --skew dirichlet:0.5" "--schedule base2" \
    "--bandwidth 250000 --latency 0.05 --mtu 256" "--bandwidth 0 --latency 0" \
    "--exchange allreduce --nodes 5" "--exchange allreduce --momentum-rule slowmo --lr 0.03" \
    "--exchange allreduce --momentum-rule diloco --lr 0.03" \
    "--exchange hierarchical --nodes 7 --cell-nodes 3" \
    "--exchange hierarchical --momentum-rule slowmo --lr 0.03" "--exchange auto --latency 0.001" \
    "--exchange allreduce --momentum-rule none --bandwidth 1000000 --latency 0.02" \
    "--consensus-rounds 0 --lr-schedule cosine" "--nodes 7 --period 3"; do
    ./sim --steps 60 $flags --json - >out 2>err || { cat err >&2; fail "$flags"; }
    awk -v a="$(number out test_accuracy)" 'BEGIN { exit !(a > 0.5) }' ||
        { cat err >&2; fail "$flags: learned nothing"; }
    grep -qv '^{' out && fail "$flags: results among the events"
done

# an exact average leaves all nodes with the same model, and takes its time on the network
./sim --steps 40 --exchange allreduce --bandwidth 100000 --json - >out 2>err ||
    { cat err >&2; fail "averages"; }
awk -v w="$(number out worst_accuracy)" -v b="$(number out best_accuracy)" \
    -v m="$(number out mean_model_accuracy)" -v n="$(number out averages_done)" \
    -v s="$(number out virtual_seconds)" '
    BEGIN { exit !(w == b && m == b && n == 16 && s > 0.4 + 4 * 464 * 8 / 100000) }' ||
    { cat out >&2; fail "the figures of averages"; }

# one partner a step costs a node the same among 4 and among 64, within one per cent; what members
# tell each other costs by time. All in step: then nobody's last pull ends in others' last step
cat >wide.json <<END
{"name": "wide", "input": [2], "layers": [
    {"name": "fc1", "type": "dense", "out": 300}, {"name": "relu", "type": "relu"},
    {"name": "fc2", "type": "dense", "out": 300}, {"name": "relu2", "type": "relu"},
    {"name": "fc3", "type": "dense", "out": 4}]}
END
for n in 4 64; do
    "$uwasa" sim --model wide.json --data csv:four.csv --nodes $n --batch 4 --steps 20 --period 1 \
        --schedule hypercube --step-seconds 0.05 --start-spread 0 --latency 0.0001 \
        --consensus-rounds 0 --json - >out 2>err || { cat err >&2; fail "$n nodes"; }
    echo "$(number out bytes_sent) $n" >>partners
done
awk '{ each[NR] = $1 / $2 } END { print "bytes a node:", each[1], each[2]
    exit !(each[2] / each[1] < 1.01 && each[1] / each[2] < 1.01) }' partners ||
    fail "one partner a step"

# what it takes is told before it starts, and refused when it is not there
./sim --steps 2 --threads 3 >out 2>err || fail "two steps"
grep -q '^memory: .* for the nodes, .* for 3 models, .* free' err ||
    { cat err >&2; fail "it does not say what it takes"; }
if [ "$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)" -lt 100000000 ]; then  # 100 GB
    expect 1 "$uwasa" sim --model fedavg-cnn --nodes 25000 --step-seconds 0.1
    grep -q 'nodes 25000: they need about [0-9.]* GiB of memory, .* free' err ||
        { cat err >&2; fail "no sentence about memory"; }
else
    echo "not tested: a run that does not fit, this machine is too large"
fi

# it ends with the epoch that is good enough
./sim --epochs 50 --until-accuracy 0.8 --json - >out 2>err || { cat err >&2; fail "--until-accuracy"; }
awk -v e="$(number out epochs)" 'BEGIN { exit !(e >= 1 && e < 50) }' || fail "it went on after 0.8"

# a step's time is measured when it is not given
"$uwasa" sim --model plane.json --data csv:four.csv --nodes 3 --steps 20 >out 2>err ||
    { cat err >&2; fail "a measured step"; }

# it can be stopped, at once, and keeps what it has
start() { # start EVENT FLAGS: a run that does not end; until it has told an event. Leaves $pid
    event=$1
    shift
    rm -f ev.jsonl
    ./sim --epochs 100000 "$@" --json ev.jsonl >out 2>err &
    pid=$!
    trap 'kill -9 $pid 2>/dev/null; rm -rf "$work"' EXIT
    for tenth in $(seq 300); do
        grep -q "\"event\":\"$event\"" ev.jsonl 2>/dev/null && break
        sleep 0.1
    done
}
stop() { # stop EVENT FLAGS: half a second after an event; leaves $status
    start "$@"
    sleep 0.5
    kill -INT $pid
    for tenth in $(seq 300); do     # half a minute
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    kill -0 $pid 2>/dev/null && fail "SIGINT does not stop it"
    wait $pid
    status=$?
}
start eval --checkpoint held --checkpoint-seconds 0.2
flock held.part sleep 1                                 # as another run that saves there
wait $pid
[ $? = 1 ] && grep -q 'checkpoint held: .* another process is writing it' err ||
    { cat err >&2; fail "two runs with one checkpoint"; }
stop start --nodes 16 --step-seconds 86400 --checkpoint day    # one step is a day of messages
[ $status = 0 ] || { cat err >&2; fail "stopped in the first day: status $status"; }
for flags in "" "--exchange allreduce --period 1 --bandwidth 100000 --checkpoint among" \
    "--checkpoint stopped --checkpoint-seconds 0.2"; do
    stop eval $flags
    [ "$status" = "$([ -n "$flags" ] && echo 0 || echo 1)" ] || fail "$flags: status $status"
    grep -q 'interrupted at step [0-9]* of [0-9]* ([0-9.]* % in the last test, mean model [0-9.]* %)' err ||
        { cat err >&2; fail "it does not say where it was stopped"; }
    tail -n 1 ev.jsonl | grep -q '"event":"stopped".*"test_accuracy"' || fail "the last event"
done
./sim --epochs 100000 --exchange allreduce --period 1 --bandwidth 100000 --resume among \
    --until-accuracy 0.9 --json - >out 2>err || { cat err >&2; fail "averages after SIGINT"; }
awk -v w="$(number out worst_accuracy)" 'BEGIN { exit !(w > 0.9) }' || fail "averages were torn"
awk -v n="$(number ev.jsonl steps)" 'BEGIN { exit !(n > 25) }' || fail "stopped before the start"
./sim --epochs 100000 --resume stopped --until-accuracy 0.5 --json on.jsonl >out 2>err ||
    { cat err >&2; fail "it does not go on after SIGINT"; }
awk -v then="$(number ev.jsonl steps)" -v now="$(number on.jsonl steps)" \
    'BEGIN { exit !(now >= then) }' || fail "it does not go on where it was stopped"

echo passed
