#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""random_models.py UWASA [--first SEED] [--count N] [--keep DIR] [-v]

Train random networks in PyTorch and, from their ONNX export, with `uwasa train`; the losses of
every step must agree. Networks are chains, residual and inception blocks, and sequence models,
drawn from a seed, so that no list of supported models can be learned by heart.

Where a ReLU's input comes closer to its kink than float's rounding, two right programs may take
different sides: a network that differs and has such an input is counted apart. One in a hundred
is allowed; of less than a hundred, none.

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
import warnings

try:
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(77)

STEPS = 6
BATCH = 4
CLASSES = 5


class Residual(nn.Module):
    """relu(body(x) + shortcut(x))"""

    def __init__(self, body, shortcut, act):
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut, act

    def forward(self, x):
        return self.act(self.body(x) + self.shortcut(x))


class Inception(nn.Module):
    """Branches side by side, concatenated along the channels."""

    def __init__(self, branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([b(x) for b in self.branches], 1)


class LastStep(nn.Module):
    """Recurrent layer over [N][T][F]; its last output."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x):
        return self.rnn(x)[0][:, -1, :]


class MeanStep(nn.Module):
    def forward(self, x):
        return x.mean(1)


class Sequence(nn.Module):
    """[N][1][T][F] images as they come from a file, to [N][T][F]"""

    def forward(self, x):
        return x.squeeze(1)


class Spatial(nn.Module):
    """Mean over height and width, in one of the ways people write it."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        if self.way == 0:
            return F.adaptive_avg_pool2d(x, 1).flatten(1)
        if self.way == 1:
            return x.mean((2, 3))
        return x.mean([2, 3], keepdim=True).view(x.shape[0], -1)


def activation(r):
    return r.choice([nn.ReLU, nn.ReLU, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU,
                     lambda: nn.LeakyReLU(r.choice([0.01, 0.1]))])()


def norm(r, c):
    kind = r.choice(["none", "batch", "batch", "group", "instance"])
    if kind == "batch":
        return [nn.BatchNorm2d(c)]
    if kind == "group":
        return [nn.GroupNorm(r.choice([g for g in (1, 2, 4) if c % g == 0]), c)]
    if kind == "instance":
        return [nn.InstanceNorm2d(c, affine=True)]
    return []


def conv(r, c, out, stride=1):
    k = r.choice([1, 3, 3, 5])
    d = r.choice([1, 1, 2]) if k == 3 else 1
    groups = r.choice([g for g in (1, 1, 2, c) if c % g == 0 and out % g == 0])
    return nn.Conv2d(c, out, k, stride=stride, padding=d * (k - 1) // 2, dilation=d,
                     groups=groups, bias=r.random() < 0.7)


def pool(r):
    return r.choice([lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(2),
                     lambda: nn.MaxPool2d(3, 2, 1), lambda: nn.AvgPool2d(3, 2, 1),
                     lambda: nn.MaxPool2d(3, 2, ceil_mode=True),
                     lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False)])()


def block(r, c, size):
    """One piece of an image network. Returns (modules, channels, size)."""
    kind = r.choice(["conv", "conv", "residual", "inception", "pool", "up"])
    out = r.choice([4, 6, 8])
    if kind == "conv":
        return [conv(r, c, out), *norm(r, out), activation(r)], out, size
    if kind == "residual":
        body = nn.Sequential(conv(r, c, out), *norm(r, out), activation(r), conv(r, out, out),
                             *norm(r, out))
        shortcut = nn.Identity() if out == c else nn.Conv2d(c, out, 1)
        return [Residual(body, shortcut, activation(r))], out, size
    if kind == "inception":
        branches = [nn.Sequential(nn.Conv2d(c, 4, 1), activation(r)),
                    nn.Sequential(conv(r, c, 4), activation(r)),
                    nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(c, 2, 1))]
        n = r.choice([2, 3])
        return [Inception(branches[:n])], sum([4, 4, 2][:n]), size
    if kind == "pool" and size >= 6:
        p = pool(r)
        with torch.no_grad():
            return [p], c, p(torch.zeros(1, c, size, size)).shape[2]
    if kind == "up" and size <= 8:
        up = nn.ConvTranspose2d(c, out, r.choice([2, 4]), stride=2)
        with torch.no_grad():
            return [up, activation(r)], out, up(torch.zeros(1, c, size, size)).shape[2]
    return [activation(r)], c, size


def image_model(r):
    c, size = r.choice([1, 2, 3]), r.choice([8, 9, 12])
    shape, modules = (c, size, size), []
    for _ in range(r.randint(2, 5)):
        more, c, size = block(r, c, size)
        modules += more
    if r.random() < 0.5:
        modules += [Spatial(r.randrange(3)), nn.Linear(c, CLASSES)]
    else:
        hidden = r.choice([8, 12])
        modules += [nn.Flatten(), nn.Linear(c * size * size, hidden), activation(r)]
        if r.random() < 0.3:
            modules += [nn.LayerNorm(hidden)]
        modules += [nn.Linear(hidden, CLASSES)]
    return nn.Sequential(*modules), shape


def sequence_model(r):
    steps, features, hidden = r.choice([4, 7]), r.choice([3, 6]), r.choice([5, 8])
    modules, wide = [Sequence()], features
    if r.random() < 0.5:
        modules += [nn.Linear(features, hidden), activation(r)]
        wide = hidden
    if r.random() < 0.4:
        modules += [nn.LayerNorm(wide)]
    kind = r.choice(["rnn", "gru", "lstm", "mean"])
    if kind == "mean":
        modules += [MeanStep()]
        last = wide
    else:
        rnn = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind]
        both = r.random() < 0.3
        modules += [LastStep(rnn(wide, hidden, batch_first=True, bidirectional=both))]
        last = hidden * 2 if both else hidden
    modules += [nn.Linear(last, CLASSES)]
    return nn.Sequential(*modules), (1, steps, features)


def make(seed):
    r = random.Random(seed)
    torch.manual_seed(seed)
    model, shape = sequence_model(r) if r.random() < 0.25 else image_model(r)
    return r, model, shape


def write_idx(path, kind, tensor):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, kind, tensor.dim()]))
        f.write(struct.pack(f">{tensor.dim()}I", *tensor.shape))
        code = "f" if kind == 0x0D else "B"
        f.write(struct.pack(f">{tensor.numel()}{code}", *tensor.flatten().tolist()))


KINK = 1e-6


def watch_kinks(model):
    """How near the ReLUs' inputs come to a kink, in a list that the forward passes fill."""
    nearest = []

    def look(module, inputs):
        v = inputs[0].detach()
        places = [v, v - 6] if isinstance(module, nn.ReLU6) else [v]
        nearest.extend(p[p != 0].abs().min().item() for p in places if (p != 0).any())
    for module in model.modules():
        if isinstance(module, (nn.ReLU, nn.ReLU6, nn.LeakyReLU)):
            module.register_forward_pre_hook(look)
    return nearest


def torch_losses(model, x, y, lr, loss_of=F.cross_entropy):
    """Of a step for each BATCH samples of x."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    model.train()
    losses = []
    for step in range(len(x) // BATCH):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        loss = loss_of(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def run(args, seed, folder):
    """Returns None, or what is wrong and whether it is a kink."""
    warnings.simplefilter("ignore")
    r, model, shape = make(seed)
    lr = r.choice([0.01, 0.05])
    opset = r.choice([11, 12, 13, 14, 15, 16, 17])
    training = r.random() < 0.5
    x = torch.randn(STEPS * BATCH, *shape)
    y = torch.randint(0, CLASSES, (STEPS * BATCH,))
    y[0] = CLASSES - 1  # the number of classes is taken from the labels
    # PRESERVE: mode EVAL would melt batch norm into the convolution before it.
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.PRESERVE
    file = os.path.join(folder, "model.onnx")
    model.train(training)
    dynamic = {"input": {0: "n"}, "logits": {0: "n"}} if r.random() < 0.5 else None
    batch = BATCH if dynamic is None else 2
    before = {k: v.clone() for k, v in model.state_dict().items()}
    torch.onnx.export(model, x[:batch], file, opset_version=opset, training=mode,
                      do_constant_folding=not training, input_names=["input"],
                      output_names=["logits"], dynamic_axes=dynamic)
    model.load_state_dict(before)
    write_idx(os.path.join(folder, "x"), 0x0D, x)
    write_idx(os.path.join(folder, "y"), 0x08, y)
    # In double: in float, GELU of some builds of PyTorch gives another gradient in every run.
    nearest = watch_kinks(model)
    want = torch_losses(model.double(), x.double(), y, lr)
    command = [args.uwasa, "train", "--model", file, "--data",
               f"idx:{folder}/x,{folder}/y", "--no-shuffle", "--steps", str(STEPS), "--batch",
               str(BATCH), "--lr", str(lr), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        return f"status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", False
    events = [json.loads(line) for line in done.stdout.splitlines()]
    got = [e["loss"] for e in events if e["event"] == "step"]
    if len(got) != STEPS:
        return f"{len(got)} steps instead of {STEPS}", False
    tolerance = 1e-3 if any(isinstance(m, (nn.BatchNorm2d, nn.InstanceNorm2d, nn.GroupNorm))
                            for m in model.modules()) else 1e-4
    for step, (a, b) in enumerate(zip(want, got)):
        if abs(a - b) > tolerance * max(1.0, abs(a)):
            kink = min(nearest, default=1.0)
            return (f"step {step + 1}: PyTorch {a:.6f}, uwasa {b:.6f}, nearest kink {kink:.1e}, "
                    f"of {model}"), kink < KINK
    return None


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
    failed = kinks = 0
    for seed in range(args.first, args.first + args.count):
        folder = tempfile.mkdtemp(prefix="uwasa-random-")
        try:
            wrong = run(args, seed, folder)
            if args.v:
                print(seed, make(seed)[1])
            if wrong is not None:
                failed += not wrong[1]
                kinks += wrong[1]
                print(f"seed={seed}: {wrong[0]}\n  again: {sys.argv[0]} {args.uwasa} --first {seed} "
                      "--count 1 -v")
                if args.keep:
                    shutil.copytree(folder, os.path.join(args.keep, str(seed)))
        finally:
            shutil.rmtree(folder)
    print(f"{args.count - failed - kinks} of {args.count} networks agree, {kinks} stand on a kink")
    return 1 if failed or kinks > args.count // 100 else 0


if __name__ == "__main__":
    sys.exit(main())
