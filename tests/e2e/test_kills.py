#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four nodes with checkpoints under a supervisor, which are killed at random instants, paused, told
to end, and started again: also on a full or read-only disk, and with a wall clock that jumps. Each
start goes on from the step of the last checkpoint, each node that is left alone makes steps, each
event is a whole line, and at the end all have learned.

usage: test_kills.py PROGRAM CLOCK_JUMP [-k CASE]     environment: UWASA_TEST_COUNT (kills a case),
UWASA_TEST_SEED; UWASA_SANITIZED: no clock jumps, as nothing can be preloaded. Disks are tmpfs in a
mount namespace of the test; without the right to make one there are no troubles of disks."""
import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from fleet import Fleet, SANITIZED

CLOCK_JUMP = os.path.abspath(sys.argv.pop(2))
COUNT = int(os.environ.get("UWASA_TEST_COUNT", "10"))
SEED = int(os.environ.get("UWASA_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
NODES = range(4)
LIFE_SECONDS = 6                # mean time between two troubles of a node
STUCK_SECONDS = 60 if SANITIZED else 30     # the longest time to the next step
LEARN_SECONDS = 12
YEAR = 365 * 86400
CLOCKS = (lambda: 100 - int(time.time()), lambda: -3600, lambda: 3600, lambda: 10 * YEAR)
libc = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_PRIVATE, MS_REC = 1, 32, 4096, 1 << 18, 16384
MNT_DETACH = 2


def mount(source, target, kind, flags, options=""):
    return libc.mount(source.encode(), target.encode(), kind.encode(), flags,
                      options.encode()) == 0


def has_own_mounts():
    """From now on mounts are of this process and its children."""
    return libc.unshare(0x20000) == 0 and mount("none", "/", "", MS_REC | MS_PRIVATE)


class Node:
    def __init__(self):
        self.next = 0.0         # of its next trouble
        self.state = "up"       # "down", "paused"; "ill": its disk is full or read-only
        self.step = 0           # of its last event
        self.stepped = 0.0      # when that, or its last start, was seen
        self.lines_end = 0
        self.torn = 0
        self.starts = 0
        self.kills = 0
        self.clock = 0


class Kills(Fleet):
    def setUp(self):
        super().setUp()
        print("seed", SEED, flush=True)
        self.random = random.Random(SEED)
        self.has_disks = MOUNTS
        self.nodes = {i: Node() for i in NODES}
        for i in NODES:
            os.mkdir(self.disk(i))
            if self.has_disks:
                self.assertTrue(mount("uwasa", self.disk(i), "tmpfs", 0, "size=256m"))
            os.symlink(os.path.join(self.disk(i), "events.jsonl"),
                       os.path.join(self.dir, f"n{i}.jsonl"))
        self.end = time.monotonic() + 240 + COUNT * 6
        self.troubles = {}

    def tearDown(self):
        for p in self.processes.values():
            if p.poll() is None:
                p.kill()
            p.wait()
        for i in NODES:
            while self.has_disks and libc.umount2(self.disk(i).encode(), MNT_DETACH) == 0:
                pass
        super().tearDown()

    def disk(self, i):
        return os.path.join(self.dir, f"disk{i}")

    def saved_step(self, i):
        """Of the checkpoint; None: there is none."""
        path = os.path.join(self.disk(i), "state.safetensors")
        if not os.path.exists(path):
            return None
        with open(path, "rb") as f:
            header = f.read(int.from_bytes(f.read(8), "little"))
        return int(json.loads(header)["__metadata__"]["uwasa.step"])

    def start_again(self, i):
        n = self.nodes[i]
        saved, said = self.saved_step(i), len(self.text(i)) if n.starts else 0
        if not SANITIZED and self.random.random() < 0.3:
            n.clock = self.random.choice(CLOCKS)()
            self.count("clock jumps")
        self.programs[i] = ["env", f"LD_PRELOAD={CLOCK_JUMP}", f"UWASA_TEST_CLOCK={n.clock}",
                            *PROGRAM] if not SANITIZED else PROGRAM
        self.start(i, **self.keys, shard=f"{i}/4", checkpoint=f"disk{i}/state.safetensors",
                   checkpoint_seconds=0.5, members=8)
        n.starts += 1
        n.stepped = time.monotonic()
        if n.state == "ill":
            return
        n.state = "up"
        if saved is not None:
            self.until(f"n{i} goes on", lambda: self.text(i).find("resuming from", said) >= 0 or
                       self.processes[i].poll() is not None)
            found = re.search(r"resuming from \S+ at step (\d+)", self.text(i)[said:])
            self.assertIsNotNone(found, self.text(i)[said:])
            self.assertEqual(int(found.group(1)), saved)

    def count(self, what):
        self.troubles[what] = self.troubles.get(what, 0) + 1

    def read_events(self, i):
        """Those that are new; a line may be cut off where the node was killed, or its disk full."""
        n = self.nodes[i]
        path = os.path.join(self.disk(i), "events.jsonl")
        if not os.path.exists(path):
            return
        with open(path, "rb") as f:
            f.seek(n.lines_end)
            data = f.read()
        data = data[:data.rfind(b"\n") + 1]
        n.lines_end += len(data)
        for line in data.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                n.torn += 1
                continue
            if event["event"] == "step" and event["step"] != n.step:
                n.step = event["step"]
                n.stepped = time.monotonic()

    def kill(self, i, how=signal.SIGKILL):
        self.processes[i].send_signal(how)
        status = self.wait(i)
        if how == signal.SIGTERM:
            self.assertEqual(status, 0, self.text(i)[-2000:])
        self.nodes[i].kills += 1

    def fill(self, i):
        with open(os.path.join(self.disk(i), "fill"), "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(1 << 20))
            except OSError:
                pass

    def free(self, i):
        if os.path.exists(os.path.join(self.disk(i), "fill")):
            os.remove(os.path.join(self.disk(i), "fill"))
        else:
            self.assertEqual(libc.umount2(self.disk(i).encode(), MNT_DETACH), 0)

    def trouble(self, i, now):
        """The next one of a node that is up."""
        n, kind = self.nodes[i], self.random.random()
        n.next = now + self.random.random()
        if kind < 0.2 and self.has_disks:
            full = kind < 0.1
            self.count("full disks" if full else "read-only disks")
            if full:
                self.fill(i)
            else:
                self.assertTrue(mount(self.disk(i), self.disk(i), "", MS_BIND))
                self.assertTrue(mount("none", self.disk(i), "",
                                      MS_REMOUNT | MS_BIND | MS_RDONLY))
            n.state = "ill"
            n.next += 1
        elif kind < 0.3:
            self.count("pauses")
            self.processes[i].send_signal(signal.SIGSTOP)
            n.state = "paused"
            n.next += self.random.choice((0, 3))
        else:
            how = signal.SIGTERM if kind < 0.4 else signal.SIGKILL
            self.count("kills" if how == signal.SIGKILL else "ends")
            self.kill(i, how)
            n.state = "down"

    def ill(self, i):
        """Kill a node whose disk is full or read-only, start it on that, and again on a good one.
        With a good checkpoint it may start, or end with a sentence."""
        said = len(self.text(i))
        self.assertIsNone(self.processes[i].poll(), self.text(i)[-2000:])
        self.count("kills")
        self.kill(i)
        self.start_again(i)
        try:
            self.processes[i].wait(1)
            self.assertRegex(self.text(i)[said:], "no space is left|[Rr]ead-only")
            self.assertNotIn(self.processes[i].returncode, (0, -signal.SIGSEGV, -signal.SIGABRT))
        except subprocess.TimeoutExpired:
            self.kill(i)
        self.free(i)
        self.nodes[i].state = "down"
        self.nodes[i].next = 0.0

    def tick(self, troubles):
        now = time.monotonic()
        for i, n in self.nodes.items():
            self.read_events(i)
            if n.state == "up":
                self.assertIsNone(self.processes[i].poll(), self.text(i)[-2000:])
                self.assertLess(now - n.stepped, STUCK_SECONDS, f"n{i} stands still")
            if now < n.next:
                continue
            if n.state == "up" and troubles:
                self.trouble(i, now)
                continue
            if n.state == "ill":
                self.ill(i)
            if n.state == "down":
                self.start_again(i)
            if n.state == "paused":
                self.processes[i].send_signal(signal.SIGCONT)
                n.state, n.stepped = "up", now
            n.next = time.monotonic() + self.random.expovariate(1 / LIFE_SECONDS)

    def survive(self, **keys):
        self.keys = {"final_eval_samples": 2000, "step_seconds": 0.01, "period": 10,
                     "consensus_seconds": 5, "linger_seconds": 1, **keys}
        for i in NODES:
            self.start_again(i)
            self.nodes[i].next = time.monotonic() + self.random.expovariate(1 / LIFE_SECONDS)
        while self.troubles.get("kills", 0) < COUNT:
            self.tick(True)
            self.assertLess(time.monotonic(), self.end)
            time.sleep(0.05)
        quiet = time.monotonic() + LEARN_SECONDS
        while time.monotonic() < quiet or any(n.state != "up" for n in self.nodes.values()):
            self.tick(False)
            time.sleep(0.05)
        for i in NODES:
            self.processes[i].send_signal(signal.SIGTERM)
        accuracies = []
        for i, n in self.nodes.items():
            self.assertEqual(self.wait(i), 0, self.text(i)[-2000:])
            self.read_events(i)
            self.assertEqual(self.events(i)[-1]["event"], "done")
            evaluation = self.run_program("eval", "--model", "mlp", "--data", "digits", "--weights",
                                          f"disk{i}/state.safetensors", "--json", "-")
            accuracies.append(json.loads(evaluation.stdout.splitlines()[-1])["test_accuracy"])
            self.assertLessEqual(n.torn, 2 * n.kills)
            left = set(os.listdir(self.disk(i))) - {"state.safetensors", "events.jsonl"}
            self.assertLessEqual(len(left), 2, left)    # a lock, and a file of a killed save
        print(", ".join(f"{n} {what}" for what, n in self.troubles.items()) + "; torn lines",
              [n.torn for n in self.nodes.values()], "steps", [n.step for n in self.nodes.values()],
              "accuracy", accuracies, flush=True)
        self.assertGreater(min(accuracies), 0.8)

    def test_nodes_that_gossip_over_udp(self):
        self.survive(exchange="gossip", link="udp")

    def test_nodes_that_average_over_tcp(self):
        self.survive(exchange="allreduce", link="tcp")

    def test_nodes_in_cells_over_udp(self):
        self.survive(exchange="auto", link="udp")

    def test_nodes_that_average_gradients_over_tcp(self):
        self.survive(exchange="allreduce", link="tcp", average="gradients")


PROGRAM = [os.path.abspath(sys.argv[1])]
MOUNTS = has_own_mounts()

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
