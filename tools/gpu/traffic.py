# SPDX-License-Identifier: Apache-2.0
"""traffic - the least bytes that a training step of a model file must move through a GPU's memory

Assumes one kernel per product (convolution or dense) that also does everything between two products
(bias, normalization, activation) while it reads or writes, and no caching from one kernel to the
next. For a product with `in` input and `out` output elements a sample then moves

    forward     in  read, out written
    backward    in, out and the output's gradient read, the input's gradient written

so 3 (in + out) numbers of 4 bytes, without the written gradient for the network's first product;
backward reads `out` again because normalization and activation need it. An `add` reads its second
input once more, forward, and its gradient is read once more, backward. Parameters are read forward
and backward, their gradients written; the update reads gradient, parameter and velocity and writes
two of them: 8 numbers each, once a step. A real step moves more: normalization needs its sums
before anything may use them.
"""

import math


def pair(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)


def slid(shape, layer, channels):
    """Shape after a window slid over an image."""
    kernel = pair(layer["kernel"])
    stride = pair(layer.get("stride", kernel if "pool" in layer["type"] else 1))
    padding, dilation = pair(layer.get("padding", 0)), pair(layer.get("dilation", 1))
    sides = [(n + 2 * p - d * (k - 1) - 1) // s + 1
             for n, k, s, p, d in zip(shape[1:], kernel, stride, padding, dilation)]
    return (channels, *sides)


def shape_after(layer, shape):
    kind = layer["type"]
    if kind == "conv2d":
        return slid(shape, layer, layer["out_channels"])
    if kind in ("maxpool2d", "avgpool2d"):
        return slid(shape, layer, shape[0])
    if kind == "global_avgpool":
        return (shape[0],)
    if kind == "flatten":
        return (math.prod(shape),)
    if kind == "dense":
        return (layer["out"],)
    if kind in ("relu", "relu6", "batchnorm", "add", "dropout"):
        return shape
    raise ValueError(f"traffic of {kind} is not counted")


def parameters_of(layer, shape):
    if layer["type"] == "conv2d":
        kernel = math.prod(pair(layer["kernel"]))
        return layer["out_channels"] * (shape[0] // layer.get("groups", 1) * kernel +
                                        bool(layer.get("bias", True)))
    if layer["type"] == "dense":
        return layer["out"] * (math.prod(shape) + bool(layer.get("bias", True)))
    return 2 * shape[0] if layer["type"] == "batchnorm" else 0


def least_bytes(description, batch):
    """Of one training step with SGD and momentum."""
    shapes, previous, sample, parameters, first = {"input": tuple(description["input"])}, "input", \
        0, 0, True
    for layer in description["layers"]:
        names = layer.get("inputs", [previous])
        before = shapes[names[0]]
        after = shape_after(layer, before)
        if layer["type"] in ("conv2d", "dense"):
            sample += 3 * (math.prod(before) + math.prod(after))
            sample -= math.prod(before) if first else 0
            first = False
        elif layer["type"] == "add":
            sample += 2 * math.prod(after)
        parameters += parameters_of(layer, before)
        previous = layer["name"]
        shapes[previous] = after
    return 4 * (batch * sample + 8 * parameters)
