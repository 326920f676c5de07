# SPDX-License-Identifier: Apache-2.0
"""Networks of operators on tensors, drawn at random. Of random_models.py.

A piece is a module that is drawn for one shape of a sample; None: there is none for that shape.
Some pieces are nearly what the converter joins into one layer, and compute something else."""

import math

import torch
from torch import nn
import torch.nn.functional as F

from odd_networks import Network

SHAPES = [(8,), (6, 4), (4, 7), (5, 6), (3, 4, 5), (2, 6, 6), (4, 8, 8), (3, 9, 7)]
ELEMENTS_MAX = 1200


def parameter(shape, value=0.0, deviation=0.4):
    return nn.Parameter(torch.randn(*shape) * deviation + value)


class Step(Network):
    """A function of a minibatch and what it owns. It is known by its line here."""

    def extra_repr(self):
        return f"line {self.function.__code__.co_firstlineno}"


def step(function, *owned):
    return Step(function, owned)


def dim(r, shape, axis):
    """The axis of a sample as one of a minibatch, from the front or from the back."""
    return axis + 1 if r.random() < 0.5 else axis - len(shape)


def some_dims(r, shape, most):
    n = r.randint(1, min(most, len(shape)))
    return [dim(r, shape, axis) for axis in sorted(r.sample(range(len(shape)), n))]


def repeated(r, shape):
    """A shape that broadcasting repeats to the given one."""
    kept = [size if r.random() < 0.6 else 1 for size in shape]
    return kept[r.randrange(len(kept)):] if r.random() < 0.5 else kept


def positive(x):
    return F.softplus(x) + 0.2


# Functions of each element

FUNCTIONS = [
    lambda x: x.relu(), lambda x: x.sigmoid(), lambda x: x.tanh(), lambda x: x.abs(),
    lambda x: x.tanh().exp(), lambda x: positive(x).log(), lambda x: positive(x).sqrt(),
    lambda x: positive(x).reciprocal(), lambda x: positive(x).rsqrt(), lambda x: -x,
    lambda x: positive(x).pow(1.7), lambda x: x.tanh().pow(2), lambda x: x.tanh().pow(3),
    lambda x: x.erf(), lambda x: x.sin(), lambda x: x.cos(), lambda x: x * x.tanh(), F.softsign,
    lambda x: F.hardswish(x), lambda x: F.hardsigmoid(x), lambda x: F.elu(x, 0.7),
    lambda x: F.celu(x, 0.6), lambda x: F.selu(x), lambda x: F.mish(x), lambda x: F.gelu(x),
    lambda x: F.silu(x), lambda x: F.leaky_relu(x, 0.2), lambda x: F.softplus(x),
    lambda x: F.softplus(x, beta=2.0), lambda x: F.logsigmoid(x), lambda x: x.clamp(-0.8, 1.1),
    lambda x: x.clamp(min=-0.4), lambda x: F.relu6(x + 2), lambda x: F.hardtanh(x, -0.7, 0.9),
    lambda x: F.softshrink(x, 0.2), lambda x: 1.5 - x,
    lambda x: x / 1.7 + 0.2, lambda x: 2 * (0.4 * x - 0.1), lambda x: 0.7 / positive(x),
    lambda x: torch.where(x > 0.2, x, 0.3 * x), lambda x: (x.exp() - 1).tanh(),
    lambda x: positive(x).log1p(), lambda x: torch.maximum(x, 0.3 * x), lambda x: x.square().tanh(),
]


def by_parts(r):
    """A function that exporters write by parts, or nearly that."""
    a, half = r.choice([1.0, 1.0, 1.2]), r.choice([0.5, 0.5, 0.4])
    return r.choice([
        lambda x: half * x * (1 + torch.erf(x / math.sqrt(2.0))),
        lambda x: x * half * (1 + torch.erf(a * x / math.sqrt(2.0))),
        lambda x: x * (half * (a + torch.erf(x / math.sqrt(2.0)))),
        lambda x: half * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x ** 3))),
        lambda x: half * x * (1 + torch.tanh(0.7978845608 * a * (x + 0.044715 * x * x * x))),
        lambda x: x * torch.sigmoid(1.702 * x), lambda x: a * x * torch.sigmoid(x),
        lambda x: x * F.relu6(x + 3) / 6, lambda x: x * F.relu6(x + 3 * a) / 6,
        lambda x: x * F.hardsigmoid(x), lambda x: a * x * torch.tanh(F.softplus(x)),
        lambda x: x * torch.tanh(F.softplus(a * x)), lambda x: x * x.tanh().sigmoid()])


def element(r, _):
    f = r.choice(FUNCTIONS) if r.random() < 0.7 else by_parts(r)
    return step(lambda x: f(x))     # pylint: disable=unnecessary-lambda


# Arithmetic

def combine(r):
    return r.choice([torch.add, torch.sub, torch.mul, lambda a, b: b - a, torch.maximum,
                     torch.minimum, lambda a, b: a / positive(b), lambda a, b: b / positive(a),
                     lambda a, b: positive(a) ** b.tanh(), lambda a, b: a + 0.5 * b])


def arithmetic(r, shape):
    """With a parameter or a constant that broadcasting repeats."""
    op, value = combine(r), parameter(repeated(r, shape), 0.7)
    if r.random() < 0.25:
        c = value.detach()
        return step(lambda x: op(x, c.to(x.dtype)))
    if r.random() < 0.5:
        return step(op_of(op), value)
    return step(lambda x, w: op(w, x), value)


def op_of(op):
    return lambda x, w: op(x, w)


def mask(r, shape):
    keep = torch.rand(repeated(r, shape)) > 0.3
    other = r.choice([0.0, -0.5])
    if r.random() < 0.5:
        return step(lambda x: x.masked_fill(~keep, other))
    return step(lambda x: torch.where(keep, x, torch.full_like(x, other)))


def skip(r, shape):
    """x and a piece of it that has its shape."""
    inner = r.choice([element, element, arithmetic, softmax, linear, norm, by_norm])(r, shape)
    if inner is None or tuple(inner(torch.zeros(2, *shape)).shape[1:]) != shape:
        inner = element(r, shape)
    op = combine(r)
    return step(lambda x, inner: op(x, inner(x)), inner)


# Reductions

def reduction(r, dims, keep):
    one = dims[0]
    return r.choice([
        lambda x: x.mean(dims, keepdim=keep), lambda x: x.mean(dims, keepdim=keep),
        lambda x: 0.2 * x.sum(dims, keepdim=keep), lambda x: x.amax(dims, keepdim=keep),
        lambda x: x.amin(dims, keepdim=keep), lambda x: x.max(one, keepdim=keep)[0],
        lambda x: x.norm(2, dims, keepdim=keep), lambda x: 0.1 * x.abs().sum(dims, keepdim=keep),
        lambda x: torch.logsumexp(x, dims, keepdim=keep),
        lambda x: torch.logsumexp(40 * x, dims, keepdim=keep) / 40,
        lambda x: x.var(dims, unbiased=False, keepdim=keep),
        lambda x: (x.square().mean(dims, keepdim=keep) + 0.1).sqrt(),
        lambda x: x.std(dims, unbiased=False, keepdim=keep)])


def reduce(r, shape):
    if len(shape) < 2:
        return None
    f = reduction(r, some_dims(r, shape, len(shape) - 1), False)
    return step(lambda x: f(x))     # pylint: disable=unnecessary-lambda


def gate(r, shape):
    """x and what reductions of it give."""
    f, op, g = reduction(r, some_dims(r, shape, 3), True), combine(r), r.choice(FUNCTIONS[:4])
    return step(lambda x: op(x, g(f(x))))


def softmax(r, shape):
    axis = dim(r, shape, r.randrange(len(shape)))
    f = r.choice([torch.softmax, torch.softmax, torch.log_softmax])
    k = r.choice([1.0, 1.0, -0.5])
    return step(lambda x: f(k * x if k != 1.0 else x, axis))


def running_sum(r, shape):
    axis = dim(r, shape, r.randrange(len(shape)))
    return step(lambda x: x.cumsum(axis) / 3)


# Products

def linear(r, shape):
    return nn.Linear(shape[-1], r.choice([shape[-1], 4, 6]), bias=r.random() < 0.7)


def product(r, shape):
    if len(shape) < 2:
        return None
    n, k, m = r.choice([3, 6]), shape[-1], shape[-2]
    batch = repeated(r, shape[:-2])[:2] if len(shape) > 2 and r.random() < 0.5 else []
    right, left = parameter([*batch, k, n], 0, k ** -0.5), parameter([*batch, n, m], 0, m ** -0.5)
    constant = left.detach()
    return r.choice([
        step(lambda x, w: x @ w, right), step(lambda x, w: w @ x, left),
        step(lambda x, w: x.transpose(-1, -2) @ w.transpose(-1, -2), left),
        step(lambda x: x @ x.transpose(-1, -2) / k), step(lambda x: x.transpose(-1, -2) @ x / m),
        step(lambda x: constant.to(x.dtype) @ x),
        step(lambda x, w: (x @ w).tanh() @ (0.5 * (x @ w)).transpose(-1, -2), right),
        step(lambda x, w: torch.matmul(0.3 * x, 2 * w), right)])


def einsum(r, shape):
    if len(shape) == 2:
        t, f = shape
        return r.choice([
            step(lambda x, w: torch.einsum("btf,fh->bth", x, w), parameter((f, 5))),
            step(lambda x, w: torch.einsum("btf,tf->bt", x, w), parameter((t, f))),
            step(lambda x, w: torch.einsum("btf,ht->bhf", x, w), parameter((4, t))),
            step(lambda x: torch.einsum("btf,bsf->bts", x, x) / f)])
    if len(shape) == 3:
        c, h, w = shape
        return r.choice([
            step(lambda x, w: torch.einsum("bchw,dc->bdhw", x, w), parameter((5, c))),
            step(lambda x, w: torch.einsum("bchw,wv->bchv", x, w), parameter((w, 4))),
            step(lambda x: torch.einsum("bchw,bcvw->bchv", x, x) / h)])
    return None


# Elements in other places

def pick(r, shape):
    axis = r.randrange(len(shape))
    size, d = shape[axis], dim(r, shape, axis)
    index = torch.tensor([r.randrange(size) for _ in range(r.randint(1, size + 2))])
    first, stride = r.randrange(size), r.choice([1, 1, 2])
    last = r.choice([size, size - 1]) if first < size - 1 else size
    cut = [slice(None)] * (axis + 1) + [slice(first, last, stride)]
    at = r.randrange(1, size) if size > 1 else 0
    return r.choice([
        step(lambda x: x.index_select(d, index)), step(lambda x: x[tuple(cut)]),
        step(lambda x: x.flip([d])), step(lambda x: x.roll(at, d) if at else x.tanh()),
        step(lambda x: torch.cat([x.narrow(d, at, size - at), x.narrow(d, 0, at)], d) if at else x),
        step(lambda x: x.index_select(d, index).index_select(d, torch.arange(len(index)).flip(0))),
        step(lambda x: torch.cat(x.chunk(2, d)[::-1], d)),
        step(lambda x: sum(x.narrow(d, i, size - at) for i in (0, at))),
        step(lambda x: torch.cat([x, x], d))])


def pad(r, shape):
    n = r.choice([1, 2]) if len(shape) > 2 else 1
    least = min(shape[-n:])
    sides = [r.randrange(min(3, least)) for _ in range(2 * n)]
    mode = r.choice(["constant", "constant", "reflect", "replicate"])
    if mode == "constant":
        value = r.choice([0.0, 0.0, 0.5])
        if r.random() < 0.3 and value == 0.0:
            sides[0] = -1 if shape[-1] > 4 else 0
        return step(lambda x: F.pad(x, sides, value=value))
    if len(shape) == n:
        return None
    return step(lambda x: F.pad(x, sides, mode=mode)) if len(shape) == n + 1 else None


def resize(r, shape):
    if len(shape) < 2 or max(shape) > 9:
        return None
    n = len(shape) - 1
    to = {"size": [r.randint(3, 12) for _ in range(n)]} if r.random() < 0.5 else \
        {"scale_factor": [float(r.choice([2, 2, 3])) for _ in range(n)]}
    if r.random() < 0.4:
        return step(lambda x: F.interpolate(x, mode="nearest", **to))
    mode = "linear" if n == 1 else r.choice(["bilinear", "bilinear", "bicubic"])
    corners = r.random() < 0.5
    return step(lambda x: F.interpolate(x, mode=mode, align_corners=corners, **to))


def place(r, shape):
    """Another shape, or other places of the axes."""
    n = len(shape)
    order = [0, *r.sample(range(1, n + 1), n)]
    even = [i for i, size in enumerate(shape) if size % 2 == 0 and size > 2]
    choices = [step(lambda x: x.permute(*order)), step(lambda x: x.permute(*order).relu())]
    if n < 3 and even:
        at = r.choice(even)
        cut = (*shape[:at], 2, shape[at] // 2, *shape[at + 1:])
        choices += [step(lambda x: x.view(-1, *cut)), step(lambda x: x.reshape(-1, *cut))]
    if n > 1:
        at = r.randint(1, n - 1)
        choices += [step(lambda x: x.permute(*order).flatten(at, at + 1)),
                    step(lambda x: x.flatten(at, at + 1))]
    if n < 3:
        d = r.randint(1, n + 1)
        wide = [-1] * (n + 2)
        wide[d] = 2
        choices += [step(lambda x: x.unsqueeze(d)), step(lambda x: x.unsqueeze(d).expand(*wide)),
                    step(lambda x: torch.stack([x, x.tanh()], d))]
    if 1 in shape and n > 1:
        choices += [step(lambda x: x.squeeze(shape.index(1) + 1))] * 3
    if n == 3 and shape[0] % 4 == 0:
        choices += [nn.PixelShuffle(2)]
    if n == 3 and shape[1] % 2 == 0 and shape[2] % 2 == 0:
        choices += [nn.PixelUnshuffle(2)]
    return r.choice(choices)


def token(r, shape):
    """Trained or constant elements beside the others."""
    axis = r.randrange(len(shape))
    sizes = list(shape)
    sizes[axis] = r.choice([1, 2])
    p, d = parameter([1, *sizes]), dim(r, shape, axis)
    c = p.detach()
    front = r.random() < 0.5
    if r.random() < 0.3:
        return step(lambda x: torch.cat([x, c.to(x.dtype).expand(x.shape[0], *sizes)], d))
    return step(lambda x, p: torch.cat([p.expand(x.shape[0], *sizes), x][::1 if front else -1], d),
                p)


def branches(r, shape):
    """Functions of x side by side."""
    d = dim(r, shape, r.randrange(len(shape)))
    a, b = element(r, shape), element(r, shape)
    return step(lambda x, a, b: torch.cat([a(x), b(x)], d), a, b)


# Layers by parts

def by_norm(r, shape):
    """A normalization by parts, or nearly that."""
    d, n = -1 if r.random() < 0.8 else 1, shape[-1]
    other = d if r.random() < 0.8 else 1
    w, b = parameter((n,), 1.0), parameter((n,))
    one = step(lambda x, w: w * x * torch.rsqrt(x.pow(2).mean(d, keepdim=True) + 1e-3), w)
    two = step(lambda x, w: x / (x.square().mean(d, keepdim=True) + 1e-3).sqrt() * w, w)

    def layer(x, w, b):
        c = x - x.mean(d, keepdim=True)
        return c / torch.sqrt((c ** 2).mean(other, keepdim=True) + 1e-3) * w + b

    def spread(x, w, b):
        return (x - x.mean(d, keepdim=True)) / (x.std(other, keepdim=True) + 1e-2) * w + b
    return r.choice([one, two, step(layer, w, b), step(layer, w, b),
                     step(spread, w, b) if n > 1 and shape[0] > 1 else one,
                     step(lambda x, w: F.normalize(x, dim=d) * w, w)])


def gated(r, shape):
    n, wide = shape[-1], 6
    a, b = nn.Linear(n, wide, bias=r.random() < 0.5), nn.Linear(n, wide)
    f = r.choice([F.silu, F.gelu, torch.sigmoid, torch.tanh])
    if r.random() < 0.3:
        return nn.Sequential(nn.Linear(n, 8), nn.GLU(-1))
    return step(lambda x, a, b, c: c(f(a(x)) * b(x)), a, b, nn.Linear(wide, n))


def rotary(_, shape):
    if len(shape) < 2 or shape[-1] % 2:
        return None
    t, half = shape[-2], shape[-1] // 2
    angle = torch.arange(t)[:, None] / 10 ** (torch.arange(half) / half)
    cosine, sine = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    return step(lambda x: x * cosine.to(x.dtype) +
                torch.cat([-x[..., half:], x[..., :half]], -1) * sine.to(x.dtype))


def attention(r, shape):
    if len(shape) != 2:
        return None
    t, n = shape
    heads, e = r.choice([1, 2]), r.choice([4, 6, n + n % 2])
    width = e // heads
    scale = r.choice([width ** -0.5, width ** -0.5, 0.3])
    biases = [r.random() < 0.6] * 3 if r.random() < 0.7 else [r.random() < 0.5 for _ in range(3)]
    hidden = torch.triu(torch.ones(t, t), 1) * -1e9 if r.random() < 0.4 else None
    turn = r.choice([lambda y: y, lambda y: y, torch.tanh])
    f, out = r.choice([(0, n), (0, e), (1, n)])

    def attend(x, q, k, v, last):
        def heads_of(y):
            return y.view(-1, t, heads, width).transpose(1, 2)
        scores = heads_of(q(x)) @ heads_of(turn(k(x))).transpose(-2, -1) * scale
        if hidden is not None:
            scores = scores + hidden.to(x.dtype)
        y = last((scores.softmax(-1) @ heads_of(v(x))).transpose(1, 2).reshape(-1, t, e))
        return x + y if f else y
    if r.random() < 0.3:
        both = nn.MultiheadAttention(n, 1 + (n % 2 == 0), batch_first=True)
        return step(lambda x, both: both(x, x, x, need_weights=False)[0], both)
    return step(attend, *[nn.Linear(n, e, bias=b) for b in biases],
                nn.Linear(e, out, bias=r.random() < 0.7))


def normed_weight(_, shape):
    return step(lambda x, w: F.linear(x, w / w.norm(dim=1, keepdim=True)),
                parameter((5, shape[-1])))


def squeeze(r, shape):
    if len(shape) != 3:
        return None
    c = shape[0]
    f, g = r.choice([F.relu, F.silu]), r.choice([torch.sigmoid, F.hardsigmoid])
    if r.random() < 0.5:
        return step(lambda x, a, b: x * g(b(f(a(F.adaptive_avg_pool2d(x, 1))))),
                    nn.Conv2d(c, 2, 1), nn.Conv2d(2, c, 1))
    return step(lambda x, a, b: x * g(b(f(a(x.mean((2, 3))))))[:, :, None, None],
                nn.Linear(c, 2), nn.Linear(2, c))


# Layers

def conv(r, shape):
    if len(shape) < 2:
        return None
    two, c = len(shape) == 3, shape[0]
    out, k = r.choice([4, 6]), r.choice([1, 2, 3])
    groups = r.choice([g for g in (1, 1, 2, c) if c % g == 0 and out % g == 0])
    module = nn.Conv2d if two else nn.Conv1d
    way = r.randrange(4)
    if way == 0 and min(shape[1:]) > 3:     # one-sided zeros in front of it
        sides = [r.randrange(3) for _ in range(4 if two else 2)]
        return nn.Sequential(step(lambda x: F.pad(x, sides)), module(
            c, out, k, stride=r.choice([1, 2]), groups=groups, bias=r.random() < 0.7))
    if way == 1:
        turned = nn.ConvTranspose2d if two else nn.ConvTranspose1d
        stride = r.choice([1, 2, 3])
        return turned(c, out, k + 1, stride=stride, padding=r.randrange(2), groups=groups,
                      output_padding=r.randrange(stride), bias=r.random() < 0.7)
    if way == 2 and two:
        kernel = (r.choice([1, 3]), r.choice([1, 2, 3]))
        if kernel[0] <= shape[1] and kernel[1] <= shape[2]:
            return nn.Conv2d(c, out, kernel, padding=(kernel[0] // 2, 0), groups=groups)
    d = r.choice([1, 2])
    return module(c, out, k, padding=d * (k - 1) // 2 if k != 2 else 1, dilation=d, groups=groups)


def pool(r, shape):
    if len(shape) < 2 or min(shape[1:]) < 4:
        return None
    two = len(shape) == 3
    maximum, average = (nn.MaxPool2d, nn.AvgPool2d) if two else (nn.MaxPool1d, nn.AvgPool1d)
    sides = [r.randrange(2) for _ in range(4 if two else 2)]
    choices = [lambda: maximum(2), lambda: average(3, 2, 1, count_include_pad=r.random() < 0.5),
               lambda: maximum(3, 2, 1, ceil_mode=r.random() < 0.5),
               lambda: average(2, 1, ceil_mode=r.random() < 0.5),
               lambda: average(3, 2, ceil_mode=True),
               lambda: nn.Sequential(step(lambda x: F.pad(x, sides)), average(2)),
               lambda: nn.Sequential(step(lambda x: F.pad(x, sides, value=-2.0)), maximum(2, 1))]
    if two:
        choices += [lambda: nn.LPPool2d(2, 2), lambda: maximum((1, 2)), lambda: average((2, 1))]
        if shape[1] % 2 == 0 and shape[2] % 2 == 0:
            choices += [lambda: nn.AdaptiveAvgPool2d(2)]
    return r.choice(choices)()


def recurrent(r, shape):
    if len(shape) != 2:
        return None
    hidden = r.choice([3, 5])
    kind = r.choice([nn.RNN, nn.GRU, nn.LSTM])
    rnn = kind(shape[1], hidden, r.choice([1, 1, 2]), batch_first=True,
               bidirectional=r.random() < 0.3, bias=r.random() < 0.8)
    way = r.choice([lambda y: y, lambda y: y, lambda y: y[:, -1], lambda y: y[:, 0],
                    lambda y: y.mean(1)])
    return step(lambda x, rnn: way(rnn(x)[0]), rnn)


def norm(r, shape):
    n, c = len(shape), shape[0]
    module = nn.LayerNorm(shape[-r.randint(1, n):])
    if n > 1 and r.random() < 0.5:
        batch, instance = [(nn.BatchNorm1d, nn.InstanceNorm1d),
                           (nn.BatchNorm2d, nn.InstanceNorm2d)][n - 2]
        module = r.choice([lambda: batch(c), lambda: batch(c, affine=False),
                           lambda: nn.GroupNorm(2 if c % 2 == 0 else 1, c),
                           lambda: instance(c, affine=True),
                           lambda: nn.LocalResponseNorm(3, 0.3, 0.75, 1.5)])()
    for p in module.parameters():   # else the mean of what it gives stands at a kink, 0
        nn.init.normal_(p, p[0].mean().item(), 0.3)
    return module


PIECES = [element, element, element, arithmetic, arithmetic, skip, mask, gate, reduce, softmax,
          running_sum, linear, product, product, einsum, pick, pick, pad, resize, place, place,
          token, branches, by_norm, gated, rotary, attention, attention, normed_weight, squeeze,
          conv, conv, pool, recurrent, norm]


class Join(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)

    def extra_repr(self):
        return f"line {self.function.__code__.co_firstlineno}"


def join(r, a, b):
    """Of two values."""
    choices, op = [], combine(r)
    if all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1])) and len(a) == len(b):
        choices += [Join(lambda x, y: op(x, y))] * 2
    if len(a) == len(b) and sum(x != y for x, y in zip(a, b)) <= 1:
        axis = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), r.randrange(len(a)))
        choices += [Join(lambda x, y: torch.cat([x, y], axis + 1))]
    if len(a) == len(b) > 1 and a[:-2] == b[:-2]:
        if a[-1] == b[-1]:
            choices += [Join(lambda x, y: x @ y.transpose(-1, -2) / a[-1])]
        if a[-2] == b[-2]:
            choices += [Join(lambda x, y: x.transpose(-1, -2) @ y / a[-2])]
        if a[-1] == b[-2]:
            choices += [Join(lambda x, y: (0.3 * x).softmax(-1) @ y)]
    return r.choice(choices) if choices else None


class Graph(nn.Module):
    """Steps, each of which reads earlier values; the first is the input."""

    def __init__(self, steps):
        super().__init__()
        self.steps = nn.ModuleList(module for module, _ in steps)
        self.inputs = [inputs for _, inputs in steps]

    def forward(self, x):
        values = [x]
        for module, inputs in zip(self.steps, self.inputs):
            values.append(module(*[values[i] for i in inputs]))
        return values[-1]

    def extra_repr(self):
        return f"inputs={self.inputs}"


def fits(module, inputs):
    """The output if it may stay: small, of few axes, and of moderate values."""
    with torch.no_grad():
        y = module.train()(*inputs)
    n = y[0].numel()
    ok = 2 <= y.dim() <= 4 and 2 <= n <= ELEMENTS_MAX and bool(torch.isfinite(y).all())
    return y if ok and y.abs().max() < 30 and y.std() > 0.02 else None


def shape_of(x):
    return tuple(x.shape[1:])


def draw(r, classes):
    """Returns the network and the shape of a sample."""
    shape = r.choice(SHAPES)
    values, steps = [torch.randn(4, *shape)], []

    def add(module, *inputs):
        y = fits(module, [values[i] for i in inputs]) if module is not None else None
        if y is not None:
            steps.append((module, inputs))
            values.append(y)
        if y is not None and y.abs().max() > 5:
            add(step(lambda x: 0.3 * x), len(steps))
    wanted = r.randint(3, 9)
    while len(steps) < wanted:
        last = len(steps)
        other = r.randrange(last + 1)
        if r.random() < 0.25 and last > 0:
            add(join(r, shape_of(values[last]), shape_of(values[other])), last, other)
        else:
            at = last if r.random() < 0.85 else other
            add(r.choice(PIECES)(r, shape_of(values[at])), at)
    x = values[-1]
    if x.dim() > 2 and r.random() < 0.4:
        dims = list(range(2, x.dim())) if r.random() < 0.5 else list(range(1, x.dim() - 1))
        steps.append((step(lambda x: x.mean(dims)), [len(steps)]))
        x = x.mean(dims)
    steps += [(nn.Flatten(), [len(steps)]), (nn.Linear(x[0].numel(), classes), [len(steps) + 1])]
    return Graph(steps), shape
