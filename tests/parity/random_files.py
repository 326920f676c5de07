#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""random_files.py UWASA [--first SEED] [--count N] [--keep DIR] [-v]

Train random networks of operators on tensors, as model files, in PyTorch and with `uwasa train`
from the same weights; the losses of every step must agree. (random_models.py does so with what
ONNX carries.) What a type is in PyTorch says gen_models.py.

Where two right programs may differ, because an input stands at a kink or a network amplifies
rounding, PyTorch itself differs between two inputs that differ by float's rounding: such networks
are counted apart. One in twenty is allowed.

Prints one line a network that differs, with the command that runs it alone. Exit status 0 when
all agree, 1 when one does not, 77 when PyTorch is not there."""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(77)

sys.dont_write_bytecode = True
import gen_models  # noqa: E402  pylint: disable=wrong-import-position
from random_models import (  # noqa: E402  pylint: disable=wrong-import-position
    BATCH, CLASSES, STEPS, far_apart, torch_losses, write_idx)

TOLERANCE = 1e-4
FREE = ["abs", "erf", "softsign", "mish", "hardsigmoid", "hardswish", "selu", "square", "clip",
        "elu", "celu", "softplus", "quick_gelu", "threshold", "scale", "gelu", "silu", "relu",
        "leaky_relu", "tanh", "sigmoid"]
NUMBERS = {"clip": {"min": -0.8, "max": 1.1}, "elu": {"alpha": 0.7}, "celu": {"alpha": 0.6},
           "softplus": {"beta": 2.0}, "quick_gelu": {"alpha": 1.3}, "selu": {"alpha": 1.2},
           "threshold": {"threshold": 0.1, "value": -0.4}, "scale": {"factor": 0.6, "offset": 0.2},
           "hardsigmoid": {"slope": 0.2, "offset": 0.4}, "leaky_relu": {"negative_slope": 0.2}}

# Ways to the same losses.
WAYS = [[], ["--backend", "ref"], ["--micro-batch", "2"], ["--mode", "full"], ["--mode", "buckets"],
        ["--exact"]]


class Draft:
    """A model file that grows, and the shape of a sample of each value."""

    def __init__(self, r, shape):
        self.r, self.layers, self.shapes = r, [], {"input": shape}
        self.input = shape
        self.values = {"input": torch.zeros(2, *shape)}

    def add(self, type_, *inputs, **keys):
        """Append a layer and return its name."""
        name = f"l{len(self.layers)}"
        layer = {"name": name, "type": type_, **({"inputs": list(inputs)} if inputs else {}), **keys}
        x = [self.values[each] for each in inputs]
        step = gen_models.MAKERS[type_](layer, tuple(x[0].shape) if x else None)
        with torch.no_grad():
            self.values[name] = step(*x)
        self.shapes[name] = tuple(self.values[name].shape[1:])
        self.layers.append(layer)
        return name

    def parameter(self, shape, value, deviation):
        extra = {"constant": True} if self.r.random() < 0.2 else {}
        return self.add("parameter", shape=list(shape), value=value, deviation=deviation, **extra)


def repeated(r, shape):
    """A shape that broadcasting repeats to the given one."""
    kept = [size if r.random() < 0.6 else 1 for size in shape]
    return kept[r.randrange(len(kept)):] if r.random() < 0.4 else kept


def positive(d, x):
    return d.add("scale", d.add("softplus", x), factor=1.0, offset=0.2)


def function(d, x):
    name = d.r.choice([*FREE, "exp", "log", "sqrt", "reciprocal", "power"])
    if name == "exp":
        return d.add("exp", d.add("tanh", x))
    if name in ("log", "sqrt", "reciprocal"):
        return d.add(name, positive(d, x))
    if name == "power":
        return d.add("power", positive(d, x), exponent=d.r.choice([-0.7, 0.5, 2.0]))
    return d.add(name, x, **(NUMBERS.get(name, {}) if d.r.random() < 0.5 else {}))


def with_parameter(d, x):
    op = d.r.choice(["add", "sub", "mul", "div", "pow", "min", "max", "mask"])
    shape = repeated(d.r, d.shapes[x])
    if op == "mask":
        d.layers.append({"name": f"l{len(d.layers)}", "type": "parameter", "shape": shape,
                         "value": 0.0, "deviation": 1.0, "constant": True})
        p = d.layers[-1]["name"]
        d.values[p] = gen_models.Parameter(d.layers[-1])()
        return d.add("mask", x, d.add("relu", p))
    if op == "div" and d.r.random() < 0.5:
        return d.add("div", x, positive(d, x))
    p = d.parameter(shape, 1.3, 0.3)
    if op == "pow":
        return d.add("pow", positive(d, x), p)
    if op == "div":
        return d.add("div", x, p)
    return d.add(op, *((x, p) if d.r.random() < 0.5 else (p, x)))


def gate(d, x):
    """x times, less or over what a reduction of it gives."""
    rank = len(d.shapes[x])
    first = d.r.randrange(rank)
    axes = d.r.randint(1, rank - first)
    how = d.r.choice(["mean", "sum", "max", "min", "norm"])
    g = d.add(f"reduce_{how}", x, axis=first, axes=axes, keep=True)
    op = d.r.choice(["mul", "sub", "add", "max", "div"])
    return d.add(op, x, positive(d, g) if op == "div" else d.add("tanh", g))


def reduce(d, x):
    rank = len(d.shapes[x])
    if rank < 2:
        return x
    how = d.r.choice(["mean", "sum", "max", "min", "norm"])
    first = d.r.randrange(rank)
    y = d.add(f"reduce_{how}", x, axis=first, axes=d.r.randint(1, min(2, rank - first)))
    return d.add("tanh", y) if how in ("sum", "norm") else y


def product(d, x):
    shape = d.shapes[x]
    if len(shape) < 2:
        return x
    if d.r.random() < 0.3:
        last = shape[-1] if d.r.random() < 0.5 else shape[-2]
        turned = {"transpose_b": True} if last == shape[-1] else {"transpose_a": True}
        return d.add("matmul", x, x, scale=1.0 / last, **turned)
    front, turned, n = d.r.random() < 0.3, d.r.random() < 0.5, d.r.choice([3, 6])
    k = shape[-2] if front else shape[-1]
    w = d.parameter(repeated(d.r, shape[:-2])[:2] + ([n, k] if front != turned else [k, n])
                    if len(shape) > 2 and d.r.random() < 0.4
                    else ([n, k] if front != turned else [k, n]), 0.0, k ** -0.5)
    if front:
        return d.add("matmul", w, x, **({"transpose_a": True} if turned else {}))
    return d.add("matmul", x, w, **({"transpose_b": True} if turned else {}))


def pick(d, x):
    axis = d.r.randrange(len(d.shapes[x]))
    size, taps = d.shapes[x][axis], d.r.choice([1, 1, 2])
    n = d.r.randint(1, size + 2)
    index = [d.r.randrange(-1, size) for _ in range(n * taps)]
    extra = {"weight": [round(d.r.uniform(-1, 1), 3) for _ in index]} if taps > 1 else {}
    return d.add("take", x, axis=axis, taps=taps, index=index, **extra)


def resize(d, x):
    """An upsample or a pad."""
    sizes = d.shapes[x]
    if max(sizes) > 12:
        return x
    if d.r.random() < 0.5:
        scale = [d.r.randint(1, 2), d.r.randint(1, 3)] if len(sizes) > 2 and d.r.random() < 0.5 \
            else 2
        return d.add("upsample", x, scale=scale, mode=d.r.choice(["nearest", "bilinear"]))
    least = min(sizes[-2:])
    sides = [d.r.randrange(min(3, least)) for _ in range(4 if len(sizes) > 2 else 2)]
    return d.add("pad", x, padding=d.r.choice([sides, min(1, least - 1)]),
                 mode=d.r.choice(["zeros", "reflect", "replicate"]))


def shape(d, x):
    """Another shape, or other places of the axes."""
    sizes = list(d.shapes[x])
    n = len(sizes)
    if d.r.random() < 0.5 and n > 1:
        orders = {2: [[1, 0]], 3: [[0, 2, 1], [2, 0, 1], [1, 0, 2], [2, 1, 0]],
                  4: [[0, 2, 1, 3], [0, 3, 1, 2], [2, 3, 0, 1], [0, 1, 3, 2]]}
        return d.add("transpose", x, order=d.r.choice(orders[n]))
    if n < 4 and any(size % 2 == 0 for size in sizes):
        at = d.r.choice([i for i, size in enumerate(sizes) if size % 2 == 0])
        sizes[at:at + 1] = [2, sizes[at] // 2]
    elif n > 1:
        sizes[0:2] = [sizes[0] * sizes[1]]
    return d.add("reshape", x, shape=sizes)


def softmax(d, x):
    return d.add("softmax", x, **({"log": True} if d.r.random() < 0.5 else {}))


def token(d, x):
    """A trained row beside the others."""
    axis = d.r.randrange(len(d.shapes[x]))
    sizes = list(d.shapes[x])
    sizes[axis] = 1
    p = d.parameter(sizes, 0.0, 0.5)
    return d.add("concat", *((p, x) if d.r.random() < 0.5 else (x, p)), axis=axis)


def normed_weight(d, x):
    """A parameter over its norm: values that no sample reaches."""
    v = d.parameter(d.shapes[x], 0.0, 0.5)
    n = d.add("reduce_norm", v, axis=len(d.shapes[x]) - 1, keep=True)
    return d.add("mul", x, d.add("div", v, n))


def conv(d, x):
    return d.add("conv2d", x, out_channels=4, kernel=3, padding=1) if len(d.shapes[x]) == 3 else x


def dense(d, x):
    return d.add("dense", x, out=d.r.choice([4, 6])) if len(d.shapes[x]) < 3 else x


def draw(seed):
    """A model file's description."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    d = Draft(r, r.choice([(3, 4, 5), (2, 6, 6), (6, 4), (4, 7)]))
    x = "input"
    pieces = [function, function, function, function, with_parameter, with_parameter, gate, reduce, product, pick, shape,
              softmax, token, normed_weight, conv, dense,
              resize]
    for _ in range(r.randint(3, 8)):
        x = r.choice(pieces)(d, x)
    x = d.add("flatten", x)
    d.add("dense", x, out=CLASSES)
    return {"name": "random", "input": list(d.input), "layers": d.layers}


def write_weights(path, graph):
    """A safetensors file."""
    header, at, data = {}, 0, []
    for name, tensor, _ in graph.segments():
        n = tensor.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + n]}
        data.append(struct.pack(f"<{tensor.numel()}f", *tensor.detach().flatten().tolist()))
        at += n
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


class Logits(torch.nn.Module):
    def __init__(self, graph):
        super().__init__()
        self.graph = graph

    def forward(self, x):
        return self.graph(x)[self.graph.last]


def expected(description, state, x, y, lr):
    graph = gen_models.Graph(description)
    graph.load_state_dict(state)
    return torch_losses(Logits(graph.double()), x.double(), y, lr)


def run(args, seed, folder):
    """Returns None, or what is wrong and whether it is a kink."""
    description = draw(seed)
    r = random.Random(seed)
    lr = r.choice([0.01, 0.05])
    torch.manual_seed(seed)
    graph = gen_models.Graph(description)
    state = {k: v.clone() for k, v in graph.state_dict().items()}
    x = torch.randn(STEPS * BATCH, *description["input"])
    y = torch.randint(0, CLASSES, (STEPS * BATCH,))
    y[0] = CLASSES - 1
    model, weights = os.path.join(folder, "model.json"), os.path.join(folder, "w.safetensors")
    with open(model, "w", encoding="utf-8") as f:
        json.dump(description, f, indent=1)
    write_weights(weights, graph)
    write_idx(os.path.join(folder, "x"), 0x0D, x)
    write_idx(os.path.join(folder, "y"), 0x08, y)
    want = expected(description, state, x, y, lr)
    command = [args.uwasa, "train", "--model", model, "--weights", weights, "--data",
               f"idx:{folder}/x,{folder}/y", "--no-shuffle", "--steps", str(STEPS), "--batch",
               str(BATCH), "--lr", str(lr), "--json", "-", *r.choice(WAYS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    types = " ".join(layer["type"] for layer in description["layers"])
    if done.returncode != 0:
        return f"status {done.returncode}: {done.stderr.strip().splitlines()[-1:]} {types}", False
    events = [json.loads(line) for line in done.stdout.splitlines()]
    got = [e["loss"] for e in events if e["event"] == "step"]
    if len(got) != STEPS:
        return f"{len(got)} steps instead of {STEPS}", False
    if not far_apart(want, got, TOLERANCE):
        return None
    steep = any(far_apart(want, expected(description, state, x * (1 + 1e-6 * torch.randn_like(x)),
                                         y, lr), TOLERANCE) for _ in range(5))
    return f"PyTorch {want}, uwasa {got}, of {types}", steep


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("uwasa")
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--keep", help="leave the files of the networks that differ there")
    p.add_argument("-v", action="store_true", help="print every network")
    args = p.parse_args()
    torch.set_num_threads(1)
    failed = steep = 0
    for seed in range(args.first, args.first + args.count):
        with tempfile.TemporaryDirectory(prefix="uwasa-random-") as folder:
            wrong = run(args, seed, folder)
            if args.v:
                print(seed, json.dumps(draw(seed)))
            if wrong is not None:
                failed += not wrong[1]
                steep += wrong[1]
                print(f"seed={seed}: {wrong[0]}\n  again: {sys.argv[0]} {args.uwasa} --first {seed} "
                      "--count 1 -v")
                if args.keep:
                    shutil.copytree(folder, os.path.join(args.keep, str(seed)))
    print(f"{args.count - failed - steep} of {args.count} networks agree, {steep} stand on a kink")
    return 1 if failed or steep > args.count // 20 else 0


if __name__ == "__main__":
    sys.exit(main())
