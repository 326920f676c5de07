#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""exported_networks.py UWASA [--networks A,B] [--exporters E,F] [--keep DIR] [-v]

Train networks that PyTorch exports, as others write them: those of everyday_networks.py,
odd_networks.py and weight_networks.py, from the same weights on the same samples, with PyTorch in double precision and
with `uwasa train`. The loss of every step must agree to 2e-5, or, where steps amplify rounding, as
well as three times PyTorch in single precision. Files of the newer exporter tell parameters from
constants; of the older one --constant names those of CONSTANT below.

Exporters: torchscript, the older one, which every PyTorch has; dynamo, the newer one; noopt, the
newer one with optimize=False; dynamo23, the newer one with opset 23, which has Attention.

Prints one line a network that differs and the count. A network that is known not to work
must fail: the list below tells why, of the older exporter of PyTorch 1.13; another list has those
that must be refused, and how. Exit status 0 when all is as expected, 1 when not, 77 without
PyTorch."""

import argparse
import contextlib
import copy
import io
import json
import logging
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
    print("exported_networks.py: no PyTorch here", file=sys.stderr)
    sys.exit(77)

sys.dont_write_bytecode = True
import everyday_networks  # noqa: E402  pylint: disable=wrong-import-position
import odd_networks  # noqa: E402  pylint: disable=wrong-import-position
import weight_networks  # noqa: E402,F401  pylint: disable=wrong-import-position,unused-import
from random_models import BATCH, torch_losses  # noqa: E402  pylint: disable=wrong-import-position

STEPS, LR = 8, 0.05
SAMPLES = STEPS * BATCH
KNOWN = {       # name: why it does not work with the older exporter
    "cosine_head": "the file has the weight's length as a constant",
    "there_and_back": "the file does not tell that what is one number everywhere is one parameter",
    "circular": "PyTorch 1.13's exporter cuts the wrong rows and columns",
}
REFUSED = {     # name: the sentence with which it must be refused
    "over_minibatch": "uses the minibatch's size as a number",
    "root_of_minibatch": "uses the minibatch's size as a number",
    "whole_values": "cuts numbers down to whole ones",
    "whole_steps": "cuts numbers down to whole ones",
}
CONSTANT = {    # what the older exporter's files do not tell from parameters: --constant
    "fourier_features": "frequencies",
    "fixed_transform": "basis",
    "fixed_positions": "positions",
    "graph_convolution": "adjacency",
    "values_as_mask": "mask",
    "grouped_queries": "all",
}


COMPUTED = {    # what the newer exporter computes in advance, and trains as a plain weight
    "standardized_convolution", "normalized_convolution", "factored_convolution",
    "normalized_transposed", "normalized_transposed_1d", "normalized_lstm",
    "cosine_head",
}


def known(exporter):
    return {"torchscript": set(KNOWN), "dynamo": COMPUTED}.get(exporter, set())


def has_batchnorm(module):
    return any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in module.modules())


def export(module, x, path, exporter):
    module = copy.deepcopy(module)
    names = {"input_names": ["x"], "output_names": ["y"]}
    if exporter in ("dynamo", "dynamo23", "noopt"):
        plain = {"optimize": False} if has_batchnorm(module) or exporter == "noopt" else {}
        plain.update({"opset_version": 23} if exporter == "dynamo23" else {})
        torch.onnx.export(module.eval(), (x,), path, dynamo=True, external_data=False,
                          dynamic_shapes=({0: torch.export.Dim("batch")},), **names, **plain)
        return
    names["dynamic_axes"] = {"x": {0: "batch"}, "y": {0: "batch"}}
    if has_batchnorm(module):
        names.update(training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    if "dynamo" in torch.onnx.export.__code__.co_varnames:
        names["dynamo"] = False
    torch.onnx.export(module.train(has_batchnorm(module)), (x,), path, opset_version=16, **names)


def losses_of(module, x, target, dtype):
    module = copy.deepcopy(module).to(dtype)
    if target.dtype != torch.float32:
        return torch_losses(module, x.to(dtype), target, LR)
    return torch_losses(module, x.to(dtype), target.to(dtype), LR,
                        lambda y, t: F.mse_loss(y.reshape(t.shape), t))


def train(uwasa, path, table, is_values, flags):
    command = [uwasa, "train", "--model", path, "--data", f"csv:{table},{table}", "--no-shuffle",
               "--steps", str(STEPS), "--batch", str(BATCH), "--lr", str(LR), "--json", "-",
               "--loss", "mse" if is_values else "cross_entropy", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    losses = [e["loss"] for e in events if e["event"] == "step"]
    return losses, done.stderr.strip().splitlines()[-1:]


def distance(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def run(uwasa, name, exporters, folder):
    """Yields exporter, what is wrong (None: nothing), and whether it could be exported."""
    make, shape = networks()[name]
    torch.manual_seed(3)
    module = make()
    x = torch.randn(SAMPLES, *shape)
    outputs = module.eval()(x[:2]).reshape(2, -1).shape[1]
    is_values = outputs != 5
    target = torch.randn(SAMPLES, outputs) if is_values else torch.randint(0, 5, (SAMPLES,))
    table = os.path.join(folder, f"{name}.csv")
    np.savetxt(table, np.concatenate([x.flatten(1).numpy(), target.numpy().reshape(SAMPLES, -1)],
                                     1), fmt="%.9g", delimiter=",")
    want = losses_of(module, x, target, torch.float64)
    rounding = distance(want, losses_of(module, x, target, torch.float32))
    for exporter in exporters:
        path = os.path.join(folder, f"{name}.{exporter}.onnx")
        try:
            with contextlib.redirect_stdout(io.StringIO()), \
                    contextlib.redirect_stderr(io.StringIO()):
                export(module, x[:2], path, exporter)
        except Exception as e:      # an exporter fails in many ways
            yield exporter, str(e).splitlines()[0][:100], False
            continue
        flags = ["--constant", CONSTANT[name]] if name in CONSTANT and exporter == "torchscript" else []
        got, said = train(uwasa, path, table, is_values, flags)
        if name in REFUSED:
            told = any(REFUSED[name] in line for line in said) and not got
            yield exporter, None if told else f"not refused: {said}", True
        elif len(got) != STEPS:
            yield exporter, f"{said}", True
        elif distance(want, got) > max(2e-5, 3 * rounding):
            yield exporter, f"PyTorch {want[:4]}, uwasa {got[:4]}", True
        else:
            yield exporter, None, True


def networks():
    return {**everyday_networks.NETWORKS, **odd_networks.NETWORKS}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("uwasa")
    p.add_argument("--networks", default=",".join(networks()))
    p.add_argument("--exporters", default="torchscript")
    p.add_argument("--keep", help="leave the files there")
    p.add_argument("-v", action="store_true", help="print every network")
    args = p.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    agree = exported = unexpected = 0
    with tempfile.TemporaryDirectory(prefix="uwasa-networks-") as folder:
        for name in args.networks.split(","):
            for exporter, wrong, could in run(args.uwasa, name, args.exporters.split(","),
                                              args.keep or folder):
                exported += could
                agree += could and wrong is None
                odd = could and (wrong is None) == (name in known(exporter))
                unexpected += odd
                if odd or args.v:
                    print(f"{name} {exporter}: {wrong or 'agrees'}"
                          f"{'' if could else ' (no export)'}", flush=True)
    print(f"{agree} of {exported} exported networks agree, "
          f"{sum(len(known(e)) for e in args.exporters.split(','))} are known not to")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
