#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training on WAV files, in a folder a class. test_cli_sounds.sh PROGRAM
. "$(dirname "$(realpath "$0")")/cli.sh"

# wav FILE HZ: half a second of a tone, 8 bits, 8000 samples a second
wav() {
    mkdir -p "$(dirname "$1")"
    {
        printf 'RIFF\304\017\000\000WAVEfmt \020\000\000\000\001\000\001\000'
        printf '\100\037\000\000\100\037\000\000\001\000\010\000data\240\017\000\000'
        awk -v hz="$2" -v seed="$3" 'BEGIN { srand(seed); loud = 20 + 80 * rand()
            for (i = 0; i < 4000; i++)
                printf "\\%03o", int(128 + loud * sin(6.2831853 * hz * i / 8000) + 4 * rand()) }' >octal
        printf "$(cat octal)"
    } >"$1"
}
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    wav "tones/low/$i.wav" $((380 + i * 5)) "$i"
    wav "tones/mid/$i.wav" $((860 + i * 9)) "$i"
    wav "tones/high/$i.wav" $((2200 + i * 20)) "$i"
done
for i in 1 2 3; do
    printf 'low/%s.wav\nmid/%s.wav\nhigh/%s.wav\n' $i $i $i
done >tones/testing_list.txt
cat >words.json <<'END'
{"name": "words", "input": [1, 24, 24], "layers": [
 {"name": "conv1", "type": "conv2d", "out_channels": 8, "kernel": 5, "stride": 2},
 {"name": "relu1", "type": "relu"}, {"name": "flatten", "type": "flatten"},
 {"name": "fc", "type": "dense", "out": 3}]}
END
expect 0 "$uwasa" train --model words.json --data sounds:tones --epochs 30 --batch 9 --optimizer adam \
    --lr 0.003 --save words.safetensors --json events.jsonl
grep -q '^tones: 3 classes for training: high (9), low (9), mid (9)$' err &&
    grep -q '^tones: 27 clips for training, 9 for testing, by testing_list.txt$' err &&
    grep -q '^tones: a clip is 3920 samples of 8000 Hz: 24 frames of 240 (window), one every 160' err ||
    { cat err >&2; fail "what was found is not told"; }
awk -v a="$(number events.jsonl test_accuracy)" 'BEGIN { exit !(a > 0.99) }' ||
    fail "it learned nothing: $(number events.jsonl test_accuracy)"
# a file is heard as in training, with the names of the classes
for word in low mid high; do
    expect 0 "$uwasa" predict --model words.json --weights words.safetensors tones/$word/2.wav
    grep -q "^$word	" out || { cat out >&2; fail "what $word is"; }
done
expect 0 "$uwasa" eval --model words.json --weights words.safetensors --data sounds:tones
grep -q '^test accuracy  100.00 %' out || fail "eval"

# an ONNX file and C source know how it hears
expect 0 "$uwasa" convert words.json words.onnx --weights words.safetensors
expect 0 "$uwasa" predict --model words.onnx tones/mid/2.wav
grep -q '^mid	' out || { cat out >&2; fail "the ONNX file hears otherwise"; }
expect 0 "$uwasa" convert words.onnx words.c
grep -q '\.rate_hz = 8000, \.window_n = 240, \.hop_n = 160, \.frames_n = 24, \.mels_n = 24,$' words.c ||
    fail "the C source does not say how sound is heard"

# other options, another file, and weights that know of no sound
wav other.wav 500 1
printf 'x' | dd of=other.wav bs=1 seek=24 conv=notrunc 2>/dev/null
expect 0 "$uwasa" train --model words.json --data sounds:tones,mels=24,window=25,hop=15 --epochs 1
grep -q '24 frames of 200 (window), one every 120 (hop), each as 24 mels' err || fail "options"
sed 's/uwasa\.data/uwasa.none/; s/"uwasa\.sum/"other.sum/g' words.safetensors >none.safetensors
while IFS='|' read -r status arguments sentence; do
    # shellcheck disable=SC2086
    expect "$status" "$uwasa" $arguments
    grep -qF -- "$sentence" err || { cat err >&2; fail "no '$sentence': $arguments"; }
done <<END
1|predict --model words.json --weights words.safetensors other.wav|ffmpeg -ar 8000
1|predict --model words.json --weights words.safetensors none.wav|none.wav
1|predict --model words.json --weights none.safetensors other.wav|was not trained on sounds:DIR
2|train --model words.json --data sounds:tones,hop=x|hop=x: needs a number
1|train --model words.json --data sounds:tones,mels=12|the model takes 24 numbers for each
1|train --model words.json --data sounds:none|none
END
echo passed
