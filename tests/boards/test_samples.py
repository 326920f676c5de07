#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A board learns from samples that tools/send_samples sends over its second UART.

usage: test_samples.py PROGRAM [-k CASE]     environment: UWASA_HOST_DIGITS, the program host_digits
"""
import os
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading

from machines import ROOT, Boards, main

ALONE = {"data": "uart", "key": "", "advertise": "", "rule": "none", "exit": 0, "lr": 0.1,
         "batch": 4, "eval_seconds": 0, "checkpoint_seconds": 0}
DIGITS = 150
LEARNED = 0.3                       # of ten classes; 150 digits are few
FLIPPED = 1 / 8000                  # of bytes, on a bad line


class BadLine(threading.Thread):
    """Between a sender and the board's UART: flips bits towards the board."""
    def __init__(self, front, back):
        super().__init__(daemon=True)
        self.back, self.random, self.hits = back, random.Random(1), 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(front)
        self.listener.listen()

    def run(self):
        with self.listener, self.listener.accept()[0] as sender, socket.socket(socket.AF_UNIX) as board:
            board.connect(self.back)
            while True:
                for s in select.select([sender, board], [], [])[0]:
                    data = bytearray(s.recv(4096))
                    if not data:
                        return
                    for i in range(len(data) if s is sender else 0):
                        if self.random.random() < FLIPPED:
                            data[i] ^= 1 << self.random.randrange(8)
                            self.hits += 1
                    (board if s is sender else sender).sendall(data)


class Samples(Boards):
    def setUp(self):
        super().setUp()
        self.files = [os.path.join(self.dir, name) for name in ("images", "labels")]
        subprocess.run([os.environ["UWASA_HOST_DIGITS"], str(DIGITS), *self.files], check=True)

    def learner(self, **settings):
        self.board(0, qemu=["-serial", f"unix:{self.dir}/uart,server=on,wait=off"],
                   **{**ALONE, **settings})

    def send(self, count, line="uart"):
        return subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "tools", "send_samples"), "--count", str(count),
             "idx:" + ",".join(self.files), os.path.join(self.dir, line)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def sent(self, sender, count):
        said = sender.communicate(timeout=300)[0]
        print(said.splitlines()[-1], flush=True)
        self.assertEqual(sender.returncode, 0, said)
        self.assertIn(f"{count} samples taken", said)

    def told(self):
        """What the board says of its samples now."""
        before = len(self.events(0, "samples"))
        self.type(0, "status")
        self.until("it tells", lambda: len(self.events(0, "samples")) > before)
        return self.events(0, "samples")[-1]

    def test_board_learns_from_what_it_is_sent(self):
        """It waits for the first minibatch, then learns to read the digits that it has built in to
        be tested with."""
        self.learner(eval_seconds=3)
        self.until("it waits", lambda: self.events(0, "samples"))
        self.assertEqual(self.events(0, "samples")[0]["held"], 0)
        self.assertEqual(self.events(0, "step"), [])
        self.assertGreater(self.events(0, "plan")[0]["samples_bytes"], DIGITS * 785)
        self.sent(self.send(DIGITS), DIGITS)
        told = self.told()
        self.assertEqual((told["held"], told["received"], told["damaged"]), (DIGITS, DIGITS, 0))
        self.until("it has learned", lambda: any(e["test_accuracy"] >= LEARNED
                                                 for e in self.events(0, "eval")))

    def test_sender_that_stops_a_bad_line_and_a_reset(self):
        self.learner(samples=8)
        self.until("it waits", lambda: self.events(0, "samples"))
        first = self.send(DIGITS)
        self.until("some have come", lambda: self.told()["received"] >= 5)
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()
        before = self.told()
        line = BadLine(os.path.join(self.dir, "bad"), os.path.join(self.dir, "uart"))
        line.start()
        self.sent(self.send(50, "bad"), 50)
        told = self.told()
        print(line.hits, "bytes damaged", before, told, flush=True)
        self.assertGreater(line.hits, 0)
        self.assertGreater(told["damaged"], 0)
        self.assertEqual(told["held"], 8)
        self.assertIn(told["received"] - before["received"], (50, 51))  # one was on its way
        third = self.send(150)
        self.until("some have come", lambda: self.told()["received"] >= told["received"] + 5)
        self.qmp(0, "system_reset")
        self.sent(third, 150)
        self.assertEqual(len(self.events(0, "start")), 2)
        steps = len(self.events(0, "step"))
        self.until("it trains", lambda: len(self.events(0, "step")) > steps)

    def test_settings_that_do_not_go_together_are_named(self):
        for i, (settings, says) in enumerate((
                ({"link": "serial"}, "data=uart: needs link=ethernet"),
                ({"samples": 3}, "samples=3: needs batch=4 or more"),
                ({"samples": 30000}, "30000"))):
            self.board(i, **{**ALONE, "exit": 1, **settings})
            self.assertEqual(self.wait(i), 1)
            self.assertTrue(any(re.search(says, e["text"]) for e in self.events(i, "error")),
                            self.lines(i))


if __name__ == "__main__":
    main(sys.argv)
