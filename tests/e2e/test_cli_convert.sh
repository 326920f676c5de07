#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models in and out of the program. test_cli_convert.sh PROGRAM
onnx=$(dirname "$(realpath "$0")")/../parity/onnx
onnx=$(realpath "$onnx")
. "$(dirname "$(realpath "$0")")/cli.sh"

# wrong use, one line each
expect 2 "$uwasa" convert "$onnx/residual.onnx"
grep -qF 'IN and OUT: are needed' err || fail "a missing OUT is not named"
expect 2 "$uwasa" convert lenet5 lenet5.onnx
grep -qF -- '--weights: is needed' err || fail "lenet5 has no weights to convert"
expect 2 "$uwasa" convert nothing.onnx out
grep -qF 'nothing.onnx: cannot be opened' err || fail "a missing file is not named"
head -c 900 "$onnx/residual.onnx" >cut.onnx
expect 2 "$uwasa" convert cut.onnx out
grep -qF 'cut: ' err || fail "a cut file is not named"
expect 0 "$uwasa" convert --help
grep -qF ' ConvTranspose ' out || fail "the operators are not listed"

expect 2 "$uwasa" convert "$onnx/residual.onnx" out.pt
grep -qF 'out.pt: OUT ends in .onnx or .c' err || fail "another ending is not refused"
expect 2 "$uwasa" train --model "$onnx/residual.onnx" --steps 1 --save mine.onnx
grep -qF 'mine.onnx: holds weights' err || fail "--save over an ONNX file is not refused"

# a small model on the built-in digits: ONNX file, folder, and exported file train alike
expect 0 "$uwasa" train --model mlp --data digits --steps 5 --save mlp.safetensors
expect 0 "$uwasa" convert mlp mlp.onnx --weights mlp.safetensors
expect 0 "$uwasa" convert mlp.onnx folder
expect 2 "$uwasa" convert mlp.onnx ./mlp.onnx
grep -qF 'OUT ./mlp.onnx: IN reads it, so it is not replaced' err || fail "OUT is IN by another name"

# no room: told, and nothing half is left (a limit for files, in blocks of 512 bytes or of 1024)
for out in full.onnx full.c full; do
    (ulimit -f 40 && "$uwasa" convert mlp $out --weights mlp.safetensors >out 2>err)
    [ $? = 1 ] || fail "a full disk: $out"
    grep -q "$out.*: cannot be written: File too large\|$out.*: cannot write: no space is left" err ||
        { cat err >&2; fail "a full disk is not told: $out"; }
    [ ! -e $out ] || fail "half of $out is left"
done
expect 0 "$uwasa" convert folder/model.json mlp.c --weights folder/weights.safetensors
grep -q '^const struct uw_model_def ' mlp.c || fail "the C source has no definition"
expect 0 "$uwasa" train --model mlp.onnx --data digits --no-shuffle --steps 5 --json a.jsonl
expect 0 "$uwasa" train --model folder/model.json --weights folder/weights.safetensors \
    --data digits --no-shuffle --steps 5 --json b.jsonl
expect 0 "$uwasa" train --model mlp --weights mlp.safetensors --data digits --no-shuffle \
    --steps 5 --json c.jsonl
for run in a b c; do
    grep '"event":"step"' $run.jsonl | sed 's/.*"loss":\([^,}]*\).*/\1/' >$run.loss
    [ -s $run.loss ] || fail "$run.jsonl has no loss"
done
cmp -s a.loss b.loss || fail "ONNX and folder train differently"
cmp -s a.loss c.loss || fail "an exported model trains differently"
grep -q 'is scaled' err && fail "numbers as they are, told as scaled"
expect 0 "$uwasa" plan --model mlp.onnx --batch 1 --json
# files of other programs as a model
printf 'PK\003\004and what follows' >rooms.pt
expect 2 "$uwasa" plan --model rooms.pt
grep -qF 'rooms.pt: an archive of PyTorch or Keras, which only it reads: export' err ||
    fail "an archive of PyTorch is not named"
expect 2 "$uwasa" plan --model mlp.safetensors
grep -qF 'safetensors hold weights alone: --weights mlp.safetensors' err || fail "weights as a model"
expect 0 "$uwasa" eval --model mlp.onnx --data digits
expect 0 "$uwasa" eval --model mlp.onnx --data digits --weights mlp.safetensors

# what a file leaves open, and flags for it
expect 2 "$uwasa" plan --model "$onnx/residual.onnx" --output nothing
grep -qF -- "--output nothing: no such output: it has 'output'" err || fail "outputs are not named"
expect 0 "$uwasa" plan --model "$onnx/residual.onnx" --output output --shape 2,6,6
expect 2 "$uwasa" eval --model "$onnx/residual.onnx" --shape 2,6,7
grep -qF -- '--shape 2,6,7: axis 3 of input' err || fail "a wrong size is not named"
expect 2 "$uwasa" train --model mlp --shape 784
grep -qF -- '--shape: mlp is no ONNX file' err || fail "--shape of a built-in model is not refused"
expect 2 "$uwasa" train --model mlp --unfused
grep -qF -- '--unfused: mlp is no ONNX file' err || fail "--unfused of a built-in model is not refused"
cp "$onnx/forms.onnx" .
expect 2 "$uwasa" plan --model forms.onnx
grep -qF "tensor w1: its data lies in 'forms.weights': no such file" err ||
    fail "missing external data is not named"
cp "$onnx/forms.weights" .
expect 0 "$uwasa" plan --model forms.onnx

# weights that fit in part
"$uwasa" models mlp | sed 's/"out": 10/"out": 12/' >twelve.json
expect 1 "$uwasa" train --model twelve.json --weights mlp.safetensors --steps 1
grep -qF -- 'tensor fc2.weight is' err || fail "the tensor that does not fit is not named"
grep -qF -- '--weights FILE,loose takes what fits' err || fail "the flag is not named"
expect 0 "$uwasa" train --model twelve.json --weights mlp.safetensors,loose --steps 1
grep -qF '2 tensors of another shape than in the model, as at the start (first: fc2.weight)' err ||
    fail "what does not fit is not told"
printf '1,0,cat\n0,1,dog\n1,1,cat\n0,0,dog\n' >pets.csv
echo '{"name": "pets", "input": [2], "layers": [{"name": "a", "type": "dense", "out": 2}]}' >pets.json
expect 0 "$uwasa" train --model pets.json --data csv:pets.csv,pets.csv --steps 1 --save pets.safetensors
expect 0 "$uwasa" eval --model pets.json --data csv:pets.csv,pets.csv --weights pets.safetensors
cp err strict
expect 0 "$uwasa" eval --model pets.json --data csv:pets.csv,pets.csv \
    --weights pets.safetensors,loose
cmp -s err strict || fail "what is kept with weights is not read from loose ones"
expect 2 "$uwasa" train --model twelve.json --weights mlp.safetensors,loose --steps 1 \
    --json mlp.safetensors
grep -qF -- '--weights reads it' err || fail "a file of weights with a word behind it is replaced"

# a file of another program: batch norm that the model has not, whose exporter folded it
if command -v python3 >/dev/null; then
    cat >write.py <<'END'
import json, struct, sys
head, data = {}, b""
for word in sys.argv[2:]:
    name, *dim = word.split(",")
    n = 1
    for d in dim:
        n *= int(d)
    head[name] = {"dtype": "F32", "shape": [int(d) for d in dim],
                  "data_offsets": [len(data), len(data) + 4 * n]}
    data += struct.pack(f"<{n}f", *(0.01 * i for i in range(n)))
head = json.dumps(head).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + data)
END
    python3 write.py norm.safetensors a.weight,2,2 a.bias,2 bn.weight,2 bn.bias,2 \
        bn.running_mean,2 bn.running_var,2
    expect 1 "$uwasa" eval --model pets.json --data csv:pets.csv,pets.csv --weights norm.safetensors
    grep -qF 'its batch norm (bn.running_mean) was folded when the model was exported' err ||
        fail "folded batch norm is left out"
    grep -qF 'optimize=False' err && grep -qF -- '--weights FILE,loose takes what fits' err ||
        fail "no cure for folded batch norm"
    expect 0 "$uwasa" eval --model pets.json --data csv:pets.csv,pets.csv \
        --weights norm.safetensors,loose
    grep -qF '4 tensors not in the model, left out (first: bn.weight)' err || fail "not told"
    python3 write.py norm.safetensors a.weight,2,2 a.bias,2 optimizer.kept.bn.running_mean,2
    expect 0 "$uwasa" eval --model pets.json --data csv:pets.csv,pets.csv --weights norm.safetensors
    # names of PyTorch in the file of a recurrent network
    echo '{"name": "r", "input": [2, 1], "layers": [{"name": "one", "type": "lstm", "hidden": 2,
     "last": true}, {"name": "fc", "type": "dense", "out": 2}]}' >r.json
    for name in one. net.lstm.; do
        python3 write.py r.safetensors ${name}weight_ih_l0,8,1 ${name}weight_hh_l0,8,2 \
            ${name}bias_ih_l0,8 ${name}bias_hh_l0,8 fc.weight,2,2 fc.bias,2
        expect 0 "$uwasa" convert r.json $name.c --weights r.safetensors
        cp err $name.err
    done
    cmp -s one..c net.lstm..c || fail "a layer by its shape is another one"
    [ -s one..err ] && grep -q 'is taken for' one..err && fail "PyTorch's name is doubted"
    grep -qF "net.lstm.weight_ih_l0 is taken for the model's layer one, by their order" net.lstm..err ||
        { cat net.lstm..err >&2; fail "a layer taken by its shape is not told"; }
fi

# what the loss wants is said, and what comes back has it
expect 0 "$uwasa" convert "$onnx/shapes.onnx" shapes
grep -qF 'the softmax at the end is left out' err || fail "a softmax vanished silently"
expect 0 "$uwasa" convert "$onnx/shapes.onnx" back.onnx
grep -qF "back.onnx: output 'output' ends in LogSoftmax again" err || fail "no word of its end"
expect 0 "$uwasa" convert back.onnx shapes
grep -qF 'the softmax at the end is left out' err || fail "the file that comes back has no softmax"

# what is kept with the weights goes along: names of classes, scale of columns, the threshold
awk 'BEGIN { srand(3); print "a,b,c,kind"; for (; n < 300; n++) { a = 100 + 20 * rand()
    print a "," rand() "," 5 * rand() "," (a > 110 ? "warm?" : "cold") } }' >heat.csv
head -n 21 heat.csv >rows.csv
echo '{"name": "heat", "input": [3], "layers": [{"name": "fc", "type": "dense", "out": 2}]}' >heat.json
echo '{"name": "odd", "input": [3], "layers": [{"name": "fc1", "type": "dense", "out": 2},
 {"name": "fc2", "type": "dense", "out": 3}], "loss": {"type": "mse", "target": "input"}}' >odd.json
expect 0 "$uwasa" train --model heat.json --data csv:heat.csv,scale=standard --epochs 9 \
    --save heat.safetensors
expect 0 "$uwasa" train --model odd.json --data csv:heat.csv,scale=standard,drop=kind,label=none \
    --epochs 5 --anomaly-percentile 50 --save odd.safetensors
for m in heat odd; do
    expect 0 "$uwasa" predict --model $m.json --weights $m.safetensors rows.csv
    mv out $m.rows
    expect 0 "$uwasa" convert $m.json $m.onnx --weights $m.safetensors
    grep -qF "$m.onnx: its input is scaled: other programs give it (row - mean) * inverse" err ||
        fail "the scale of the input is not told"
    expect 0 "$uwasa" convert $m.onnx $m-again.onnx
    expect 0 "$uwasa" convert $m-again.onnx $m-folder
    for from in $m.onnx $m-again.onnx "$m-folder/model.json --weights $m-folder/weights.safetensors"; do
        # shellcheck disable=SC2086
        expect 0 "$uwasa" predict --model $from rows.csv
        cmp -s out $m.rows || { cat out err >&2; fail "$from does not know what was kept"; }
    done
    expect 0 "$uwasa" convert $m-again.onnx $m.c
    grep -qF "$m.c: its input is scaled: NAME_scale" err || fail "NAME_scale is not told"
done
grep -q 'warm?' heat.rows || fail "heat has no names of classes"
grep -q 'anomaly$' odd.rows || fail "odd has no threshold"
expect 0 "$uwasa" eval --model heat.onnx --data csv:heat.csv
grep -q 'features are scaled as in training' err || fail "eval does not scale as in training"
# the constants of a board: the source says what its comment declares
if command -v cc >/dev/null; then
    sed -n 's/^ \* *\(extern .*;\)$/\1/p' heat.c odd.c >declared.h
    cat >board.c <<'END'
#include <stdio.h>
#include <uwasa/model.h>
#include "declared.h"
int main(void)
{
    float x[3] = {110.0f, 0.5f, 2.5f};
    heat_again_scale(x);
    printf("%s %s %d %.6g\n", heat_again_classes[0], heat_again_classes[1],
           x[0] > -0.2f && x[0] < 0.2f && x[2] > -0.2f && x[2] < 0.2f,
           (double)odd_again_anomaly_threshold);
    return 0;
}
END
    cc -std=c11 -Wall -Wextra -Werror -I "$onnx/../../../runtime/include" -o board board.c heat.c \
        odd.c || fail "the constants do not compile"
    ./board >said || fail "the constants do not run"
    threshold=$("$uwasa" predict --model odd.onnx rows.csv 2>&1 >/dev/null |
        sed -n 's/^anomalies: errors above \([0-9.e-]*\),.*/\1/p')
    [ "$(cat said)" = "cold warm? 1 $threshold" ] || { cat said declared.h >&2; fail "constants"; }
fi
echo passed
