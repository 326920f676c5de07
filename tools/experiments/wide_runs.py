# SPDX-License-Identifier: Apache-2.0
"""Runs of the wide-area study, each trained once, and their time on its network.

Nodes that average exactly, and nodes that wait for their pulls, do the same steps whatever an
exchange costs. So a run is trained once, and its virtual time is computed for any time of a step.
Only for nodes that train while they pull, the staleness depends on the time of a pull."""
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace

from shared import Kept, commit, run, write_plane

GOSSIP, MEANWHILE, EXACT = "gossip", "gossip, nobody waits", "all-reduce"
NETWORK = ("--bandwidth", "1000000000", "--latency", "0.005", "--pull-latencies", "1",
           "--start-spread", "0")
KEY = ("work", "data", "exchange", "period", "nodes", "batch", "skew", "seed", "step_seconds",
       "length", "steps")
FIELDS = (*KEY, "accuracy", "worst", "bytes_a_node", "seconds", "date", "commit", "machine")


@dataclass(frozen=True)
class Work:
    """What is trained, how long, and the accuracy for the reported times.

    batch     of each of 16 nodes        lr    constant; no momentum
    samples   of the training data, an epoch"""
    name: str
    model: str                  # a built-in one, or a JSON file's text
    data: str
    batch: int
    lr: float
    model_bytes: int
    steps: int                  # of every node, with this batch on 16 nodes
    target: float
    samples: int = 60000
    thorough: bool = False      # test with all images, and all nodes


@dataclass(frozen=True)
class Run:
    exchange: str
    period: int
    nodes: int = 16
    skew: str = "even"
    seed: int = 1
    step_seconds: float = 0.01      # used for MEANWHILE only
    batch: int = 0                  # 0: the work's


@dataclass(frozen=True)
class Test:
    """A test after so many steps of every node, and the exchange that follows them: the mean over
    the nodes' own models, which after an average are one."""
    steps: int
    accuracy: float
    bytes_a_node: float
    seconds: float              # of the run as it was simulated


def flags_of(exchange):
    if exchange == EXACT:
        return ["--exchange", "allreduce"]
    return ["--exchange", "gossip"] + (["--pull-waits"] if exchange == GOSSIP else [])


class Series:
    """Runs of one work; runs that are kept are not trained again."""

    def __init__(self, program, work, folder, kept, threads):
        self.program, self.work, self.threads, self.kept = program, work, threads, kept
        self.plane = write_plane(folder, 8)
        self.model = work.model
        if work.model.startswith("{"):
            self.model = os.path.join(folder, "model.json")
            with open(self.model, "w", encoding="utf-8") as file:
                file.write(work.model)
        self.costs = {}

    def exchange_seconds(self, exchange, nodes):
        """Seconds of one pull or average by sim --network formula."""
        if (exchange, nodes) not in self.costs:
            done = run([self.program, "sim", *self.plane, *flags_of(exchange), *NETWORK,
                        "--network", "formula", "--model-bytes", str(self.work.model_bytes),
                        "--nodes", str(nodes), "--momentum-rule", "none", "--batch", "8",
                        "--steps", "2", "--period", "1", "--step-seconds", "1",
                        "--consensus-rounds", "0", "--json", "-"])[-1]
            self.costs[exchange, nodes] = (done["virtual_seconds"] - 2) / 2
        return self.costs[exchange, nodes]

    def lengths(self, r):
        """Steps of a run that sees as many samples as 16 nodes with the work's batch do, and steps
        between two tests: a multiple of T, and about an epoch, or 25."""
        w = self.work
        steps = w.steps * 16 * w.batch // (r.nodes * r.batch)
        about = w.samples // (r.nodes * r.batch) if w.thorough else 25
        look = max(1, round(about / r.period)) * r.period
        return max(look, steps // look * look), look

    def command(self, r):
        w = self.work
        steps, look = self.lengths(r)
        words = [self.program, "sim", *flags_of(r.exchange), *NETWORK, "--network", "formula",
                 "--model", self.model, "--data", w.data, "--batch", r.batch, "--lr", w.lr,
                 "--model-bytes", w.model_bytes, "--nodes", r.nodes, "--period", r.period,
                 "--skew", r.skew, "--seed", r.seed, "--momentum-rule", "none", "--step-seconds",
                 r.step_seconds, "--steps", steps + 1, "--eval-steps", look, "--eval-mixed",
                 "--consensus-rounds", 0, "--eval-epochs", 0, "--json", "-"]
        words += ["--eval-samples", 0] if w.thorough else ["--eval-nodes", 8]
        words += ["--threads", self.threads] if self.threads else []
        return [str(word) for word in words], look, steps

    def row(self, r, steps):
        step = r.step_seconds if r.exchange == MEANWHILE else ""
        return {"work": self.work.name, "data": self.work.data.partition(":")[0],
                "exchange": r.exchange, "period": r.period,
                "nodes": r.nodes, "batch": r.batch, "skew": r.skew, "seed": r.seed,
                "step_seconds": step, "length": steps}

    def tests(self, r):
        """Of a kept run, or of a new one, which is kept when it is whole."""
        r = replace(r, batch=r.batch or self.work.batch)
        steps, look = self.lengths(r)
        marks = range(look, steps + 1, look)
        known = [self.kept.get({**self.row(r, steps), "steps": at}) for at in marks]
        if None in known:
            for row in self.train(r):
                self.kept.add(row)
            known = [self.kept.get({**self.row(r, steps), "steps": at}) for at in marks]
        return [Test(int(t["steps"]), float(t["accuracy"]), float(t["bytes_a_node"]),
                     float(t["seconds"])) for t in known]

    def train(self, r):
        """Stop after the last needed test: a run's own last test would come later."""
        command, look, steps = self.command(r)
        of = {"date": datetime.date.today().isoformat(), "commit": commit(),
              "machine": platform.machine()}
        rows = []
        with tempfile.TemporaryFile("w+") as err, subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=err, text=True) as process:
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "eval" and event["steps"] % look == 0:
                    rows.append({**self.row(r, steps), **of, "steps": event["steps"],
                                 "accuracy": f"{event['test_accuracy']:.5f}",
                                 "worst": f"{event['worst_accuracy']:.5f}",
                                 "bytes_a_node": f"{event['bytes_sent'] / r.nodes:.0f}",
                                 "seconds": f"{event['virtual_seconds']:.6f}"})
                if event["event"] == "eval" and event["steps"] >= steps:
                    process.terminate()
                    return rows
            process.wait()
            err.seek(0)
            sys.exit(f"{' '.join(command)}\n{err.read()}")


class Curve:
    """Accuracy of a run over virtual time, for a given time of a local step."""

    def __init__(self, series, r, step_seconds):
        sort = "" if r.skew == "even" else f", {r.skew}"
        batch = f", batch {r.batch}" if r.batch else ""
        self.run, self.label = r, f"{r.exchange}, T = {r.period}{batch}{sort}"
        cost = series.exchange_seconds(r.exchange, r.nodes)
        self.tests = series.tests(r)
        self.seconds = [self.seconds_of(test, step_seconds, cost) for test in self.tests]
        self.target = series.work.target

    def seconds_of(self, test, step_seconds, cost):
        if self.run.exchange == MEANWHILE:
            return test.seconds
        return test.steps * step_seconds + test.steps // self.run.period * cost

    def reached(self):
        """(seconds, steps, bytes of a node) to the target, interpolated linearly between the last
        test below it and the next; None: not reached."""
        before = (0.0, 0, 0.0), 0.0
        for seconds, t in zip(self.seconds, self.tests):
            now = (seconds, t.steps, t.bytes_a_node), t.accuracy
            if t.accuracy >= self.target:
                share = (self.target - before[1]) / (now[1] - before[1])
                return tuple(a + share * (b - a) for a, b in zip(before[0], now[0]))
            before = now
        return None

    def accuracy_at(self, seconds):
        """Accuracy of the last test until then; 0: there was none."""
        return max(((s, t.accuracy) for s, t in zip(self.seconds, self.tests) if s <= seconds),
                   default=(0, 0.0))[1]

    def best(self):
        return max(t.accuracy for t in self.tests)


def ahead(a, b):
    """Whether a is ahead of b: by the time to the target or, if neither reaches it, by the accuracy
    when the first of them ends."""
    times = [c.reached()[0] if c.reached() else None for c in (a, b)]
    if times != [None, None]:
        return times[1] is None or times[0] is not None and times[0] < times[1]
    end = min(a.seconds[-1], b.seconds[-1])
    return a.accuracy_at(end) > b.accuracy_at(end)


def first_of(curves):
    """The curve that is ahead of all others."""
    best = curves[0]
    for curve in curves[1:]:
        best = curve if ahead(curve, best) else best
    return best


def write_events(path, curves, work):
    """Write events for tools/plot, as of uwasa sim, with the curves' times."""
    with open(path, "w", encoding="utf-8") as file:
        for c in curves:
            nodes = c.run.nodes
            print(json.dumps({"event": "start", "nodes": nodes, "label": c.label,
                              "exchange": c.run.exchange, "steps_per_epoch": 0}), file=file)
            for i, (seconds, test) in enumerate(zip(c.seconds, c.tests)):
                print(json.dumps({"event": "done" if i + 1 == len(c.tests) else "eval",
                                  "virtual_seconds": seconds, "test_accuracy": test.accuracy,
                                  "epochs": test.steps * (c.run.batch or work.batch) * nodes,
                                  "bytes_sent": test.bytes_a_node * nodes}), file=file)
