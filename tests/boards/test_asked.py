#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A board that is asked: `uwasa status` of it while it trains, and while its flash is being erased.

usage: test_asked.py PROGRAM [-k CASE]
"""
import json
import sys

from machines import Boards, Debugger, build, main, symbols

ERASE_US = 25000                    # a sector; a checkpoint has two hundred
LONGEST_POLL_US = 1000000


class Asked(Boards):
    def ask(self, i, *options):
        return self.run_program("status", self.address(i), "--key", "run.key", "--run", "test",
                                *options).stdout

    def member(self, i):
        members = json.loads(self.ask(i, "--json"))["members"]
        self.assertEqual([m["name"] for m in members], [f"n{i}"])
        return members[0]

    def test_status_of_a_board(self):
        self.board(0, exit=0)
        self.until("it trains", lambda: self.events(0, "step"))
        member = self.member(0)
        print(member, flush=True)
        self.assertEqual(member["state"], "alive")
        self.assertGreater(member["step"], 0)
        self.assertIn("n0", self.ask(0, "--once"))

    def test_status_while_flash_is_erased(self):
        """Its answers come between two sectors' times, while no step is done."""
        self.board(0, exit=0, checkpoint_seconds=1, eval_seconds=0,
                   qemu=["-gdb", f"unix:{self.dir}/gdb,server=on,wait=off"])
        self.until("it trains", lambda: self.events(0, "step"))
        debugger = Debugger(f"{self.dir}/gdb")
        elf, _ = build("cortex-m7")
        debugger.write(symbols(elf)["uw_flash_emulated_erase_us"], ERASE_US.to_bytes(4, "little"))
        debugger.go_on()
        steps = []
        self.until("three answers from one step", lambda: steps.append(self.member(0)["step"]) or
                   steps[-3:] == 3 * steps[-1:])
        print(steps, flush=True)
        self.type(0, "status")
        self.until("it goes on", lambda: self.member(0)["step"] > steps[-1])
        self.until("its console too", lambda: any("longest poll" in line for line in self.lines(0)))
        said = [line for line in self.lines(0) if "longest poll" in line][0].split()
        self.assertLess(int(said[said.index("poll") + 1]), LONGEST_POLL_US)


if __name__ == "__main__":
    main(sys.argv)
