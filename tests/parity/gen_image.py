# SPDX-License-Identifier: Apache-2.0
"""image.txt: convolutions over a length, transposed ones, and the pools; run by tools/gen_vectors"""

import torch.nn.functional as F


def case(g, w, kind, name, shape, apply, weight=None, bias=None, **options):
    """A layer of that kind on inputs of that shape (minibatch in front), forward and backward."""
    x = g.tensor(1, *shape).requires_grad_()
    weight = g.tensor(2, *weight).requires_grad_() if weight else None
    bias = g.tensor(3, bias).requires_grad_() if bias else None
    y = apply(x, weight, bias)
    y.backward(g.tensor(4, *y.shape))
    sizes = dict(zip(("batch_n", "in_c", "in_h", "in_w"), shape)) if len(shape) == 4 else \
        dict(zip(("batch_n", "in_c", "in_w"), shape)) | {"in_h": 0}
    w.begin(kind, name, **sizes, **options, no_bias=int(bias is None))
    w.out("y", y)
    w.out("dx", x.grad)
    if weight is not None:
        w.out("dw", weight.grad)
    if bias is not None:
        w.out("db", bias.grad)
    w.end()


def conv1d(g, w, name, n, c, length, co, k, s=1, p=0, d=1, groups=1, bias=True):
    case(g, w, "conv1d", name, (n, c, length),
         lambda x, wt, b: F.conv1d(x, wt, b, s, p, d, groups), (co, c // groups, k),
         co if bias else None, out_channels=co, kernel=k, stride=s, pad=p, dilation=d,
         groups=groups)


def conv_transpose2d(g, w, name, n, c, size, co, k, s=(1, 1), p=(0, 0), d=(1, 1), o=(0, 0),
                     groups=1, bias=True):
    case(g, w, "conv_transpose2d", name, (n, c, *size),
         lambda x, wt, b: F.conv_transpose2d(x, wt, b, s, p, o, groups, d),
         (c, co // groups, *k), co if bias else None, out_channels=co, kernel_h=k[0],
         kernel_w=k[1], stride_h=s[0], stride_w=s[1], pad_h=p[0], pad_w=p[1], dilation_h=d[0],
         dilation_w=d[1], out_pad_h=o[0], out_pad_w=o[1], groups=groups)


def pool2d(g, w, kind, name, n, c, size, k, s, p=(0, 0), ceil=False, exclude=False):
    def apply(x, _weight, _bias):
        if kind == "maxpool2d":
            return F.max_pool2d(x, k, s, p, ceil_mode=ceil)
        return F.avg_pool2d(x, k, s, p, ceil_mode=ceil, count_include_pad=not exclude)

    case(g, w, kind, name, (n, c, *size), apply, kernel_h=k[0], kernel_w=k[1], stride_h=s[0],
         stride_w=s[1], pad_h=p[0], pad_w=p[1], ceil_mode=int(ceil), exclude_pad=int(exclude))


def pool1d(g, w, kind, name, n, c, length, k, s, p=0, ceil=False, exclude=False):
    def apply(x, _weight, _bias):
        if kind == "maxpool1d":
            return F.max_pool1d(x, k, s, p, ceil_mode=ceil)
        return F.avg_pool1d(x, k, s, p, ceil_mode=ceil, count_include_pad=not exclude)

    case(g, w, kind, name, (n, c, length), apply, kernel=k, stride=s, pad=p, ceil_mode=int(ceil),
         exclude_pad=int(exclude))


def write(g, w):
    """g: tools/gen_vectors; w: its Writer on image.txt."""
    conv1d(g, w, "3", 2, 3, 20, 5, 3)
    conv1d(g, w, "5_stride_2_pad_2", 2, 4, 21, 6, 5, s=2, p=2)
    conv1d(g, w, "3_dilation_4_groups_2_no_bias", 1, 4, 30, 6, 3, p=4, d=4, groups=2, bias=False)
    conv1d(g, w, "9_depthwise", 2, 6, 25, 6, 9, p=4, groups=6)
    conv_transpose2d(g, w, "2x2_stride_2", 2, 4, (5, 6), 3, (2, 2), s=(2, 2))
    conv_transpose2d(g, w, "3x3_stride_2_pad_1_out_pad_1", 2, 3, (4, 5), 5, (3, 3), s=(2, 2),
                     p=(1, 1), o=(1, 1))
    conv_transpose2d(g, w, "3x2_stride_1_3_groups_2", 1, 4, (5, 4), 6, (3, 2), s=(1, 3), p=(1, 0),
                     o=(0, 2), groups=2)
    conv_transpose2d(g, w, "3x3_dilation_3_out_pad_2_depthwise_no_bias", 2, 4, (5, 5), 4, (3, 3),
                     p=(2, 1), d=(3, 3), o=(2, 1), groups=4, bias=False)
    conv_transpose2d(g, w, "4x4_stride_2_16_channels", 2, 16, (7, 7), 8, (4, 4), s=(2, 2),
                     p=(1, 1))
    for kind in ("maxpool2d", "avgpool2d"):
        pool2d(g, w, kind, "2x2_ceil", 2, 3, (7, 5), (2, 2), (2, 2), ceil=True)
        pool2d(g, w, kind, "3x3_stride_2_ceil_as_googlenet", 1, 3, (14, 13), (3, 3), (2, 2),
               ceil=True)
        pool2d(g, w, kind, "3x4_stride_2_3_pad_1_2_ceil", 2, 2, (8, 9), (3, 4), (2, 3), p=(1, 2),
               ceil=True)
        pool2d(g, w, kind, "2x2_stride_3_pad_1_ceil_drops_a_window", 2, 2, (5, 7), (2, 2), (3, 3),
               p=(1, 1), ceil=True)
        pool2d(g, w, kind, "3x3_larger_than_its_input_ceil", 1, 2, (2, 2), (3, 3), (2, 2),
               ceil=True)
    pool2d(g, w, "avgpool2d", "2x2", 2, 3, (6, 8), (2, 2), (2, 2))
    pool2d(g, w, "avgpool2d", "3x3_pad_1_exclude", 2, 3, (6, 8), (3, 3), (1, 1), p=(1, 1),
           exclude=True)
    pool2d(g, w, "avgpool2d", "3x4_stride_2_3_pad_1_2_ceil_exclude", 2, 2, (8, 9), (3, 4), (2, 3),
           p=(1, 2), ceil=True, exclude=True)
    for kind in ("maxpool1d", "avgpool1d"):
        pool1d(g, w, kind, "2", 2, 3, 9, 2, 2)
        pool1d(g, w, kind, "4_stride_3_pad_2_ceil", 2, 3, 13, 4, 3, p=2, ceil=True)
    pool1d(g, w, "avgpool1d", "3_pad_1_exclude", 2, 3, 11, 3, 2, p=1, exclude=True)
    case(g, w, "global_avgpool", "image", (2, 5, 7, 6), lambda x, _w, _b: x.mean((2, 3)))
    case(g, w, "global_avgpool", "signal", (2, 5, 17), lambda x, _w, _b: x.mean(2))
