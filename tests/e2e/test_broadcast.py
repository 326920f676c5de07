#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that average what each sends once to all, over multicast and over a bus of pseudo terminals.

usage: test_broadcast.py PROGRAM PTY_HUB [-k CASE]
"""
import json
import os
import subprocess
import sys
import unittest

from fleet import Fleet

HUB = sys.argv[2]
SMALL = {"name": "small", "input": [1, 28, 28], "layers": [
    {"name": "pool", "type": "avgpool2d", "kernel": 4},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc1", "type": "dense", "out": 32}, {"name": "relu1", "type": "relu"},
    {"name": "fc2", "type": "dense", "out": 10}]}


class Broadcast(Fleet):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.dir, "small.json"), "w", encoding="utf-8") as f:
            json.dump(SMALL, f)

    def node(self, i, **keys):
        """Node i of four, each with two or three of the digits, on a channel."""
        self.start(i, **{"listen": ":0", "seeds": [], "exchange": "broadcast", "model": "small.json",
                         "link.address": i, "shard": f"{i}/4", "skew": "sorted", "lr": 0.1,
                         "step_seconds": 0.01, "consensus_seconds": 30, **keys})

    def on_air(self, i, **keys):
        self.node(i, **{"link.radio": f"udp:239.255.85.87:{self.ports[7]}", **keys})

    def averages(self, i, nodes=None):
        """How often node i has averaged exactly, with so many nodes."""
        return sum(nodes in (None, e["nodes"]) for e in self.events(i, "averaged"))

    def ends_with_one_model(self, done, least):
        print([(d["averages_done"], d["averages_cut"], d["test_accuracy"], d["test_loss"])
               for d in done])
        for d in done:
            self.assertAlmostEqual(d["test_loss"], done[0]["test_loss"], delta=1e-3)
            self.assertGreaterEqual(d["averages_done"], least)
            self.assertEqual(d["refused_corrupt"], 0)
            self.assertIn(d["agreed_nodes"], (0, len(done)))
        self.assertGreater(max(d["agreed_nodes"] for d in done), 0)

    def test_one_that_joins_late_ends_with_the_model_of_all(self):
        """And one that trains longest: it may not leave before what it learned last is averaged."""
        for i in range(3):
            self.on_air(i, steps=650 if i == 2 else 500)
        self.until("averages of three", lambda: all(self.averages(i, 3) >= 2 for i in range(3)))
        self.on_air(3, steps=150)
        self.until_event(3, "adopted")
        self.ends_with_one_model([self.done(i) for i in range(4)], 3)

    def test_who_is_alone_says_so(self):
        self.on_air(0, steps=20)
        self.assertEqual(self.done(0)["agreed_nodes"], 0)
        self.assertIn("no other node was found: this node trained its model alone", self.text(0))

    def test_who_leaves_or_dies_holds_up_nobody_for_long(self):
        for i in range(4):
            self.on_air(i)
        self.until("averages of four", lambda: all(self.averages(i, 4) >= 2 for i in range(4)))
        self.stop(3)
        self.until("its goodbye", lambda: all(self.events(i, "left") for i in range(3)))
        self.until("averages of three", lambda: all(self.averages(i, 3) >= 2 for i in range(3)))
        self.processes[2].kill()
        self.until("averages of two", lambda: all(self.averages(i, 2) >= 2 for i in range(2)))
        self.stop(0, 1)

    def test_four_on_a_lossy_bus_end_with_one_model(self):
        hub = subprocess.Popen([HUB, "4", "--loss", "0.05", "--seed", "3"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(hub.communicate, timeout=30)
        names = [hub.stdout.readline().strip() for _ in range(4)]
        if "" in names:
            self.skipTest("skipped: this machine has no pseudo terminals")
        for i in range(4):
            self.node(i, **{"link.bus": names[i], "link.baud": 921600, "steps": 400, "period": 20})
        done = [self.done(i) for i in range(4)]
        self.ends_with_one_model(done, 3)
        self.assertGreater(min(d["test_accuracy"] for d in done), 0.3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
