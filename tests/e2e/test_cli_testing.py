#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a test that takes long: how far it is, on a terminal; that it was interrupted.

usage: test_cli_testing.py PROGRAM
"""
import os
import re
import signal
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
SLOW = ["--model", "fedavg-cnn", "--backend", "ref", "--threads", "1", "--batch", "1"]


def check(what, *said):
    if not what:
        sys.exit("\n".join(str(x) for x in said))


def watch(*arguments):
    """Run it with a terminal as standard error; at the first sign of a test interrupt it. Returns exit
    status, standard output, and what the terminal got."""
    terminal, end = os.openpty()
    with subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=end,
                          text=True) as process:
        os.close(end)
        seen = b""
        try:
            while data := os.read(terminal, 4096):
                told = b"testing " in seen
                seen += data
                if b"testing " in seen and not told:
                    process.send_signal(signal.SIGINT)
        except OSError:
            pass                        # the other end is closed
        out = process.communicate(timeout=60)[0]
    os.close(terminal)
    return process.returncode, out, seen.decode()


def main():
    status, out, seen = watch("train", *SLOW, "--steps", "2", "--save", "saved")
    check(re.search(r"testing \d+/\d+ samples  step 2  \d+ samples/s  ETA \d+:\d\d", seen), seen)
    check(status == 0 and "interrupted in the test after step 2 of 2, saved; --resume" in seen, seen)
    check("interrupted    in the test after step 2 of 2\n" in out, out)
    check("test accuracy" not in out and os.path.getsize("saved") > 0, out)
    status, out, seen = watch("train", *SLOW, "--steps", "2")
    check(status == 1 and "interrupted in the test after step 2 of 2, nothing is saved" in seen, seen)
    status, out, seen = watch("eval", *SLOW, "--weights", "saved")
    check(re.search(r"testing \d+/\d+ samples", seen), seen)
    check(status == 1 and "digits: interrupted" in seen, seen)
    done = subprocess.run([PROGRAM, "train", *SLOW, "--steps", "2", "--save", "saved", "--resume",
                           "--eval-samples", "25"], capture_output=True, text=True, timeout=60, check=True)
    check(re.search(r"tested on      25 of \d+ samples\n", done.stdout), done.stdout)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as here:
        os.chdir(here)
        main()
