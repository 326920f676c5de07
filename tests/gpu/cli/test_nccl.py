#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes whose GPUs average among themselves, as processes on loopback: emulated GPUs, each with a
number of its own, and the stand-in of NCCL in tests/gpu/emulated.

usage: test_nccl.py PROGRAM [-k CASE]
"""
import os
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))
from fleet import PROGRAM, Fleet  # noqa: E402  pylint: disable=wrong-import-position

NODES = 3


class GpuGroup(Fleet):
    def emulate(self, i, *settings):
        """The last setting of a name counts."""
        self.programs[i] = ["env", "UWASA_EMULATED_CUDA=" + ",".join([f"uuid={i + 1}", *settings]),
                            f"TMPDIR={self.dir}", PROGRAM]

    def start(self, i, **keys):
        if i not in self.programs:
            self.emulate(i)
        super().start(i, **{"backend": "cuda", "exchange": "allreduce", "shard": f"{i}/{NODES}",
                            "checkpoint": f"n{i}.safetensors", "link": "tcp", "lr": 0.1,
                            "cell_first": NODES, "steps": 150, "consensus_seconds": 60,
                            "step_seconds": 0 if "average" in keys else 0.04, **keys})

    def ways(self, i, nodes=None):
        """How each average of a node went, or of so many: "nccl", "halving", ..."""
        return [e["text"].split(" by ")[1].split(",")[0] for e in self.events(i, "averaged")
                if nodes in (None, e["nodes"])]

    def check_same(self, nodes=range(NODES), optimizer=False):
        done = [self.done(i) for i in nodes]
        for i in nodes:
            self.assertEqual(self.weights(nodes[0], optimizer), self.weights(i, optimizer))
            print(f"n{i}", " ".join(self.ways(i)), flush=True)
        for d in done:
            self.assertGreater(d["test_accuracy"], 0.6)
        self.assertFalse([f for f in os.listdir(self.dir) if f.startswith("uwasa-nccl")])
        return done

    def test_gpus_average_among_themselves(self):
        for i in range(NODES):
            self.start(i, steps=300)
        for d in self.check_same():
            self.assertGreaterEqual(d["averages_done"], 12)
        for i in range(NODES):
            self.assertIn("nccl", self.ways(i))
            if not self.events(i, "average_cut"):       # else the machine stood still
                self.assertEqual(set(self.ways(i)), {"nccl"}, self.text(i))

    def test_momentum_over_averages_takes_what_gpus_make(self):
        for i in range(NODES):
            self.start(i, momentum_rule="slowmo", lr=0.05)
        self.check_same()
        self.assertIn("nccl", self.ways(0))

    def check_network_alone(self, why, tell, *settings, **keys):
        """With settings of the second node's GPU, or keys of its own. Who would have averaged by
        NCCL says once why not."""
        self.emulate(1, *settings)
        for i in range(NODES):
            self.start(i, steps=150, **(keys if i == 1 else {}))
        self.check_same()
        for i in range(NODES):
            self.assertNotIn("nccl", self.ways(i))
            self.assertGreater(len(self.ways(i)), 3)
            told = [e["text"] for e in self.events(i, "average_way")]
            self.assertEqual(len(told), 1 if i in tell else 0, told)
            for text in told:
                self.assertIn("go over the network, not by nccl: ", text)
                self.assertIn(why, text)
                self.assertEqual(self.text(i).count(text), 1)

    def test_one_without_nccl_makes_all_take_the_network(self):
        self.check_network_alone("n1 has no device for it", (0, 2), "no-nccl")
        self.assertIn("averages go over the network: NCCL", self.text(1))
        self.assertNotIn("averages go over the network: ", self.text(0))

    def test_shared_gpu_makes_all_take_the_network(self):
        self.check_network_alone("shares its device with another", range(NODES), "uuid=1")

    def test_key_makes_all_take_the_network(self):
        self.check_network_alone("or does not want it", (0, 2), nccl="false")
        self.assertNotIn("averages go over the network", self.text(1))

    def check_flaw(self, flaw, good):
        """Of the third node's GPU, after so many averages. The round is given up, and later ones go
        over the network, with the parameters that were there before."""
        self.emulate(2, flaw)
        for i in range(NODES):
            self.start(i, steps=200, consensus_seconds=20)
        self.check_same()
        for i in range(NODES):
            cuts = [e["text"] for e in self.events(i, "average_cut")]
            self.assertTrue([t for t in cuts if "by nccl" in t and "over the network" in t], cuts)
            self.assertGreater(len(self.ways(i)), 6)
            self.assertLessEqual(self.ways(i, NODES).count("nccl"), good)
            if len(cuts) == 1:          # else the machine stood still
                self.assertEqual(self.ways(i)[:good], ["nccl"] * good)

    def test_error_costs_one_average(self):
        self.check_flaw("nccl-error-at=4", 3)

    def test_hang_costs_one_average(self):
        self.check_flaw("nccl-hang-at=4", 3)

    def test_init_that_fails_costs_one_average(self):
        self.check_flaw("nccl-fails-init", 0)

    def groups(self, i):
        """How the gradients of each group of a node are averaged."""
        return [e["text"].split(" by ")[1] for e in self.events(i, "gradients")]

    def test_gpus_average_gradients_of_every_step(self):
        for i in range(NODES):
            self.start(i, average="gradients", momentum=0.9)
        self.check_same(optimizer=True)
        for i in range(NODES):
            self.assertEqual(set(self.groups(i)), {"nccl"}, self.text(i))
            for e in self.events(i, "gradients_cut"):
                self.assertIn("has ended its training", e["text"])

    def check_gradients_flaw(self, flaw, why):
        """The step is given up, the next group goes over the network."""
        self.emulate(2, flaw)
        for i in range(NODES):
            self.start(i, average="gradients", steps=300, consensus_seconds=20)
        self.check_same(optimizer=True)
        for i in range(NODES):
            self.assertEqual(self.groups(i)[0], "nccl", self.text(i))
            self.assertNotEqual(self.groups(i)[1], "nccl", self.text(i))
            cut = self.events(i, "gradients_cut")[0]["text"]
            self.assertIn("cannot add by its device, the next group goes over the network", cut)
            self.assertTrue(cut.startswith("this node" if i == 2 and why == "n2" else why), cut)

    def test_error_in_gradients_costs_a_step(self):
        self.check_gradients_flaw("nccl-error-at=30", "n2")

    def test_hang_in_gradients_costs_a_step(self):
        self.check_gradients_flaw("nccl-hang-at=30", "a member")

    def test_killed_in_an_average_is_gone_on_without(self):
        self.emulate(2, "nccl-hang-at=4")
        for i in range(NODES):
            self.start(i, steps=400)    # who waits for the fourth trains on
        self.until("three averages", lambda: len(self.ways(2)) == 3)
        self.until("a fourth that hangs", lambda: self.events(2, "step") and
                   self.events(2, "step")[-1]["step"] >= 30)
        self.processes[2].send_signal(signal.SIGKILL)
        self.assertEqual(self.wait(2), -signal.SIGKILL)
        self.check_same(range(2))
        for i in range(2):
            self.assertGreater(len(self.ways(i)), 10)
            self.assertEqual(self.ways(i)[:3], ["nccl"] * 3)
            self.assertIn("nccl", self.ways(i)[4:])         # the two are another group

    def test_killed_among_gradients_is_gone_on_without(self):
        """The sum that it leaves open is given up, the two others are another group."""
        for i in range(NODES):
            self.start(i, average="gradients", steps=400)
        self.until("some steps", lambda: self.events(2, "step") and
                   self.events(2, "step")[-1]["step"] >= 30)
        self.processes[2].send_signal(signal.SIGKILL)
        self.assertEqual(self.wait(2), -signal.SIGKILL)
        self.check_same(range(2), optimizer=True)
        for i in range(2):
            self.assertEqual(self.groups(i)[0], "nccl")
            self.assertIn("n2 ", self.events(i, "gradients_cut")[0]["text"])
            self.assertIn("with 1 other by nccl",
                          " ".join(e["text"] for e in self.events(i, "gradients")))

    def test_stopped_in_an_average_is_no_flaw(self):
        """The two others, and all three once it is back, average by NCCL at once, not after the half
        minute that a flaw costs."""
        keys = {"steps": 100000, "linger_seconds": 0, "consensus_seconds": 0,
                "final_eval_samples": 16}
        self.emulate(2, "nccl-hang-at=4")
        for i in range(NODES):
            self.start(i, **keys)
        self.until("three averages", lambda: len(self.ways(2)) == 3)
        time.sleep(0.5)                 # the fourth has begun; it would be given up after 5 s
        self.stop(2)
        n = len(self.ways(0))
        self.until("two average", lambda: len(self.ways(0)) > n + 1)
        self.assertIn("nccl", self.ways(0)[n:])
        os.remove(os.path.join(self.dir, "n2.jsonl"))
        self.emulate(2)
        self.start(2, **keys)
        self.until("three average", lambda: len(self.ways(2)) > 2)
        self.assertIn("nccl", self.ways(2)[:3])
        cuts = [e["text"] for i in range(2) for e in self.events(i, "average_cut")]
        self.stop(*range(NODES))
        for cut in cuts:
            # whichever reaches the others first: that it ended its training, or that it left
            self.assertRegex(cut, "n2 (is late or has ended its training|has left the run)")
            self.assertNotIn("over the network", cut)

    def test_newcomers_take_the_seats_of_those_that_left(self):
        """One after the other, more than a node remembers at a time."""
        keys = {"members": 3, "cell_first": 2, "period": 4, "steps": 100000, "linger_seconds": 0,
                "consensus_seconds": 0, "final_eval_samples": 16}
        for i in range(2):
            self.start(i, **keys)
        for i in range(2, 6):
            self.start(i, shard="2/3", **keys)
            self.until(f"n{i} averages", lambda i=i: len(self.ways(i)) >= 3)
            self.stop(i)
            self.assertIn("nccl", self.ways(i))
            self.until_event(0, "left", f"n{i}")
        self.stop(0, 1)
        for i in range(6):
            print(f"n{i}", " ".join(self.ways(i)), flush=True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
