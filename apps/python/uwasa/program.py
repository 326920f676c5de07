# SPDX-License-Identifier: Apache-2.0
"""What the uwasa program does in a process of its own."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile

import numpy

from .native import spoken, text

PROGRAM = str(pathlib.Path(__file__).parent / "bin" / "uwasa")


def flags(options):
    """{"weight_decay": 0.1, "exact": True} as a command line."""
    line = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            line.append(flag)
        elif value is not None and value is not False:
            line += [flag, text(value)]
    return line


def run(command, *arguments):
    """The standard output of a command that is over soon."""
    done = subprocess.run([PROGRAM, command, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise ValueError(spoken(last.replace(f"uwasa {command}: ", "", 1)))
    return done.stdout


def plan(model, **options):
    """The memory that training takes, in bytes: what `uwasa plan --json` says.

        uwasa.plan("lenet5", batch=1, threads=1, backend="ref")["total_bytes"]"""
    return json.loads(run("plan", "--model", os.fspath(model), *flags(options), "--json"))


class Node:
    """A node of a gossip run: the command `uwasa node`, in a process of its own.

        with uwasa.Node({"name": "attic", "run": "home", "key": "run.key", "model": "mine.onnx",
                         "listen": ":4433", "seconds": 60, "checkpoint": "attic.safetensors"},
                        data=(x, y)) as node:
            node.wait()
        model.load("attic.safetensors")

    config  the keys of `uwasa node --help`, as a dict or the name of a JSON file
    data    (x, y), which are copied to a file; without it the key "data" says

    The node shares nothing with this process: not a Model, which loads the node's checkpoint, and not
    the GIL. It starts at once, and ends when its run is over, at stop(), and at the end of `with`."""

    def __init__(self, config, data=None, **keys):
        self.folder = tempfile.TemporaryDirectory(prefix="uwasa-")
        config = dict(config) if isinstance(config, dict) else \
            json.loads(pathlib.Path(config).read_text())
        config.update(keys)
        if data is not None:
            path = os.path.join(self.folder.name, "data.npz")
            numpy.savez(path, x=numpy.asarray(data[0]), y=numpy.asarray(data[1]))
            config["data"] = "npz:" + path
        file = pathlib.Path(self.folder.name, "node.json")
        file.write_text(json.dumps(config))
        self.log = pathlib.Path(self.folder.name, "events.jsonl")
        self.errors = open(os.path.join(self.folder.name, "errors"), "w+")
        self.process = subprocess.Popen(
            [PROGRAM, "node", "--config", str(file), "--json", str(self.log)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors)

    def events(self):
        """What it has told so far, as `uwasa node --json` does: a list of dicts."""
        lines = self.log.read_text().splitlines(True) if self.log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait(self, timeout=None):
        """Until its run is over; returns the event "done". Raises what it says went wrong."""
        self.process.wait(timeout)
        if self.process.returncode != 0:
            self.errors.seek(0)
            raise RuntimeError(self.errors.read().strip().rpartition("\n")[2])
        return next((e for e in reversed(self.events()) if e["event"] == "done"), None)

    def stop(self):
        """Let it save and end now, within a second or so."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.errors.close()
        self.folder.cleanup()

    def __del__(self):
        if hasattr(self, "process"):
            self.stop()
            self.errors.close()
