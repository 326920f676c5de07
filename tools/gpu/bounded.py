# SPDX-License-Identifier: Apache-2.0
"""bounded - run a program that may hang, print much or crash, and keep its output

A program gets its own process group, which is killed at the time limit. Its output goes to a file,
whose end is shown if it failed.
"""

import os
import re
import signal
import subprocess
import time

TAIL_LINES = 25
TAIL_BYTES = 2500
MOST_BYTES = 1 << 20
ERROR = re.compile(r"^CMake Error|\berror:|\bfatal\b|^\[  ERROR", re.IGNORECASE)


class Outcome:
    """status: the exit status, negative for a signal; late: killed at its limit."""

    def __init__(self, status, late, seconds, log):
        self.status, self.late, self.seconds, self.log = status, late, seconds, log

    @property
    def good(self):
        return self.status == 0 and not self.late

    @property
    def why(self):
        if self.late:
            return f"killed after {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        return "passed" if self.status == 0 else f"exit status {self.status}"

    @property
    def reason(self):
        """why, and a line of its output about it: the first error, or the last line."""
        words = last_words(self.output())
        return self.why + (f": {words}" if words else "")

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def tail(self):
        """The end of what it printed, short enough for a screen."""
        with open(self.log, "rb") as f:
            f.seek(max(0, os.path.getsize(self.log) - TAIL_BYTES))
            text = f.read().decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-TAIL_LINES:])


def last_words(text):
    """The line of a program's output that names the error, at most 160 characters."""
    lines = text[-MOST_BYTES:].splitlines()
    told = next((i for i, line in enumerate(lines) if ERROR.search(line)), None)
    if told is not None and lines[told].startswith("CMake Error"):     # the message follows it
        text = " ".join(line.strip() for line in lines[told + 1:told + 12])
        return (text.strip().split("  ")[0].split(" Call Stack")[0] or lines[told])[:160]
    line = lines[told] if told is not None else next((s for s in reversed(lines) if s.strip()), "")
    return line.strip()[:160]


def end_group(process):
    """Terminate, then kill the group, including what the program left running."""
    for number, wait_s in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue


def run(command, limit_s, log, env=None, cwd=None):
    """Run a program to its end or limit. If it cannot start, the status is 127."""
    begin = time.monotonic()
    with open(log, "wb") as out:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=subprocess.STDOUT, env=env, cwd=cwd,
                                       start_new_session=True)
        except OSError as why:
            out.write(f"{command[0]}: {why.strerror}\n".encode())
            return Outcome(127, False, 0.0, log)
        late = False
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            late = True
        except BaseException:       # Ctrl-C: leave nothing running
            end_group(process)
            raise
        end_group(process)
    return Outcome(process.returncode, late, time.monotonic() - begin, log)
