#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node that trains on a GPU among nodes that do not, as processes on loopback. The GPU is the
emulated one of tests/gpu/emulated, with memory of its own, in a build with UWASA_CUDA=emulated.

usage: test_nodes.py PROGRAM [-k CASE]
"""
import json
import os
import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from fleet import PROGRAM, Fleet  # noqa: E402  pylint: disable=wrong-import-position

NODES = 4                           # the first one has the GPU


class GpuNode(Fleet):
    def start(self, i, **keys):
        on_gpu = keys.pop("gpu", i == 0)
        super().start(i, **{"backend": "cuda" if on_gpu else "ref", "shard": f"{i % NODES}/{NODES}",
                            "checkpoint": f"n{i}.safetensors", "lr": 0.05, **keys})

    def emulate(self, i, settings):
        self.programs[i] = ["env", f"UWASA_EMULATED_CUDA={settings}", PROGRAM]

    def accuracy(self, i, backend):
        """Of a checkpoint, by uwasa eval."""
        out = self.run_program("eval", "--model", "mlp", "--weights", f"n{i}.safetensors",
                               "--backend", backend).stdout
        return float(out.split("test accuracy")[1].split("%")[0]) / 100.0

    def check_learned(self):
        done = [self.done(i) for i in range(NODES)]
        found = [d["test_accuracy"] for d in done]
        print("accuracy", " ".join(f"{a:.3f}" for a in found), flush=True)
        self.assertGreater(min(found), 0.8)
        self.assertLess(max(found) - min(found), 0.05)
        self.assertIn("training on ", self.text(0))
        return done

    def test_gossip_with_three_others_and_checkpoints_of_either(self):
        for i in range(NODES):      # an emulated GPU is slow: the others rest
            self.start(i, steps=400, period=5, consensus_seconds=90, lr=0.1,
                       step_seconds=0 if i == 0 else 0.02)
        done = self.check_learned()
        for d in done:
            self.assertGreater(d["pulls_done"], 0)      # how many is a matter of speed
            self.assertGreater(d["served_bytes"], 0)
        for i in (0, 1):            # what one has saved the other kind reads
            here, there = self.accuracy(i, "ref"), self.accuracy(i, "cuda")
            self.assertGreater(here, 0.8)
            self.assertAlmostEqual(here, there, delta=0.003)
        for i, gpu in ((0, False), (1, True)):      # and goes on from, velocity included
            self.start(i, gpu=gpu, steps=420, consensus_seconds=0, linger_seconds=0)
        for i in (0, 1):
            self.assertGreater(self.done(i)["test_accuracy"], 0.8)
            self.assertIn(f"resuming from n{i}.safetensors at step 400", self.text(i))
            self.assertNotIn("starts at zero", self.text(i))

    def test_averages_are_the_same_bits_on_all(self):
        """Parameters every ten steps over TCP, and once more at the end."""
        for i in range(NODES):      # at one speed: who waits for long trains on
            self.start(i, exchange="allreduce", cell_first=NODES, steps=600, momentum_rule="none", lr=0.2,
                       link="tcp", consensus_seconds=60, step_seconds=0.04)
        for d in self.check_learned():
            self.assertGreaterEqual(d["averages_done"], 15)
        for i in range(1, NODES):
            self.assertEqual(self.weights(0), self.weights(i))

    def test_gradients_of_every_step_are_averaged(self):
        """Learning rates differ: all take their mean. No average at the end: parameters and momentum
        are equal because all steps were, unless a machine that stood still parted the group."""
        for i in range(NODES):
            self.start(i, exchange="allreduce", average="gradients", cell_first=NODES, steps=150,
                       momentum=0.9, lr=0.018 + 0.002 * i, link="tcp", consensus_seconds=0,
                       consensus_rounds=0)
        self.check_learned()
        for i in range(NODES):
            self.assertEqual(self.events(i, "gradients")[0]["nodes"], NODES)
            self.assertFalse(any("other parameters" in e["text"]
                                 for e in self.events(i, "gradients_cut")))
        if all(len(self.events(i, "gradients")) == 1 for i in range(NODES)):
            for i in range(1, NODES):
                self.assertEqual(self.weights(0, optimizer=True), self.weights(i, optimizer=True))

    def test_killed_node_comes_back_and_a_failed_gpu_ends_its_own_alone(self):
        for i in range(3):
            self.start(i, seconds=60, checkpoint_seconds=0.5, period=5)
        self.until_event(1, "pull_done", "n0")
        for i in (0, 1):            # what trains is told to who asks, and in the events
            ask = ("status", f"127.0.0.1:{self.ports[i]}", "--key", "run.key", "--run", "test")
            said = json.loads(self.run_program(*ask, "--json").stdout)
            told = self.events(i, "backend")[0]
            self.assertEqual(said["backend"], "ref" if i else "cuda")
            self.assertEqual(said["backend"], told["backend"])
            self.assertEqual(said.get("device", {}).get("name"), told.get("device", {}).get("name"))
            self.assertRegex(self.run_program(*ask).stdout, "(?m)^this node trains with " +
                             ("ref$" if i else f"cuda: {re.escape(said['device']['name'])}$"))
        self.until("a checkpoint", lambda: (s := self.events(0, "step")) and s[-1]["step"] > 20 and
                   os.path.exists(os.path.join(self.dir, "n0.safetensors")))
        self.processes[0].send_signal(signal.SIGKILL)
        self.assertEqual(self.wait(0), -signal.SIGKILL)
        self.emulate(0, "fail-after=4000")
        self.start(0, seconds=60, period=5)
        self.assertEqual(self.wait(0), 1, self.text(0))
        self.assertIn("resuming from n0.safetensors", self.text(0))
        last = self.text(0).strip().splitlines()[-1]
        went_on = int(re.search(r"resuming from n0.safetensors at step (\d+)", self.text(0))[1])
        failed = re.fullmatch(r"uwasa node: the GPU failed after step (\d+) \(cudaErrorLaunchFailure: "
                              r"unspecified launch failure\): training since the last checkpoint is "
                              "lost; the same command resumes from there", last)
        self.assertTrue(failed and int(failed[1]) >= went_on, last)
        # The checkpoint is whole.
        self.assertGreater(sum(map(len, self.weights(0).values())), 1000)
        for i in (1, 2):
            step = self.events(i, "step")[-1]["step"]
            self.until("it trains on", lambda: self.events(i, "step")[-1]["step"] > step)
        self.assertGreater(self.stop(1, 2)[0]["pulls_done"], 0)

    def test_failed_gpu_leaves_a_group_that_averages_gradients(self):
        self.emulate(0, "fail-after=2000")
        for i in range(3):
            self.start(i, exchange="allreduce", average="gradients", cell_first=3, steps=100,
                       link="tcp", consensus_seconds=0, consensus_rounds=0, lr=0.02)
        self.assertEqual(self.wait(0), 1, self.text(0))
        self.assertRegex(self.text(0).strip().splitlines()[-1],
                         r"uwasa node: the GPU failed after step \d+ \(cudaError\w+: .+\): ")
        for i in (1, 2):
            self.assertEqual(self.events(i, "gradients")[0]["nodes"], 3)
            self.assertEqual(self.done(i)["step"], 100)

    def test_without_a_gpu_auto_trains_on_the_processor_and_cuda_does_not_begin(self):
        self.emulate(0, "no-gpu")
        self.start(0, steps=20, backend="auto")
        self.done(0)
        self.assertIn("the processor computes, not a GPU", self.text(0))
        self.start(0, steps=40)
        self.assertEqual(self.wait(0), 1)
        self.assertIn("--backend cuda", self.text(0))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
