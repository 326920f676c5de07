# SPDX-License-Identifier: Apache-2.0
"""Boards as QEMU machines, beside native nodes (../e2e/fleet.py): how the tests of boards build the
firmware, start a machine, read what its console says and end it.

A test's first argument is the program uwasa. What a machine or a compiler is missing for ends a test
with status 77 and a sentence."""
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from fleet import Fleet, free_ports  # noqa: E402,F401  pylint: disable=wrong-import-position

MACHINE = {"cortex-m4f": "mps2-an386", "cortex-m7": "mps2-an500", "cortex-m55": "mps3-an547"}
SOURCES = os.path.join(ROOT, ".cache", "src")
DEADLINE_SECONDS = 420              # nothing may hang; emulated, on a shared machine
# Beside others: a board's clock may lag behind when its host is busy, never run ahead, and counts no
# time in which the machine did not run: no watchdog barks at a busy host.
SHARED = ["-icount", "shift=2,align=off,sleep=on"]
REAL = []                           # the host's clock: all end at one time
VIRTUAL = ["-icount", "shift=5,align=off,sleep=off"]    # time is what the instructions took
STACK_BYTES = 7680                  # of a board


def needs():
    """Why these tests cannot run here; None: they can."""
    for program in ("arm-none-eabi-gcc", "qemu-system-arm", "cmake", "ninja"):
        if shutil.which(program) is None:
            return f"no {program}; tools/setup boards installs it"
    for part in ("lwip", "mbedtls", "nanopb"):
        if not os.path.isdir(os.path.join(SOURCES, part)):
            return f"no sources of {part}; tools/setup boards fetches them"
    return None


def build(preset, folder=None, *options, target="gossip_node", check=True):
    """Build the firmware once however many tests ask; its ELF file, and what the build said."""
    folder = os.path.join(ROOT, "build", folder or preset)
    os.makedirs(folder, exist_ok=True)
    with open(folder + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = ""
        for command in (["cmake", "--preset", preset, "-B", folder, *options],
                        ["cmake", "--build", folder, "-j", "2", "--target", target]):
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            said += done.stdout + done.stderr
            if done.returncode != 0:
                if check:
                    raise RuntimeError(f"{' '.join(command)}:\n{said}")
                break
    return os.path.join(folder, "apps", "firmware", target + ".elf"), said


def symbols(elf):
    """{symbol: address} of an ELF file."""
    lines = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return {line.split()[-1]: int(line.split()[0], 16) for line in lines if len(line.split()) == 3}


class Debugger:
    """QEMU's GDB server: enough of its protocol to write memory and to send the processor
    elsewhere. The machine stands still until go_on."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.heard = b""
        self.ask("qXfer:features:read:target.xml:0,fff")    # or registers are not written

    def ask(self, text):
        self.socket.sendall(b"$%s#%02x" % (text.encode(), sum(text.encode()) % 256))
        while True:
            found = re.search(rb"\$([^#]*)#..", self.heard, re.DOTALL)
            if not found:
                self.heard += self.socket.recv(4096)
                continue
            self.heard = self.heard[found.end():]
            self.socket.sendall(b"+")
            if not found.group(1).startswith((b"T", b"S")):     # that the machine has stopped
                return found.group(1).decode()

    def order(self, text):
        answer = self.ask(text)
        assert answer == "OK", f"{text}: {answer}"

    def write(self, address, data):
        self.order(f"M{address:x},{len(data):x}:{data.hex()}")

    def go_on(self):
        self.order("D")
        self.socket.close()

    def go_on_at(self, address):
        self.order(f"Pf={address.to_bytes(4, 'little').hex()}")
        self.go_on()


def main(module_argv):
    """What each test program ends with."""
    why = needs()
    if why is not None:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(module="__main__", argv=[module_argv[0], "-v", *module_argv[2:]])


class Boards(Fleet):
    """A fleet of which some nodes are boards. Ports 0.. are those of nodes and boards alike."""
    firmware = ()                   # another folder of build/, and options, as build() takes them

    def setUp(self):
        super().setUp()
        self.end = time.monotonic() + DEADLINE_SECONDS
        with open(os.path.join(self.dir, "run.key"), encoding="utf-8") as f:
            self.key = f.read().strip()

    def tearDown(self):
        for p in self.processes.values():
            if p.stdin is not None:
                p.stdin.close()
        super().tearDown()

    def address(self, i):
        """How others reach node i."""
        return f"127.0.0.1:{self.ports[i]}"

    def board(self, i, seeds=(), preset="cortex-m7", qemu=(), clock=SHARED, **settings):
        """Board number i: seeds are numbers of nodes, or addresses. Its events are in n<i>.jsonl."""
        elf, _ = build(preset, *self.firmware)
        words = {"name": f"n{i}", "run": "test", "key": self.key, "events": "json",
                 "gateway": "10.0.2.2", "loopback": "10.0.2.2", "advertise": self.address(i),
                 "seeds": ",".join(s if isinstance(s, str) else self.address(s) for s in seeds),
                 "exit": 1, **settings}
        path = os.path.join(self.dir, f"n{i}.settings")
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(
                name, flags, 0o600)) as f:
            f.writelines(f"{key}={value}\n" for key, value in words.items() if value != "")
        command = ["qemu-system-arm", "-M", MACHINE[preset], "-display", "none", "-monitor", "none",
                   "-qmp", f"unix:{self.dir}/q{i},server=on,wait=off", "-serial", "stdio",
                   "-semihosting-config", f"enable=on,target=native,arg=fw,arg=@n{i}.settings",
                   "-nic", f"user,hostfwd=udp:127.0.0.1:{self.ports[i]}-:4433",
                   *clock, *qemu, "-kernel", elf]
        with open(os.path.join(self.dir, f"n{i}.err"), "a", encoding="utf-8") as err, \
                open(os.path.join(self.dir, f"n{i}.jsonl"), "a", encoding="utf-8") as out:
            self.processes[i] = subprocess.Popen(command, cwd=self.dir, stdin=subprocess.PIPE,
                                                 stdout=out, stderr=err)

    def lines(self, i):
        """What node i has said, line by line; the last may be on its way."""
        path = os.path.join(self.dir, f"n{i}.jsonl")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().split("\n")[:-1]

    def events(self, i, kind=None):
        """As in Fleet; a board's console also says what is no JSON."""
        found = []
        for line in self.lines(i):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if kind in (None, event["event"], event.get("kind")):
                found.append(event)
        return found

    def type(self, i, line):
        """Type a line on a board's console."""
        self.processes[i].stdin.write((line + "\n").encode())
        self.processes[i].stdin.flush()

    def qmp(self, i, command):
        """One command to QEMU's monitor."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(os.path.join(self.dir, f"q{i}"))
            f = s.makefile("rw", encoding="utf-8")
            for execute in ("qmp_capabilities", command):
                f.write(json.dumps({"execute": execute}) + "\n")
                f.flush()
                while True:
                    answer = json.loads(f.readline())
                    if "error" in answer:
                        raise RuntimeError(answer["error"]["desc"])
                    if "return" in answer:
                        break

    def until(self, what, condition):
        """As in Fleet; a machine that has ended with an error ends the wait."""
        def looked():
            for i, p in self.processes.items():
                self.assertIn(p.poll(), (None, 0, -9),
                              f"n{i} ended while waiting for {what}: {self.lines(i)[-5:]} "
                              f"{self.text(i)[-500:]}")
            return condition()
        super().until(what, looked)

    def finished(self, i):
        """Wait for node i's done event; a board then stays or exits as its settings say."""
        self.until(f"n{i} is done", lambda: self.events(i, "done"))
        return self.events(i, "done")[-1]
