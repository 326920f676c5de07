# SPDX-License-Identifier: Apache-2.0
"""Shared by the experiments: models, running the program, keeping its results, tables, figures."""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "release", "uwasa")
PLANE_SAMPLES = 768


def convolutions(channels, kernel):
    layers = []
    for i, out in enumerate(channels, 1):
        layers += [{"name": f"conv{i}", "type": "conv2d", "out_channels": out, "kernel": kernel,
                    "padding": kernel // 2}, {"name": f"relu{i}", "type": "relu"},
                   {"name": f"pool{i}", "type": "maxpool2d", "kernel": 2}]
    return layers + [{"name": "flatten", "type": "flatten"}]


MLP = json.dumps({"name": "mlp", "input": [1, 28, 28], "layers": [
    {"name": "flatten", "type": "flatten"}, {"name": "fc1", "type": "dense", "out": 64},
    {"name": "relu1", "type": "relu"}, {"name": "fc2", "type": "dense", "out": 10}]})
VGG_TWIN = json.dumps({"name": "vgg-twin", "input": [3, 32, 32], "layers": convolutions(
    (16, 32, 64, 64), 3) + [{"name": "fc", "type": "dense", "out": 10}]})


def with_norm(i, out):
    return [{"name": f"conv{i}", "type": "conv2d", "out_channels": out, "kernel": 5, "padding": 2},
            {"name": f"gn{i}", "type": "groupnorm", "num_groups": 2},
            {"name": f"relu{i}", "type": "relu"},
            {"name": f"pool{i}", "type": "maxpool2d", "kernel": 2}]


GN_LENET = json.dumps({"name": "gn-lenet", "input": [3, 32, 32], "layers": [
    *with_norm(1, 32), *with_norm(2, 32), *with_norm(3, 64),
    {"name": "flatten", "type": "flatten"}, {"name": "fc", "type": "dense", "out": 10}]})


PROGRAMS = set()                # programs that were checked


def program(path):
    """For argparse: a path, or a name on PATH. Whether it can be started is checked when the first
    run begins: results from a file of runs need no program."""
    path = os.path.abspath(shutil.which(path) or path)
    PROGRAMS.add(path)
    return path


OPTIONS = {"folder": {"metavar": "MNIST_DIR"}, "data": {"metavar": "DATA"},
           "program": {"nargs": "?", "metavar": "PROGRAM", "default": PROGRAM, "type": program},
           "--rows": {"action": "append", "default": []}, "--raw": {},
           "--seeds": {"type": int, "default": 3}, "--jobs": {"type": int, "default": 2},
           "--check": {"action": "store_true"}, "--draw": {}, "--json": {}}


def parser_of(doc, *options):
    """A parser that prints doc as help, with the given OPTIONS."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in options:
        parser.add_argument(option, **OPTIONS[option])
    return parser


class Pool(concurrent.futures.ThreadPoolExecutor):
    """Runs in parallel. If this program ends early, runs that have not begun are dropped."""

    def __exit__(self, kind, value, trace):
        self.shutdown(cancel_futures=kind is not None)
        return False


def begin(main):
    """Run a program's main. Ctrl-C ends it with a message; --raw keeps its results."""
    try:
        main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        if error.filename not in PROGRAMS:
            raise
        sys.exit(f"{error.filename} is no program; cmake --preset release && cmake --build "
                 "--preset release makes build/release/uwasa")


def events_of(text, command):
    """The events of a finished run. A stopped run, as after Ctrl-C, is incomplete and ends this
    program."""
    events = [json.loads(line) for line in text.splitlines()]
    if not events or events[-1]["event"] != "done":
        sys.exit(f"{' '.join(command)}\nwas stopped before its end")
    return events


def run(command):
    """The events of a run."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return events_of(done.stdout, command)


def step_times(program, nodes, **flags):
    """One event for each number of nodes; flags: device_rate=1e12 is --device-rate 1e12."""
    command = [program, "sim", "time", "--nodes", ",".join(str(n) for n in nodes), "--json", "-"]
    for key, value in flags.items():
        command += ["--" + key.replace("_", "-"), str(value)]
    return [e for e in run(command) if e["event"] == "step_time"]


def chosen(names, texts):
    """The rows selected by the texts of --rows, in their order; all if there is no text."""
    found = set()
    for text in texts:
        found |= (set(names) & {text} or {n for n in names if text in n} or
                  {n for n in names if any(word in n for word in text.split(","))})
    return [n for n in names if n in found or not texts]


def choose(rows, texts):
    """The rows, whose first member is the name, that the texts select. If there are none, ends the
    program and lists the names."""
    rows = list(rows)
    names = chosen([row[0] for row in rows], texts)
    if not names:
        sys.exit(f"--rows {' '.join(texts)}: no row has that in its name; there are\n  " +
                 "\n  ".join(row[0] for row in rows))
    return [row for row in rows if row[0] in names]


def print_table(head, rows):
    """A Markdown table of texts."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def plot(kind, events, prefix, *flags):
    """prefix.png and prefix.svg of a file of events, through tools/plot."""
    for ending in (".png", ".svg"):
        command = [os.path.join(ROOT, "tools", "plot"), kind, events, "-o", prefix + ending, *flags]
        if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            sys.exit(1)


def draw(prefix, title, up, curves, points=(), flags=()):
    """prefix.png and prefix.svg of curves over numbers of nodes.

    curves    [(label, dashed, [(nodes, value), ...]), ...]; the solid ones first, then dashed ones
              in the same colours
    points    [(label, nodes, value), ...] that a paper prints
    flags     further ones for tools/plot"""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        print(json.dumps({"event": "axes", "across": "nodes", "up": up}), file=file)
        for label, dashed, values in curves:
            for x, y in values:
                print(json.dumps({"event": "point", "curve": label, "dashed": dashed, "x": x,
                                  "y": y}), file=file)
        for label, x, y in points:
            print(json.dumps({"event": "mark", "label": label, "x": x, "y": y}), file=file)
        file.flush()
        plot("curves", file.name, prefix, "--title", title, "--log-x", *flags)


class Raw:
    """A file of finished runs, one JSON object per line, so that a series can be continued.

    path      None: added runs are kept in memory only
    key_of    function that gives the key of a run"""

    def __init__(self, path, key_of):
        self.path, self.key_of, self.known = path, key_of, {}
        if path and os.path.exists(path):
            self.read()

    def read(self):
        try:
            with open(self.path, "rb") as file:
                *lines, last = file.read().split(b"\n")
            for number, line in enumerate(lines, 1):
                self.take(line)
            number = len(lines) + 1
            if last:
                self.end(last)
        except OSError as error:
            sys.exit(f"--raw {self.path}: {error.strerror}")
        except (ValueError, KeyError, TypeError):
            sys.exit(f"--raw {self.path}:{number}: is no run of this experiment, it stays as it is")

    def take(self, line):
        row = json.loads(line)
        self.known[self.key_of(row)] = row

    def end(self, last):
        """Repair a last line without a line end. A complete object gets a line end; one cut off by
        a kill is removed, if it follows runs of this experiment."""
        try:
            json.loads(last)
        except ValueError:
            if last[:1] != b"{" or not self.known:
                raise
            os.truncate(self.path, os.path.getsize(self.path) - len(last))
            print(f"--raw {self.path}: its last line is cut and left out", file=sys.stderr)
            return
        self.take(last)
        with open(self.path, "ab") as file:
            file.write(b"\n")

    def get(self, row):
        """The run with the same key; None: there is none."""
        return self.known.get(self.key_of(row))

    def add(self, row):
        self.known[self.key_of(row)] = row
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def commit():
    """Of this checkout, for results that are kept."""
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=8"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip()


class Kept:
    """A CSV file of finished runs, which is kept with the source. Values are texts.

    path      None: in memory only
    fields    its columns      key    those that tell one run from another"""

    def __init__(self, path, fields, key):
        self.path, self.fields, self.key, self.known = path, fields, key, {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    self.known[self.key_of(row)] = row

    def key_of(self, row):
        return tuple(str(row[field]) for field in self.key)

    def get(self, row):
        return self.known.get(self.key_of(row))

    def add(self, row):
        self.known[self.key_of(row)] = row
        if not self.path:
            return
        new = not os.path.exists(self.path)
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.fields, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)


def write_plane(folder, width):
    """A model of three layers, and points of two classes in the plane: work that costs nothing.
    Returns the flags for them."""
    model, data = (os.path.join(folder, name) for name in ("plane.json", "plane.csv"))
    with open(model, "w", encoding="utf-8") as file:
        json.dump({"name": "plane", "input": [2], "layers": [
            {"name": "fc1", "type": "dense", "out": width}, {"name": "relu1", "type": "relu"},
            {"name": "fc2", "type": "dense", "out": width}, {"name": "relu2", "type": "relu"},
            {"name": "fc3", "type": "dense", "out": 2}]}, file)
    with open(data, "w", encoding="utf-8") as file:
        for i in range(PLANE_SAMPLES):
            x, y = math.cos(i), math.sin(2 * i)
            file.write(f"{x:.4f},{y:.4f},{int(x * y > 0)}\n")
    return ["--model", model, "--data", "csv:" + data]


def plane_parameters(width):
    return 2 * width + width + width * width + width + width * 2 + 2
