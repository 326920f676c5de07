# SPDX-License-Identifier: Apache-2.0
"""gen_models - PyTorch's side of the model files, and models.txt

Graph is any model that `uwasa models --help` describes. models.txt has ten training steps of every
built-in model: the losses, and of some tensors what they became. What the weights start from is
not stored: start() below and in test_parity_models.c.
"""

import glob
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = 10
KEEP = 24               # elements stored of one segment


def pair(value):
    return tuple(value) if isinstance(value, list) else (value, value)


def single(value):
    return value


def conv(module, size):
    def make(layer, shape):
        extra = {}
        if "output_padding" in layer:
            extra["output_padding"] = size(layer["output_padding"])
        return module(shape[1], layer["out_channels"], size(layer["kernel"]),
                      size(layer.get("stride", 1)), size(layer.get("padding", 0)),
                      dilation=size(layer.get("dilation", 1)), groups=layer.get("groups", 1),
                      bias=layer.get("bias", True), **extra)
    return make


def pool(module, size, average):
    def make(layer, shape):
        extra = {"count_include_pad": layer.get("count_include_pad", True)} if average else {}
        return module(size(layer["kernel"]), size(layer.get("stride", layer["kernel"])),
                      size(layer.get("padding", 0)), ceil_mode=layer.get("ceil_mode", False),
                      **extra)
    return make


class Dense(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1) if x.dim() == 4 else x)


class Embedding(torch.nn.Embedding):
    def forward(self, x):
        return super().forward(x.long())


class Attention(torch.nn.MultiheadAttention):
    def __init__(self, features, heads, bias, causal):
        super().__init__(features, heads, bias=bias, batch_first=True)
        self.causal = causal

    def forward(self, x):
        mask = None
        if self.causal:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return super().forward(x, x, x, need_weights=False, attn_mask=mask)[0]


def recurrent(module):
    """One direction; reverse is a turned sequence on both sides."""
    class Recurrent(module):
        def __init__(self, features, layer):
            extra = {"nonlinearity": layer.get("nonlinearity", "tanh")} \
                if module is torch.nn.RNN else {}
            super().__init__(features, layer["hidden"], bias=layer.get("bias", True),
                             batch_first=True, **extra)
            self.turned, self.only_last = layer.get("reverse", False), layer.get("last", False)

        def forward(self, x):
            y = super().forward(x.flip(1) if self.turned else x)[0]
            if self.only_last:
                return y[:, -1]
            return y.flip(1) if self.turned else y
    return lambda layer, shape: Recurrent(shape[-1], layer)


def batchnorm(layer, shape):
    module = torch.nn.BatchNorm2d if len(shape) == 4 else torch.nn.BatchNorm1d
    return module(shape[1], layer.get("eps", 1e-5), layer.get("momentum", 0.1),
                  layer.get("affine", True))


def slice_of(layer, shape):
    axis, start = layer.get("axis", 0) + 1, layer.get("start", 0)
    start += shape[axis] if start < 0 else 0
    length = layer.get("length", shape[axis] - start)

    def cut(x):
        y = x.narrow(axis, start, length)
        return y.squeeze(axis) if layer.get("squeeze", False) else y
    return cut


class Parameter(torch.nn.Module):
    """One value for all samples: a minibatch of one, which operators repeat."""

    def __init__(self, layer):
        super().__init__()
        w = torch.full(layer["shape"], float(layer.get("value", 0)))
        w += layer.get("deviation", 0) * torch.randn_like(w)
        if layer.get("constant", False):
            self.register_buffer("weight", w)
        else:
            self.weight = torch.nn.Parameter(w)

    def forward(self):
        return self.weight.unsqueeze(0)


def aligned(function):
    """Of two inputs whose samples may have different ranks: axes of 1 behind the minibatch."""
    def call(a, b):
        rank = max(a.dim(), b.dim())
        return function(*(x.reshape(x.shape[0], *(rank - x.dim()) * (1,), *x.shape[1:])
                          for x in (a, b)))
    return lambda layer, shape: call


def concat(layer, _):
    def call(*x):
        n = max(part.shape[0] for part in x)
        return torch.cat([part.expand(n, *part.shape[1:]) for part in x], layer.get("axis", 0) + 1)
    return call


def matmul(layer, _):
    def call(a, b):
        a = a.transpose(-1, -2) if layer.get("transpose_a", False) else a
        b = b.transpose(-1, -2) if layer.get("transpose_b", False) else b
        return layer.get("scale", 1.0) * aligned(torch.matmul)(None, None)(a, b)
    return call


def reduction(function):
    def make(layer, _):
        first = layer.get("axis", 0) + 1
        axes = tuple(range(first, first + layer.get("axes", 1)))
        keep = layer.get("keep", False)

        def call(x):
            y = function(x, axes, keep)
            return y if y.dim() > 1 else y.unsqueeze(1)     # a sample has one axis or more
        return call
    return make


def take(layer, _):
    axis, taps = layer.get("axis", 0) + 1, layer.get("taps", 1)
    index = torch.tensor(layer["index"]).reshape(-1, taps)
    factor = torch.tensor(layer.get("weight", [1.0] * index.numel())).reshape(-1, taps)
    factor = factor * (index >= 0)

    def call(x):
        y = 0
        for tap in range(taps):
            wide = [1] * x.dim()
            wide[axis] = -1
            y = y + x.index_select(axis, index[:, tap].clamp(min=0)) * \
                factor[:, tap].reshape(wide).to(x.dtype)
        return y
    return call


def upsample(layer, x):
    scale = layer["scale"]
    scale = tuple(scale) if isinstance(scale, list) else (scale, scale) if x.dim() > 3 else (scale,)
    mode = {"nearest": "nearest"}.get(layer.get("mode", "nearest"),
                                      "bilinear" if len(scale) == 2 else "linear")
    extra = {} if mode == "nearest" else {"align_corners": False}
    wide = x if x.dim() > 2 else x.unsqueeze(1)
    flat = wide.reshape(-1, 1, *wide.shape[-len(scale):])
    y = F.interpolate(flat, scale_factor=scale, mode=mode, **extra)
    return y.reshape(*x.shape[:x.dim() - len(scale)], *y.shape[2:])


def pad(layer, x):
    sides = layer["padding"]
    sides = sides if isinstance(sides, list) else [sides] * (4 if x.dim() > 3 else 2)
    axes = len(sides) // 2
    mode = {"zeros": "constant"}.get(layer.get("mode", "zeros"), layer.get("mode"))
    y = F.pad(x.reshape(-1, 1, *x.shape[-axes:]), sides, mode=mode)
    return y.reshape(*x.shape[:x.dim() - axes], *y.shape[2:])


def function(call):
    """A function of each element, from the layer's numbers and x."""
    return lambda layer, shape: lambda x: call(layer, x)


MAKERS = {
    "conv2d": conv(torch.nn.Conv2d, pair),
    "conv_transpose2d": conv(torch.nn.ConvTranspose2d, pair),
    "conv1d": conv(torch.nn.Conv1d, single),
    "dense": lambda l, s: Dense(math.prod(s[1:]) if len(s) == 4 else s[-1], l["out"],
                                l.get("bias", True)),
    "maxpool2d": pool(torch.nn.MaxPool2d, pair, False),
    "maxpool1d": pool(torch.nn.MaxPool1d, single, False),
    "avgpool2d": pool(torch.nn.AvgPool2d, pair, True),
    "avgpool1d": pool(torch.nn.AvgPool1d, single, True),
    "global_avgpool": lambda l, s: lambda x: x.flatten(2).mean(2),
    "batchnorm": batchnorm,
    "groupnorm": lambda l, s: torch.nn.GroupNorm(l["num_groups"], s[1], l.get("eps", 1e-5),
                                                 l.get("affine", True)),
    "layernorm": lambda l, s: torch.nn.LayerNorm(s[-l.get("axes", 1):], l.get("eps", 1e-5),
                                                 l.get("affine", True)),
    "lrn": lambda l, s: torch.nn.LocalResponseNorm(l["size"], l.get("alpha", 1e-4),
                                                   l.get("beta", 0.75), l.get("k", 1.0)),
    "relu": lambda l, s: F.relu,
    "relu6": lambda l, s: F.relu6,
    "leaky_relu": lambda l, s: lambda x: F.leaky_relu(x, l.get("negative_slope", 0.01)),
    "sigmoid": lambda l, s: torch.sigmoid,
    "tanh": lambda l, s: torch.tanh,
    "gelu": lambda l, s: lambda x: F.gelu(x, approximate=l.get("approximate", "none")),
    "silu": lambda l, s: F.silu,
    "dropout": lambda l, s: torch.nn.Dropout(l["p"]),
    "add": lambda l, s: lambda *x: (aligned(torch.add)(l, s)(*x) if len(x) == 2
                                    else sum(x[1:], x[0])),
    "concat": concat,
    "flatten": lambda l, s: lambda x: x.flatten(1),
    "reshape": lambda l, s: lambda x: x.reshape(x.shape[0], *l["shape"]),
    "transpose": lambda l, s: lambda x: x.permute(0, *[axis + 1 for axis in l["order"]]),
    "slice": slice_of,
    "embedding": lambda l, s: Embedding(l["vocabulary"], l["size"]),
    "rnn": recurrent(torch.nn.RNN),
    "gru": recurrent(torch.nn.GRU),
    "lstm": recurrent(torch.nn.LSTM),
    "attention": lambda l, s: Attention(s[-1], l["heads"], l.get("bias", True),
                                        l.get("causal", False)),
    "parameter": lambda l, s: Parameter(l),
    "sub": aligned(torch.sub),
    "mul": aligned(torch.mul),
    "div": aligned(torch.div),
    "pow": aligned(torch.pow),
    "min": aligned(torch.minimum),
    "max": aligned(torch.maximum),
    "mask": aligned(lambda a, b: torch.where(b != 0, a, torch.zeros_like(a))),
    "matmul": matmul,
    "reduce_mean": reduction(torch.mean),
    "reduce_sum": reduction(torch.sum),
    "reduce_max": reduction(torch.amax),
    "reduce_min": reduction(torch.amin),
    "reduce_norm": reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "softmax": lambda l, s: lambda x: (F.log_softmax if l.get("log", False) else F.softmax)(x, -1),
    "take": take,
    "scale": function(lambda l, x: l.get("factor", 1.0) * x + l.get("offset", 0.0)),
    "abs": function(lambda l, x: x.abs()),
    "exp": function(lambda l, x: x.exp()),
    "log": function(lambda l, x: x.log()),
    "sqrt": function(lambda l, x: x.sqrt()),
    "reciprocal": function(lambda l, x: x.reciprocal()),
    "square": function(lambda l, x: x.square()),
    "power": function(lambda l, x: x.pow(l["exponent"])),
    "erf": function(lambda l, x: x.erf()),
    "clip": function(lambda l, x: x.clamp(l.get("min", -1.0), l.get("max", 1.0))),
    "elu": function(lambda l, x: F.elu(x, l.get("alpha", 1.0))),
    "selu": function(lambda l, x: F.elu(x, l.get("alpha", 1.6732632423543772)) *
                     l.get("scale", 1.0507009873554805)),
    "celu": function(lambda l, x: F.celu(x, l.get("alpha", 1.0))),
    "softplus": function(lambda l, x: F.softplus(x, l.get("beta", 1.0))),
    "softsign": function(lambda l, x: F.softsign(x)),
    "mish": function(lambda l, x: F.mish(x)),
    "hardsigmoid": function(lambda l, x: (l.get("slope", 1 / 6) * x +
                                          l.get("offset", 0.5)).clamp(0, 1)),
    "hardswish": function(lambda l, x: F.hardswish(x)),
    "threshold": function(lambda l, x: F.threshold(x, l.get("threshold", 0.0),
                                                   l.get("value", 0.0))),
    "upsample": lambda l, s: lambda x: upsample(l, x),
    "pad": lambda l, s: lambda x: pad(l, x),
    "sin": function(lambda l, x: torch.sin(x)),
    "cos": function(lambda l, x: torch.cos(x)),
    "sign": function(lambda l, x: torch.sign(x)),
    "step": function(lambda l, x: (x > l.get("threshold", 0.0)).to(x.dtype)),
    "quick_gelu": function(lambda l, x: x * torch.sigmoid(l.get("alpha", 1.702) * x)),
}


def segment_name(step, name, suffix):
    """A layer of type parameter gives its tensor its own name."""
    return name if isinstance(step, Parameter) else f"{name}.{suffix}"


class Graph(torch.nn.Module):
    """A model file's network. Dropout drops nothing when `noise` is false."""

    def __init__(self, description, noise=False):
        super().__init__()
        self.layers, self.steps = description["layers"], []
        one = description.get("loss", {"type": "cross_entropy"})
        self.losses = description.get("losses", [one])
        self.last = self.layers[-1]["name"]
        values = {"input": torch.zeros(1, *description["input"])}
        previous = "input"
        self.eval()
        for number, layer in enumerate(self.layers):
            names = layer.get("inputs", [] if layer["type"] == "parameter" else [previous])
            x = [values[name] for name in names]
            step = MAKERS[layer["type"]](layer, tuple(x[0].shape) if x else None)
            if layer["type"] == "dropout" and not noise:
                step = torch.nn.Identity()
            if isinstance(step, torch.nn.Module):
                self.add_module(f"step{number}", step.eval())
            self.steps.append((layer["name"], names, step))
            with torch.no_grad():
                values[layer["name"]] = step(*x)
            previous = layer["name"]
        self.train()

    def forward(self, x):
        values = {"input": x}
        for name, inputs, step in self.steps:
            values[name] = step(*[values[i] for i in inputs])
        return values

    def segments(self):
        """Name, tensor, is it a parameter: in the order of the program's flat vector."""
        for name, _, step in self.steps:
            if isinstance(step, torch.nn.Module):
                for suffix, p in step.named_parameters():
                    yield segment_name(step, name, suffix.replace("_l0", "")), p, True
                for suffix, p in step.named_buffers():
                    if suffix != "num_batches_tracked":
                        yield segment_name(step, name, suffix), p, False

    def loss(self, x, label):
        values, total = self(x), 0
        for loss in self.losses:
            z, kind = values[loss.get("layer", self.last)], loss["type"]
            if kind == "cross_entropy":
                part = F.cross_entropy(z, label, label_smoothing=loss.get("label_smoothing", 0.0))
            else:
                t = x if loss.get("target") == "input" else \
                    F.one_hot(label, z.shape[1]).to(z.dtype)
                part = {"binary_cross_entropy": F.binary_cross_entropy_with_logits,
                        "mse": F.mse_loss, "l1": F.l1_loss,
                        "huber": lambda a, b: F.huber_loss(a, b, delta=loss.get("delta", 1.0))
                        }[kind](z, t.reshape(z.shape))
            total = total + loss.get("weight", 1.0) * part
        return total


def seed_of(name):
    """FNV-1a of a name, 32 bits."""
    h = 0x811C9DC5
    for byte in name.encode():
        h = ((h ^ byte) * 0x01000193) & 0xFFFFFFFF
    return h


def start(g, name, tensor):
    """Known start values of a segment: He's range for products, scales near one."""
    flat = g.fill(seed_of(name), tensor.numel())
    if tensor.dim() > 1:
        fan_in = tensor[0].numel()
        flat = flat * np.float32(math.sqrt(6.0 / fan_in))
    elif name.endswith(".weight"):
        flat = np.float32(1) + flat * np.float32(0.125)
    elif name.endswith(".running_var"):
        flat = np.ones_like(flat)
    elif name.endswith(".running_mean"):
        flat = np.zeros_like(flat)
    else:
        flat = flat * np.float32(0.0625)
    return torch.from_numpy(flat.astype(np.float32).reshape(tensor.shape))


def add_noise(module, inputs, y):
    return y + NOISE * y.detach().std() * torch.randn_like(y)


def trajectory(g, description, batch_n, options, dtype, noisy=False):
    model = Graph(description)
    for module in model.modules():
        if noisy and isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(add_noise)
    with torch.no_grad():
        for name, tensor, _ in model.segments():
            tensor.copy_(start(g, name, tensor))
    model = model.to(dtype)
    opt = torch.optim.SGD(model.parameters(), **options)
    classes = next((l["out"] for l in reversed(description["layers"]) if "out" in l), 2)
    losses = []
    for step in range(STEPS):
        x = g.tensor(1000 + step % 2, batch_n, *description["input"]).to(dtype)
        loss = model.loss(x, g.labels(batch_n, classes, shift=step % 2))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return model, losses


def sgd(batch_n, lr):
    return "plain", batch_n, {"lr": lr}


def momentum(batch_n, lr):
    return "momentum", batch_n, {"lr": lr, "momentum": 0.9, "weight_decay": 0.001}


def nesterov(batch_n, lr):
    return "nesterov", batch_n, {"lr": lr, "momentum": 0.9, "nesterov": True}


# Runs that learn without amplifying rounding, and of how many segments the file keeps something.
RUNS = {
    "mlp": ((sgd(4, 0.02), momentum(3, 0.005), nesterov(4, 0.005)), 100),
    "lenet5": ((sgd(4, 0.01), momentum(3, 0.005), nesterov(4, 0.005)), 100),
    "fedavg-cnn": ((sgd(6, 0.005), momentum(3, 0.002), nesterov(3, 0.002)), 100),
    "vgg16": ((momentum(4, 0.001),), 9),
    "vgg16-bn": ((momentum(8, 5e-6),), 9),
    "alexnet": ((momentum(2, 5e-5),), 8),
    "googlenet": ((momentum(2, 1e-5),), 9),
    "resnet20": ((sgd(4, 0.001), momentum(4, 0.0003)), 16),
    "resnet50": ((momentum(2, 4e-7),), 9),
    "mobilenetv2": ((momentum(8, 5e-6),), 16),
    "dscnn": ((sgd(16, 0.01), momentum(12, 0.005)), 16),
    "autoencoder": ((sgd(16, 0.02), momentum(32, 0.01)), 16),
    "gru": ((sgd(6, 0.1), momentum(6, 0.05)), 100),
}


# Kernels may compute these by Winograd's algorithm for 5 x 5, which rounds ten times as much as
# PyTorch: that must turn no max pool and no ReLU to the other side.
STEADY = {"fedavg-cnn:plain"}
NOISE = 1e-6            # of a convolution's standard deviation


def drift_of(losses, exact_losses, kept, exact_kept):
    """How far fp32 went from fp64, measured as vectors.c measures."""
    drift = max(abs(a - b) / b for a, b in zip(losses, exact_losses))
    for name in kept:
        a, b = kept[name].detach().double(), exact_kept[name].detach()
        if b.abs().mean() > 0:
            drift = max(drift, float(((a - b).abs() / b.abs().clamp(min=b.abs().mean())).max()))
    return drift


def write_one(g, w, description, variant, segments_n):
    label, batch_n, options = variant
    began = time.time()
    model, losses = trajectory(g, description, batch_n, options, torch.float32)
    exact, exact_losses = trajectory(g, description, batch_n, options, torch.float64)
    normed = any(l["type"] == "batchnorm" for l in description["layers"])
    segments = list(model.segments())
    every = -(-len(segments) // segments_n)
    kept = {name: tensor for name, tensor, _ in segments[::-every]}
    drift = drift_of(losses, exact_losses, kept, {n: t for n, t, _ in exact.segments()})
    print(f"{description['name']:12} {label:9} loss {losses[0]:.4f} .. {losses[-1]:.4f}, "
          f"fp64 differs by {drift:.1e}, {time.time() - began:.0f} s", flush=True)
    if not drift < (2e-4 if normed else 2e-5):
        raise SystemExit(f"gen_vectors: {description['name']}/{label} amplifies rounding "
                         f"({drift:.1e}): choose a smaller learning rate")
    for seed in range(8 if f"{description['name']}:{label}" in STEADY else 0):
        torch.manual_seed(seed)
        noisy, noisy_losses = trajectory(g, description, batch_n, options, torch.float32, True)
        noisy = {name: tensor for name, tensor, _ in noisy.segments()}
        drift = drift_of(noisy_losses, losses, kept, {n: t.double() for n, t in noisy.items()})
        if not drift < 2e-5:
            raise SystemExit(f"gen_vectors: {description['name']}/{label} stands on a kink "
                             f"({drift:.1e}): choose another minibatch")
    if not losses[-1] < 0.99 * losses[1]:
        raise SystemExit(f"gen_vectors: {description['name']}/{label} does not learn: choose a "
                         "larger learning rate")
    w.begin("model", f"{description['name']}:{label}", batch_n=batch_n, steps=STEPS,
            lr=options["lr"], momentum=float(options.get("momentum", 0)),
            weight_decay=float(options.get("weight_decay", 0)),
            nesterov=int(options.get("nesterov", False)), segments=len(segments),
            parameters=sum(p.numel() for _, p, trained in segments if trained),
            normed=int(normed))
    w.out("losses", torch.tensor(losses))
    for name, tensor in kept.items():
        w.out(name, tensor, KEEP)
    w.end()


def write(g, w):
    """g: the module tools/gen_vectors; w: where to."""
    for path in sorted(glob.glob(os.path.join(ROOT, "apps", "cli", "models", "*.json"))):
        with open(path, encoding="utf-8") as f:
            description = json.load(f)
        variants, segments_n = RUNS[description["name"]]
        for variant in variants:
            write_one(g, w, description, variant, segments_n)
