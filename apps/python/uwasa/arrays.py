# SPDX-License-Identifier: Apache-2.0
"""Arrays as the runtime takes them: float32, contiguous, in the shape of the model's input."""

import json
import math
from ctypes import c_char_p

import numpy

from .native import Arrays


def numbers(a, name):
    """An array of numbers: also of objects that are numbers, as pandas has them; NaN for what is
    masked or None. None: there are words in it."""
    if isinstance(a, numpy.ma.MaskedArray):
        a = a.astype(numpy.float64).filled(numpy.nan)
    for column, kind in zip(a.columns, a.dtypes) if hasattr(a, "columns") else ():
        if kind.kind in "mM":
            raise ValueError(f"{name}: column {column!r} holds {kind}, not numbers; "
                             "(x - x.min()) / pandas.Timedelta(days=1) makes days of it")
    of = numpy.asarray(a)
    if of.dtype.kind not in "OUST":
        if of.dtype.kind not in "fiub":
            raise ValueError(f"{name}: holds {of.dtype}, not numbers")
        return of
    try:
        if hasattr(a, "to_numpy"):
            return a.to_numpy(dtype=numpy.float64, na_value=numpy.nan)
        return of.astype(numpy.float64)
    except (TypeError, ValueError):
        return None


def words(y):
    """The words of y, one for each sample, as strings; None where there is none."""
    y = numpy.asarray(y, dtype=object)
    if y.size != len(y):
        raise ValueError(f"y: has shape {y.shape} and holds words; a sample has one")
    return [None if w is None or w != w or str(w) == "<NA>"
            else w.decode() if isinstance(w, bytes) else str(w) for w in y.reshape(-1)]


def floats(a, name, tell, images=False):
    """A contiguous float32 array, the same memory where it is one already."""
    of = numbers(a, name)
    if of is None:
        named = [c for c in getattr(a, "columns", ()) if numbers(a[c], name) is None]
        raise ValueError(f"{name}: holds words, not numbers" + (
            f", as in column {named[0]!r}" if named else "") +
            ("; pandas.get_dummies makes a column for each" if name == "x" else ""))
    if images and of.dtype == numpy.uint8 and of.ndim > 2:
        tell(f"{name}: bytes of images are divided by 255; other numbers are taken as they are")
        return numpy.divide(of, 255, dtype=numpy.float32, order="C")
    if of.dtype.itemsize > 2 and of.dtype.kind in "iuf" and numpy.any(
            (numpy.abs(of) >= 2 ** 24) & (of != of.astype(numpy.float32))):
        tell(f"{name}: WARNING: numbers from 16777216 on are rounded to float32; subtract a constant from "
             "them, or divide them")
    if name == "x" and of.dtype != numpy.float32:
        tell(f"{name}: {of.dtype} is converted to float32, in a copy")
    elif name == "x" and not of.flags.c_contiguous:
        tell(f"{name}: is copied, its samples do not follow each other in memory")
    return numpy.ascontiguousarray(of, dtype=numpy.float32)


def names(x):
    """The names of a DataFrame's columns; None: it has none."""
    columns = list(getattr(x, "columns", ()))
    return columns if columns and all(isinstance(c, str) for c in columns) else None


def by_names(x, features, tell):
    """A DataFrame's columns in the order of the training data."""
    mine = names(x)
    if not mine or not features or mine == features or not set(mine) & set(features):
        return x
    for name in features:
        if name not in mine:
            raise ValueError(f"x: has no column {name!r}, which the model was trained on; it needs all "
                             f"{len(features)}, in any order")
    tell(f"x: columns are taken by their names, {len(features)} of {len(mine)}")
    return x[features]


def samples(x, shape, tell, known=None):
    """The samples of a model whose input has this shape, checked."""
    x = floats(by_names(x, (known or {}).get("features"), tell), "x", tell, images=True)
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


def turned(y, shape, tell, outputs):
    """Images whose channels are last, as the input's height and width show, with channels first."""
    if y.ndim != 4 or len(shape) != 3 or math.prod(y.shape[1:]) != outputs or \
            y.shape[1:3] != tuple(shape[1:]) or y.shape[2:] == tuple(shape[1:]):
        return y
    tell("y: its channels are last, they are put first as in the model's output")
    return numpy.moveaxis(y, -1, 1)


def rows(y, n, tell, outputs, shape=()):
    """[n, numbers of a sample] as float32. In bytes of masks 255 is -1: the place does not count."""
    of = numpy.asarray(y)
    y = turned(floats(y, "y", tell), shape, tell, outputs)
    if y.ndim == 0 or y.shape[0] != n:
        raise ValueError(f"y: has {y.shape[0] if y.ndim else 1} rows, x has {n} samples")
    y = y.reshape(n, -1)
    places = y.shape[1]
    if of.dtype == numpy.uint8 and 1 < places < outputs and outputs % places == 0 and \
            outputs // places < 256:
        y = numpy.where(y == 255, numpy.float32(-1), y)
    return y


def targets(y, n, tell, outputs, classes, shape):
    """(rows of y, whether they are whole, the names of classes): words are their places among the
    classes, those of the model or all that are there, in alphabetical order."""
    if isinstance(y, tuple):        # one for each output
        return numpy.concatenate([rows(part, n, tell, outputs) for part in y], axis=1), False, None
    of = numbers(y, "y")
    if of is not None:
        return rows(y, n, tell, outputs, shape), of.dtype.kind in "iub", None
    said = words(y)
    if not classes:
        classes = sorted({w for w in said if w is not None})
        if not classes:
            raise ValueError("y: has no label")
        tell(f"y: the words are numbered in alphabetical order: 0 is {classes[0]}, {len(classes) - 1} is "
             f"{classes[-1]}")
    place = {name: k for k, name in enumerate(classes)}
    for i, word in enumerate(said):
        if word is not None and word not in place:
            raise ValueError(f"y: sample {i}, counted from 0, has the label {word!r}, which is none of "
                             f"the {len(classes)} classes, {classes[0]!r} to {classes[-1]!r}")
    return rows([numpy.nan if w is None else place[w] for w in said], n, tell, outputs), True, classes


class Gaps:
    """What to do with NaN: None or "refuse", "drop" the sample, or take the "mean" of training."""

    def __init__(self, how, means=None):
        if how not in (None, "refuse", "drop", "mean"):
            raise ValueError(f"missing: is {how!r}, needs 'refuse', 'drop' or 'mean'")
        self.how, self.means = how, means

    def close(self, x, y, tell):
        """x and y without gaps; the first x is that of training."""
        if self.how in (None, "refuse"):
            return x, y
        flat = x.reshape(len(x), -1)
        gaps, keep = numpy.isnan(flat), numpy.ones(len(x), bool)
        if y is not None:
            keep &= ~numpy.isnan(y).any(1)
        if self.how == "drop":
            keep &= ~gaps.any(1)
        elif self.means is None:
            there = numpy.maximum((~gaps).sum(0), 1)
            self.means = (numpy.where(gaps, 0, flat).sum(0, dtype=numpy.float64) / there)
        if not keep.any():
            raise ValueError("x: every sample has a gap, missing='mean' keeps them")
        if self.how == "mean" and gaps.any():
            tell(f"x: {gaps.sum()} values are missing: they get the mean of their column in training")
            x = numpy.where(gaps, numpy.float32(self.means), flat).astype(numpy.float32).reshape(x.shape)
        if not keep.all():
            tell(f"{(~keep).sum()} samples of {len(x)} are left out: a value, or the label, is missing")
            x, y = numpy.ascontiguousarray(x[keep]), None if y is None else y[keep]
        return x, y


def data(x, y, shape, tell, outputs=0, known=None, gaps=Gaps(None)):
    """(struct uw_data_arrays, the arrays that it points into, the names of its classes).

    known  what is saved with the model's weights: features, classes"""
    known = known or {}
    features = names(x)
    x = samples(x, shape, tell, known)
    n, size = x.shape[0], math.prod(shape)
    whole, classes = False, None
    if y is not None:
        y, whole, classes = targets(y, n, tell, outputs, known.get("classes"), shape)
        if y.shape[1] == 0:
            raise ValueError(f"y: has shape {y.shape}, no number for a sample")
    x, y = gaps.close(x, y, tell)
    of = Arrays(x=x.ctypes.data, samples_n=x.shape[0], channels=size, height=1, width=1)
    if y is not None:
        y = numpy.ascontiguousarray(y)
        of.y, of.y_n, of.whole = y.ctypes.data, y.shape[1], whole
    if features and known.get("features") and set(known["features"]) <= set(features):
        features = known["features"]
    if features and len(features) == size:
        of.features = (c_char_p * size)(*(name.encode() for name in features))
    if classes:
        of.classes, of.classes_n = (c_char_p * len(classes))(*(c.encode() for c in classes)), len(classes)
    return of, (x, y), classes


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
