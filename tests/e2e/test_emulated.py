#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two processors, one run: a native node and one of the cross build, emulated, each with half of the
digits' classes, learn more together than alone.

usage: test_emulated.py NATIVE_PROGRAM EMULATOR [ARGUMENT...] PROGRAM"""
import os
import sys
import unittest

from fleet import Fleet

SKIP = 77
HALVES = ("0,1,2,3,4", "5,6,7,8,9")
BETTER = 0.1


class Emulated(Fleet):
    def begin(self, i, **keys):
        self.start(i, classes=HALVES[i], lr=0.05, **keys)

    def alone(self, i):
        self.begin(i, seeds=[], steps=200, consensus_rounds=0)
        accuracy = self.done(i)["test_accuracy"]
        os.remove(os.path.join(self.dir, f"n{i}.jsonl"))
        return accuracy

    def accuracy(self, i):
        return max([0.0] + [e["test_accuracy"] for e in self.events(i, "eval")])

    def test_native_and_emulated_node_learn_from_each_other(self):
        alone = max(self.alone(i) for i in range(2))    # the same on either processor
        self.programs[1] = sys.argv[2:]
        for i in range(2):
            self.begin(i, period=4, step_seconds=0.05, eval_seconds=1, eval_samples=300)
        self.until("both are better than alone, or one has ended", lambda: any(
            p.poll() is not None for p in self.processes.values()) or
            min(self.accuracy(i) for i in range(2)) > alone + BETTER)
        done = self.stop(0, 1)
        print("alone:", alone, " together:", [self.accuracy(i) for i in range(2)], " steps:",
              [d["step"] for d in done], f" {done[0]['seconds']:.1f} s", flush=True)
        for d in done:
            self.assertGreater(d["pulls_done"], 0)


if __name__ == "__main__":
    if not os.path.exists(sys.argv[1]):
        print(f"skipped: no {sys.argv[1]}: build the preset release first")
        sys.exit(SKIP)
    unittest.main(argv=[sys.argv[0], "-v"])
