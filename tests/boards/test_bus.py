#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two boards whose firmware has secure frames (-DUWASA_SECURE_FRAMES=ON) on one line, link=bus.

usage: test_bus.py PROGRAM [-k CASE]
"""
import os
import sys

from machines import Boards, main

MET = {"link": "bus", "advertise": "", "eval_seconds": 0, "eval_samples": 1,
       "checkpoint_seconds": 0, "consensus_rounds": 0, "rule": "none"}
OTHER_KEY = "5a" * 32


class Bus(Boards):
    firmware = ("cortex-m7-frames", "-DUWASA_SECURE_FRAMES=ON")

    def line_of_two(self, second=(), **keys):
        """Their second UARTs; who comes second may have other settings."""
        line = os.path.join(self.dir, "line")
        both = {**MET, **keys}
        self.board(0, qemu=("-serial", f"unix:{line},server=on,wait=off"), station=1, **both)
        self.until("there is a line", lambda: os.path.exists(line))
        self.board(1, qemu=("-serial", f"unix:{line}"), station=2, **{**both, **dict(second)})

    def test_boards_meet_and_pull_over_a_bus(self):
        """Chunks, not whole models: a training board looks at its line between layers."""
        self.line_of_two(model="lenet5", batch=1, steps=60, exit=0)
        for i in (0, 1):
            self.until_event(i, "alive", f"n{1 - i}")
        done = [self.finished(i) for i in (0, 1)]
        print([d["pulled_bytes"] for d in done], flush=True)
        self.assertGreater(sum(d["pulled_bytes"] for d in done), 0)
        self.assertFalse(any(self.events(i, kind) for i in (0, 1)
                             for kind in ("refused", "warning")))

    def test_a_whole_model_is_pulled_over_a_bus(self):
        """When training is over: then nothing keeps them from the line."""
        self.line_of_two(model="lenet5", batch=1, steps=1, consensus_rounds=1, exit=0)
        self.until("one has it", lambda: any(self.events(i, "pull_done") for i in (0, 1)))
        pull = [e for i in (0, 1) for e in self.events(i, "pull_done")][0]
        print(pull["text"], flush=True)
        self.assertIn("246824 bytes", pull["text"])

    def test_boards_of_another_key_do_not_meet_over_a_bus(self):
        self.line_of_two(second={"key": OTHER_KEY})
        self.until("they say so", lambda: all(self.events(i, "refused") for i in (0, 1)))
        self.assertFalse(any(self.events(i, "alive") for i in (0, 1)))

    def test_settings_of_a_bus_are_checked(self):
        self.board(0, **{**MET, "key": ""})
        self.assertEqual(self.wait(0), 1)
        self.assertIn("needs a key", self.events(0, "error")[-1]["text"])
        self.board(1, **MET, data="uart")
        self.assertEqual(self.wait(1), 1)
        self.assertIn("data=uart: needs link=ethernet", self.events(1, "error")[-1]["text"])

    def test_firmware_without_frames_says_so(self):
        self.firmware = ()
        self.board(0, **MET)
        self.assertEqual(self.wait(0), 1)
        self.assertIn("UWASA_SECURE_FRAMES", self.events(0, "error")[-1]["text"])


if __name__ == "__main__":
    main(sys.argv)
