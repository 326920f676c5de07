# SPDX-License-Identifier: Apache-2.0
"""The Python package, beside PyTorch."""

import gc
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict

import numpy
import pytest

import uwasa
from uwasa import arrays, history, program

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
ROOT = pathlib.Path(__file__).parents[2]


def network(outputs=3, inputs=4):
    return {"name": "small", "input": [inputs], "layers": [
        {"name": "fc1", "type": "dense", "out": 16}, {"name": "relu1", "type": "relu"},
        {"name": "fc2", "type": "dense", "out": outputs}]}


def twin(model, outputs=3, inputs=4):
    """The same network in PyTorch, with the same weights."""
    net = torch.nn.Sequential(OrderedDict(fc1=torch.nn.Linear(inputs, 16), relu1=torch.nn.ReLU(),
                                          fc2=torch.nn.Linear(16, outputs)))
    net.load_state_dict(model.to_torch_state_dict())
    return net


def points(n=96, classes=3, inputs=4, seed=1):
    """Clusters around as many centres as classes, and their labels."""
    rng = numpy.random.default_rng(seed)
    y = numpy.arange(n) % classes
    x = rng.normal(size=(n, inputs)) + 2 * numpy.eye(classes, inputs)[y]
    return x.astype(numpy.float32), y


def open_model(outputs=3, **options):
    return uwasa.Model(network(outputs), verbose=0, threads=1, **options)


OPTIMIZERS = [
    (dict(lr=0.1, momentum=0.9, weight_decay=1e-3),
     lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3)),
    (dict(lr=0.01, optimizer="adamw", weight_decay=0.1),
     lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1))]


@pytest.mark.parametrize("options, optimizer", OPTIMIZERS, ids=["sgd", "adamw"])
def test_fit_follows_pytorch(options, optimizer):
    x, y = points()
    model = open_model()
    net = twin(model)
    step = optimizer(net.parameters())
    losses = []
    for _ in range(3):
        total = 0.0
        for i in range(0, len(x), 20):
            loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x[i:i + 20])),
                                                     torch.from_numpy(y[i:i + 20]))
            step.zero_grad()
            loss.backward()
            step.step()
            total += loss.item() * len(x[i:i + 20])
        losses.append(total / len(x))
    told = model.fit(x, y, epochs=3, batch=20, no_shuffle=True, **options)
    assert told["epoch"] == [1, 2, 3]
    numpy.testing.assert_allclose(told["loss"], losses, rtol=1e-5)
    for name, value in net.state_dict().items():
        numpy.testing.assert_allclose(model.state_dict()[name], value.numpy(), rtol=1e-4, atol=1e-6)


def test_predict_and_evaluate_are_those_of_pytorch():
    x, y = points()
    model = open_model()
    model.fit(x, y, epochs=2)
    logits = twin(model)(torch.from_numpy(x)).detach()
    numpy.testing.assert_allclose(model.forward(x), logits.numpy(), rtol=1e-5, atol=1e-5)
    numpy.testing.assert_allclose(model.predict(x), logits.softmax(1).numpy(), rtol=1e-5, atol=1e-6)
    test = model.evaluate(x, y)
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(y)).item()
    assert test["loss"] == pytest.approx(loss, rel=1e-5)
    assert test["accuracy"] == (logits.argmax(1).numpy() == y).mean()
    assert numpy.sum(test["confusion"]) == len(y)


def test_weights_come_from_pytorch_and_files_and_go_there(tmp_path):
    x, y = points()
    net = twin(open_model(seed=1))
    model = open_model(seed=2)
    model.load(net.state_dict())
    numpy.testing.assert_allclose(model.forward(x), net(torch.from_numpy(x)).detach().numpy(),
                                  rtol=1e-5, atol=1e-5)
    model.save(tmp_path / "w.safetensors")
    again = open_model(weights=tmp_path / "w.safetensors")
    numpy.testing.assert_array_equal(again.forward(x), model.forward(x))
    other = open_model(seed=3)
    other.load(str(tmp_path / "w.safetensors"))
    numpy.testing.assert_array_equal(other.forward(x), model.forward(x))


def test_fit_computes_the_bits_of_the_program(tmp_path):
    options = dict(steps=30, lr=0.02, momentum=0.9, batch=20)
    model = uwasa.Model("lenet5", seed=7, threads=1, verbose=0)
    model.fit("digits", eval_samples=100, **options)
    file = tmp_path / "w.safetensors"
    program.run("train", "--model", "lenet5", "--seed", "7", "--threads", "1", "--eval-samples", "100",
                "--save", str(file), *program.flags(options))
    theirs = arrays.read_safetensors(file.read_bytes())
    for name, mine in model.state_dict().items():
        numpy.testing.assert_array_equal(mine, theirs[name])


def test_onnx_comes_in_is_trained_and_goes_out(tmp_path):
    x, y = points()
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    file = tmp_path / "mine.onnx"
    extra = {"dynamo": False} if torch.__version__ >= "2" else {}
    torch.onnx.export(net, torch.from_numpy(x), str(file), do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, **extra)
    model = uwasa.Model(file, verbose=0, threads=1)
    numpy.testing.assert_allclose(model.forward(x), net(torch.from_numpy(x)).detach().numpy(),
                                  rtol=1e-5, atol=1e-5)
    told = model.fit(x, y, epochs=5)
    assert any("the loss is taken to be cross_entropy" in note for note in told.notes)
    model.export(tmp_path / "out.onnx")
    again = uwasa.Model(tmp_path / "out.onnx", verbose=0)
    numpy.testing.assert_allclose(again.forward(x), model.forward(x), rtol=1e-5, atol=1e-5)
    file.unlink()
    model.fit(x, y)                             # the model is in memory
    with pytest.raises(ValueError, match="mine.onnx"):
        model.export(tmp_path / "third.onnx")


class Recurrent(torch.nn.Module):
    def __init__(self, kind, layers, both):
        super().__init__()
        self.cell = kind(3, 5, layers, batch_first=True, bidirectional=both)
        self.head = torch.nn.Linear(10 if both else 5, 2)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


EXPORTS = {"folded": {"dynamo": False},
           "whole": {"dynamo": False, "do_constant_folding": False,
                     "training": torch.onnx.TrainingMode.TRAINING},
           "dynamo": {"dynamo": True}, "dynamo-whole": {"dynamo": True, "optimize": False}}


def export(net, x, file, how):
    options = dict(EXPORTS[how])
    if torch.__version__ < "2" and options.pop("dynamo"):
        pytest.skip("this PyTorch has the older exporter only")
    torch.onnx.export(net, torch.from_numpy(x), str(file), **options)


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("layers, both", [(1, False), (2, False), (1, True), (2, True)])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_networks_go_to_pytorch_and_come_back(tmp_path, kind, layers, both, how):
    if kind == "RNN" and "dynamo" in how:
        pytest.skip("the newer exporter writes an RNN as matrix products")
    x = numpy.random.default_rng(4).normal(size=(6, 7, 3)).astype(numpy.float32)
    net, other = (Recurrent(getattr(torch.nn, kind), layers, both).eval() for _ in range(2))
    export(net, x, tmp_path / "net.onnx", how)
    model = uwasa.Model(tmp_path / "net.onnx", verbose=0, threads=1)
    model.load(other.state_dict())
    y = other(torch.from_numpy(x)).detach().numpy()
    numpy.testing.assert_allclose(model.forward(x), y, rtol=1e-4, atol=1e-5)
    net.load_state_dict(model.to_torch_state_dict())
    for name, value in net.state_dict().items():
        assert torch.equal(value, other.state_dict()[name])
    model.save(tmp_path / "own.safetensors")            # the names of files that exist
    again = uwasa.Model(tmp_path / "net.onnx", tmp_path / "own.safetensors", verbose=0)
    numpy.testing.assert_array_equal(again.forward(x), model.forward(x))
    (tmp_path / "theirs.safetensors").write_bytes(arrays.write_safetensors(net.state_dict()))
    program.run("convert", str(tmp_path / "net.onnx"), str(tmp_path / "out.onnx"),
                "--weights", str(tmp_path / "theirs.safetensors"))
    again = uwasa.Model(tmp_path / "out.onnx", verbose=0)
    numpy.testing.assert_allclose(again.forward(x), y, rtol=1e-4, atol=1e-5)


class Transformer(torch.nn.Module):
    """As people write it: learned positions [1][STEPS][D], attention by hand, perhaps a tied head."""

    def __init__(self, joined, tied, norm):
        super().__init__()
        self.table, self.positions = torch.nn.Embedding(11, 8), torch.nn.Parameter(torch.randn(1, 6, 8))
        self.norm1, self.norm2 = norm(8), norm(8)
        self.parts = ["qkv"] if joined else ["q", "k", "v"]
        for name in self.parts:
            setattr(self, name, torch.nn.Linear(8, 24 if joined else 8))
        self.o, self.fc, self.head = (torch.nn.Linear(8, n, bias=n == 8) for n in (8, 8, 11))
        if tied:
            self.head.weight = self.table.weight

    def forward(self, x):
        h = self.table(x) + self.positions
        y = self.norm1(h)
        y = torch.cat([getattr(self, name)(y) for name in self.parts], -1)
        q, k, v = (part.view(-1, 6, 2, 4).transpose(1, 2) for part in y.split(8, -1))
        y = (q @ k.transpose(2, 3) / 2).softmax(-1) @ v
        h = h + self.o(y.transpose(1, 2).reshape(-1, 6, 8))
        return self.head((h + torch.relu(self.fc(self.norm2(h))))[:, -1])


@pytest.mark.parametrize("how", EXPORTS)
@pytest.mark.parametrize("unfused", [False, True])
@pytest.mark.parametrize("joined, tied", [(False, False), (True, True)])
def test_transformers_go_to_pytorch_and_come_back(tmp_path, joined, tied, unfused, how):
    norm = torch.nn.LayerNorm
    if "dynamo" in how:
        norm = getattr(torch.nn, "RMSNorm", norm)
    x = numpy.random.default_rng(4).integers(0, 11, (6, 6))
    net, other = (Transformer(joined, tied, norm).eval() for _ in range(2))
    with torch.no_grad():
        for value in other.parameters():
            value.add_(torch.randn_like(value))
    export(net, x, tmp_path / "net.onnx", how)
    model = uwasa.Model(tmp_path / "net.onnx", verbose=0, threads=1, unfused=unfused)
    model.load(other.state_dict())
    numpy.testing.assert_allclose(model.forward(x), other(torch.from_numpy(x)).detach().numpy(),
                                  rtol=1e-4, atol=1e-4)
    back = model.to_torch_state_dict()
    told = net.load_state_dict(back, strict="dynamo" in how or not tied)
    assert told.missing_keys in ([], ["head.weight"]) and not told.unexpected_keys
    for name in back:
        assert torch.equal(net.state_dict()[name], other.state_dict()[name])
    model.save(tmp_path / "own.safetensors")
    again = uwasa.Model(tmp_path / "net.onnx", tmp_path / "own.safetensors", verbose=0, unfused=unfused)
    numpy.testing.assert_array_equal(again.forward(x), model.forward(x))
    del back["norm2.weight"]
    with pytest.raises(OSError, match="no tensor"):
        model.load(back)


def test_recurrent_layers_of_another_name_are_taken_by_order_or_shape_and_told():
    layer = {"type": "lstm", "hidden": 4}
    model = uwasa.Model({"name": "r", "input": [6, 3], "layers": [
        {"name": "one", **layer}, {"name": "two", **layer}]}, verbose=0)
    stack = torch.nn.LSTM(3, 4, 2, batch_first=True)
    x = numpy.random.default_rng(5).normal(size=(2, 6, 3)).astype(numpy.float32)
    theirs = {f"net.{name}": value for name, value in stack.state_dict().items()}
    for same, how in (theirs, "order"), ({name.replace("net.", "net.a.").replace("a.weight_ih_l1",
            "b.weight_ih_l0").replace("a.weight_hh_l1", "b.weight_hh_l0").replace("a.bias_ih_l1",
            "b.bias_ih_l0").replace("a.bias_hh_l1", "b.bias_hh_l0"): value
            for name, value in theirs.items()}, "shapes"):
        model.load({name: 0 * value for name, value in theirs.items()})
        model.load(dict(reversed(same.items())))
        assert f"by their {how}" in model._found[-1] and "is taken for" in model._found[-1]
        numpy.testing.assert_allclose(model.forward(x).reshape(2, 6, 4),
                                      stack(torch.from_numpy(x))[0].detach().numpy(), atol=1e-6)
    with pytest.raises((ValueError, OSError), match="no tensor one.weight_ih"):
        model.load({name: value for name, value in theirs.items() if "l1" not in name})
    before = model.forward(x)
    square = torch.nn.LSTM(4, 4, 1).state_dict()        # two that fit one layer
    with pytest.raises((ValueError, OSError), match="one.weight_ih"):
        model.load({f"{m}.{name}": value for m in "ab" for name, value in square.items()})
    numpy.testing.assert_array_equal(model.forward(x), before)


def test_batch_norm_that_the_exporter_folded_is_not_left_out_of_weights(tmp_path):
    x, _ = points()
    net = torch.nn.Sequential(OrderedDict(fc1=torch.nn.Linear(4, 16), bn=torch.nn.BatchNorm1d(16),
                                          fc2=torch.nn.Linear(16, 3))).eval()
    model = uwasa.Model({"name": "folded", "input": [4], "layers": [
        {"name": "fc1", "type": "dense", "out": 16},
        {"name": "fc2", "type": "dense", "out": 3}]}, verbose=0)
    before = model.forward(x)
    (tmp_path / "net.safetensors").write_bytes(arrays.write_safetensors(net.state_dict()))
    for weights in net.state_dict(), tmp_path / "net.safetensors":
        with pytest.raises(ValueError, match=r"batch norm \(bn.running_mean\) was folded.*"
                                             r"optimize=False.*takes what fits"):
            model.load(weights)
        numpy.testing.assert_array_equal(model.forward(x), before)
    for weights in net.state_dict(), tmp_path / "net.safetensors":
        model.load(weights, loose=True)
        assert "4 tensors not in the model, left out (first: bn." in model._found[-1]
    numpy.testing.assert_array_equal(model.state_dict()["fc2.bias"], net.fc2.bias.detach().numpy())


def test_tensors_that_a_model_does_not_have_are_told():
    model = open_model()
    model.load({**model.state_dict(), "old.weight": numpy.ones((2, 2), numpy.float32)})
    assert "1 tensor not in the model, left out (old.weight)" in model._found[-1]


def test_values_two_classes_one_hot_and_the_sample_itself(tmp_path):
    x, y = points()
    values = numpy.stack([x.sum(1), x[:, 0] - x[:, 1]], 1)
    model = open_model(2)
    notes = model.fit(x, values, epochs=3).notes
    assert any("the loss is taken to be mse against the values" in note for note in notes)
    assert model.answer == "values" and {"mae", "rmse", "r2"} <= set(model.evaluate(x, values))
    numpy.testing.assert_array_equal(model.predict(x), model.forward(x))
    model.save(tmp_path / "values.safetensors")
    again = uwasa.Model(network(2), tmp_path / "values.safetensors", verbose=0)
    numpy.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="the test set has 3 values beside each sample"):
        model.fit(x, values, test=(x, numpy.zeros((96, 3), numpy.float32)))
    one = open_model(1)
    one.fit(x, y == 0)
    assert one.answer == "class" and one.predict(x).shape == (96, 2)
    hot = open_model(seed=5)
    hot.fit(x, numpy.eye(3)[y])
    plain = open_model(seed=5)
    plain.fit(x, y)
    numpy.testing.assert_array_equal(hot.forward(x), plain.forward(x))
    itself = open_model(4)
    itself.fit(x, loss="autoencoder", anomaly_percentile=99)
    assert itself.answer == "error" and itself.predict(x).shape == (96,)


def test_a_class_for_each_pixel_and_two_outputs(tmp_path):
    rng = numpy.random.default_rng(2)
    mask = (rng.random((60, 4, 5)) > 0.5).astype(int) * 2
    x = (mask[:, None] + rng.normal(0, 0.1, (60, 1, 4, 5))).astype(numpy.float32)
    model = uwasa.Model({"name": "pixels", "input": [1, 4, 5], "layers": [
        {"name": "c", "type": "conv2d", "out_channels": 3, "kernel": 1}]}, verbose=0)
    notes = model.fit(x, mask, epochs=30, lr=0.5, batch=10).notes
    assert any("a class for each of 20 positions" in note for note in notes)
    answers = model.predict(x)
    assert model.answer == "mask" and answers.dtype == numpy.int64
    right = (answers.reshape(mask.shape) == mask).mean()
    test = model.evaluate(x, mask)
    assert right > 0.95 and test["accuracy"] == pytest.approx(right)
    assert test["classes"][2]["iou"] == pytest.approx(
        ((answers == 2) & (mask.reshape(60, -1) == 2)).sum() / ((answers == 2) |
                                                              (mask.reshape(60, -1) == 2)).sum())

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.kind, self.size = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)

        def forward(self, z):
            return self.kind(z), self.size(z)

    x, y = points()
    net, size = Heads(), x.sum(1).astype(numpy.float32)
    extra = {"dynamo": False} if torch.__version__ >= "2" else {}
    torch.onnx.export(net, torch.from_numpy(x), str(tmp_path / "heads.onnx"),
                      output_names=["kind", "size"], **extra)
    model = uwasa.Model(tmp_path / "heads.onnx", output="kind,size", verbose=0)
    told = model.fit(x, (y, size), loss="cross_entropy,mse", batch=96, lr=0.1)
    kind, value = net(torch.from_numpy(x))
    want = torch.nn.functional.cross_entropy(kind, torch.from_numpy(y)) + \
        torch.nn.functional.mse_loss(value[:, 0], torch.from_numpy(size))
    assert told["loss"][0] == pytest.approx(want.item(), rel=1e-5)
    assert model.answer == "class" and model.predict(x).shape == (96, 3)


def test_fit_goes_on_from_the_weights_and_validates():
    x, y = points(400)
    model = open_model()
    first = model.fit(x, y, epochs=2, lr=0.1, validation=0.2, keep="best")
    assert len(first["validation_loss"]) == 2 and first.done["samples"] < 2 * 400
    second = model.fit(x, y, epochs=1, lr=0.1, test=(x, y))
    assert second["loss"][0] < first["loss"][0]
    assert second["test_accuracy"][0] == pytest.approx(model.evaluate(x, y)["accuracy"])
    assert model.evaluate(x, y)["accuracy"] > 0.8


LAYOUTS = {"float64": lambda x: x.astype(numpy.float64), "fortran": numpy.asfortranarray,
           "strided": lambda x: numpy.repeat(x, 2, 1)[:, ::2], "torch": torch.from_numpy,
           "float16": lambda x: x.astype(numpy.float16), "list": lambda x: x.tolist()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_layouts_give_the_same_and_are_told(layout):
    x, y = points()
    x = x.astype(numpy.float16).astype(numpy.float32)
    model, plain = open_model(seed=4), open_model(seed=4)
    told = model.fit(LAYOUTS[layout](x), y)
    plain.fit(x, y)
    numpy.testing.assert_array_equal(model.predict(LAYOUTS[layout](x)), plain.predict(x))
    assert ("x: " in "".join(told.notes)) == (layout != "torch")


def test_float32_is_not_copied_and_bytes_of_images_are_divided():
    x, _ = points()
    of, kept, _ = arrays.data(x, None, (4,), None)
    assert of.x == x.ctypes.data and kept[0] is x
    told = []
    image = numpy.full((2, 28, 28), 255, numpy.uint8)
    assert arrays.samples(image, (1, 28, 28), told.append).max() == 1.0
    assert "divided by 255" in told[0]


def test_numpy_keeps_its_small_numbers():
    x, y = points()
    model = open_model()
    model.fit(x, y)
    model.evaluate(x, y)
    assert (numpy.full(16, 1e-40, numpy.float32) * numpy.float32(1.0) > 0).all()


def test_features_that_are_not_scaled_are_doubted():
    x, y = points()
    assert not any("WARNING" in note for note in open_model().fit(x, y).notes)
    assert any("is not scaled" in note for note in open_model().fit(100 * x, y, lr=1e-6).notes)


def test_a_scale_of_the_training_data_holds_for_arrays(tmp_path):
    x, y = points(200)
    wide = 1000 * x + 5000
    file = tmp_path / "wide.csv"
    numpy.savetxt(file, numpy.column_stack([wide, y]), delimiter=",")
    model = open_model()
    model.fit(f"csv:{file},scale=standard", epochs=10, lr=0.1)
    assert (model.predict(wide).argmax(1) == y).mean() > 0.8
    assert model.evaluate(wide, y)["accuracy"] == (model.predict(wide).argmax(1) == y).mean()
    model.fit(wide, y, epochs=2)
    model.save(tmp_path / "w.safetensors")
    again = uwasa.Model(network(), tmp_path / "w.safetensors", verbose=0)
    numpy.testing.assert_allclose(again.predict(wide), model.predict(wide), rtol=1e-5)
    assert (again.predict(wide).argmax(1) == y).mean() > 0.8
    model.export(tmp_path / "wide.onnx")
    again = uwasa.Model(tmp_path / "wide.onnx", verbose=0)
    numpy.testing.assert_allclose(again.predict(wide), model.predict(wide), rtol=1e-5)


def test_a_scale_of_values_holds_for_arrays_and_answers_are_in_their_units(tmp_path):
    x, _ = points(200)
    price = 200000 + 50000 * x.sum(1)
    file = tmp_path / "prices.csv"
    numpy.savetxt(file, numpy.column_stack([x, price]), delimiter=",")
    model = open_model(1)
    notes = model.fit(f"csv:{file}", epochs=30, lr=0.02).notes
    assert any("is learned minus" in note for note in notes)
    answers = model.predict(x)[:, 0]
    assert numpy.corrcoef(answers, price)[0, 1] > 0.9 and abs(answers.mean() - price.mean()) < 50000
    numpy.testing.assert_allclose(model.evaluate(x, price)["mae"], abs(answers - price).mean(),
                                  rtol=1e-4)
    assert abs(model.forward(x)).max() < 10         # the last layer as it is
    model.fit(x, price, epochs=2, lr=0.02)          # in the scale that the weights are for
    model.save(tmp_path / "w.safetensors")
    again = uwasa.Model(network(1), tmp_path / "w.safetensors", verbose=0)
    numpy.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)
    assert model.evaluate(x, price)["r2"] > 0.8
    model.export(tmp_path / "prices.onnx")          # with its scale
    again = uwasa.Model(tmp_path / "prices.onnx", verbose=0)
    numpy.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)
    assert again.evaluate(x, price)["r2"] == pytest.approx(model.evaluate(x, price)["r2"], rel=1e-4)
    again.fit(x, price, epochs=1, lr=0.02)
    assert again.evaluate(x, price)["r2"] > 0.8
    other = open_model(1)
    other.load(again.state_dict())                  # for values of which nothing is known
    told = other.fit(f"csv:{file}", lr=1e-12).notes
    assert any("target-scale=standard is for a model" in note for note in told)
    other = open_model(1)
    other.load(again.state_dict())
    told = other.fit(x, price, lr=1e-12).notes
    assert any('target_scale="standard" is for a model' in note for note in told)


def test_arrays_are_scaled_as_a_table_is(tmp_path):
    x, _ = points(200)
    wide, price = 1000 * x + 5000, 200000 + 50000 * x.sum(1)
    file = tmp_path / "all.csv"
    numpy.savetxt(file, numpy.column_stack([wide, price]), "%.9g", delimiter=",")
    for said in ({}, {"target_scale": "standard"}, {"target_scale": 1e5}, {"target_scale": "none"}):
        options = dict(scale="standard", epochs=3, lr=1e-12 if "none" in said.values() else 0.02)
        tables, model = open_model(1), open_model(1)
        table = tables.fit(f"csv:{file},test=0", **options, **said)
        told = model.fit(wide, price.astype(numpy.float32), **options, **said)
        numpy.testing.assert_allclose(told["loss"], table["loss"], rtol=1e-5)
        numpy.testing.assert_allclose(model.predict(wide), tables.predict(wide), rtol=1e-5)
        assert any("y is learned" in note for note in told.notes) == ("none" not in said.values())
        again = model.fit(wide, price.astype(numpy.float32), **options, **said)
        assert not any("another scale" in note for note in again.notes)
    labels = (x[:, 0] > 1).astype(int)
    model = open_model(4)                           # as many outputs as inputs
    model.fit(wide, labels, test=(wide, labels), scale="standard", epochs=10, lr=0.1)
    right = (model.predict(wide).argmax(1) == labels).mean()
    assert right > 0.9 and model.evaluate(wide, labels)["accuracy"] == right
    model.save(tmp_path / "w.safetensors")
    again = uwasa.Model(network(4), tmp_path / "w.safetensors", verbose=0)
    numpy.testing.assert_allclose(again.predict(wide), model.predict(wide), rtol=1e-5)


WORDS = numpy.array(["ok", "worn", "hot"])
LABELS = {      # how labels may be written, and what the classes are called then
    "words": (lambda y: WORDS[y], ["hot", "ok", "worn"]),
    "objects": (lambda y: WORDS[y].astype(object).tolist(), ["hot", "ok", "worn"]),
    "bytes": (lambda y: WORDS[y].astype("S"), ["hot", "ok", "worn"]),
    "from 1": (lambda y: y + 1, ["1", "2", "3"]),
    "from -1, floats": (lambda y: y - 1.0, ["-1", "0", "1"]),
    "tens": (lambda y: y * 10, ["0", "10", "20"]),
    "numbers as text": (lambda y: y.astype(str), None),
    "one-hot": (lambda y: numpy.eye(3, dtype=bool)[y], None)}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_taken_as_tables_have_them(kind, tmp_path):
    x, y = points()
    written, classes = LABELS[kind][0](y), LABELS[kind][1]
    model = open_model()
    model.fit(x, written, test=(x, written), epochs=20, lr=0.1)
    assert model.classes == classes and model.evaluate(x, written)["accuracy"] > 0.9
    model.save(tmp_path / "w.safetensors")
    again = open_model(weights=tmp_path / "w.safetensors")
    assert again.classes == classes
    some = y == 2                               # numbered as in training
    part = numpy.asarray(written)[some]
    assert again.evaluate(x[some], part)["accuracy"] == model.evaluate(x[some], part)["accuracy"] > 0.8
    if classes:
        with pytest.raises(ValueError, match="none of the 3 classes"):
            again.evaluate(x[:1], ["other"] if classes[0] == "hot" else [7])


def test_two_classes_of_one_output_may_be_minus_1_and_1():
    x, y = points(classes=2)
    model = open_model(1)
    model.fit(x, 2 * y - 1, epochs=20, lr=0.1)
    assert model.classes == ["-1", "1"] and model.evaluate(x, 2 * y - 1)["accuracy"] > 0.9


def test_labels_are_numbered_anew_where_a_model_begins_only():
    x, y = points(classes=2)
    model = open_model()
    assert not model.fit(x, y, epochs=1).notes and model.classes is None
    for use in (model.evaluate, model.fit, open_model().evaluate):
        with pytest.raises(ValueError, match="classes"):
            use(x, y + 3)
    told = open_model().fit(x, y + 1, epochs=1).notes       # as of tables
    assert "labels 1 to 2 are classes 1 to 2 of the model's 3" in told[0]


def test_gaps_are_left_out_or_get_a_mean(tmp_path):
    x, y = points()
    x[::10, 1] = numpy.nan
    words = [None if i == 5 else WORDS[k] for i, k in enumerate(y)]
    for how, samples in (("drop", 85), ("mean", 95)):
        model = open_model()
        told = model.fit(x, words, missing=how, scale="standard", epochs=20, lr=0.1)
        left = [note for note in told.notes if "are left out" in note]
        assert left == [f"{96 - samples} samples of 96 are left out: a value, or the label, is missing"]
        model.save(tmp_path / "w.safetensors")
        again = open_model(weights=tmp_path / "w.safetensors")      # the means are kept
        assert again.predict(x).shape == (96, 3)
        assert again.evaluate(x, words, missing="mean")["samples"] == 95
    filled = numpy.where(numpy.isnan(x), again._known["mean"], x)       # of training, not of the test
    assert again.evaluate(x[10:30], words[10:30], missing="mean")["loss"] == \
        pytest.approx(again.evaluate(filled[10:30], words[10:30])["loss"], rel=1e-5)
    masked = numpy.ma.masked_invalid(x)
    model = open_model()
    with pytest.raises(ValueError, match="is NaN; .*missing="):
        model.fit(masked, y)
    model.fit(masked, y, missing="mean")
    with pytest.raises(ValueError, match='scale="standard" fill gaps'):
        model.predict(x)
    with pytest.raises(ValueError, match="kept with scale='standard' only"):
        model.evaluate(x, y, missing="mean")


def test_columns_of_a_frame_are_found_by_their_names(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    x, y = points()
    frame = pandas.DataFrame(x, columns=list("abcd"))
    model = open_model()
    model.fit(frame, pandas.Series(WORDS[y], dtype="category"), epochs=20, lr=0.1)
    model.save(tmp_path / "w.safetensors")
    again = open_model(weights=tmp_path / "w.safetensors")
    other = frame[list("dbac")].assign(more="word")
    numpy.testing.assert_allclose(again.predict(other), model.predict(x), rtol=1e-4)
    other.assign(state=WORDS[y]).drop(columns="more").to_csv(tmp_path / "t.csv", index=False)
    assert again.evaluate(f"csv:{tmp_path}/t.csv,test=0")["accuracy"] == \
        model.evaluate(frame, WORDS[y])["accuracy"] > 0.9
    with pytest.raises(ValueError, match="x: has no column 'a'"):
        again.predict(frame.drop(columns="a"))
    with pytest.raises(ValueError, match="holds words, not numbers, as in column 'd'; pandas.get_dummies"):
        model.fit(frame.assign(d="word"), y)
    with pytest.raises(ValueError, match="x: column 'd' holds datetime64.*, not numbers"):
        model.fit(frame.assign(d=pandas.Timestamp("2024-01-02")), y)
    mixed = frame.assign(d=frame.d > 0, a=(10 * frame.a).astype(int).astype("Int64"))
    model.fit(mixed, y)


def test_large_numbers_that_floats_round_are_told(capsys):
    x, y = points()
    x = (x * 100).astype("int64") + 1700000001
    uwasa.Model(network(3), threads=1).fit(x, y, scale="standard", epochs=1)
    assert "x: WARNING: numbers from 16777216 on are rounded to float32" in \
        "".join(capsys.readouterr())


def test_255_in_bytes_of_masks_does_not_count_and_channels_may_be_last():
    rng = numpy.random.default_rng(3)
    x = rng.random((40, 6, 5)).astype(numpy.float32)
    mask = (3 * x).astype(numpy.uint8)
    mask[:, :2] = 255
    image = {"name": "seg", "input": [1, 6, 5], "layers": [
        {"name": "c1", "type": "conv2d", "out_channels": 3, "kernel": 1}]}
    losses = []
    for y in (mask, numpy.where(mask == 255, -1, mask.astype(int))):
        model = uwasa.Model(image, verbose=0, threads=1)
        model.fit(x, y, epochs=3, lr=0.3)
        losses.append(model.evaluate(x, y)["loss"])
    assert losses[0] == losses[1] and model.answer == "mask"
    values = numpy.stack([x, 2 * x, 3 * x], 1)
    answers = []
    for y in (values, numpy.moveaxis(values, 1, -1)):
        model = uwasa.Model(image, verbose=0, threads=1, loss="mse")
        model.fit(x, y, epochs=3, lr=0.1)
        answers.append(model.predict(x))
    numpy.testing.assert_array_equal(*answers)


def test_statistics_of_a_part_that_is_not_trained():
    """train="last:1" moves the running statistics below, "frozen" keeps them."""
    x, y = points(40)
    for said, frozen in ((dict(train="last:1"), False), ({}, True)):
        model = uwasa.Model({"name": "part", "input": [4], "layers": [
            {"name": "bn", "type": "batchnorm", "frozen": frozen},
            {"name": "head", "type": "dense", "out": 3}]}, verbose=0, threads=1)
        before = model.state_dict()
        model.fit(x, y, lr=0.1, **said)
        moved = {name for name, a in model.state_dict().items() if (a != before[name]).any()}
        statistics = {"bn.running_mean", "bn.running_var"}
        assert moved == {"head.weight", "head.bias"} | (set() if frozen else statistics)


X, Y = points(6)
WRONG = [
    (dict(x=X[:, :3], y=Y), "x: samples have shape (3,), the model takes (4,)"),
    (dict(x=X[0], y=Y), "x[None] is one sample"),
    (dict(x=X[:0], y=Y[:0]), "no sample"),
    (dict(x=X, y=Y[:5]), "y: has 5 rows, x has 6 samples"),
    (dict(x=X), "y: is needed"),
    (dict(x=numpy.where(X == X.max(), numpy.nan, X), y=Y), "is NaN"),
    (dict(x=X, y=Y + numpy.inf), "is infinite"),
    (dict(x=X, y=numpy.arange(6) - 1), "has 3 classes, data arrays has labels up to 5"),
    (dict(x=X, y=Y + 0.5), "has the label 0.5"),
    (dict(x=X, y=numpy.arange(6)), "has labels up to 5"),
    (dict(x=X, y=list("abcdef")), "has labels up to 5: its last"),
    (dict(x=X, y=[["a", "b"]] * 6), "y: has shape (6, 2) and holds words"),
    (dict(x=[list("abcd")] * 6, y=Y), "x: holds words, not numbers; pandas.get_dummies"),
    (dict(x=X, y=Y, missing="much"), "missing: is 'much', needs 'refuse', 'drop' or 'mean'"),
    (dict(x=X + numpy.nan, y=Y, missing="drop"), "every sample has a gap"),
    (dict(x="csv:mine.csv", missing="drop"), "csv:mine.csv,missing=drop"),
    (dict(x=X, y=X[:, :2]), "computes 3 values, data arrays has 2 beside each sample"),
    (dict(x=X, y=Y, lr=-1), "lr -1: needs a number"),
    (dict(x=X, y=Y, weight_decay="much"), "weight_decay much: needs"),
    (dict(x=X, y=Y, epoch=3), "did you mean epochs"),
    (dict(x=X, y=Y, epochs=1, steps=2), "steps and epochs: give one of them"),
    (dict(x=X, y=Y, patience=2), "patience: needs a test"),
    (dict(x=X, y=Y, test=(X, Y[:2])), "y: has 2 rows"),
    (dict(x=X, y=Y, test="images:new"), "test: needs (x, y); a dataset names its own"),
    (dict(x=X, y=Y, test=X), "test: needs (x, y)"),
    (dict(x=X, y=Y, scale="much"), "scale=much: needs none, 255 or standard"),
    (dict(x=X, y=Y, target_scale="standard"), "target_scale is for values"),
    (dict(x="csv:none.csv"), "none.csv")]


@pytest.mark.parametrize("call, sentence", WRONG, ids=[sentence for _, sentence in WRONG])
def test_a_mistake_is_named_and_changes_nothing(call, sentence):
    model = open_model()
    before = model.forward(X)
    with pytest.raises((ValueError, OSError), match=re.escape(sentence)):
        model.fit(**call)
    numpy.testing.assert_array_equal(model.forward(X), before)


def test_samples_without_an_answer_are_named():
    model = open_model()
    with pytest.raises(ValueError, match="number 2 of sample 4, counted from 0, is NaN"):
        x = X.copy()
        x[4, 2] = numpy.nan
        model.predict(x)
    for of, words in (("csv:new.csv", "--data csv:new.csv"), (pathlib.Path("new.png"), "FILE new.png")):
        with pytest.raises(ValueError, match=f"{of}: predict takes an array .* {words}` answers them"):
            model.predict(of)


def test_a_loss_that_explodes_leaves_the_weights_of_before():
    x, y = points()
    model = open_model()
    before = model.forward(x)
    with pytest.raises(FloatingPointError, match="a lower learning rate may help"):
        model.fit(x, y, lr=1e30, epochs=3)
    numpy.testing.assert_array_equal(model.forward(x), before)


@pytest.mark.parametrize("model, error, sentence", [
    ("lenet6", OSError, "did you mean lenet5"), ("none.onnx", OSError, "none.onnx"),
    ({"name": "bad", "input": [2], "layers": [{"name": "a", "type": "dens"}]}, ValueError, "dens")])
def test_a_model_that_cannot_be_opened_says_why(model, error, sentence):
    with pytest.raises(error, match=sentence):
        uwasa.Model(model)


def interrupt_soon():
    """A thread that gets its turn only where training has released the GIL."""
    thread = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    thread.start()
    return thread


def test_ctrl_c_stops_and_the_model_stays():
    x, y = points()
    model = open_model()
    before = model.forward(x)
    thread = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, steps=10 ** 9)
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert model.history.interrupted and model.history.done["step"] < 10 ** 9
    assert not numpy.array_equal(model.forward(x), before)
    model.fit(x, y)


def test_two_models_train_in_two_threads_as_one_after_the_other():
    x, y = points(400)
    alone = [open_model(seed=seed) for seed in (1, 2)]
    for model in alone:
        model.fit(x, y, epochs=20)
    beside = [open_model(seed=seed) for seed in (1, 2)]
    threads = [threading.Thread(target=m.fit, args=(x, y), kwargs={"epochs": 20}) for m in beside]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, beside):
        numpy.testing.assert_array_equal(one.forward(x), other.forward(x))


def test_a_model_in_use_is_refused_to_others_and_lives_until_it_is_done():
    x, y = points()
    model = open_model()
    inside, refused, told = threading.Event(), threading.Event(), []
    plain = model._screen.show

    def show(screen, event, _):
        inside.set()
        refused.wait(30)
    thread = threading.Thread(target=lambda m: told.append(m.fit(x, y, verbose=0)), args=(model,))
    old, history.Screen.show = history.Screen.show, show
    try:
        thread.start()
        assert inside.wait(30)
        with pytest.raises(RuntimeError, match="another thread"):
            model.predict(x)
        of = weakref.ref(model)
        del model, plain
        gc.collect()
        assert of() is not None
    finally:
        refused.set()
        thread.join()
        history.Screen.show = old
    assert told[0]["epoch"] == [1]
    del thread
    gc.collect()
    assert of() is None


def test_a_model_is_freed_with_its_last_reference():
    model = open_model()
    of = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert of() is None
    finally:
        gc.enable()


def test_plan_says_what_training_takes():
    x, y = points()
    model = open_model()
    done = model.fit(x, y, batch=8, momentum=0.9).done
    told = uwasa.plan(model.name, batch=8, momentum=0.9, threads=1)
    assert told["total_bytes"] == done["arena_bytes"]
    with pytest.raises(ValueError, match="did you mean batch"):
        uwasa.plan("lenet5", btch=8)


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    screen, told = history.Screen(1), history.History()
    events = [{"event": "step", "step": 5, "steps": 10, "loss": 0.5},
              {"event": "epoch", "epoch": 1, "loss": 0.4, "seconds": 1.0},
              {"event": "eval", "test_loss": 0.25, "test_accuracy": 0.5},
              {"event": "epoch", "epoch": 2, "loss": 0.3, "seconds": 1.0},
              {"event": "epoch", "epoch": 3, "loss": 0.2, "seconds": 1.0},
              {"event": "done", "interrupted": False}]
    for event in events:
        told.add(event)
        screen.show(event, told)
    lines = [line.strip() for line in re.split("[\r\n]", capsys.readouterr().out) if line.strip()]
    assert lines == ["[############............]  50 %  step 5/10  loss 0.5000",
                     "epoch 1  loss 0.4000  test loss 0.2500  test accuracy 0.5000",
                     "epoch 2  loss 0.3000", "epoch 3  loss 0.2000"]


def test_each_epoch_has_its_line_and_values_have_no_accuracy(capsys):
    x, y = points()
    for test in ({}, {"validation": 0.2}):
        values = open_model(1).fit(x, x.sum(1), epochs=3, verbose=1, **test)
        lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()
                 if line.startswith("epoch ")]
        assert [(line[0], line[1]) for line in lines] == [
            (f"epoch {i + 1}", f"loss {loss:.4f}") for i, loss in enumerate(values["loss"])]
        assert all(line[2:] == [] if not test else line[2].startswith("validation loss ")
                   for line in lines)
        assert not any("accuracy" in key for key in values)


def test_a_node_trains_on_arrays_and_its_checkpoint_is_loaded(tmp_path):
    x, y = points()
    key = tmp_path / "run.key"
    program.run("keygen", str(key))
    model = open_model()
    saved = str(tmp_path / "node.safetensors")
    with uwasa.Node({"name": "one", "run": "test", "key": str(key), "model": model.name,
                     "checkpoint": saved}, data=(x, y), steps=20, consensus_seconds=0,
                    linger_seconds=0, listen="127.0.0.1:0") as node:
        assert node.wait(60)["event"] == "done"
    before = model.forward(x)
    model.load(saved)
    assert not numpy.array_equal(model.forward(x), before)
    with uwasa.Node({"name": "one"}) as node:
        with pytest.raises(RuntimeError, match=".run. is missing"):
            node.wait(60)


def test_the_readme_example_works_word_for_word(tmp_path):
    page = (ROOT / "README.md").read_text()
    example = re.search(r"\n## Python\n.*?```python\n(.*?)```", page, re.S)[1]
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, text=True, timeout=100,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
