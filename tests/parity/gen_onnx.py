#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/parity/gen_onnx.py DIR - small models as PyTorch exports them, with what PyTorch computes

Writes DIR/NAME.onnx and DIR/NAME.txt: a line of kinds of layers that the import shall give, a line
of input values, a line of outputs; both for two samples. Needs torch; the tests read what is
committed in tests/parity/onnx."""

import sys
import warnings

import torch
from torch import nn

TRAINING = torch.onnx.TrainingMode


class Pick(nn.Module):
    """What a recurrent network's user takes of it."""

    def __init__(self, rnn, pick, width):
        super().__init__()
        self.rnn, self.pick, self.fc = rnn, pick, nn.Linear(width, 3)

    def forward(self, x):
        y, h = self.rnn(x)
        h = h[0] if isinstance(h, tuple) else h
        return self.fc({"last": y[:, -1], "mean": y.mean(1), "state": h[-1]}[self.pick])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.a = nn.Linear(5, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.n, self.fc = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.emb(x)
        return self.fc(self.n(x + self.a(x, x, x)[0]).mean(1))


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.p = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("m", torch.tril(torch.ones(7, 7)).view(1, 1, 7, 7))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = [z.view(b, t, 2, 4).transpose(1, 2) for z in self.qkv(x).split(8, dim=2)]
        a = (q @ k.transpose(-2, -1)) * 4 ** -0.5
        a = a.masked_fill(self.m[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        return self.p((a @ v).transpose(1, 2).contiguous().view(b, t, c)).mean(1)


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.fc = nn.Embedding(20, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.fc(self.e(x.long()).mean(1))


class Shapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.d = nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.Conv1d(4, 6, 3, padding=1)
        self.t = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1)
        self.fc = nn.Linear(6, 3)

    def logits(self, x):
        x = self.c(x)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        a, b = x.chunk(2, 1)
        x = self.t(torch.cat([b, a, x[:, :2]], 1)[:, 1:9])
        x = self.d(x.flatten(2))
        x = nn.functional.leaky_relu(torch.sigmoid(x) + torch.tanh(x), 0.2)
        return self.fc(x.mean(-1))

    def forward(self, x):
        return torch.log_softmax(self.logits(x), 1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 9, 5)

    def forward(self, x):
        x = torch.relu(self.a(x))
        x = torch.max_pool2d(torch.relu(x + self.b(x)), 2)
        return self.fc(torch.flatten(x, 1))


def cases():
    """name, model, input, kinds of layers, options of the export"""
    image = torch.randn(2, 1, 8, 8)
    steps = torch.randn(2, 7, 5)
    cnn = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU6(), nn.Dropout(0.3),
           nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10)]
    norms = [nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.GELU(),
             nn.LocalResponseNorm(3), nn.AvgPool2d(3, 2, padding=1),
             nn.InstanceNorm2d(4, affine=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
             nn.LayerNorm(4), nn.GELU(approximate="tanh"), nn.Linear(4, 10)]
    layers = ("conv2d groupnorm silu gelu lrn avgpool2d groupnorm global_avgpool layernorm gelu "
              "dense")
    yield "residual", Residual(), torch.randn(2, 2, 6, 6), \
        "conv2d relu conv2d add relu maxpool2d flatten dense", {"opset_version": 11}
    yield "cnn", nn.Sequential(*cnn), image, \
        "conv2d relu6 maxpool2d flatten dense", {}
    yield "cnn_train", nn.Sequential(*cnn), image, \
        "conv2d batchnorm relu6 dropout maxpool2d flatten dense", {"training": TRAINING.TRAINING}
    yield "cnn_train14", nn.Sequential(*cnn), image, \
        "conv2d batchnorm relu6 dropout maxpool2d flatten dense", \
        {"training": TRAINING.TRAINING, "opset_version": 14}
    yield "cnn_fixed", nn.Sequential(*cnn), image, \
        "conv2d relu6 maxpool2d flatten dense", {"dynamic_axes": None}
    yield "norms", nn.Sequential(*norms), torch.randn(2, 1, 9, 9), layers, {}
    yield "depthwise", nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.SiLU(), nn.Conv2d(4, 8, 1, bias=False),
        nn.GroupNorm(4, 8, affine=False), nn.LeakyReLU(0.3),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), nn.Flatten(),
        nn.Linear(200, 3)), torch.randn(2, 4, 9, 9), \
        "conv2d silu conv2d groupnorm leaky_relu avgpool2d flatten dense", {}
    yield "norms17", nn.Sequential(*norms[:6] + norms[7:]), torch.randn(2, 1, 9, 9), \
        layers.replace("avgpool2d groupnorm", "avgpool2d"), {"opset_version": 17}
    yield "gru", Pick(nn.GRU(5, 6, batch_first=True), "last", 6), steps, "gru dense", {}
    yield "gru_train", Pick(nn.GRU(5, 6, batch_first=True), "last", 6), steps, "gru dense", \
        {"training": TRAINING.TRAINING}
    yield "lstm", Pick(nn.LSTM(5, 6, batch_first=True), "state", 6), steps, "lstm dense", {}
    yield "lstm_bi", Pick(nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True), "last", 8), \
        steps, "lstm lstm concat lstm lstm concat slice dense", {}
    yield "rnn", Pick(nn.RNN(5, 6, batch_first=True, nonlinearity="relu"), "mean", 6), steps, \
        "rnn transpose global_avgpool dense", {"opset_version": 12, "dynamic_axes": None}
    for opset in (11, 17):
        yield f"attention{opset}", Attention(), steps, \
            "dense attention add layernorm transpose global_avgpool dense", \
            {"opset_version": opset}
    yield "transformer", nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Flatten(), nn.Linear(56, 3)), \
        torch.randn(2, 7, 8), "attention dropout add layernorm dense relu dropout dense dropout " \
        "add layernorm flatten dense", {"training": TRAINING.TRAINING}
    yield "causal", Causal(), torch.randn(2, 7, 8), "attention transpose global_avgpool", {}
    yield "embedding", Embedding(), torch.arange(14.0).view(2, 7), \
        "embedding transpose global_avgpool dense", {}
    yield "shapes", Shapes(), torch.randn(2, 4, 6, 6), \
        "conv2d reshape transpose reshape slice reshape slice reshape slice concat slice reshape " \
        "conv_transpose2d reshape conv1d sigmoid tanh add leaky_relu global_avgpool dense", {}


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    for name, model, x, kinds, options in cases():
        torch.manual_seed(len(name))
        for p in model.parameters():
            nn.init.normal_(p, 0.0, 0.3)
        path = f"{sys.argv[1]}/{name}"
        arguments = {"opset_version": 13, "input_names": ["input"], "output_names": ["output"],
                     "dynamic_axes": {"input": {0: "batch"}, "output": {0: "batch"}}}
        arguments.update(options)
        arguments["do_constant_folding"] = "training" not in options
        torch.onnx.export(model, x, path + ".onnx", **arguments)
        model.eval()    # only now: exporting in training form moves the running statistics
        with torch.no_grad():
            y = getattr(model, "logits", model)(x)     # a softmax at the end is left out
        with open(path + ".txt", "w", encoding="ascii") as f:
            f.write(kinds + "\n")
            for values in (x, y):
                f.write(" ".join(f"{v:.9g}" for v in values.detach().flatten().tolist()) + "\n")


if __name__ == "__main__":
    main()
