# SPDX-License-Identifier: Apache-2.0
"""What uwasa train --trace writes, also when it is stopped. test_trace.py PROGRAM"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))


def spans(path):
    with open(path, encoding="utf-8") as file:
        events = json.load(file)
    for event in events:
        assert event["ph"] in "XM", event
        assert event["ph"] == "M" or (event["ts"] >= 0 and event["dur"] >= 0), event
    return [event for event in events if event["ph"] == "X"]


class Node(unittest.TestCase):
    def test_fragments_travel_while_lower_layers_compute(self):
        """Two nodes on loopback, some steps of a small CNN: the gradient of a layer is under way while
        the backward pass is at a lower one, and a bucket's update waits for its fragments."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "keygen", "run.key"], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL, timeout=60)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.bind(("127.0.0.1", 0))
                address = f"127.0.0.1:{s.getsockname()[1]}"
            nodes = []
            for i in range(2):
                keys = {"name": f"n{i}", "run": "trace", "key": "run.key", "model": "lenet5",
                        "batch": 128, "steps": 60, "exchange": "allreduce", "cell_first": 2,
                        "average": "gradients", "final_eval_samples": 100,
                        **({"listen": address} if i == 0 else {"seeds": address})}
                command = [PROGRAM, "node", "--trace", f"n{i}.json"]
                for key, value in keys.items():
                    command += ["--set", f"{key}={value}"]
                nodes.append(subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL))
            try:
                self.assertEqual([node.wait(200) for node in nodes], [0, 0])
            finally:
                for node in nodes:
                    if node.poll() is None:
                        node.kill()
                        node.wait()
            for i in range(2):
                self.check(os.path.join(folder, f"n{i}.json"))

    def check(self, path):
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
        order = ["conv1", "conv2", "fc1", "fc2", "fc3"]
        begun, travelled = {}, []
        for event in events:
            if event.get("cat") == "fragment":
                if event["ph"] == "b":
                    begun[event["id"]] = event["ts"]
                elif event["id"] in begun:
                    travelled.append((event["name"].split()[0], begun.pop(event["id"]),
                                      event["ts"]))
        found = [e for e in events if e["ph"] == "X"]
        backward = [(e["name"].split()[0], e["ts"], e["ts"] + e["dur"]) for e in found
                    if e["cat"] == "backward" and e["name"].split()[0] in order]
        overlapping = sum(1 for layer, since, until in travelled if layer in order
                          for lower, begin, end in backward
                          if order.index(lower) < order.index(layer) and
                          since < end and begin < until)
        self.assertGreater(len(travelled), 100)
        self.assertGreater(overlapping, 0)
        names = {e["name"] for e in found}
        for name in ["step 60", "conv1 forward", "conv1 update", "conv1 wait",
                     "conv2 weight gradient", "averaged over 2 nodes"]:
            self.assertIn(name, names)
        self.assertTrue(any(name.endswith("bucket ready") for name in names))


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "trace.json")
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()

    def train(self, path, *flags):
        """A run that ends with the test."""
        command = [PROGRAM, "train", "--model", "lenet5", "--data", "digits", "--threads", "1",
                   "--trace", path, *flags]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL))
        return self.processes[-1]

    def grown(self, process, size):
        """Wait until the file has so many bytes."""
        until = time.monotonic() + 60
        while not os.path.exists(self.path) or os.path.getsize(self.path) < size:
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def test_steps_hold_their_layers(self):
        self.assertEqual(self.train(self.path, "--steps", "3", "--mode", "buckets").wait(120), 0)
        found = spans(self.path)
        names = [span["name"] for span in found]
        for name in ["conv1 forward", "pool1 input gradient", "fc3 weight gradient", "fc1 update",
                     "loss forward"]:
            self.assertEqual(names.count(name), 3, name)
        self.assertEqual(names.count("conv1 input gradient"), 3)
        for i in range(1, 4):
            self.assertEqual(names.count(f"step {i}"), 1)
        # Of one row, spans lie apart or within one another.
        ends = []
        for span in sorted(found, key=lambda s: (s["ts"], -s["dur"], s["name"][:4] != "step")):
            while ends and ends[-1] <= span["ts"]:
                ends.pop()
            self.assertTrue(not ends or span["ts"] + span["dur"] <= ends[-1], span)
            ends.append(span["ts"] + span["dur"])

    def test_killed_run_leaves_an_array(self):
        process = self.train(self.path, "--epochs", "100000")
        self.grown(process, 300000)
        process.kill()
        process.wait()
        self.assertGreater(len(spans(self.path)), 2000)

    def test_interrupted_run_ends_with_its_last_step(self):
        process = self.train(self.path, "--epochs", "100000", "--save",
                        os.path.join(self.folder.name, "w.safetensors"))
        self.grown(process, 300000)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 0)
        found = spans(self.path)
        steps = [span for span in found if span["cat"] == "step"]
        self.assertEqual(steps[-1]["name"], f"step {len(steps)}")
        self.assertGreaterEqual(len([s for s in found if s["name"] == "conv1 forward"]),
                                len(steps))

    def test_trace_that_cannot_be_written_is_a_mistake(self):
        self.assertEqual(self.train(os.path.join(self.folder.name, "no", "x")).wait(60), 1)
        self.assertEqual(self.train("/dev/full", "--steps", "2").wait(60), 1)


unittest.main()
