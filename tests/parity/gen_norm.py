# SPDX-License-Identifier: Apache-2.0
"""gen_norm - vectors of normalization, activations and dropout; run by tools/gen_vectors"""

import torch
import torch.nn.functional as F


def finish(w, y, x, params):
    w.out("y", y)
    w.out("dx", x.grad)
    for key, p in params:
        w.out(key, p.grad)
    w.end()


def batchnorm(w, tensor, name, n, c, inner, training=True, affine=True, eps=1e-5, momentum=0.1):
    x = tensor(1, n, c, inner).requires_grad_()
    gamma = tensor(2, c).requires_grad_() if affine else None
    beta = tensor(3, c).requires_grad_() if affine else None
    mean = tensor(5, c)
    var = tensor(6, c).abs() + 0.5
    y = F.batch_norm(x, mean, var, gamma, beta, training, momentum, eps)
    y.backward(tensor(4, *y.shape))
    w.begin("batchnorm", name, batch_n=n, channels=c, inner=inner, training=int(training),
            affine=int(affine), epsilon=float(eps), momentum=float(momentum))
    w.out("running_mean", mean)
    w.out("running_var", var)
    finish(w, y, x, [("dw", gamma), ("db", beta)] if affine else [])


def groupnorm(w, tensor, name, n, c, inner, groups, affine=True, eps=1e-5):
    x = tensor(1, n, c, inner).requires_grad_()
    gamma = tensor(2, c).requires_grad_() if affine else None
    beta = tensor(3, c).requires_grad_() if affine else None
    y = F.group_norm(x, groups, gamma, beta, eps)
    y.backward(tensor(4, *y.shape))
    w.begin("groupnorm", name, batch_n=n, channels=c, inner=inner, groups=groups,
            affine=int(affine), epsilon=float(eps))
    finish(w, y, x, [("dw", gamma), ("db", beta)] if affine else [])


def layernorm(w, tensor, name, rows, shape, eps=1e-5):
    """As the kernels see it: group norm of rows samples, one group, inner 1."""
    x = tensor(1, rows, *shape).requires_grad_()
    gamma = tensor(2, *shape).requires_grad_()
    beta = tensor(3, *shape).requires_grad_()
    y = F.layer_norm(x, shape, gamma, beta, eps)
    y.backward(tensor(4, *y.shape))
    w.begin("groupnorm", name, batch_n=rows, channels=gamma.numel(), inner=1, groups=1, affine=1,
            epsilon=float(eps))
    finish(w, y, x, [("dw", gamma), ("db", beta)])


def lrn(w, tensor, name, n, c, inner, size, alpha=1e-4, beta=0.75, k=1.0):
    x = tensor(1, n, c, inner, scale=3.0).requires_grad_()
    y = F.local_response_norm(x, size, alpha, beta, k)
    y.backward(tensor(4, *y.shape))
    w.begin("lrn", name, batch_n=n, channels=c, inner=inner, size=size, alpha=float(alpha),
            beta=float(beta), k=float(k))
    finish(w, y, x, [])


def activation(w, tensor, name, kind, call, scale, slope=0.01):
    x = tensor(1, 90, scale=scale).requires_grad_()
    y = call(x)
    y.backward(tensor(4, 90))
    w.begin("activation", name, function=kind, n=90, scale=float(scale), slope=float(slope))
    finish(w, y, x, [])


def write(writer, tensor):
    w = writer("norm.txt")
    batchnorm(w, tensor, "images", 3, 4, 20)
    batchnorm(w, tensor, "rows", 7, 5, 1, momentum=0.3, eps=1e-3)
    batchnorm(w, tensor, "no_affine", 2, 3, 11, affine=False)
    batchnorm(w, tensor, "running", 3, 4, 6, training=False)
    groupnorm(w, tensor, "one_group", 2, 6, 9, 1)
    groupnorm(w, tensor, "three_groups", 3, 6, 5, 3, eps=1e-3)
    groupnorm(w, tensor, "instance", 2, 4, 12, 4)
    groupnorm(w, tensor, "no_affine", 2, 4, 7, 2, affine=False)
    layernorm(w, tensor, "layer_last_axis", 6, (9,))
    layernorm(w, tensor, "layer_two_axes", 3, (4, 5), eps=1e-2)
    layernorm(w, tensor, "layer_three_axes", 2, (3, 4, 5))
    lrn(w, tensor, "alexnet", 2, 12, 5, 5, 1e-4, 0.75, 2.0)
    lrn(w, tensor, "even_window", 2, 7, 18, 4, 0.8, 0.6, 1.0)
    lrn(w, tensor, "wider_than_channels", 2, 3, 4, 9, 2.0)
    # kinds as in enum uw_activation_kind
    for scale in (1.0, 10.0):
        suffix = f"_{int(scale)}"
        activation(w, tensor, "relu6" + suffix, 0, F.relu6, scale)
        activation(w, tensor, "leaky_relu" + suffix, 1, lambda x: F.leaky_relu(x, 0.2), scale, 0.2)
        activation(w, tensor, "sigmoid" + suffix, 2, torch.sigmoid, scale)
        activation(w, tensor, "tanh" + suffix, 3, torch.tanh, scale)
        activation(w, tensor, "gelu" + suffix, 4, F.gelu, scale)
        activation(w, tensor, "gelu_tanh" + suffix, 5,
                   lambda x: F.gelu(x, approximate="tanh"), scale)
        activation(w, tensor, "silu" + suffix, 6, F.silu, scale)
