#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/parity/gen_forms.py DIR - ONNX files in forms that PyTorch's exporter does not write today

Writes DIR/forms.onnx with DIR/forms.weights, DIR/old.onnx, DIR/new.onnx, DIR/shared.onnx and
DIR/places.onnx, each with a .txt as gen_onnx.py does; the outputs are computed here. forms: nodes out of order, weights
in another file, in float16, bfloat16 and int8, calls of functions with attributes, an If with a
constant condition. old: opset 7, where initializers are inputs, too, and limits and lists are
attributes. new: operators of opset 23 that stand for several others. shared: RotaryEmbedding, and
an Attention whose heads share keys. places: GatherND, ScatterND and their relatives, also by
indices that count samples. Needs Python alone; the tests read what is committed in
tests/parity/onnx."""

import math
import random
import struct
import sys

FLOAT, INT8, INT64, BOOL, FLOAT16, BFLOAT16 = 1, 3, 7, 9, 10, 16


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n >= 0x80:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def part(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def real(field, x):
    return varint(field << 3 | 5) + struct.pack("<f", x)


def tensor(name, dims, kind, raw=b"", external=None):
    out = b"".join(number(1, d) for d in dims) + number(2, kind) + part(8, name)
    if external is None:
        return out + part(9, raw)
    for key, value in external:
        out += part(13, part(1, key) + part(2, value))
    return out + number(14, 1)


def floats(name, dims, values):
    return tensor(name, dims, FLOAT, struct.pack(f"<{len(values)}f", *values))


def integers(name, dims, values):
    return tensor(name, dims, INT64, struct.pack(f"<{len(values)}q", *values))


def attribute(name, value=None, refers=None):
    out = part(1, name)
    if refers is not None:
        return out + part(21, refers) + number(20, 1)
    if isinstance(value, float):
        return out + real(2, value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    if isinstance(value, str):
        return out + part(4, value) + number(20, 3)
    if isinstance(value, bytes):            # a graph
        return out + part(6, value) + number(20, 5)
    return out + b"".join(number(8, v) for v in value) + number(20, 7)


def node(op, name, inputs, outputs, attributes=(), domain=""):
    return (b"".join(part(1, i) for i in inputs) + b"".join(part(2, o) for o in outputs) +
            part(3, name) + part(4, op) + b"".join(part(5, a) for a in attributes) +
            (part(7, domain) if domain else b""))


def value(name, dims, kind=FLOAT):
    shape = b"".join(part(1, part(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return part(1, name) + part(2, part(1, number(1, kind) + part(2, shape)))


def graph(nodes, tensors=(), inputs=(), outputs=()):
    return (b"".join(part(1, n) for n in nodes) + part(2, "g") +
            b"".join(part(5, t) for t in tensors) + b"".join(part(11, i) for i in inputs) +
            b"".join(part(12, o) for o in outputs))


def model(ir, opset, body, functions=(), domain=None):
    out = number(1, ir) + part(2, "gen_forms.py") + part(7, body) + part(8, number(2, opset))
    if domain is not None:
        out += part(8, part(1, domain) + number(2, 1))
    return out + b"".join(part(25, f) for f in functions)


def some(n, shares=8):
    """n numbers that every type of floats has."""
    return [random.randint(-shares, shares) / shares for _ in range(n)]


def half(values):
    return struct.pack(f"<{len(values)}e", *values)


def bfloat(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def product(x, w, bias):
    """w: [in][out]"""
    out = len(bias)
    return [sum(v * w[i * out + o] for i, v in enumerate(x)) + bias[o] for o in range(out)]


def write(folder, name, kinds, x, y):
    with open(f"{folder}/{name}.txt", "w", encoding="ascii") as f:
        f.write(kinds + "\n")
        for samples in (x, y):
            f.write(" ".join(f"{v:.9g}" for sample in samples for v in sample) + "\n")


def forms(folder):
    w1, b1, w2, b2 = some(20), some(5), some(30), some(6)
    w3, scale, zero, b3 = [random.randint(-90, 90) for _ in range(18)], some(3), [1, -2, 3], some(3)
    with open(f"{folder}/forms.weights", "wb") as f:
        f.write(b"before the weight of the first layer" + struct.pack("<20f", *w1))
    block = (part(1, "Block") + part(4, "x") + part(4, "weight") + part(4, "bias") + part(5, "y") +
             part(6, "slope") + part(10, "mine") +
             part(7, node("MatMul", "product", ["x", "weight"], ["p"])) +
             part(7, node("Add", "sum", ["p", "bias"], ["s"])) +
             part(7, node("Bend", "bend", ["s"], ["y"],
                          [attribute("alpha", refers="slope")], "mine")) +
             part(9, number(2, 20)) + part(9, part(1, "mine") + number(2, 1)))
    bend = (part(1, "Bend") + part(4, "v") + part(5, "w") + part(6, "alpha") + part(10, "mine") +
            part(7, node("LeakyRelu", "leaky", ["v"], ["w"],
                         [attribute("alpha", refers="alpha")])) +
            part(11, attribute("alpha", 0.5)) + part(9, number(2, 20)))
    first = graph([node("Relu", "then", ["a"], ["then/y"])], outputs=[value("then/y", [])])
    other = graph([node("Neg", "else", ["a"], ["else/y"])], outputs=[value("else/y", [])])
    nodes = [
        node("Softmax", "end", ["logits"], ["odds"], [attribute("axis", -1)]),
        node("Add", "add3", ["m3", "b3"], ["logits"]),
        node("Cast", "cast2", ["b2/bfloat16"], ["b2"], [attribute("to", FLOAT)]),
        node("MatMul", "product3", ["c", "w3"], ["m3"]),
        node("DequantizeLinear", "q", ["w3/int8", "w3/scale", "w3/zero"], ["w3"],
             [attribute("axis", 1)]),
        node("Block", "second", ["b", "w2", "b2"], ["c"], [attribute("slope", 0.25)], "mine"),
        node("If", "choice", ["yes"], ["b"],
             [attribute("then_branch", first), attribute("else_branch", other)]),
        node("Block", "first", ["x", "w1", "b1"], ["a"], (), "mine"),
        node("Cast", "cast1", ["b1/float16"], ["b1"], [attribute("to", FLOAT)]),
    ]
    tensors = [
        tensor("w1", [4, 5], FLOAT, external=[("location", "forms.weights"), ("offset", "36"),
                                              ("length", "80"), ("checksum", "none")]),
        tensor("b1/float16", [5], FLOAT16, half(b1)), floats("w2", [5, 6], w2),
        tensor("b2/bfloat16", [6], BFLOAT16, bfloat(b2)),
        tensor("w3/int8", [6, 3], INT8, struct.pack("18b", *w3)), floats("w3/scale", [3], scale),
        tensor("w3/zero", [3], INT8, struct.pack("3b", *zero)), floats("b3", [3], b3),
        tensor("yes", [], BOOL, b"\1"),
    ]
    body = graph(nodes, tensors, [value("x", ["batch", 4])], [value("odds", ["batch", 3])])
    with open(f"{folder}/forms.onnx", "wb") as f:
        f.write(model(10, 20, body, [block, bend], "mine"))
    x = [some(4) for _ in range(2)]
    y = []
    for sample in x:
        h = [max(v, 0.0) for v in product(sample, w1, b1)]      # the first bend's slope goes with it
        h = [v if v > 0 else 0.25 * v for v in product(h, w2, b2)]
        y.append(product(h, [(w3[i] - zero[i % 3]) * scale[i % 3] for i in range(18)], b3))
    write(folder, "forms", "dense leaky_relu relu dense leaky_relu dense", x, y)


def old(folder):
    kernel, gamma, beta, mean, var = some(18), some(2), some(2), some(2), [0.5, 2.0]
    w, bias = some(24), some(3)
    nodes = [
        node("Conv", "conv", ["x", "kernel"], ["c"], [attribute("kernel_shape", [3, 3])]),
        node("BatchNormalization", "norm", ["c", "gamma", "beta", "mean", "var"], ["n"],
             [attribute("epsilon", 1e-3), attribute("spatial", 1)]),
        node("Clip", "clip", ["n"], ["k"], [attribute("min", 0.0), attribute("max", 6.0)]),
        node("Unsqueeze", "wide", ["k"], ["u"], [attribute("axes", [4])]),
        node("Squeeze", "narrow", ["u"], ["s"], [attribute("axes", [4])]),
        node("Flatten", "flat", ["s"], ["f"]),
        node("Dropout", "drop", ["f"], ["d"], [attribute("ratio", 0.25)]),
        node("Gemm", "gemm", ["d", "w", "bias"], ["g"]),
        node("Softmax", "end", ["g"], ["y"]),
    ]
    tensors = [floats("kernel", [2, 1, 3, 3], kernel), floats("gamma", [2], gamma),
               floats("beta", [2], beta), floats("mean", [2], mean), floats("var", [2], var),
               floats("w", [8, 3], w), floats("bias", [3], bias)]
    inputs = [value("kernel", [2, 1, 3, 3]), value("x", ["N", 1, 4, 4])] + [
        value(name, dims) for name, dims in (("gamma", [2]), ("beta", [2]), ("mean", [2]),
                                             ("var", [2]), ("w", [8, 3]), ("bias", [3]))]
    with open(f"{folder}/old.onnx", "wb") as f:
        f.write(model(3, 7, graph(nodes, tensors, inputs, [value("y", ["N", 3])])))
    x = [some(16) for _ in range(2)]
    y = []
    for sample in x:
        h = []
        for c in range(2):
            for i in range(4):
                at = i // 2 * 4 + i % 2
                v = sum(sample[at + r * 4 + s] * kernel[c * 9 + r * 3 + s]
                        for r in range(3) for s in range(3))
                v = (v - mean[c]) / (var[c] + 1e-3) ** 0.5 * gamma[c] + beta[c]
                h.append(min(max(v, 0.0), 6.0))
        y.append(product(h, w, bias))
    write(folder, "old", "conv2d batchnorm relu6 dropout flatten dense", x, y)


def new(folder):
    scale, gamma, beta, w, bias = some(4), some(2), some(2), some(72), some(3)
    nodes = [
        node("Attention", "mix", ["x", "x", "x"], ["a"], [attribute("scale", 0.75)]),
        node("RMSNormalization", "rms", ["a", "scale"], ["r"], [attribute("epsilon", 1e-3)]),
        node("GroupNormalization", "groups", ["r", "gamma", "beta"], ["g"],
             [attribute("num_groups", 1), attribute("epsilon", 1e-3)]),
        node("Flatten", "flat", ["g"], ["f"]),
        node("Gemm", "gemm", ["f", "w", "bias"], ["y"]),
    ]
    tensors = [floats("scale", [4], scale), floats("gamma", [2], gamma), floats("beta", [2], beta),
               floats("w", [24, 3], w), floats("bias", [3], bias)]
    with open(f"{folder}/new.onnx", "wb") as f:
        f.write(model(11, 23, graph(nodes, tensors, [value("x", ["N", 2, 3, 4])],
                                    [value("y", ["N", 3])])))
    x = [some(24) for _ in range(2)]
    y = []
    for sample in x:
        h = []
        for head in range(2):
            rows = [sample[head * 12 + i * 4:head * 12 + i * 4 + 4] for i in range(3)]
            for q in rows:
                e = [math.exp(0.75 * sum(a * b for a, b in zip(q, k))) for k in rows]
                mixed = [sum(p * r[c] for p, r in zip(e, rows)) / sum(e) for c in range(4)]
                root = (sum(v * v for v in mixed) / 4 + 1e-3) ** 0.5
                h += [v / root * s for v, s in zip(mixed, scale)]
        mean = sum(h) / 24
        root = (sum((v - mean) ** 2 for v in h) / 24 + 1e-3) ** 0.5
        h = [(v - mean) / root * gamma[i // 12] + beta[i // 12] for i, v in enumerate(h)]
        y.append(product(h, w, bias))
    write(folder, "new", "matmul reshape softmax reshape matmul arithmetic reshape reduce "
          "function function reshape arithmetic parameter arithmetic groupnorm flatten dense", x, y)


def turn(row, angle):
    """The first two of the four elements of each head, turned."""
    out = list(row)
    for i in range(0, len(row), 4):
        a, b = row[i:i + 2]
        out[i:i + 2] = [a * math.cos(angle) - b * math.sin(angle),
                        a * math.sin(angle) + b * math.cos(angle)]
    return out


def shared(folder):
    """Four heads of queries share two of keys and values, of three axes; places turn them."""
    wk, wv, w, bias, places, angles = some(128), some(128), some(32), some(2), [1, 4, 2], some(5)
    nodes = [
        node("MatMul", "keys", ["x", "wk"], ["k"]),
        node("MatMul", "values", ["x", "wv"], ["v"]),
        node("Reshape", "heads", ["k", "four"], ["k4"]),
        node("Transpose", "heads_first", ["k4"], ["kt"], [attribute("perm", [0, 2, 1, 3])]),
        node("RotaryEmbedding", "turn_k", ["kt", "cos3", "sin3"], ["tk4"],
             [attribute("interleaved", 1), attribute("rotary_embedding_dim", 2)]),
        node("Transpose", "steps_first", ["tk4"], ["tk3"], [attribute("perm", [0, 2, 1, 3])]),
        node("Reshape", "rows", ["tk3", "three"], ["tk"]),
        node("RotaryEmbedding", "turn_q", ["x", "cos", "sin", "places"], ["tq"],
             [attribute("interleaved", 1), attribute("num_heads", 4),
              attribute("rotary_embedding_dim", 2)]),
        node("Attention", "mix", ["tq", "tk", "v"], ["a"],
             [attribute("q_num_heads", 4), attribute("kv_num_heads", 2),
              attribute("is_causal", 1)]),
        node("ReduceSum", "sum", ["a", "one"], ["s"], [attribute("keepdims", 0)]),
        node("Gemm", "gemm", ["s", "w", "bias"], ["y"]),
    ]
    chosen = [angles[i] for i in places]
    tensors = [floats("wk", [16, 8], wk), floats("wv", [16, 8], wv), floats("w", [16, 2], w),
               floats("bias", [2], bias), floats("cos", [5, 1], [math.cos(t) for t in angles]),
               floats("sin", [5, 1], [math.sin(t) for t in angles]),
               floats("cos3", [1, 3, 1], [math.cos(t) for t in chosen]),
               floats("sin3", [1, 3, 1], [math.sin(t) for t in chosen]),
               integers("places", [1, 3], places), integers("one", [1], [1]),
               integers("four", [4], [0, 3, 2, 4]), integers("three", [3], [0, 3, 8])]
    with open(f"{folder}/shared.onnx", "wb") as f:
        f.write(model(11, 23, graph(nodes, tensors, [value("x", ["N", 3, 16])],
                                    [value("y", ["N", 2])])))
    x = [some(48) for _ in range(2)]
    y = []
    for sample in x:
        rows = [sample[i * 16:i * 16 + 16] for i in range(3)]
        q = [turn(r, t) for r, t in zip(rows, chosen)]
        k = [turn(product(r, wk, [0.0] * 8), t) for r, t in zip(rows, chosen)]
        v = [product(r, wv, [0.0] * 8) for r in rows]
        total = [0.0] * 16
        for i in range(3):
            for head in range(4):
                at, own = head * 4, head // 2 * 4
                e = [math.exp(0.5 * sum(q[i][at + c] * k[j][own + c] for c in range(4)))
                     for j in range(i + 1)]
                for c in range(4):
                    total[at + c] += sum(p * v[j][own + c] for j, p in enumerate(e)) / sum(e)
        y.append(product(total, w, bias))
    write(folder, "shared", "dense dense reshape take reshape parameter arithmetic reshape parameter "
          "arithmetic add reshape take reshape parameter arithmetic reshape "
          "parameter arithmetic add transpose reshape transpose reshape reshape "
          "matmul reshape parameter arithmetic reshape softmax reshape transpose "
          "reshape matmul reshape reduce flatten dense", x, y)


def places(folder):
    """Samples of 4 by 3."""
    nodes = [
        node("Transpose", "places_first", ["x"], ["t"], [attribute("perm", [1, 2, 0])]),
        node("GatherND", "pairs", ["t", "pairs"], ["p"]),
        node("Transpose", "samples_first", ["p"], ["a"], [attribute("perm", [1, 0])]),
        node("Shape", "shape", ["x"], ["sizes"], [attribute("end", 1)]),
        node("Squeeze", "number", ["sizes"], ["n"]),
        node("Range", "samples", ["zero", "n", "one"], ["i"]),
        # as_strided: elements 5 and 0 of each sample
        node("Reshape", "flat", ["x", "all"], ["f"]),
        node("Mul", "starts", ["i", "twelve"], ["i12"]),
        node("Reshape", "column", ["i12", "rows"], ["at12"]),
        node("Add", "strided", ["at12", "elements"], ["at_b"]),
        node("Gather", "as_strided", ["f", "at_b"], ["b"]),
        # c[:, [2, 0, 1]] = a
        node("Concat", "four", ["sizes", "four"], ["n4"], [attribute("axis", 0)]),
        node("ConstantOfShape", "zeros", ["n4"], ["c0"]),
        node("Concat", "three", ["sizes", "three"], ["n3"], [attribute("axis", 0)]),
        node("Reshape", "sample", ["i", "rows"], ["i1"]),
        node("Expand", "samples_of_three", ["i1", "n3"], ["i3"]),
        node("Expand", "columns_of_three", ["turned", "n3"], ["k3"]),
        node("Unsqueeze", "first", ["i3", "last"], ["first"]),
        node("Unsqueeze", "second", ["k3", "last"], ["second"]),
        node("Concat", "index", ["first", "second"], ["at_c"], [attribute("axis", -1)]),
        node("ScatterND", "put", ["c0", "at_c", "a"], ["c"]),
        # d[:, 1] += b[:, 0] + b[:, 1]
        node("Shape", "shape_b", ["b"], ["n2"]),
        node("Expand", "ones", ["ones", "n2"], ["at_d"]),
        node("ScatterElements", "add", ["c", "at_d", "b"], ["d"],
             [attribute("axis", 1), attribute("reduction", "add")]),
        node("Expand", "picks", ["picks", "n3"], ["at_e"]),
        node("GatherElements", "pick", ["d", "at_e"], ["e"], [attribute("axis", 1)]),
        # of constants
        node("ScatterND", "constant", ["const_a", "two", "const_b"], ["k4"]),
        node("GatherND", "turn", ["k4", "back"], ["k"]),
        node("Add", "sum", ["e", "k"], ["y"]),
    ]
    tensors = [integers("pairs", [3, 2], [0, 2, 3, -1, 1, 0]), integers("zero", [], [0]),
               integers("one", [], [1]), integers("all", [1], [-1]), integers("twelve", [], [12]),
               integers("rows", [2], [-1, 1]), integers("elements", [2], [5, 0]),
               integers("four", [1], [4]), integers("three", [1], [3]),
               integers("turned", [3], [2, 0, 1]), integers("last", [1], [-1]),
               integers("ones", [1, 2], [1, 1]), integers("picks", [1, 3], [3, 0, 1]),
               floats("const_a", [4], [0.0] * 4), integers("two", [2, 1], [1, -1]),
               floats("const_b", [2], [2.0, -1.0]), integers("back", [3, 1], [3, 1, 0])]
    with open(f"{folder}/places.onnx", "wb") as f:
        f.write(model(11, 18, graph(nodes, tensors, [value("x", ["N", 4, 3])],
                                    [value("y", ["N", 3])])))
    x = [some(12) for _ in range(2)]
    y = []
    for v in x:
        a = [v[2], v[11], v[3]]
        d = [a[1], a[2] + v[5] + v[0], a[0], 0.0]
        y.append([d[3] - 1.0, d[0] + 2.0, d[1]])
    write(folder, "places", "flatten flatten take take concat take take parameter arithmetic", x, y)


def main():
    random.seed(7)
    forms(sys.argv[1])
    old(sys.argv[1])
    new(sys.argv[1])
    shared(sys.argv[1])
    places(sys.argv[1])


if __name__ == "__main__":
    main()
