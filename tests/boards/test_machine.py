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
import struct
import subprocess
import sys

from machines import MACHINE, ROOT, STACK_BYTES, VIRTUAL, Boards, Debugger, build, main, symbols

STEPS = 50
KERNELS = "ref"                     # what tools/board_model gives all of them
ALONE = {"steps": STEPS, "rule": "none", "consensus_rounds": 0, "eval_seconds": 0, "advertise": "",
         "key": ""}
HEAP = re.compile(r"^(_?(malloc|calloc|realloc|free)(_r)?|_?sbrk(_r)?|aligned_alloc|memalign)$")
SMALL_RAM_BYTES = 305_000           # of 320 kB, beside stack and variables
FIRST_STEP_SECONDS = 1.0            # of virtual time, from reset


QUICK = {**ALONE, "steps": 2, "eval_samples": 8}
SLOT_HEAD = struct.Struct("<7I")    # uwasa/storage_flash.h: length is word 3, the CRCs 5 and 6
SLOT_HEAD_BYTES = 64                # twice 32
POSITION, WEIGHTS = 16, 48          # of a checkpoint: apps/firmware/gossip_node/storage.c


def crc32c(data):
    table = list(range(256))
    for _ in range(8):
        table = [value >> 1 ^ (0x82f63b78 if value & 1 else 0) for value in table]
    crc = 0xffffffff
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def change_checkpoint(path, at, data):
    """Other bytes in the checkpoint of a flash file that holds one, whose CRCs fit again."""
    with open(path, "r+b") as f:
        flash = bytearray(f.read())
        head = flash.index(b"uwck") - SLOT_HEAD_BYTES
        words = list(SLOT_HEAD.unpack_from(flash, head))
        body = flash[head + SLOT_HEAD_BYTES:][:words[3]]
        body[at:at + len(data)] = data
        words[5] = crc32c(body)
        words[6] = crc32c(struct.pack("<6I", *words[:6]))
        flash[head:head + SLOT_HEAD_BYTES] = 2 * (SLOT_HEAD.pack(*words) + bytes(4 * [255]))
        flash[head + SLOT_HEAD_BYTES:head + SLOT_HEAD_BYTES + len(body)] = body
        f.seek(0)
        f.write(flash)


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
                                                ("rule", "mean", "rule=mean: needs none|qg"),
                                                ("classes", "3;4", "classes=3;4: digits"),
                                                ("address", "10.0.2", "\"10.0.2\": needs"),
                                                ("elapsed", 5, "elapsed: needs seconds"),
                                                ("colour", "red", "no such setting"))):
            self.board(i, **{**ALONE, key: value})
            self.assertEqual(self.wait(i), 1)
            self.assertTrue(any(says in e["text"] for e in self.events(i, "error")) or
                            any(says in line for line in self.lines(i)), self.lines(i))

    def test_wrong_seed_is_left_out(self):
        self.alone("cortex-m7", seeds=["garbage"])
        self.assertIn("seeds=garbage: no address; going on without it", self.lines(0))

    def test_settings_file_that_says_nothing_is_refused(self):
        """A pipe's length is 0, a NUL ends a text: the board would go on without its key."""
        nothing = dict.fromkeys(("name", "run", "key", "events", "gateway", "loopback", "advertise",
                                 "exit"), "")
        for i, settings in enumerate((nothing, {**QUICK, "classes": "1\0"})):
            self.board(i, clock=VIRTUAL, **settings)
            self.assertEqual(self.processes[i].wait(timeout=60), 1)
            self.assertIn("arguments: @FILE: ", self.lines(i)[0])

    def test_checkpoint_that_diverged_is_not_gone_on_from(self):
        for i, (at, data, first) in enumerate(((WEIGHTS, struct.pack("<f", float("nan")), 0),
                                               (POSITION, b"\xff\xff\xff\xff", 2))):
            flash = os.path.join(self.dir, f"flash{i}")
            self.alone("cortex-m7", 2 * i, **QUICK, flash=flash)
            change_checkpoint(flash, at, data)
            start, done = self.alone("cortex-m7", 2 * i + 1, **{**QUICK, "steps": 4}, flash=flash)
            self.assertEqual((start["step"], done["step"]), (first, 4))

    def test_forgotten_checkpoint(self):
        self.board(0, clock=VIRTUAL, **QUICK | {"exit": 0})
        self.finished(0)
        self.type(0, "reset")
        self.until("it goes on", lambda: len(self.events(0, "done")) == 2)
        self.type(0, "forget")
        self.until("it says so", lambda: any("forgotten" in line for line in self.lines(0)))
        self.type(0, "reset")
        self.until("it starts afresh", lambda: len(self.events(0, "done")) == 3)
        self.assertEqual([e["step"] for e in self.events(0, "start")], [0, 2, 0])

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

    def test_lenet5_and_gossip_in_320_kB(self):
        """Without encryption, which takes 20 kB more, and with no snapshot of the parameters."""
        self.alone("cortex-m7", model="lenet5", batch=1, window=4096, steps=5, eval_samples=10,
                   ram=SMALL_RAM_BYTES)
        plan = self.events(0, "plan")[0]
        self.assertLessEqual(plan["total_bytes"], 280_000)
        self.assertLessEqual(plan["total_bytes"] + plan["network_bytes"] + plan["static_bytes"] +
                             STACK_BYTES, 320 * 1024)

    def test_real_board_does_not_link_without_entropy(self):
        _, said = build("cortex-m7", "cortex-m7-real", "-DUWASA_EMULATOR=OFF", check=False)
        self.assertIn("uw_machine_entropy", said)
        self.assertIn("undefined reference", said)
        self.assertEqual(set(re.findall(r"undefined reference to `(\w+)'", said)),
                         {"uw_machine_entropy"})
        self.assertTrue(os.path.isdir(os.path.join(ROOT, "build", "cortex-m7-real")))


if __name__ == "__main__":
    main(sys.argv)
