# SPDX-License-Identifier: Apache-2.0
"""Trajectories of training.txt: ten steps of a small network, with every loss, every kind of
target and every optimizer. The network is d1 (dense 6 -> 8), ReLU, d2 (dense 8 -> n), and with two
losses a second head d3 (dense 8 -> n) on the ReLU."""

import torch
import torch.nn.functional as F

STEPS = 10
BATCH = 4
INPUTS = 6
LOSSES = {"cross_entropy": 0, "bce": 1, "mse": 2, "l1": 3, "huber": 4}
TARGETS = {"label": 0, "input": 1, "values": 2}


class Net(torch.nn.Module):
    def __init__(self, outputs, heads):
        super().__init__()
        self.d1 = torch.nn.Linear(INPUTS, 8)
        self.d2 = torch.nn.Linear(8, outputs)
        if heads == 2:
            self.d3 = torch.nn.Linear(8, outputs)

    def forward(self, x):
        h = F.relu(self.d1(x))
        return [self.d2(h), self.d3(h)] if hasattr(self, "d3") else [self.d2(h)]


def one_loss(head, z, x, label, values):
    kind = head["kind"]
    if kind == "cross_entropy":
        return F.cross_entropy(z, label, label_smoothing=head.get("smoothing", 0.0))
    target = {"label": F.one_hot(label, z.shape[1]).to(z.dtype), "input": x,
              "values": values}[head["target"]]
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(z, target)
    if kind == "mse":
        return F.mse_loss(z, target)
    if kind == "l1":
        return F.l1_loss(z, target)
    return F.huber_loss(z, target, delta=head.get("delta", 1.0))


def clip(net, clip_tensor, clip_global):
    if clip_global:
        torch.nn.utils.clip_grad_norm_(net.parameters(), clip_global)
    for p in net.parameters():
        if clip_tensor:
            torch.nn.utils.clip_grad_norm_([p], clip_tensor)


def trajectory(w, tensor, name, heads, optimizer, outputs=5, **options):
    clips = {key: float(options.pop(key, 0.0)) for key in ("clip_tensor", "clip_global")}
    net = Net(outputs, len(heads))
    with torch.no_grad():
        for number, p in enumerate(net.parameters()):
            p.copy_(tensor(100 + number, *p.shape, scale=0.5))
    opt = optimizer(net.parameters(), **options)
    losses = []
    for step in range(STEPS):
        x = tensor(1000 + step, BATCH, INPUTS)
        values = (tensor(2000 + step, BATCH, outputs) + 1) * 0.5
        label = torch.tensor([(i * 7 + step) % outputs for i in range(BATCH)])
        loss = sum(head.get("weight", 1.0) * one_loss(head, z, x, label, values)
                   for head, z in zip(heads, net(x)))
        opt.zero_grad()
        loss.backward()
        clip(net, **clips)
        opt.step()
        losses.append(loss.item())
    beta = options.get("betas", (0.0, 0.0))
    w.begin("training", name, outputs=outputs, heads=len(heads), steps=STEPS, batch_n=BATCH,
            optimizer=["SGD", "Adam", "AdamW", "RMSprop"].index(optimizer.__name__),
            nesterov=int(options.get("nesterov", False)), beta1=float(beta[0]),
            beta2=float(beta[1]), epsilon=float(options.get("eps", 0.0)), **clips,
            **{key: float(options.get(key, 0.0))
               for key in ("lr", "momentum", "weight_decay", "alpha")})
    for i, head in enumerate(heads):
        w.number(f"kind{i}", LOSSES[head["kind"]])
        w.number(f"target{i}", TARGETS[head.get("target", "label")])
        for key in ("weight", "smoothing", "delta"):
            w.number(f"{key}{i}", float(head.get(key, 0.0)))
    w.out("losses", torch.tensor(losses))
    for key, p in net.named_parameters():
        w.out(key, p)
    w.end()


def write(Writer, tensor):
    w = Writer("training.txt")
    sgd, adam = torch.optim.SGD, torch.optim.Adam
    adamw, rmsprop = torch.optim.AdamW, torch.optim.RMSprop
    label = [{"kind": "cross_entropy"}]

    def loss(name, *heads, **options):
        trajectory(w, tensor, f"loss:{name}", list(heads), sgd, lr=0.1, **options)

    loss("cross_entropy", {"kind": "cross_entropy"})
    loss("smoothed", {"kind": "cross_entropy", "smoothing": 0.1})
    loss("weighted", {"kind": "cross_entropy", "smoothing": 0.2, "weight": 0.3})
    for kind in ("bce", "mse", "l1", "huber"):
        loss(f"{kind}:label", {"kind": kind, "target": "label"})
        loss(f"{kind}:values", {"kind": kind, "target": "values", "weight": 2.0})
        if kind != "bce":
            loss(f"{kind}:input", {"kind": kind, "target": "input"}, outputs=INPUTS)
    loss("huber:delta", {"kind": "huber", "target": "values", "delta": 0.25})
    loss("two:labels", {"kind": "cross_entropy"},
         {"kind": "cross_entropy", "weight": 0.3, "smoothing": 0.1})
    loss("two:values", {"kind": "mse", "target": "values"},
         {"kind": "bce", "target": "values", "weight": 0.5})
    loss("two:mixed", {"kind": "cross_entropy"}, {"kind": "mse", "target": "input", "weight": 0.4},
         outputs=INPUTS)

    def optimize(name, optimizer, **options):
        trajectory(w, tensor, f"optimizer:{name}", label, optimizer, **options)

    optimize("sgd", sgd, lr=0.1)
    optimize("sgd_decay", sgd, lr=0.1, weight_decay=0.01)
    optimize("momentum", sgd, lr=0.05, momentum=0.9, weight_decay=0.001)
    optimize("nesterov", sgd, lr=0.05, momentum=0.9, weight_decay=0.001, nesterov=True)
    optimize("adam", adam, lr=0.01)
    optimize("adam_all", adam, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.05)
    optimize("adamw", adamw, lr=0.02, weight_decay=0.1)
    optimize("adamw_all", adamw, lr=0.02, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)
    optimize("rmsprop", rmsprop, lr=0.005)
    optimize("rmsprop_all", rmsprop, lr=0.005, alpha=0.9, eps=1e-4, weight_decay=0.02)
    optimize("rmsprop_momentum", rmsprop, lr=0.002, momentum=0.9, weight_decay=0.02)
    for name, optimizer, options in (("sgd", sgd, {"lr": 0.2}),
                                     ("momentum", sgd, {"lr": 0.1, "momentum": 0.9}),
                                     ("adam", adam, {"lr": 0.01, "eps": 1e-3})):
        optimize(f"{name}_clip_tensor", optimizer, clip_tensor=0.15, **options)
        optimize(f"{name}_clip_global", optimizer, clip_global=0.3, **options)
        optimize(f"{name}_clip_both", optimizer, clip_tensor=0.2, clip_global=0.25, **options)
