#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training on the messages of an MQTT broker. test_cli_mqtt.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"
PATH=$PATH:/usr/sbin

cat >disc.json <<'END'
{"name": "disc", "input": [2], "layers": [{"name": "fc1", "type": "dense", "out": 16},
 {"name": "relu1", "type": "relu"}, {"name": "fc2", "type": "dense", "out": 2}]}
END
"$uwasa" train --model disc.json --data mqtt://127.0.0.1:1/a --steps 1 >out 2>err
if grep -q 'install libmosquitto' err; then
    echo "skipped: built without MQTT"
    exit 77
fi
if ! command -v mosquitto >/dev/null || ! command -v mosquitto_pub >/dev/null; then
    echo "skipped: needs a broker, Debian packages mosquitto and mosquitto-clients"
    exit 77
fi

broker=
trainer=
silent=
unanswered=
finish() {
    for pid in $trainer $broker $unanswered $silent; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap finish EXIT

# until_true SECONDS COMMAND...: repeat it until it is true
until_true() {
    tries=$(($1 * 10))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}
has() { grep -q -- "$1" "$2"; }

start_broker() {
    : >broker.log
    mosquitto -v -c broker.conf >>broker.log 2>&1 &
    broker=$!
}
stop_broker() {
    kill $broker
    wait $broker 2>/dev/null
    broker=
}

# a free port: the broker ends at once where another program has it
for try in 1 2 3 4 5; do
    port=$((20000 + ($$ * 7 + try * 1009) % 12000))
    cat >broker.conf <<END
listener $port 127.0.0.1
allow_anonymous true
max_queued_messages 0
END
    start_broker
    until_true 5 has 'mosquitto version .* running' broker.log && break
    stop_broker
done
[ -n "$broker" ] || { cat broker.log >&2; fail "no broker"; }
publish() { mosquitto_pub -h 127.0.0.1 -p "$port" -q 1 "$@" || fail "publishing"; }

awk 'BEGIN { srand(5); for (; n < 2000; n++) { x = 2 * rand() - 1; y = 2 * rand() - 1
    print x "," y "," (x * x + y * y < 0.6) } }' >disc.csv
url=mqtt://127.0.0.1:$port/plant/+/disc

# what takes connections and never answers, for TLS or without: told after 10 s, while the rest is tested
for try in 1 2 3 4 5; do
    dead=$((20000 + ($$ * 11 + try * 2003) % 12000))
    "$uwasa" train --model disc.json --data stream:tcp:127.0.0.1:$dead --steps 1 >silent.out 2>silent.err &
    silent=$!
    sleep 0.3
    kill -0 $silent 2>/dev/null && break
done
"$uwasa" train --model disc.json --data mqtts://127.0.0.1:$dead/a --steps 1 >dead.out 2>dead.err &
unanswered=$!
"$uwasa" train --model disc.json --data mqtts://127.0.0.1:$dead/b --steps 1 >int.out 2>int.err &
trainer=$!
sleep 0.5
kill -INT $trainer
gone() { ! kill -0 "$1" 2>/dev/null; }
until_true 8 gone $trainer || fail "SIGINT does not end it while nobody answers"
wait $trainer && fail "no sample is a success"
trainer=

# training waits for the first message ...
"$uwasa" train --model disc.json --lr 0.1 --data "$url,epoch=5000" --steps 1000000000 \
    --save live.safetensors --json events.jsonl >out 2>err &
trainer=$!
until_true 20 has SUBACK broker.log || { cat broker.log err >&2; fail "it does not subscribe"; }
sleep 0.3
[ -s events.jsonl ] && has '"event":"step"' events.jsonl && fail "it trains on nothing"
publish -t plant/other/speed -m 1,2,3,4
publish -t plant/one/disc -l <disc.csv
until_true 20 has '"event":"step"' events.jsonl || { cat err >&2; fail "it does not train"; }
until_true 20 has "^$url: lines of 2 numbers and a label; up to 4096 samples are kept\$" err ||
    { cat err >&2; fail "how messages are is not told"; }

# ... goes on while the broker is away, and takes what comes when it is there again
stop_broker
until_true 30 has "$url: the broker is gone" err || fail "that the broker is gone is not told"
steps=$(grep -c '"event":"step"' events.jsonl)
more() { [ "$(grep -c '"event":"step"' events.jsonl)" -gt "$steps" ]; }
until_true 20 more || fail "it does not train without the broker"
start_broker
until_true 20 has SUBACK broker.log || fail "it does not come back"
publish -t plant/two/disc -m '{"x": [0.1, 0.2], "label": 9}'
until_true 30 has "$url: the broker is there again" err || fail "that it is there again is not told"
until_true 30 has 'the last is line 2001: label 9' err ||
    { tail -n 3 err >&2; fail "what came is not read"; }
kill -TERM $trainer
wait $trainer || { tail -n 3 err >&2; fail "SIGTERM with --save is no failure"; }
trainer=
expect 0 "$uwasa" eval --model disc.json --weights live.safetensors --data csv:disc.csv --json -
awk -v a="$(number out test_accuracy)" 'BEGIN { exit !(a > 0.9) }' || fail "it learned nothing"

until_true 15 gone $unanswered || fail "it waits for an answer for ever"
wait $unanswered && fail "no answer is a success"
unanswered=
has "127.0.0.1 port $dead has not answered for 10 s: is it a broker's port for TLS" \
    dead.err || { cat dead.err >&2; fail "that nobody answers is not told"; }
kill $silent
wait $silent 2>/dev/null
silent=

# a user that the broker does not know, and one that it knows
stop_broker
: >users
chmod 600 users
mosquitto_passwd -b users me secret || fail "mosquitto_passwd"
chmod 644 users
chmod 755 .
printf 'listener %s 127.0.0.1\nallow_anonymous false\npassword_file %s/users\n' "$port" "$work" \
    >broker.conf
start_broker
until_true 10 has 'mosquitto version .* running' broker.log ||
    { cat broker.log >&2; fail "a broker with users"; }
echo wrong >wrong
echo secret >right
one="--model disc.json --steps 1 --data mqtt://me@127.0.0.1:$port/disc"
# shellcheck disable=SC2086
"$uwasa" train $one,password=right >out 2>err &
trainer=$!
until_true 20 has SUBACK broker.log || { cat broker.log err >&2; fail "the right password"; }
publish -u me -P secret -t disc -m 0.1,0.2,1
wait $trainer || { cat err >&2; fail "training with a password"; }
trainer=

says() {
    while IFS='|' read -r status arguments sentence; do
        # shellcheck disable=SC2086
        expect "$status" "$uwasa" $arguments
        grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
    done
}
says <<END
1|train $one,password=wrong|ot authorised
1|train $one,password=nothing|password file nothing
END
stop_broker
bad="train --model disc.json --data"
says <<END
1|$bad mqtt://127.0.0.1:$port/disc|no broker at 127.0.0.1 port $port: Connection refused
2|$bad mqtt://127.0.0.1|needs a topic
2|$bad mqtt://127.0.0.1/a/#/b|needs a topic
2|$bad mqtt:///a|needs the name or address of a broker
2|$bad mqtt://h:0/a|needs a port
2|$bad mqtt://me:secret@h/a|password=FILE
2|$bad mqtt://h/a,keep=x|ca=FILE
2|$bad mqtt://h/a,ca=x|for mqtts://
2|$bad mqtts://h/a,cert=x|cannot be read
2|$bad mqtt://h/a --validation 0.1|a stream tests with every sixth sample
2|eval --model disc.json --weights live.safetensors --data mqtt://h/a|needs data that is there
END
echo passed
