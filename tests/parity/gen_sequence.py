# SPDX-License-Identifier: Apache-2.0
"""Vectors of sequence.txt: a chain of one layer each, its output, the gradient of its input and of
its parameters, from PyTorch. The loss is the sum of y * tensor(4)."""

import torch
import torch.nn.functional as F

RECURRENT = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}
SIZE = (7, 5)           # steps, features
BATCH = 3


def flip(x, reverse):
    return torch.flip(x, [1]) if reverse else x


def finish(w, x, y, named, tensor):
    y.backward(tensor(4, *y.shape))
    w.out("y", y)
    if x is not None:
        w.out("dx", x.grad)
    for name, p in named:
        w.out(name, p.grad)
    w.end()


def recurrent(w, kind, tensor, reverse, last, bias, relu):
    hidden = 6
    extra = {"nonlinearity": "relu"} if relu else {}
    layer = RECURRENT[kind](SIZE[1], hidden, bias=bool(bias), batch_first=True, **extra)
    named = []
    with torch.no_grad():
        for number, (name, p) in enumerate(layer.named_parameters()):
            p.copy_(tensor(10 + number, *p.shape, scale=0.5))
            named.append((name.replace("_l0", ""), p))
    x = tensor(1, BATCH, *SIZE).requires_grad_()
    y = flip(layer(flip(x, reverse))[0], reverse)
    if last:
        y = y[:, 0] if reverse else y[:, -1]
    w.begin(kind, f"reverse{reverse}_last{last}_bias{bias}_relu{relu}", hidden=hidden,
            reverse=reverse, last=last, bias=bias, relu=relu)
    finish(w, x, y, named, tensor)


def attention(w, tensor, heads, causal, bias):
    size = 8
    layer = torch.nn.MultiheadAttention(size, heads, bias=bool(bias), batch_first=True)
    named = list(layer.named_parameters())
    with torch.no_grad():
        for number, (_, p) in enumerate(named):
            p.copy_(tensor(10 + number, *p.shape, scale=0.5))
    x = tensor(1, BATCH, SIZE[0], size).requires_grad_()
    mask = torch.triu(torch.ones(SIZE[0], SIZE[0], dtype=torch.bool), 1) if causal else None
    y, _ = layer(x, x, x, attn_mask=mask, need_weights=False)
    w.begin("attention", f"heads{heads}_causal{causal}_bias{bias}", heads=heads, causal=causal,
            bias=bias, features=size)
    finish(w, x, y, named, tensor)


def embedding(w, tensor):
    rows, size = 6, 5
    weight = tensor(10, rows, size).requires_grad_()
    index = torch.tensor([[(n * 5 + t * t) % rows for t in range(SIZE[0])] for n in range(BATCH)])
    w.begin("embedding", "words_that_repeat", vocabulary=rows, size=size)
    finish(w, None, F.embedding(index, weight), [("weight", weight)], tensor)


def copies(w, tensor):
    """Samples of [3][4][5]; transpose's order is written as decimal digits."""
    cases = (
        ("transpose", "102", {"order": 102}, lambda x: x.permute(0, 2, 1, 3)),
        ("transpose", "120", {"order": 120}, lambda x: x.permute(0, 2, 3, 1)),
        ("transpose", "201", {"order": 201}, lambda x: x.permute(0, 3, 1, 2)),
        ("slice", "axis0", {"axis": 0, "start": 1, "length": 1, "squeeze": 0}, lambda x: x[:, 1:2]),
        ("slice", "axis1", {"axis": 1, "start": 1, "length": 3, "squeeze": 0},
         lambda x: x[:, :, 1:4]),
        ("slice", "axis2", {"axis": 2, "start": 4, "length": 1, "squeeze": 1}, lambda x: x[..., 4]),
        ("reshape", "2d", {"rows": 6}, lambda x: x.reshape(BATCH, 6, -1)),
        ("concat", "axis0", {"axis": 0}, lambda x: torch.cat([x, x[:, 1:]], 1)),
        ("concat", "axis1", {"axis": 1}, lambda x: torch.cat([x, x[:, :, 1:]], 2)),
        ("concat", "axis2", {"axis": 2}, lambda x: torch.cat([x, x[..., 1:]], 3)),
    )
    for kind, name, options, f in cases:
        x = tensor(1, BATCH, 3, 4, 5).requires_grad_()
        w.begin(kind, name, **options)
        finish(w, x, f(x), [], tensor)


def write(Writer, tensor):
    w = Writer("sequence.txt")
    for kind in RECURRENT:
        for reverse in (0, 1):
            for last in (0, 1):
                recurrent(w, kind, tensor, reverse, last, 1, 0)
        recurrent(w, kind, tensor, 0, 0, 0, 0)
    recurrent(w, "rnn", tensor, 0, 0, 1, 1)
    recurrent(w, "rnn", tensor, 1, 1, 0, 1)
    for heads in (1, 2, 4):
        for causal in (0, 1):
            attention(w, tensor, heads, causal, 1)
    attention(w, tensor, 2, 0, 0)
    attention(w, tensor, 2, 1, 0)
    embedding(w, tensor)
    copies(w, tensor)
