#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_side - PyTorch's side of the benchmark: answers lines of JSON with lines of JSON

    {"do": "open", "work": "lenet5:1", "mode": "eager", "layout": null}    builds, warms up; returns
                         memory and layout, by default the faster one
    {"do": "window", "work": .., "mode": .., "seconds": ..}    mean seconds of a step
    {"do": "close", "work": ..}          {"do": "about"}

A step reads its samples from pinned memory, where a loader puts them. Large ones are copied during
the previous step, on a separate stream; for small ones that would be slower. fp32 without TF32,
cudnn.benchmark, fused SGD with momentum, and the faster of the two memory layouts.

`torch_side.py --warm WORK MODE...` only compiles, so that the next process finds everything in the
compiler's cache.
"""

import gc
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import torch_models     # noqa: E402

LAYOUTS = ("contiguous_format", "channels_last")
BESIDE_BYTES = 1 << 20      # inputs from this size on are copied during the previous step
WARM_STEPS = 12             # cudnn.benchmark and CUDA graphs settle in the first steps


def torch_set_up():
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    return torch


class Source:
    """The next minibatch on the device, copied from memory that does not change."""

    def __init__(self, torch, device, x, label):
        self.torch, self.device = torch, device
        self.gpu = device == "cuda"
        self.host = [t.pin_memory() if self.gpu else t for t in (x, label)]
        self.beside = self.gpu and x.numel() * 4 >= BESIDE_BYTES
        if self.gpu:
            self.slots = [[torch.empty_like(t, device=device) for t in self.host]
                          for _ in range(2 if self.beside else 1)]
        if self.beside:
            self.stream, self.turn = torch.cuda.Stream(), 0
            self.used = [torch.cuda.Event() for _ in self.slots]
            self.fetch(0)

    def fetch(self, slot):
        with self.torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[slot])
            for to, origin in zip(self.slots[slot], self.host):
                to.copy_(origin, non_blocking=True)

    def next(self):
        if not self.gpu:
            return [t.clone() for t in self.host]
        if not self.beside:
            for to, origin in zip(self.slots[0], self.host):
                to.copy_(origin, non_blocking=True)
            return self.slots[0]
        slot, self.turn = self.turn, 1 - self.turn
        self.torch.cuda.current_stream().wait_stream(self.stream)
        self.used[1 - slot].record()    # the step before is in the queue: it has read this one
        self.fetch(1 - slot)
        return self.slots[slot]


class Trainer:
    """One work in one mode and layout."""

    def __init__(self, torch, device, work, mode, layout):
        self.torch, self.device = torch, device
        model, batch = work.split(":")[:2]
        self.batch = int(batch)
        description = torch_models.description_of(model)
        torch.manual_seed(1)
        net, loss = torch_models.build(description, lean=True)
        form = getattr(torch, layout)
        net = net.to(device).to(memory_format=form).train()
        x = torch.rand(self.batch, *description["input"])
        if x.dim() == 4:
            x = x.to(memory_format=form)
        label = torch.arange(self.batch) % torch_models.classes_of(description)
        self.source = Source(torch, device, x, label)
        self.graphs = mode in ("reduce-overhead", "max-autotune")
        self.loss = loss
        if mode != "eager":
            self.loss = torch.compile(loss, mode=None if mode == "default" else mode)
        extra = {"fused": True} if device == "cuda" else {}
        self.optimizer = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, **extra)

    def step(self):
        if self.graphs:
            self.torch.compiler.cudagraph_mark_step_begin()
        x, label = self.source.next()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(x, label).backward()
        self.optimizer.step()

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def steps(self, n):
        """Seconds that n steps take, from an empty queue to an empty queue."""
        self.wait()
        begin = time.perf_counter()
        for _ in range(n):
            self.step()
        self.wait()
        return time.perf_counter() - begin

    def warm_up(self):
        begin = time.perf_counter()
        self.steps(1)
        n = WARM_STEPS if time.perf_counter() - begin < 30 or self.device == "cuda" else 1
        self.steps(n)
        self.step_s = self.steps(3) / 3

    def window(self, seconds):
        n = max(1, min(100000, int(seconds / max(self.step_s, 1e-7))))
        self.step_s = self.steps(n) / n
        return self.step_s


def clear(torch, device):
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def clear_workspaces(torch):
    """Free cuBLAS's workspace. It is kept for ever, so the next work would seem to need none. Not
    allowed while recorded steps exist, which use it."""
    release = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if release is not None:
        release()


class Side:
    def __init__(self, device):
        self.torch, self.device = torch_set_up(), device
        self.open_ones, self.layout = {}, {}

    def about(self):
        torch = self.torch
        what = {"torch": torch.__version__, "device": self.device}
        if self.device == "cuda":
            what.update(card=torch.cuda.get_device_name(0),
                        cudnn=torch.backends.cudnn.version(), error=self.rounding())
        return what

    def rounding(self):
        """Relative error of a product and a convolution: TF32 would be near 3e-4."""
        torch = self.torch
        a, b = torch.randn(512, 512), torch.randn(512, 512)
        x, w = torch.randn(4, 64, 16, 16), torch.randn(64, 64, 3, 3)
        want = [a.double() @ b.double(), torch.conv2d(x.double(), w.double())]
        a, b, x, w = (t.to(self.device) for t in (a, b, x, w))
        got = [a @ b, torch.conv2d(x, w)]
        return max(float((g.double().cpu() - t).norm() / t.norm()) for g, t in zip(got, want))

    def faster_layout(self, work):
        """Determined once per work, without a compiler."""
        if work not in self.layout:
            speed = {}
            shape = torch_models.description_of(work.split(":")[0])["input"]
            for layout in LAYOUTS if len(shape) == 3 else LAYOUTS[:1]:
                clear(self.torch, self.device)
                trainer = Trainer(self.torch, self.device, work, "eager", layout)
                trainer.warm_up()
                speed[layout] = min(trainer.window(0.15) for _ in range(2))
                del trainer
            self.layout[work] = min(speed, key=speed.get)
        return self.layout[work]

    def open(self, work, mode, layout=None):
        layout = layout or self.faster_layout(work)
        if self.device == "cuda" and not self.open_ones:
            clear_workspaces(self.torch)
        clear(self.torch, self.device)
        cuda = self.torch.cuda if self.device == "cuda" else None
        before = (cuda.memory_allocated(), cuda.memory_reserved()) if cuda else None
        begin = time.perf_counter()
        trainer = Trainer(self.torch, self.device, work, mode, layout)
        trainer.warm_up()
        answer = {"layout": layout, "ready_s": time.perf_counter() - begin}
        if cuda:                    # memory of steps, without the trials of the first ones
            clear(self.torch, self.device)
            cuda.reset_peak_memory_stats()
            trainer.steps(3)
            answer["allocated_bytes"] = cuda.max_memory_allocated() - before[0]
            answer["reserved_bytes"] = cuda.max_memory_reserved() - before[1]
        self.open_ones[work, mode] = trainer
        return answer

    def close(self, work):
        self.open_ones = {k: t for k, t in self.open_ones.items() if k[0] != work}
        clear(self.torch, self.device)
        if hasattr(self.torch, "compiler"):
            self.torch.compiler.reset()     # or a counter of recompilations gives up at the ninth
        return {}

    def answer(self, ask):
        what = ask.pop("do")
        if what == "window":
            return {"step_s": self.open_ones[ask["work"], ask["mode"]].window(ask["seconds"])}
        return {"open": self.open, "close": self.close, "about": self.about}[what](**ask)


def device_of(torch):
    return "cuda" if torch.cuda.is_available() else "cpu"


def warm(work, modes):
    torch = torch_set_up()
    for mode in modes:
        for layout in LAYOUTS:      # the faster one is not known yet
            trainer = Trainer(torch, device_of(torch), work, mode, layout)
            trainer.steps(2)
            del trainer
            torch.compiler.reset()
            clear(torch, device_of(torch))


def main():
    if sys.argv[1:2] == ["--warm"]:
        return warm(sys.argv[2], sys.argv[3:])
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    answers = os.fdopen(os.dup(1), "w", buffering=1)    # keep output of libraries out of answers
    os.dup2(2, 1)
    side = Side(device_of(torch_set_up()))
    for line in sys.stdin:
        try:
            answer = side.answer(json.loads(line))
        except Exception as why:    # out of memory, or of a compiler: the next request may work
            answer = {"error": f"{type(why).__name__}: {why}"[:500]}
            why.__traceback__ = None
            clear(side.torch, side.device)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
