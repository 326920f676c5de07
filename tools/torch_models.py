# SPDX-License-Identifier: Apache-2.0
"""torch_models - the built-in models as a PyTorch user writes them, for the benchmarks beside it"""

import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def description_of(model):
    """The model's file: apps/cli/models, or a path."""
    built_in = os.path.join(ROOT, "apps", "cli", "models", model + ".json")
    with open(built_in if os.path.exists(built_in) else model, encoding="utf-8") as f:
        return json.load(f)


def classes_of(description):
    return next(l["out"] for l in reversed(description["layers"]) if "out" in l)


def build(description, lean=False):
    """The module, and loss(x, label): a Sequential where the network is a chain.

    lean: values are freed after their last use, and an activation works in place if it is the only
    reader, as in a network written by hand."""
    import torch
    sys.path.insert(0, os.path.join(ROOT, "tests", "parity"))
    import gen_models
    graph = gen_models.Graph(description, noise=True)
    if any("inputs" in layer for layer in description["layers"]) or "losses" in description:
        if lean:
            overwrite(graph, description)
            forget_early(graph)
        return graph, lambda x, label: graph.loss(x, label)
    plain = {"relu": torch.nn.ReLU, "flatten": torch.nn.Flatten}
    chain, before = [], None
    for layer, (_, _, step) in zip(description["layers"], graph.steps):
        if lean and layer["type"] == "relu" and before in MAY_BE_OVERWRITTEN:
            chain.append(torch.nn.ReLU(inplace=True))
        else:
            chain.append(plain[layer["type"]]() if layer["type"] in plain else step)
        before = layer["type"]
    net = torch.nn.Sequential(*[c if isinstance(c, torch.nn.Module) else called(c) for c in chain])
    return net, lambda x, label: torch.nn.functional.cross_entropy(net(x), label)


MAY_BE_OVERWRITTEN = ("conv2d", "dense", "batchnorm", "add")    # backward needs no result of these


def readers_of(graph):
    """How many layers read a value, by its name."""
    count = {}
    for _, inputs, _ in graph.steps:
        for name in inputs:
            count[name] = count.get(name, 0) + 1
    return count


def forget_early(graph):
    """Make the graph's forward return only its last values, those of the losses."""
    kept = {loss.get("layer", graph.last) for loss in graph.losses}
    last_use = {}
    for number, (_, inputs, _) in enumerate(graph.steps):
        for name in inputs:
            last_use[name] = number
    plan = [(name, inputs, step,
             [n for n in dict.fromkeys(inputs) if last_use[n] == number and n not in kept])
            for number, (name, inputs, step) in enumerate(graph.steps)]

    def forward(x):
        values = {"input": x}
        del x
        for name, inputs, step, over in plan:
            values[name] = step(*[values[i] for i in inputs])
            for n in over:
                del values[n]
        return values
    graph.forward = forward


def overwrite(graph, description):
    """Make activations work in place if nothing else reads what they overwrite."""
    import torch
    in_place = {"relu": lambda x: torch.nn.functional.relu(x, inplace=True),
                "relu6": lambda x: torch.nn.functional.relu6(x, inplace=True)}
    readers, type_of = readers_of(graph), {l["name"]: l["type"] for l in description["layers"]}
    for number, (name, inputs, _) in enumerate(list(graph.steps)):
        if type_of[name] in in_place and readers[inputs[0]] == 1 and \
                type_of.get(inputs[0]) in MAY_BE_OVERWRITTEN:
            graph.steps[number] = (name, inputs, in_place[type_of[name]])


def called(function):
    import torch

    class Called(torch.nn.Module):
        def forward(self, x):
            return function(x)
    return Called()
