#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cli.py UWASA emulated|card - the program with --backend cuda

emulated: the GPU is tests/gpu/emulated, which can also be absent, old or small. card: the GPU of
this machine, or the program's sentences where it has none."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, KIND = sys.argv[1:]
HERE = tempfile.mkdtemp(prefix="uwasa-gpu-")
FEW = os.path.join(HERE, "few.csv")       # few samples, so that testing is short, and epochs are
MLP = ["--model", "mlp", "--no-shuffle", "--batch", "16", "--threads", "1", "--data", f"csv:{FEW}"]
DIGITS = ["--data", "digits"]
# One memory, parameters in pages that are closed to the processor while the GPU works.
ORIN = "integrated" if KIND == "emulated" else ""
FAILURE = "cudaErrorLaunchFailure: unspecified launch failure"      # of fail-after
WITHOUT = {
    "no-driver": "no NVIDIA driver is installed",
    "no-gpu": "the driver sees no GPU",
    "driver=12000": "the driver is for CUDA 12.0, this program needs ",
}


class Said:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.events = [json.loads(line) for line in done.stdout.splitlines()
                       if line.startswith("{")]

    def losses(self):
        return [e["loss"] for e in self.events if e["event"] == "step"]

    @property
    def done(self):
        return self.events[-1]


def environment(gpu):
    env = dict(os.environ, XDG_CACHE_HOME=os.path.join(HERE, "cache"))
    env.pop("UWASA_EMULATED_CUDA", None)
    if gpu:
        env["UWASA_EMULATED_CUDA"] = gpu
    return env


def run(*arguments, gpu="", libraries=""):
    env = environment(gpu)
    if libraries:
        env["LD_LIBRARY_PATH"] = libraries
    return Said(subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=200,
                               env=env, check=False))


def train(*arguments, gpu="", steps=3):
    return run("train", *MLP, "--steps", str(steps), "--json", "-", *arguments, gpu=gpu)


def check(what, said):
    if not what:
        sys.exit(f"{said.status}\n{said.out[-2000:]}\n{said.err[-2000:]}")


def file(name):
    return os.path.join(HERE, name)


def test_absent(gpu, sentence):
    """cuda fails and says what to do; auto trains, and says so once."""
    for command in (["train", *MLP, "--steps", "1"], ["plan", "--model", "mlp"],
                    ["bench", "train", "--work", "mlp:1"], ["bench", "kernels"]):
        said = run(*command, "--backend", "cuda", gpu=gpu)
        check(said.status == 1 and said.err.count("\n") == 1, said)
        check(said.err.startswith(f"uwasa {command[0]}: --backend cuda: {sentence}"), said)
        check("--backend auto" in said.err, said)
    said = train(gpu=gpu)
    check(said.status == 0 and said.err.count(sentence) == 1, said)
    check("the processor computes, not a GPU" in said.err, said)
    check(said.done["backend"] != "cuda" and "device" not in said.done, said)
    check(train("--exact", gpu=gpu).err.count(sentence) == 0, said)
    said = run("plan", "--model", "mlp", "--json", gpu=gpu)
    check(said.status == 0 and said.err.count(sentence) == 1 and "device" not in said.done, said)
    said = train("--tf32", gpu=gpu)
    check(said.status == 2 and "--tf32: is for a GPU" in said.err, said)


def test_libraries():
    """In the place of each a file that is none."""
    for name, sentence in (("cublas", "no cuBLAS: "), ("cudnn", "no cuDNN: ")):
        os.mkdir(file(name))
        for version in ("", ".8", ".9", ".10", ".11", ".12", ".13", ".14"):
            with open(os.path.join(file(name), f"lib{name}.so{version}"), "wb"):
                pass
        said = run("train", *MLP, "--steps", "1", "--backend", "cuda", libraries=file(name))
        check(said.status == 1 and sentence in said.err and "install " in said.err, said)
        said = run("train", *MLP, "--steps", "1", "--json", "-", libraries=file(name))
        check(said.status == 0 and said.err.count(sentence) == 1, said)
        check(said.done["backend"] != "cuda", said)


def test_refused():
    said = train("--exact", "--backend", "cuda")
    check(said.status == 2 and "--exact: --backend cuda sums" in said.err, said)
    said = train("--tf32", "--backend", "ref")
    check(said.status == 2 and "--tf32: is for a GPU" in said.err, said)
    said = run("plan", "--model", "mlp", "--region", "a=1M", "--backend", "cuda")
    check(said.status == 2 and "--region" in said.err, said)


def test_operators():
    """A layer without a GPU kernel is named; auto trains on the processor and says so once."""
    name = file("operators.json")
    gate = [{"name": "gate", "type": "reduce_max", "axis": 1, "axes": 2, "keep": True},
            {"name": "gated", "type": "mul", "inputs": ["gate", "input"]}]
    add = [{"name": "token", "type": "parameter", "shape": [28, 1]},
           {"name": "sum", "type": "add", "inputs": ["token", "input"]}]
    for layers, sentence in ((gate, "layer 'gate' (reduce): has no GPU kernel yet"),
                             (add, "layer 'token' (parameter): has no GPU kernel yet"),
                             ([{"name": "act", "type": "mish"}],
                              "layer 'act' (function): has no GPU kernel yet")):
        with open(name, "w", encoding="utf-8") as f:
            json.dump({"name": "operators", "input": [1, 28, 28],
                       "layers": [*layers, {"name": "flat", "type": "flatten"},
                                  {"name": "out", "type": "dense", "out": 10}]}, f)
        flags = ["train", "--model", name, "--steps", "2", "--batch", "4", *DIGITS, "--json", "-"]
        said = run(*flags)
        check(said.status == 0 and said.done["backend"] != "cuda", said)
        check(said.err.count("the processor computes, not the GPU: ") == 1, said)
        check(sentence in said.err, said)
        for command in (flags, ["plan", "--model", name]):
            said = run(*command, "--backend", "cuda")
            check(said.status == 1 and said.err.count("\n") == 1 and sentence in said.err, said)
            check(re.search(r"; --backend \w+ computes on the processor$", said.err), said)


def test_memory():
    """A plan is exact: with less memory than it says there is not enough, with as much there is. What
    the libraries take for themselves is found with one model, and is the same with another."""
    def needs(model, batch):
        said = run("plan", "--model", model, "--batch", batch, "--backend", "cuda", "--json")
        check(said.status == 0, said)
        return said.done["device_bytes"]

    def fits(model, batch, memory):
        return run("bench", "train", "--work", f"{model}:{batch}", "--windows", "1", "--seconds",
                   "0.001", "--backend", "cuda", gpu=f"memory={memory}")

    low, high = needs("mlp", "8") - 1, needs("mlp", "8") + (256 << 20)
    check(fits("mlp", "8", low).status == 1, fits("mlp", "8", low))
    while high - low > 1:
        middle = (low + high) // 2
        if fits("mlp", "8", middle).status == 0:
            high = middle
        else:
            low = middle
    own = high - needs("mlp", "8")
    enough = needs("mlp", "64") + own
    check(fits("mlp", "64", enough).status == 0, fits("mlp", "64", enough))
    short = fits("mlp", "64", enough - 1)
    check(short.status == 1 and "not enough memory on the GPU: " in short.err, short)
    check("--budget" in short.err and " free" in short.err, short)
    said = run("train", "--model", "mlp", "--steps", "1", "--batch", "64", "--json", "-",
               gpu=f"memory={enough - 1}")
    check(said.status == 0 and said.done["backend"] != "cuda", said)
    check(said.err.count("the processor computes, not the GPU: not enough memory") == 1, said)


def test_failing():
    """A GPU that fails in the middle is named, whatever came of it; what was saved can be read."""
    name = file("failing")
    flags = ["--backend", "cuda", "--save", name, "--save-every", "2", "--batch", "60"]
    check(train(*flags, steps=2).status == 0, train(*flags, steps=2))    # nothing is measured later
    with open(name, "rb") as f:
        saved = f.read()
    score = ["eval", "--model", "mlp", "--weights", name, "--data", f"csv:{FEW}"]
    fastest = train("--backend", "auto", steps=1, gpu="no-gpu").done["backend"]
    for after in (4, 14, 27, 32, 33, 34, 35, 36, 42, 62):
        with open(name, "wb") as f:
            f.write(saved)
        said = train(*flags, "--resume", steps=6, gpu=f"fail-after={after}")
        lines = [line for line in said.err.splitlines() if line.startswith("uwasa")]
        done = max([2] + [e["step"] for e in said.events if e["event"] == "step"])
        check(said.status == 1 and len(lines) == 1 and "--resume continues from" in lines[0], said)
        check(f"the GPU failed after step {done} ({FAILURE});" in lines[0] or
              (done == 2 and f"the GPU failed before the first step ({FAILURE});" in lines[0]), said)
        told = re.search(r"with --backend (\w+) on the processor$", lines[0])
        check(told and told[1] == fastest, said)
        check(run(*score, "--backend", "ref").status == 0, said)
    said = run(*score, "--backend", "cuda", gpu="fail-after=10")
    check(said.status == 1 and
          f"eval: the GPU failed ({FAILURE}); --backend {fastest} tests" in said.err, said)
    for what, flags, after in (("train", ["--work", "mlp:4", "--windows", "1"], 40),
                               ("kernels", [], 60)):
        said = run("bench", what, *flags, "--seconds", "0.001", "--backend", "cuda",
                   gpu=f"fail-after={after}")
        check(said.status == 1 and said.err.count("\n") == 1, said)
        check(f"the GPU failed ({FAILURE}); --backend {fastest} computes" in said.err, said)
    said = run("plan", "--model", "mlp", "--batch", "3", "--backend", "cuda", gpu="fail-after=4")
    check(said.status == 1 and not said.out and
          f"plan: the GPU failed ({FAILURE}); --backend {fastest} plans" in said.err, said)
    fresh = ["--batch", "5"]    # a shape to measure, before the first step
    said = train(*fresh, "--backend", "cuda", steps=1, gpu="fail-after=4")
    check(said.status == 1 and f"the GPU failed ({FAILURE})" in said.err and
          f"--backend {fastest} " in said.err, said)
    said = train(*fresh, steps=1, gpu="fail-after=4")
    check(said.status == 0 and said.done["backend"] != "cuda" and
          "the processor computes, not the GPU: the GPU failed" in said.err, said)
    said = train(*fresh, "--backend", "cuda", steps=1, gpu="fail-after=1")      # when it is opened
    check(said.status == 1 and f"the GPU failed ({FAILURE})" in said.err, said)


def test_choices():
    """What stands in the place of the file of choices does not matter."""
    folder = os.path.join(HERE, "cache", "uwasa")
    at = os.path.join(folder, "cuda_choices")
    os.makedirs(folder, exist_ok=True)
    for make in (os.mkfifo, os.mkdir, lambda path: open(path, "wb").write(b"x" * 5000),
                 lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40)):
        if os.path.exists(at):
            os.remove(at)
        make(at)
        said = train("--backend", "cuda", steps=1)
        check(said.status == 0 and said.done["backend"] == "cuda", said)
        if os.path.isdir(at):
            os.rmdir(at)
    os.remove(at)


def test_plan():
    said = run("plan", "--model", "mlp", "--batch", "16", "--backend", "cuda", "--json")
    check(said.status == 0, said)
    plan = said.done
    check(plan["backend"] == "cuda" and plan["device"]["name"] and plan["device"]["memory"] > 0, said)
    check(plan["device"]["driver"].count(".") == 1 and plan["device"]["cudnn"].count(".") == 2, said)
    for gpu in ("", ORIN):      # what is where adds up
        there = run("plan", "--model", "lenet5", "--snapshot", "--backend", "cuda", "--json", gpu=gpu)
        on, beside = there.done["on_device"], there.done["beside_device"]
        check(sum(on.values()) == there.done["device_bytes"], there)
        check(sum(beside.values()) == there.done["total_bytes"], there)
        check({**on, **beside} == {**there.done["bytes"], "own": on["own"]}, there)
    trained = train("--backend", "cuda")
    check(trained.done["device_bytes"] == plan["device_bytes"], trained)
    check(trained.done["arena_bytes"] == plan["total_bytes"], trained)
    said = run("plan", "--model", "mlp", "--batch", "16", "--backend", "cuda")
    check(said.status == 0 and "on the GPU" in said.out, said)
    small = plan["device_bytes"]
    said = run("plan", "--model", "mlp", "--batch", "16", "--backend", "cuda", "--json",
               "--budget", str(small))
    check(said.status == 0 and said.done["fits"] and said.done["largest_batch"] >= 16, said)
    said = run("plan", "--model", "mlp", "--batch", "16", "--backend", "cuda", "--budget", "1M")
    check(said.status == 1 and "does not fit" in said.err, said)
    least = 0
    for budget in (1, 1 << 20):         # what it needs is told whole, and is enough
        said = train("--backend", "cuda", "--mode", "full", "--budget", str(budget), steps=1)
        told = re.search(rf"budget of {budget} bytes: on the GPU the smallest plan takes (\d+), "
                         r"(\d+) of them the kernels' own", said.err)
        check(said.status == 1 and told and int(told[1]) > int(told[2]) > 0, said)
        least = int(told[1])
    said = train("--backend", "cuda", "--mode", "full", "--budget", str(least), steps=1)
    check(said.status == 0 and said.done["device_bytes"] <= least, said)


def test_unseen_plan():
    """Without a GPU a plan tells what does not depend on it, exactly, and what it lacks."""
    for model in ("mlp", "lenet5", "gru"):
        flags = ["plan", "--model", model, "--batch", "8", "--snapshot", "--backend", "cuda"]
        there, here = run(*flags, "--json"), run(*flags, "--json", gpu="no-driver")
        check(here.status == 1 and here.err.count("\n") == 1, here)
        check("no NVIDIA driver is installed; scratch is measured on the GPU" in here.err, here)
        on = {name: n for name, n in there.done["on_device"].items() if name not in ("scratch", "own")}
        check(here.done["on_device"] == on, here)
        for key in ("beside_device", "total_bytes", "params", "mode"):
            check(here.done[key] == there.done[key], here)
        check("device_bytes" not in here.done and "bytes" not in here.done, here)
    said = run(*flags, gpu="no-driver")
    check(said.status == 1 and re.search(r"^scratch +\?$", said.out, re.M), said)
    said = run(*flags, "--budget", "1G", gpu="no-driver")
    check(said.status == 1 and not said.out and "--budget depends on the GPU" in said.err, said)


def near(a, b, within):
    return len(a) == len(b) and all(abs(x - y) <= within * max(1.0, abs(x)) for x, y in zip(a, b))


def test_learning():
    for flags, gpu in ((DIGITS, ""), (["--optimizer", "momentum"], ""), (["--optimizer", "adam"], ORIN)):
        there = train("--backend", "cuda", *flags, gpu=gpu, steps=30)
        here = train("--backend", "ref", *flags, steps=30)
        check(there.status == 0 and here.status == 0, there)
        check(near(there.losses(), here.losses(), 1e-4), there)
        check(there.done["backend"] == "cuda" and there.done["device"]["name"], there)
        check(there.done["tf32"] is False and there.done["device_bytes"] > 0, there)
        check(abs(there.done["test_loss"] - here.done["test_loss"]) < 1e-3, there)
    check(train("--optimizer", "momentum", steps=2).done["backend"] == "cuda", there)    # auto


def test_checkpoints():
    """A run goes on where another ended, on either side; on the GPU bit for bit."""
    flags = ["--optimizer", "momentum"]
    whole = train("--backend", "cuda", *flags, "--save", file("whole"), steps=20)
    for first in ("cuda", "ref"):
        for second in ("cuda", "ref"):
            name = file(first + second)
            half = train("--backend", first, *flags, "--save", name, steps=10)
            rest = train("--backend", second, *flags, "--save", name, "--resume", gpu=ORIN, steps=20)
            check(half.status == 0 and rest.status == 0, rest)
            check(near(half.losses() + rest.losses(), whole.losses(), 1e-4), rest)
    with open(file("whole"), "rb") as a, open(file("cudacuda"), "rb") as b:
        check(a.read() == b.read(), whole)
    score = [run("eval", "--model", "mlp", "--weights", file("whole"), "--backend", backend,
                 "--data", f"csv:{FEW}", "--json", "-") for backend in ("cuda", "ref")]
    check(score[0].done["backend"] == "cuda" and score[0].done["device"]["name"], score[0])
    check(near([score[0].done["test_loss"]], [score[1].done["test_loss"]], 1e-5), score[0])
    said = train("--backend", "cuda", "--save-every", "3", "--save", file("every"), steps=8)
    check(said.status == 0 and "saved" not in said.err, said)


def test_tf32():
    said = train("--backend", "cuda", "--tf32")
    check(said.status == 0 and said.done["tf32"] is True, said)
    said = run("train", *MLP, "--steps", "2", "--tf32", "--backend", "cuda")
    check("arithmetic     TF32 products\n" in said.out and "device  " in said.out, said)


def test_onnx():
    """An imported model begins with its own weights, on either side."""
    model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "parity", "onnx",
                         "cnn.onnx")
    data = file("onnx.csv")
    with open(data, "w", encoding="utf-8") as f:
        for i in range(18):
            f.write(",".join(str((i * 7 + k * 5) % 11) for k in range(64)) + f",{i % 2}\n")
    flags = ["--model", model, "--data", f"csv:{data}", "--batch", "3", "--steps", "4", "--lr",
             "0.001", "--json", "-"]
    here = run("train", *flags, "--backend", "ref")
    if "built without ONNX" in here.err:
        return
    for gpu in dict.fromkeys(("", ORIN)):
        there = run("train", *flags, "--backend", "cuda", gpu=gpu)
        check(there.status == 0 and len(here.losses()) > 1, there)
        check(near(here.losses(), there.losses(), 1e-4), there)
        check(near([here.done["test_loss"]], [there.done["test_loss"]], 1e-4), there)


def test_interrupt():
    """What was in flight counts: the file holds the step that is told, and goes on from it."""
    name = file("interrupted")
    command = [PROGRAM, "train", *MLP, "--steps", "1000000", "--backend", "cuda", "--save", name,
               "--json", file("events")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment("")) as process:
        for _ in range(600):
            time.sleep(0.05)
            if os.path.exists(file("events")) and os.path.getsize(file("events")) > 2000:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    with open(file("events"), encoding="utf-8") as f:
        events = [json.loads(line) for line in f]
    steps = [e["step"] for e in events if e["event"] == "step"]
    if process.returncode != 0 or not events[-1]["interrupted"] or events[-1]["step"] != steps[-1]:
        sys.exit(f"{process.returncode} {events[-1]} {err}")
    said = train("--backend", "cuda", "--save", name, "--resume", steps=steps[-1] + 1)
    check(said.status == 0 and said.done["step"] == steps[-1] + 1, said)


def test_diverged():
    said = train("--backend", "cuda", "--lr", "1e30", "--save", file("never"), steps=50)
    check(said.status == 1 and "NaN or infinit" in said.err, said)


def test_bench():
    said = run("bench", "train", "--work", "mlp:4", "--windows", "1", "--seconds", "0.01",
               "--backend", "cuda", "--json")
    check(said.status == 0 and said.done["backend"] == "cuda" and said.done["device_bytes"], said)
    rows = run("bench", "train", "--work", "mlp:4,mlp:3", "--windows", "1", "--seconds", "0.01",
               "--backend", "cuda", "--beside-plain").out.splitlines()
    check(len(rows) == 8 and ", driver for CUDA " in rows[0] and rows[1].endswith(" memory bytes"), said)
    check(re.search(rf" {said.done['device_bytes']} GPU$", rows[2]), said)
    check(re.search(r" \d+ arena  [0-9.]+x slower", rows[3]), said)


def write_few():
    """Ten kinds of stripes, 120 samples; a sixth is for testing. 7 steps of 16 an epoch."""
    with open(FEW, "w", encoding="utf-8") as f:
        for i in range(120):
            row = [((k * (i % 10 + 1) + i) % 29) / 29 for k in range(784)]
            f.write(",".join(f"{x:.3f}" for x in row) + f",{i % 10}\n")


def main():
    write_few()
    test_refused()
    if KIND == "emulated":
        for gpu, sentence in WITHOUT.items():
            test_absent(gpu, sentence)
        test_libraries()
        test_choices()
        test_failing()
        test_operators()
        test_memory()
        test_unseen_plan()
    else:
        said = run("plan", "--model", "mlp", "--backend", "cuda")
        if said.status != 0:
            why = said.err.split("--backend cuda: ")[-1].split("; scratch is measured")[0]
            why = why.split("; with --backend auto")[0]
            print(f"no GPU: {why}")
            test_absent("", why)
            return
    for test in (test_plan, test_learning, test_checkpoints, test_tf32, test_onnx, test_interrupt,
                 test_diverged, test_bench):
        started = time.monotonic()
        test()
        print(f"{test.__name__} {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
