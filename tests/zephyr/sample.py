#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sample.py PROGRAM - the Zephyr sample, built for this host: one node trains alone; one that comes
after a few steps takes over what the first has learned, and is known when it is started again; one
with another key is refused."""
import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time

KEY = "ab" * 32
LIMIT_S = 60


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Node:
    def __init__(self, program, port, settings):
        env = dict(os.environ, PORT=str(port), SETTINGS=settings)
        self.process = subprocess.Popen([program], env=env, text=True, stdout=subprocess.PIPE)
        self.lines, self.seen = queue.Queue(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip())

    def wait(self, pattern):
        """The first match of a line, waiting for it."""
        for line in self.seen:
            if re.search(pattern, line):
                return re.search(pattern, line)
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            try:
                line = self.lines.get(timeout=0.2)
            except queue.Empty:
                continue
            self.seen.append(line)
            if re.search(pattern, line):
                return re.search(pattern, line)
        raise AssertionError(f"no line like {pattern} in {LIMIT_S} s:\n" + "\n".join(self.seen))

    def accuracy(self):
        return float(self.wait(r"^done after \d+ steps: ([\d.]+) %").group(1))


def main():
    program = sys.argv[1]
    ports = [free_port() for _ in range(4)]
    quick = "eval_samples=300 eval_seconds=0 consensus_rounds=0"
    seed = f"seeds=127.0.0.1:{ports[0]} {quick}"
    nodes = []
    try:
        first = Node(program, ports[0], f"name=a run=t key={KEY} steps=800 {quick}")
        nodes.append(first)
        taught = first.accuracy()
        newcomer = Node(program, ports[1], f"name=b run=t key={KEY} seed=2 steps=5 {seed}"
                                        " consensus_rounds=1")
        nodes.append(newcomer)
        stranger = Node(program, ports[2], f"name=c run=t key={'cd' * 32} seed=3 steps=5 {seed}")
        nodes.append(stranger)
        newcomer.wait(r"^peer a \(127\.0\.0\.1:\d+\) joined")
        stranger.wait("does not hold this run's key")
        first.wait("does not hold this run's key")
        wrong_word = Node(program, ports[3], "name=d steps=some")
        nodes.append(wrong_word)
        wrong_word.wait("steps=some: needs 0 to ")
        learned, alone = newcomer.accuracy(), stranger.accuracy()
        other_word = Node(program, ports[3], "name=d schedule=cosine")
        nodes.append(other_word)
        other_word.wait("schedule=cosine: not on Zephyr")
        newcomer.process.kill()
        newcomer.process.wait()
        nodes.append(Node(program, ports[1], f"name=b run=t key={KEY} seed=2 steps=5 {seed}"))
        first.wait(r"^peer b .* was restarted")
        print(f"trained {taught} %, newcomer {learned} %, refused {alone} %")
        assert taught >= 75, "800 steps do not teach it the digits"
        assert learned >= taught - 10, "the newcomer did not take the model over"
        assert alone < 50, "the refused node knows the digits"
    finally:
        for node in nodes:
            node.process.kill()
            node.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
