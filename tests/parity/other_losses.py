#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""other_losses.py UWASA

A class for each pixel or token, masks of one channel, several labels at once, and outputs with a
loss of their own: `uwasa train` on files that PyTorch exports against PyTorch in double precision,
the loss of every step to 2e-5.

Prints one line a network that differs and the count. Exit status 0 when all agree, 1 when not, 77
without PyTorch."""

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError:
    print("other_losses.py: no PyTorch here", file=sys.stderr)
    sys.exit(77)

STEPS, BATCH, LR = 8, 4, 0.05
SAMPLES = STEPS * BATCH


class Pixels(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.down, self.deep = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 8, 3, 2, 1)
        self.up, self.end = nn.ConvTranspose2d(8, 6, 2, 2), nn.Conv2d(12, outputs, 1)

    def forward(self, x):
        a = torch.relu(self.down(x))
        return self.end(torch.cat([a, torch.relu(self.up(torch.relu(self.deep(a))))], 1))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.end = nn.LSTM(5, 9, batch_first=True), nn.Linear(9, 4)

    def forward(self, x):
        return self.end(self.cells(x)[0])


class Rows(nn.Module):
    """One output or several from 6 features."""

    def __init__(self, *outputs):
        super().__init__()
        self.body = nn.Linear(6, 11)
        self.ends = nn.ModuleList(nn.Linear(11, n) for n in outputs)

    def forward(self, x):
        y = [end(torch.tanh(self.body(x))) for end in self.ends]
        return y[0] if len(y) == 1 else tuple(y)


class Numbers(nn.Module):
    """One number of each sample, [N]."""

    def __init__(self, end):
        super().__init__()
        self.rows, self.end = Rows(1), end

    def forward(self, x):
        return self.end(self.rows(x))


class Squeezed(Rows):
    def __init__(self):
        super().__init__(1, 1)

    def forward(self, x):
        return tuple(y.squeeze(-1) for y in super().forward(x))


class Softmax(nn.Module):
    """A network that ends in a softmax, which is a part of the loss in training."""

    def __init__(self, inner, axis):
        super().__init__()
        self.inner, self.axis = inner, axis

    def forward(self, x):
        y = self.inner(x)
        return torch.softmax(y, self.axis) if torch.onnx.is_in_onnx_export() else y


class PixelsAndClass(nn.Module):
    def __init__(self):
        super().__init__()
        self.pixels, self.end = Pixels(3), nn.Linear(2, 2)

    def forward(self, x):
        return self.end(x.mean((2, 3))), self.pixels(x)


def classes(n, *shape, ignored=False):
    y = torch.randint(0, n, (SAMPLES, *shape))
    return torch.where(torch.rand(y.shape) < 0.2, -100, y) if ignored else y


WEIGHTS = [0.5, 2.0, 1.5]


def cross_entropy(y, t):
    return F.cross_entropy(y.movedim(-1, 1) if y.dim() == 3 else y, t.long())


def weighted(y, t):
    return F.cross_entropy(y, t.long(), weight=torch.tensor(WEIGHTS).double())


def binary(y, t):
    return F.binary_cross_entropy_with_logits(y, t.reshape(y.shape))


def mse(y, t):
    return F.mse_loss(y, t.reshape(y.shape))


# name: module, shape of a sample, words of --loss, a target for each output, --loss is found
CASES = {
    "pixels": (lambda: Pixels(3), (2, 6, 8), "cross_entropy", lambda: [classes(3, 6, 8)], True),
    "pixels_many": (lambda: Pixels(3), (2, 72, 64), "cross_entropy",
                    lambda: [classes(3, 72, 64)], True),
    "pixels_ignored": (lambda: Pixels(3), (2, 6, 8), "cross_entropy",
                       lambda: [classes(3, 6, 8, ignored=True)], True),
    "pixels_weighted": (lambda: Pixels(3), (2, 6, 8), "weighted",
                        lambda: [classes(3, 6, 8, ignored=True)], True),
    "pixels_softmax": (lambda: Softmax(Pixels(3), 1), (2, 6, 8), "cross_entropy",
                       lambda: [classes(3, 6, 8)], True),
    "tokens_softmax": (lambda: Softmax(Tokens(), -1), (7, 5), "cross_entropy",
                       lambda: [classes(4, 7)], True),
    "mask": (lambda: Pixels(1), (2, 6, 8), "binary", lambda: [classes(2, 1, 6, 8)], True),
    "tokens": (Tokens, (7, 5), "cross_entropy", lambda: [classes(4, 7, ignored=True)], True),
    "labels_at_once": (lambda: Rows(5), (6,), "binary", lambda: [classes(2, 5)], True),
    "label_squeezed": (lambda: Numbers(lambda y: y.squeeze(-1)), (6,), "binary",
                       lambda: [classes(2)], False),
    "label_flattened": (lambda: Numbers(torch.flatten), (6,), "binary", lambda: [classes(2)], False),
    "value_squeezed": (lambda: Numbers(lambda y: y.squeeze(1)), (6,), "mse",
                       lambda: [torch.randn(SAMPLES)], True),
    "value_and_label_squeezed": (Squeezed, (6,), "mse,binary",
                                 lambda: [torch.randn(SAMPLES), classes(2)], False),
    "class_and_value": (lambda: Rows(4, 1), (6,), "cross_entropy,mse",
                        lambda: [classes(4), torch.randn(SAMPLES)], False),
    "values_and_classes": (lambda: Rows(2, 3, 1), (6,), "mse,cross_entropy,binary",
                           lambda: [torch.randn(SAMPLES, 2), classes(3), classes(2)], False),
    "class_and_pixels": (PixelsAndClass, (2, 6, 8), "cross_entropy,cross_entropy",
                         lambda: [classes(2), classes(3, 6, 8)], False),
}


def losses_of(module, x, targets, words):
    module = copy.deepcopy(module).double()
    optimizer = torch.optim.SGD(module.parameters(), LR)
    out = []
    for k in range(0, SAMPLES, BATCH):
        y = module(x[k:k + BATCH].double())
        loss = sum(globals()[word](one, t[k:k + BATCH].double()) for word, one, t in
                   zip(words.split(","), y if isinstance(y, tuple) else (y,), targets))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


def run(uwasa, name, exporter, folder):
    """What is wrong; None: nothing."""
    make, shape, words, targets, found = CASES[name]
    torch.manual_seed(4)
    module, x, t = make(), torch.randn(SAMPLES, *shape), targets()
    path, data = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.npz")
    outputs = [f"y{i}" for i in range(len(t))]
    options = {"dynamo": True, "external_data": False} if exporter == "dynamo" else {}
    if exporter != "dynamo" and "dynamo" in torch.onnx.export.__code__.co_varnames:
        options["dynamo"] = False
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(copy.deepcopy(module), (x[:BATCH],), path, input_names=["x"],
                          output_names=outputs, opset_version=18 if options.get("dynamo") else 16,
                          **options)
    y = t[0].numpy() if len(t) == 1 else np.concatenate(
        [one.numpy().reshape(SAMPLES, -1).astype(np.float32) for one in t], 1)
    np.savez(data, x=x.numpy(), y=y)
    flags = [] if found else ["--loss", words, "--output", ",".join(outputs)]
    if words == "weighted":
        flags += ["--class-weights", ",".join(map(str, WEIGHTS))]
    done = subprocess.run(
        [uwasa, "train", "--model", path, "--data", f"npz:{data},test=0", "--no-shuffle", "--steps",
         str(STEPS), "--batch", str(BATCH), "--lr", str(LR), "--json", "-", *flags],
        capture_output=True, text=True, timeout=120, check=False)
    got = [e["loss"] for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "step"]
    want = losses_of(module, x, t, words)
    if len(got) != STEPS or max(abs(a - b) for a, b in zip(got, want)) > 2e-5:
        return f"PyTorch {want[:3]}, uwasa {got[:3]} {done.stderr.strip().splitlines()[-1:]}"
    return None


def main():
    warnings.filterwarnings("ignore")
    exporters = ["torchscript"]
    with contextlib.suppress(ImportError):
        import onnxscript  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
        exporters.append("dynamo")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for exporter in exporters:
            for name in CASES:
                what = run(os.path.abspath(sys.argv[1]), name, exporter, folder)
                if what is not None:
                    print(f"{name}, {exporter}: {what}")
                    wrong += 1
    print(f"other_losses: {len(CASES) * len(exporters) - wrong} of {len(CASES) * len(exporters)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
