#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole nodes as processes on loopback: what the tests of nodes share. A test's first argument is
the program; UWASA_MNIST_DIR is where real MNIST is, UWASA_SANITIZED what the build is sanitized for."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "uwasa"
MNIST = os.environ.get("UWASA_MNIST_DIR", "")
SANITIZED = os.environ.get("UWASA_SANITIZED", "")
DEADLINE_SECONDS = 240                                              # nothing may hang
STOP_SECONDS = 60                                                   # nor end later than that


held = []                               # of other tests none takes a port that this process has


def hold(port):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        s.bind(f"\0uwasa-test-port-{port}")
    except OSError:
        s.close()
        return False
    held.append(s)
    return True


def is_free(port):
    for kind in socket.SOCK_DGRAM, socket.SOCK_STREAM:
        with socket.socket(socket.AF_INET, kind) as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def free_ports(n):
    """None that the system gives to whoever calls out, as it does to the nodes of other tests."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    ports = random.sample(range(max(1024, first - 20000), first), 4 * n)
    return [port for port in ports if is_free(port) and hold(port)][:n]


class Fleet(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="uwasa-nodes-")
        self.processes = {}
        self.programs = {}                          # of a node: a command; PROGRAM otherwise
        self.end = time.monotonic() + DEADLINE_SECONDS
        self.run_program("keygen", "run.key")
        self.ports = free_ports(8)

    def tearDown(self):
        for p in self.processes.values():
            if p.poll() is None:
                p.kill()
            p.wait()
        shutil.rmtree(self.dir)

    def run_program(self, *args, status=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.dir, capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS, check=False)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return done

    def start(self, i, **keys):
        """Node number i, on its port, greeting the first node (node 0 greets the second)."""
        name = f"n{i}"
        options = {"name": name, "run": "test", "key": "run.key", "model": "mlp", "batch": 16,
                   "listen": f"127.0.0.1:{self.ports[i]}",
                   "seeds": f"127.0.0.1:{self.ports[1 if i == 0 else 0]}",
                   "lr": 0.02, "final_eval_samples": 1000, "emulate.seed": i + 1 if isinstance(i, int) else 1, **keys}
        command = [*self.programs.get(i, [PROGRAM]), "node", "--json", f"{name}.jsonl"]
        for key, value in options.items():
            for item in value if isinstance(value, list) else [value]:
                command += ["--set", f"{key}={item}"]
        with open(os.path.join(self.dir, f"{name}.err"), "a", encoding="utf-8") as err:
            self.processes[i] = subprocess.Popen(command, cwd=self.dir, stdout=err, stderr=err)

    def wait(self, i):
        status = self.processes[i].wait(timeout=max(1.0, self.end - time.monotonic()))
        return status

    def text(self, i):
        with open(os.path.join(self.dir, f"n{i}.err"), encoding="utf-8") as f:
            return f.read()

    def weights(self, i, optimizer=False):
        """The tensors of a checkpoint, by name, with or without those of the optimizer."""
        with open(os.path.join(self.dir, f"n{i}.safetensors"), "rb") as f:
            data = f.read()
        begin = 8 + int.from_bytes(data[:8], "little")
        return {name: data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]
                for name, t in json.loads(data[8:begin]).items()
                if name != "__metadata__" and (optimizer or not name.startswith("optimizer."))}

    def events(self, i, kind=None):
        found = []
        path = os.path.join(self.dir, f"n{i}.jsonl")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    if not line.endswith("\n"):    # it is being written
                        break
                    event = json.loads(line)
                    if kind in (None, event["event"], event.get("kind")):
                        found.append(event)
        return found

    def until(self, what, condition):
        while not condition():
            self.assertLess(time.monotonic(), self.end, f"never happened: {what}")
            time.sleep(0.05)

    def until_event(self, i, kind, peer=None):
        self.until(f"n{i} reports {kind} of {peer}", lambda: any(
            peer in (None, e.get("peer")) for e in self.events(i, kind)))

    def refuses_a_key(self, *nodes):
        """Has one of them told of a peer with another key?"""
        return any("does not hold this run's key" in e["text"]
                   for i in nodes for e in self.events(i, "refused"))

    def done(self, i):
        self.assertEqual(self.wait(i), 0, self.text(i))
        return self.events(i, "done")[-1]

    def stop(self, *nodes):
        """Tell them to end at once; their last events."""
        for i in nodes:
            self.processes[i].send_signal(signal.SIGTERM)
        self.end = min(self.end, time.monotonic() + STOP_SECONDS)
        done = [self.done(i) for i in nodes]
        self.assertTrue(all(d["interrupted"] for d in done))
        return done
