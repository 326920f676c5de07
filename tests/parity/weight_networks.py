# SPDX-License-Identifier: Apache-2.0
"""Networks that ask what trains, and what is one parameter: constants that the program computes,
weights that it computes from parameters, parameters that it uses twice. Of exported_networks.py."""

import torch
from torch import nn
from torch.nn import Conv2d, Linear

from odd_networks import IMAGE, SERIES, chain, head, network


# Constants that the program computes

@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5)])
def computed_positions(x, first, last):
    p = torch.arange(10, dtype=x.dtype).unsqueeze(1)
    p = p * torch.exp(torch.arange(0, 8, 2, dtype=x.dtype) * -0.5)
    return last((first(x) + torch.cat([p.sin(), p.cos()], 1)).tanh().mean(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5)])
def weighted_mean(x, first, last):
    weights = torch.linspace(0.1, 1, 10, dtype=x.dtype).view(1, 10, 1)
    return last((first(x).tanh() * weights).sum(1))


@network(SERIES, lambda: [Linear(6, 4), Linear(40, 5)])
def running_mean(x, first, last):
    return last((first(x).cumsum(1) / torch.arange(1, 11).view(1, 10, 1)).flatten(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(6, 8), Linear(6, 8), Linear(8, 5)])
def rotary_positions(x, query, key, value, last):
    t = torch.arange(10, dtype=x.dtype)[:, None]
    t = t * (10000 ** (-torch.arange(0, 4, dtype=x.dtype) / 4))
    c, s = t.cos(), t.sin()
    q, k = ((torch.cat([a * c - b * s, a * s + b * c], -1))
            for a, b in (query(x).split(4, -1), key(x).split(4, -1)))
    return last(((q @ k.transpose(1, 2)).softmax(-1) @ value(x)).mean(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(6, 8), Linear(6, 8), Linear(8, 5)])
def attention_with_distances(x, query, key, value, last):
    d = (torch.arange(10).view(1, -1) - torch.arange(10).view(-1, 1)).abs().to(x.dtype)
    w = query(x) @ key(x).transpose(1, 2) / 8 ** 0.5 - d * 0.25
    return last((w.softmax(-1) @ value(x)).mean(1))


@network(IMAGE, lambda: [Conv2d(5, 6, 3), head(6)])
def coordinates(x, conv, last):
    y, z = torch.meshgrid([torch.linspace(-1, 1, 12, dtype=x.dtype)] * 2, indexing="ij")
    at = torch.stack([y, z]).expand(x.shape[0], -1, -1, -1)
    return last(conv(torch.cat([x, at], 1)).relu())


@network(IMAGE, lambda: [Conv2d(3, 6, 3), head(6)])
def scaled_maps(x, conv, last):
    offset = torch.arange(6).view(1, 6, 1, 1).to(x.dtype) * 0.1
    return last((conv(x).relu() - offset) / torch.arange(1, 7).view(1, 6, 1, 1).to(x.dtype))


# Normalizations with and without parameters

chain("layernorm_plain", (8,), lambda: [
    Linear(8, 12), nn.LayerNorm(12, elementwise_affine=False), nn.ReLU(), Linear(12, 5)])
chain("groupnorm_plain", IMAGE, lambda: [
    Conv2d(3, 8, 3), nn.GroupNorm(4, 8, affine=False), nn.ReLU(), head(8)])
chain("instancenorm_plain", IMAGE, lambda: [
    Conv2d(3, 8, 3), nn.InstanceNorm2d(8), nn.ReLU(), head(8)])
chain("batchnorm_plain", (8,), lambda: [
    Linear(8, 12), nn.BatchNorm1d(12, affine=False), nn.ReLU(), Linear(12, 5)])


@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5), nn.Parameter(torch.ones(8))])
def layernorm_without_bias(x, first, last, gain):
    return last(nn.functional.layer_norm(first(x), (8,), gain).tanh().mean(1))


@network(SERIES, lambda: [Linear(6, 8), Linear(8, 5), nn.Parameter(torch.ones(8)),
                          nn.Parameter(torch.zeros(8))])
def layernorm_by_hand(x, first, last, gain, shift):
    return last(nn.functional.layer_norm(first(x), (8,), gain, shift).tanh().mean(1))


# Weights that are computed from parameters

@network(IMAGE, lambda: [Conv2d(3, 6, 3), head(6)])
def standardized_convolution(x, conv, last):
    w = conv.weight
    w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-5)
    return last(nn.functional.conv2d(x, w, conv.bias).relu())


@network(IMAGE, lambda: [nn.Parameter(torch.randn(6, 3, 3, 3)), nn.Parameter(torch.rand(6) + 0.5),
                         head(6)])
def normalized_convolution(x, direction, length, last):
    w = direction * (length / direction.flatten(1).norm(dim=1)).view(6, 1, 1, 1)
    return last(nn.functional.conv2d(x, w, stride=2).relu())


@network(IMAGE, lambda: [Conv2d(3, 8, 3, 2), nn.Parameter(torch.randn(8, 2, 4, 4)),
                         nn.Parameter(torch.rand(8, 1, 1, 1) + 0.5), nn.Parameter(torch.rand(4)),
                         head(4)])
def normalized_transposed(x, conv, direction, length, bias, last):
    w = direction * (length / direction.flatten(1).norm(dim=1).view(8, 1, 1, 1))
    y = nn.functional.conv_transpose2d(conv(x), w, bias, 2, 1, 1, groups=2, dilation=2)
    return last(y.tanh())


@network((6, 16), lambda: [nn.Parameter(torch.randn(6, 5, 4)),
                           nn.Parameter(torch.rand(6, 1, 1) + 0.5)])
def normalized_transposed_1d(x, direction, length):
    w = direction * (length / direction.flatten(1).norm(dim=1).view(6, 1, 1))
    return nn.functional.conv_transpose1d(x, w, stride=3).tanh().mean(2)


@network(SERIES, lambda: [nn.Parameter(torch.randn(32, 6) * 0.4),
                          nn.Parameter(torch.randn(32, 2, 4) * 0.1),
                          nn.Parameter(torch.rand(32, 1) + 0.5), nn.Parameter(torch.rand(32) * 0.1),
                          nn.Parameter(torch.rand(32) * 0.1), Linear(8, 5)])
def normalized_lstm(x, w, direction, length, bias, more, last):
    direction = direction.flatten(1)
    r = direction * (length / direction.norm(dim=1).view(32, 1))
    state = torch.zeros(1, x.shape[0], 8, dtype=x.dtype)
    y = torch.lstm(x, (state, state), [w, r, bias, more], True, 1, 0.0, False, False, True)
    return last(y[0].mean(1))


@network(IMAGE, lambda: [nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2, 27)),
                         head(4)])
def factored_convolution(x, left, right, last):
    return last(nn.functional.conv2d(x, (left @ right).view(4, 3, 3, 3), padding=1).relu())


# Parameters that the program uses several times, also transposed or in another shape

@network(SERIES, lambda: [Linear(6, 6), Linear(6, 5)])
def same_layer_twice(x, layer, last):
    return last(layer(layer(x).tanh()).mean(1))


@network(SERIES, lambda: [Linear(6, 4), Linear(6, 5)])
def decoder_of_the_encoder(x, encoder, last):
    return last(nn.functional.linear(encoder(x).tanh(), encoder.weight.t()).mean(1))


@network((8,), lambda: [Linear(8, 8), Linear(8, 5)])
def transposed_layer(x, layer, last):
    return last(layer(x).tanh() @ layer.weight)


@network(SERIES, lambda: [nn.RNN(6, 7, batch_first=True), Linear(7, 5)])
def rnn_tanh(x, rnn, last):
    return last(rnn(x)[0].mean(1))


@network(SERIES, lambda: [Linear(6, 8), nn.Parameter(torch.randn(1, 10, 8)), nn.LayerNorm(8),
                          *(Linear(8, 8) for _ in range(4)), nn.LayerNorm(8), Linear(8, 5)])
def attention_by_hand(x, embed, positions, first, query, key, value, out, second, last):
    h = embed(x) + positions
    y = first(h)
    q, k, v = (layer(y).view(-1, 10, 2, 4).transpose(1, 2) for layer in (query, key, value))
    y = (q @ k.transpose(2, 3) / 2).softmax(-1) @ v
    return last(second(h + out(y.transpose(1, 2).reshape(-1, 10, 8))).mean(1))


@network(SERIES, lambda: [nn.Parameter(torch.ones(6)), nn.Parameter(torch.zeros(6)),
                          Linear(10, 4)])
def there_and_back(x, gain, shift, layer):
    """As reversible normalization of series has it, from its first values on."""
    y = layer((x * gain + shift).transpose(1, 2)).transpose(1, 2)
    return (y - shift) / gain


@network((8,), lambda: [Linear(8, 16)])
def decoder_of_rows(x, encoder):
    return nn.functional.linear(torch.tanh(encoder(x)), encoder.weight.t())[:, :5]


@network((10, 1), lambda: [nn.Embedding(5, 8), Linear(8, 8)])
def tied_head(x, table, layer):
    y = table((x[:, :, 0] > 0).long()) + table((x[:, :, 0] > 1).long() + 2)
    return nn.functional.linear(layer(y).tanh(), table.weight).mean(1)


def zero_biases():
    first, last = Conv2d(3, 6, 3), head(6)
    nn.init.zeros_(first.bias)
    nn.init.zeros_(last[2].bias)
    return [first, last]


@network(IMAGE, zero_biases)
def biases_of_zero(x, first, last):
    return last(first(x).relu())
