#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole nodes, as processes on loopback: what happens when one of them is killed, paused, given a
wrong key, a wrong model or a truncated checkpoint, and whether four that lose every fifth datagram
learn as much as one that saw all data.

usage: test_nodes.py PROGRAM [-k CASE]     environment: UWASA_MNIST_DIR, UWASA_PAUSE_SECONDS
"""
import json
import os
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
PAUSE_SECONDS = float(os.environ.get("UWASA_PAUSE_SECONDS", "13"))  # longer than "dead" takes
DEADLINE_SECONDS = 240                                              # nothing may hang


def free_ports(n):
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Fleet(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="uwasa-nodes-")
        self.processes = {}
        self.end = time.monotonic() + DEADLINE_SECONDS
        self.run_program("keygen", "run.key")
        self.ports = free_ports(4)

    def tearDown(self):
        for p in self.processes.values():
            if p.poll() is None:
                p.kill()
            p.wait()
        shutil.rmtree(self.dir)

    def run_program(self, *args, status=0):
        done = subprocess.run([PROGRAM, *args], cwd=self.dir, capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def start(self, i, **keys):
        """Node number i, on its port, greeting the first node (node 0 greets the second)."""
        name = f"n{i}"
        options = {"name": name, "run": "test", "key": "run.key", "model": "mlp", "batch": 16,
                   "listen": f"127.0.0.1:{self.ports[i]}",
                   "seeds": f"127.0.0.1:{self.ports[1 if i == 0 else 0]}",
                   "lr": 0.02, "final_eval_samples": 1000, "emulate.seed": i + 1, **keys}
        command = [PROGRAM, "node", "--json", f"{name}.jsonl"]
        for key, value in options.items():
            command += ["--set", f"{key}={value}"]
        with open(os.path.join(self.dir, f"{name}.err"), "a", encoding="utf-8") as err:
            self.processes[i] = subprocess.Popen(command, cwd=self.dir, stdout=err, stderr=err)

    def wait(self, i):
        status = self.processes[i].wait(timeout=max(1.0, self.end - time.monotonic()))
        return status

    def text(self, i):
        with open(os.path.join(self.dir, f"n{i}.err"), encoding="utf-8") as f:
            return f.read()

    def events(self, i, kind=None):
        found = []
        path = os.path.join(self.dir, f"n{i}.jsonl")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                for line in f:
                    if line.endswith("\n"):
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

    def done(self, i):
        self.assertEqual(self.wait(i), 0, self.text(i))
        return self.events(i, "done")[-1]

    def test_killed_node_is_missed_and_comes_back_from_its_checkpoint(self):
        for i in range(3):
            self.start(i, seconds=22, checkpoint=f"n{i}.safetensors", checkpoint_seconds=0.5)
        for i in (0, 1):
            self.until_event(i, "pull_done", "n2")
        self.until("a checkpoint",
                   lambda: os.path.exists(os.path.join(self.dir, "n2.safetensors")))
        self.processes[2].send_signal(signal.SIGKILL)
        self.assertEqual(self.wait(2), -signal.SIGKILL)
        for i in (0, 1):
            self.until_event(i, "suspect", "n2")
        step = max(e["step"] for e in self.events(0, "step"))
        self.until("n0 trains on", lambda: self.events(0, "step")[-1]["step"] > step)
        self.start(2, seconds=5, checkpoint="n2.safetensors")
        self.until("n2 goes on", lambda: "going on from n2.safetensors" in self.text(2))
        self.until("n0 hears n2 again", lambda: any(
            e.get("peer") == "n2" and e.get("kind") in ("rejoined", "restarted")
            for e in self.events(0)))
        for i in range(3):
            self.assertGreater(self.done(i)["pulls_done"], 0)

    def test_paused_node_is_missed_and_rejoins_by_itself(self):
        for i in range(3):
            self.start(i, seconds=PAUSE_SECONDS + 14)
        self.until_event(0, "pull_done", "n1")
        self.processes[1].send_signal(signal.SIGSTOP)
        paused = time.monotonic()
        self.until_event(0, "suspect", "n1")
        step = self.events(0, "step")[-1]["step"]
        time.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - paused)))
        self.assertGreater(self.events(0, "step")[-1]["step"], step)
        self.processes[1].send_signal(signal.SIGCONT)
        self.until_event(0, "rejoined", "n1")
        for i in range(3):
            self.done(i)

    def test_wrong_model_is_refused_with_a_sentence(self):
        self.start(0, seconds=8)
        self.start(1, seconds=8)
        self.start(2, seconds=6, model="lenet5")
        self.until("a sentence on the wrong model",
                   lambda: "trains another model" in self.text(2) + self.text(0))
        for i in range(3):
            self.done(i)
        self.assertEqual(self.events(2, "done")[-1]["pulls_done"], 0)
        self.assertGreater(self.events(0, "done")[-1]["pulls_done"], 0)

    def test_wrong_key_is_refused_with_a_sentence(self):
        self.run_program("keygen", "other.key")
        self.start(0, seconds=8)
        self.start(1, seconds=8)
        self.start(2, seconds=6, key="other.key")
        self.until("a sentence on the wrong key",
                   lambda: "key" in self.text(0) or "key" in self.text(2))
        for i in range(3):
            self.done(i)
        self.assertEqual(self.events(2, "done")[-1]["pulled_bytes"], 0)
        self.assertGreater(self.events(0, "done")[-1]["pulls_done"], 0)

    def test_truncated_checkpoint_stops_the_node_with_a_sentence(self):
        self.start(0, steps=50, checkpoint="n0.safetensors")
        self.done(0)
        path = os.path.join(self.dir, "n0.safetensors")
        size = os.path.getsize(path)
        for cut in (0, 5, 100, size // 2, size - 1):
            with open(path, "rb+") as f:
                f.truncate(size)
                f.truncate(cut)
            self.start(1, steps=60, checkpoint="n0.safetensors")
            self.assertEqual(self.wait(1), 1, self.text(1))
            self.assertIn("n0.safetensors", self.text(1))
            os.remove(os.path.join(self.dir, "n1.err"))

    @unittest.skipUnless(MNIST, "skipped: no MNIST")
    @unittest.skipIf(SANITIZED, "skipped: ten minutes of arithmetic when sanitized")
    def test_four_nodes_with_a_fifth_lost_learn_like_one_that_saw_all(self):
        """One epoch over everything against four over a quarter: the same number of steps."""
        one = self.run_program("train", "--model", "lenet5", "--data", f"mnist:{MNIST}", "--epochs",
                               "1", "--batch", "20", "--lr", "0.02", "--momentum", "0.9", "--json",
                               "-")
        alone = json.loads(one.stdout.splitlines()[-1])["test_accuracy"]
        for i in range(4):
            self.start(i, model="lenet5", data=f"mnist:{MNIST}", shard=f"{i}/4", batch=20,
                       epochs=4, period=10, momentum_rule="none", momentum=0.9,
                       final_eval_samples=0, consensus_seconds=20,
                       **{"emulate.loss": 0.2})
        for i in range(4):
            done = self.done(i)
            print(f"n{i}: {done['test_accuracy']:.4f}, one node: {alone:.4f}, pulls "
                  f"{done['pulls_done']}, cut {done['pulls_cut']}", flush=True)
            self.assertGreater(done["test_accuracy"], alone - 0.015)
            self.assertGreater(done["pulls_done"], 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
