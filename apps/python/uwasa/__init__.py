# SPDX-License-Identifier: Apache-2.0
"""Train neural networks in fp32 on this machine, by the code of the uwasa program.

    import uwasa
    model = uwasa.Model("mine.onnx")
    model.fit(x, y, epochs=3, validation=0.1)
    model.predict(x)

Options have the names of `uwasa train --help`, with underscores. What is found in data and model, or
taken for granted, is printed in a line, unless verbose=0. Errors are ValueError (an option, data that
do not fit, a malformed file), OSError, MemoryError, FloatingPointError (NaN while training)."""

from .history import History
from .native import version as __version__
from .model import Model
from .program import Node, plan

__all__ = ["History", "Model", "Node", "plan"]
