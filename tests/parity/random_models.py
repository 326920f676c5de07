#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""random_models.py UWASA [--first SEED] [--count N] [--exporter E] [--keep DIR] [-v]

Train random networks in PyTorch, in double precision, and from their ONNX export with `uwasa
train`, with layers joined and with --unfused; the losses of every step and the weights after the
last one must agree. Networks are chains, residual and inception blocks, sequence models, and, two
of three, operators on tensors (random_operators.py), drawn from a seed, so that no list of
supported models can be learned by heart. (random_files.py does so with model files.)

Where two right programs may differ, because an input stands at a kink or a network amplifies
rounding, PyTorch itself differs between two inputs that differ by float's rounding, or from itself
in single precision: such networks are counted apart. One in a hundred is allowed; of less than a
hundred, none.

Exporters: torchscript, the older one, which every PyTorch has; dynamo, the newer one.

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

sys.dont_write_bytecode = True
import random_operators  # noqa: E402  pylint: disable=wrong-import-position

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
    if r.random() < 0.67:
        model, shape = random_operators.draw(r, CLASSES)
    else:
        model, shape = sequence_model(r) if r.random() < 0.25 else image_model(r)
    return r, model, shape


def write_idx(path, kind, tensor):
    with open(path, "wb") as f:
        f.write(bytes([0, 0, kind, tensor.dim()]))
        f.write(struct.pack(f">{tensor.dim()}I", *tensor.shape))
        code = "f" if kind == 0x0D else "B"
        f.write(struct.pack(f">{tensor.numel()}{code}", *tensor.flatten().tolist()))


def write_data(folder, x, y):
    """Returns what --data takes."""
    if x.dim() > 2:
        write_idx(os.path.join(folder, "x"), 0x0D, x)
        write_idx(os.path.join(folder, "y"), 0x08, y)
        return f"idx:{folder}/x,{folder}/y"
    with open(os.path.join(folder, "xy.csv"), "w", encoding="ascii") as f:
        for row, label in zip(x.tolist(), y.tolist()):
            f.write(",".join(f"{v:.9g}" for v in row) + f",{label}\n")
    return f"csv:{folder}/xy.csv,{folder}/xy.csv"


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


def far_apart(a, b, tolerance):
    return any(not abs(x - y) <= tolerance * max(1.0, abs(x)) for x, y in zip(a, b))


def make_file(args, seed, path):
    """Of what PyTorch itself cannot export, the next network is drawn."""
    for again in range(9):
        r, model, shape = make(seed + again * 1000003)
        x = torch.randn(STEPS * BATCH, *shape)
        try:
            export(model, x, path, r, args.exporter)
            return r, model, x
        except Exception as e:  # pylint: disable=broad-except
            print(f"seed={seed}: drawn again: {str(e).splitlines()[0][:120]}")
    raise RuntimeError(f"seed={seed}: no network can be exported")


def own_parameters(model):
    """Those that no layer of PyTorch has."""
    return [f"{step}.{name}" for step, module in model.named_modules()
            if isinstance(module, random_operators.Step)
            for name, _ in module.named_parameters(recurse=False)]


def export(model, x, path, r, exporter):
    """Write it as one of the files that people have of it."""
    warnings.simplefilter("ignore")
    training = r.random() < 0.5
    opset = r.choice([12, 13, 14, 15, 16, 17])
    dynamic = r.random() < 0.5
    x = x[:2 if dynamic else BATCH]
    if exporter == "dynamo":
        torch.onnx.export(model.eval(), (x,), path, dynamo=True, external_data=False,
                          optimize=False, verbose=False, input_names=["input"],
                          dynamic_shapes=({0: torch.export.Dim("batch")},) if dynamic else None)
        return
    more = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
    # PRESERVE: mode EVAL would melt batch norm into the convolution before it.
    # Folding would train half of a weight apart from the weight.
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.PRESERVE
    torch.onnx.export(model.train(training), x, path, opset_version=opset, training=mode,
                      do_constant_folding=not training and not own_parameters(model),
                      input_names=["input"], output_names=["logits"],
                      dynamic_axes={"input": {0: "n"}, "logits": {0: "n"}} if dynamic else None,
                      **more)


def trained(model, path):
    """What tells uwasa which tensors of a file of the older exporter train."""
    with open(path, "rb") as f:
        data = f.read()
    names = [name for name in own_parameters(model)
             if bytes([len(name)]) + name.encode() in data]
    return ["--trained", ",".join(names)] if names else []


def read_weights(path):
    """Tensors of a safetensors file, by name: shape without leading ones, elements."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    tensors = {}
    for name, t in header.items():
        if name != "__metadata__" and t["dtype"] == "F32":
            first, last = t["data_offsets"]
            tensors[name] = without_ones(t["shape"]), struct.unpack(
                f"<{(last - first) // 4}f", data[first:last])
    return tensors


def without_ones(shape):
    shape = list(shape)
    while shape and shape[0] == 1:
        shape.pop(0)
    return shape


def train(command):
    """Returns the losses, or what is wrong."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        return None, f"status {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"
    events = [json.loads(line) for line in done.stdout.splitlines()]
    losses = [e["loss"] for e in events if e["event"] == "step"]
    return (losses, None) if len(losses) == STEPS else (None, f"{len(losses)} steps, not {STEPS}")


def run(args, seed, folder):
    """Returns how many tensors were compared and None, or what is wrong and whether it is a kink."""
    file = os.path.join(folder, "model.onnx")
    r, model, x = make_file(args, seed, file)
    lr = r.choice([0.01, 0.05])
    y = torch.randint(0, CLASSES, (STEPS * BATCH,))
    y[0] = CLASSES - 1  # the number of classes is taken from the labels
    # Exporting trains statistics of batch norm.
    before = {k: v.clone() for k, v in model.state_dict().items()}
    data = write_data(folder, x, y)
    told = trained(model, file) if args.exporter == "torchscript" else []

    def expected(x, dtype=torch.float64):
        # In double: in float, GELU of some builds of PyTorch gives another gradient in every run.
        model.load_state_dict(before)
        losses = torch_losses(model.to(dtype), x.to(dtype), y, lr)
        return losses, {k: v.flatten().tolist() for k, v in model.state_dict().items()}
    tolerance = 1e-3 if any(isinstance(m, (nn.BatchNorm2d, nn.InstanceNorm2d, nn.GroupNorm))
                            for m in model.modules()) else 1e-4
    want, weights = expected(x)
    shapes = {k: without_ones(v.shape) for k, v in before.items()}

    def is_steep(losses, others):
        return far_apart(want, losses, tolerance) or any(
            far_apart(weights[k], others[k], tolerance) for k in weights)
    compared_n = 0
    for way in ([], ["--unfused"]):
        compared = []
        saved = os.path.join(folder, "trained.safetensors")
        got, wrong = train([args.uwasa, "train", "--model", file, "--data", data, "--no-shuffle",
                            "--steps", str(STEPS), "--batch", str(BATCH), "--lr", str(lr),
                            "--json", "-", "--save", saved, *told, *way])
        if got is not None and far_apart(want, got, tolerance):
            wrong = f"PyTorch {want}, uwasa {got}"
        for name, (sizes, values) in read_weights(saved).items() if wrong is None else ():
            if shapes.get(name) == sizes:
                compared.append(name)
                if far_apart(weights[name], values, tolerance):
                    a, b = max(zip(weights[name], values), key=lambda p: abs(p[0] - p[1]))
                    wrong = f"{name}: PyTorch {a}, uwasa {b}"
        if not compared and wrong is None:
            return 0, (f"no weight has its name in PyTorch, of {model}", False)
        if wrong is not None:
            steep = got is not None and (is_steep(*expected(x, torch.float32)) or any(
                is_steep(*expected(x * (1 + 1e-6 * torch.randn_like(x)))) for _ in range(5)))
            return 0, (f"{' '.join(way)} {wrong}, of {model}", steep)
        compared_n += len(compared)
    return compared_n, None


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("uwasa")
    p.add_argument("--first", type=int, default=1)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--exporter", default="torchscript", choices=["torchscript", "dynamo"])
    p.add_argument("--keep", help="leave the files of the networks that differ there")
    p.add_argument("-v", action="store_true", help="print every network")
    args = p.parse_args()
    torch.set_num_threads(1)
    failed = kinks = tensors_n = 0
    for seed in range(args.first, args.first + args.count):
        folder = tempfile.mkdtemp(prefix="uwasa-random-")
        try:
            compared_n, wrong = run(args, seed, folder)
            tensors_n += compared_n
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
    print(f"{args.count - failed - kinks} of {args.count} networks agree, {kinks} stand on a kink; "
          f"{tensors_n} tensors compared")
    return 1 if failed or kinks > args.count // 100 else 0


if __name__ == "__main__":
    sys.exit(main())
