# SPDX-License-Identifier: Apache-2.0
"""Small networks as people write them: one idea each. Of exported_networks.py.

A network is a function of a minibatch x and of what it owns: modules, parameters and constants,
which have the names of its arguments."""

import inspect

import torch
from torch import nn
from torch.nn import Conv2d, Flatten, Linear, ReLU, Sequential
import torch.nn.functional as F

NETWORKS = {}       # name: (function that makes the module, shape of a sample)
VALUES, SERIES, IMAGE = (8,), (10, 6), (3, 12, 12)


class Network(nn.Module):
    def __init__(self, function, owned):
        super().__init__()
        self.function = function
        self.names = list(inspect.signature(function).parameters)[1:]
        for name, value in zip(self.names, owned):
            if isinstance(value, (nn.Module, nn.Parameter)):
                setattr(self, name, value)
            else:
                self.register_buffer(name, value)

    def forward(self, x):
        return self.function(x, *[getattr(self, name) for name in self.names])


def network(shape, owned):
    def add(function):
        NETWORKS[function.__name__] = (lambda: Network(function, owned()), shape)
        return function
    return add


def chain(name, shape, make):
    NETWORKS[name] = (lambda: Sequential(*make()), shape)


def parameter(*shape):
    return nn.Parameter(torch.randn(*shape) * 0.4)


def head(channels):
    return Sequential(nn.AdaptiveAvgPool2d(1), Flatten(), Linear(channels, 5))


# Functions of each element, and of the last axis

for _name, _make in {
        "logsigmoid": nn.LogSigmoid, "mish": nn.Mish, "gelu_tanh": lambda: nn.GELU("tanh"),
        "celu": lambda: nn.CELU(1.3), "selu": nn.SELU, "elu": lambda: nn.ELU(0.7),
        "hardtanh": lambda: nn.Hardtanh(-0.7, 0.6), "relu6": nn.ReLU6, "silu": nn.SiLU,
        "softshrink": lambda: nn.Softshrink(0.2), "hardshrink": lambda: nn.Hardshrink(0.2),
        "tanhshrink": nn.Tanhshrink, "softmin": lambda: nn.Softmin(-1),
        "threshold": lambda: nn.Threshold(0.1, -0.3),
        "glu": lambda: Sequential(Linear(12, 24), nn.GLU()),
        "rrelu": lambda: nn.RReLU(0.2, 0.2), "prelu": lambda: nn.PReLU(12),
        "softmax": lambda: nn.Softmax(-1), "log_softmax": lambda: nn.LogSoftmax(-1),
        "leaky_relu": lambda: nn.LeakyReLU(0.3), "softplus": lambda: nn.Softplus(2.0)}.items():
    chain(_name, VALUES, lambda make=_make: [Linear(8, 12), make(), Linear(12, 5)])


# Rows of values

@network(VALUES, lambda: [Linear(8, 8), Linear(8, 8), Linear(8, 8), Linear(8, 5)])
def highway(x, first, inner, gate, last):
    h = first(x)
    t = torch.sigmoid(gate(h))
    return last(inner(h).relu() * t + h * (1 - t))


@network(VALUES, lambda: [Linear(8, 6), Linear(6, 5)])
def normalize(x, first, last):
    return last(F.normalize(first(x), dim=-1))


@network(VALUES, lambda: [Linear(8, 8), Linear(8, 5), nn.Parameter(torch.ones(8))])
def rms_norm(x, first, last, weight):
    h = first(x)
    return last(weight * h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6))


@network(VALUES, lambda: [Linear(8, 12), Linear(8, 12), Linear(12, 5)])
def swiglu(x, gate, first, last):
    return last(F.silu(gate(x)) * first(x))


@network(VALUES, lambda: [Linear(8, 12), Linear(12, 5)])
def siren(x, first, last):
    return last(torch.sin(3 * first(x)))


@network(VALUES, lambda: [Linear(12, 5), torch.randn(8, 6)])
def fourier_features(x, last, frequencies):
    p = x @ frequencies
    return last(torch.cat([p.sin(), p.cos()], -1))


@network(VALUES, lambda: [Linear(8, 8), Linear(8, 8), Linear(8, 5),
                          nn.Parameter(0.1 * torch.ones(8))])
def layer_scale(x, skip, branch, last, gamma):
    return last(skip(x) + gamma * branch(x))


@network(VALUES, lambda: [Linear(8, 12), Linear(12, 1), Linear(12, 5)])
def dueling(x, first, value, advantage):
    h = first(x).relu()
    a = advantage(h)
    return value(h) + a - a.mean(1, keepdim=True)


@network(VALUES, lambda: [Linear(8, 9), Linear(9, 5), torch.randn(8), torch.rand(8) + 0.5])
def standardize(x, first, last, mean, std):
    return last(first((x - mean) / std).relu())


@network(VALUES, lambda: [Linear(8, 12), Linear(6, 5)])
def maxout(x, first, last):
    return last(first(x).view(-1, 6, 2).max(-1).values)


@network(VALUES, lambda: [Linear(8, 10), Linear(8, 10), Linear(10, 5)])
def gated(x, first, gate, last):
    return last(torch.tanh(first(x)) * torch.sigmoid(gate(x)))


@network((12,), lambda: [Linear(8, 6), Linear(4, 6), Linear(4, 6), Linear(6, 5)])
def film(x, first, factor, offset, last):
    h, condition = first(x[:, :8]).relu(), x[:, 8:]
    return last(factor(condition) * h + offset(condition))


@network(VALUES, lambda: [Linear(8, 8), Linear(8, 5), nn.Parameter(torch.tensor(0.5))])
def scaled_skip(x, first, last, alpha):
    return last(x + alpha * first(x).relu())


@network(VALUES, lambda: [Linear(8, 5), parameter(8, 4)])
def factorization_machine(x, linear, factors):
    pairs = (x @ factors).pow(2) - x.pow(2) @ factors.pow(2)
    return linear(x) + 0.5 * pairs.sum(1, keepdim=True)


@network(VALUES, lambda: [Linear(8, 3), Linear(8, 5), Linear(8, 5), Linear(8, 5)])
def mixture_of_experts(x, gate, a, b, c):
    experts = torch.stack([a(x), b(x), c(x)], 1)
    return (experts * torch.softmax(gate(x), -1).unsqueeze(-1)).sum(1)


@network(VALUES, lambda: [Linear(8, 5), nn.Parameter(torch.tensor([1.7]))])
def temperature(x, last, t):
    return last(x) / t


@network(VALUES, lambda: [Linear(8, 9), Linear(9, 5)])
def clamp(x, first, last):
    return last(first(x).clamp(min=-0.3))


@network(VALUES, lambda: [Linear(8, 9), Linear(9, 5)])
def root(x, first, last):
    return last(torch.sqrt(first(x).abs() + 0.1))


@network(VALUES, lambda: [Linear(8, 9), Linear(9, 5)])
def log_exp(x, first, last):
    return last(torch.log1p(first(x).exp()))


@network(VALUES, lambda: [Linear(8, 9), Linear(9, 5), torch.arange(9) % 2 == 0])
def where_constant(x, first, last, mask):
    return last(torch.where(mask, first(x), torch.zeros(9)))


@network(VALUES, lambda: [Linear(8, 4), Linear(16, 5)])
def outer_product(x, first, last):
    h = first(x)
    return last((h.unsqueeze(2) * h.unsqueeze(1)).flatten(1))


@network(VALUES, lambda: [Linear(8, 6), parameter(5, 6)])
def cosine_head(x, first, weight):
    return 10 * F.linear(F.normalize(first(x)), F.normalize(weight))


@network(VALUES, lambda: [Linear(8, 8), nn.BatchNorm1d(8), Linear(8, 5)])
def residual_batchnorm(x, first, norm, last):
    return last(x + norm(first(x)).relu())


# One number of each sample, [N]

for _name, _end in {"squeezed_last": lambda y: y.squeeze(-1), "squeezed": lambda y: y.squeeze(),
                    "first_column": lambda y: y[:, 0], "flattened": lambda y: y.flatten(),
                    "viewed": lambda y: y.view(-1)}.items():
    chain(_name, VALUES, lambda end=_end: [Linear(8, 9), ReLU(), Linear(9, 1), Network(end, [])])


@network(VALUES, lambda: [Linear(8, 1), Linear(8, 9), Linear(9, 1)])
def wide_and_deep(x, wide, first, last):
    return wide(x).squeeze(-1) + last(first(x).tanh()).squeeze(-1)


@network(VALUES, lambda: [Linear(4, 6), Linear(4, 6)])
def two_towers(x, user, item):
    return (user(x[:, :4]) * item(x[:, 4:])).sum(-1)


@network(SERIES, lambda: [nn.GRU(6, 7, batch_first=True), Linear(7, 1)])
def next_value(x, gru, last):
    return last(gru(x)[0][:, -1])[:, 0]


# Series of 10 steps of 6 values

@network(SERIES, lambda: [nn.GRU(6, 7, 2, batch_first=True, bidirectional=True), Linear(14, 5)])
def gru_both_ways(x, gru, last):
    return last(gru(x)[0][:, -1])


@network(SERIES, lambda: [nn.LSTM(6, 7, 2, batch_first=True), Linear(7, 5)])
def lstm_last_state(x, lstm, last):
    return last(lstm(x)[1][0][-1])


@network(SERIES, lambda: [nn.LSTM(6, 7, batch_first=True), Linear(7, 5)])
def lstm_cell_state(x, lstm, last):
    return last(lstm(x)[1][1][-1])


@network(SERIES, lambda: [nn.RNN(6, 7, nonlinearity="relu", batch_first=True), Linear(7, 5)])
def rnn_relu(x, rnn, last):
    return last(rnn(x)[0].mean(1))


@network(SERIES, lambda: [nn.LSTM(6, 7, batch_first=True), Linear(7, 5), parameter(1, 1, 7),
                          parameter(1, 1, 7)])
def lstm_first_state(x, lstm, last, h, c):
    state = [v.expand(-1, x.shape[0], -1).contiguous() for v in (h, c)]
    return last(lstm(x, (state[0], state[1]))[0][:, -1])


@network(SERIES, lambda: [nn.RNN(6, 7, batch_first=True), Linear(7, 5), parameter(1, 1, 7)])
def rnn_first_state(x, rnn, last, h):
    return last(rnn(x, h.expand(-1, x.shape[0], -1).contiguous())[0].mean(1))


@network(SERIES, lambda: [Linear(6, 7), nn.GRU(6, 7, 2, batch_first=True, bidirectional=True),
                          Linear(14, 5)])
def gru_state_of_sample(x, first, gru, last):
    h = first(x[:, 0]).tanh().unsqueeze(0).expand(4, -1, -1).contiguous()
    return last(gru(x, h)[0][:, -1])


@network(SERIES, lambda: [nn.LSTM(6, 7, 2, batch_first=True, bidirectional=True), Linear(28, 5)])
def lstm_cells_both_ways(x, lstm, last):
    return last(lstm(x)[1][1].permute(1, 0, 2).flatten(1))


@network(SERIES, lambda: [nn.LSTM(6, 7, batch_first=True), nn.LSTM(6, 7, batch_first=True),
                          Linear(7, 5)])
def seq2seq(x, encoder, decoder, last):
    return last(decoder(x[:, :4], encoder(x)[1])[0].mean(1))


@network(SERIES, lambda: [nn.LSTM(6, 7, batch_first=True), Linear(7, 1), Linear(7, 5)])
def lstm_attention(x, lstm, score, last):
    y = lstm(x)[0]
    return last((torch.softmax(score(y), 1) * y).sum(1))


@network(SERIES, lambda: [nn.Conv1d(6, 8, 3), nn.Conv1d(8, 8, 3, dilation=2), Linear(8, 5)])
def temporal_convolution(x, a, b, last):
    y = F.relu(a(F.pad(x.transpose(1, 2), (2, 0))))
    return last(F.relu(b(F.pad(y, (4, 0))))[:, :, -1])


@network(SERIES, lambda: [nn.Conv1d(6, 8, 1), nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3), Linear(8, 5)])
def wavenet(x, first, filters, gate, last):
    y = first(x.transpose(1, 2))
    return last((y[:, :, 2:] + torch.tanh(filters(y)) * torch.sigmoid(gate(y))).mean(2))


@network(SERIES, lambda: [Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True),
                          Linear(8, 5), torch.randn(1, 10, 8)])
def fixed_positions(x, embed, encoder, last, positions):
    return last(encoder(embed(x) + positions).mean(1))


@network(SERIES, lambda: [Linear(6, 8), nn.TransformerEncoderLayer(
    8, 2, 16, 0.0, batch_first=True, activation="gelu", norm_first=True), Linear(8, 5),
                          torch.triu(torch.full((10, 10), float("-inf")), 1)])
def causal_mask(x, embed, encoder, last, mask):
    return last(encoder(embed(x), src_mask=mask)[:, -1])


@network(SERIES, lambda: [Linear(6, 8), nn.MultiheadAttention(8, 2, batch_first=True),
                          Linear(24, 5), parameter(1, 3, 8)])
def cross_attention(x, embed, attention, last, queries):
    y = embed(x)
    return last(attention(queries.expand(x.shape[0], -1, -1), y, y)[0].flatten(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5), parameter(8)])
def attention_pooling(x, embed, last, query):
    h = embed(x).tanh()
    return last((torch.softmax((h * query).sum(-1), 1).unsqueeze(-1) * h).sum(1))


@network(SERIES, lambda: [Linear(6, 9), Linear(9, 9), Linear(9, 5)])
def deep_sets(x, a, b, last):
    return last(b(a(x).relu()).max(1)[0])


@network(SERIES, lambda: [nn.Conv1d(6, 9, 1), nn.BatchNorm1d(9), Linear(9, 5)])
def point_net(x, first, norm, last):
    return last(torch.max(norm(first(x.transpose(1, 2))).relu(), 2)[0])


@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5), torch.rand(10, 10) / 5])
def graph_convolution(x, first, last, adjacency):
    return last(torch.relu(adjacency @ first(x)).mean(1))


@network(SERIES, lambda: [Linear(7, 5), parameter(6, 7)])
def einsum(x, last, weight):
    return last(torch.einsum("btf,fh->bth", x, weight).relu().sum(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(16, 5)])
def mean_and_deviation(x, first, last):
    h = first(x)
    return last(torch.cat([h.mean(1), h.std(1)], 1))


@network(SERIES, lambda: [Linear(6, 8), Linear(6, 8), Linear(6, 8), Linear(8, 5),
                          torch.randn(10, 8), torch.randn(10, 8)])
def rotary_positions(x, query, key, value, last, cosine, sine):
    def turn(y):
        return y * cosine + torch.cat([-y[..., 4:], y[..., :4]], -1) * sine
    weights = (turn(query(x)) @ turn(key(x)).transpose(1, 2) / 8 ** 0.5).softmax(-1)
    return last((weights @ value(x)).mean(1))


@network(SERIES, lambda: [nn.Conv1d(6, 8, 3, padding=1), nn.BatchNorm1d(8),
                          nn.GRU(8, 7, batch_first=True), Linear(7, 5)])
def convolution_gru(x, conv, norm, gru, last):
    y = F.max_pool1d(norm(conv(x.transpose(1, 2))).relu(), 2)
    return last(gru(y.transpose(1, 2))[0][:, -1])


@network(SERIES, lambda: [nn.ConvTranspose1d(6, 8, 4, 2, 1), Linear(8, 5)])
def transposed_convolution_1d(x, conv, last):
    return last(conv(x.transpose(1, 2)).relu().mean(2))


@network(SERIES, lambda: [nn.GRU(6, 7, batch_first=True), Linear(7, 5)])
def backward_in_time(x, gru, last):
    return last(gru(torch.flip(x, [1]))[0][:, -1])


@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5)])
def running_sum(x, first, last):
    return last(torch.cumsum(first(x), 1).tanh().mean(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(6, 8), Linear(8, 5), parameter(4, 8)])
def perceiver(x, key, value, last, latent):
    weights = torch.softmax(latent @ key(x).transpose(1, 2) / 3, -1)
    return last((weights @ value(x)).mean(1))


@network(SERIES, lambda: [Linear(10, 5)])
def forecast(x, linear):
    end = x[:, -1:, :]
    return (linear((x - end).transpose(1, 2)).transpose(1, 2) + end)[:, :5, 0]


@network(SERIES, lambda: [nn.InstanceNorm1d(6, affine=True), Linear(60, 5)])
def instance_norm_1d(x, norm, last):
    return last(norm(x.transpose(1, 2)).flatten(1))


# Images of 3 channels, 12 x 12

for _name, _make in {
        "group_norm": lambda: [Conv2d(3, 8, 3), nn.GroupNorm(2, 8), ReLU(), head(8)],
        "instance_norm": lambda: [Conv2d(3, 8, 3), nn.InstanceNorm2d(8), ReLU(), Conv2d(8, 8, 3),
                                  nn.InstanceNorm2d(8, affine=True), head(8)],
        "pixel_shuffle": lambda: [Conv2d(3, 8, 3), nn.PixelShuffle(2), ReLU(), Conv2d(2, 6, 3),
                                  head(6)],
        "pixel_unshuffle": lambda: [nn.PixelUnshuffle(2), Conv2d(12, 6, 3), ReLU(), head(6)],
        "reflect": lambda: [nn.ReflectionPad2d(1), Conv2d(3, 6, 3), ReLU(), head(6)],
        "replicate": lambda: [nn.ReplicationPad2d((1, 2, 0, 1)), Conv2d(3, 6, 3), ReLU(), head(6)],
        "circular": lambda: [Conv2d(3, 6, 3, padding=1, padding_mode="circular"), ReLU(), head(6)],
        "one_sided_zeros": lambda: [nn.ZeroPad2d((0, 1, 0, 1)), Conv2d(3, 6, 3, stride=2), ReLU(),
                                    head(6)],
        "bilinear_corners": lambda: [Conv2d(3, 6, 3), nn.Upsample(
            scale_factor=2, mode="bilinear", align_corners=True), Conv2d(6, 6, 3), ReLU(), head(6)],
        "nearest_to_size": lambda: [Conv2d(3, 6, 3), nn.Upsample(size=(7, 15)), Conv2d(6, 6, 3),
                                    ReLU(), head(6)],
        "bicubic": lambda: [Conv2d(3, 6, 3), nn.Upsample(scale_factor=2, mode="bicubic"), ReLU(),
                            head(6)],
        "average_to_3": lambda: [Conv2d(3, 6, 3, padding=1), ReLU(), nn.AdaptiveAvgPool2d(3),
                                 Flatten(), Linear(54, 5)],
        "max_to_2": lambda: [Conv2d(3, 6, 3, padding=1), ReLU(), nn.AdaptiveMaxPool2d(2), Flatten(),
                             Linear(24, 5)],
        "lp_pool": lambda: [Conv2d(3, 6, 3), ReLU(), nn.LPPool2d(2, 2), head(6)],
        "dilated": lambda: [Conv2d(3, 6, 3, dilation=2, padding=2), ReLU(),
                            Conv2d(6, 6, (3, 1), padding=(1, 0)), ReLU(), head(6)],
        "local_response": lambda: [Conv2d(3, 8, 3), ReLU(), nn.LocalResponseNorm(5), head(8)],
        "layer_norm_of_image": lambda: [Conv2d(3, 6, 3, stride=2), nn.LayerNorm([6, 5, 5]), ReLU(),
                                        head(6)],
        "average_ceil": lambda: [Conv2d(3, 6, 3), nn.AvgPool2d(
            3, 2, 1, ceil_mode=True, count_include_pad=False), head(6)]}.items():
    chain(_name, IMAGE, _make)


@network(IMAGE, lambda: [Conv2d(3, 6, 3), Linear(6, 5)])
def global_max(x, conv, last):
    return last(conv(x).amax((2, 3)))


@network(IMAGE, lambda: [Conv2d(3, 8, 3, padding=1), Sequential(Linear(8, 4), ReLU(), Linear(4, 8)),
                         Conv2d(2, 1, 7, padding=3), Linear(8, 5)])
def cbam(x, conv, channels, places, last):
    y = conv(x).relu()
    gate = torch.sigmoid(channels(y.mean((2, 3))) + channels(y.amax((2, 3))))
    z = y * gate.unsqueeze(-1).unsqueeze(-1)
    both = torch.cat([z.mean(1, keepdim=True), z.max(1, keepdim=True)[0]], 1)
    return last((z * torch.sigmoid(places(both))).mean((2, 3)))


@network(IMAGE, lambda: [Conv2d(5, 6, 3), head(6), torch.randn(1, 2, 12, 12)])
def coordinates(x, conv, last, grid):
    return last(conv(torch.cat([x, grid.expand(x.shape[0], -1, -1, -1)], 1)).relu())


@network((6, 12, 12), lambda: [Conv2d(3, 8, 3), Linear(8, 5)])
def siamese(x, conv, last):
    return last((conv(x[:, :3]).mean((2, 3)) - conv(x[:, 3:]).mean((2, 3))).abs())


@network((6, 12, 12), lambda: [Sequential(Conv2d(3, 8, 3, 2, 1), ReLU(),
                                          Conv2d(8, 8, 3, padding=1, groups=4, bias=False)),
                               Linear(8, 5)])
def siamese_groups(x, conv, last):
    return last((conv(x[:, :3]).mean((2, 3)) - conv(x[:, 3:]).mean((2, 3))).abs())


@network(IMAGE, lambda: [Conv2d(3, 6, 3), nn.MaxPool2d((3, 2), 2, 1, dilation=(2, 3)), head(6)])
def dilated_pool(x, conv, pool, last):
    return last(pool(conv(x)))


@network((6, 12, 12), lambda: [Sequential(Conv2d(3, 8, 3), nn.BatchNorm2d(8), ReLU()),
                               Linear(8, 5)])
def siamese_batchnorm(x, conv, last):
    return last((conv(x[:, :3]).mean((2, 3)) - conv(x[:, 3:]).mean((2, 3))).abs())


@network((6, 10), lambda: [nn.Conv1d(3, 8, 3, dilation=2, padding=2), Linear(8, 5)])
def siamese_series(x, conv, last):
    return last(conv(x[:, :3]).relu().mean(2) * conv(x[:, 3:]).relu().mean(2))


@network(IMAGE, lambda: [Conv2d(3, 6, 3, padding=1), Conv2d(6, 6, 3, padding=1), head(6)])
def repeated_convolution(x, first, again, last):
    y = first(x)
    for _ in range(3):
        y = again(y).relu() + y
    return last(y)


@network(SERIES, lambda: [nn.LSTM(6, 7, batch_first=True), Linear(7, 5)])
def siamese_lstm(x, lstm, last):
    return last((lstm(x[:, :5])[0][:, -1] - lstm(x[:, 5:])[0][:, -1]).abs())


@network(IMAGE, lambda: [Conv2d(3, 6, 3, padding=1), Conv2d(6, 6, 3, padding=1, groups=6),
                         head(12)])
def ghost(x, conv, cheap, last):
    y = conv(x)
    return last(torch.cat([y, cheap(y)], 1).relu())


@network(IMAGE, lambda: [Conv2d(3, 4, 1), Conv2d(3, 4, 3, padding=1), Conv2d(3, 4, 5, padding=2),
                         Conv2d(3, 4, 1), head(16)])
def inception(x, one, three, five, pooled, last):
    parts = [one(x), three(x), five(x), pooled(F.avg_pool2d(x, 3, 1, 1))]
    return last(torch.cat(parts, 1).relu())


@network(IMAGE, lambda: [Conv2d(3, 6, 3, stride=2), Conv2d(6, 4, 1), Conv2d(6, 4, 1),
                         Conv2d(6, 6, 1), head(6)])
def non_local(x, conv, query, key, value, last):
    y = conv(x)
    q, k, v = query(y).flatten(2), key(y).flatten(2), value(y).flatten(2)
    seen = torch.softmax(q.transpose(1, 2) @ k, -1) @ v.transpose(1, 2)
    return last(y + seen.transpose(1, 2).reshape(-1, 6, 5, 5))


@network(IMAGE, lambda: [Conv2d(3, 8, 3), Sequential(
    Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8), ReLU(),
    Conv2d(8, 8, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(8)), head(8)])
def resnext(x, conv, branch, last):
    y = conv(x)
    return last((y + branch(y)).relu())


@network(IMAGE, lambda: [Conv2d(3, 6, 1), Linear(6, 5), Linear(6, 6)])
def windows(x, conv, last, mix):
    y = conv(x).view(-1, 6, 3, 4, 3, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 9, 16, 6)
    return last(mix(y).mean((1, 2)))


@network(IMAGE, lambda: [Conv2d(3, 8, 3), nn.Conv1d(1, 1, 3, padding=1), head(8)])
def channel_attention(x, conv, gate, last):
    y = conv(x)
    g = torch.sigmoid(gate(y.mean((2, 3)).unsqueeze(1)).squeeze(1))
    return last(y * g[:, :, None, None])


@network(IMAGE, lambda: [Conv2d(3, 8, 3), head(4)])
def channel_split(x, conv, last):
    a, b = conv(x).split([4, 4], 1)
    return last(a * b.sigmoid())


@network(IMAGE, lambda: [Conv2d(3, 6, 3), Conv2d(6, 1, 1), head(6)])
def global_context(x, conv, score, last):
    y = conv(x)
    weights = torch.softmax(score(y).flatten(2), -1).transpose(1, 2)
    return last(y + (y.flatten(2) @ weights).unsqueeze(-1))


@network((12, 12, 3), lambda: [Conv2d(3, 6, 3), head(6)])
def channels_last(x, conv, last):
    return last(conv(x.permute(0, 3, 1, 2)).relu())


@network(IMAGE, lambda: [Conv2d(3, 6, 3), head(6), torch.randn(12, 12) / 3])
def fixed_transform(x, conv, last, basis):
    return last(conv((basis @ x @ basis.t()).relu()))


@network(IMAGE, lambda: [Conv2d(3, 8, 4, stride=4), Linear(8, 24, bias=False), Linear(8, 5)])
def vision_attention(x, patches, qkv, last):
    y = qkv(patches(x).flatten(2).transpose(1, 2)).reshape(-1, 9, 3, 2, 4)
    q, k, v = y.permute(2, 0, 3, 1, 4).unbind(0)
    weights = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1)
    return last((weights @ v).transpose(1, 2).flatten(2).mean(1))


@network((10, 8), lambda: [Linear(8, 6), Linear(8, 5), nn.MultiheadAttention(
    8, 2, batch_first=True, kdim=6, vdim=6, add_bias_kv=True)])
def bias_of_keys(x, key, last, attention):
    k = key(x)
    return last(attention(x, k, k)[0].mean(1))


@network((10, 8), lambda: [Linear(8, 8), Linear(8, 5)])
def truth_of_values(x, mix, last):
    y = mix(x)
    return last((y.relu().bool().to(x.dtype) * y + (x > 0.3).int().to(x.dtype)).mean(1))


@network((10, 8), lambda: [nn.Embedding(9, 8), Linear(8, 8), Linear(8, 5)])
def rows_by_values(x, table, mix, last):
    places = (x[:, :, 0] > 0).long() + (x[:, :, 1] > 0.5).long() * 4
    return last((table(places) * mix(x)).mean(1))


# Attention with a mask

def attend(x, qkv, last, attention):
    q, k, v = qkv(x).view(-1, 10, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    return last(attention(q, k, v).transpose(1, 2).flatten(2)[:, 3:].mean(1))


def masked_attention(q, k, v, mask):
    return (q @ k.transpose(2, 3) * 0.5).masked_fill(mask, float("-inf")).softmax(-1) @ v


OWN = [lambda: Linear(8, 24), lambda: Linear(8, 5)]


@network((10, 8), lambda: [make() for make in OWN])
def causal_by_ones(x, qkv, last):
    return attend(x, qkv, last, lambda q, k, v: masked_attention(
        q, k, v, torch.tril(torch.ones(q.shape[2], q.shape[2])) == 0))


@network((10, 8), lambda: [make() for make in OWN])
def causal_by_sum(x, qkv, last):
    return attend(x, qkv, last, lambda q, k, v: (
        q @ k.transpose(2, 3) + torch.triu(torch.full((10, 10), -1e4), 1)).softmax(-1) @ v)


@network((10, 8), lambda: [make() for make in OWN])
def band_of_places(x, qkv, last):
    places = torch.arange(10)
    return attend(x, qkv, last, lambda q, k, v: masked_attention(
        q, k, v, (places[:, None] - places[None, :]).abs() > 2))


@network((10, 8), lambda: [parameter(10, 10), Linear(80, 5)])
def triangular_weight(x, weight, last):
    return last((torch.tril(weight) @ x).flatten(1))


@network((10, 8), lambda: [nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True), Linear(8, 5),
                           nn.Transformer.generate_square_subsequent_mask(4)])
def encoder_decoder(x, both, last, mask):
    return last(both(x, x[:, :4], tgt_mask=mask)[:, -1])


if hasattr(F, "scaled_dot_product_attention"):      # PyTorch 2
    @network((10, 8), lambda: [make() for make in OWN])
    def causal_attention(x, qkv, last):
        return attend(x, qkv, last, lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, is_causal=True))

    @network((10, 8), lambda: [*[make() for make in OWN],
                               (torch.rand(10, 10) > 0.3) | (torch.eye(10) > 0)])
    def truth_as_mask(x, qkv, last, mask):
        return attend(x, qkv, last, lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask))

    @network((10, 8), lambda: [*[make() for make in OWN], torch.arange(100).view(10, 10) * 0.01])
    def values_as_mask(x, qkv, last, mask):
        return attend(x, qkv, last, lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask))


    @network((10, 8), lambda: [Linear(8, 8), Linear(8, 8), Linear(8, 5),
                               0.1 ** (torch.arange(1) / 1.0)])
    def grouped_queries(x, query, both, last, speed):
        """As language models write it: keys of two heads for queries of four, and RoPE."""
        angles = (speed[None, :, None] @ torch.arange(10.0).to(x)[None, None]).transpose(1, 2)
        angles = torch.cat((angles, angles), -1)[:, None]
        q = query(x).view(-1, 10, 4, 2).transpose(1, 2)
        k, v = [y.view(-1, 10, 2, 2).transpose(1, 2) for y in both(x).split(4, -1)]
        q, k = [y * angles.cos() + torch.cat((-y[..., 1:], y[..., :1]), -1) * angles.sin()
                for y in (q, k)]
        k, v = [y[:, :, None].expand(-1, -1, 2, -1, -1).reshape(-1, 4, 10, 2) for y in (k, v)]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return last(y.transpose(1, 2).flatten(2).mean(1))


# Elements by their places

@network((6, 16), lambda: [nn.Conv1d(6, 4, 3), nn.Conv1d(4, 5, 3)])
def upsampled_series(x, conv, last):
    y = F.interpolate(conv(x), scale_factor=2, mode="linear", align_corners=True)
    return last(F.interpolate(y.tanh(), size=31, mode="linear", align_corners=False)).mean(2)


@network((10, 8), lambda: [Linear(8, 8), Linear(48, 5)])
def pairs_of_rows(x, mix, last):
    y = mix(x)
    i, j = torch.triu_indices(10, 10, 1)
    products = (y @ y.transpose(1, 2))[:, i, j]
    return last(torch.cat([products, y[:, [0, 3, 7], [2, 2, 5]]], 1).tanh())


@network((10, 8), lambda: [Linear(8, 8), Linear(80, 5)])
def shifted_channels(x, mix, last):
    """As temporal shift modules have it."""
    y, z = mix(x), torch.zeros_like(x)
    z[:, :-1, :2] = y[:, 1:, :2]
    z[:, 1:, 2:4] = y[:, :-1, 2:4]
    z[:, :, 4:] = y[:, :, 4:]
    return last(z.tanh().flatten(1))


@network((10, 8), lambda: [Linear(8, 8), Linear(80, 5)])
def assigned_parts(x, mix, last):
    y = mix(x).tanh() * 1
    y[:, 0] = 0
    y[..., 3] = y[..., 1] * 2
    z = torch.zeros_like(y)
    z[:, ::2] = y[:, :5]
    z[:, 1::2] = y[:, 5:].tanh()
    return last(z.flatten(1))


@network((10, 8), lambda: [Linear(8, 8), Linear(80, 5), torch.tensor([1, 4, 6])])
def sums_at_places(x, mix, last, places):
    y = mix(x).tanh()
    return last(y.index_add(1, places, y[:, :3] * 2).flatten(1))


@network((10, 8), lambda: [make() for make in OWN])
def mask_by_parts(x, qkv, last):
    """As Swin's of shifted windows."""
    part = torch.zeros(10)
    for k, places in enumerate((slice(0, -5), slice(-5, -2), slice(-2, None))):
        part[places] = k
    apart = part[None, :] - part[:, None]
    apart = apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)
    return attend(x, qkv, last, lambda q, k, v: (
        q @ k.transpose(2, 3) * 0.5 + apart.to(q.dtype)).softmax(-1) @ v)


@network(IMAGE, lambda: [Conv2d(3, 6, 3, 2), nn.LayerNorm(6), Linear(6, 5)])
def pool_of_channels_last(x, conv, norm, last):
    """As ConvNeXt's, which PyTorch's newer exporter ends with as_strided."""
    y = norm(conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return last(F.adaptive_avg_pool2d(y, 1).flatten(1))


# Positions

@network((10, 8), lambda: [nn.Embedding(10, 8), Linear(8, 8), Linear(8, 5)])
def positions_of_all(x, table, mix, last):
    return last((mix(x) + table(torch.arange(10))).tanh().mean(1))


@network((10, 8), lambda: [nn.Embedding(16, 8), Linear(8, 8), Linear(8, 5)])
def positions_from_two(x, table, mix, last):
    return last((mix(x) + table(torch.arange(x.shape[1])[None] + 2)).tanh().mean(1))


@network((10, 8), lambda: [parameter(19, 2), *[make() for make in OWN],
                           torch.arange(10)[:, None] - torch.arange(10)[None, :] + 9])
def relative_positions(x, table, qkv, last, places):
    return attend(x, qkv, last, lambda q, k, v: (
        q @ k.transpose(2, 3) + table[places].permute(2, 0, 1)).softmax(-1) @ v)


# Those that cannot be trained here

@network((10, 8), lambda: [Linear(8, 8), Linear(8, 5)])
def over_minibatch(x, mix, last):
    return last(mix(x).tanh().mean(1)) / x.shape[0]


@network((10, 8), lambda: [Linear(8, 8), Linear(8, 5)])
def root_of_minibatch(x, mix, last):
    return last((mix(x) * x.size(0) ** 0.5).tanh().mean(1))


@network((10, 8), lambda: [Linear(8, 8), Linear(8, 5)])
def whole_values(x, mix, last):
    return last(mix(x).tanh().mean(1) + (x[:, 0] * 2).int().float())


@network((10, 8), lambda: [Linear(8, 8), Linear(8, 5)])
def whole_steps(x, mix, last):
    return last((mix(x) * 3).long().mul(2).to(x.dtype).mean(1) + x[:, 0])
