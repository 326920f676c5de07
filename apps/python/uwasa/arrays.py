# SPDX-License-Identifier: Apache-2.0
"""Arrays as the runtime takes them: float32, contiguous, in the shape of the model's input."""

import json
import math

import numpy

from .native import Arrays


def floats(a, name, tell, images=False):
    """A contiguous float32 array, the same memory where it is one already."""
    a = numpy.asarray(a)
    if a.dtype.kind not in "fiub":
        raise ValueError(f"{name}: holds {a.dtype}, not numbers" + (
            "; names of classes become numbers by numpy.unique(y, return_inverse=True)"
            if name == "y" and a.dtype.kind in "OUST" else ""))
    if images and a.dtype == numpy.uint8 and a.ndim > 2:
        tell(f"{name}: bytes of images are divided by 255; other numbers are taken as they are")
        return numpy.divide(a, 255, dtype=numpy.float32, order="C")
    if name == "x" and a.dtype != numpy.float32:
        tell(f"{name}: {a.dtype} is converted to float32, in a copy")
    elif name == "x" and not a.flags.c_contiguous:
        tell(f"{name}: is copied, its samples do not follow each other in memory")
    return numpy.ascontiguousarray(a, dtype=numpy.float32)


def samples(x, shape, tell):
    """The samples of a model whose input has this shape, checked."""
    x = floats(x, "x", tell, images=True)
    if x.ndim == 0 or x.shape[0] == 0 or x.size == 0:
        raise ValueError(f"x: has shape {x.shape}, no sample; its first axis counts the samples")
    if x.shape[0] >= 2 ** 31:
        raise ValueError(f"x: {x.shape[0]} samples, at most {2 ** 31 - 1} go into one call")
    mine, wanted = x.shape[1:], tuple(shape)
    size = math.prod(wanted)
    flat = math.prod(mine) == size and (len(mine) <= 1 or len(wanted) == 1)
    if flat or [n for n in mine if n != 1] == [n for n in wanted if n != 1]:
        return x
    hint = ""
    if len(wanted) == 3 and mine == (wanted[1], wanted[2], wanted[0]):
        hint = "; numpy.moveaxis(x, -1, 1) puts the channels first"
    elif x.shape == wanted or (x.ndim == 1 and x.size == size):
        hint = "; x[None] is one sample"
    raise ValueError(f"x: samples have shape {mine}, the model takes {wanted}{hint}")


def rows(y, n, tell):
    """[n, numbers of a sample] as float32."""
    y = floats(y, "y", tell)
    if y.ndim == 0 or y.shape[0] != n:
        raise ValueError(f"y: has {y.shape[0] if y.ndim else 1} rows, x has {n} samples")
    return y.reshape(n, -1)


def data(x, y, shape, tell):
    """(struct uw_data_arrays, the arrays that it points into)."""
    x = samples(x, shape, tell)
    n, size = x.shape[0], math.prod(shape)
    of = Arrays(x=x.ctypes.data, samples_n=n, channels=size, height=1, width=1)
    if y is None:
        return of, (x,)
    if isinstance(y, tuple):        # one for each output
        y = numpy.concatenate([rows(part, n, tell) for part in y], axis=1)
    whole = numpy.asarray(y).dtype.kind in "iub"
    y = rows(y, n, tell)
    if y.shape[1] == 0:
        raise ValueError(f"y: has shape {y.shape}, no number for a sample")
    of.y, of.y_n, of.whole = y.ctypes.data, y.shape[1], whole
    return of, (x, y)


TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def read_safetensors(of):
    """{name: array} of the bytes of a safetensors file."""
    start = 8 + int.from_bytes(of[:8], "little")
    tensors = {}
    for name, t in json.loads(of[8:start]).items():
        if name != "__metadata__":
            first, last = t["data_offsets"]
            tensors[name] = numpy.frombuffer(of[start + first:start + last],
                                             TYPES[t["dtype"]]).reshape(t["shape"]).copy()
    return tensors


def write_safetensors(tensors):
    """The bytes of such a file; values may be tensors of PyTorch."""
    header, parts, at = {}, [], 0
    for name, t in tensors.items():
        t = t.detach().cpu().numpy() if hasattr(t, "detach") else numpy.asarray(t)
        if t.dtype.kind == "f":         # counters of batch norm are left out
            part = numpy.ascontiguousarray(t, "<f4").tobytes()
            header[name] = {"dtype": "F32", "shape": t.shape, "data_offsets": [at, at + len(part)]}
            parts.append(part)
            at += len(part)
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(parts)
