#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One board by itself: it boots and trains, on every machine alike; it has no heap; a fault and a
hang end in a start that says so; without a source of entropy it does not link.

usage: test_machine.py PROGRAM [-k CASE]     environment: UWASA_HOST_WEIGHTS, the program
host_weights
"""
import json
import os
import re
import subprocess
import sys

from machines import MACHINE, ROOT, STACK_BYTES, VIRTUAL, Boards, Debugger, build, main, symbols

STEPS = 50
KERNELS = "ref"                     # what tools/board_model gives all of them
ALONE = {"steps": STEPS, "rule": "none", "consensus_rounds": 0, "eval_seconds": 0, "advertise": "",
         "key": ""}
HEAP = re.compile(r"^(_?(malloc|calloc|realloc|free)(_r)?|_?sbrk(_r)?|aligned_alloc|memalign)$")
FIRST_STEP_SECONDS = 1.0            # of virtual time, from reset


class Machine(Boards):
    def alone(self, preset, i=0, **settings):
        self.board(i, preset=preset, clock=VIRTUAL, **{**ALONE, **settings})
        done = self.finished(i)
        self.assertEqual(self.wait(i), 0)
        return self.events(i, "start")[0], done

    def boots_and_trains(self, preset):
        start, done = self.alone(preset)
        print(preset, start, done, flush=True)
        self.assertEqual(start["board"], MACHINE[preset])
        self.assertLessEqual(start["seconds"], FIRST_STEP_SECONDS)
        self.assertEqual(done["step"], STEPS)
        self.assertTrue(done["sealed"])
        self.assertLessEqual(done["stack_bytes"], STACK_BYTES)
        self.assertGreater(done["stack_bytes"], 0)
        self.assertEqual(done["lines_dropped"], 0)
        self.assertEqual(done["tls_peak_bytes"], 0)
        host = os.environ.get("UWASA_HOST_WEIGHTS")
        if host:
            said = subprocess.run([host, KERNELS, str(STEPS)], capture_output=True,
                                  text=True, check=False).stdout.split()
            if said:                    # a table that this processor has too
                self.assertEqual(done["weights"], said[0])
                self.assertAlmostEqual(done["test_accuracy"], float(said[1]), places=3)
        self.assertGreater(done["test_accuracy"], 0.25)
        elf, _ = build(preset)
        self.assertEqual([s for s in symbols(elf) if HEAP.match(s)], [])

    def test_boots_and_trains_m4f(self):
        self.boots_and_trains("cortex-m4f")

    def test_boots_and_trains_m7(self):
        self.boots_and_trains("cortex-m7")

    def test_boots_and_trains_m55(self):
        self.boots_and_trains("cortex-m55")

    def led_astray(self, address, reset):
        """The processor is sent to an address; the board starts anew and says why."""
        self.board(0, qemu=["-gdb", f"unix:{self.dir}/gdb,server=on,wait=off"],
                   **{**ALONE, "steps": 0})
        self.until("it trains", lambda: self.events(0, "step"))
        Debugger(f"{self.dir}/gdb").go_on_at(address)
        self.until("it starts again", lambda: len(self.events(0, "start")) == 2)
        self.assertEqual(self.events(0, "start")[1]["reset"], reset)
        steps = len(self.events(0, "step"))
        self.until("it trains again", lambda: len(self.events(0, "step")) > steps)

    def test_fault_is_reported_and_resets(self):
        self.led_astray(0xf0000000, "software")     # no code may be there
        self.assertTrue(any(re.match(r"fault: cfsr [0-9a-f]{8} .* pc f0000000", line)
                            for line in self.lines(0)), self.lines(0))

    def test_watchdog_resets_a_board_that_hangs(self):
        elf, _ = build("cortex-m7")
        code = subprocess.run(["arm-none-eabi-objdump", "-d", elf], capture_output=True,
                              text=True, check=True).stdout
        loop = re.search(r"^ *([0-9a-f]+):\t(e7fe|f7ff bffe) ", code, re.MULTILINE)
        self.assertIsNotNone(loop, "no branch to itself in the firmware")
        self.led_astray(int(loop.group(1), 16), "watchdog")

    def test_wrong_setting_is_named(self):
        for i, (key, value, says) in enumerate((("batch", 0, "batch=0: needs 1 to 64"),
                                                ("rule", "mean", "rule=mean: none or qg"),
                                                ("classes", "3;4", "classes=3;4: digits"),
                                                ("address", "10.0.2", "\"10.0.2\": needs"),
                                                ("elapsed", 5, "elapsed: needs seconds"),
                                                ("seeds", ["garbage"], "seeds=garbage: no address"),
                                                ("colour", "red", "no such setting"))):
            self.board(i, **{**ALONE, key: value})
            self.assertEqual(self.wait(i), 1)
            self.assertTrue(any(says in e["text"] for e in self.events(i, "error")) or
                            any(says in line for line in self.lines(i)), self.lines(i))

    def test_time_that_is_over_before_the_start_is_not_trained_again(self):
        _, done = self.alone("cortex-m7", steps=0, seconds=1000, elapsed=999)
        self.assertLess(done["seconds"], 10)
        self.assertEqual([line for line in self.lines(0) if "nothing is left" in line], [])
        self.alone("cortex-m7", 1, steps=0, seconds=1000, elapsed=1000)
        self.assertIn("nothing is left to train", self.lines(1))

    def test_loss_that_is_no_number_is_null(self):
        self.alone("cortex-m7", model="lenet5", steps=20, lr=1000)
        lines = [json.loads(line) for line in self.lines(0)]     # each one is JSON
        self.assertIn(None, [e["loss"] for e in lines if e["event"] == "step"])

    def test_real_board_does_not_link_without_entropy(self):
        _, said = build("cortex-m7", "cortex-m7-real", "-DUWASA_EMULATOR=OFF", check=False)
        self.assertIn("uw_machine_entropy", said)
        self.assertIn("undefined reference", said)
        self.assertEqual(set(re.findall(r"undefined reference to `(\w+)'", said)),
                         {"uw_machine_entropy"})
        self.assertTrue(os.path.isdir(os.path.join(ROOT, "build", "cortex-m7-real")))


if __name__ == "__main__":
    main(sys.argv)
