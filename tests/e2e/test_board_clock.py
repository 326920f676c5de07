#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A board's clock goes right while its emulator waits for the host: interrupts are lost then.

usage: test_board_clock.py MACHINE FIRMWARE"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

TRAIN_SECONDS = 5
PAUSE_SECONDS = 3


def main():
    machine, firmware = sys.argv[1:]
    if shutil.which("qemu-system-arm") is None or not os.path.exists(firmware):
        print("skipped: needs qemu-system-arm and", firmware)
        return 77
    words = ["fw", "name=clock", "events=json", f"seconds={TRAIN_SECONDS}", "eval_seconds=0",
             "eval_samples=1", "consensus_rounds=0", "exit=1"]
    board = subprocess.Popen(
        ["qemu-system-arm", "-M", machine, "-display", "none", "-monitor", "none", "-serial",
         "stdio", "-nic", "none", "-kernel", firmware, "-semihosting-config",
         ",".join(["enable=on,target=native"] + ["arg=" + word for word in words])],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        line = ""
        while '"event":"step"' not in line:
            line = board.stdout.readline()
            assert line != "", "the board ended before its first step"
        before, began = json.loads(line)["seconds"], time.monotonic()
        board.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_SECONDS)
        board.send_signal(signal.SIGCONT)
        done = [json.loads(line) for line in board.stdout if line.startswith('{"event":"done"')]
        host = time.monotonic() - began
    finally:
        board.kill()
        board.wait()
    gone = done[0]["seconds"] - before
    print(f"{machine}: {gone:.1f} s for the board, {host:.1f} s for the host")
    assert gone >= host - 0.5 * PAUSE_SECONDS, "the board has lost the pause"
    assert gone <= host + 1.0, "the board's clock runs ahead"
    return 0


if __name__ == "__main__":
    sys.exit(main())
