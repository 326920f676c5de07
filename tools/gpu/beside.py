# SPDX-License-Identifier: Apache-2.0
"""beside - compares the program with PyTorch, in turns: time of a step, memory, and the targets

PyTorch runs torch_side.py, one process per mode, so one that hangs or ends does not affect others.
A round is a few windows of the program, then as many of each mode. Compilation was done before, by
parallel processes, into the compiler's cache.
"""

import json
import os
import select
import statistics
import subprocess
import sys
import time

from . import bounded

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL, MIDDLE, LARGE = (3.0, 1.5), (1.5, 1.1), (1.05, 1.0)  # against eager, against torch.compile
MEMORY = 0.6
# The most important first: time may run out.
TARGETS = {"resnet50:32": LARGE, "vgg16:256": LARGE, "mobilenetv2:64": MIDDLE,
           "resnet20:64": MIDDLE, "fedavg-cnn:64": SMALL, "lenet5:1": SMALL, "mlp:1": SMALL,
           "alexnet:256": LARGE, "mlp:64": SMALL, "lenet5:64": SMALL, "fedavg-cnn:1": SMALL,
           "fedavg-cnn:10": SMALL}
MODES = ("eager", "default", "reduce-overhead")
NAMES = {"eager": "eager", "default": "torch.compile"}


def name_of(mode):
    return NAMES.get(mode, f"torch.compile {mode}")


def target_of(work, mode):
    """The required ratio, or None: only reported."""
    pair = TARGETS.get(work)
    return {"eager": pair[0], "default": pair[1]}.get(mode) if pair else None


class Gone(Exception):
    """The process ended, or did not answer in time."""


class Torch:
    """torch_side.py, restarted if it has ended."""

    def __init__(self, python, env, log):
        self.python, self.env, self.log, self.process = python, env, log, None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.python, os.path.join(HERE, "torch_side.py")], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, env=self.env, start_new_session=True)

    def ask(self, limit_s, **what):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            self.end()
            raise Gone("PyTorch's process has ended") from None
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            late = not ready
            self.end()
            raise Gone(f"no answer in {limit_s:.0f} s" if late else "PyTorch's process has ended")
        return json.loads(line)

    def end(self):
        if self.process is not None:
            bounded.end_group(self.process)
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def compile_before(python, works, modes, side_by_side, limit_s, env, folder):
    """Fill the compiler's cache. Returns how many processes were late or failed."""
    waiting, running, bad, begin = list(works), [], 0, time.monotonic()
    env = {**env, "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    try:
        while waiting or running:
            while waiting and len(running) < side_by_side:
                work = waiting.pop(0)
                log = os.path.join(folder, f"compile-{work.replace(':', '-')}.log")
                with open(log, "wb") as out:
                    running.append(subprocess.Popen(
                        [python, os.path.join(HERE, "torch_side.py"), "--warm", work, *modes],
                        stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env,
                        start_new_session=True))
            if time.monotonic() - begin > limit_s:
                return bad + len(running) + len(waiting)
            for process in [p for p in running if p.poll() is not None]:
                running.remove(process)
                bad += process.returncode != 0
            time.sleep(0.2)
        return bad
    finally:
        for process in running:
            bounded.end_group(process)


def own_window(command, work, windows, seconds, limit_s, env, log):
    """Run the program; its JSON, with step_s of the median window. None when it failed."""
    outcome = bounded.run(command + ["--work", work, "--windows", str(windows), "--seconds",
                                     str(seconds), "--json"], limit_s, log, env)
    lines = [l for l in outcome.output().splitlines() if l.startswith("{")]
    if not outcome.good or not lines:
        return None, outcome
    told = json.loads(lines[-1])
    speed = statistics.median(told["samples_per_s"])
    told["step_s"] = int(work.split(":")[1]) / speed if speed > 0 else float("inf")
    return told, outcome


def ask(torch, limit_s, **what):
    """The answer; {"error": why} when none comes."""
    try:
        return torch.ask(limit_s, **what)
    except Gone as why:
        return {"error": str(why)}


def measure(command, torches, work, options, env, log):
    """All rounds of one work: {"own": .., "torch": {mode: ..}} with seconds a step, by round.

    torches: by mode. options: rounds, windows, seconds, limit(seconds), what is left of them."""
    result, layout = {"work": work, "own": None, "torch": {}}, None
    limit = options["limit"]
    told, outcome = own_window(command, work, 1, options["seconds"], limit(120), env, log)
    if told is None:
        result["error"], result["tail"] = outcome.reason, outcome.tail()
        return result
    result["own"] = {"step_s": [], "told": told}
    for mode, torch in torches.items():
        answer = ask(torch, limit(200), do="open", work=work, mode=mode, layout=layout)
        if "error" not in answer:
            layout, answer["step_s"] = answer["layout"], []
        result["torch"][mode] = answer
    for _ in range(options["rounds"]):
        told, outcome = own_window(command, work, options["windows"], options["seconds"],
                                   limit(120), env, log)
        if told is None:
            result["error"], result["tail"] = outcome.reason, outcome.tail()
            break
        result["own"]["step_s"].append(told["step_s"])
        for mode, peer in result["torch"].items():
            if "step_s" in peer:
                ask_windows(torches[mode], work, mode, peer, options)
    for torch in torches.values():
        ask(torch, limit(60), do="close", work=work)
    return result


def ask_windows(torch, work, mode, peer, options):
    """As many windows as the program had; their median is the round's."""
    told = []
    for _ in range(options["windows"]):
        told.append(ask(torch, options["limit"](60), do="window", work=work, mode=mode,
                        seconds=options["seconds"]))
        if "error" in told[-1]:
            peer["error"] = told[-1]["error"]
            del peer["step_s"]
            return
    peer["step_s"].append(statistics.median(t["step_s"] for t in told))


def ratios(own, other):
    """Ratios of the other's time, round by round: low, median, high."""
    each = sorted(b / a for a, b in zip(own, other))
    return (each[0], statistics.median(each), each[-1]) if each else None


def own_bytes(told):
    """Bytes of the GPU's memory by the program's own account."""
    return next((told[key] for key in ("device_bytes", "kernel_bytes") if told.get(key)), None)


def mib(n):
    return f"{n / 2**20:.1f} MiB"


def milliseconds(s):
    return f"{s * 1e3:.3f} ms"


def rate(table, result, rated):
    """Rows of one work. rated: compare with the targets; else only report."""
    work = result["work"]
    if "error" in result:
        table.add("bench", work, "FAILED", result["error"])
        return
    own = result["own"]["step_s"]
    table.add("bench", f"{work} step", "measured", milliseconds(statistics.median(own)))
    for mode, peer in result["torch"].items():
        against = f"{work} against {name_of(mode)}"
        target = target_of(work, mode) if rated else None
        if "step_s" not in peer or not peer["step_s"]:
            table.add("bench", against, "FAILED" if target else "skipped",
                      peer.get("error", "no round was finished").splitlines()[0][:120])
            continue
        low, middle, high = ratios(own, peer["step_s"])
        figure = f"{middle:.2f}x ({low:.2f} to {high:.2f}), " \
                 f"{milliseconds(statistics.median(peer['step_s']))} there"
        if target is None:
            table.add("bench", against, "measured", figure)
        else:
            table.check("bench", against, middle >= target, f"{figure}, asked {target}x")
    rate_memory(table, result, rated)


def rate_memory(table, result, rated):
    own, work = own_bytes(result["own"]["told"]), result["work"]
    for mode, peer in result["torch"].items():
        if own is None or mode not in NAMES or not peer.get("allocated_bytes"):
            continue
        share = own / peer["allocated_bytes"]
        figure = f"{share:.2f}x: {mib(own)} against {mib(peer['allocated_bytes'])} allocated, " \
                 f"{mib(peer['reserved_bytes'])} reserved"
        what = f"{work} memory against {name_of(mode)}"
        if rated:
            table.check("bench", what, share <= MEMORY, f"{figure}, asked {MEMORY}x")
        else:
            table.add("bench", what, "measured", figure)


def python_with_torch(env):
    """An interpreter that has torch and numpy, or None."""
    has = "import sys; from importlib.util import find_spec as f; " \
          "sys.exit(not (f('torch') and f('numpy')))"
    for python in dict.fromkeys([sys.executable, "python3"]):
        try:
            if subprocess.run([python, "-c", has], env=env, timeout=60,
                              capture_output=True).returncode == 0:
                return python
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None
